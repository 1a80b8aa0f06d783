"""fio beside volumes that are not on this machine: in pods, or in guests of virtual machines.

It is started apart from the connection that started it, so that an API server may restart in the
middle of a trial. All volumes begin at one moment, each by its own clock, whose distance from ours
is measured first.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.engines.fio_choice import candidates, settled
from leadline.engines.fio_job import job_text, prefill_text
from leadline.engines.fio_outcome import Talk
from leadline.engines.fio_version import require_version
from leadline.engines.remote_files import kept
from leadline.engines.remote_outcome import KILLED, MEMORY, together
from leadline.engines.remote_part import Ended, Part, digest
from leadline.errors import LeadlineError
from leadline.plan.footprint import DATA_FILE, Footprint
from leadline.plan.models import EngineChoice, Workload
from leadline.plan.target_url import TargetKind
from leadline.runner.ports import (
    Execution,
    Job,
    Location,
    Progress,
    RemoteVolume,
    RemoteVolumes,
    Shape,
)
from leadline.runner.stop import StopRequest
from leadline.shell import Shell, insist

_SHORT_S = 60.0
_TRY_S = 20.0
# From the command to begin until all volumes know it: a connection each, made side by side.
_LEAD_S = 2.0
_EACH_S = 0.05
_POLL_S = 0.2


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
            said = insist(shell, "fio --version && id -u && fio --enghelp", bound_s=_SHORT_S)
            lines = said.text.splitlines()
            if said.status == KILLED:
                raise LeadlineError(
                    errors.RUNNER_FAILED, f"fio was killed in the {shell.name}", hint=MEMORY
                )
            if said.status or not lines:
                raise LeadlineError(
                    errors.RUNNER_FAILED,
                    f"there is no fio in the {shell.name}: {said.complaint}",
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
    said = insist(volume.shell, script, location.folder, bound_s=_TRY_S + _SHORT_S)
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
