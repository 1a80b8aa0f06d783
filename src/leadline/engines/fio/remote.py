"""fio beside volumes that are not on this machine: in pods, or in guests of virtual machines.

It is started apart from the connection that started it, so that an API server may restart in the
middle of a trial. All volumes begin at one moment, each by its own clock, whose distance from ours
is measured first.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import shlex
import tarfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import Problem, Processor, TrialStatus
from leadline.connect.shell import Shell, run_repeatable
from leadline.engines.fio.job import job_text, prefill_text
from leadline.engines.fio.local import (
    Talk,
    candidates,
    last_words,
    outcome_of,
    require_version,
    settled,
)
from leadline.errors import LeadlineError
from leadline.plan.footprint import DATA_FILE, Footprint
from leadline.plan.models import EngineChoice, Workload
from leadline.plan.target_url import TargetKind
from leadline.runner.events import StopRequest
from leadline.runner.ports import (
    Execution,
    Job,
    Location,
    Progress,
    RemoteVolume,
    RemoteVolumes,
    Shape,
)

# The files of a remote execution, unpacked only where every one of them is whole.

_DIGESTS = "digests.txt"
# Logs of thousands of jobs fit many times.
_MOST_BYTES = 512 << 20


class DamagedTransfer(Exception):
    """What arrived is not what was sent."""


def unpacked(packed: bytes) -> Mapping[str, bytes]:
    """The files of an archive by name, held against the digests in it. Raises DamagedTransfer."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            content = stream.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise DamagedTransfer(f"more than {_MOST_BYTES} bytes")
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            found = {one.name: archive.extractfile(one) for one in archive if one.isfile()}
            files = {name: one.read() for name, one in found.items() if one is not None}
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DamagedTransfer(str(error) or type(error).__name__) from error
    digests = files.pop(_DIGESTS, b"").decode("utf-8", "replace")
    lines = [line.split(maxsplit=1) for line in digests.splitlines()]
    told = {line[1]: line[0] for line in lines if len(line) == 2}
    if told.keys() != files.keys():
        raise DamagedTransfer("files and digests do not match")
    for name, content in files.items():
        if "/" in name or name.startswith("."):
            raise DamagedTransfer(f"a file has the name {name!r}")
        if hashlib.sha256(content).hexdigest() != told[name]:
            raise DamagedTransfer(f"{name} is not what was sent")
    return files


def kept(files: Mapping[str, bytes], folder: Path, prefix: str) -> None:
    """Write the files into a trial's folder; what is empty says nothing, and the pieces of the
    shell's own bookkeeping are no evidence."""
    for name, content in files.items():
        if name not in ("job.fio", "run.sh", "talk.txt"):
            (folder / f"{prefix}{name}").write_bytes(content)


# One volume's share of a remote execution: begun, followed, its results fetched whole.

_SHORT_S = 60.0
_SIGNAL_S = 10.0
# timeout(1) gives fio so long between SIGINT and SIGKILL; then its results are looked for.
_KILLED_S = 25.0
_COLLECT_S = 300.0
# The same of a runner that never told of fio's end, and may not be reached at all.
_LAST_S = 30.0
_ATTEMPTS = 3
_POLL_S = 0.2
# How remote_follow.sh ends where there is nothing to follow.
_NO_FOLDER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the execution beside one volume ended. `status` None: it never told."""

    status: int | None
    files: dict[str, bytes]
    wall_s: float
    problem: LeadlineError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One volume's share of an execution; `at` is its folder there."""

    volume: RemoteVolume
    at: str
    command: tuple[str, ...]
    job: Job
    talk: Talk

    def clock_ms(self) -> float | None:
        """How far the volume's clock is ahead of ours, in ms: of three questions the one that was
        answered fastest, half of whose round trip is the error (Cristian's algorithm). None where
        it does not tell."""
        found = []
        for _ in range(3):
            before = time.time()
            try:
                said = self.volume.shell.run("date +%s%3N", bound_s=_SHORT_S)
                after = time.time()
                found.append((after - before, int(said.text) - (before + after) / 2 * 1e3))
            except (LeadlineError, ValueError):
                continue
        return min(found)[1] if found else None

    def run(self, start_ms: int) -> Ended:
        """Begin, follow, collect. What goes wrong on the way is in the answer."""
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
        said = run_repeatable(
            self.volume.shell, _script("begin"), *arguments, given=text, bound_s=_SHORT_S
        )
        if said.status:
            raise LeadlineError(
                errors.RUNNER_FAILED,
                f"fio could not be begun in the {self.volume.shell.name}: {said.error_line}",
                hint="the runner needs GNU coreutils, and room in its scratch volume",
            )

    def _follow(self, began: float) -> int | None:
        """fio's exit status; None where it did not end in its time, nor by force."""
        while (left := self.job.bound_s + _KILLED_S - (time.monotonic() - began)) > 0:
            try:
                said = self.volume.shell.run(
                    _script("follow"), self.at, bound_s=left, output=self.talk.take
                )
            except LeadlineError as error:
                if error.kind is not errors.SHELL_LOST:
                    raise
                time.sleep(_POLL_S)
                continue
            told = said.stderr.decode("utf-8", "replace").strip()
            if told.isascii() and told.isdigit():
                return int(told)
            if said.status == _NO_FOLDER:
                raise LeadlineError(
                    errors.RUNNER_FAILED,
                    f"what fio wrote in the {self.volume.shell.name} is gone: {said.error_line}",
                    hint="was it started anew? `leadline run --resume --retry-failed` does the "
                    "trial again",
                )
            time.sleep(_POLL_S)  # somebody ended the script itself
        return None

    def _collect(self, bound_s: float) -> dict[str, bytes]:
        damage = ""
        for _ in range(_ATTEMPTS):
            said = run_repeatable(self.volume.shell, _script("collect"), self.at, bound_s=bound_s)
            try:
                files = dict(unpacked(said.stdout))
            except DamagedTransfer as error:
                damage = str(error)
                continue
            return files
        raise LeadlineError(
            errors.SHELL_LOST,
            f"the results in the {self.volume.shell.name} do not arrive whole: {damage}",
            hint="`leadline run --resume --retry-failed` does the trial again",
        )

    def signal(self, name: str) -> bool:
        """Ask fio to end. False where it could not be asked, or has not begun yet."""
        try:
            said = self.volume.shell.run(_script("signal"), self.at, name, bound_s=_SIGNAL_S)
        except LeadlineError:
            return False
        return said.status == 0


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _script(name: str) -> str:
    return (resources.files("leadline.engines.fio") / f"remote_{name}.sh").read_text("utf-8")


# What an execution took of the processors of the machine it ran on, from readings before and
# after it: /proc/stat, and the container's control group, version 1 or 2.


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """`total`, `idle`, `steal`: ticks of the machine. `used_s`: processor time of the container,
    `throttled_s`: time in which it was held back; None where there is no control group of its own.
    `allowed`: processors that it may use."""

    at_s: float
    total: int
    idle: int
    steal: int
    allowed: float
    processors: int
    used_s: float | None
    throttled_s: float | None


def read(text: str) -> Reading:
    """Lines of `key value...` as remote_begin.sh writes them. Raises ValueError, KeyError."""
    told: dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split()
        if not parts:
            continue
        if parts[0] in ("cpu.stat", "cpu/cpu.stat") and len(parts) == 3:
            told[f"{parts[0]}:{parts[1]}"] = parts[2]
        else:
            told[parts[0]] = " ".join(parts[1:])
    ticks = [int(field) for field in told["cpu"].split()[:8]]
    processors = int(told["processors"])
    return Reading(
        at_s=int(told["ms"]) / 1e3,
        total=sum(ticks),
        idle=ticks[3] + ticks[4],
        steal=ticks[7],
        allowed=_allowed(told) or processors,
        processors=processors,
        used_s=_seconds(told, (("cpu.stat:usage_usec", 1e6), ("cpuacct/cpuacct.usage", 1e9))),
        throttled_s=_seconds(
            told, (("cpu.stat:throttled_usec", 1e6), ("cpu/cpu.stat:throttled_time", 1e9))
        ),
    )


def _allowed(told: Mapping[str, str]) -> float | None:
    """Processors by the control group's quota; None without one."""
    quota, period = (
        told["cpu.max"].split()
        if "cpu.max" in told
        else (told.get("cpu/cpu.cfs_quota_us", "-1"), told.get("cpu/cpu.cfs_period_us", "100000"))
    )
    return None if quota in ("max", "-1") else int(quota) / int(period)


def _seconds(told: Mapping[str, str], keys: tuple[tuple[str, float], ...]) -> float | None:
    for key, factor in keys:
        if key in told:
            return int(told[key]) / factor
    return None


def processor_of(before: str, after: str) -> Processor | None:
    """The load between two readings; None where they are not understood. `cores` is what the
    runner may use, and its busy share the share of that."""
    try:
        first, last = read(before), read(after)
    except (KeyError, ValueError):
        return None
    wall_s = max(1e-3, last.at_s - first.at_s)
    span = max(1, last.total - first.total)
    machine_busy = 1 - (last.idle - first.idle) / span
    used_s = machine_busy * wall_s * last.processors
    if first.used_s is not None and last.used_s is not None:
        used_s = last.used_s - first.used_s
    throttled = None
    if first.throttled_s is not None and last.throttled_s is not None:
        # A control group adds up the processors on which it was held back.
        throttled = round(min(1.0, (last.throttled_s - first.throttled_s) / wall_s), 4)
    # A quota of less than one processor is still one that can be busy.
    return Processor(
        cores=max(1, round(last.allowed)),
        busy_share=round(min(1.0, used_s / (wall_s * last.allowed)), 4),
        steal_share=round((last.steal - first.steal) / span, 4),
        engine_cpu_s=round(used_s, 3),
        throttled_share=throttled,
    )


def busiest(found: list[Processor | None]) -> Processor | None:
    """Of several runners the one that had least to spare, with the processor time of all."""
    known = [one for one in found if one is not None]
    if not known:
        return None
    first = max(known, key=lambda one: (one.busy_share, one.throttled_share or 0.0))
    together = round(sum(one.engine_cpu_s for one in known), 3)
    return first.model_copy(update={"engine_cpu_s": together})


# How a remote execution ended, from how it ended beside each of its volumes.

# What a shell says of a program that SIGKILL ended, as the kernel does where memory runs out.
KILLED = 137
MEMORY = "give the runner more memory (--runner-memory; `memory:` of the cluster in the plan)"


def together(
    ended: Sequence[Ended],
    volumes: Sequence[RemoteVolume],
    folder: Path,
    job: Job,
    stop: StopRequest,
    signals: tuple[str, ...],
    command: tuple[str, ...],
    wall_s: float,
) -> Execution:
    """The execution as a whole: it went well where it went well beside every volume."""
    found = [
        _named(_outcome(one, number, len(ended), folder, job, stop), number, volumes)
        for number, one in enumerate(ended, 1)
    ]
    order = (TrialStatus.INTERRUPTED, TrialStatus.HUNG, TrialStatus.FAILED)
    status = next(
        (one for one in order if any(one is each for each, _ in found)), TrialStatus.COMPLETED
    )
    problem = next((problem for each, problem in found if each is status), None)
    processor = busiest(
        [
            processor_of(
                one.files.get("before.txt", b"").decode("utf-8", "replace"),
                one.files.get("after.txt", b"").decode("utf-8", "replace"),
            )
            for one in ended
        ]
    )
    statuses = [one.status for one in ended]
    return Execution(
        status=status,
        command=command,
        exit_status=next((one for one in statuses if one), statuses[0]),
        signals=signals,
        wall_s=wall_s,
        problem=problem,
        processor=processor,
    )


def _named(
    found: tuple[TrialStatus, Problem | None], number: int, volumes: Sequence[RemoteVolume]
) -> tuple[TrialStatus, Problem | None]:
    """The outcome beside one volume, whose problem says which of several it was."""
    status, problem = found
    if problem is None or len(volumes) == 1 or status is TrialStatus.INTERRUPTED:
        return found
    which = f"volume {number} of {len(volumes)}, in the {volumes[number - 1].shell.name}"
    return status, problem.model_copy(update={"context": (which, *problem.context)})


def _outcome(
    one: Ended, number: int, count: int, folder: Path, job: Job, stop: StopRequest
) -> tuple[TrialStatus, Problem | None]:
    prefix = "" if count == 1 else layout.volume_prefix(number)
    if stop.requested:
        return TrialStatus.INTERRUPTED, Problem(
            code=errors.INTERRUPTED.code,
            fact="the trial was stopped by a signal",
            hint="`leadline run --resume` does it again",
        )
    if one.problem is not None:
        told = one.problem
        return TrialStatus.FAILED, Problem(
            code=told.kind.code, fact=told.fact, context=told.context, hint=told.hint
        )
    # 124 and 137 are timeout(1)'s own words for a program that it had to end.
    if one.status is None or (one.status in (124, 137) and one.wall_s >= job.bound_s):
        left = "" if one.status is not None else ", and could not be"
        return TrialStatus.HUNG, Problem(
            code=errors.TRIAL_HUNG.code,
            fact=f"fio did not end within {job.bound_s:g} s and was to be stopped{left}",
            context=last_words(folder, prefix),
            hint="look at the health of the volume: its I/O does not come back",
        )
    status, problem = outcome_of(folder, one.status, prefix)
    if problem is not None and one.status == KILLED:
        problem = problem.model_copy(update={"hint": f"fio was killed: {MEMORY}"})
    return status, problem


_TRY_S = 20.0
# From the command to begin until all volumes know it: a connection each, made side by side.
_LEAD_S = 2.0
_EACH_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fio:
    """A fio that was asked: its version, the I/O engines that it was built with, and whether it
    is root there."""

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
        """Its fio is in an image or a guest that is not there yet."""

    def likely(self, workload: Workload, location: Location) -> Workload:
        choice = workload.engine
        if choice is EngineChoice.AUTO:
            choice = EngineChoice.IO_URING if workload.fits_rings else EngineChoice.LIBAIO
        return workload.model_copy(update={"engine": choice})

    def resolve(self, workload: Workload, location: Location) -> Workload:
        """The engine that works on the first volume; the others are its like."""
        first = _volumes(location)[0]
        known = self._ask(first.shell)
        if workload.job_file:
            return workload
        return settled(
            workload,
            location,
            candidates(workload, known.engines),
            lambda choice: _try(choice, workload.direct, _remote(location), first),
        )

    def _ask(self, shell: Shell) -> _Fio:
        """Raises LeadlineError: `fio-too-old`, `runner-failed`."""
        if shell.name not in self._known:
            said = run_repeatable(
                shell, "fio --version && id -u && fio --enghelp", bound_s=_SHORT_S
            )
            lines = said.text.splitlines()
            if said.status == KILLED:
                raise LeadlineError(
                    errors.RUNNER_FAILED, f"fio was killed in the {shell.name}", hint=MEMORY
                )
            if said.status or not lines:
                raise LeadlineError(
                    errors.RUNNER_FAILED,
                    f"there is no fio in the {shell.name}: {said.error_line}",
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
        return job_text(workload, location.shape, seed)

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        engines = self._ask(_volumes(location)[0].shell).engines
        engine = EngineChoice.LIBAIO if EngineChoice.LIBAIO in engines else EngineChoice.PSYNC
        return prefill_text(footprint, location.shape, engine=engine, direct=direct)

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        """What is run beside each volume, in a folder of its own there."""
        layout_only = ("--create_only=1",) if job.layout_only else ()
        location = _remote(job.location)
        return (
            "fio",
            f"--output={layout.FIO_OUTPUT}",
            "--output-format=json+",
            "--eta=always",
            "--eta-newline=1",
            "--lat_percentiles=1",
            *self._where(location),
            *layout_only,
            layout.JOB_FILE,
        )

    def _where(self, location: RemoteVolumes) -> tuple[str, ...]:
        first = location.volumes[0]
        where = _where(location, first.path)
        known = self._known.get(first.shell.name)
        if location.shape is Shape.SPAN and known is not None and not known.root:
            # Only root may drop a device's pages; direct I/O leaves none there.
            return (where, "--invalidate=0")
        return (where,)

    def execute(
        self,
        job: Job,
        folder: Path,
        stop: StopRequest,
        progress: Callable[[Progress], None],
    ) -> Execution:
        (folder / layout.JOB_FILE).write_text(job.text, encoding="utf-8")
        location = _remote(job.location)
        command = self.command(job, folder)
        began = time.monotonic()
        rates = _Rates(len(location.volumes), progress)
        parts = [
            Part(
                volume=volume,
                at=f"{location.folder}/execution-{digest(str(folder).encode())[:12]}",
                command=command,
                job=job,
                talk=Talk(rates.of(number)),
            )
            for number, volume in enumerate(location.volumes)
        ]
        with ThreadPoolExecutor(max_workers=len(parts)) as pool:
            starts = _starts(parts, pool)
            running = [
                pool.submit(part.run, start) for part, start in zip(parts, starts, strict=True)
            ]
            signals = _watch(running, parts, stop)
        ended = [one.result() for one in running]
        alone = len(ended) == 1
        for number, one in enumerate(ended, start=1):
            kept(one.files, folder, "" if alone else layout.volume_prefix(number))
        return together(
            ended, location.volumes, folder, job, stop, signals, command, time.monotonic() - began
        )


def _starts(parts: Sequence[Part], pool: ThreadPoolExecutor) -> list[int]:
    """When each part begins, in ms by its own clock; 0, which is at once, for one that is alone
    or does not tell its clock: it will tell why when it is to begin."""
    if len(parts) == 1:
        return [0]
    ahead_ms = list(pool.map(Part.clock_ms, parts))
    at_s = time.time() + _LEAD_S + _EACH_S * len(parts)
    return [0 if one is None else round(at_s * 1e3 + one) for one in ahead_ms]


def _watch(
    running: Sequence[Future[Ended]], parts: Sequence[Part], stop: StopRequest
) -> tuple[str, ...]:
    """Wait for all parts; at a request to stop end them, harder when it is asked twice. The names
    of the signals that were sent."""
    # Whom each signal has not reached yet; a fio that is still to begin gets it when it has.
    left: dict[str, Sequence[Part]] = {}
    while wait(running, timeout=_POLL_S).not_done:
        wanted = "KILL" if stop.impatient else "INT" if stop.requested else ""
        unreached = left.setdefault(wanted, parts) if wanted else ()
        if unreached:
            # The pool is full of those that wait.
            with ThreadPoolExecutor(max_workers=len(unreached)) as hands:
                told = list(hands.map(Part.signal, unreached, [wanted] * len(unreached)))
            left[wanted] = [
                one for one, reached in zip(unreached, told, strict=True) if not reached
            ]
    return tuple(f"SIG{name}" for name in left)


class _Rates:
    """The rates of several volumes as one."""

    def __init__(self, count: int, progress: Callable[[Progress], None]) -> None:
        self._rates = [0.0] * count
        self._progress = progress

    def of(self, number: int) -> Callable[[Progress], None]:
        def told(one: Progress) -> None:
            self._rates[number] = one.iops
            self._progress(Progress(iops=sum(self._rates)))

        return told


def _try(
    choice: EngineChoice, direct: bool, location: RemoteVolumes, volume: RemoteVolume
) -> str | None:
    """One small I/O with an engine on the volume; None if it works, else what fio said."""
    options = [f"--ioengine={choice.value}", f"--direct={int(direct)}", "--bs=4k", "--size=4k"]
    if location.shape is Shape.FILES:
        options += ["--rw=write", f"--filename={DATA_FILE.format(job='try')}"]
    else:
        options += ["--rw=read", "--readonly"]
    command = ["fio", "--name=try", _where(location, volume.path), *options]
    remove = (
        f"; status=$?; rm -f {shlex.quote(volume.path)}/{DATA_FILE.format(job='try')}; exit $status"
    )
    script = f'cd "$1" && timeout {_TRY_S:g} {shlex.join(command)}'
    if location.shape is Shape.FILES:
        script += remove
    said = run_repeatable(volume.shell, script, location.folder, bound_s=_TRY_S + _SHORT_S)
    if said.status == 0:
        return None
    words = (said.stderr + said.stdout).decode("utf-8", "replace").splitlines()
    lines = [line for line in words if "fio:" in line]
    return lines[0].strip() if lines else f"exit status {said.status}"


def _where(location: RemoteVolumes, path: str) -> str:
    return f"--directory={path}" if location.shape is Shape.FILES else f"--filename={path}"


def _remote(location: Location) -> RemoteVolumes:
    assert isinstance(location, RemoteVolumes), "only volumes that are reached through a shell"
    return location


def _volumes(location: Location) -> tuple[RemoteVolume, ...]:
    return _remote(location).volumes
