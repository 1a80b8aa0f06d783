"""The fio engine: real fio 3.x as a child process."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from leadline import admin_programs, errors, private_folder
from leadline.archive import layout
from leadline.archive.raw import read_output
from leadline.archive.records import Problem, TrialStatus
from leadline.engines.fio_choice import candidates, settled
from leadline.engines.fio_job import job_text, prefill_text
from leadline.engines.fio_outcome import Talk, last_words, outcome_of
from leadline.engines.fio_rate import Pace, Paced, Section, sections_of, shortfall
from leadline.engines.fio_version import INSTALL, require_version
from leadline.engines.supervise import Ended, supervise
from leadline.engines.suspension import suspension_named
from leadline.errors import LeadlineError
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
        with tempfile.TemporaryDirectory(prefix=private_folder.prefix("try")) as folder:
            # What hangs in the kernel is left there, and its file too: neither would come back.
            status, out, err = admin_programs.run(*command, bound_s=_TRY_S, cwd=folder)
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
