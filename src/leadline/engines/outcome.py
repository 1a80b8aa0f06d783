"""How an execution of a tool ended: the problem that the archive records and the user reads."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline import errors
from leadline.archive.records import Problem, TrialStatus
from leadline.connect import programs
from leadline.engines.process import Ended
from leadline.errors import ErrorKind
from leadline.probes.zfs import suspended_below
from leadline.runner.ports import Execution, Folder, Location

INTERRUPTED = Problem(
    code=errors.INTERRUPTED.code,
    fact="the trial was stopped by a signal",
    hint="`leadline run --resume` does it again",
)


def execution_of(
    ended: Ended, command: tuple[str, ...], status: TrialStatus, problem: Problem | None
) -> Execution:
    """The execution of a process that ended here."""
    return Execution(
        status=status,
        command=command,
        exit_status=ended.exit_status,
        signals=ended.signals,
        engine_cpu_s=ended.cpu_s,
        wall_s=ended.wall_s,
        problem=problem,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """What each errno of a tool means, and the hint for each meaning."""

    kinds: Mapping[int, ErrorKind]
    hints: Mapping[ErrorKind, str]


# The errnos that mean the same for every tool.
COMMON_KINDS: Mapping[int, ErrorKind] = {
    errno.ENOSPC: errors.TARGET_FULL,
    errno.EDQUOT: errors.TARGET_FULL,
    errno.EROFS: errors.TARGET_READ_ONLY,
    errno.ENOENT: errors.TARGET_GONE,
}


def failed_problem(
    tool: str, number: int, exit_status: int | None, causes: Causes, context: Sequence[str]
) -> Problem:
    """The problem of a tool that failed with an errno, or (0) with an exit status alone."""
    kind = causes.kinds.get(number, errors.ENGINE_FAILED)
    reason = os.strerror(number) if number else f"exit status {exit_status}"
    return Problem(
        code=kind.code,
        fact=f"{tool} failed: {reason}",
        context=tuple(context),
        hint=causes.hints.get(kind, f"the output of {tool} is in the trial's stderr.txt"),
    )


def hung_problem(
    tool: str, ended: Ended, bound_s: float, context: Sequence[str], system: str
) -> Problem:
    """The problem of a tool that had to be ended; `system` is what does not answer its I/O."""
    left = "" if ended.exit_status is not None else f"; process {ended.pid} cannot be killed"
    return Problem(
        code=errors.TRIAL_HUNG.code,
        fact=f"{tool} did not end within {round(bound_s, 1):g} s and was stopped with "
        f"{', '.join(ended.signals)}{left}",
        context=tuple(context),
        hint=f"check the health of the {system}: its I/O does not complete",
    )


def with_suspension(problem: Problem, location: Location) -> Problem:
    """The problem, with cause and hint where its pool of ZFS is suspended: I/O that was started
    there hangs, or fails with ENXIO."""
    pool = suspended_below(location.path) if isinstance(location, Folder) else ""
    if not pool:
        return problem
    error = programs.suspended_error(pool)
    return problem.model_copy(update={"fact": f"{problem.fact}; {error.fact}", "hint": error.hint})


def last_lines(output: bytes) -> list[str]:
    """Return the last four lines of a tool's output that are not empty."""
    lines = output.decode("utf-8", "replace").splitlines()
    return [line.strip() for line in lines if line.strip()][-4:]
