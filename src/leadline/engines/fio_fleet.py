"""A fleet: several fio servers that one fio client drives, all beginning together.

How fio's servers behave, and what was measured of it: docs/internals/fleet.md.
"""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from leadline import errors, private_folder
from leadline.archive import layout
from leadline.archive.raw import read_whole_fleet
from leadline.archive.records import Problem, TrialStatus
from leadline.engines.fio import FioEngine, outcome, too_slow
from leadline.engines.fio_fleet_clients import clients_of, names_of, require_same_version
from leadline.engines.fio_fleet_servers import Servers, Start
from leadline.engines.fio_fleet_watch import FleetWatch, lost_problem
from leadline.engines.fio_job import job_text, prefill_text
from leadline.engines.fio_outcome import outcome_of
from leadline.engines.fio_rate import Section, sections_of
from leadline.engines.supervise import Ended, supervise
from leadline.errors import LeadlineError
from leadline.formats.fio_job_file import text_of
from leadline.formats.output import FormatError, JobResult
from leadline.plan.footprint import DATA_FILE, Footprint
from leadline.plan.models import EngineChoice, Workload
from leadline.runner.ports import Execution, Folder, Hosts, Job, Location, Progress, RbdImage
from leadline.runner.stop import StopRequest
from leadline.shell import insist

_TRY_S = 20.0
_READY_S = 60.0
_POLL_S = 0.02
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
        said = insist(first.shell, script, first.path, bound_s=_TRY_S + _READY_S)
        if said.status == 0:
            return None
        words = (said.stderr + said.stdout).decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in words if "fio:" in line), said.complaint)

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
                host = location.of(number)
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
        with tempfile.TemporaryDirectory(
            prefix=private_folder.prefix("fleet"), dir=_short()
        ) as kept:
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
    return None if len(tempfile.gettempdir()) < _LONGEST_FOLDER else private_folder.SHORT


def _last_lines(path: Path, count: int = 4) -> tuple[str, ...]:
    lines = path.read_text("utf-8", "replace").splitlines()
    return tuple(line.strip() for line in lines if line.strip())[-count:]
