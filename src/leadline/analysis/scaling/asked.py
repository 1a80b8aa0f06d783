"""What command line and notebooks ask of scaling: a study, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence

from leadline import errors
from leadline.analysis.scaling.study import ScalingStudy, study
from leadline.analysis.sides import Judged
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.plan.latency_limit import LatencyLimit, parse_latency_limit
from leadline.visible import visible

_LEVELS = "give the plan's workload several: `levels: [{iodepth: 1}, {iodepth: 8}, {iodepth: 64}]`"
_SHOWN = 5


def limit_named(text: str | None) -> LatencyLimit | None:
    """`p99<20ms`. Raises LeadlineError (`usage`)."""
    if text is None:
        return None
    try:
        return parse_latency_limit(text)
    except ValueError as error:
        raise LeadlineError(
            errors.USAGE,
            f"the latency limit is not understood: {error}",
            hint="write a percentile or the mean, and a time: 'p99<20ms', 'mean<800us'",
        ) from error


def scaled(
    runs: Sequence[Run],
    judged: Judged,
    *,
    limit: LatencyLimit | None,
    by: str | None,
    added: float | None,
    band: float,
) -> ScalingStudy:
    """The study of these runs. Raises LeadlineError (`usage`; `not-comparable` for several runs
    with nothing in common; `no-load-curve` where no workload has two levels, nor a system a
    partner)."""
    found = study(runs, judged, limit=limit, by=by, added=added, band=band)
    grown = [row for one in found.growths for row in one.rows]
    if len(runs) > 1 and not grown:
        raise _nothing_shared(found)
    if not (found.several_levels or grown or any(one.densities for one in found.runs)):
        raise _no_curve(found)
    return found


def _nothing_shared(found: ScalingStudy) -> LeadlineError:
    silent = [visible(one.run.id) for one in found.runs if not one.curves]
    if silent:
        return LeadlineError(
            errors.NOT_COMPARABLE,
            f"no level of {' and '.join(silent)} tells its load, that is its depth and jobs",
            context=[_measured(one.run) for one in found.runs],
            hint="`leadline compare` sets figures beside each other whatever their load",
        )
    return LeadlineError(
        errors.NOT_COMPARABLE,
        "the runs have no target and workload in common",
        context=[_measured(one.run) for one in found.runs],
        hint="`leadline scale RUN` shows the load curves of one",
    )


def _no_curve(found: ScalingStudy) -> LeadlineError:
    points = [f"{visible(one.run.id)}: {visible(one.curve.label)}: 1 level" for one in found.curves]
    more = len(points) - _SHOWN
    return LeadlineError(
        errors.NO_LOAD_CURVE,
        "a curve needs two levels at least, and "
        + ("no workload here has more than one" if points else "no level here tells its load"),
        context=[*points[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        or [_measured(one.run) for one in found.runs],
        hint=_LEVELS,
    )


def _measured(run: Run) -> str:
    named = [
        visible(one)
        for one in dict.fromkeys(f"{cell.target} · {cell.workload.name}" for cell in run.plan.cells)
    ]
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return f"{visible(run.id)}: {', '.join(named[:_SHOWN])}{more}"
