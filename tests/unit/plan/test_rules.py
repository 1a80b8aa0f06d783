"""`leadline check` refuses what `leadline run` would refuse from the plan alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline import errors
from leadline.engines.choose import RealEngines
from leadline.errors import LeadlineError
from leadline.plan.loader import Overrides, PlanInvalid, load_plan
from leadline.plan.models import Plan
from leadline.plan.rules import engine_faults
from leadline.plan.target_url import TargetKind, parse_target_url
from leadline.plan.workload import EngineChoice, JobFile, Pattern, Phase, Workload

LOCATIONS = {
    TargetKind.DIR: "dir:/x",
    TargetKind.DEVICE: "device:/dev/x",
    TargetKind.RBD: "rbd:p",
    TargetKind.RADOS: "rados:p",
    TargetKind.CEPHFS: "cephfs:/x",
    TargetKind.ZFS: "zfs:tank",
    TargetKind.ZVOL: "zvol:tank",
    TargetKind.ZFS_ON_RBD: "zfs+rbd:p",
    TargetKind.EXT4_ON_RBD: "ext4+rbd:p",
    TargetKind.STORAGE_CLASS: "storageclass:fast?count=2",
    TargetKind.HOSTS: "hosts:a,b:/x",
}
PHASE = Phase(name="p", pattern=Pattern.WRITE, block_size=4096, iodepth=1, numjobs=1, size=64 << 20)
JOB = JobFile(path="a.fio", text="", runtime_s=1, ramp_s=0, footprint_bytes=1, writes=True)

ON_FILES = JOB.model_copy(update={"text": "[a]\nruntime=1\nioengine=filedelete\n"})
ON_DEVICES = JOB.model_copy(update={"text": "[a]\nruntime=1\nzone_reset_threshold=0.1\n"})


def workload(engine: str = "auto", **changes: object) -> Workload:
    asked = {name: changes.pop(name) for name in ("clients", "job_file") if name in changes}
    phase = PHASE.model_copy(update=changes)
    plain = Workload(name="w", phases=(phase,), engine=EngineChoice(engine), runtime_s=1)
    return plain.model_copy(update=asked | ({"phases": ()} if "job_file" in asked else {}))


REFUSED = [
    *((kind, workload("rbd")) for kind in TargetKind if kind is not TargetKind.RBD),
    *((kind, workload("rbd-bench")) for kind in TargetKind if kind is not TargetKind.RBD),
    *((kind, workload("rados-bench")) for kind in TargetKind if kind is not TargetKind.RADOS),
    *((kind, workload("rados")) for kind in TargetKind),
    *((kind, workload("zfs-stream")) for kind in TargetKind if "zfs" not in kind.value),
    *(
        (TargetKind.RADOS, one)
        for one in (
            workload("libaio"),
            workload(pattern=Pattern.RANDWRITE),
            workload(pattern=Pattern.RW),
            workload(pattern=Pattern.RANDRW),
            workload(numjobs=2),
            workload(fsync=1),
            workload(size=(64 << 20) + 4096),
            workload(pattern=Pattern.READ, block_size=12288),
            workload(pattern=Pattern.READ, block_size=8 << 20),
            workload(clients=2),
            workload(rate_iops=100.0),
            workload(job_file=JOB),
        )
    ),
    *(
        (TargetKind.RBD, one)
        for one in (
            workload("rbd-bench", numjobs=4),
            workload("rbd-bench", fsync=1),
            workload("rbd-bench", clients=2),
            workload("rbd-bench", rate_iops=100.0),
            workload("rbd-bench", job_file=JOB),
            workload(job_file=JOB),
        )
    ),
    *(
        (TargetKind.ZFS, one)
        for one in (
            workload("zfs-stream", pattern=Pattern.READ),
            workload("zfs-stream").model_copy(update={"phases": (PHASE, PHASE)}),
            workload("zfs-stream", iodepth=2),
            workload("zfs-stream", numjobs=33),
            workload("zfs-stream", fsync=1),
            workload("zfs-stream", clients=2),
            workload("zfs-stream", rate_iops=100.0),
        )
    ),
    (TargetKind.DIR, workload("io_uring", iodepth=5)),
    (TargetKind.HOSTS, workload(job_file=JOB)),
    (TargetKind.STORAGE_CLASS, workload(clients=3)),
    # Names of phases are sections of fio's job file.
    *(
        (TargetKind.DIR, workload(name=name))
        for name in ("..", "global-read", "a;b", "a#b", "a]", "${HOME}", "-x", "$ncpus", " a")
    ),
    (
        TargetKind.DIR,
        workload().model_copy(update={"neighbour": PHASE.model_copy(update={"name": "${HOME}"})}),
    ),
    *((kind, workload(job_file=ON_FILES)) for kind in (TargetKind.DEVICE, TargetKind.ZVOL)),
    (TargetKind.DIR, workload(job_file=ON_DEVICES)),
]


@pytest.mark.parametrize(
    ("url", "job_file", "refused"),
    [
        ("storageclass:fast?mode=filesystem", ON_FILES, False),
        ("storageclass:fast?mode=filesystem", ON_DEVICES, True),
        ("storageclass:fast?mode=block", ON_FILES, True),
        ("storageclass:fast?mode=block", ON_DEVICES, False),
    ],
)
def test_a_job_file_on_volumes_fits_their_mode(url: str, job_file: JobFile, refused: bool) -> None:
    faults = list(engine_faults(workload(job_file=job_file), parse_target_url(url)))
    assert ["only" in fault for fault in faults] == [True] * refused


@pytest.mark.parametrize(("kind", "asked"), REFUSED)
def test_what_no_engine_can_do_is_refused(kind: TargetKind, asked: Workload) -> None:
    """A plan of an archive, too, which another version may have taken."""
    (first, *_) = engine_faults(asked, parse_target_url(LOCATIONS[kind]))
    plan = Plan.model_validate(
        {
            "targets": [{"name": "t", "url": LOCATIONS[kind]}],
            "cells": [{"target": "t", "workload": asked, "level": ""}],
            "trials": [{"id": "t0001", "position": 0, "block": 0, "cell": 0, "seed": 1}],
            "repeats": 1,
            "seed": 1,
        }
    )
    with pytest.raises(LeadlineError) as told:
        RealEngines().check(plan)
    assert told.value.kind is errors.PLAN_INVALID
    assert told.value.fact == first
    assert told.value.hint


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("dir:/x", "pattern: randrw, numjobs: 4, fsync: 1"),
        ("device:/dev/x", "pattern: write, engine: io_uring, iodepth: 8"),
        ("dir:/x", "pattern: write, engine: libaio, iodepth: 5"),
        ("rbd:p", "pattern: randrw, iodepth: 5, clients: 3, engine: io_uring"),
        ("rbd:p", "pattern: write, engine: rbd-bench"),
        ("rados:p", "pattern: write"),
        ("rados:p", "pattern: read"),
        ("rados:p", "pattern: randread"),
        ("rados:p?engine=fio", "pattern: randrw, numjobs: 4, sharing: one-file, clients: 2"),
        ("rados:p?engine=fio", "pattern: read, engine: rados, numjobs: 2"),
        ("rados:p?hosts=a,b", "pattern: randwrite"),
        ("zfs:tank", "pattern: write, engine: zfs-stream"),
        ("zfs+rbd:p", "pattern: randwrite, clients: 2"),
        ("storageclass:fast?count=2&size=2Gi", "pattern: write, clients: 2"),
        ("hosts:a,b:/x", "pattern: write"),
    ],
)
def test_what_can_be_done_is_not_refused(tmp_path: Path, url: str, settings: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(f"targets: ['{url}']\nworkloads: [{{name: w, size: 64M, {settings}}}]\n")
    assert load_plan(path, Overrides()).targets


@pytest.mark.parametrize(
    ("url", "settings", "words"),
    [
        ("dir:/x", "pattern: write, engine: zfs-stream", "for zfs: and zfs+rbd: targets, not for"),
        ("zfs:t", "pattern: write, engine: zfs-stream, open_loop: [50%]", "neither clients nor a"),
        ("rados:p", "pattern: read, levels: [{rate: 100}]", "rados bench offers no rate"),
        ("rados:p", "pattern: read, open_loop: [50%]", "rados bench offers no rate"),
        ("rados:p", "pattern: read, clients: 2", "one process and has no clients"),
        ("rados:p", "pattern: randwrite", "or the target rados:POOL?engine=fio"),
        ("rados:p", "pattern: read, engine: rados", "or the target rados:POOL?engine=fio"),
        ("rados:p?engine=fio", "pattern: read, engine: libaio", "not libaio: use `engine: auto`"),
        ("rados:p?engine=fio", "pattern: read, engine: rados-bench", "not rados-bench: use"),
        ("rados:p?engine=fio", "pattern: randwrite, fsync: 1", "has no fsync"),
        ("rados:p?engine=fio", "pattern: read, levels: [{rate: 100}]", "rados engine offers no"),
        ("rados:p?engine=fio", "pattern: read, size: 6M", "is no multiple of it"),
        ("rados:p?engine=fio", "pattern: randwrite, block_size: 12k", "divides 4M: 4k, 64k"),
        (
            "rados:p?engine=fio",
            "pattern: write, numjobs: 2, sharing: one-file",
            "for the jobs of a sequence: omit sharing",
        ),
        ("rados:p?engine=fio", "pattern: read, size: 1T", "not for 262,144: use fewer jobs"),
        ("rbd:p", "pattern: write, engine: rbd-bench, levels: [{rate: 9}]", "offers no rate"),
        ("storageclass:a?count=2", "pattern: read, clients: 3", "write count=3 in the target"),
        ("storageclass:a?size=32M", "pattern: read", "too small for the 64 MiB of its workloads"),
        ("storageclass:a", "pattern: read, engine: io_uring, iodepth: 5", "a power of two"),
    ],
)
def test_what_cannot_be_done_is_a_fault_of_the_plan(
    tmp_path: Path, url: str, settings: str, words: str
) -> None:
    path = tmp_path / "plan.yaml"
    size = "" if "size: " in settings.replace("block_size: ", "") else "size: 64M, "
    path.write_text(f"targets: ['{url}']\nworkloads: [{{name: w, {size}{settings}}}]\n")
    with pytest.raises(PlanInvalid) as told:
        load_plan(path, Overrides())
    assert words in str(told.value)
    assert len(told.value.faults) == 1


def test_a_fault_names_the_targets_once(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(
        "targets: [dir:/a, dir:/b, 'zfs:tank', dir:/c, dir:/d]\n"
        "workloads:\n"
        "  - {name: stream, pattern: write, engine: zfs-stream}\n"
        "  - {name: right, pattern: write, engine: zfs-stream, targets: ['zfs:tank']}\n"
    )
    with pytest.raises(PlanInvalid) as told:
        load_plan(path, Overrides())
    (fault,) = told.value.faults
    assert fault.line == 3
    assert fault.message.startswith("'stream' on 'dir:/a', 'dir:/b', 'dir:/c' and 1 more: ")
