"""`leadline check` refuses what `leadline run` would refuse from the plan alone."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from leadline import admin_programs, errors
from leadline.engines.bench import Program
from leadline.engines.choose import RealEngines
from leadline.engines.fio import FioEngine
from leadline.errors import LeadlineError
from leadline.plan.engine_rules import engine_faults
from leadline.plan.loader import PlanInvalid, load_plan
from leadline.plan.models import EngineChoice, JobFile, Pattern, Phase, Plan, Workload
from leadline.plan.overrides import Overrides
from leadline.plan.target_url import TargetKind, parse_target_url

LOCATIONS = {
    TargetKind.DIR: "dir:/x",
    TargetKind.DEVICE: "device:/dev/x",
    TargetKind.RBD: "rbd:p",
    TargetKind.RADOS: "rados:p",
    TargetKind.CEPHFS: "cephfs:/x",
    TargetKind.ZFS: "zfs:tank",
    TargetKind.ZFS_ON_RBD: "zfs+rbd:p",
    TargetKind.EXT4_ON_RBD: "ext4+rbd:p",
    TargetKind.STORAGE_CLASS: "storageclass:fast?count=2",
    TargetKind.HOSTS: "hosts:a,b:/x",
}
PHASE = Phase(name="p", pattern=Pattern.WRITE, block_size=4096, iodepth=1, numjobs=1, size=64 << 20)
PHASES = [
    PHASE,
    PHASE.model_copy(update={"pattern": Pattern.RANDRW}),
    PHASE.model_copy(update={"pattern": Pattern.READ, "block_size": 12288}),
    PHASE.model_copy(update={"iodepth": 5, "numjobs": 2}),
    PHASE.model_copy(update={"fsync": 1}),
    PHASE.model_copy(update={"size": 5 << 20}),
    PHASE.model_copy(update={"rate_iops": 100.0}),
]
JOB = JobFile(path="a.fio", text="", runtime_s=1, ramp_s=0, footprint_bytes=1, writes=True)


class EveryFio(FioEngine):
    """A fio that was built with every engine there is."""

    version = "fio-3.33"
    engines = frozenset(EngineChoice)


def workloads() -> list[Workload]:
    plain = [
        Workload(name="w", phases=(phase,), engine=engine, runtime_s=1, clients=clients)
        for phase, engine, clients in itertools.product(PHASES, EngineChoice, (0, 2))
    ]
    return [*plain, Workload(name="w", job_file=JOB, runtime_s=1)]


def refused_by_run(workload: Workload, kind: TargetKind) -> bool:
    """What the engines say, were every program installed."""
    plan = Plan.model_validate(
        {
            "targets": [{"name": "t", "url": LOCATIONS[kind]}],
            "cells": [{"target": "t", "workload": workload, "level": ""}],
            "trials": [{"id": "t0001", "position": 0, "block": 0, "cell": 0, "seed": 1}],
            "repeats": 1,
            "seed": 1,
        }
    )
    try:
        RealEngines().check(plan)
    except LeadlineError as error:
        return error.kind in (errors.ENGINE_UNKNOWN, errors.JOB_FILE_INVALID)
    return False


@pytest.mark.parametrize("kind", TargetKind)
def test_whatever_an_engine_refuses_check_refuses(
    kind: TargetKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Program, "require", lambda self: "/there")
    monkeypatch.setattr(admin_programs, "find", lambda program: Path("/there"))
    monkeypatch.setattr(FioEngine, "version", EveryFio.version)
    monkeypatch.setattr(FioEngine, "engines", EveryFio.engines)
    url = parse_target_url(LOCATIONS[kind])
    refused = [one for one in workloads() if refused_by_run(one, kind)]
    silent = [one for one in refused if not list(engine_faults(one, url))]
    assert refused
    assert [(one.engine, one.phases, one.clients) for one in silent] == []


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("dir:/x", "pattern: randrw, numjobs: 4, fsync: 1"),
        ("device:/dev/x", "pattern: write, engine: io_uring, iodepth: 8"),
        ("dir:/x", "pattern: write, engine: libaio, iodepth: 5"),
        ("rbd:p", "pattern: randrw, iodepth: 5, clients: 3, engine: io_uring"),
        ("rbd:p", "pattern: write, engine: rbd-bench"),
        ("rados:p", "pattern: write"),
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
    path.write_text(f"targets: ['{url}']\nworkloads: [{{name: w, size: 64M, {settings}}}]\n")
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
