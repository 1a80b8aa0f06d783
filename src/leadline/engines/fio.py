"""The fio engine: real fio 3.x as a child process."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import Problem, TrialStatus
from leadline.engines.fio_job import job_text, prefill_text
from leadline.engines.supervise import Ended, supervise
from leadline.errors import ErrorKind, LeadlineError
from leadline.formats.fio_json import parse_fio_json
from leadline.formats.output import FormatError
from leadline.plan.footprint import DATA_FILE, Footprint
from leadline.plan.models import EngineChoice, Workload
from leadline.plan.target_url import TargetKind
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
from leadline.runner.stop import StopRequest

# Percentiles and json+ bins of total latency beside those of completion came with 3.18 (fio's
# pull requests 920 and 948, February and March 2020).
OLDEST = (3, 18)
INSTALL = "install it: apt-get install fio (Debian), dnf install fio (Fedora, RHEL)"
_TRY_S = 20.0

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
    errors.TARGET_UNSUITABLE.code: "direct I/O or the block size is not taken here; try `direct: "
    "false` in the workload (reads may then come from the page cache)",
}
_RATES = re.compile(rb"\[((?:[rwt]=[\d.]+[kMG]?,?)+) IOPS\]")
_FACTORS = {"k": 1e3, "M": 1e6, "G": 1e9}


class FioEngine:
    """fio from PATH, or the program given."""

    name = "fio"

    def __init__(self, program: str = "fio") -> None:
        self._given = program

    @cached_property
    def _program(self) -> str:
        found = shutil.which(self._given)
        if not found:
            raise LeadlineError(errors.FIO_MISSING, "there is no fio on this machine", hint=INSTALL)
        return found

    @cached_property
    def version(self) -> str:
        """As fio prints it, for instance `fio-3.33`. Raises LeadlineError."""
        try:
            asked = subprocess.run(
                [self._program, "--version"], capture_output=True, text=True, timeout=30
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
            [self._program, "--enghelp"], capture_output=True, text=True, timeout=30
        )
        return frozenset(line.strip() for line in asked.stdout.splitlines()[1:])

    def require_version(self) -> None:
        """Raise LeadlineError(`fio-too-old`) for a fio that Leadline cannot work with."""
        match = re.match(r"fio-(\d+)\.(\d+)", self.version)
        if not match or (int(match[1]), int(match[2])) < OLDEST:
            raise LeadlineError(
                errors.FIO_TOO_OLD,
                f"{self.version or 'this fio'} is too old; "
                f"Leadline needs {OLDEST[0]}.{OLDEST[1]} or newer",
                context=[self._program],
                hint=INSTALL,
            )

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
        if choice is EngineChoice.RBD and not on_rbd:
            raise LeadlineError(
                errors.ENGINE_UNKNOWN,
                f"the engine 'rbd' is for rbd: targets, not for {kind.value}: ones",
                context=[f"workload {workload.name!r}"],
                hint="use `engine: auto`, which takes what fits each target",
            )
        if on_rbd and workload.job_file:
            raise LeadlineError(
                errors.JOB_FILE_INVALID,
                f"the job file {workload.job_file.path!r} cannot be used on an RBD image",
                context=["it is used as it is, and names its I/O engine itself"],
                hint="write it as a workload of the plan, or map the image and use device:",
            )

    def _candidates(self, workload: Workload, location: Location) -> list[EngineChoice]:
        # librbd has one way to do I/O; engines of files have no meaning there.
        if isinstance(location, RbdImage):
            return [EngineChoice.RBD]
        if workload.engine is not EngineChoice.AUTO:
            return [workload.engine]
        asynchronous = (EngineChoice.IO_URING, EngineChoice.LIBAIO)
        return [choice for choice in asynchronous if choice.value in self.engines]

    def likely(self, workload: Workload, location: Location) -> Workload:
        candidates = self._candidates(workload, location)
        return workload.model_copy(update={"engine": candidates[0]}) if candidates else workload

    def resolve(self, workload: Workload, location: Location) -> Workload:
        if workload.job_file:
            return workload
        said: list[str] = []
        for choice in self._candidates(workload, location):
            told = self._try(choice, workload.direct, location)
            if told is None:
                return workload.model_copy(update={"engine": choice})
            said.append(f"{choice.value}: {told}")
        if workload.direct and any("Invalid argument" in line for line in said):
            raise LeadlineError(
                errors.TARGET_UNSUITABLE,
                f"{location} does not take direct I/O",
                context=said,
                hint=_HINTS[errors.TARGET_UNSUITABLE.code],
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

    def _try(self, choice: EngineChoice, direct: bool, location: Location) -> str | None:
        """One small I/O with an engine on the location; None if it works, else what fio said."""
        job = [f"--ioengine={choice.value}", f"--direct={int(direct)}", "--bs=4k", "--size=4k"]
        where = self._where(location)
        scratch: Path | None = None
        if isinstance(location, Folder):
            scratch = location.path / DATA_FILE.format(job="try")
            job += ["--rw=write", f"--filename={scratch.name}"]
        else:
            job += ["--rw=read", "--readonly"]
        command = [*self._begin(location), "--name=try", *job[:1], *where, *job[1:]]
        command.append("--output-format=json")
        with tempfile.TemporaryDirectory(prefix="leadline-try-") as folder:
            try:
                tried = subprocess.run(
                    command, cwd=folder, capture_output=True, text=True, timeout=_TRY_S
                )
            except subprocess.TimeoutExpired:
                return f"no answer within {_TRY_S:g} s"
            finally:
                if scratch is not None:
                    scratch.unlink(missing_ok=True)
        if tried.returncode == 0:
            return None
        lines = [line for line in (tried.stderr + tried.stdout).splitlines() if "fio:" in line]
        return lines[0].strip() if lines else f"exit status {tried.returncode}"

    def job_text(self, workload: Workload, location: Location, seed: int) -> str:
        text = job_text(workload, location.shape, seed)
        if isinstance(location, RbdImage):
            # fio has no options for these; they are in the configuration that it is given.
            client = [f"# client: {key} = {value}" for key, value in location.settings]
            text = "\n".join([*client, text])
        return text

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        engine = EngineChoice.LIBAIO if EngineChoice.LIBAIO in self.engines else EngineChoice.PSYNC
        if isinstance(location, RbdImage):
            engine = EngineChoice.RBD
        return prefill_text(footprint, location.shape, engine=engine, direct=direct)

    def _begin(self, location: Location) -> list[str]:
        """What the command line begins with: fio, where the target can be reached."""
        if not isinstance(location, RbdImage):
            return [self._program]
        # fio's rbd engine takes the configuration from the environment alone.
        conf = f"CEPH_CONF={location.access.conf}"
        return [*location.access.prefix, "env", conf, self._program]

    def _where(self, location: Location) -> list[str]:
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
            *self._begin(job.location),
            f"--output={folder / layout.FIO_OUTPUT}",
            "--output-format=json+",
            "--eta=always",
            "--eta-newline=1",
            # The default for a user's own job file, which fio would else give no percentiles of
            # total latency; what the job file itself says wins.
            "--lat_percentiles=1",
            *engine,
            *self._where(job.location),
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
        talk = _Talk(progress)
        try:
            ended = supervise(
                command,
                cwd=folder,
                stderr=folder / layout.STDERR,
                bound_s=job.bound_s,
                stop=stop,
                on_output=talk.take,
            )
        except OSError as error:
            raise LeadlineError(
                errors.FIO_MISSING, "fio cannot be started", context=[str(error)], hint=INSTALL
            ) from error
        status, problem = _outcome(ended, folder, job)
        return Execution(
            status=status,
            command=command,
            exit_status=ended.exit_status,
            signals=ended.signals,
            engine_cpu_s=ended.cpu_s,
            wall_s=ended.wall_s,
            problem=problem,
        )


class _Talk:
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


def _outcome(ended: Ended, folder: Path, job: Job) -> tuple[TrialStatus, Problem | None]:
    if ended.past_bound:
        left = "" if ended.exit_status is not None else f"; process {ended.pid} cannot be killed"
        return TrialStatus.HUNG, Problem(
            code=errors.TRIAL_HUNG.code,
            fact=f"fio did not end within {job.bound_s:g} s and was stopped with "
            f"{', '.join(ended.signals)}{left}",
            context=_last_words(folder),
            hint="look at the health of the target: its I/O does not come back",
        )
    if ended.stopped:
        return TrialStatus.INTERRUPTED, Problem(
            code=errors.INTERRUPTED.code,
            fact="the trial was stopped by a signal",
            hint="`leadline run --resume` does it again",
        )
    number = _errno(folder)
    if ended.exit_status == 0 and not number:
        return TrialStatus.COMPLETED, None
    kind = _MEANING.get(number, errors.ENGINE_FAILED)
    why = os.strerror(number) if number else f"exit status {ended.exit_status}"
    return TrialStatus.FAILED, Problem(
        code=kind.code,
        fact=f"fio failed: {why}",
        context=_last_words(folder),
        hint=_HINTS.get(kind.code, "fio's own words are in the trial's stderr.txt"),
    )


def _errno(folder: Path) -> int:
    """The first error that fio's JSON tells of, else the one that its words end with, else 0."""
    try:
        output = parse_fio_json((folder / layout.FIO_OUTPUT).read_bytes())
        told = next((job.error for job in output.jobs if job.error), 0)
    except (OSError, FormatError):
        told = 0
    if told:
        return told
    names = {os.strerror(number).lower(): number for number in _MEANING}
    for line in _last_words(folder):
        for words, number in names.items():
            if words in line.lower():
                return number
    return 0


def _last_words(folder: Path, count: int = 4) -> tuple[str, ...]:
    """The last lines that fio wrote to stderr, or before its JSON."""
    lines: list[str] = []
    for name in (layout.STDERR, layout.FIO_OUTPUT):
        try:
            text = (folder / name).read_bytes()[:65536].decode("utf-8", "replace")
        except OSError:
            continue
        lines += [line.strip() for line in text.split("{", 1)[0].splitlines() if line.strip()]
    return tuple(dict.fromkeys(lines[-count:]))
