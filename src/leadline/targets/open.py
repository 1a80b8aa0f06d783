"""From a plan's targets to the adapters that drive them."""

from __future__ import annotations

from collections.abc import Sequence

from leadline import errors
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.plan.models import Plan
from leadline.plan.target_url import TargetKind
from leadline.runner.ports import Journal, Target
from leadline.targets.device import DeviceTarget
from leadline.targets.directory import DirectoryTarget, remove_folder


def open_targets(
    plan: Plan, *, destroy: Sequence[str] = (), overwrite: Sequence[str] = ()
) -> tuple[Target, ...]:
    """An adapter for each target of the plan; nothing is touched yet.

    Raises LeadlineError for a consent that names no device of the plan: a slip there is a danger.
    """
    devices = [one.parsed.location for one in plan.targets if one.parsed.kind is TargetKind.DEVICE]
    for named in (*destroy, *overwrite):
        if named not in devices:
            raise LeadlineError(
                errors.USAGE,
                f"consent was given for {named!r}, which is no device of the plan",
                context=[f"devices of the plan: {', '.join(devices) or 'none'}"],
                hint="name the device exactly as the plan does",
            )
    return tuple(
        DirectoryTarget(target)
        if target.parsed.kind is TargetKind.DIR
        else DeviceTarget(target, destroy, overwrite)
        for target in plan.targets
    )


def remove_leftovers(run: Run, journal: Journal) -> list[str]:
    """Remove what a killed session of `run` left on its targets; what was, or could not be, done
    as sentences. Only what carries the run's own token is touched."""
    told: list[str] = []
    for created in run.left_behind:
        problems = remove_folder(created)
        if problems:
            told += problems
        else:
            journal.note_removed(created)
            told.append(f"removed what a killed session left: {created.path}")
    return told
