"""Who stands against whom: two runs, or two clusters, targets or labels of one run."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence

from leadline import errors
from leadline.analysis.cells import CellFigure
from leadline.analysis.comparison import By, Side
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.findings import Finding
from leadline.plan.models import Target
from leadline.visible import visible

# Judged figures of a run: what `figures` and `audit` say of it.
Judged = Callable[[Run], tuple[tuple[CellFigure, ...], tuple[Finding, ...]]]


def two_runs(baseline: Run, candidate: Run, judged: Judged) -> tuple[Side, Side]:
    """The same subjects of two runs. Where each has one target, they are each other's partners
    whatever they are called."""
    ours, theirs = _subjects(baseline), _subjects(candidate)
    if len(ours) == len(theirs) == 1 and not set(ours) & set(theirs):
        ours, theirs = _partners(_of(baseline, ours.values()), _of(candidate, theirs.values()))
    return (
        _side(_run_name(baseline, candidate), baseline, ours, judged),
        _side(_run_name(candidate, baseline), candidate, theirs, judged),
    )


def within_run(
    run: Run, by: By, baseline: str, candidate: str, judged: Judged
) -> tuple[Side, Side]:
    """Two clusters (places), targets or labels of one run, by name. Targets are named alone or as
    a list with commas, labels as `KEY=VALUE`. Raises LeadlineError (`usage`) for names that the
    run does not have, telling those it has."""
    if by is By.CLUSTER:
        ours, theirs = (_at_place(run, name) for name in (baseline, candidate))
    elif by is By.TARGET:
        named = [_of(run, _named(run, one)) for one in (baseline, candidate)]
        ours, theirs = _partners(*named)
    else:
        ours, theirs = _labelled(run, baseline, candidate)
    return _side(baseline, run, ours, judged), _side(candidate, run, theirs, judged)


def places(run: Run) -> tuple[str, ...]:
    """The clusters of a run, each under every condition that the plan puts it under."""
    found = dict.fromkeys(target.place or target.cluster for target in run.plan.targets)
    return tuple(place for place in found if place)


def _side(name: str, run: Run, targets: Mapping[str, str], judged: Judged) -> Side:
    figures, findings = judged(run)
    return Side(name=name, run=run, targets=targets, figures=figures, findings=findings)


def _run_name(run: Run, other: Run) -> str:
    """The cluster's label where it tells the two runs apart: nobody thinks in ids of runs."""
    mine, its = run.manifest.cluster_label, other.manifest.cluster_label
    return mine if mine and its and mine != its else run.id


def _subjects(run: Run) -> dict[str, str]:
    """By the plan's name of a target, without the cluster where it is on one only."""
    targets = run.plan.targets
    names = [target.subject or target.name for target in targets]
    unique = len(set(names)) == len(names)
    return {
        name if unique else target.name: target.name
        for name, target in zip(names, targets, strict=True)
    }


def _of(run: Run, names: Iterable[str]) -> list[Target]:
    return [run.plan.target(name) for name in names]


def _partners(
    ours: Sequence[Target], theirs: Sequence[Target]
) -> tuple[dict[str, str], dict[str, str]]:
    """Each target beside the one in the same place of the other list."""
    if len(ours) != len(theirs):
        raise LeadlineError(
            errors.USAGE,
            f"{len(ours)} targets cannot stand against {len(theirs)}",
            context=[", ".join(visible(one.name) for one in side) for side in (ours, theirs)],
            hint="name as many on each side, partners in the same order",
        )
    pairs = list(zip(ours, theirs, strict=True))
    names = [_pair(*pair) for pair in pairs]
    if len(set(names)) < len(names):
        names = [_against(left.name, right.name) for left, right in pairs]
    return (
        dict(zip(names, (one.name for one, _ in pairs), strict=True)),
        dict(zip(names, (one.name for _, one in pairs), strict=True)),
    )


def _pair(ours: Target, theirs: Target) -> str:
    """What two targets are called together, as short as their places allow: the sides say where
    they are."""
    left, right = ours.subject or ours.name, theirs.subject or theirs.name
    if left == right or ours.place == theirs.place:
        return _against(left, right)
    return _against(ours.name, theirs.name)


def _against(ours: str, theirs: str) -> str:
    return theirs if ours == theirs else f"{theirs} against {ours}"


def _at_place(run: Run, name: str) -> dict[str, str]:
    """A cluster's targets by subject; `name` may leave out the condition where there is one."""
    found = [target for target in run.plan.targets if name in (target.place, target.cluster)]
    at = {target.place for target in found}
    if not found:
        raise _unknown(run, "cluster", name, places(run))
    if len(at) > 1 and name not in at:
        raise LeadlineError(
            errors.USAGE,
            f"{visible(name)} was measured under {len(at)} conditions",
            context=sorted(map(visible, at)),
            hint="name one of them",
        )
    exact = [target for target in found if target.place == name] or found
    return {target.subject or target.name: target.name for target in exact}


def _named(run: Run, names: str) -> list[str]:
    known = [target.name for target in run.plan.targets]
    if names in known:
        return [names]  # a name may hold a comma
    given = [name.strip() for name in names.split(",")]
    for name in given:
        if name not in known:
            raise _unknown(run, "target", name, known)
    return given


def _labelled(run: Run, baseline: str, candidate: str) -> tuple[dict[str, str], dict[str, str]]:
    """Targets of each label; several are partners where everything else that is said of them,
    their other labels and what they lie on, is the same."""
    ours, theirs = _with_label(run, baseline), _with_label(run, candidate)
    if len(ours) == len(theirs) == 1:
        return _partners(ours, theirs)
    keys = {baseline.partition("=")[0], candidate.partition("=")[0]}
    return _by_rest(run, ours, keys), _by_rest(run, theirs, keys)


def _by_rest(run: Run, targets: Iterable[Target], without: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for target in targets:
        rest = [f"{key}={value}" for key, value in target.labels.items() if key not in without]
        if target.place:
            rest.append(target.place)
        name = ", ".join(sorted(rest))
        if not name or name in found:
            raise LeadlineError(
                errors.USAGE,
                f"the partner of target {visible(target.name)} cannot be told",
                context=[f"{visible(run.id)}: its other labels: {visible(name) or 'none'}"],
                hint="give each target of a group a label that its partner in the other group "
                "has too, or name them with --by target",
            )
        found[name] = target.name
    return found


def _with_label(run: Run, label: str) -> list[Target]:
    key, equals, value = label.partition("=")
    found = [target for target in run.plan.targets if target.labels.get(key) == value and equals]
    if not found:
        known = dict.fromkeys(
            f"{key}={value}" for target in run.plan.targets for key, value in target.labels.items()
        )
        raise _unknown(run, "label", label, known)
    return found


def _unknown(run: Run, what: str, name: str, known: Iterable[str]) -> LeadlineError:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    shown = ", ".join(map(visible, names[:12])) or "none"
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return LeadlineError(
        errors.USAGE,
        f"run {visible(run.id)} has no {what} {visible(name)!r}",
        context=[f"{what}s: {shown}{more}"],
        hint=f"did you mean {visible(near[0])!r}?"
        if near
        else f"`leadline show {visible(run.id)}` shows what it has",
    )
