"""The expected effects of labels that count cores or copies, compared with the changes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from leadline.analysis.explain.accounts import WIDEST, Estimate
from leadline.analysis.explain.causes import CellEvidence, find_indices, summarise_cells
from leadline.analysis.explain.facts import Explanation, MoreCopies, MoreCores
from leadline.analysis.explain.operation_cells import CHANGED, OperationCell
from leadline.analysis.verdicts import Verdict
from leadline.inventory.diff import Difference
from leadline.metrics import Op
from leadline.plan.labels import is_number

_CORES = frozenset({"cores", "cpus"})
_COPIES = frozenset({"replicas", "copies"})
# Twice the rate is not beyond 2, in spite of binary rounding.
_ROUNDING = 1e-9


def explain_labels(
    every: Sequence[CellEvidence], differences: Iterable[Difference], pools: Container[str]
) -> Iterator[Explanation]:
    """Compare figures with labels that count cores or copies. `pools`: targets with known pools,
    whose copies are known without a label."""
    labels: dict[tuple[str, str, str], list[Difference]] = {}
    for difference in differences:
        path, _, key = difference.path.rpartition(".labels.")
        values = (difference.baseline, difference.candidate)
        counted = key.lower() in _CORES | _COPIES and path.startswith("targets.")
        if counted and all(is_number(text) and float(text) > 0 for text in values):
            labels.setdefault((key, *values), []).append(difference)
    decided = [one for one in every if one.cell.speed in (*CHANGED, Verdict.SAME)]
    for (key, baseline, candidate), given in labels.items():
        targets = {difference.target for difference in given}
        group = [evidence for evidence in decided if evidence.cell.target in targets]
        build = _more_cores if key.lower() in _CORES else _more_copies
        known = all(evidence.cell.target in pools for evidence in group)
        changed = any(evidence.cell.speed in CHANGED for evidence in group)
        if changed and (build is _more_cores or not known):
            paths = tuple(difference.path for difference in given)
            yield build(key, float(baseline), float(candidate), paths, group)


def _more_cores(
    key: str,
    baseline: float,
    candidate: float,
    paths: tuple[str, ...],
    group: Sequence[CellEvidence],
) -> MoreCores:
    factor = max(baseline, candidate) / min(baseline, candidate)
    changed = [one for one in group if one.cell.speed in CHANGED]
    counts = dict.fromkeys(("proportional", "less", "lower"), 0)
    beyond = []
    for evidence in changed:
        gain = _gain(evidence.cell, inverse=candidate < baseline, tests=len(changed))
        if gain is None:
            continue
        if gain.low > factor * (1 + _ROUNDING):
            beyond.append(gain)
        elif gain.high < 1:
            counts["lower"] += 1
        elif gain.low > 1 and gain.high < factor * (1 - _ROUNDING):
            counts["less"] += 1
        elif gain.low > max(1.0, factor / WIDEST) and gain.high < factor * WIDEST:
            counts["proportional"] += 1
    unchanged = sum(
        evidence.cell.speed is Verdict.SAME and evidence.cell.depth not in (None, 1)
        for evidence in group
    )
    tested = len(changed) + unchanged
    against = bool(beyond or counts["lower"] or unchanged)
    return MoreCores(
        paths=paths,
        cells=find_indices(changed, CHANGED),
        group=summarise_cells(changed),
        closes=False if against else counts["proportional"] == tested or None,
        key=key,
        baseline=baseline,
        candidate=candidate,
        factor=factor,
        tested=tested,
        beyond=tuple(beyond),
        unchanged=unchanged,
        **counts,
    )


def _more_copies(
    key: str,
    baseline: float,
    candidate: float,
    paths: tuple[str, ...],
    group: Sequence[CellEvidence],
) -> MoreCopies:
    group = [evidence for evidence in group if evidence.cell.speed in CHANGED]
    # Writes to more copies are not faster, reads are not slower.
    wrong = {Op.WRITE: Verdict.BETTER, Op.READ: Verdict.WORSE}
    if candidate < baseline:
        wrong = {Op.WRITE: Verdict.WORSE, Op.READ: Verdict.BETTER}
    contradicting = [one for one in group if one.cell.speed is wrong.get(one.cell.op)]
    writes = [
        one
        for one in group
        if one.cell.op is Op.WRITE and one.added_s is not None and one not in contradicting
    ]
    return MoreCopies(
        paths=paths,
        cells=find_indices(group, CHANGED),
        group=summarise_cells(group),
        closes=False if contradicting else None,
        key=key,
        baseline=baseline,
        candidate=candidate,
        writes=summarise_cells(writes) if writes else None,
        contradicting=tuple((one.cell.op, one.cell.workload) for one in contradicting),
    )


def _gain(cell: OperationCell, *, inverse: bool, tests: int) -> Estimate | None:
    """Return the rate with more divided by the rate with fewer; None without an interval."""
    rates, interval = cell.rates, cell.gain_interval_among(tests)
    if rates is None or interval is None:
        return None
    gain, ends = rates[1] / rates[0], interval
    if inverse:
        gain, ends = 1 / gain, (1 / interval[1], 1 / interval[0])
    return Estimate(value=gain, low=min(gain, *ends), high=max(gain, *ends))
