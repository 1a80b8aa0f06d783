"""The replay engine: recorded output of fio instead of I/O, so that a run takes milliseconds.

A recording is a folder of earlier trials, as in an archive. A job gets the first recorded folder
with the same workload names. The contract tests run on this engine and on the real fio.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import Problem, TrialStatus
from leadline.engines.fio.job import job_text, prefill_text
from leadline.engines.outcome import INTERRUPTED
from leadline.errors import LeadlineError
from leadline.formats.fio.json_output import parse_fio_json
from leadline.formats.result import FormatError
from leadline.plan.footprint import Footprint
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import EngineChoice, Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Job, Location, Progress


class ReplayEngine:
    """Copies the fio output of `recordings` (section names -> folder)."""

    name = "replay"
    version = "fio-3.33"

    def __init__(self, recordings: Mapping[tuple[str, ...], Path]) -> None:
        self._recordings = dict(recordings)

    @classmethod
    def from_folder(cls, root: Path) -> ReplayEngine:
        """Take every folder below `root` with fio output, by the names of its jobs."""
        recordings: dict[tuple[str, ...], Path] = {}
        for path in sorted(root.rglob(layout.FIO_OUTPUT)):
            try:
                output = parse_fio_json(path.read_bytes())
            except FormatError:
                continue
            recordings.setdefault(tuple(job.name for job in output.jobs), path.parent)
        return cls(recordings)

    def check(self, workload: Workload, kind: TargetKind) -> None:
        if not self._recordings:
            raise LeadlineError(errors.ENGINE_UNKNOWN, "the recording holds no fio output")

    def resolve(self, workload: Workload, location: Location) -> Workload:
        return self.likely(workload, location)

    def likely(self, workload: Workload, location: Location) -> Workload:
        if workload.engine is EngineChoice.AUTO:
            return workload.model_copy(update={"engine": EngineChoice.IO_URING})
        return workload

    def job_text(self, workload: Workload, location: Location, seed: int) -> str:
        return job_text(workload, location.shape, seed)

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        return prefill_text(footprint, location.shape, engine=EngineChoice.LIBAIO, direct=direct)

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        return ("replay", str(job.location))

    def execute(
        self, job: Job, folder: Path, stop: StopRequest, progress: Callable[[Progress], None]
    ) -> Execution:
        (folder / layout.JOB_FILE).write_text(job.text, encoding="utf-8")
        (folder / layout.STDERR).write_bytes(b"")
        command = self.command(job, folder)
        ended = partial(Execution, command=command, wall_s=0.0)
        if stop.requested:
            return ended(status=TrialStatus.INTERRUPTED, exit_status=None, problem=INTERRUPTED)
        names = tuple(
            line[1:-1]
            for line in job.text.splitlines()
            if line.startswith("[") and line != "[global]"
        )
        recorded = self._recordings.get(names)
        if recorded is None:
            (folder / layout.FIO_OUTPUT).write_bytes(b"")
            fact = f"the recording holds no output of {', '.join(names)}"
            problem = Problem(code=errors.ENGINE_FAILED.code, fact=fact)
            return ended(status=TrialStatus.FAILED, exit_status=1, problem=problem)
        for path in recorded.iterdir():
            if path.name == layout.FIO_OUTPUT or path.suffix == ".log":
                shutil.copyfile(path, folder / path.name)
        progress(Progress(iops=0.0))
        return ended(status=TrialStatus.COMPLETED, exit_status=0)
