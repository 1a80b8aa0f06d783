"""A comparison as data: two sides, what each cell of both says, and how the systems differ."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from leadline import errors
from leadline.analysis.explain.facts import Explanation
from leadline.analysis.figures import CellFigure, MetricFigure, Selector, parse_selector
from leadline.analysis.verdicts import Evidence, Judgement, Verdict
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.findings import Finding
from leadline.inventory.diff import Difference
from leadline.metrics import Metric, Op
from leadline.plan.labels import labels_text, parse_labels, value_order
from leadline.plan.models import Target
from leadline.text import visible


class By(StrEnum):
    """What the two sides of a comparison are."""

    RUN = "run"
    CLUSTER = "cluster"
    TARGET = "target"
    LABEL = "label"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side. `name` is what people call it (a run, a cluster, a target, a label);
    `targets` maps each subject, under which its cells are matched with the other side's, to the
    target's name in the run. `figures` and `findings` are those of the whole run."""

    name: str
    run: Run
    targets: Mapping[str, str]
    figures: tuple[CellFigure, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCell:
    """One metric of one subject, workload, level and operation on both sides. A side without the
    cell has None, one whose cell has no number a figure with its absence. `depth` counts the I/Os
    that were to be in flight in all `jobs` together, None where nobody told. `streaming`: large
    blocks, of which people say the bandwidth rather than IOPS; `rate_metric` is what they say here,
    where it is not that."""

    target: str
    workload: str
    level: str
    op: Op | None
    metric: Metric
    baseline_cell: CellFigure | None
    candidate_cell: CellFigure | None
    judgement: Judgement
    depth: int | None
    streaming: bool
    jobs: int | None = None
    rate_metric: Metric | None = None

    @property
    def baseline(self) -> MetricFigure | None:
        return self.baseline_cell.metric(self.metric) if self.baseline_cell else None

    @property
    def candidate(self) -> MetricFigure | None:
        return self.candidate_cell.metric(self.metric) if self.candidate_cell else None

    @property
    def verdict(self) -> Verdict:
        return self.judgement.verdict

    @property
    def rate(self) -> bool:
        """Whether this is the metric by which people name the cell's speed."""
        usual = Metric.BANDWIDTH if self.streaming else Metric.IOPS
        return self.metric is (self.rate_metric or usual)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`band` is what was asked for. `noise` says for how many pairs a noise floor was measured.
    `baseline_alone` and `candidate_alone` name subjects without a partner. `unknown` names what one
    side at least does not tell, so that nobody can say whether it differs."""

    by: By
    baseline: Side
    candidate: Side
    band: float
    cells: tuple[ComparedCell, ...]
    differences: tuple[Difference, ...]
    identical: tuple[str, ...]
    explanations: tuple[Explanation, ...]
    baseline_alone: tuple[str, ...] = ()
    candidate_alone: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def counts(self) -> Mapping[Verdict, int]:
        """How many cells have each verdict, all verdicts named."""
        found = dict.fromkeys(Verdict, 0)
        for cell in self.cells:
            found[cell.verdict] += 1
        return found


# Conditions that a comparison must keep: `write p99 > +20%` fails it.

_LIMIT = re.compile(r"(?P<what>[^<>]+?)\s*(?P<sign>[<>])=?\s*(?P<share>[+-]?\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Fails where the ratio candidate / baseline is above (or below) `ratio`. `text` as written."""

    text: str
    selector: Selector
    above: bool
    ratio: float


class Outcome(StrEnum):
    """`exceeded` and `kept` are certain within the interval; `undecided` is not."""

    KEPT = "kept"
    EXCEEDED = "exceeded"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitResult:
    """What a limit says of one compared cell."""

    limit: Limit
    cell: ComparedCell
    outcome: Outcome


def parse_limit(text: str) -> Limit:
    """`[WORKLOAD[@LEVEL]] [OP] METRIC >|< [+|-]PERCENT%`. Raises LeadlineError (`usage`)."""
    found = _LIMIT.fullmatch(text.strip())
    if found is None:
        raise LeadlineError(
            errors.USAGE,
            f"{text!r} is not a limit",
            hint="write a metric, > or <, and a change: 'write p99 > +20%', 'iops < -10%'",
        )
    return Limit(
        text=text.strip(),
        selector=parse_selector(found["what"]),
        above=found["sign"] == ">",
        ratio=1 + float(found["share"]) / 100,
    )


def check_limits(comparison: Comparison, limits: Sequence[Limit]) -> tuple[LimitResult, ...]:
    """Every limit on every cell that it is about. A limit about no cell raises LeadlineError
    (`usage`): a gate that looks at nothing would always be open."""
    results = []
    for limit in limits:
        about = [
            cell
            for cell in comparison.cells
            if limit.selector.matches(cell.workload, cell.level, cell.op, cell.metric)
        ]
        if not about:
            known = dict.fromkeys(
                f"{cell.workload}{'@' + cell.level if cell.level else ''} "
                f"{cell.op.value + ' ' if cell.op else ''}{cell.metric.value}"
                for cell in comparison.cells
            )
            raise LeadlineError(
                errors.USAGE,
                f"{limit.text!r} is about no cell of this comparison",
                context=[f"such as: {', '.join(list(known)[:6])}"] if known else [],
                hint="a limit names a metric, and a workload or operation that both sides have",
            )
        results += [
            LimitResult(limit=limit, cell=cell, outcome=_outcome(limit, cell)) for cell in about
        ]
    return tuple(results)


def _outcome(limit: Limit, cell: ComparedCell) -> Outcome:
    judged = cell.judgement
    if judged.ratio is None or judged.verdict is Verdict.NOT_COMPARABLE:
        return Outcome.UNDECIDED
    low, high = judged.interval or (judged.ratio, judged.ratio)
    if not limit.above:
        # Below is above, seen in a mirror.
        low, high = -high, -low
    border = limit.ratio if limit.above else -limit.ratio
    ratio = judged.ratio if limit.above else -judged.ratio
    if judged.interval is None and judged.evidence is not Evidence.ONE_NUMBER:
        # One trial without its seconds: that it lies within the limit is no news either.
        return Outcome.UNDECIDED
    if low > border:
        return Outcome.EXCEEDED
    if high <= border:
        return Outcome.KEPT
    # The figures themselves keep the limit, and nothing shows that it is exceeded.
    return Outcome.UNDECIDED if ratio > border else Outcome.KEPT


# Which targets of two labels are partners: those that are alike in all else that is said of them.
#  A side is one label or several together (`replicas=1,cores=2`), in one run or in one run each.
# What either side names may differ between partners; every other label, and the place, is held
# fixed.

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


# Who stands against whom: two runs, or two clusters, targets or labels of one run.

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
