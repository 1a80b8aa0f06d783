"""Readings of /proc/stat and of control groups, as containers of both versions have them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.engines.fio.processor import busiest, parse_reading, processor_between

V2 = """\
ms {ms}
processors 8
cpu  {user} 0 100 {idle} 0 0 0 {steal} 0 0
cpu.max 200000 100000
cpu.stat usage_usec {used_us}
cpu.stat user_usec 1
cpu.stat nr_throttled 4
cpu.stat throttled_usec {throttled_us}
"""
V1 = """\
ms {ms}
processors 8
cpu  {user} 0 100 {idle} 0 0 0 {steal} 0 0
cpu/cpu.cfs_quota_us 200000
cpu/cpu.cfs_period_us 100000
cpu/cpu.stat nr_periods 1
cpu/cpu.stat throttled_time {throttled_ns}
cpuacct/cpuacct.usage {used_ns}
"""
BARE = "ms {ms}\nprocessors 4\ncpu  {user} 0 100 {idle} 0 0 0 {steal} 0 0\n"


def told(
    text: str,
    *,
    at_s: float,
    busy: int,
    idle: int,
    used_s: float = 0,
    throttled_s: float = 0,
    steal: int = 0,
) -> str:
    return text.format(
        ms=round(at_s * 1e3),
        user=busy,
        idle=idle,
        steal=steal,
        used_us=round(used_s * 1e6),
        used_ns=round(used_s * 1e9),
        throttled_us=round(throttled_s * 1e6),
        throttled_ns=round(throttled_s * 1e9),
    )


@pytest.mark.parametrize("text", [V1, V2], ids=["v1", "v2"])
def test_a_container_is_busy_by_its_limit_and_told_how_long_it_was_held_back(text: str) -> None:
    before = told(text, at_s=1000, busy=0, idle=0, used_s=5, throttled_s=1)
    after = told(text, at_s=1010, busy=3000, idle=5000, used_s=20, throttled_s=3, steal=80)
    found = processor_between(before, after)
    assert found is not None
    assert found.cores == 2
    assert found.busy_share == pytest.approx(0.75), "15 s of 2 x 10 s"
    assert found.engine_cpu_s == pytest.approx(15)
    assert found.throttled_share == pytest.approx(0.2)
    assert found.steal_share == pytest.approx(80 / 8080, rel=1e-2)


def test_held_back_on_several_processors_at_once_is_held_back_all_the_time() -> None:
    before = told(V2, at_s=0, busy=0, idle=0)
    found = processor_between(before, told(V2, at_s=10, busy=1, idle=9, throttled_s=35))
    assert found is not None
    assert found.throttled_share == 1.0


def test_a_guest_is_busy_by_its_machine() -> None:
    before = told(BARE, at_s=0, busy=0, idle=0)
    after = told(BARE, at_s=10, busy=1000, idle=3000)
    found = processor_between(before, after)
    assert found is not None
    assert (found.cores, found.throttled_share) == (4, None)
    assert found.busy_share == pytest.approx(0.25)
    assert found.engine_cpu_s == pytest.approx(10)


def test_without_a_limit_a_container_may_use_the_machine() -> None:
    assert parse_reading(told(V2, at_s=0, busy=0, idle=0).replace("200000", "max", 1)).allowed == 8
    assert parse_reading(told(V1, at_s=0, busy=0, idle=0).replace("200000", "-1", 1)).allowed == 8


def test_less_than_one_processor_is_still_one() -> None:
    half = V2.replace("cpu.max 200000", "cpu.max 50000")
    before = told(half, at_s=0, busy=0, idle=0)
    found = processor_between(
        before, told(half, at_s=10, busy=0, idle=100, used_s=5, throttled_s=9)
    )
    assert found is not None
    assert found.cores == 1
    assert found.busy_share == pytest.approx(1.0)


@pytest.mark.parametrize("text", ["", "ms", "ms 1\nprocessors x\ncpu 1 2 3", "cpu.max\n"])
def test_what_is_not_understood_is_not_told(text: str) -> None:
    good = told(V2, at_s=0, busy=0, idle=0)
    assert processor_between(text, good) is None
    assert processor_between(good, text) is None


@given(st.text(alphabet="ms processorcu.maxtahe_0123456789 \n/-", max_size=200))
def test_any_words_are_a_reading_or_none(text: str) -> None:
    processor_between(text, text)


def test_of_several_runners_the_one_with_least_to_spare_is_told() -> None:
    def one(used_s: float) -> object:
        before = told(V2, at_s=0, busy=0, idle=0)
        return processor_between(before, told(V2, at_s=10, busy=1, idle=9, used_s=used_s))

    found = busiest([one(4), None, one(16), one(8)])  # type: ignore[list-item]
    assert found is not None
    assert found.busy_share == pytest.approx(0.8)
    assert found.engine_cpu_s == pytest.approx(28)
    assert busiest([None]) is None
