"""Who stands against whom: two runs, or two clusters, targets or labels of one run."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence

from leadline import errors
from leadline.analysis.cells import CellFigure
from leadline.analysis.comparison import By, Side
from leadline.analysis.label_partners import label_partners, two_values, with_labels
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.findings import Finding
from leadline.label_words import parse_labels
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
    run: Run, by: By, baseline: str, candidate: str, judged: Judged, *, others_fixed: bool = True
) -> tuple[Side, Side]:
    """Two clusters (places), targets or labels of one run, by name. Targets are named alone or as
    a list with commas, labels as `KEY=VALUE`, several with commas. Partners by label are alike in
    their other labels; without `others_fixed` one target a side is the other's partner in any case.
    Raises LeadlineError (`usage`) for names that the run does not have, telling those it has, and
    (`not-comparable`) for labels without partners."""
    if by is By.CLUSTER:
        ours, theirs = (_at_place(run, name) for name in (baseline, candidate))
    elif by is By.TARGET:
        named = [_of(run, _named(run, one)) for one in (baseline, candidate)]
        ours, theirs = _partners(*named)
    else:
        ours, theirs = _labelled((run, run), (baseline, candidate), others_fixed=others_fixed)
    return _side(baseline, run, ours, judged), _side(candidate, run, theirs, judged)


def by_label(baseline: Run, candidate: Run, key: str, judged: Judged) -> tuple[Side, Side]:
    """The two values of a label: of one run (given twice), the lower one first, or of two runs that
    have one each. Targets of two runs are partners by name, else by their other labels. Raises as
    `within_run` does."""
    names = two_values(baseline, candidate, key)
    if baseline.path == candidate.path:
        return within_run(baseline, By.LABEL, *names, judged)
    ours, theirs = _having(baseline, key), _having(candidate, key)
    if not ours.keys() & theirs.keys():
        ours, theirs = _labelled((baseline, candidate), names, others_fixed=True)
    return _side(names[0], baseline, ours, judged), _side(names[1], candidate, theirs, judged)


def _having(run: Run, key: str) -> dict[str, str]:
    labelled = {target.name for target in run.plan.targets if key in target.labels}
    return {subject: name for subject, name in _subjects(run).items() if name in labelled}


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


def _labelled(
    runs: tuple[Run, Run], labels: tuple[str, str], *, others_fixed: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """Targets of each label, or of several together, in the run of its side."""
    ours, theirs = (with_labels(run, text) for run, text in zip(runs, labels, strict=True))
    if len(ours) == len(theirs) == 1 and not others_fixed:
        return _partners(ours, theirs)
    keys = {key for text in labels for key in parse_labels(text)}
    left, right = label_partners(ours, theirs, keys)
    return (left, right) if left else _partners(ours, theirs)


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
