"""How a remote execution ended, from how it ended beside each of its volumes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import Problem, TrialStatus
from leadline.engines.fio_outcome import last_words, outcome_of
from leadline.engines.remote_part import Ended
from leadline.engines.remote_processor import busiest, processor_of
from leadline.runner.ports import Execution, Job, RemoteVolume
from leadline.runner.stop import StopRequest

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
