"""The fio engine: real fio 3.x as a child process."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from leadline import errors, files
from leadline.archive import layout
from leadline.archive.raw import read_output
from leadline.archive.records import Problem, TrialStatus
from leadline.connect import programs
from leadline.engines.fio.job import job_text, prefill_text
from leadline.engines.process import Ended, supervise
from leadline.engines.zfs_stream import suspension_named
from leadline.errors import ErrorKind, LeadlineError
from leadline.formats.fio.job_file import options_of
from leadline.formats.fio.json_output import parse_fio_json
from leadline.formats.result import EngineOutput, FormatError
from leadline.plan.footprint import DATA_FILE, Footprint
from leadline.plan.models import REACHED_SHARE, EngineChoice, Workload, chance_iops
from leadline.plan.target_url import TargetKind
from leadline.runner.events import StopRequest
from leadline.runner.ports import (
    Device,
    Execution,
    Folder,
    Job,
    Location,
    Progress,
    RbdImage,
    Shape,
)
from leadline.units import parse_duration

# How old a fio may be.

# Percentiles and json+ bins of total latency beside those of completion came with 3.18 (fio's
# pull requests 920 and 948, February and March 2020).
OLDEST = (3, 18)
INSTALL = "install it: apt-get install fio (Debian), dnf install fio (Fedora, RHEL)"


def require_version(version: str, where: str) -> None:
    """Raise LeadlineError(`fio-too-old`) for a fio that Leadline cannot work with."""
    match = re.match(r"fio-(\d+)\.(\d+)", version)
    if not match or (int(match[1]), int(match[2])) < OLDEST:
        raise LeadlineError(
            errors.FIO_TOO_OLD,
            f"{version or 'this fio'} is too old; Leadline needs {OLDEST[0]}.{OLDEST[1]} or newer",
            context=[where],
            hint=INSTALL,
        )


# Which of fio's I/O engines does a workload, wherever fio runs.

NO_DIRECT = (
    "direct I/O or the block size is not taken here; try `direct: false` in the workload (reads "
    "may then come from the page cache)"
)


def candidates(workload: Workload, engines: Collection[str]) -> list[EngineChoice]:
    """The engines to try, best first, of those that a fio was built with."""
    if workload.engine is not EngineChoice.AUTO:
        return [workload.engine]
    rings = (EngineChoice.IO_URING,) if workload.fits_rings else ()
    return [choice for choice in (*rings, EngineChoice.LIBAIO) if choice.value in engines]


def settled(
    workload: Workload,
    location: Location,
    choices: Sequence[EngineChoice],
    attempt: Callable[[EngineChoice], str | None],
) -> Workload:
    """The workload with the first engine that works: `attempt` says None, else what fio said.

    Raises LeadlineError: `target-unsuitable` without direct I/O, `engine-unknown`.
    """
    said: list[str] = []
    for choice in choices:
        told = attempt(choice)
        if told is None:
            return workload.model_copy(update={"engine": choice})
        said.append(f"{choice.value}: {told}")
    if workload.direct and any("Invalid argument" in line for line in said):
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"{location} does not take direct I/O",
            context=said,
            hint=NO_DIRECT,
        )
    raise LeadlineError(
        errors.ENGINE_UNKNOWN,
        f"no asynchronous I/O engine works on {location}"
        if workload.engine is EngineChoice.AUTO
        else f"the engine {workload.engine.value!r} does not work on {location}",
        context=said or ["this fio has neither io_uring nor libaio"],
        hint="a synchronous engine (`engine: psync`) never has more than one I/O in flight "
        "a job, so it needs `iodepth: 1`",
    )


# What fio's own words and numbers mean to a user, wherever it ran.

# What an errno of fio's means to a user.
_MEANING: dict[int, ErrorKind] = {
    errno.ENOSPC: errors.TARGET_FULL,
    errno.EDQUOT: errors.TARGET_FULL,
    errno.EROFS: errors.TARGET_READ_ONLY,
    errno.EACCES: errors.TARGET_READ_ONLY,
    errno.EPERM: errors.TARGET_READ_ONLY,
    errno.ENOENT: errors.TARGET_GONE,
    errno.ENXIO: errors.TARGET_GONE,
    errno.ENODEV: errors.TARGET_GONE,
    errno.ESTALE: errors.TARGET_GONE,
    errno.EINVAL: errors.TARGET_UNSUITABLE,
}
_HINTS: dict[str, str] = {
    errors.TARGET_FULL.code: "make room on the target, then `leadline run --resume --retry-failed`",
    errors.TARGET_GONE.code: "bring the target back, then `leadline run --resume --retry-failed`",
    errors.TARGET_READ_ONLY.code: "check the mount options and the permissions of the target",
    errors.TARGET_UNSUITABLE.code: NO_DIRECT,
}
_RATES = re.compile(rb"\[((?:[rwt]=[\d.]+[kMG]?,?)+) IOPS\]")
_FACTORS = {"k": 1e3, "M": 1e6, "G": 1e9}


class Talk:
    """fio's ETA lines, as rates."""

    def __init__(self, progress: Callable[[Progress], None]) -> None:
        self.progress = progress
        self.rest = b""

    def take(self, chunk: bytes) -> None:
        *lines, self.rest = re.split(rb"[\r\n]", self.rest + chunk)
        self.rest = self.rest[-4096:]
        for line in lines:
            match = _RATES.search(line)
            if match:
                self.progress(Progress(iops=_rate(match[1].decode())))


def _rate(text: str) -> float:
    """IOPS in `r=60.8k,w=12`, reads and writes added."""
    total = 0.0
    for part in text.split(","):
        number = part.partition("=")[2]
        if number:
            factor = _FACTORS.get(number[-1], 1.0)
            total += float(number.rstrip("kMG")) * factor
    return total


def outcome_of(
    folder: Path, exit_status: int | None, prefix: str = ""
) -> tuple[TrialStatus, Problem | None]:
    """How a fio that ended by itself fared, by what it left in `folder`, in files that begin with
    `prefix`."""
    number = _told(folder, prefix)
    if exit_status == 0 and not number:
        return TrialStatus.COMPLETED, None
    # The words of a fio that went well may be warnings.
    number = number or _worded(folder, prefix)
    kind = _MEANING.get(number, errors.ENGINE_FAILED)
    why = os.strerror(number) if number else f"exit status {exit_status}"
    return TrialStatus.FAILED, Problem(
        code=kind.code,
        fact=f"fio failed: {why}",
        context=last_words(folder, prefix),
        hint=_HINTS.get(kind.code, "fio's own words are in the trial's stderr.txt"),
    )


def _told(folder: Path, prefix: str) -> int:
    """The first error that fio's JSON tells of, else 0."""
    try:
        output = parse_fio_json((folder / f"{prefix}{layout.FIO_OUTPUT}").read_bytes())
    except (OSError, FormatError):
        return 0
    return next((job.error for job in output.jobs if job.error), 0)


def _worded(folder: Path, prefix: str) -> int:
    """The error that fio's words end with, else 0."""
    names = {os.strerror(number).lower(): number for number in _MEANING}
    for line in last_words(folder, prefix):
        for words, number in names.items():
            if words in line.lower():
                return number
    return 0


def last_words(folder: Path, prefix: str = "", count: int = 4) -> tuple[str, ...]:
    """The last lines that fio wrote to stderr, or before its JSON."""
    lines: list[str] = []
    for name in (layout.STDERR, layout.FIO_OUTPUT):
        try:
            text = (folder / f"{prefix}{name}").read_bytes()[:65536].decode("utf-8", "replace")
        except OSError:
            continue
        lines += [line.strip() for line in text.split("{", 1)[0].splitlines() if line.strip()]
    return tuple(dict.fromkeys(lines[-count:]))


# Whether an open loop keeps the rate that it offers: while it runs, and when it is over.

# While it runs: below this share of what was offered since the ramp, and in each of the last
# seconds. A target that stood still for a moment is above it again when fio catches up.
_CLEAR_SHARE = 0.8
_CLEAR_S = 5.0
_RECENT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A job section: what it offers per second over all of its jobs (None: closed loop), and how
    long it takes."""

    name: str
    offered_iops: float | None
    block_size: int
    ramp_s: float
    runtime_s: float


def sections_of(text: str) -> tuple[Section, ...]:
    """The sections of a generated job file; of a user's own nothing, as it may say it all in
    another way."""
    found: list[Section] = []
    shared: dict[str, str] = {}
    for name, options in options_of(text).items():
        options = shared | options
        if name == "global":
            shared = options
            continue
        try:
            rates = [float(rate) for rate in options.get("rate_iops", "").split(",") if rate]
            found.append(
                Section(
                    name=name,
                    offered_iops=sum(rates) * int(options.get("numjobs", "1")) if rates else None,
                    block_size=int(options["bs"]),
                    ramp_s=parse_duration(options.get("ramp_time", "0")),
                    runtime_s=parse_duration(options["runtime"]),
                )
            )
        except (KeyError, ValueError):
            return ()
    return tuple(found)


class Pace:
    """Sees the rates of an execution, and tells when they are clearly too low."""

    def __init__(self, sections: Sequence[Section], clients: int = 1) -> None:
        self._sections = sections
        self._clients = clients
        self._number = -1
        self._last_s = 0.0
        self._ios = 0.0
        self._seconds = 0.0
        self._recent: list[float] = []
        self.problem: Problem | None = None

    def at(self, elapsed_s: float) -> tuple[int, float]:
        """The number of the section that runs, and for how long it does behind its ramp."""
        begun = 0.0
        for number, section in enumerate(self._sections):
            takes = section.ramp_s + section.runtime_s
            if elapsed_s < begun + takes:
                return number, elapsed_s - begun - section.ramp_s
            begun += takes
        return len(self._sections), 0.0

    def see(self, iops: float, elapsed_s: float) -> None:
        """The rate over the time since it was seen before; the time counts from the first I/O."""
        number, behind_ramp_s = self.at(elapsed_s)
        since_s, self._last_s = elapsed_s - self._last_s, elapsed_s
        if number != self._number:
            self._number, self._ios, self._seconds, self._recent = number, 0.0, 0.0, []
            return
        if number >= len(self._sections) or behind_ramp_s < since_s:
            return
        offered = self._sections[number].offered_iops
        if offered is None:
            return
        offered *= self._clients
        self._ios += iops * since_s
        self._seconds += since_s
        self._recent = [*self._recent, iops][-_RECENT:]
        least = _CLEAR_SHARE * offered - chance_iops(offered, self._seconds)
        if (
            self._seconds >= _CLEAR_S
            and self._ios / self._seconds < least
            and max(self._recent) < _CLEAR_SHARE * offered
        ):
            self.problem = _short(
                offered, self._ios / self._seconds, f"over {self._seconds:.0f} s, and was stopped"
            )


def shortfall(
    sections: Sequence[Section], output: EngineOutput, clients: int = 1
) -> Problem | None:
    """What an open loop that ran to its end lacks of the rate that it offered."""
    for section in sections:
        if section.offered_iops is None:
            continue
        offered = section.offered_iops * clients
        operations = [
            one for job in output.jobs if job.name == section.name for one in job.operations
        ]
        reached = sum(one.iops or 0.0 for one in operations)
        # What lies between this and all but chance keeps its rate; the audit refuses its latency.
        if reached < REACHED_SHARE * offered - chance_iops(offered, section.runtime_s):
            return _short(offered, reached, f"over {section.runtime_s:g} s")
    return None


def _short(offered: float, reached: float, how: str) -> Problem:
    return Problem(
        code=errors.RATE_NOT_REACHED.code,
        fact=f"the open loop offered {offered:,.0f} IOPS and reached {reached:,.0f} {how}",
        hint="the target cannot take that rate: offer less, or more I/Os in flight (iodepth) if "
        "its latency is what holds it back",
    )


class Watched(StopRequest):
    """A request to stop by the user, or for a problem that is seen while an execution runs."""

    def __init__(self, user: StopRequest) -> None:
        self._user = user

    def problem(self) -> Problem | None:
        """What speaks against going on."""
        return None

    @property
    def count(self) -> int:
        return self._user.count + (self.problem() is not None)

    @count.setter
    def count(self, value: int) -> None:
        self._user.count = value

    @property
    def impatient(self) -> bool:
        return self._user.impatient


class Paced(Watched):
    """Stops what falls behind its pace."""

    def __init__(self, user: StopRequest, pace: Pace) -> None:
        super().__init__(user)
        self._pace = pace

    def problem(self) -> Problem | None:
        return self._pace.problem


_TRY_S = 20.0


class FioEngine:
    """fio from PATH, or the program given."""

    name = "fio"

    def __init__(self, program: str = "fio") -> None:
        self._given = program

    @cached_property
    def program(self) -> str:
        found = shutil.which(self._given)
        if not found:
            raise LeadlineError(errors.FIO_MISSING, "there is no fio on this machine", hint=INSTALL)
        return found

    @cached_property
    def version(self) -> str:
        """As fio prints it, for instance `fio-3.33`. Raises LeadlineError."""
        try:
            asked = subprocess.run(
                [self.program, "--version"], capture_output=True, text=True, timeout=30
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LeadlineError(
                errors.FIO_MISSING, "fio does not answer", context=[str(error)], hint=INSTALL
            ) from error
        return asked.stdout.strip()

    @cached_property
    def engines(self) -> frozenset[str]:
        """The I/O engines that this fio was built with."""
        asked = subprocess.run(
            [self.program, "--enghelp"], capture_output=True, text=True, timeout=30
        )
        return frozenset(line.strip() for line in asked.stdout.splitlines()[1:])

    def require_version(self) -> None:
        """Raise LeadlineError(`fio-too-old`) for a fio that Leadline cannot work with."""
        require_version(self.version, self.program)

    def check(self, workload: Workload, kind: TargetKind) -> None:
        self.require_version()
        on_rbd = kind is TargetKind.RBD
        choice = EngineChoice.RBD if on_rbd else workload.engine
        if choice is not EngineChoice.AUTO and choice.value not in self.engines:
            raise LeadlineError(
                errors.ENGINE_UNKNOWN,
                f"this fio has no engine {choice.value!r}",
                context=[f"workload {workload.name!r}", self.version],
                hint="install a fio that was built with librbd"
                if on_rbd
                else "use `engine: auto`, or one that `fio --enghelp` lists",
            )

    def _candidates(self, workload: Workload, location: Location) -> list[EngineChoice]:
        # librbd has one way to do I/O; engines of files have no meaning there.
        if isinstance(location, RbdImage):
            return [EngineChoice.RBD]
        return candidates(workload, self.engines)

    def likely(self, workload: Workload, location: Location) -> Workload:
        choices = self._candidates(workload, location)
        return workload.model_copy(update={"engine": choices[0]}) if choices else workload

    def resolve(self, workload: Workload, location: Location) -> Workload:
        if workload.job_file:
            return workload
        return settled(
            workload,
            location,
            self._candidates(workload, location),
            lambda choice: self._try(choice, workload.direct, location),
        )

    def _try(self, choice: EngineChoice, direct: bool, location: Location) -> str | None:
        """One small I/O with an engine on the location; None if it works, else what fio said."""
        job = [f"--ioengine={choice.value}", f"--direct={int(direct)}", "--bs=4k", "--size=4k"]
        where = self.where(location)
        scratch: Path | None = None
        if isinstance(location, Folder):
            scratch = location.path / DATA_FILE.format(job="try")
            job += ["--rw=write", f"--filename={scratch.name}"]
        else:
            job += ["--rw=read", "--readonly"]
        command = [*self.begin(location), "--name=try", *job[:1], *where, *job[1:]]
        command.append("--output-format=json")
        with tempfile.TemporaryDirectory(prefix=files.prefix("try")) as folder:
            # What hangs in the kernel is left there, and its file too: neither would come back.
            status, out, err = programs.run(*command, bound_s=_TRY_S, cwd=folder)
            if status is None:
                return f"no answer within {_TRY_S:g} s"
            if scratch is not None:
                scratch.unlink(missing_ok=True)
        if status == 0:
            return None
        lines = [line for line in (err + out).splitlines() if "fio:" in line]
        return lines[0].strip() if lines else f"exit status {status}"

    def job_text(self, workload: Workload, location: Location, seed: int) -> str:
        text = job_text(workload, location.shape, seed)
        return "\n".join([*self.settings_told(location), text])

    def settings_told(self, location: Location) -> list[str]:
        """Comments: fio has no options for these, they are in the configuration that it gets."""
        if not isinstance(location, RbdImage):
            return []
        return [f"# client: {key} = {value}" for key, value in location.settings]

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        engine = EngineChoice.LIBAIO if EngineChoice.LIBAIO in self.engines else EngineChoice.PSYNC
        if isinstance(location, RbdImage):
            engine = EngineChoice.RBD
        return prefill_text(footprint, location.shape, engine=engine, direct=direct)

    def begin(self, location: Location) -> list[str]:
        """What the command line begins with: fio, where the target can be reached."""
        if not isinstance(location, RbdImage):
            return [self.program]
        # fio's rbd engine takes the configuration from the environment alone.
        conf = f"CEPH_CONF={location.access.conf}"
        return [*location.access.prefix, "env", conf, self.program]

    def where(self, location: Location) -> list[str]:
        match location:
            case RbdImage():
                who = f"--clientname={location.access.name}"
                where = [who, f"--pool={location.pool}", f"--rbdname={location.image}"]
            case Folder() | Device():
                # fio splits both options at colons.
                path = str(location.path).replace("\\", "\\\\").replace(":", "\\:")
                folder = location.shape is Shape.FILES
                where = [f"--directory={path}" if folder else f"--filename={path}"]
            case _:
                raise TypeError(f"fio does no I/O on {location}")
        read_only = not isinstance(location, Folder) and location.read_only
        return [*where, "--readonly"] if read_only else where

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        layout_only = ("--create_only=1",) if job.layout_only else ()
        # Options of an I/O engine are known only behind the engine's own name.
        engine = ("--ioengine=rbd",) if isinstance(job.location, RbdImage) else ()
        return (
            *self.begin(job.location),
            f"--output={folder / layout.FIO_OUTPUT}",
            "--output-format=json+",
            "--eta=always",
            "--eta-newline=1",
            # The default for a user's own job file, which fio would else give no percentiles of
            # total latency; what the job file itself says wins.
            "--lat_percentiles=1",
            *engine,
            *self.where(job.location),
            *layout_only,
            str(folder / layout.JOB_FILE),
        )

    def execute(
        self,
        job: Job,
        folder: Path,
        stop: StopRequest,
        progress: Callable[[Progress], None],
    ) -> Execution:
        (folder / layout.JOB_FILE).write_text(job.text, encoding="utf-8")
        command = self.command(job, folder)
        sections = sections_of(job.text)
        pace = Pace(sections)
        began = time.monotonic()

        def told(one: Progress) -> None:
            pace.see(one.iops, time.monotonic() - began)
            progress(one)

        talk = Talk(told)
        try:
            ended = supervise(
                command,
                cwd=folder,
                stderr=folder / layout.STDERR,
                bound_s=job.bound_s,
                stop=Paced(stop, pace),
                on_output=talk.take,
            )
        except OSError as error:
            raise LeadlineError(
                errors.FIO_MISSING, "fio cannot be started", context=[str(error)], hint=INSTALL
            ) from error
        status, problem = outcome(ended, folder, job)
        if status is TrialStatus.INTERRUPTED and pace.problem and not stop.requested:
            status, problem = TrialStatus.FAILED, pace.problem
        elif status is TrialStatus.COMPLETED:
            short = too_slow(folder, sections)
            status, problem = (TrialStatus.FAILED, short) if short else (status, None)
        return Execution(
            status=status,
            command=command,
            exit_status=ended.exit_status,
            signals=ended.signals,
            engine_cpu_s=ended.cpu_s,
            wall_s=ended.wall_s,
            problem=problem,
        )


def too_slow(folder: Path, sections: Sequence[Section], clients: int = 1) -> Problem | None:
    """What an open loop lacks of its rate; None for a closed loop, and for output that cannot be
    read, of which its reader tells."""
    if all(section.offered_iops is None for section in sections):
        return None
    try:
        return shortfall(sections, read_output(FioEngine.name, folder), clients)
    except FormatError:
        return None


def outcome(ended: Ended, folder: Path, job: Job) -> tuple[TrialStatus, Problem | None]:
    if ended.past_bound:
        left = "" if ended.exit_status is not None else f"; process {ended.pid} cannot be killed"
        hung = Problem(
            code=errors.TRIAL_HUNG.code,
            fact=f"fio did not end within {job.bound_s:g} s and was stopped with "
            f"{', '.join(ended.signals)}{left}",
            context=last_words(folder),
            hint="look at the health of the target: its I/O does not come back",
        )
        return TrialStatus.HUNG, suspension_named(hung, job.location)
    if ended.stopped:
        return TrialStatus.INTERRUPTED, Problem(
            code=errors.INTERRUPTED.code,
            fact="the trial was stopped by a signal",
            hint="`leadline run --resume` does it again",
        )
    status, problem = outcome_of(folder, ended.exit_status)
    return status, suspension_named(problem, job.location) if problem else None
