"""fio on volumes of other machines: in pods, or in guests of virtual machines.

fio runs detached from the connection that started it, so an API server may restart in the middle
of a trial. All volumes start at the same time, each by its own clock, whose offset is measured.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import tarfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import Problem, Processor, TrialStatus
from leadline.connect.shell import Shell, run_repeatable
from leadline.engines.fio.choice import (
    REPORT_OPTIONS,
    TRY_FILE,
    candidates,
    choose_engine,
    prefill_choice,
    require_version,
    try_in_shell,
    try_options,
)
from leadline.engines.fio.job import Vary, job_text, prefill_text
from leadline.engines.fio.job_check import LOOK_S, check_job_file
from leadline.engines.fio.outcome import error_lines, finished_outcome, parse_rate
from leadline.engines.fio.processor import busiest, processor_between
from leadline.engines.outcome import INTERRUPTED
from leadline.engines.process import RateReader
from leadline.errors import LeadlineError
from leadline.formats.fio.job_file import text_of
from leadline.plan.footprint import Footprint
from leadline.plan.job_file import Place, parse_job_file
from leadline.plan.target_url import TargetKind
from leadline.plan.volume_request import VolumeSharing
from leadline.plan.workload import EngineChoice, Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import (
    Execution,
    Job,
    Location,
    Progress,
    RemoteVolume,
    RemoteVolumes,
    Shape,
    problem_from,
)

_DIGESTS = "digests.txt"
# The logs of thousands of jobs are much smaller.
_MOST_BYTES = 512 << 20


class DamagedTransfer(Exception):
    """A file did not arrive as it was sent."""


def unpack(packed: bytes) -> Mapping[str, bytes]:
    """The files of an archive by name, checked against its digests. Raises DamagedTransfer."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            content = stream.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise DamagedTransfer(f"more than {_MOST_BYTES} bytes")
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            members = {item.name: archive.extractfile(item) for item in archive if item.isfile()}
            files = {name: file.read() for name, file in members.items() if file is not None}
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DamagedTransfer(str(error) or type(error).__name__) from error
    digests = files.pop(_DIGESTS, b"").decode("utf-8", "replace")
    lines = [line.split(maxsplit=1) for line in digests.splitlines()]
    expected = {line[1]: line[0] for line in lines if len(line) == 2}
    if expected.keys() != files.keys():
        raise DamagedTransfer("files and digests do not match")
    for name, content in files.items():
        if "/" in name or name.startswith("."):
            raise DamagedTransfer(f"a file has the name {name!r}")
        if hashlib.sha256(content).hexdigest() != expected[name]:
            raise DamagedTransfer(f"{name} is not what was sent")
    return files


def keep_files(files: Mapping[str, bytes], folder: Path, prefix: str) -> None:
    """Write the files into a trial's folder, without those of the shell scripts themselves."""
    for name, content in files.items():
        if name not in ("job.fio", "run.sh", "talk.txt"):
            (folder / f"{prefix}{name}").write_bytes(content)


_SHORT_S = 60.0
_SIGNAL_S = 10.0
# timeout(1) waits this long between SIGINT and SIGKILL; then the results are fetched.
_KILLED_S = 25.0
_COLLECT_S = 300.0
# The bound for fetching from a runner that never reported fio's end.
_LAST_S = 30.0
_ATTEMPTS = 3
_POLL_S = 0.2
# The exit status of remote_follow.sh where there is nothing to follow.
_NO_FOLDER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the execution on one volume ended. `status` is None where it was never reported."""

    status: int | None
    files: dict[str, bytes]
    wall_s: float
    problem: LeadlineError | None = None

    @property
    def processor(self) -> Processor | None:
        readings = (self.files.get(name, b"") for name in ("before.txt", "after.txt"))
        return processor_between(*(reading.decode("utf-8", "replace") for reading in readings))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One volume's part of an execution; `at` is its folder there."""

    volume: RemoteVolume
    at: str
    command: tuple[str, ...]
    job: Job
    rates: RateReader

    def clock_ms(self) -> float | None:
        """Milliseconds that the volume's clock is ahead of time.monotonic(), None where it is
        unknown: the fastest of three queries, with an error of half its round trip (Cristian's
        algorithm)."""
        found = []
        for _ in range(3):
            before = time.monotonic()
            try:
                result = self.volume.shell.run("date +%s%3N", bound_s=_SHORT_S)
                after = time.monotonic()
                found.append((after - before, int(result.text) - (before + after) / 2 * 1e3))
            except (LeadlineError, ValueError):
                continue
        return min(found)[1] if found else None

    def run(self, start_ms: int) -> Ended:
        """Start fio, follow it, collect its files. A failure is in the result."""
        began = time.monotonic()
        try:
            self._begin(start_ms)
            status = self._follow(began)
            files = self._collect(_LAST_S if status is None else _COLLECT_S)
        except LeadlineError as error:
            return Ended(status=None, files={}, wall_s=time.monotonic() - began, problem=error)
        return Ended(status=status, files=files, wall_s=time.monotonic() - began)

    def _begin(self, start_ms: int) -> None:
        text = self.job.text.encode()
        arguments = (self.at, digest(text), str(start_ms), f"{self.job.bound_s:g}", *self.command)
        result = run_repeatable(
            self.volume.shell, _script("begin"), *arguments, given=text, bound_s=_SHORT_S
        )
        if result.status:
            program, where = self.command[0], self.volume.shell.name
            raise LeadlineError(
                errors.RUNNER_FAILED,
                f"{program} could not be started in the {where}: {result.error_line}",
                hint="the runner needs GNU coreutils, and free space in its scratch volume",
            )

    def _follow(self, began: float) -> int | None:
        """fio's exit status; None where it did not end in time, even when it was killed."""
        while (left := self.job.bound_s + _KILLED_S - (time.monotonic() - began)) > 0:
            try:
                result = self.volume.shell.run(
                    _script("follow"), self.at, bound_s=left, output=self.rates.take
                )
            except LeadlineError as error:
                if error.kind is not errors.SHELL_LOST:
                    raise
                time.sleep(_POLL_S)
                continue
            status = result.stderr.decode("utf-8", "replace").strip()
            if status.isascii() and status.isdigit():
                return int(status)
            if result.status == _NO_FOLDER:
                raise LeadlineError(
                    errors.RUNNER_FAILED,
                    f"fio's output in the {self.volume.shell.name} is gone: {result.error_line}",
                    hint="was the runner restarted? `leadline run --resume --retry-failed` does "
                    "the trial again",
                )
            time.sleep(_POLL_S)  # the script itself was ended
        return None

    def _collect(self, bound_s: float) -> dict[str, bytes]:
        damage = ""
        for _ in range(_ATTEMPTS):
            result = run_repeatable(self.volume.shell, _script("collect"), self.at, bound_s=bound_s)
            try:
                return dict(unpack(result.stdout))
            except DamagedTransfer as error:
                damage = str(error)
        raise LeadlineError(
            errors.SHELL_LOST,
            f"the results in the {self.volume.shell.name} arrive damaged: {damage}",
            hint="`leadline run --resume --retry-failed` does the trial again",
        )

    def signal(self, name: str) -> bool:
        """Send fio a signal. False where it was not reached, or has not started yet."""
        try:
            result = self.volume.shell.run(_script("signal"), self.at, name, bound_s=_SIGNAL_S)
        except LeadlineError:
            return False
        return result.status == 0


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _script(name: str) -> str:
    return (resources.files("leadline.engines.fio") / f"remote_{name}.sh").read_text("utf-8")


# The exit status of a program that SIGKILL ended, as by the kernel when memory runs out.
KILLED = 137
# timeout(1) exits with these for a program that it had to end.
_TIMED_OUT = (124, KILLED)
MEMORY = "give the runner more memory (--runner-memory; `memory:` of the cluster in the plan)"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTrial:
    """A remote execution: its job, its folder in the archive, and the user's request to stop.
    `outcome_of` gives the outcome of a program that ended, by the trial's folder, its exit status
    and what the names of its files begin with."""

    job: Job
    folder: Path
    stop: StopRequest
    volumes: Sequence[RemoteVolume]
    program: str = "fio"
    outcome_of: Callable[[Path, int, str], tuple[TrialStatus, Problem | None]] = finished_outcome

    def prefix(self, number: int) -> str:
        """What the file names of one volume begin with."""
        return "" if len(self.volumes) == 1 else layout.volume_prefix(number)

    def outcome(self, ended: Sequence[Ended]) -> tuple[TrialStatus, Problem | None]:
        """The worst outcome of all volumes; it is completed where every volume is."""
        found = [self._volume_outcome(part, number) for number, part in enumerate(ended, 1)]
        for status in (TrialStatus.INTERRUPTED, TrialStatus.HUNG, TrialStatus.FAILED):
            for volume_status, problem in found:
                if volume_status is status:
                    return status, problem
        return TrialStatus.COMPLETED, None

    def _volume_outcome(self, part: Ended, number: int) -> tuple[TrialStatus, Problem | None]:
        """The outcome of one volume; its problem names the volume where there are several."""
        if self.stop.requested:
            return TrialStatus.INTERRUPTED, INTERRUPTED
        status, problem = self._program_outcome(part, self.prefix(number))
        count = len(self.volumes)
        if problem is None or count == 1:
            return status, problem
        name = f"volume {number} of {count}, in the {self.volumes[number - 1].shell.name}"
        return status, problem.model_copy(update={"context": (name, *problem.context)})

    def _program_outcome(self, part: Ended, prefix: str) -> tuple[TrialStatus, Problem | None]:
        if part.problem is not None:
            return TrialStatus.FAILED, problem_from(part.problem)
        bound_s = self.job.bound_s
        if part.status is None or (part.status in _TIMED_OUT and part.wall_s >= bound_s):
            left = "was stopped" if part.status is not None else "could not be stopped"
            return TrialStatus.HUNG, Problem(
                code=errors.TRIAL_HUNG.code,
                fact=f"{self.program} did not end within {bound_s:g} s and {left}",
                context=error_lines(self.folder, prefix),
                hint="check the health of the volume: its I/O does not complete",
            )
        status, problem = self.outcome_of(self.folder, part.status, prefix)
        if problem is not None and part.status == KILLED:
            problem = problem.model_copy(update={"hint": f"{self.program} was killed: {MEMORY}"})
        return status, problem


# From the order to start until all volumes have it: one connection each, made in parallel.
_LEAD_S = 2.0
_EACH_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fio:
    version: str
    engines: frozenset[str]
    root: bool


class RemoteFioEngine:
    """fio in the runner's image, or in a guest."""

    name = "fio"

    def __init__(self) -> None:
        self._known: dict[str, _Fio] = {}
        self.version = ""

    def check(self, workload: Workload, kind: TargetKind) -> None:
        """Check the job file alone: fio is in an image or a guest that does not exist yet.

        Raises LeadlineError(`job-file-invalid`).
        """
        if workload.job_file is not None:
            parse_job_file(workload.job_file.path, workload.job_file.text)

    def likely(self, workload: Workload, location: Location) -> Workload:
        choice = workload.engine
        if choice is EngineChoice.AUTO:
            choice = EngineChoice.IO_URING if workload.fits_rings else EngineChoice.LIBAIO
        return workload.model_copy(update={"engine": choice})

    def resolve(self, workload: Workload, location: Location) -> Workload:
        """The engine that works on the first volume; all volumes are alike."""
        first = _remote(location).volumes[0]
        known = self._query(first.shell)
        if workload.job_file is not None:
            location = _remote(location)
            place = Place.FILES if location.shape is Shape.FILES else Place.DEVICE
            check_job_file(workload.job_file, place, first.path, partial(_ask, first.shell))
            return workload
        return choose_engine(
            workload,
            location,
            candidates(workload, known.engines),
            lambda choice: _try(choice, workload.direct, _remote(location), first),
        )

    def _query(self, shell: Shell) -> _Fio:
        """Raises LeadlineError: `fio-too-old`, `runner-failed`."""
        if shell.name not in self._known:
            result = run_repeatable(
                shell, "fio --version && id -u && fio --enghelp", bound_s=_SHORT_S
            )
            lines = result.text.splitlines()
            if result.status == KILLED:
                raise LeadlineError(
                    errors.RUNNER_FAILED, f"fio was killed in the {shell.name}", hint=MEMORY
                )
            if result.status or not lines:
                raise LeadlineError(
                    errors.RUNNER_FAILED,
                    f"there is no fio in the {shell.name}: {result.error_line}",
                    hint="use an image with fio, as Containerfile makes it",
                )
            require_version(lines[0], shell.name)
            self._known[shell.name] = _Fio(
                version=lines[0],
                engines=frozenset(line.strip() for line in lines[3:]),
                root=lines[1:2] == ["0"],
            )
        self.version = self._known[shell.name].version
        return self._known[shell.name]

    def job_text(self, workload: Workload, location: Location, seed: int) -> str:
        sharing = _remote(location).sharing
        vary = Vary.NOTHING
        if sharing is not None:
            vary = Vary.DATA if sharing is VolumeSharing.OWN_FILES else Vary.OFFSETS
        return job_text(workload, location.shape, seed, vary=vary)

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        engine = prefill_choice(self._query(_remote(location).volumes[0].shell).engines)
        own = _remote(location).own_files
        return prefill_text(footprint, location.shape, engine=engine, direct=direct, own=own)

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        """The command that runs at each volume, in a folder there."""
        layout_only = ("--create_only=1",) if job.layout_only else ()
        location = _remote(job.location)
        return (
            "fio",
            f"--output={layout.FIO_OUTPUT}",
            *REPORT_OPTIONS,
            *self._where(location),
            *layout_only,
            layout.JOB_FILE,
        )

    def _where(self, location: RemoteVolumes) -> tuple[str, ...]:
        first = location.volumes[0]
        where = _where(location, first.path)
        known = self._known.get(first.shell.name)
        if location.shape is Shape.SPAN and known is not None and not known.root:
            # Only root may drop the pages of a device; direct I/O leaves none.
            return (where, "--invalidate=0")
        return (where,)

    def execute(
        self, job: Job, folder: Path, stop: StopRequest, progress: Callable[[Progress], None]
    ) -> Execution:
        (folder / layout.JOB_FILE).write_text(job.text, encoding="utf-8")
        location = _remote(job.location)
        with contextlib.suppress(LeadlineError):  # the execution reports the reason
            self._query(location.volumes[0].shell)
        command = self.command(job, folder)
        began = time.monotonic()
        trial = RemoteTrial(job=job, folder=folder, stop=stop, volumes=location.volumes)
        reports = summed_rates(len(location.volumes), progress)
        parts = [
            Part(
                volume=volume,
                at=execution_folder(location, folder),
                command=command,
                job=replace(job, text=text_of(number, job.text)) if location.sharing else job,
                rates=RateReader(parse_rate, report),
            )
            for number, (volume, report) in enumerate(
                zip(location.volumes, reports, strict=True), start=1
            )
        ]
        ended, signals = run_parts(parts, stop)
        for number, part in enumerate(ended, start=1):
            keep_files(part.files, folder, trial.prefix(number))
        status, problem = trial.outcome(ended)
        return Execution(
            status=status,
            command=command,
            exit_status=next((part.status for part in ended if part.status), ended[0].status),
            signals=signals,
            wall_s=time.monotonic() - began,
            problem=problem,
            processor=busiest([part.processor for part in ended]),
        )


def execution_folder(location: RemoteVolumes, folder: Path) -> str:
    """Return the folder at each volume of an execution whose trial has this folder here."""
    return f"{location.folder}/execution-{digest(str(folder).encode())[:12]}"


def run_parts(parts: Sequence[Part], stop: StopRequest) -> tuple[list[Ended], tuple[str, ...]]:
    """Run all parts at the same time; how each ended, and the signals that were sent."""
    with ThreadPoolExecutor(max_workers=len(parts)) as pool:
        starts = _starts(parts, pool)
        running = [pool.submit(part.run, start) for part, start in zip(parts, starts, strict=True)]
        signals = _watch(running, parts, stop)
    return [future.result() for future in running], signals


def _starts(parts: Sequence[Part], pool: ThreadPoolExecutor) -> list[int]:
    """When each part starts, in ms by its own clock; 0 (at once) for a single part, and for one
    whose clock is unknown, which then fails to start with the reason."""
    if len(parts) == 1:
        return [0]
    ahead_ms = list(pool.map(Part.clock_ms, parts))
    at_s = time.monotonic() + _LEAD_S + _EACH_S * len(parts)
    return [0 if ahead is None else round(at_s * 1e3 + ahead) for ahead in ahead_ms]


def _watch(
    running: Sequence[Future[Ended]], parts: Sequence[Part], stop: StopRequest
) -> tuple[str, ...]:
    """Wait for all parts; at a request to stop send SIGINT, at a second one SIGKILL.

    Returns the names of the signals that were sent.
    """
    # Parts that each signal has not reached; a fio that has not started gets it when it has.
    left: dict[str, Sequence[Part]] = {}
    while wait(running, timeout=_POLL_S).not_done:
        wanted = "KILL" if stop.impatient else "INT" if stop.requested else ""
        unreached = left.setdefault(wanted, parts) if wanted else ()
        if unreached:
            # The pool of the caller is busy with waiting.
            with ThreadPoolExecutor(max_workers=len(unreached)) as pool:
                reached = list(pool.map(Part.signal, unreached, [wanted] * len(unreached)))
            left[wanted] = [part for part, done in zip(unreached, reached, strict=True) if not done]
    return tuple(f"SIG{name}" for name in left)


def summed_rates(
    count: int, progress: Callable[[Progress], None]
) -> list[Callable[[Progress], None]]:
    """Return what takes the rates of each volume and reports their sum."""
    rates = [0.0] * count

    def report(number: int, rate: Progress) -> None:
        rates[number] = rate.iops
        progress(Progress(iops=sum(rates)))

    return [partial(report, number) for number in range(count)]


def _ask(shell: Shell, options: tuple[str, ...], text: bytes) -> tuple[int | None, str]:
    """Run fio with these options and this standard input; its exit status and output."""
    script = f'cd / && timeout {LOOK_S:g} fio "$@"'
    result = run_repeatable(shell, script, *options, given=text, bound_s=2 * LOOK_S)
    return result.status, (result.stderr + result.stdout).decode("utf-8", "replace")


def _try(
    choice: EngineChoice, direct: bool, location: RemoteVolumes, volume: RemoteVolume
) -> str | None:
    """Do one small I/O on a volume; fio's error line, or None where it works."""
    in_files = location.shape is Shape.FILES
    options = [_where(location, volume.path), *try_options(choice, direct, in_files=in_files)]
    remove = f"{volume.path}/{TRY_FILE}" if in_files else ""
    return try_in_shell(volume.shell, location.folder, options, remove=remove)


def _where(location: RemoteVolumes, path: str) -> str:
    return f"--directory={path}" if location.shape is Shape.FILES else f"--filename={path}"


def _remote(location: Location) -> RemoteVolumes:
    assert isinstance(location, RemoteVolumes), "only volumes that are reached through a shell"
    return location
