"""Archives built from recorded fio output, for the audit to judge."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from leadline.archive import layout
from leadline.archive.raw import derive
from leadline.archive.reader import Run
from leadline.archive.records import (
    CacheDrop,
    Extent,
    Manifest,
    Processor,
    RunStatus,
    Session,
    TrialRecord,
    TrialStatus,
)
from leadline.findings import Finding
from leadline.formats.fio.json_output import parse_fio_json
from leadline.formats.result import FormatError
from leadline.plan.models import Cell, Plan, Target, Trial
from leadline.plan.workload import JobFile, Pattern, Phase, Workload

RECORDED = Path(__file__).parent / "recorded"
SPAN = 256 << 20
QUIET = Processor(cores=2, busy_share=0.3, steal_share=0.0, engine_cpu_s=1.9)
Edit = Callable[[dict[str, Any]], object]
Judge = Callable[..., tuple[Finding, ...]]


@dataclass(frozen=True)
class Stored:
    """One trial: the recorded output it holds, edited, its log, and what its record has special."""

    output: str | None = "good-randread-qd16"
    edit: Edit | None = None
    content: bytes | None = None
    iops: tuple[float, ...] | None = None
    record: Mapping[str, Any] = field(default_factory=dict)


def cell(
    name: str = "randread",
    *,
    pattern: Pattern = Pattern.RANDREAD,
    runtime_s: float = 4.0,
    job_file: bool = False,
    target: str = "disk",
) -> Cell:
    file = JobFile(
        path="own.fio", text="", runtime_s=runtime_s, ramp_s=0, footprint_bytes=0, writes=False
    )
    phase = Phase(name="p", pattern=pattern, block_size=4096, iodepth=16, numjobs=1, size=SPAN)
    workload = Workload(
        name=name,
        phases=() if job_file else (phase,),
        job_file=file if job_file else None,
        runtime_s=runtime_s,
    )
    return Cell(target=target, workload=workload, level="")


def build(folder: Path, cells: Mapping[str, tuple[Cell, list[Stored | None]]]) -> Run:
    """An archive on disk; None is a planned trial without an attempt."""
    planned: list[Trial] = []
    trials = folder / layout.TRIALS
    trials.mkdir(parents=True)
    for number, (one, stored) in enumerate(cells.values()):
        for block, trial in enumerate(stored):
            name = f"t{len(planned) + 1:04d}"
            planned.append(Trial(id=name, position=len(planned), block=block, cell=number, seed=1))
            if trial is not None:
                _store(trials / f"{name}-1", name, block, one, trial)
    plan = Plan(
        targets=tuple(
            Target(name=name, url=f"dir:/mnt/{quote(name)}")
            for name in dict.fromkeys(one.target for one, _ in cells.values())
        ),
        cells=tuple(one for one, _ in cells.values()),
        trials=tuple(planned),
        repeats=1,
        seed=1,
    )
    manifest = Manifest(
        run=folder.name,
        status=RunStatus.COMPLETE,
        created_at="2026-11-21T00:00:00Z",
        trials_planned=len(planned),
        sessions=(
            Session(
                started_at="2026-11-21T00:00:00Z",
                hostname="h",
                leadline_version="0",
                python_version="3.11",
            ),
        ),
    )
    (folder / layout.PLAN).write_bytes(layout.encode(plan))
    (folder / layout.MANIFEST).write_bytes(layout.encode(manifest))
    return Run(folder)


def _store(folder: Path, name: str, block: int, one: Cell, trial: Stored) -> None:
    folder.mkdir()
    content = trial.content
    if content is None and trial.output is not None:
        content = (RECORDED / trial.output / "fio.json").read_bytes()
        for log in (RECORDED / trial.output).glob("*_iops.log"):
            shutil.copy(log, folder)
        if trial.edit:
            start = content.index(b"{")
            document = json.loads(content[start:])
            trial.edit(document)
            content = content[:start] + json.dumps(document).encode()
    if content is not None:
        (folder / layout.FIO_OUTPUT).write_bytes(content)
        with contextlib.suppress(FormatError):
            (folder / layout.DERIVED).write_bytes(layout.encode(derive(parse_fio_json(content))))
    if trial.iops is not None:
        for log in folder.glob("*_iops.log"):
            log.unlink()
        lines = [
            f"{1000 * (second + 1)}, {int(rate)}, 0, 0, 0" for second, rate in enumerate(trial.iops)
        ]
        (folder / "randread_iops.log").write_text("\n".join(lines) + "\n")
    record = TrialRecord.model_validate(
        {
            "trial": name,
            "attempt": 1,
            "target": one.target,
            "workload": one.workload.name,
            "level": one.level,
            "block": block,
            "status": TrialStatus.COMPLETED,
            "engine": "fio",
            "engine_version": "fio-3.33",
            "exit_status": 0,
            "started_at": "2026-11-21T00:00:00Z",
            "ended_at": "2026-11-21T00:00:05Z",
            "wall_s": 5.0,
            "asked_s": 5.0,
            "bound_s": 15.0,
            "processor": QUIET,
            "cache_drop": CacheDrop(
                method="fadvise", resident_before_bytes=0, resident_after_bytes=0
            ),
            "extent": Extent(
                span_bytes=SPAN, written_bytes=SPAN, allocated_bytes=SPAN, filesystem="ext4"
            ),
        }
        | dict(trial.record)
    )
    (folder / layout.TRIAL_RECORD).write_bytes(layout.encode(record))
