"""The record of OSDs: read back, made into means and rates, refused with the line where damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.formats.ceph.counters import CounterDump, OsdPerf, osd_rates, parse_ceph_counters
from leadline.formats.json_lines import Missed
from leadline.formats.result import FormatError

RECORDED = Path(__file__).parents[3] / "recorded" / "bottleneck"
STAMP = {"at": "2026-11-21T00:00:00.000+00:00", "elapsed_s": 0.0}


def log(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps({**STAMP, **one}).encode() + b"\n" for one in lines)


def dump(elapsed_s: float, **osds: dict[str, Any]) -> dict[str, Any]:
    by_number = {name.removeprefix("osd"): one for name, one in osds.items()}
    return {"elapsed_s": elapsed_s, "hosts": {"0": "h"}, "osds": by_number, "failed": {}}


def test_means_are_of_what_happened_between_the_dumps() -> None:
    first = {"osd.op": 1000, "osd.op_latency": [1000, 50.0], "bluestore.read_lat": [5, 1.0]}
    last = {"osd.op": 1400, "osd.op_latency": [1400, 52.0], "bluestore.read_lat": [5, 1.0]}
    (rates,) = osd_rates(parse_ceph_counters(log(dump(0, osd0=first), dump(4, osd0=last))))
    assert (rates.osd, rates.host, rates.seconds) == (0, "h", 4)
    assert rates.counts_per_s["osd.op"] == 100
    assert rates.rates["osd.op_latency"] == 100
    assert rates.means_s == {"osd.op_latency": pytest.approx(0.005)}


def test_an_osd_that_was_started_anew_or_came_later_has_no_rates() -> None:
    content = log(
        dump(0, osd0={"osd.op": 9}, osd1={"osd.op": 9, "osd.op_latency": [9, 9.0]}),
        dump(
            1,
            osd0={"osd.op": 10},
            osd1={"osd.op": 9, "osd.op_latency": [3, 1.0]},
            osd2={"osd.op": 5},
        ),
    )
    assert [one.osd for one in osd_rates(parse_ceph_counters(content))] == [0]


def test_one_dump_gives_no_rates() -> None:
    assert osd_rates(parse_ceph_counters(log(dump(0, osd0={"osd.op": 1})))) == ()
    assert osd_rates(()) == ()


def test_missed_dumps_and_commit_latencies() -> None:
    content = log(
        {"error": "no answer"},
        {"perf": {"0": [2_000_000, 0], "1": [0, 0]}},
        {"perf": {"0": [4_000_000, 0]}},
    )
    missed, *_ = samples = parse_ceph_counters(content)
    assert isinstance(missed, Missed)
    assert missed.reason == "no answer"
    perfs = [sample for sample in samples if isinstance(sample, OsdPerf)]
    assert [perf.commit_s for perf in perfs] == [{0: 0.002, 1: 0.0}, {0: 0.004}]


@pytest.mark.parametrize(
    ("damage", "where"),
    [
        (b"{", "line 2"),
        (b"7", "line 2"),
        ({"nothing": 1}, "line 2"),
        ({"osds": []}, "line 2.osds"),
        ({"osds": {"x": {}}}, "line 2.osds.x"),
        ({"osds": {"\u00b2": {}}}, "line 2.osds."),
        ({"osds": {"0": {"osd.op": -1}}}, "line 2.osds.0.osd.op"),
        ({"osds": {"0": {"osd.op_latency": [1]}}}, "line 2.osds.0.osd.op_latency"),
        ({"osds": {"0": {"osd.op_latency": [1, "1"]}}}, "line 2.osds.0.osd.op_latency"),
        ({"osds": {}, "hosts": {"0": 1}}, "line 2"),
        ({"perf": {"0": [1]}}, "line 2.perf.0"),
        ({"error": 1}, "line 2.error"),
        ({"perf": {}, "elapsed_s": None}, "line 2.elapsed_s"),
    ],
)
def test_damage_is_reported_with_its_line(damage: bytes | dict[str, Any], where: str) -> None:
    second = damage + b"\n" if isinstance(damage, bytes) else log(damage)
    with pytest.raises(FormatError) as refused:
        parse_ceph_counters(log({"perf": {}}) + second)
    assert refused.value.fact.startswith(where)


def test_recorded_osds_did_what_the_client_saw() -> None:
    content = (RECORDED / "32-randread-quota" / "ceph-counters.jsonl").read_bytes()
    samples = parse_ceph_counters(content)
    assert isinstance(samples[0], CounterDump)
    assert isinstance(samples[1], OsdPerf)
    assert isinstance(samples[-1], CounterDump)
    rates = osd_rates(samples)
    assert [one.host for one in rates] == ["az1-h1", "az2-h1", "az3-h1"]
    # fio did 2254 IOPS for 8 s of the 8 to 9 s between the dumps.
    done = sum(one.counts_per_s["osd.op_r"] * one.seconds for one in rates)
    assert done == pytest.approx(2254 * 8, rel=0.02)
    # Held back by their quota, they let operations wait before a thread took them.
    assert rates[0].means_s["osd.op_before_dequeue_op_lat"] > 0.01
    assert rates[0].means_s["osd.op_process_latency"] < 0.002
