"""The limiting station and the rate it allows, by what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leadline.analysis.bottleneck.evidence import LevelEvidence
from leadline.analysis.predict.facts import Station
from leadline.analysis.predict.limits import limiting_station, most_iops_by_use
from leadline.formats.ceph.counters import OsdRates, osd_rates, parse_ceph_counters
from leadline.formats.host_rates import CpuRates, MachineRates
from leadline.formats.watch_records import Role

RECORDED = Path(__file__).parents[3] / "recorded" / "bottleneck"


def machine(name: str, role: Role, busy: float) -> MachineRates:
    cpu = CpuRates(busy_share=busy, user_share=busy, system_share=0, iowait_share=0, steal_share=0)
    return MachineRates(
        machine=name,
        roles=frozenset([role]),
        begin_s=0,
        end_s=10,
        cores=8,
        cpu=cpu,
        disks={},
        interfaces={},
        groups={},
        processes={},
    )


def osd(number: int, host: str, *, commit_s: float = 0.0, commits: float = 0.0) -> OsdRates:
    name = "bluestore.kv_sync_lat"
    return OsdRates(
        osd=number,
        host=host,
        seconds=10.0,
        means_s={name: commit_s} if commits else {},
        rates={name: commits} if commits else {},
        counts_per_s={},
    )


def level(busy: float, *osds: OsdRates, client: float = 0.2) -> LevelEvidence:
    return LevelEvidence(
        machines=(machine("load", Role.CLIENT, client), machine("a", Role.STORAGE, busy)),
        osds=osds or (osd(0, "a"),),
        on_ceph=True,
        asked=32,
        in_flight=32.0,
    )


def test_the_most_used_machine_bounds_the_rate() -> None:
    """At half of its cores and 1,000 a second, a machine does twice that, and 1.4 times with the
    work that a higher load saves."""
    assert most_iops_by_use(level(0.5), 1000.0) == pytest.approx(2800.0)
    assert most_iops_by_use(level(0.5, client=0.9), 1000.0) == pytest.approx(2800.0)


def test_use_that_was_not_all_measured_bounds_nothing() -> None:
    assert most_iops_by_use(LevelEvidence(), 1000.0) is None
    assert most_iops_by_use(level(0.1), 1000.0) is None
    assert most_iops_by_use(level(0.5, osd(0, "a"), osd(1, "b")), 1000.0) is None
    assert most_iops_by_use(replace(level(0.5), on_lab=True), 1000.0) is None


def test_the_commit_thread() -> None:
    busy = level(0.3, osd(0, "a", commit_s=0.009, commits=100.0))
    assert limiting_station(busy) is Station.COMMIT
    assert most_iops_by_use(busy, 500.0) == pytest.approx(1.4 * 500 / 0.9)
    idle = level(0.3, osd(0, "a", commit_s=0.001, commits=100.0))
    assert limiting_station(idle) is Station.STORAGE


def test_the_station_by_the_suspects() -> None:
    assert limiting_station(level(0.97)) is Station.OSD_CPU
    assert limiting_station(level(0.3, client=0.97)) is Station.CLIENT
    assert limiting_station(LevelEvidence()) is Station.STORAGE
    # On shared cores both are suspected.
    assert limiting_station(replace(level(0.97, client=0.97), on_lab=True)) is Station.OSD_CPU


def test_counters_of_a_lab() -> None:
    """With 32 writes in flight the commit threads of a lab were at work for 69 to 73 % of the time,
    with one read in flight for a thousandth of it."""

    def most(name: str) -> float | None:
        osds = osd_rates(
            parse_ceph_counters((RECORDED / name / "ceph-counters.jsonl").read_bytes())
        )
        assert len(osds) == 3
        return most_iops_by_use(
            replace(level(0.01), osds=tuple(replace(one, host="a") for one in osds)), 1000.0
        )

    assert most("32-randwrite") == pytest.approx(1.4 * 1000 / 0.734, rel=0.01)
    assert most("1-randread") is None
