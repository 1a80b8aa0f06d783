"""throttled-system on labs whose hosts had a processor quota, and on what need not be one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.audit.registry import audit
from leadline.findings import Finding, Severity
from leadline.plan.lab import LabDescription, Topology
from leadline.plan.models import Cluster, Plan
from tests.unit.audit.audit_archives import Stored, build, cell

RECORDED = Path(__file__).parents[2] / "recorded" / "throttled"
CODE = "throttled-system"
BOUNDED = LabDescription(topology=Topology.HOSTS, inter_zone_rtt_s=0.0, cpu_per_host=0.15)
Line = dict[str, Any]


def log(name: str, edit: Callable[[Line], object] | None = None) -> bytes:
    content = (RECORDED / name / layout.RESOURCES).read_bytes()
    lines = [json.loads(line) for line in content.splitlines()]
    for line in lines if edit else ():
        assert edit is not None
        edit(line)
    return b"\n".join(json.dumps(line).encode() for line in lines)


def judged(
    folder: Path,
    content: bytes | None,
    lab: str | LabDescription | None = None,
    description: LabDescription | None = None,
) -> list[Finding]:
    """Findings on a trial with that record, on a cluster that is `lab`; `description` is that of an
    existing lab in the inventory."""
    run = build(folder / "run", {"a": (cell(), [Stored()])})
    if content is not None:
        (run.trial_folders[0] / layout.RESOURCES).write_bytes(content)
    if lab is not None:
        plan: Plan = run.plan
        target = plan.targets[0].model_copy(update={"cluster": "c", "url": "rbd:rep3"})
        clusters = (Cluster(name="c", lab=lab),)
        changed = plan.model_copy(update={"targets": (target,), "clusters": clusters})
        (run.path / layout.PLAN).write_bytes(layout.encode(changed))
    if description is not None:
        dumps = run.path / layout.system_folder("001", "start", 0)
        dumps.mkdir(parents=True)
        document = {"name": "mine", "description": description.model_dump(mode="json")}
        (dumps / "lab.json").write_text(json.dumps(document))
    return [finding for finding in audit(Run(run.path)) if finding.code == CODE]


@pytest.mark.parametrize(
    ("name", "share", "percent"), [("quota-q1", 0.4845, "48%"), ("quota-q32", 0.9550, "95%")]
)
def test_throttled_system_fires_on_a_lab_within_a_quota(
    name: str, share: float, percent: str, tmp_path: Path
) -> None:
    latency, throughput = judged(tmp_path, log(name), lab=BOUNDED)
    assert (latency.severity, latency.latency_only) == (Severity.ERROR, True)
    assert latency.trial == "t0001"
    assert latency.evidence["throttled_share"] == pytest.approx(share, abs=1e-4)
    assert latency.evidence["quota_cores"] == pytest.approx(0.15)
    assert f"h1 used up its processor quota of 0.15 cores in {percent}" in latency.message
    assert (throughput.severity, throughput.latency_only) == (Severity.INFO, False)
    assert throughput.evidence["groups"] == 5


def test_throttled_system_is_silent_where_the_quota_was_not_used_up(tmp_path: Path) -> None:
    assert judged(tmp_path, log("ample-q1"), lab=BOUNDED) == []


def test_throttled_system_is_silent_without_counters_and_without_a_quota(tmp_path: Path) -> None:
    assert judged(tmp_path, None, lab=LabDescription()) == []


def test_a_quota_without_a_description_is_a_warning_for_throughput(tmp_path: Path) -> None:
    _, throughput = judged(tmp_path, log("quota-q1"))
    assert throughput.severity is Severity.WARNING


def test_the_limit_of_a_machine_that_only_makes_the_load_is_another_matter(tmp_path: Path) -> None:
    def edit(line: Line) -> None:
        line["roles"] = ["client"]

    assert judged(tmp_path, log("quota-q1", edit)) == []


@pytest.mark.parametrize(
    ("of_hundred", "severity"), [(1, None), (2, Severity.WARNING), (11, Severity.ERROR)]
)
def test_how_often_is_often(of_hundred: int, severity: Severity | None, tmp_path: Path) -> None:
    def edit(line: Line) -> None:
        for group in line["groups"].values():
            group["throttled"] = group["periods"] * of_hundred
            group["periods"] *= 100

    found = judged(tmp_path, log("quota-q1", edit), lab=BOUNDED)
    assert [one.severity for one in found][:1] == ([severity] if severity else [])
    assert all(one.latency_only for one in found[:1])
    assert len(found) == (0 if severity is None else 2 if severity is Severity.ERROR else 1)


@pytest.mark.parametrize("content", [None, b'{"at": "2026'])
def test_a_budget_without_counters_is_a_warning_for_latency(
    content: bytes | None, tmp_path: Path
) -> None:
    (found,) = judged(tmp_path, content, lab="mine", description=BOUNDED)
    assert (found.severity, found.latency_only) == (Severity.WARNING, True)
    assert "a quota of 0.15 cores" in found.message
    assert ("line 1" in found.message) == (content is not None)


def test_an_existing_lab_has_its_budget_in_the_inventory(tmp_path: Path) -> None:
    _, throughput = judged(tmp_path, log("quota-q1"), lab="mine", description=BOUNDED)
    assert throughput.severity is Severity.INFO
