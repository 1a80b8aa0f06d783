"""A comparison: two systems, their compared cells and differences, and partners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from leadline import errors
from leadline.analysis.explain.facts import Explanation
from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.analysis.verdicts import Judgement, Verdict
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.findings import Finding
from leadline.inventory.diff import Difference
from leadline.metrics import Metric, Op
from leadline.plan.labels import labels_text, parse_labels, value_order
from leadline.plan.models import Target
from leadline.text import did_you_mean, shortened


class By(StrEnum):
    """What is compared."""

    RUN = "run"
    CLUSTER = "cluster"
    TARGET = "target"
    LABEL = "label"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two systems: a run, a cluster, targets, or labels.

    `targets` maps each subject, by which cells are matched, to the target's name in the run.
    `figures` and `findings` are those of the whole run. `repeats` are further runs of the system;
    its configuration is that of the first.
    """

    name: str
    run: Run
    targets: Mapping[str, str]
    figures: tuple[CellFigure, ...]
    findings: tuple[Finding, ...]
    repeats: tuple[Side, ...] = ()

    @property
    def parts(self) -> tuple[Side, ...]:
        """The system by run."""
        return (self, *self.repeats)

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(part.run for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifferences:
    """Configuration differences of a further run of a system from its first run."""

    first: str
    run: str
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCell:
    """One metric of one subject, workload, level and operation on both systems.

    A system without the cell has None. `depth` is the requested number of I/Os in flight of all
    `jobs` together, None: unknown. `streaming`: large blocks, whose usual rate is the bandwidth;
    `rate_metric` is the rate where another one is reported.
    """

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
        """Whether this metric is the cell's rate."""
        usual = Metric.BANDWIDTH if self.streaming else Metric.IOPS
        return self.metric is (self.rate_metric or usual)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverallEffect:
    """The geometric mean of the ratios of `cells` rates with its 95 % interval, and where that lies
    relative to the equivalence margin. `op` and `blocks` (`small`, `large`): None for all."""

    op: Op | None
    blocks: str | None
    cells: int
    ratio: float
    interval: tuple[float, float]
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`band` is the requested equivalence margin; `between_runs` the standard deviation of a system
    between runs, as a share, where it is assumed: 0 where both are of one run. `overall` are
    effects over many cells. `costs` are the costs of an I/O where a system measured them.
    `baseline_alone` and `candidate_alone` are subjects without a partner.
    `unknown` are properties that a system does not report; `unlike_runs` differ from the first run
    of their system."""

    by: By
    baseline: Side
    candidate: Side
    band: float
    cells: tuple[ComparedCell, ...]
    costs: tuple[ComparedCell, ...] = ()
    differences: tuple[Difference, ...]
    identical: tuple[str, ...]
    explanations: tuple[Explanation, ...]
    baseline_alone: tuple[str, ...] = ()
    candidate_alone: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    between_runs: float = 0.0
    overall: tuple[OverallEffect, ...] = ()
    unlike_runs: tuple[RunDifferences, ...] = ()

    @property
    def tested(self) -> tuple[ComparedCell, ...]:
        """All cells with a verdict: rates and latencies, then costs."""
        return (*self.cells, *self.costs)

    @property
    def runs(self) -> tuple[Run, ...]:
        """Every run, the baseline's first, each once."""
        runs = (*self.baseline.runs, *self.candidate.runs)
        return tuple({run.path: run for run in runs}.values())

    @property
    def has_several_runs(self) -> bool:
        """Whether a system has several runs."""
        return bool(self.baseline.repeats or self.candidate.repeats)

    def counts(self) -> Mapping[Verdict, int]:
        """Count the cells of each verdict."""
        found = dict.fromkeys(Verdict, 0)
        for cell in self.cells:
            found[cell.verdict] += 1
        return found


# --- partners by label: targets with equal other labels and place --------------------------------

_MOST_LISTED = 12
NO_OTHER = "no other label"


def with_labels(run: Run, text: str) -> list[Target]:
    """Return the targets of a run with all labels of `KEY=VALUE[,KEY=VALUE...]`.

    Raises LeadlineError (`usage`) with the known labels if there is none.
    """
    try:
        wanted = parse_labels(text)
    except ValueError:
        wanted = {}
    found = [target for target in run.plan.targets if wanted.items() <= target.labels.items()]
    if found and wanted:
        return found
    known = dict.fromkeys(
        f"{key}={value}" for target in run.plan.targets for key, value in target.labels.items()
    )
    raise LeadlineError(
        errors.USAGE,
        f"run {run.id} has no {'label' if len(wanted) < 2 else 'target with the labels'} {text!r}",
        context=[f"labels: {shortened(known)}"],
        hint=did_you_mean(
            text, () if text in known else known, f"`leadline show {run.id}` shows what it has"
        ),
    )


def values_of(run: Run, key: str) -> tuple[str, ...]:
    """Return the values of a label in a run, numbers by size.

    Raises LeadlineError (`usage`) if no target has it.
    """
    found = {target.labels[key] for target in run.plan.targets if key in target.labels}
    if found:
        return tuple(sorted(found, key=value_order))
    known = dict.fromkeys(key for target in run.plan.targets for key in target.labels)
    raise LeadlineError(
        errors.USAGE,
        f"no target of run {run.id} has the label {key!r}",
        context=[
            f"labels: {', '.join(known) or 'none'}",
            f"other choices of --by: {', '.join(By)}",
        ],
        hint=did_you_mean(
            key,
            [*known, *By],
            "`labels: {cores: 1}` of a plan or its targets, `run --label` and `import --label` "
            "give labels",
        ),
    )


def two_values(baseline: Run, candidate: Run, key: str) -> tuple[str, str]:
    """Return the two labels to compare, `cores=1` and `cores=2`: of one run, or one of each run.

    Raises LeadlineError (`usage`) for more or fewer values.
    """
    first, second = values_of(baseline, key), values_of(candidate, key)
    if baseline.path == candidate.path:
        if len(first) == 2:
            return f"{key}={first[0]}", f"{key}={first[1]}"
        raise LeadlineError(
            errors.USAGE,
            f"run {baseline.id} has {len(first)} values of the label {key!r}, "
            "a comparison needs two",
            context=[f"{key}: {', '.join(first)}"],
            hint=f"name two of them: `leadline compare {key}={first[0]} {key}={first[-1]} "
            f"--by label --run {baseline.id}`"
            if len(first) > 2
            else "name a second run, with another value",
        )
    if len(first) == len(second) == 1 and first != second:
        return f"{key}={first[0]}", f"{key}={second[0]}"
    raise LeadlineError(
        errors.USAGE,
        f"the label {key!r} does not separate the two runs",
        context=[
            f"{run.id}: {', '.join(values)}"
            for run, values in ((baseline, first), (candidate, second))
        ],
        hint="each run needs one value, different from the other's; targets of one run are "
        f"compared by `leadline compare {baseline.id} --by {key}`",
    )


def label_partners(
    baseline: Sequence[Target], candidate: Sequence[Target], keys: Iterable[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Map the common labels, `pool=x, replicas=3`, to the targets of each system.

    Empty for one target per system without other labels. Raises LeadlineError (`usage`) for
    ambiguous partners, and (`not-comparable`) if no target has a partner.
    """
    named = set(keys)
    if len(baseline) == len(candidate) == 1 and not _rest(baseline[0], named) + _rest(
        candidate[0], named
    ):
        return {}, {}
    left, right = _by_rest(baseline, named), _by_rest(candidate, named)
    if not left.keys() & right.keys():
        raise LeadlineError(
            errors.NOT_COMPARABLE,
            "no target has a partner: the other labels differ",
            context=[
                f"{target.name}: {labels_text(target.labels) or 'no label'}"
                for target in (*baseline, *candidate)
            ][:_MOST_LISTED],
            hint="name the other differing labels too, `replicas=1,cores=2` and `replicas=3`, or "
            "the targets with --by target",
        )
    return left, right


def undecided_pairs(run: Run, baseline: str, candidate: str) -> list[tuple[str, str]]:
    """Return all possible pairs of targets, as labels that name one target each, where a target
    lacks a label that the others have."""
    keys = {baseline.partition("=")[0], candidate.partition("=")[0]}
    first, second = with_labels(run, baseline), with_labels(run, candidate)
    found = []
    for target in first:
        for other in second:
            left, right = _without(target, keys), _without(other, keys)
            shared = left.keys() & right.keys()
            if target.place != other.place or any(left[key] != right[key] for key in shared):
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
                f"the partner of target {target.name} is ambiguous",
                context=[f"{found[name]} has the same other labels: {name}"],
                hint="give each target of a group a label that its partner in the other group "
                "has too, or name them with --by target",
            )
        found[name] = target.name
    return found


def _rest(target: Target, without: set[str]) -> str:
    """Word the labels and place of a target, without the compared labels."""
    labels = labels_text(_without(target, without))
    return ", ".join(part for part in (labels, target.place) if part)


# --- the two systems: of two runs, or two clusters, targets or labels of one run -----------------

# The figures of a run, and the findings of its audit.
Judged = Callable[[Run], tuple[tuple[CellFigure, ...], tuple[Finding, ...]]]


def two_runs(baseline: Run, candidate: Run, judged: Judged) -> tuple[Side, Side]:
    """Match the subjects of two runs by name; two runs with one target each match anyway."""
    first, second = _subjects(baseline), _subjects(candidate)
    if len(first) == len(second) == 1 and not set(first) & set(second):
        first, second = _partners(_of(baseline, first.values()), _of(candidate, second.values()))
    return (
        _side(_run_name(baseline, candidate), baseline, first, judged),
        _side(_run_name(candidate, baseline), candidate, second, judged),
    )


def several_runs(
    baseline: Sequence[Run], candidate: Sequence[Run], judged: Judged
) -> tuple[Side, Side]:
    """Match the subjects of two systems of one or more runs each, whose targets are those of the
    system's first run. Raises LeadlineError (`usage`) for a run that is named twice, and
    (`not-comparable`) for a run without any of these targets."""
    named = [run.id for run in (*baseline, *candidate)]
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None and len(named) > 2:
        raise LeadlineError(
            errors.USAGE,
            f"run {twice} is named twice",
            hint="name each run once: one run is no repeat of itself",
        )
    first = two_runs(baseline[0], candidate[0], judged)
    left, right = (
        replace(
            side,
            name=f"{side.name} ({len(runs)} runs)" if len(runs) > 1 else side.name,
            repeats=tuple(_repeat(side, run, judged) for run in runs[1:]),
        )
        for side, runs in zip(first, (baseline, candidate), strict=True)
    )
    return left, right


def _repeat(side: Side, run: Run, judged: Judged) -> Side:
    known = {target.name for target in run.plan.targets}
    targets = {subject: name for subject, name in side.targets.items() if name in known}
    if not targets:
        raise LeadlineError(
            errors.NOT_COMPARABLE,
            f"run {run.id} is no repeat of {side.run.id}: they have no target in common",
            context=[shortened(list(side.targets.values())), shortened(sorted(known))],
            hint="name runs of one plan for each system",
        )
    return _side(side.name, run, targets, judged)


def within_run(
    run: Run, by: By, baseline: str, candidate: str, judged: Judged, *, others_fixed: bool = True
) -> tuple[Side, Side]:
    """Match two clusters (places), targets or labels of one run, by name.

    Targets are a name or a list with commas, labels `KEY=VALUE`, several with commas. Partners by
    label have equal other labels; without `others_fixed` single targets match anyway. Raises
    LeadlineError (`usage`) for unknown names, and (`not-comparable`) for labels without partners.
    """
    if by is By.CLUSTER:
        first, second = (_at_place(run, name) for name in (baseline, candidate))
    elif by is By.TARGET:
        named = [_of(run, _named(run, side)) for side in (baseline, candidate)]
        first, second = _partners(*named)
    else:
        first, second = _labelled((run, run), (baseline, candidate), others_fixed=others_fixed)
    return _side(baseline, run, first, judged), _side(candidate, run, second, judged)


def by_label(baseline: Run, candidate: Run, key: str, judged: Judged) -> tuple[Side, Side]:
    """Match the two values of a label: of one run (given twice), or of two runs with one each.

    Targets of two runs match by name, else by their other labels. Raises as `within_run` does.
    """
    names = two_values(baseline, candidate, key)
    if baseline.path == candidate.path:
        return within_run(baseline, By.LABEL, *names, judged)
    first, second = _having(baseline, key), _having(candidate, key)
    if not first.keys() & second.keys():
        first, second = _labelled((baseline, candidate), names, others_fixed=True)
    return _side(names[0], baseline, first, judged), _side(names[1], candidate, second, judged)


def _having(run: Run, key: str) -> dict[str, str]:
    labelled = {target.name for target in run.plan.targets if key in target.labels}
    return {subject: name for subject, name in _subjects(run).items() if name in labelled}


def places(run: Run) -> tuple[str, ...]:
    """Return the clusters of a run, one for each condition of the plan."""
    found = dict.fromkeys(target.place or target.cluster for target in run.plan.targets)
    return tuple(place for place in found if place)


def _side(name: str, run: Run, targets: Mapping[str, str], judged: Judged) -> Side:
    figures, findings = judged(run)
    return Side(name=name, run=run, targets=targets, figures=figures, findings=findings)


def _run_name(run: Run, other: Run) -> str:
    """Name a run by its cluster's label if the labels of both runs differ, else by its id."""
    mine, its = run.manifest.cluster_label, other.manifest.cluster_label
    return mine if mine and its and mine != its else run.id


def _subjects(run: Run) -> dict[str, str]:
    """Map the targets by subject, without the cluster if every subject is on one only."""
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
    baseline: Sequence[Target], candidate: Sequence[Target]
) -> tuple[dict[str, str], dict[str, str]]:
    """Match targets by their position in both lists."""
    if len(baseline) != len(candidate):
        raise LeadlineError(
            errors.USAGE,
            f"{len(baseline)} targets cannot be compared with {len(candidate)}",
            context=[", ".join(target.name for target in side) for side in (baseline, candidate)],
            hint="name the same number of targets twice, partners in the same order",
        )
    pairs = list(zip(baseline, candidate, strict=True))
    names = [_pair(*pair) for pair in pairs]
    if len(set(names)) < len(names):
        names = [_versus(left.name, right.name) for left, right in pairs]
    return (
        dict(zip(names, (one.name for one, _ in pairs), strict=True)),
        dict(zip(names, (one.name for _, one in pairs), strict=True)),
    )


def _pair(baseline: Target, candidate: Target) -> str:
    """Name a pair of targets, without their places if these are equal."""
    left, right = baseline.subject or baseline.name, candidate.subject or candidate.name
    if left == right or baseline.place == candidate.place:
        return _versus(left, right)
    return _versus(baseline.name, candidate.name)


def _versus(baseline: str, candidate: str) -> str:
    return candidate if baseline == candidate else f"{candidate} vs {baseline}"


def _at_place(run: Run, name: str) -> dict[str, str]:
    """Map a cluster's targets by subject; the condition in `name` is optional if there is one."""
    found = [target for target in run.plan.targets if name in (target.place, target.cluster)]
    at = {target.place for target in found}
    if not found:
        raise _unknown(run, "cluster", name, places(run))
    if len(at) > 1 and name not in at:
        raise LeadlineError(
            errors.USAGE,
            f"{name} was measured under {len(at)} conditions",
            context=sorted(at),
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
    """Match the targets with each label, or with several together, in the run of each system."""
    baseline, candidate = (with_labels(run, text) for run, text in zip(runs, labels, strict=True))
    if len(baseline) == len(candidate) == 1 and not others_fixed:
        return _partners(baseline, candidate)
    keys = {key for text in labels for key in parse_labels(text)}
    left, right = label_partners(baseline, candidate, keys)
    return (left, right) if left else _partners(baseline, candidate)


def _unknown(run: Run, what: str, name: str, known: Sequence[str]) -> LeadlineError:
    return LeadlineError(
        errors.USAGE,
        f"run {run.id} has no {what} {name!r}",
        context=[f"{what}s: {shortened(known)}"],
        hint=did_you_mean(name, known, f"`leadline show {run.id}` shows what it has"),
    )
