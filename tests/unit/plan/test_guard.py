"""The guard of a plan: budgets that become rates, quiet hours, and faults."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from leadline.engines.fio.job import job_text, prefill_text
from leadline.formats.fio.job_file import options_of
from leadline.plan.footprint import target_footprint
from leadline.plan.guard import Guard, parse_windows
from leadline.plan.guard_rules import guarded_course, limited
from leadline.plan.loader import Overrides, PlanInvalid, load_plan
from leadline.plan.models import Plan
from leadline.plan.workload import EngineChoice
from leadline.runner.ports import Shape

MIXED = {"name": "m", "pattern": "randrw", "read_share": 70, "numjobs": 2, "iodepth": 8}
LIMIT = {"name": "p99", "url": "http://localhost:9090", "query": "up", "above": 1}


def load(folder: Path, guard: dict[str, Any], **keys: Any) -> Plan:
    path = folder / "plan.yaml"
    base = {"targets": ["dir:/mnt"], "workloads": [MIXED], "defaults": {"runtime": "10s"}}
    path.write_text(yaml.safe_dump({"seed": 1, **base, **keys, "guard": guard}, sort_keys=False))
    return load_plan(path, Overrides())


def faults(folder: Path, guard: dict[str, Any], **keys: Any) -> str:
    with pytest.raises(PlanInvalid) as raised:
        load(folder, guard, **keys)
    return "\n".join(raised.value.context)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("guard", "clients", "rate"),
    [
        ({"iops": 1000}, 1, "1433600,614400"),
        ({"iops": 1000}, 4, "358400,153600"),
        ({"bandwidth": "1M"}, 1, "367002,157286"),
        ({"iops": 10**6, "bandwidth": "1M"}, 1, "367002,157286"),
    ],
)
def test_a_budget_is_shared_by_clients_jobs_and_directions(
    tmp_path: Path, guard: dict[str, Any], clients: int, rate: str
) -> None:
    plan = load(tmp_path, guard)
    (cell,) = plan.cells
    workload = limited(cell.workload, plan.guard, clients)
    options = options_of(job_text(workload, Shape.FILES, 1))[workload.phases[0].name]
    assert options["rate"] == rate
    jobs = int(options["numjobs"])
    total = clients * jobs * sum(map(int, rate.split(",")))
    budget = plan.guard.budget_bps(4096) if plan.guard else None
    assert budget is not None
    assert total == pytest.approx(budget, rel=1e-4)
    assert "rate" not in job_text(cell.workload, Shape.FILES, 1), "cells of plans stay as they are"


def test_an_open_loop_keeps_its_rate(tmp_path: Path) -> None:
    item = {"name": "o", "pattern": "randwrite", "levels": [{"rate": 100}]}
    plan = load(tmp_path, {"iops": 100}, workloads=[item])
    text = job_text(limited(plan.cells[0].workload, plan.guard, 1), Shape.FILES, 1)
    assert "rate_iops=" in text
    assert "\nrate=" not in text, "fio refuses both"


def test_the_prefill_keeps_the_budget(tmp_path: Path) -> None:
    plan = load(tmp_path, {"bandwidth": "10M"})
    footprint = target_footprint(plan, "dir:/mnt")
    assert len(footprint.files) == 2
    limit = {"limit_bps": 10 << 20}
    text = prefill_text(
        type(footprint)(**{key: getattr(footprint, key) for key in footprint.__slots__} | limit),
        Shape.FILES,
        engine=EngineChoice.LIBAIO,
        direct=True,
    )
    assert f"rate={5 << 20}" in text, "its two files are written at the same time"


@pytest.mark.parametrize(
    ("guard", "keys", "expected"),
    [
        ({}, {}, "needs one at least of iops, bandwidth"),
        ({"iops": 1}, {}, "0.15 I/Os per second for each job and direction"),
        ({"ceph_health": "HEALTH_ERR"}, {}, "no connection to a Ceph cluster"),
        ({"ceph_health": "slow ops"}, {}, "is no code of Ceph's health"),
        ({"quiet_hours": "08:00-08:00"}, {}, "begins where it ends"),
        ({"quiet_hours": "mon-fry 08:00-09:00"}, {}, "the days are mon, tue"),
        ({"quiet_hours": ["22:00-06:00", "tue 05:00-07:00"]}, {}, "overlap"),
        ({"quiet_hours": ["sun 23:00-02:00", "mon 01:00-03:00"]}, {}, "overlap"),
        ({"quiet_hours": "00:00-24:00"}, {}, "leaves no time"),
        ({"quiet_hours": "00:00-23:59", "iops": 9e8}, {"defaults": {"runtime": "2m"}}, "2 min"),
        ({"quiet_hours": "00:00-23:00", "bandwidth": "100k"}, {}, "the prefill of"),
        ({"quiet_hours": "08:00-18:00", "zone": "Mars/Phobos"}, {}, "no time zone"),
        ({"prometheus": [{**LIMIT, "below": 2}]}, {}, "reversed"),
        ({"prometheus": [{**LIMIT, "above": float("nan")}]}, {}, "finite"),
        ({"prometheus": [{**LIMIT, "url": "http://a:b@host"}]}, {}, "use token_file"),
        ({"prometheus": [{**LIMIT, "url": "host:9090"}]}, {}, "is no address"),
        ({"prometheus": [{**LIMIT, "url": "http://host:99999"}]}, {}, "Port out of range"),
        ({"prometheus": [LIMIT, {**LIMIT}]}, {}, "two limits are called 'p99'"),
        ({"prometheus": [LIMIT], "silence": "5s", "every": "10s"}, {}, "shorter than every"),
        ({"prometheus": [{**LIMIT, "forr": 1}]}, {}, "did you mean 'for'"),
        (
            {"iops": 50},
            {"workloads": [{"name": "o", "pattern": "read", "levels": [{"rate": 100}]}]},
            "offers 100 IOPS",
        ),
        (
            {"iops": 500},
            {"workloads": [{"name": "o", "pattern": "read", "open_loop": ["50%"]}]},
            "the budget may hide",
        ),
        (
            {"iops": 500},
            {
                "clusters": {"c": {"ceph_conf": "c.conf"}},
                "targets": ["rados:p"],
                "workloads": [{"name": "w", "pattern": "write", "block_size": "4M"}],
            },
            "rados bench has no rate",
        ),
        (
            {"iops": 500},
            {
                "clusters": {"c": {"ceph_conf": "c.conf"}},
                "targets": ["rados:p?engine=fio"],
                "workloads": [{"name": "w", "pattern": "randwrite", "block_size": "4k"}],
            },
            "fio's rados engine has no rate",
        ),
    ],
)
def test_faults(tmp_path: Path, guard: Any, keys: dict[str, Any], expected: str) -> None:
    assert expected in faults(tmp_path, guard, **keys)


def test_all_faults_of_a_guard_at_once(tmp_path: Path) -> None:
    text = faults(tmp_path, {"iops": 0, "quiet_hours": "x", "zone": "y", "prometheus": [{}]})
    assert [key for key in ("iops", "quiet_hours", "zone", "prometheus[0].url") if key in text] == [
        *("iops", "quiet_hours", "zone", "prometheus[0].url")
    ]


def test_a_job_file_has_no_budget(tmp_path: Path) -> None:
    (tmp_path / "own.fio").write_text("[own]\nrw=read\nsize=1M\nruntime=1s\ntime_based=1\n")
    item = {"name": "own", "job_file": "own.fio"}
    assert "used unchanged" in faults(tmp_path, {"iops": 5}, workloads=[item])
    assert load(tmp_path, {"quiet_hours": "08:00-09:00"}, workloads=[item]).guard


def test_the_archive_reads_the_guard_again(tmp_path: Path) -> None:
    limit = {**LIMIT, "for": "15s", "token_file": "token"}
    plan = load(tmp_path, {"prometheus": [limit], "quiet_hours": "mon 08:00-09:00"})
    assert plan.guard is not None
    assert plan.guard.prometheus[0].token_file == str(tmp_path / "token")
    text = plan.model_dump_json(by_alias=True)
    assert '"for":15.0' in text
    assert Plan.model_validate_json(text) == plan
    assert "guard" not in load_plain(tmp_path).model_dump_json(by_alias=True)


def load_plain(folder: Path) -> Plan:
    path = folder / "plain.yaml"
    path.write_text("targets: ['dir:/mnt']\nprofile: quick\n")
    return load_plan(path, Overrides())


@pytest.mark.parametrize(
    ("hours", "now", "takes_s", "until"),
    [
        # 25 November 2026 is a Wednesday.
        (["08:00-18:00"], "2026-11-25T07:00", 60, None),
        (["08:00-18:00"], "2026-11-25T07:59:30", 60, "2026-11-25T18:00"),
        (["08:00-18:00"], "2026-11-25T07:59:00", 60, None),
        (["08:00-18:00"], "2026-11-25T18:00:00", 60, None),
        (["mon-fri 08:00-18:00"], "2026-11-28T12:00", 60, None),
        (["22:00-06:00"], "2026-11-25T23:00", 60, "2026-11-26T06:00"),
        (["22:00-06:00"], "2026-11-26T05:59", 60, "2026-11-26T06:00"),
        (["sun 22:00-06:00"], "2026-11-30T03:00", 60, "2026-11-30T06:00"),
        (["08:00-12:00", "12:10-18:00"], "2026-11-25T09:00", 3600, "2026-11-25T18:00"),
        (["08:00-12:00", "12:10-18:00"], "2026-11-25T09:00", 60, "2026-11-25T12:00"),
        (["mon 00:00-24:00"], "2026-11-29T23:59:59", 2, "2026-12-01T00:00"),
    ],
)
def test_quiet_hours(hours: list[str], now: str, takes_s: float, until: str | None) -> None:
    guard = Guard(quiet_hours=tuple(hours), zone="UTC")
    assert guard.quiet_until(at(now), takes_s) == (at(until) if until else None)


def test_quiet_hours_follow_their_zone() -> None:
    guard = Guard(quiet_hours=("08:00-18:00",), zone="Europe/Berlin")
    assert guard.quiet_until(at("2026-07-01T06:30"), 60) == datetime(
        2026, 7, 1, 18, tzinfo=ZoneInfo("Europe/Berlin")
    )
    assert guard.quiet_until(at("2026-11-25T06:30"), 60) is None, "07:30 in winter"


def test_a_stretch_that_passes_midnight_belongs_to_its_first_day() -> None:
    (window,) = parse_windows("fri 22:00-06:00")
    assert window.end_s - window.begin_s == 8 * 3600
    assert window.begin_s == 4 * 86400 + 22 * 3600


def test_the_course_has_the_peak_and_the_waits(tmp_path: Path) -> None:
    guard = {"iops": 1000, "bandwidth": "8M", "quiet_hours": "08:00-18:00", "zone": "UTC"}
    plan = load(tmp_path, guard, repeats=3, prefill=False)
    assert plan.guard is not None
    course = guarded_course(plan, plan.guard, at("2026-11-25T07:59:48"))
    assert course.peak_iops == 1000
    assert course.peak_bps == 4096 * 1000
    assert course.waits_s == 36001.5, "from the end of the first trial to 18:00"
    assert course.ends == at("2026-11-25T18:00:21"), "one trial before, two after"
