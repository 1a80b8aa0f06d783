"""The comparisons that end a run, and faults of the rule that does (plan/stop.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leadline.plan.document import StopDocument
from leadline.plan.models import Plan, Target
from leadline.plan.stop import Stop
from leadline.plan.yaml_positions import KeyPath
from leadline.text import shortened


def planned_stop(written: StopDocument, targets: Sequence[Target], repeats: int) -> Stop:
    """The rule with its defaults: clusters are compared if the plan has several, else targets, each
    with the first one. `stop_faults` reports what has no meaning."""
    compare = written.compare or ("cluster" if len(_names(targets, "cluster")) > 1 else "target")
    names = _names(targets, compare)
    return Stop.model_construct(
        compare=compare,
        baseline=written.baseline or next(iter(names), ""),
        within=written.within,
        first=repeats,
        max_repeats=written.max_repeats,
        futility=written.futility,
        max_time_s=written.max_time,
    )


def _names(targets: Sequence[Target], compare: str) -> tuple[str, ...]:
    """What can be compared: targets, or clusters with their condition."""
    if compare == "target":
        return tuple(target.name for target in targets)
    return tuple(dict.fromkeys(target.place for target in targets if target.place))


def compared_pairs(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Baseline and candidate of each comparison that ends the run; none without `stop:`."""
    stop = plan.stop
    if stop is None:
        return ()
    others = (name for name in _names(plan.targets, stop.compare) if name != stop.baseline)
    return tuple((stop.baseline, name) for name in others)


def most_seconds(plan: Plan, done: int, cells: Sequence[int] | None = None) -> float:
    """The seconds of I/O of all rounds after `done`, if all these cells (None: all of the plan)
    stay open."""
    stop = plan.stop
    assert stop is not None
    asked = range(len(plan.cells)) if cells is None else cells
    each_s = sum(plan.cells[cell].workload.duration_s for cell in asked)
    return max(0, stop.max_repeats - done) * each_s


def stop_faults(plan: Plan) -> Iterator[tuple[KeyPath, str]]:
    """What has no meaning in the `stop:` of a plan, each with its key path."""
    stop = plan.stop
    if stop is None:
        return
    names = _names(plan.targets, stop.compare)
    for key in ("detect", "budget"):
        if getattr(plan, key) is not None:
            yield ("stop",), f"a plan with {key} has fixed repeats: leave one of the two out"
    if plan.follow_ups:
        yield ("stop",), "a plan with open_loop or density has fixed repeats: leave one out"
    if stop.first < 2:
        yield ("repeats",), "a look needs two trials of each cell: `repeats` is 2 or more"
    if stop.max_repeats < stop.first:
        fact = f"{stop.max_repeats} is less than the {stop.first} repeats before the first look"
        yield ("stop", "max_repeats"), fact
    if len(names) < 2:
        one = f"one {stop.compare}" if names else f"no {stop.compare}"
        fact = f"nothing to compare: the plan has {one}; name a second one to measure"
        yield ("stop",), fact
    elif stop.baseline not in names:
        fact = f"the plan has no {stop.compare} {stop.baseline!r} ({shortened(names)})"
        yield ("stop", "baseline"), fact
    elif stop.compare == "cluster":
        yield from _without_partner(plan.targets, stop.baseline, names)


def _without_partner(
    targets: Sequence[Target], baseline: str, names: Sequence[str]
) -> Iterator[tuple[KeyPath, str]]:
    """Clusters that have no target in common with the baseline."""
    subjects = {
        name: {target.subject for target in targets if target.place == name} for name in names
    }
    for name in names:
        if not subjects[name] & subjects[baseline]:
            yield ("stop",), f"{name!r} has no target in common with {baseline!r}"
