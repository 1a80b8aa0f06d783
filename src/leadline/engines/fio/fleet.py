"""A fleet: several fio servers that one fio client drives, all starting together.

Measured behaviour of fio's servers: docs/internals/fleet.md.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from leadline import errors, files
from leadline.archive import layout
from leadline.archive.raw import read_whole_fleet
from leadline.archive.records import ClientRecord, Clients, Problem, TrialStatus
from leadline.connect.shell import run_repeatable
from leadline.engines.fio.choice import TRY_FILE, prefill_choice, try_in_shell, try_options
from leadline.engines.fio.job import Vary, job_text, prefill_text
from leadline.engines.fio.local import (
    FioEngine,
    engine_options,
    own_engine,
    prefix_of,
    try_object,
)
from leadline.engines.fio.outcome import error_lines, finished_outcome, local_outcome
from leadline.engines.fio.pace import Pace, Section, find_shortfall, sections_of
from leadline.engines.fio.servers import POLL_S, Servers, Start
from leadline.engines.outcome import INTERRUPTED
from leadline.engines.process import Ended, LinkedStop, supervise
from leadline.errors import LeadlineError
from leadline.formats.fio.job_file import text_of
from leadline.formats.result import FormatError, JobResult
from leadline.plan.footprint import Footprint
from leadline.plan.workload import EngineChoice, Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import (
    CEPH_CONF_THERE,
    Execution,
    Folder,
    Host,
    Hosts,
    Job,
    Location,
    Progress,
    RadosObjects,
    RbdImage,
)

# The shortest of several round trips gives the most accurate clock offset.
_CLOCK_TRIES = 3
_QUERY_S = 30.0
_QUERY = "fio --version && getconf _NPROCESSORS_ONLN && date +%s%N"


def hosts_of(location: Location) -> tuple[Host, ...]:
    """The hosts of the fio servers; none where they are on this machine."""
    return location.hosts if isinstance(location, Hosts | RbdImage | RadosObjects) else ()


def host_for(location: Location, client: int) -> Host | None:
    """The host of a client, None for this machine; clients count from 1."""
    hosts = hosts_of(location)
    return hosts[(client - 1) % len(hosts)] if hosts else None


def ceph_environment(location: Location, host: Host) -> dict[str, str]:
    """The environment of fio on a host."""
    # fio's rbd engine reads the name of the configuration from the environment alone.
    on_rbd = isinstance(location, RbdImage)
    return {"CEPH_CONF": f"{host.path}/{CEPH_CONF_THERE}"} if on_rbd else {}


def _on_host(location: Location, host: Host) -> Location:
    """The location as a fio on the host reaches it."""
    if not isinstance(location, RadosObjects):
        return location
    conf = Path(host.path) / CEPH_CONF_THERE
    return replace(location, access=replace(location.access, conf=conf))


def client_names(job: Job) -> tuple[str, ...]:
    """c1, c2, ... for clients, then n1, n2, ... for neighbours."""
    clients = max(1, job.clients)
    return (
        *(f"c{number}" for number in range(1, clients + 1)),
        *(f"n{number}" for number in range(1, job.neighbours + 1)),
    )


def describe_clients(job: Job, version: str) -> Clients:
    """Host, fio version and clock of every client; `version` is that of fio on this machine.

    Raises LeadlineError where a host does not answer.
    """
    names = client_names(job)
    numbers = range(1, len(names) + 1)
    used = [host for number in numbers if (host := host_for(job.location, number)) is not None]
    if used:
        known = {record.host: record for record in _query_hosts(used)}
        clients = tuple(
            known[host.name].model_copy(update={"name": name})
            for host, name in zip(used, names, strict=True)
        )
    else:
        cores = len(os.sched_getaffinity(0))
        clients = tuple(
            ClientRecord(
                name=name,
                host=os.uname().nodename,
                fio_version=version,
                cores=cores,
                clock_offset_s=0.0,
                clock_uncertainty_s=0.0,
            )
            for name in names
        )
    return Clients(clients=clients)


def _query_hosts(hosts: Sequence[Host]) -> tuple[ClientRecord, ...]:
    """Query each host once, in parallel. Raises LeadlineError: `fio-missing`, and as Shell.run."""
    once = tuple({host.name: host for host in hosts}.values())
    with ThreadPoolExecutor(max_workers=len(once)) as pool:
        return tuple(pool.map(_query_host, once))


def _query_host(host: Host) -> ClientRecord:
    best: ClientRecord | None = None
    for _ in range(_CLOCK_TRIES):
        wall_s, began = time.time(), time.monotonic()
        result = run_repeatable(host.shell, _QUERY, bound_s=_QUERY_S)
        elapsed_s = time.monotonic() - began
        # A step of this machine's clock during the query makes the offset uncertain.
        step_s = time.time() - wall_s - elapsed_s
        lines = result.text.splitlines()
        if result.status or len(lines) != 3:
            raise LeadlineError(
                errors.FIO_MISSING,
                f"fio does not answer on the host {host.name!r}: {result.error_line}",
                hint="install fio there: it is what generates the load",
            )
        found = ClientRecord(
            name="",
            host=host.name,
            fio_version=lines[0],
            cores=int(lines[1]),
            clock_offset_s=round(int(lines[2]) / 1e9 - (wall_s + elapsed_s / 2), 6),
            clock_uncertainty_s=round(elapsed_s / 2 + abs(step_s), 6),
        )
        if best is None or found.clock_uncertainty_s < best.clock_uncertainty_s:
            best = found
    assert best is not None
    return best


def require_same_version(location: Location, version: str) -> None:
    """Raise LeadlineError(`client-versions-differ`) for hosts with different versions of fio: its
    protocol and its figures change between versions."""
    hosts = hosts_of(location)
    if not hosts:
        return
    found = _query_hosts(hosts)
    if {client.fio_version for client in found} != {version}:
        raise LeadlineError(
            errors.CLIENT_VERSIONS_DIFFER,
            "the load generators do not have the same fio",
            context=[
                f"this machine: {version}",
                *(f"{client.host}: {client.fio_version}" for client in found),
            ],
            hint="install the same version of fio everywhere, or leave out the hosts that differ",
        )


_RATE_EVERY_S = 1.0


class FleetWatch(LinkedStop):
    """Detects lost servers and measures the fleet's rate, which its client does not report."""

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
        self._clients = {name: None for name in client_names(job) if name.startswith("c")}
        self._sections = sections
        self._pace = Pace(sections, len(self._clients))
        self._progress = progress
        self._began: float | None = None
        self._measured_s = 0.0
        self._bytes = 0
        self.lost = ""
        self.problem: Problem | None = None

    def begin(self) -> None:
        self._began = time.monotonic()

    def is_due(self) -> bool:
        if self.problem is None:
            self._check()
            self.problem = lost_problem(self.lost) if self.lost else self._pace.problem
        return self.problem is not None

    def _check(self) -> None:
        elapsed_s = time.monotonic() - self._began if self._began is not None else 0.0
        gone = self._servers.gone(whole=bool(self._sections))
        # At the end all servers end at nearly the same time.
        number, _ = self._pace.section_at(elapsed_s)
        if gone and self._sections and number >= len(self._sections):
            return
        if gone:
            at = f"{elapsed_s:.1f} s after the start" if self._began is not None else "at its start"
            self.lost = f"client {gone[0]} was lost {at}"
            return
        since_s = elapsed_s - self._measured_s
        if since_s < _RATE_EVERY_S or self._began is None:
            return
        moved = self._servers.moved_bytes(self._clients)
        if moved is None or number >= len(self._sections):
            return
        iops = max(0, moved - self._bytes) / self._sections[number].block_size / since_s
        self._bytes, self._measured_s = moved, elapsed_s
        self._pace.add(iops, elapsed_s)
        self._progress(Progress(iops=iops))


def lost_problem(fact: str, context: Sequence[str] = ()) -> Problem:
    return Problem(
        code=errors.CLIENT_LOST.code,
        fact=fact,
        context=tuple(context),
        hint="check that the load generator is up and has enough memory, then "
        "`leadline run --resume --retry-failed`",
    )


_READY_S = 60.0
# Neighbours run longer than the clients that are measured.
_LONGER_S = 1.0
# The path of a Unix socket has 107 bytes at most.
_LONGEST_FOLDER = 80
# Files of the client's output in the fleet's folder.
_STDOUT, _STDERR = "stdout.txt", "stderr.txt"


class FleetEngine(FioEngine):
    """fio servers on this machine or on hosts, with their client here."""

    def resolve(self, workload: Workload, location: Location) -> Workload:
        """Raises LeadlineError(`client-versions-differ`) as well."""
        require_same_version(location, self.version)
        return super().resolve(workload, location)

    def _try(self, choice: EngineChoice, direct: bool, location: Location) -> str | None:
        host = host_for(location, 1)
        if host is None:
            return super()._try(choice, direct, location)
        if own_engine(location):
            engine, *options = try_options(choice, direct, in_files=False)
            where = self.where(_on_host(location, host))
            options = [engine, *where, *options, *try_object(location)]
            environment = ceph_environment(location, host)
            return try_in_shell(host.shell, host.path, options, environment=environment)
        options = try_options(choice, direct, in_files=True)
        return try_in_shell(host.shell, host.path, options, remove=TRY_FILE)

    def job_text(self, workload: Workload, location: Location, seed: int) -> str:
        text = job_text(
            workload,
            location.shape,
            seed,
            vary=Vary.DATA,
            fleet=True,
            objects=prefix_of(location),
        )
        return "\n".join([*self.client_comments(location), text])

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        if not isinstance(location, Hosts):
            return super().prefill_text(footprint, location, direct)
        engine = prefill_choice(self.engines)
        return prefill_text(footprint, location.shape, engine=engine, direct=direct, own=True)

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        """The client's command; it runs in the folder of the servers' sockets and job files."""
        clients = [(f"--client=sock:{name}", f"{name}.fio") for name in client_names(job)]
        return (
            self.program,
            f"--output={layout.FIO_OUTPUT}",
            "--output-format=json+",
            *(word for client in clients for word in client),
        )

    def _starts(self, job: Job, scratch: Path) -> list[Start]:
        """How the servers are started; their command lines set what the job files leave open."""
        location = job.location
        own = ["--lat_percentiles=1", *(["--create_only=1"] if job.layout_only else [])]
        starts = []
        for number, name in enumerate(client_names(job), start=1):
            engine = engine_options(location)
            host = host_for(location, number)
            if host is not None:
                where = self.where(_on_host(location, host)) if engine else []
                environment = ceph_environment(location, host)
                command = host.serving(scratch / name, [*own, *engine, *where], environment)
            else:
                # Servers work in the folder. `Popen(cwd=...)` would wait here for a file system
                # that does not answer.
                path = (
                    location.descriptor or location.path if isinstance(location, Folder) else None
                )
                within = ["env", f"--chdir={path}"] if path else []
                where = [] if path else self.where(location)
                server = f"--server=sock:{scratch / name}"
                command = (*within, *self.begin(location), *own, *engine, *where, server)
            starts.append(Start(name=name, command=command, local=host is None))
        return starts

    def execute(
        self, job: Job, folder: Path, stop: StopRequest, progress: Callable[[Progress], None]
    ) -> Execution:
        began = time.monotonic()
        command = self.command(job, folder)
        sections = sections_of(job.text)
        (folder / layout.JOB_FILE).write_text(job.text, encoding="utf-8")
        neighbour_text = _prolonged(job.neighbour_text, sections)
        if job.neighbours:
            (folder / layout.NEIGHBOUR_JOB_FILE).write_text(neighbour_text, encoding="utf-8")
        try:
            clients = describe_clients(job, self.version)
        except LeadlineError as error:
            return _lost(command, error.fact, began, error.context)
        (folder / layout.CLIENTS).write_bytes(layout.encode(clients))
        with files.ScratchFolder("fleet", _short()) as made:
            scratch = Path(made)
            for number, name in enumerate(client_names(job), start=1):
                text = text_of(number, neighbour_text if name.startswith("n") else job.text)
                (scratch / f"{name}.fio").write_text(text, encoding="utf-8")
            with (folder / layout.STDERR).open("wb") as stderr:
                servers = Servers(self._starts(job, scratch), scratch, stderr)
                watch = FleetWatch(stop, servers, job, sections, progress)
                try:
                    with servers:
                        ended = self._drive(command, job, scratch, watch, servers)
                        cpu_s = servers.end()
                except OSError as error:
                    return _lost(command, f"a fio server cannot be started: {error}", began)
                stderr.seek(0, 2)
                # The client prints the servers' messages about their jobs.
                for output in (scratch / _STDOUT, scratch / _STDERR):
                    stderr.write(output.read_bytes() if output.exists() else b"")
            _keep(scratch, folder)
        if ended is None:
            problem = None if stop.requested or not watch.is_due() else watch.problem
            status = TrialStatus.FAILED if problem else TrialStatus.INTERRUPTED
            return Execution(
                status=status,
                command=command,
                exit_status=None,
                wall_s=time.monotonic() - began,
                problem=problem or INTERRUPTED,
            )
        status, problem = self._outcome(ended, folder, job, sections, watch, stop)
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
        self, command: Sequence[str], job: Job, scratch: Path, watch: FleetWatch, servers: Servers
    ) -> Ended | None:
        """Run the client when all servers answer; None where it did not start."""
        until = time.monotonic() + _READY_S
        while silent := servers.silent():
            if watch.requested:
                return None
            if time.monotonic() > until:
                watch.lost = f"client {silent[0]} did not answer within {_READY_S:g} s"
                return None
            time.sleep(POLL_S)
        watch.begin()
        with (scratch / _STDOUT).open("wb") as output:
            return supervise(
                command,
                cwd=scratch,
                stderr=scratch / _STDERR,
                bound_s=job.bound_s,
                stop=watch,
                on_output=output.write,
            )

    def _outcome(
        self,
        ended: Ended,
        folder: Path,
        job: Job,
        sections: Sequence[Section],
        watch: FleetWatch,
        stop: StopRequest,
    ) -> tuple[TrialStatus, Problem | None]:
        status, problem = local_outcome(ended, folder, job)
        found = watch.problem
        if found is not None and not stop.requested and status is not TrialStatus.HUNG:
            # A server that ended because of its target has reported that error.
            if watch.lost and any(job.error for job in _jobs(folder)):
                return finished_outcome(folder, 1)
            return TrialStatus.FAILED, found
        if status in (TrialStatus.HUNG, TrialStatus.INTERRUPTED):
            return status, problem
        clients = len(client_names(job))
        answered = {job.host for job in _jobs(folder)}
        missing = [name for name in client_names(job) if name not in answered]
        if 0 < len(missing) < clients:
            return TrialStatus.FAILED, lost_problem(
                f"client {missing[0]} gave no results at the end of the trial"
            )
        if problem is None and missing:
            # fio's client succeeds where the servers refuse their job.
            return TrialStatus.FAILED, Problem(
                code=errors.ENGINE_FAILED.code,
                fact="no fio server accepted its job",
                context=error_lines(folder),
                hint="the output of fio is in the trial's stderr.txt",
            )
        if problem is None:
            problem = find_shortfall(folder, self.name, sections, max(1, job.clients))
            status = TrialStatus.FAILED if problem else status
        return status, problem


def _jobs(folder: Path) -> tuple[JobResult, ...]:
    """The results of the clients; none where they cannot be read."""
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


def _prolonged(text: str, sections: Sequence[Section]) -> str:
    """The neighbours' job, with a runtime that covers all phases of the measured clients."""
    own = sections_of(text)
    if not own:
        return text
    whole_s = sum(section.ramp_s + section.runtime_s for section in sections)
    runtime_s = max(own[0].runtime_s, whole_s - own[0].ramp_s) + _LONGER_S
    return re.sub(r"(?m)^runtime=.*$", f"runtime={round(runtime_s * 1000)}ms", text)


def _keep(scratch: Path, folder: Path) -> None:
    """Move the client's output and logs, which it writes next to the sockets, to the trial."""
    for path in scratch.iterdir():
        if path.name == layout.FIO_OUTPUT or ".log." in path.name:
            shutil.move(path, folder / path.name)


def _short() -> str | None:
    """The parent of the fleet's folder; None for the usual one, if its path is short enough."""
    return None if len(tempfile.gettempdir()) < _LONGEST_FOLDER else files.SHORT
