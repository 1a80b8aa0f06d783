"""A fleet: several fio servers that one fio client drives, all beginning together.

How fio's servers behave, and what was measured of it: docs/internals/fleet.md.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from leadline import errors, files
from leadline.archive import layout
from leadline.archive.raw import read_whole_fleet
from leadline.archive.records import ClientRecord, Clients, Problem, TrialStatus
from leadline.connect.shell import run_repeatable
from leadline.engines.fio.job import job_text, prefill_text
from leadline.engines.fio.local import (
    FioEngine,
    Pace,
    Section,
    Watched,
    outcome,
    outcome_of,
    sections_of,
    too_slow,
)
from leadline.engines.process import Ended, ending_with_parent, supervise
from leadline.errors import LeadlineError
from leadline.formats.fio.job_file import text_of
from leadline.formats.result import FormatError, JobResult
from leadline.plan.footprint import DATA_FILE, Footprint
from leadline.plan.models import EngineChoice, Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Folder, Host, Hosts, Job, Location, Progress, RbdImage

# The load generators of a fleet: who they are, their versions and clocks.

# The shortest of some round trips leaves least doubt about a clock.
_CLOCK_TRIES = 3
_ASK_S = 30.0
_ASK = "fio --version && getconf _NPROCESSORS_ONLN && date +%s%N"


def names_of(job: Job) -> tuple[str, ...]:
    """c1, c2, ... and behind them n1, ... for neighbours."""
    clients = max(1, job.clients)
    return (
        *(f"c{number}" for number in range(1, clients + 1)),
        *(f"n{number}" for number in range(1, job.neighbours + 1)),
    )


def clients_of(job: Job, here: str) -> Clients:
    """What is known of every client of a job; `here` is the version of fio on this machine.
    Raises LeadlineError where a host does not answer."""
    names = names_of(job)
    location = job.location
    if isinstance(location, Hosts):
        used = {number: location.host_for(number) for number in range(1, len(names) + 1)}
        known = {one.host: one for one in ask(tuple(used.values()))}
        told = (known[used[number].name] for number in range(1, len(names) + 1))
        clients = tuple(
            one.model_copy(update={"name": name}) for one, name in zip(told, names, strict=True)
        )
    else:
        cores = len(os.sched_getaffinity(0))
        clients = tuple(
            ClientRecord(
                name=name,
                host=os.uname().nodename,
                fio_version=here,
                cores=cores,
                clock_offset_s=0.0,
                clock_uncertainty_s=0.0,
            )
            for name in names
        )
    return Clients(clients=clients)


def ask(hosts: Sequence[Host]) -> tuple[ClientRecord, ...]:
    """Each host once, side by side. Raises LeadlineError: `fio-missing`, and as Shell.run."""
    once = tuple({host.name: host for host in hosts}.values())
    with ThreadPoolExecutor(max_workers=len(once)) as pool:
        return tuple(pool.map(_ask, once))


def _ask(host: Host) -> ClientRecord:
    best: ClientRecord | None = None
    for _ in range(_CLOCK_TRIES):
        before = time.time()
        said = run_repeatable(host.shell, _ASK, bound_s=_ASK_S)
        after = time.time()
        lines = said.text.splitlines()
        if said.status or len(lines) != 3:
            raise LeadlineError(
                errors.FIO_MISSING,
                f"fio does not answer on the host {host.name!r}: {said.error_line}",
                hint="install fio there: it is what generates the load",
            )
        found = ClientRecord(
            name="",
            host=host.name,
            fio_version=lines[0],
            cores=int(lines[1]),
            clock_offset_s=round(int(lines[2]) / 1e9 - (before + after) / 2, 6),
            clock_uncertainty_s=round((after - before) / 2, 6),
        )
        if best is None or found.clock_uncertainty_s < best.clock_uncertainty_s:
            best = found
    assert best is not None
    return best


def require_same_version(location: Location, here: str) -> None:
    """Raise LeadlineError(`client-versions-differ`) where a fleet would not be of one fio: their
    protocol and their figures change between versions."""
    if not isinstance(location, Hosts):
        return
    found = ask(location.hosts)
    if {one.fio_version for one in found} != {here}:
        raise LeadlineError(
            errors.CLIENT_VERSIONS_DIFFER,
            "the load generators do not have the same fio",
            context=[
                f"this machine: {here}",
                *(f"{one.host}: {one.fio_version}" for one in found),
            ],
            hint="install the same version of fio everywhere, or leave out the hosts that differ",
        )


# The fio servers of a fleet: one process for each client, which ends with Leadline.

_POLL_S = 0.02
# A server waits for what it forked for the client about once a second.
_REAPED_S = 2.0
_END_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How one server is started: `command` makes it answer at the socket `name` of the fleet's
    folder. `local`: the process is the server itself."""

    name: str
    host: str
    command: tuple[str, ...]
    cwd: Path | None
    local: bool


@dataclass(slots=True)
class _Server:
    start: Start
    process: subprocess.Popen[bytes]
    cpu_s: float = 0.0
    # Seconds of processor time by process, as seen last: fio does not wait for all that it forks.
    spent: dict[int, float] = field(default_factory=dict)
    # Bytes that those who did I/O for it moved, by their process.
    moved: dict[int, int] = field(default_factory=dict)
    working: bool = False

    def reap(self, *, wait_s: float = 0.0) -> bool:
        """Whether it has ended; its processor time is then known, with that of its children."""
        until = time.monotonic() + wait_s
        while self.process.returncode is None:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = usage.ru_utime + usage.ru_stime
            elif time.monotonic() >= until:
                return False
            else:
                time.sleep(_POLL_S)
        return True

    def workers(self) -> tuple[int, ...]:
        """The processes that it forked: one for a client that is connected, and below it those
        that do I/O."""
        found: list[int] = []
        pending = [self.process.pid]
        while pending:
            children = _children(pending.pop())
            found += children
            pending += children
        return tuple(found)


def _children(pid: int) -> tuple[int, ...]:
    try:
        told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return ()
    return tuple(int(one) for one in told.split() if _alive(int(one)))


def _alive(pid: int) -> bool:
    fields = _stat(pid)
    return bool(fields) and fields[0] not in "ZX"


def _cpu_s(pid: int) -> float:
    """User and system time of a process with all its threads; fields 14 and 15 of proc(5)."""
    fields = _stat(pid)
    ticks = int(fields[11]) + int(fields[12]) if fields else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


class Servers:
    """Started on entry, ended on every way out. What they say goes to `stderr`."""

    def __init__(self, starts: Sequence[Start], folder: Path, stderr: IO[bytes]) -> None:
        self._starts = starts
        self._folder = folder
        self._stderr = stderr
        self._servers: list[_Server] = []

    def __enter__(self) -> Self:
        """Raises OSError where one cannot be started."""
        try:
            for start in self._starts:
                process = subprocess.Popen(
                    ending_with_parent(start.command),
                    cwd=start.cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._stderr,
                    start_new_session=True,
                )
                self._servers.append(_Server(start=start, process=process))
        except OSError:
            self.end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def silent(self) -> tuple[str, ...]:
        """Those that do not answer yet."""
        names = (server.start.name for server in self._servers)
        return tuple(name for name in names if not (self._folder / name).exists())

    def gone(self, *, whole: bool) -> tuple[str, ...]:
        """Those that have ended; `whole`: all are to work to the same end, so that one which
        worked and does so no longer is gone as well."""
        found = []
        for server in self._servers:
            workers = server.workers() if server.start.local else ()
            server.spent |= {pid: _cpu_s(pid) for pid in workers}
            busy = bool(workers)
            server.working = server.working or busy
            if server.reap() or (whole and server.working and not busy):
                found.append(server.start.name)
        return tuple(found)

    def moved_bytes(self, names: Mapping[str, object]) -> int | None:
        """Bytes that these servers have read and written, as the kernel accounts them; None where
        nobody tells, as of other machines."""
        total = 0
        for server in self._servers:
            if server.start.name not in names:
                continue
            if not server.start.local:
                return None
            for pid in server.workers():
                try:
                    told = Path(f"/proc/{pid}/io").read_text()
                except OSError:
                    continue
                fields = dict(line.split(": ") for line in told.splitlines())
                server.moved[pid] = int(fields["read_bytes"]) + int(fields["write_bytes"])
            total += sum(server.moved.values())
        return total

    def end(self) -> float:
        """End all of them; seconds of processor time that the local ones took in all."""
        until = time.monotonic() + _REAPED_S
        while time.monotonic() < until and any(server.workers() for server in self._servers):
            time.sleep(_POLL_S)
        for server in self._servers:
            if not server.reap():
                server.process.send_signal(signal.SIGTERM)
        until = time.monotonic() + _END_S
        for server in self._servers:
            server.reap(wait_s=max(0.0, until - time.monotonic()))
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(server.process.pid, signal.SIGKILL)  # and what outlived its parent
            server.reap(wait_s=_END_S)
        return sum(
            max(server.cpu_s, sum(server.spent.values()))
            for server in self._servers
            if server.start.local
        )


# What is seen of a fleet while its client runs, which tells nothing itself.

_LOOK_S = 1.0


class FleetWatch(Watched):
    """Sees while the client runs which servers are lost, and how fast the fleet is."""

    def __init__(
        self,
        user: StopRequest,
        servers: Servers,
        job: Job,
        sections: Sequence[Section],
        progress: Callable[[Progress], None],
    ) -> None:
        super().__init__(user)
        self._servers = servers
        self._clients = {name: None for name in names_of(job) if name.startswith("c")}
        self._sections = sections
        self._pace = Pace(sections, len(self._clients))
        self._progress = progress
        self._began: float | None = None
        self._looked_s = 0.0
        self._bytes = 0
        self.lost = ""
        self.seen: Problem | None = None

    def begin(self) -> None:
        """The client starts now."""
        self._began = time.monotonic()

    def problem(self) -> Problem | None:
        if self.seen is None:
            self._look()
            self.seen = lost_problem(self.lost) if self.lost else self._pace.problem
        return self.seen

    def _look(self) -> None:
        elapsed_s = time.monotonic() - self._began if self._began is not None else 0.0
        gone = self._servers.gone(whole=bool(self._sections))
        # At the end all servers are done within a moment of each other.
        number, _ = self._pace.at(elapsed_s)
        if gone and self._sections and number >= len(self._sections):
            return
        if gone:
            at = f"{elapsed_s:.1f} s after the start" if self._began is not None else "at its start"
            self.lost = f"client {gone[0]} was lost {at}"
            return
        since_s = elapsed_s - self._looked_s
        if since_s < _LOOK_S or self._began is None:
            return
        moved = self._servers.moved_bytes(self._clients)
        if moved is None or number >= len(self._sections):
            return
        iops = max(0, moved - self._bytes) / self._sections[number].block_size / since_s
        self._bytes, self._looked_s = moved, elapsed_s
        self._pace.see(iops, elapsed_s)
        self._progress(Progress(iops=iops))


def lost_problem(fact: str, context: Sequence[str] = ()) -> Problem:
    return Problem(
        code=errors.CLIENT_LOST.code,
        fact=fact,
        context=tuple(context),
        hint="see that the load generator is there and has memory enough, then "
        "`leadline run --resume --retry-failed`",
    )


_TRY_S = 20.0
_READY_S = 60.0
# Neighbours go on until nobody measures any more.
_LONGER_S = 1.0
# A Unix socket's path has 107 bytes.
_LONGEST_FOLDER = 80


class FleetEngine(FioEngine):
    """fio servers on this machine or on hosts, and their client here."""

    def resolve(self, workload: Workload, location: Location) -> Workload:
        """Raises LeadlineError(`client-versions-differ`) as well."""
        require_same_version(location, self.version)
        return super().resolve(workload, location)

    def _try(self, choice: EngineChoice, direct: bool, location: Location) -> str | None:
        if not isinstance(location, Hosts):
            return super()._try(choice, direct, location)
        first, scratch = location.hosts[0], DATA_FILE.format(job="try")
        options = [f"--ioengine={choice.value}", f"--direct={int(direct)}", f"--filename={scratch}"]
        fio = shlex.join(["fio", "--name=try", *options, "--rw=write", "--bs=4k", "--size=4k"])
        script = f'cd "$1" && timeout {_TRY_S:g} {fio}; status=$?; rm -f {scratch}; exit $status'
        said = run_repeatable(first.shell, script, first.path, bound_s=_TRY_S + _READY_S)
        if said.status == 0:
            return None
        words = (said.stderr + said.stdout).decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in words if "fio:" in line), said.error_line)

    def job_text(self, workload: Workload, location: Location, seed: int) -> str:
        text = job_text(workload, location.shape, seed, fleet=True)
        return "\n".join([*self.settings_told(location), text])

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        if not isinstance(location, Hosts):
            return super().prefill_text(footprint, location, direct)
        engine = EngineChoice.LIBAIO if EngineChoice.LIBAIO in self.engines else EngineChoice.PSYNC
        return prefill_text(footprint, location.shape, engine=engine, direct=direct, fleet=True)

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        """The client's, to be run where the servers' sockets and the job files of each lie."""
        clients = [(f"--client=sock:{name}", f"{name}.fio") for name in names_of(job)]
        return (
            self.program,
            f"--output={layout.FIO_OUTPUT}",
            "--output-format=json+",
            *(word for client in clients for word in client),
        )

    def _starts(self, job: Job, scratch: Path) -> list[Start]:
        """How the servers are started. They take what the job files do not say from their own
        command lines."""
        location = job.location
        own = ["--lat_percentiles=1", *(["--create_only=1"] if job.layout_only else [])]
        starts = []
        for number, name in enumerate(names_of(job), start=1):
            if isinstance(location, Hosts):
                host = location.host_for(number)
                start = Start(
                    name=name,
                    host=host.name,
                    command=host.serving(scratch / name, own, {}),
                    cwd=None,
                    local=False,
                )
            else:
                here = isinstance(location, Folder)
                engine = ["--ioengine=rbd"] if isinstance(location, RbdImage) else []
                where = [] if here else self.where(location)
                start = Start(
                    name=name,
                    host="",
                    command=(
                        *self.begin(location),
                        *own,
                        *engine,
                        *where,
                        f"--server=sock:{scratch / name}",
                    ),
                    cwd=location.path if isinstance(location, Folder) else None,
                    local=True,
                )
            starts.append(start)
        return starts

    def execute(
        self,
        job: Job,
        folder: Path,
        stop: StopRequest,
        progress: Callable[[Progress], None],
    ) -> Execution:
        began = time.monotonic()
        command = self.command(job, folder)
        sections = sections_of(job.text)
        (folder / layout.JOB_FILE).write_text(job.text, encoding="utf-8")
        beside = _lasting(job.neighbour_text, sections)
        if job.neighbours:
            (folder / layout.NEIGHBOUR_JOB_FILE).write_text(beside, encoding="utf-8")
        try:
            clients = clients_of(job, self.version)
        except LeadlineError as error:
            return _lost(command, error.fact, began, error.context)
        (folder / layout.CLIENTS).write_bytes(layout.encode(clients))
        with tempfile.TemporaryDirectory(prefix=files.prefix("fleet"), dir=_short()) as kept:
            scratch = Path(kept)
            for number, name in enumerate(names_of(job), start=1):
                text = text_of(number, beside if name.startswith("n") else job.text)
                (scratch / f"{name}.fio").write_text(text, encoding="utf-8")
            words = folder / layout.STDERR
            with words.open("wb") as stderr:
                servers = Servers(self._starts(job, scratch), scratch, stderr)
                watch = FleetWatch(stop, servers, job, sections, progress)
                try:
                    with servers:
                        ended = self._drive(command, job, scratch, watch, servers)
                        cpu_s = servers.end()
                except OSError as error:
                    return _lost(command, f"a fio server cannot be started: {error}", began)
                stderr.seek(0, 2)
                # What servers say of their jobs comes through the client.
                for said in (scratch / "said", scratch / "complaints"):
                    stderr.write(said.read_bytes() if said.exists() else b"")
            _keep(scratch, folder)
        if ended is None:
            problem = None if stop.requested else watch.problem()
            status = TrialStatus.FAILED if problem else TrialStatus.INTERRUPTED
            return Execution(
                status=status,
                command=command,
                exit_status=None,
                wall_s=time.monotonic() - began,
                problem=problem or _INTERRUPTED,
            )
        status, problem = self._judged(ended, folder, job, sections, watch, stop)
        return Execution(
            status=status,
            command=command,
            exit_status=ended.exit_status,
            signals=ended.signals,
            engine_cpu_s=ended.cpu_s + cpu_s,
            wall_s=ended.wall_s,
            problem=problem,
        )

    def _drive(
        self,
        command: Sequence[str],
        job: Job,
        scratch: Path,
        watch: FleetWatch,
        servers: Servers,
    ) -> Ended | None:
        """Run the client when all servers answer; None where it did not come to that."""
        until = time.monotonic() + _READY_S
        while silent := servers.silent():
            if watch.requested:
                return None
            if time.monotonic() > until:
                watch.lost = f"client {silent[0]} did not answer within {_READY_S:g} s"
                return None
            time.sleep(_POLL_S)
        watch.begin()
        with (scratch / "said").open("wb") as said:

            def take(chunk: bytes) -> None:
                said.write(chunk)

            return supervise(
                command,
                cwd=scratch,
                stderr=scratch / "complaints",
                bound_s=job.bound_s,
                stop=watch,
                on_output=take,
            )

    def _judged(
        self,
        ended: Ended,
        folder: Path,
        job: Job,
        sections: Sequence[Section],
        watch: FleetWatch,
        stop: StopRequest,
    ) -> tuple[TrialStatus, Problem | None]:
        status, problem = outcome(ended, folder, job)
        seen = watch.seen
        if seen is not None and not stop.requested and status is not TrialStatus.HUNG:
            # One that ended for an error of its target has told it.
            errors_told = watch.lost and any(one.error for one in _jobs(folder))
            return outcome_of(folder, 1) if errors_told else (TrialStatus.FAILED, seen)
        if status in (TrialStatus.HUNG, TrialStatus.INTERRUPTED):
            return status, problem
        clients = len(names_of(job))
        answered = {one.host for one in _jobs(folder)}
        missing = [name for name in names_of(job) if name not in answered]
        if 0 < len(missing) < clients:
            return TrialStatus.FAILED, lost_problem(
                f"client {missing[0]} gave no results at the end of the trial"
            )
        if problem is None and missing:
            # fio's client ends well where the servers refuse their job.
            return TrialStatus.FAILED, Problem(
                code=errors.ENGINE_FAILED.code,
                fact="no fio server took its job",
                context=_last_lines(folder / layout.STDERR),
                hint="fio's own words are in the trial's stderr.txt",
            )
        if problem is None:
            problem = too_slow(folder, sections, max(1, job.clients))
            status = TrialStatus.FAILED if problem else status
        return status, problem


_INTERRUPTED = Problem(
    code=errors.INTERRUPTED.code,
    fact="the trial was stopped by a signal",
    hint="`leadline run --resume` does it again",
)


def _jobs(folder: Path) -> tuple[JobResult, ...]:
    """What clients told, as far as it can be read."""
    try:
        return read_whole_fleet(folder).jobs
    except FormatError:
        return ()


def _lost(
    command: tuple[str, ...], fact: str, began: float, context: Sequence[str] = ()
) -> Execution:
    return Execution(
        status=TrialStatus.FAILED,
        command=command,
        exit_status=None,
        wall_s=time.monotonic() - began,
        problem=lost_problem(fact, context),
    )


def _lasting(text: str, sections: Sequence[Section]) -> str:
    """The neighbours' job, which goes on for all phases of those that are measured."""
    own = sections_of(text)
    if not own:
        return text
    whole_s = sum(one.ramp_s + one.runtime_s for one in sections)
    runtime_s = max(own[0].runtime_s, whole_s - own[0].ramp_s) + _LONGER_S
    return re.sub(r"(?m)^runtime=.*$", f"runtime={round(runtime_s * 1000)}ms", text)


def _keep(scratch: Path, folder: Path) -> None:
    """The client's output and logs, which it could write beside the sockets only."""
    for path in scratch.iterdir():
        if path.name == layout.FIO_OUTPUT or ".log." in path.name:
            shutil.move(path, folder / path.name)


def _short() -> str | None:
    """Where to make the fleet's folder; None for the usual place."""
    return None if len(tempfile.gettempdir()) < _LONGEST_FOLDER else files.SHORT


def _last_lines(path: Path, count: int = 4) -> tuple[str, ...]:
    lines = path.read_text("utf-8", "replace").splitlines()
    return tuple(line.strip() for line in lines if line.strip())[-count:]
