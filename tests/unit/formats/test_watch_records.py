"""The record of machines: read back, made into rates, refused with the line where damaged."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.formats.host_rates import machine_rates, rate_series
from leadline.formats.result import FormatError
from leadline.formats.watch_records import HostSample, MissedHostSample, Role, parse_resource_log

RECORDED = Path(__file__).parents[2] / "recorded" / "bottleneck"
LINE: dict[str, Any] = {
    "at": "2026-11-21T00:00:00.000+00:00",
    "elapsed_s": 0.0,
    "machine": "m",
    "roles": ["client"],
    "clock_s": 100.0,
    "cores": 2,
    "hz": 100,
    "cpu": [100, 0, 50, 1000, 20, 0, 10, 5],
}


def line(elapsed_s: float, **changed: Any) -> dict[str, Any]:
    return {**LINE, "elapsed_s": elapsed_s, "clock_s": 100.0 + elapsed_s, **changed}


def log(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)


def recorded(name: str) -> bytes:
    return (RECORDED / name / "resources.jsonl").read_bytes()


def test_shares_of_the_processor_are_of_all_its_time() -> None:
    first = line(0)
    # 400 ticks more: 200 user and nice, 60 system with interrupts, 100 idle, 20 iowait, 20 steal.
    last = line(2, cpu=[250, 50, 90, 1100, 40, 5, 25, 25])
    (rates,) = machine_rates(parse_resource_log(log(first, last)))
    assert rates.cpu is not None
    assert rates.cpu.user_share == pytest.approx(200 / 400)
    assert rates.cpu.system_share == pytest.approx(60 / 400)
    assert rates.cpu.iowait_share == pytest.approx(20 / 400)
    assert rates.cpu.steal_share == pytest.approx(20 / 400)
    assert rates.cpu.busy_share == pytest.approx(280 / 400)
    assert (rates.begin_s, rates.end_s, rates.seconds) == (0, 2, 2)


def test_a_disk_has_utilisation_latency_and_queue() -> None:
    first = {"sda": [10, 0, 80, 100, 20, 0, 160, 50, 0, 1000, 150]}
    # In 4 s: 100 reads of 4 KiB that took 2 s, 300 writes that took 3 s, busy for 1 s of them.
    last = {"sda": [110, 0, 880, 2100, 320, 0, 2560, 3050, 0, 2000, 5150]}
    (rates,) = machine_rates(parse_resource_log(log(line(0, disks=first), line(4, disks=last))))
    disk = rates.disks["sda"]
    assert (disk.read_iops, disk.write_iops, disk.iops) == (25, 75, 100)
    assert disk.read_bps == 25 * 4096
    assert disk.utilisation == 0.25
    assert disk.in_flight == 1.25
    assert disk.read_latency_s == 0.02
    assert disk.write_latency_s == 0.01
    assert disk.latency_s == pytest.approx(0.0125)


def test_milliseconds_of_a_disk_that_ran_over() -> None:
    """The kernel prints them in 32 bits."""
    first = {"sda": [10, 0, 80, 2**32 - 500, 0, 0, 0, 0, 0, 2**32 - 100, 0]}
    last = {"sda": [20, 0, 160, 500, 0, 0, 0, 0, 0, 400, 0]}
    (rates,) = machine_rates(parse_resource_log(log(line(0, disks=first), line(1, disks=last))))
    assert rates.disks["sda"].read_latency_s == 0.1
    assert rates.disks["sda"].utilisation == 0.5


def test_a_device_that_was_replaced_has_no_rates() -> None:
    first, last = {"sda": [10] * 11}, {"sda": [9] * 11}
    (rates,) = machine_rates(parse_resource_log(log(line(0, disks=first), line(1, disks=last))))
    assert rates.disks == {}


def test_a_series_leaves_steps_out_that_are_too_short_for_ticks() -> None:
    samples = parse_resource_log(log(line(0), line(1), line(1.004), line(2), line(2.1)))
    assert [(one.begin_s, one.end_s) for one in rate_series(samples)["m"]] == [(0, 1), (1, 2)]


def test_what_a_line_leaves_out_is_as_in_the_line_before() -> None:
    disks = {"sda": [1] * 11, "sdb": [2] * 11}
    moved = {"sdb": [3] * 11}
    content = log(
        line(0, disks=disks, interfaces={"eth0": [0, 0, 0, 0]}, links_bps={"eth0": 1000.0}),
        line(1),
        line(2, disks=moved, interfaces={"eth0": [1000, 5, 200, 5]}),
    )
    samples = parse_resource_log(content)
    middle, last = samples[1], samples[2]
    assert isinstance(middle, HostSample)
    assert isinstance(last, HostSample)
    assert middle.disks["sdb"].reads == 2
    assert (last.disks["sda"].reads, last.disks["sdb"].reads) == (1, 3)
    (rates,) = machine_rates(samples)
    # What did nothing is unknown as zero.
    assert set(rates.disks) == {"sdb"}
    assert rates.interfaces["eth0"].received_bps == 500
    assert rates.interfaces["eth0"].link_bps == 1000


def test_the_machines_own_clock_counts() -> None:
    late = line(3, clock_s=101.0, processes={"osd.0": [7, 1, 150, 50]})
    samples = parse_resource_log(log(line(0, processes={"osd.0": [7, 1, 100, 50]}), late))
    (rates,) = machine_rates(samples)
    assert rates.processes == {"osd.0": 0.5}


def test_a_process_that_was_started_anew_has_no_rate() -> None:
    first = line(0, processes={"osd.0": [7, 1, 100, 50], "osd.1": [8, 1, 0, 0]})
    last = line(1, processes={"osd.0": [7, 2, 101, 50], "osd.1": [8, 1, 10, 0]})
    (rates,) = machine_rates(parse_resource_log(log(first, last)))
    assert rates.processes == {"osd.1": 0.1}


def test_periods_of_a_group_in_which_it_was_held_back() -> None:
    reported = {"quota_us": 1500, "period_us": 10000, "usage_us": 0}
    first = {"osd.0": {**reported, "periods": 100, "throttled": 10, "throttled_us": 0}}
    last = {"osd.0": {**reported, "periods": 300, "throttled": 160, "throttled_us": 500_000}}
    last["osd.0"]["usage_us"] = 300_000
    (rates,) = machine_rates(parse_resource_log(log(line(0, groups=first), line(2, groups=last))))
    group = rates.groups["osd.0"]
    assert group.throttled_share == 0.75
    assert group.held_back_s_per_s == 0.25
    assert group.cores_used == 0.15
    assert group.quota_cores == 0.15


def test_a_stretch_without_two_samples_takes_all() -> None:
    samples = parse_resource_log(log(line(0), line(1, cpu=[200] * 8), line(2, cpu=[300] * 8)))
    (inside,) = machine_rates(samples, 0.5, 2.5)
    assert (inside.begin_s, inside.end_s) == (1, 2)
    (all_of_it,) = machine_rates(samples, 1.5)
    assert (all_of_it.begin_s, all_of_it.end_s) == (0, 2)
    assert [one.end_s for one in rate_series(samples)["m"]] == [1, 2]


def test_one_sample_and_a_clock_that_is_give_no_rates() -> None:
    assert machine_rates(parse_resource_log(log(line(0)))) == ()
    assert machine_rates(parse_resource_log(log(line(0), line(1, clock_s=100.0)))) == ()
    assert parse_resource_log(b"") == ()


def test_machines_and_missed_samples_are_distinguished() -> None:
    stamp = {key: LINE[key] for key in ("at", "elapsed_s", "machine", "roles")}
    content = log(line(0), {**stamp, "machine": "n", "error": "no route"}, line(1, machine="n"))
    first, missed, other = parse_resource_log(content)
    assert isinstance(missed, MissedHostSample)
    assert missed.reason == "no route"
    assert (first.machine, other.machine) == ("m", "n")


@pytest.mark.parametrize(
    ("damage", "where"),
    [
        (b"{", "line 2"),
        (b"[]", "line 2"),
        (b"\xff\xfe", "line 2"),
        ({"machine": 7}, "line 2.machine"),
        ({"roles": ["king"]}, "line 2.roles"),
        ({"cpu": [1, 2]}, "line 2.cpu"),
        ({"cpu": [1, 2, 3, 4, 5, 6, 7, -8]}, "line 2.cpu[7]"),
        ({"disks": {"sda": [1]}}, "line 2.disks.sda"),
        ({"interfaces": {"eth0": ["1", 2, 3, 4]}}, "line 2.interfaces.eth0[0]"),
        ({"groups": {"g": {"periods": 1.5}}}, "line 2.groups.g.periods"),
        ({"processes": {"p": None}}, "line 2.processes.p"),
        ({"cores": 0}, "line 2"),
        ({"clock_s": "now"}, "line 2.clock_s"),
        ({"unread": "all"}, "line 2.unread"),
        ({"error": 7}, "line 2.error"),
    ],
)
def test_damage_is_reported_with_its_line(damage: bytes | dict[str, Any], where: str) -> None:
    second = damage + b"\n" if isinstance(damage, bytes) else log(line(1, **damage))
    with pytest.raises(FormatError) as refused:
        parse_resource_log(log(line(0)) + second)
    assert refused.value.fact.startswith(where)


@given(data=st.data())
def test_damage_anywhere_is_an_error_or_harmless(data: st.DataObject) -> None:
    content = bytearray(recorded("32-randread-quota")[:6000].rpartition(b"\n")[0])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(1, 4))] = data.draw(
            st.sampled_from([b"", b"9", b"-", b"0", b"e99", b'"', b"}", b"null", b"\n", b"1e-320"])
        )
    try:
        samples = parse_resource_log(bytes(content))
    except FormatError:
        return
    for rates in (*machine_rates(samples), *rate_series(samples).get("vm", ())):
        numbers = [
            *(asdict(rates.cpu).values() if rates.cpu else ()),
            *rates.processes.values(),
            *(value for one in rates.disks.values() for value in asdict(one).values()),
            *(value for one in rates.groups.values() for value in asdict(one).values()),
            *(value for one in rates.interfaces.values() for value in asdict(one).values()),
        ]
        assert all(value is None or 0 <= value < math.inf for value in numbers)


def test_a_recorded_trial_shows_what_was_done() -> None:
    samples = parse_resource_log(recorded("32-randread-quota"))
    assert len(samples) >= 8
    (rates,) = machine_rates(samples, 0.5, 8.0)
    assert rates.roles == {Role.CLIENT, Role.STORAGE}
    assert rates.cores == 2
    # The quota was 0.15 cores, and what the OSDs used by their own count is as much.
    for number in range(3):
        group = rates.groups[f"osd.{number}"]
        assert group.quota_cores == 0.15
        assert group.throttled_share is not None
        assert 0.4 < group.throttled_share < 1
        assert 0.12 < rates.processes[f"osd.{number}"] < 0.16


def test_an_unloaded_recorded_trial_uses_less() -> None:
    ((deep,), (shallow,)) = (
        machine_rates(parse_resource_log(recorded(name)), 0.5, 8.0)
        for name in ("32-randwrite", "1-randread")
    )
    assert deep.processes["osd.0"] > 2 * shallow.processes["osd.0"] > 0
    assert deep.groups == {}
