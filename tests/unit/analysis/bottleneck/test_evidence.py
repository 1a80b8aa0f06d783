"""Evidence of load levels, gathered from archives on disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from leadline.analysis.bottleneck.evidence import levels_evidence
from leadline.analysis.bottleneck.suspects import Bottleneck, Strength, suspects
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.inventory.host import BlockDevice, HostInventory, Mount, TargetInventory
from leadline.plan.models import Cell
from tests.unit.audit.audit_archives import Stored, build, cell

RECORDED = Path(__file__).parents[3] / "recorded" / "bottleneck"


def at(depth: int, rate: float | None = None) -> Cell:
    """A level of the workload that `good-randread-qd16` recorded."""
    one = cell()
    phase = one.workload.phases[0].model_copy(update={"iodepth": depth, "rate_iops": rate})
    workload = one.workload.model_copy(update={"phases": (phase,)})
    level = f"qd{depth}" if rate is None else f"qd{depth}-rate{rate:.0f}"
    return one.model_copy(update={"workload": workload, "level": level})


def faster(share: float) -> Stored:
    """The recorded output at so much of its throughput, the latency as it was."""

    def edit(document: dict[str, Any]) -> None:
        document["jobs"][0]["read"]["iops"] *= share

    return Stored(edit=edit)


def watched(run: Run, trial: int) -> None:
    """Add the recorded counters of a lab to a trial."""
    folder = run.trial_folders[trial]
    for name in (layout.RESOURCES, layout.CEPH_COUNTERS):
        shutil.copy(RECORDED / "32-randread-quota" / name, folder)


def test_a_level_has_the_figures_of_its_median_trial(tmp_path: Path) -> None:
    run = build(tmp_path / "r", {"a": (at(16), [faster(1.2), faster(0.5), faster(1.0)])})
    level = levels_evidence(run, "disk", "randread")["qd16"]
    whole = run.trials[2].derived
    assert whole is not None
    assert level.trial == "t0003-1"
    assert level.iops == pytest.approx(whole.operations[0].metrics["iops"])  # type: ignore[index]
    assert level.asked == 16
    assert level.in_flight == pytest.approx(16, rel=0.1)
    assert level.latency_mean_s == pytest.approx(level.in_flight / level.iops)
    assert level.job_core_share is not None
    assert level.engine_cores == pytest.approx(1.9 / 5)
    assert level.machines == ()
    assert level.osds == ()


def test_more_load_is_looked_for_in_the_levels_of_the_same_work(tmp_path: Path) -> None:
    cells = {
        "a": (at(4), [faster(0.6)]),
        "b": (at(16), [faster(1.0)]),
        "c": (at(64), [faster(1.02)]),
        "open": (at(256, rate=100.0), [faster(2.0)]),
        "missing": (at(128), [None]),
    }
    levels = levels_evidence(build(tmp_path / "r", cells), "disk", "randread")
    assert list(levels) == ["qd4", "qd16", "qd64", "qd256-rate100", "qd128"]
    assert levels["qd4"].more_iops == pytest.approx(levels["qd64"].iops)
    assert levels["qd64"].more_iops is None
    saturated = {
        name: {one.bottleneck: one for one in suspects(level)}[Bottleneck.NOT_SATURATED].strength
        for name, level in levels.items()
    }
    assert saturated["qd4"] is Strength.NAMED
    assert saturated["qd16"] is Strength.EXCLUDED
    assert saturated["qd64"] is Strength.NOT_MEASURED
    assert levels["qd256-rate100"].offered_iops == 100.0
    assert levels["qd256-rate100"].asked is None
    assert (levels["qd128"].trial, levels["qd128"].notes) == ("", ())
    assert levels["qd128"].iops is None
    assert levels["qd128"].asked == 128


def test_what_was_sampled_is_found(tmp_path: Path) -> None:
    run = build(tmp_path / "r", {"a": (at(16), [faster(1.0)])})
    watched(run, 0)
    level = levels_evidence(run, "disk", "randread")["qd16"]
    (machine,) = level.machines
    # The trial's own seconds, not those of its start: 4 s of the recorded 9.
    assert 0.5 <= machine.begin_s < 1.6
    assert 3.4 < machine.end_s <= 4.5
    assert set(machine.groups) == {"osd.0", "osd.1", "osd.2"}
    assert len(level.osds) == 3
    assert level.shared
    named = [one.bottleneck for one in suspects(level) if one.strength is Strength.NAMED]
    assert Bottleneck.TARGET_CORES in named


def test_what_cannot_be_read_is_noted_and_not_measured(tmp_path: Path) -> None:
    run = build(tmp_path / "r", {"a": (at(16), [faster(1.0)])})
    folder = run.trial_folders[0]
    (folder / layout.RESOURCES).write_bytes(b"{}\n")
    stamp = {"at": "", "elapsed_s": 0.0}
    content = json.dumps({**stamp, "error": "no monitor answers"}).encode() + b"\n"
    (folder / layout.CEPH_COUNTERS).write_bytes(content)
    level = levels_evidence(run, "disk", "randread")["qd16"]
    assert level.machines == ()
    resources, counters = level.notes
    assert resources.startswith("line 1.")
    assert counters == "OSDs: no monitor answers"


@pytest.mark.parametrize(
    ("virtualization", "rotational"), [("none", True), ("kvm", None), ("", None)]
)
def test_the_disk_of_a_directory(
    tmp_path: Path, virtualization: str, rotational: bool | None
) -> None:
    run = build(tmp_path / "r", {"a": (at(16), [faster(1.0)])})
    disk = BlockDevice(name="sda", kind="disk", size_bytes=1 << 40, rotational=True)
    part = disk.model_copy(update={"name": "sda1", "kind": "part", "parent": "sda"})
    mount = Mount(source="/dev/sda1", mount_point="/mnt", filesystem="ext4", options="rw")
    inventory = HostInventory(
        taken_at="2026-11-21T00:00:00.000+00:00",
        hostname="h",
        operating_system="",
        kernel="",
        architecture="",
        virtualization=virtualization,
        cpu_model="",
        cores=2,
        memory_bytes=1 << 30,
        block_devices=(disk, part),
        targets=(TargetInventory(target="disk", url="dir:/mnt/disk", mount=mount),),
    )
    folder = run.path / layout.INVENTORY
    folder.mkdir()
    (folder / "1-start.json").write_bytes(layout.encode(inventory))
    level = levels_evidence(run, "disk", "randread")["qd16"]
    assert level.devices == {"sda"}
    assert level.rotational is rotational
    # Without counters it is unknown whether the directory is remote.
    assert level.stays_here is None


@pytest.mark.parametrize("name", ["nvme0n1", "nvme0n1p1"])
def test_a_namespace_of_nvme_is_the_disk_of_a_device(tmp_path: Path, name: str) -> None:
    whole = BlockDevice(name="nvme0n1", kind="disk", size_bytes=1 << 40, rotational=False)
    part = whole.model_copy(update={"name": "nvme0n1p1", "kind": "part", "parent": "nvme0n1"})
    run = build(tmp_path / "r", {"a": (at(16), [faster(1.0)])})
    inventory = HostInventory(
        taken_at="2026-11-21T00:00:00.000+00:00",
        hostname="h",
        operating_system="",
        kernel="",
        architecture="",
        virtualization="none",
        cpu_model="",
        cores=2,
        memory_bytes=1 << 30,
        block_devices=(whole, part),
        targets=(TargetInventory(target="disk", url=f"device:/dev/{name}", device=name),),
    )
    folder = run.path / layout.INVENTORY
    folder.mkdir()
    (folder / "1-start.json").write_bytes(layout.encode(inventory))
    level = levels_evidence(run, "disk", "randread")["qd16"]
    assert level.devices == {"nvme0n1"}
    assert level.rotational is False
