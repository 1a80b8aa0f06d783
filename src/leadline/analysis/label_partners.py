"""Which targets of two labels are partners: those that are alike in all else that is said of them.

A side is one label or several together (`replicas=1,cores=2`), in one run or in one run each. What
either side names may differ between partners; every other label, and the place, is held fixed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from leadline import errors
from leadline.analysis.comparison import By
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.label_words import labels_text, parse_labels, value_order
from leadline.plan.models import Target
from leadline.visible import visible

_MOST_TOLD = 12
NO_OTHER = "no other label"


def with_labels(run: Run, text: str) -> list[Target]:
    """The targets of a run that have all labels of `KEY=VALUE[,KEY=VALUE...]`. Raises LeadlineError
    (`usage`) where there is none, telling the labels that there are."""
    try:
        wanted = parse_labels(text)
    except ValueError:
        wanted = {}
    found = [one for one in run.plan.targets if wanted.items() <= one.labels.items()]
    if found and wanted:
        return found
    known = list(
        dict.fromkeys(
            f"{key}={value}" for one in run.plan.targets for key, value in one.labels.items()
        )
    )
    near = difflib.get_close_matches(text, known, n=1)
    shown = ", ".join(map(visible, known[:_MOST_TOLD])) or "none"
    more = f" and {len(known) - _MOST_TOLD} more" if len(known) > _MOST_TOLD else ""
    raise LeadlineError(
        errors.USAGE,
        f"run {visible(run.id)} has no {'label' if len(wanted) < 2 else 'target with the labels'} "
        f"{visible(text)!r}",
        context=[f"labels: {shown}{more}"],
        hint=f"did you mean {visible(near[0])!r}?"
        if near and near[0] != text
        else f"`leadline show {visible(run.id)}` shows what it has",
    )


def values_of(run: Run, key: str) -> tuple[str, ...]:
    """The values that the run's targets have of a label, numbers by their size. Raises
    LeadlineError (`usage`) where no target has it."""
    found = {one.labels[key] for one in run.plan.targets if key in one.labels}
    if found:
        return tuple(sorted(found, key=value_order))
    known = dict.fromkeys(key for one in run.plan.targets for key in one.labels)
    near = difflib.get_close_matches(key, [*known, *(one.value for one in By)], n=1)
    raise LeadlineError(
        errors.USAGE,
        f"no target of run {visible(run.id)} has the label {visible(key)!r}",
        context=[
            f"labels: {', '.join(map(visible, known)) or 'none'}",
            f"else what is compared are: {', '.join(By)}",
        ],
        hint=f"did you mean {visible(near[0])!r}?"
        if near
        else "`labels: {cores: 1}` of a plan or its targets, `run --label` and `import --label` "
        "give labels",
    )


def two_values(baseline: Run, candidate: Run, key: str) -> tuple[str, str]:
    """`cores=1` and `cores=2`: the two values of one run, the lower one first, or the one value of
    each of two runs. Raises LeadlineError (`usage`) where there are more or fewer."""
    ours, theirs = values_of(baseline, key), values_of(candidate, key)
    if baseline.path == candidate.path:
        if len(ours) == 2:
            return f"{key}={ours[0]}", f"{key}={ours[1]}"
        shown = ", ".join(map(visible, ours))
        raise LeadlineError(
            errors.USAGE,
            f"run {visible(baseline.id)} has {len(ours)} values of the label {visible(key)!r}, "
            "and two make a comparison",
            context=[f"{visible(key)}: {shown}"],
            hint="name two of them: "
            f"`leadline compare {visible(key)}={visible(ours[0])} {visible(key)}="
            f"{visible(ours[-1])} --by label --run {visible(baseline.id)}`"
            if len(ours) > 2
            else "name a second run, with another value",
        )
    if len(ours) == len(theirs) == 1 and ours != theirs:
        return f"{key}={ours[0]}", f"{key}={theirs[0]}"
    raise LeadlineError(
        errors.USAGE,
        f"the two runs are not told apart by the label {visible(key)!r}",
        context=[
            f"{visible(run.id)}: {', '.join(map(visible, values))}"
            for run, values in ((baseline, ours), (candidate, theirs))
        ],
        hint="each run must have one value, another than the other's; targets of one run are "
        f"compared by `leadline compare {visible(baseline.id)} --by {visible(key)}`",
    )


def label_partners(
    ours: Sequence[Target], theirs: Sequence[Target], keys: Iterable[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The targets of each side by what is held fixed, `pool=x, replicas=3`; a side's targets
    without a partner are among them. Empty mappings where nothing else is said of one target on
    each side. Raises LeadlineError (`usage`) where partners cannot be told apart, and
    (`not-comparable`) where no target has a partner."""
    named = set(keys)
    if len(ours) == len(theirs) == 1 and not _rest(ours[0], named) + _rest(theirs[0], named):
        return {}, {}
    left, right = _by_rest(ours, named), _by_rest(theirs, named)
    if not left.keys() & right.keys():
        raise LeadlineError(
            errors.NOT_COMPARABLE,
            "no target of the one side has a partner on the other: their other labels differ",
            context=[
                f"{visible(one.name)}: {visible(labels_text(one.labels)) or 'no label'}"
                for one in (*ours, *theirs)
            ][:_MOST_TOLD],
            hint="name what else may differ on both sides, `replicas=1,cores=2` against "
            "`replicas=3`, or the targets with --by target",
        )
    return left, right


def undecided_pairs(run: Run, baseline: str, candidate: str) -> list[tuple[str, str]]:
    """Where a target does not tell a label that those of the other side have, it may be the partner
    of each of them: the pairs, as labels that name one target each."""
    keys = {baseline.partition("=")[0], candidate.partition("=")[0]}
    ours, theirs = with_labels(run, baseline), with_labels(run, candidate)
    found = []
    for one in ours:
        for other in theirs:
            left, right = _without(one, keys), _without(other, keys)
            shared = left.keys() & right.keys()
            if one.place != other.place or any(left[key] != right[key] for key in shared):
                continue
            names = tuple(
                ",".join((label, *(f"{key}={mine[key]}" for key in mine if key not in shared)))
                for label, mine in ((baseline, left), (candidate, right))
            )
            if all(len(with_labels(run, name)) == 1 for name in names):
                found.append((names[0], names[1]))
    return found


def _without(target: Target, keys: set[str]) -> dict[str, str]:
    return {key: value for key, value in target.labels.items() if key not in keys}


def _by_rest(targets: Iterable[Target], without: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for target in targets:
        name = _rest(target, without) or NO_OTHER
        if name in found:
            raise LeadlineError(
                errors.USAGE,
                f"the partner of target {visible(target.name)} cannot be told",
                context=[f"{visible(found[name])} has the same other labels: {visible(name)}"],
                hint="give each target of a group a label that its partner in the other group "
                "has too, or name them with --by target",
            )
        found[name] = target.name
    return found


def _rest(target: Target, without: set[str]) -> str:
    """What is said of a target beside the labels that are compared."""
    labels = labels_text(_without(target, without))
    return ", ".join(part for part in (labels, target.place) if part)
