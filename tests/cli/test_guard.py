"""A guard on the command line: check, a refused run, a guarded run and its page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Leadline, refused
from tests.unit.connect.prometheus_double import PrometheusDouble, prometheus_double

PLAN = """
targets: [{{name: pool, target: "dir:{folder}"}}]
repeats: 1
prefill: false
workloads:
  - {{name: randwrite-4k, pattern: randwrite, block_size: 4k, size: 64M, runtime: 2s}}
guard:
  iops: 20000
  every: 1s
  prometheus: [{{name: other volumes, url: "{url}", query: latency, above: 0.02}}]
"""


@pytest.fixture
def double() -> Iterator[PrometheusDouble]:
    with prometheus_double() as found:
        yield found


@pytest.fixture
def plan(double: PrometheusDouble, target: Path, tmp_path: Path) -> Callable[..., Path]:
    def write(more: str = "") -> Path:
        path = tmp_path / "guarded.yaml"
        path.write_text(PLAN.format(folder=target, url=double.url) + more)
        return path

    return write


def test_check_shows_the_guard_and_the_present_reading(
    leadline: Leadline, plan: Callable[..., Path], double: PrometheusDouble
) -> None:
    said = leadline("check", plan("  quiet_hours: 'mon-fri 08:00-18:00'\n"))
    assert said.status == 0, said.err
    assert "guard: budget: at most 20,000 IOPS, for all clients together" in said.out
    assert "guard: peak 20,000 IOPS, 78.1 MiB/s" in said.out
    assert "guard: a run that starts now waits" in said.out
    assert "other volumes is 0.002 now, stops above 0.02: kept" in said.err
    answer = json.loads(leadline("check", plan(), "--format", "json").out)
    assert answer["guard"]["peak_iops"] == 20000
    assert answer["guard"]["waits_seconds"] == 0
    double.answer = {"status": "success", "data": {"resultType": "vector", "result": []}}
    said = leadline("check", plan())
    assert said.status == 3
    assert "error[guard-unreadable]" in said.err
    assert "no sample" in said.err


def test_check_knows_the_codes_of_health_checks(leadline: Leadline, tmp_path: Path) -> None:
    path = tmp_path / "health.yaml"
    path.write_text(
        "clusters: {c: {ceph_conf: c.conf}}\ntargets: ['rbd:pool']\nprofile: quick\n"
        "guard: {ceph_health: [HEALTH_ERR, SLOW_OP, OSD_HOST_DOWN]}\n"
    )
    said = leadline("check", path)
    assert "SLOW_OP is no health check that this version knows; did you mean SLOW_OPS?" in said.out
    assert said.out.count("is no health check") == 1


def test_a_guarded_run_says_so(
    leadline: Leadline,
    plan: Callable[..., Path],
    double: PrometheusDouble,
    recorded: Path,
    tmp_path: Path,
) -> None:
    said = leadline("run", plan(), "--replay", recorded)
    assert said.status == 0, said.err
    assert "note: guard: budget: at most 20,000 IOPS" in said.err
    assert double.queries[0] == "latency"
    assert "No limit stopped the run." in said.out
    assert "capped-by-budget" in said.out, "the recorded 20,148 IOPS are at the budget"
    page = tmp_path / "page.html"
    assert leadline("report", "-o", page).status == 0
    text = page.read_text()
    assert 'id="guard-of-the-run"' in text
    assert "stops above 0.02: latency" in text
    assert leadline("verify").status == 0


def test_the_command_of_a_trial_has_its_part_of_the_budget(
    leadline: Leadline, plan: Callable[..., Path]
) -> None:
    said = leadline("run", plan(), "--dry-run")
    assert said.status == 0, said.err
    assert f"rate=,{20000 * 4096}" in said.out


def test_a_limit_that_is_crossed_prevents_the_run(
    leadline: Leadline,
    plan: Callable[..., Path],
    double: PrometheusDouble,
    recorded: Path,
    tmp_path: Path,
) -> None:
    double.set(db="0.5", web="0.001")
    text = refused(leadline("run", plan(), "--replay", recorded, "--quiet"), 7, "guard-stopped")
    assert "is crossed before the run: 0.5 (worst of 2)" in text
    assert "volume=db" in text
    assert not (tmp_path / "runs").exists()
