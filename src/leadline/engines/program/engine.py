"""pgbench and sysbench fileio, on folders of this machine and on volumes of pods.

A shell script for each program makes its data on the target, runs it and removes the data on every
way out. The same script runs here and in a pod.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib import resources
from pathlib import Path

from leadline import errors, files
from leadline.archive import layout
from leadline.archive.records import Problem, TrialStatus
from leadline.connect import programs
from leadline.connect.shell import run_repeatable
from leadline.engines.fio.processor import busiest
from leadline.engines.fio.remote import (
    Part,
    RemoteTrial,
    execution_folder,
    keep_files,
    run_parts,
    summed_rates,
)
from leadline.engines.outcome import (
    INTERRUPTED,
    execution_of,
    hung_problem,
    last_lines,
    with_suspension,
)
from leadline.engines.process import RateReader, supervise
from leadline.errors import LeadlineError
from leadline.formats.program import pgbench, sysbench
from leadline.formats.program.request import (
    MODES,
    REQUEST_FILE,
    SCRIPTS,
    Program,
    ProgramRequest,
    parse_program_request,
)
from leadline.plan.footprint import DATA_FILE, Footprint
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Folder, Job, Location, Progress, RemoteVolumes

_CHECK_S = 60.0
_REMOVAL = "remove_data.sh"
_SCRIPT_FILES = {Program.PGBENCH: "pgbench.sh", Program.SYSBENCH: "sysbench.sh"}
# Processes of these names leave the group of the script.
_WRITERS = {Program.PGBENCH: "postgres", Program.SYSBENCH: "sysbench"}
_REMOVAL_S = 120.0
_PACKAGES = {Program.PGBENCH: "postgresql", Program.SYSBENCH: "sysbench"}
# What the scripts and the programs write, their meaning, and the hint.
_MEANINGS = (
    ("install the package", errors.PROGRAM_MISSING, ""),
    ("refuses root", errors.TARGET_UNSUITABLE, "use a folder that the user postgres can reach"),
    ("No space left", errors.TARGET_FULL, "free space on the target, or use a smaller size"),
    ("user does not exist", errors.TARGET_UNSUITABLE, "PostgreSQL needs a user with a name"),
    ("Invalid argument", errors.TARGET_UNSUITABLE, "use `direct: false` on this file system"),
)


class ProgramEngine:
    """One of the benchmark programs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.name = program.value
        self.version = ""
        self._script = _read_script(_SCRIPT_FILES[program])

    def check(self, workload: Workload, kind: TargetKind) -> None:
        """Raise LeadlineError(`program-missing`) where the program is not here; that of a pod is
        in an image which is not running yet."""
        if not kind.on_kubernetes and not self.version:
            self.find()

    def find(self) -> None:
        """Set `version` to that of the program on this machine. Raises
        LeadlineError(`program-missing`) where it cannot run."""
        with files.ScratchFolder("check") as scratch:
            (Path(scratch) / layout.PROGRAM_SCRIPT).write_text(self._script, encoding="utf-8")
            command = ("sh", layout.PROGRAM_SCRIPT, "check")
            status, out, err = programs.run(*command, bound_s=_CHECK_S, cwd=scratch)
        if status != 0:
            raise self._missing("on this machine", err or out)
        self.version = _first_line(out)

    def _missing(self, where: str, message: str) -> LeadlineError:
        return LeadlineError(
            errors.PROGRAM_MISSING,
            f"{self.name} cannot run {where}",
            context=message.strip().splitlines()[-1:],
            hint=f"install the Debian package {_PACKAGES[self.program]}, or use an image with it",
        )

    def likely(self, workload: Workload, location: Location) -> Workload:
        return workload

    def resolve(self, workload: Workload, location: Location) -> Workload:
        """The workload itself, where the first volume's pod has the program. Raises
        LeadlineError(`program-missing`)."""
        if isinstance(location, RemoteVolumes):
            shell = location.volumes[0].shell
            result = run_repeatable(shell, self._script, "check", bound_s=_CHECK_S)
            if result.status:
                raise self._missing(f"in the {shell.name}", result.error_line)
            self.version = _first_line(result.text)
        return workload

    def job_text(self, workload: Workload, location: Location, seed: int) -> str:
        return ProgramRequest.of_workload(self.program, workload, seed).text()

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        raise LeadlineError(errors.ENGINE_UNKNOWN, f"{self.name} writes no prefill; fio does")

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        """The script with its arguments, in the trial's folder here or at the first volume."""
        match job.location:
            case Folder(path=path):
                return self._command(job, layout.PROGRAM_SCRIPT, str(path))
            case RemoteVolumes(volumes=volumes):
                # The script is the input of the execution there.
                return self._command(job, layout.JOB_FILE, volumes[0].path)
            case location:
                raise LeadlineError(errors.ENGINE_UNKNOWN, f"{self.name} does no I/O on {location}")

    def _command(self, job: Job, script: str, folder: str) -> tuple[str, ...]:
        request = parse_program_request(job.text.encode())
        return ("sh", script, "run", *self._arguments(request, self._data(folder)))

    def _data(self, folder: str) -> str:
        """The path of the data. A target removes what has this name, if a trial could not."""
        name = DATA_FILE.format(job=_SCRIPT_FILES[self.program].removesuffix(".sh"))
        return f"{folder}/{name}"

    def _arguments(self, request: ProgramRequest, data: str) -> tuple[str, ...]:
        phase = request.phase
        runtime, ramp = f"{request.runtime_s:.0f}", f"{request.ramp_s:.0f}"
        if self.program is Program.PGBENCH:
            shape = (str(request.scale), SCRIPTS[phase.pattern], str(phase.numjobs))
            return (data, *shape, runtime, ramp, str(request.seed), f"{request.logged_share:g}")
        options = [
            f"--threads={phase.numjobs}",
            f"--file-total-size={phase.size}",
            f"--file-block-size={phase.block_size}",
            f"--file-test-mode={MODES[phase.pattern]}",
            f"--file-fsync-freq={phase.fsync}",
            "--file-fsync-end=off",
            # The default reads and writes a hundredth of the data most of the time.
            "--rand-type=uniform",
            # 0 would be the time of day.
            f"--rand-seed={request.seed or 1}",
        ]
        if request.direct:
            options.append("--file-extra-flags=direct")
        if phase.read_share is not None:
            ratio = phase.read_share / (100 - phase.read_share)
            options.append(f"--file-rw-ratio={ratio:.6f}")
        return (data, ramp, runtime, *options)

    def execute(
        self, job: Job, folder: Path, stop: StopRequest, progress: Callable[[Progress], None]
    ) -> Execution:
        (folder / REQUEST_FILE).write_text(job.text, encoding="utf-8")
        (folder / layout.PROGRAM_SCRIPT).write_text(self._script, encoding="utf-8")
        if isinstance(job.location, RemoteVolumes):
            return self._execute_remotely(job, job.location, folder, stop, progress)
        assert isinstance(job.location, Folder)
        command = self.command(job, folder)
        ended = supervise(
            command,
            cwd=folder,
            stderr=folder / layout.STDERR,
            bound_s=job.bound_s,
            stop=stop,
            on_output=RateReader(self._rate_parser(job), progress).take,
        )
        if ended.exit_status:  # a killed script removes nothing; None: it still waits for its disk
            data, group = self._data(str(job.location.path)), str(ended.pid)
            script = _read_script(_REMOVAL)
            programs.run(
                *("sh", "-c", script, "sh", data, group, _WRITERS[self.program]),
                bound_s=_REMOVAL_S,
            )
        status, problem = TrialStatus.COMPLETED, None
        if ended.stopped:
            status, problem = TrialStatus.INTERRUPTED, INTERRUPTED
        elif ended.past_bound:
            lines = last_lines((folder / layout.STDERR).read_bytes())
            problem = hung_problem(self.name, ended, job.bound_s, lines, "target")
            status, problem = TrialStatus.HUNG, with_suspension(problem, job.location)
        elif ended.exit_status is not None:
            status, problem = self._outcome(folder, ended.exit_status, "")
        return execution_of(ended, command, status, problem)

    def _execute_remotely(
        self,
        job: Job,
        location: RemoteVolumes,
        folder: Path,
        stop: StopRequest,
        progress: Callable[[Progress], None],
    ) -> Execution:
        began = time.monotonic()
        parts = [
            Part(
                volume=volume,
                at=execution_folder(location, folder),
                command=self._command(job, layout.JOB_FILE, volume.path),
                job=replace(job, text=self._script),
                rates=RateReader(self._rate_parser(job), report),
            )
            for volume, report in zip(
                location.volumes, summed_rates(len(location.volumes), progress), strict=True
            )
        ]
        ended, signals = run_parts(parts, stop)
        for part, result in zip(parts, ended, strict=True):
            if result.status:
                self._remove_data(part)
        trial = RemoteTrial(
            job=job,
            folder=folder,
            stop=stop,
            volumes=location.volumes,
            program=self.name,
            outcome_of=self._outcome,
        )
        for number, result in enumerate(ended, start=1):
            keep_files(result.files, folder, trial.prefix(number))
        status, problem = trial.outcome(ended)
        return Execution(
            status=status,
            command=parts[0].command,
            exit_status=next((part.status for part in ended if part.status), ended[0].status),
            signals=signals,
            wall_s=time.monotonic() - began,
            problem=problem,
            processor=busiest([part.processor for part in ended]),
        )

    def _remove_data(self, part: Part) -> None:
        """Remove the data of a trial that failed on a volume. A volume that cannot be reached loses
        it with its target."""
        # timeout(1) leads a group with the script and all that it starts.
        script = f'set -- "$1" "$(cat "$2/pid" 2>/dev/null)" "$3"\n{_read_script(_REMOVAL)}'
        arguments = (self._data(part.volume.path), part.at, _WRITERS[self.program])
        with suppress(LeadlineError):
            run_repeatable(part.volume.shell, script, *arguments, bound_s=_REMOVAL_S)

    def _outcome(
        self, folder: Path, exit_status: int, prefix: str
    ) -> tuple[TrialStatus, Problem | None]:
        if exit_status == 0:
            return TrialStatus.COMPLETED, None
        path = folder / f"{prefix}{layout.STDERR}"
        lines = last_lines(path.read_bytes()[-65536:]) if path.exists() else []
        kind, hint = errors.ENGINE_FAILED, "the output is in the trial's folder of the archive"
        for words, meaning, remedy in _MEANINGS:
            if any(words in line for line in lines):
                kind, hint = meaning, remedy
                break
        return TrialStatus.FAILED, Problem(
            code=kind.code,
            fact=f"{self.name} failed: exit status {exit_status}",
            context=tuple(lines),
            hint=hint,
        )

    def _rate_parser(self, job: Job) -> Callable[[bytes], float | None]:
        block_size = parse_program_request(job.text.encode()).phase.block_size

        def parse(raw: bytes) -> float | None:
            line = raw.decode("utf-8", "replace")
            if self.program is Program.PGBENCH:
                found = pgbench.progress_rate(line)
                return found[1] if found else None
            rates = sysbench.progress_rate(line, block_size)
            return sum(rates[1].values()) if rates else None

        return parse


def _read_script(name: str) -> str:
    return (resources.files(__package__) / name).read_text("utf-8")


def _first_line(text: str) -> str:
    line = (text.strip().splitlines() or [""])[0]
    return re.sub(r"\s+", " ", line)
