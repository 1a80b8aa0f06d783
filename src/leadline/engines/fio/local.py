"""The fio engine: fio 3.x as a child process on this machine."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from leadline import errors, files
from leadline.archive import layout
from leadline.archive.records import TrialStatus
from leadline.connect import programs
from leadline.engines.fio.choice import (
    INSTALL,
    REPORT_OPTIONS,
    TRY_FILE,
    TRY_S,
    candidates,
    choose_engine,
    error_line,
    prefill_choice,
    require_version,
    try_options,
)
from leadline.engines.fio.job import job_text, prefill_text
from leadline.engines.fio.job_check import LOOK_S, check_job_file
from leadline.engines.fio.outcome import local_outcome, parse_rate
from leadline.engines.fio.pace import Pace, PacedStop, find_shortfall, sections_of
from leadline.engines.fio.servers import process_cpu_s
from leadline.engines.outcome import execution_of
from leadline.engines.process import Program, RateReader, supervise
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.job_file import Place
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import EngineChoice, JobFile, Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import (
    Device,
    Execution,
    Folder,
    Job,
    Location,
    NbdExport,
    Progress,
    RadosObjects,
    RbdImage,
    Shape,
)

# The only I/O engine for a kind of target in a Ceph pool.
_OF_KIND = {TargetKind.RBD: EngineChoice.RBD, TargetKind.RADOS: EngineChoice.RADOS}
# Options of fio's rados engine that earlier versions lack: without them it uses the cluster of
# this machine, and creates empty objects.
_RADOS_OPTIONS = ("conf", "touch_objects")


def own_engine(location: Location) -> EngineChoice | None:
    """The only I/O engine of fio for a location; None for files and devices."""
    if isinstance(location, NbdExport):
        return EngineChoice.NBD
    if isinstance(location, RbdImage):
        return EngineChoice.RBD
    return EngineChoice.RADOS if isinstance(location, RadosObjects) else None


def engine_options(location: Location) -> list[str]:
    """fio's option for that engine: its own options must come after it."""
    choice = own_engine(location)
    return [f"--ioengine={choice.value}"] if choice else []


def prefix_of(location: Location) -> str:
    """The prefix of the objects of a location; empty where it has none."""
    return location.prefix if isinstance(location, RadosObjects) else ""


def try_object(location: Location) -> list[str]:
    """fio's options for an object that does not exist: reading it needs a connection alone."""
    prefix = prefix_of(location)
    return [f"--filename={prefix}.try"] if prefix else []


class FioEngine:
    """fio from PATH, or the program given."""

    name = "fio"

    def __init__(self, program: str = "fio") -> None:
        self._program = Program(program, errors.FIO_MISSING, INSTALL)
        self._checked: set[tuple[JobFile, Place]] = set()

    @property
    def program(self) -> str:
        return self._program.path

    @property
    def version(self) -> str:
        """As fio prints it, for instance `fio-3.33`. Raises LeadlineError."""
        return self._program.version

    def require_version(self) -> None:
        """Raise LeadlineError(`fio-too-old`) for a fio that Leadline does not support."""
        require_version(self.version, self.program)

    @cached_property
    def engines(self) -> frozenset[str]:
        """The I/O engines that this fio was built with."""
        done = self._program.ask("--enghelp")
        return frozenset(line.strip() for line in done.stdout.splitlines()[1:])

    def check(self, workload: Workload, kind: TargetKind) -> None:
        self.require_version()
        choice = _OF_KIND.get(kind, workload.engine)
        if choice is not EngineChoice.AUTO and choice.value not in self.engines:
            raise LeadlineError(
                errors.ENGINE_UNKNOWN,
                f"this fio has no engine {choice.value!r}",
                context=[f"workload {workload.name!r}", self.version],
                hint="install a fio that was built with librbd and librados"
                if kind in _OF_KIND
                else "use `engine: auto`, or one that `fio --enghelp` lists",
            )
        if choice is EngineChoice.RADOS:
            self._require_rados_options()
        if workload.job_file is not None:
            self._check_job_file(workload.job_file, kind)

    def _check_job_file(self, job_file: JobFile, kind: TargetKind) -> None:
        """Let fio read what Leadline wrote, once for each file and kind of place."""
        place = Place.FILES if kind.in_files else Place.DEVICE
        if (job_file, place) in self._checked:
            return
        with files.ScratchFolder("look") as scratch:

            def ask(options: tuple[str, ...], text: bytes) -> tuple[int | None, str]:
                with tempfile.TemporaryFile(dir=scratch) as stdin:
                    stdin.write(text)
                    stdin.seek(0)
                    status, out, err = programs.run(
                        self.program,
                        *options,
                        bound_s=LOOK_S,
                        cwd=scratch,
                        stdin=stdin.fileno(),
                    )
                return status, err + out

            # fio opens nothing: a path of the same form shows as much as that of the target.
            check_job_file(job_file, place, f"{scratch}/target", ask)
        self._checked.add((job_file, place))

    def _require_rados_options(self) -> None:
        options = self._program.ask(f"--enghelp={EngineChoice.RADOS.value}").stdout
        known = {line.partition(":")[0].strip() for line in options.splitlines()}
        for option in _RADOS_OPTIONS:
            if option not in known:
                raise LeadlineError(
                    errors.FIO_TOO_OLD,
                    f"the rados engine of this fio has no option {option!r}",
                    context=[self.version],
                    hint="install fio 3.33 or newer, or use `rados bench`: rados:POOL",
                )

    def _candidates(self, workload: Workload, location: Location) -> list[EngineChoice]:
        only = own_engine(location)
        return [only] if only else candidates(workload, self.engines)

    def likely(self, workload: Workload, location: Location) -> Workload:
        choices = self._candidates(workload, location)
        return workload.model_copy(update={"engine": choices[0]}) if choices else workload

    def resolve(self, workload: Workload, location: Location) -> Workload:
        if workload.job_file:
            return workload
        return choose_engine(
            workload,
            location,
            self._candidates(workload, location),
            lambda choice: self._try(choice, workload.direct, location),
        )

    def _try(self, choice: EngineChoice, direct: bool, location: Location) -> str | None:
        """Do one small I/O on the location; fio's error line, or None where it works."""
        folder = location.path if isinstance(location, Folder) else None
        engine, *options = try_options(choice, direct, in_files=folder is not None)
        # Options of an I/O engine must come after its own name.
        words = ["--name=try", engine, *self.where(location), *options, *try_object(location)]
        command = [*self.begin(location), *words, "--output-format=json"]
        with files.ScratchFolder("try") as scratch:
            status, out, err = programs.run(*command, bound_s=TRY_S, cwd=scratch)
            if status is None:
                # It hangs in the kernel; removing its file would hang too.
                return f"no answer within {TRY_S:g} s"
            if folder is not None:
                programs.run("rm", "-f", "--", str(folder / TRY_FILE), bound_s=TRY_S)
        return None if status == 0 else error_line(err + out, status)

    def job_text(self, workload: Workload, location: Location, seed: int) -> str:
        text = job_text(workload, location.shape, seed, objects=prefix_of(location))
        return "\n".join([*self.client_comments(location), text])

    def client_comments(self, location: Location) -> list[str]:
        """Client settings as comments: fio has no options for them, its configuration has."""
        if not isinstance(location, RbdImage | NbdExport):
            return []
        found = [f"# client: {key} = {value}" for key, value in location.settings]
        if isinstance(location, NbdExport):
            found.append("# path: NBD on a Unix socket, qemu-nbd, librbd")
            found += [f"# encryption: {location.encryption}"] if location.encryption else []
        return found

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        return prefill_text(
            footprint,
            location.shape,
            engine=own_engine(location) or prefill_choice(self.engines),
            direct=direct,
            objects=prefix_of(location),
        )

    def begin(self, location: Location) -> list[str]:
        """The start of the command line: fio, in the network of the target."""
        if not isinstance(location, RbdImage | RadosObjects):
            return [self.program]
        if isinstance(location, RadosObjects):
            return [*location.access.prefix, self.program]
        # fio's rbd engine reads the name of the configuration from the environment alone.
        conf = f"CEPH_CONF={location.access.conf}"
        return [*location.access.prefix, "env", conf, self.program]

    def where(self, location: Location) -> list[str]:
        """fio's options that name the location."""
        match location:
            case RbdImage():
                who = f"--clientname={location.access.name}"
                where = [who, f"--pool={location.pool}", f"--rbdname={location.image}"]
            case RadosObjects():
                who = f"--clientname={location.access.name}"
                conf = f"--conf={location.access.conf}"
                # A read of an object that does not exist must not create it.
                return [who, f"--pool={location.pool}", conf, "--touch_objects=0"]
            case NbdExport():
                where = [f"--uri=nbd+unix:///?socket={location.socket}"]
            case Folder() | Device():
                held = location.descriptor or location.path
                # fio splits both options at colons.
                path = str(held).replace("\\", "\\\\").replace(":", "\\:")
                if location.shape is Shape.FILES:
                    # fio takes no link for a directory, which `/.` follows.
                    where = [
                        f"--directory={path}/." if location.descriptor else f"--directory={path}"
                    ]
                else:
                    where = [f"--filename={path}"]
            case _:
                raise TypeError(f"fio does no I/O on {location}")
        read_only = not isinstance(location, Folder) and location.read_only
        return [*where, "--readonly"] if read_only else where

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        layout_only = ("--create_only=1",) if job.layout_only else ()
        return (
            *self.begin(job.location),
            f"--output={folder / layout.FIO_OUTPUT}",
            *REPORT_OPTIONS,
            *engine_options(job.location),
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
        server = job.location.server if isinstance(job.location, NbdExport) else None
        served_s = process_cpu_s(server) if server else 0.0

        def report(rate: Progress) -> None:
            pace.add(rate.iops, time.monotonic() - began)
            progress(rate)

        try:
            ended = supervise(
                command,
                cwd=folder,
                stderr=folder / layout.STDERR,
                bound_s=job.bound_s,
                stop=PacedStop(stop, pace),
                on_output=RateReader(parse_rate, report).take,
            )
        except OSError as error:
            raise LeadlineError(
                errors.FIO_MISSING, "fio cannot be started", context=[str(error)], hint=INSTALL
            ) from error
        status, problem = local_outcome(ended, folder, job)
        if status is TrialStatus.INTERRUPTED and pace.problem and not stop.requested:
            status, problem = TrialStatus.FAILED, pace.problem
        elif status is TrialStatus.COMPLETED:
            problem = find_shortfall(folder, self.name, sections)
            status = TrialStatus.FAILED if problem else status
        execution = execution_of(ended, command, status, problem)
        if server is None:
            return execution
        # The server is a part of the client: librbd runs there, with its encryption.
        spent_s = max(0.0, process_cpu_s(server) - served_s)
        return replace(execution, engine_cpu_s=execution.engine_cpu_s + spent_s)
