"""Why a job on a pool of ZFS hangs, or fails."""

from __future__ import annotations

from leadline import zfs_programs
from leadline.archive.records import Problem
from leadline.probes.suspended import suspended_below
from leadline.runner.ports import Folder, Location


def suspension_named(problem: Problem, location: Location) -> Problem:
    """The problem of a job, with its reason and what helps where the pool of ZFS that it works on
    is suspended: what was begun hangs then, or fails with ENXIO."""
    pool = suspended_below(location.path) if isinstance(location, Folder) else ""
    if not pool:
        return problem
    why = zfs_programs.suspended(pool)
    return problem.model_copy(update={"fact": f"{problem.fact}; {why.fact}", "hint": why.hint})
