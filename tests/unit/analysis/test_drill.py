"""Drills on synthetic logs whose times are known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.drill import (
    HOLD_S,
    PhaseName,
    drill_of,
    find_longest_gap,
    find_return,
    mean_of,
)
from leadline.formats.fio.histogram_logs import ROW_S
from tests.unit.analysis.drilled import drilled, marks, rows, sample


def test_an_outage_with_slow_recovery_has_its_times_and_phases() -> None:
    """4000 IOPS; none for 12 s; 2000 until 30 s, at half the rate; then 4000."""

    def iops(at_s: float) -> float:
        return 4000 if at_s < 0 or at_s >= 30 else 0 if at_s < 12 else 2000

    found = drilled(iops, sample(14, 0), sample(20, 3e6), sample(24, 0), ENDED=20.0, WHOLE=28.0)
    assert found.longest_gap_s == pytest.approx(12 + ROW_S, abs=ROW_S)
    assert found.gap_begin_s == pytest.approx(0.0)
    assert found.back_s == 30
    assert found.lost_ios == pytest.approx(12 * 4000 + 18 * 2000)
    assert found.lost_s == pytest.approx(21)
    assert found.recovered_bytes == pytest.approx(4 * 3e6)
    names = [phase.name for phase in found.phases]
    assert names == list(PhaseName)
    before, during, recovery, after = found.phases
    assert before.iops == pytest.approx(4000)
    assert during.iops == pytest.approx(8 * 2000 / 20)
    assert recovery.iops == pytest.approx(2000)
    assert after.iops == pytest.approx((2 * 2000 + 30 * 4000) / 32)
    assert before.latency_p99_s == pytest.approx(1e-3)
    assert [second.iops for second in found.seconds[:2]] == [4000, 4000]
    silent = found.seconds[10 + 5]
    assert (silent.begin_s, silent.iops, silent.latency_p99_s) == (5, 0.0, None)


def test_a_host_that_is_added_stays_so_nothing_is_undone() -> None:
    found = drilled(lambda at_s: 3000 if 0 <= at_s < 20 else 4000, BEGUN=0.4, WHOLE=20.0)
    assert found.ended_s is None
    assert [(phase.name, phase.iops) for phase in found.phases] == [
        (PhaseName.BEFORE, pytest.approx(4000)),
        (PhaseName.RECOVERY, pytest.approx(3000)),
        (PhaseName.AFTER, pytest.approx(4000)),
    ]
    # The mean from 19 s to 24 s is 95 % of the rate before.
    assert (found.back_s, found.whole_s) == (19, 20.0)


def test_a_rate_that_stays_low_is_never_back() -> None:
    found = drilled(lambda at_s: 4000 if at_s < 0 else 3000, ENDED=20.0)
    assert found.back_s is None
    assert found.whole_s is None
    assert [phase.name for phase in found.phases] == [
        PhaseName.BEFORE,
        PhaseName.DURING,
        PhaseName.AFTER,
    ]
    assert found.recovered_bytes is None
    assert found.lost_ios == pytest.approx(60 * 1000)


def test_a_second_dip_counts() -> None:
    """The OSDs come back at 20 s, and their peering stops I/O again for 3 s."""

    def iops(at_s: float) -> float:
        return 0 if 0 <= at_s < 2 or 20 <= at_s < 23 else 4000

    found = drilled(iops, ENDED=20.0, WHOLE=26.0)
    assert found.back_s == 23
    assert found.longest_gap_s == pytest.approx(3 + ROW_S, abs=ROW_S)


def test_an_event_without_effect_costs_nothing() -> None:
    found = drilled(lambda at_s: 4000, ENDED=20.0, WHOLE=20.0)
    assert (found.back_s, found.lost_ios) == (0, 0)
    assert found.longest_gap_s == pytest.approx(ROW_S)


def test_noise_before_the_event_widens_the_margin() -> None:
    def iops(at_s: float) -> float:
        even = math.floor(at_s) % 2 == 0
        return (4400 if even else 3600) if at_s < 0 else 3300

    found = drilled(iops, ENDED=20.0)
    assert found.floor_iops == pytest.approx(4000 - 2 * 400 * math.sqrt(10 / 9))
    assert found.back_s == 0


def test_without_io_before_the_event_there_is_no_answer() -> None:
    given = tuple(rows(lambda at_s: 4000, -2, 30))
    assert drill_of("t", given, marks(ENDED=20.0)) is None
    assert drill_of("t", (), marks(ENDED=20.0)) is None
    assert drill_of("t", tuple(rows(lambda at_s: 4000, -10, 0)), marks(ENDED=20.0)) is None


@given(
    outage=st.integers(1, 25),
    slow=st.integers(0, 20),
    share=st.floats(0.1, 0.9),
    rate=st.integers(400, 100_000),
)
def test_any_outage_is_measured(outage: int, slow: int, share: float, rate: int) -> None:
    def iops(at_s: float) -> float:
        if at_s < 0 or at_s >= outage + slow:
            return rate
        return 0 if at_s < outage else rate * share

    found = drilled(iops, ENDED=float(outage))
    assert found.longest_gap_s == pytest.approx(outage + ROW_S, abs=1e-6)
    # The last seconds of a dip weigh a fifth of a mean: one of 10 % is within the margin.
    assert found.back_s is not None
    assert outage + slow - HOLD_S <= found.back_s <= outage + slow
    total = sum(second.iops for second in found.seconds)
    expected = sum(row.histogram.count for row in rows(iops, -10, 60))
    assert total == pytest.approx(expected)


@given(st.lists(st.floats(0, 1e6), max_size=50), st.floats(0, 1e6))
def test_from_the_return_on_no_mean_is_below_the_floor(rates: list[float], floor: float) -> None:
    back = find_return(rates, floor)
    if back is None:
        assert len(rates) < HOLD_S or sum(rates[-HOLD_S:]) / HOLD_S < floor * (1 + 1e-9) + 1e-9
        return
    for first in range(back, len(rates) - HOLD_S + 1):
        assert sum(rates[first : first + HOLD_S]) / HOLD_S >= floor * (1 - 1e-9) - 1e-9


def test_only_gaps_that_end_after_the_event_count() -> None:
    assert find_longest_gap([-9.0, -1.0, -0.5, 0.5, 2.0]) == (0.5, 1.5)
    assert find_longest_gap([]) == (0.0, 0.0)


def test_a_mean_has_an_interval_from_two_trials_on() -> None:
    assert mean_of([3.0]).interval is None
    mean = mean_of([2.0, 4.0, 6.0])
    assert mean.value == 4.0
    assert mean.interval == pytest.approx((max(0.0, 4 - 4.302653 * 2 / 3**0.5), 8.968), abs=1e-3)
    assert mean_of([3.0, None]).value is None
    assert mean_of([]).value is None
