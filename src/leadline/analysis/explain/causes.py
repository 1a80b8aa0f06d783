"""The possible causes of each cell: the table of effects applied to a comparison, once."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from leadline.analysis.explain.accounts import Estimate, Share, share_explained
from leadline.analysis.explain.effects import REDUNDANCY, ZONES, Effect, find_effects
from leadline.analysis.explain.facts import Cause, CellGroup, ChangedValue
from leadline.analysis.explain.operation_cells import OperationCell
from leadline.analysis.explain.round_trips import Cost, find_cost, find_path_change, with_queue
from leadline.analysis.explain.systems import SystemFacts
from leadline.analysis.verdicts import Verdict
from leadline.inventory.diff import Difference
from leadline.metrics import Op
from leadline.plan.footprint import OBJECT_BYTES

NETWORK = (ZONES, REDUNDANCY)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEvidence:
    """One operation cell with all that may explain it.

    `effects` are those that apply to it, the most important first; `causes` the codes of the
    strong ones, else of the weak ones. `added_s` is its added latency, `cost` what round trips
    add, `expected` the same with what queues may hide, `share` how much of the added latency this
    explains (None for a rate at a limit). `longer` says whether its path between zones is longer
    on the candidate, None: equal or unknown.
    """

    cell: OperationCell
    effects: tuple[tuple[Effect, Difference], ...]
    causes: tuple[str, ...]
    added_s: float | None
    cost: Cost | None
    expected: Estimate | None
    share: Share | None
    longer: bool | None = None

    @property
    def strong_causes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(effect.cause for effect, _ in self.effects if not effect.weak))


def collect_evidence(
    cells: Iterable[OperationCell],
    effects: Mapping[Difference, Sequence[Effect]],
    facts: SystemFacts,
) -> list[CellEvidence]:
    """Combine each cell with the effects of all differences and with the cost of round trips."""
    by_target: dict[str, list[tuple[Effect, Difference]]] = {}
    for difference, given in effects.items():
        by_target.setdefault(difference.target, []).extend((effect, difference) for effect in given)
    found = []
    for cell in cells:
        own = by_target.get(cell.target, []) if cell.target else []
        pools = facts.pools.get(cell.target, ())
        cephfs = any(pool.cephfs for pool in pools)
        applying = [
            (effect, difference)
            for effect, difference in (*by_target.get("", ()), *own)
            if effect.applies_to(cell, difference) and (cephfs or not effect.cephfs_only)
        ]
        applying.sort(key=lambda pair: pair[0].rank)
        strong = [effect for effect, _ in applying if not effect.weak]
        added_s, latencies_s = cell.added_s, cell.latencies_s
        cost = find_cost(
            cell.op, cell.target, facts, streaming=cell.streaming, objects=_objects(cell, facts)
        )
        expected = None
        if cost is not None and latencies_s is not None:
            expected = with_queue(cost.added, latencies_s, cell.depth)
        found.append(
            CellEvidence(
                cell=cell,
                effects=tuple(applying),
                causes=tuple(
                    dict.fromkeys(
                        effect.cause for effect in strong or [effect for effect, _ in applying]
                    )
                ),
                added_s=added_s,
                cost=cost,
                expected=expected,
                share=None
                if expected is None or added_s is None or cell.caps
                else share_explained(added_s, cell.added_interval_s, expected),
                longer=_is_longer(cell, facts),
            )
        )
    return found


def _objects(cell: OperationCell, facts: SystemFacts) -> int | None:
    """Return the number of objects that a workload touches; None if unknown."""
    size = facts.extents.get((cell.target, cell.workload, cell.level))
    return math.ceil(size / OBJECT_BYTES) if size else None


def _is_longer(cell: OperationCell, facts: SystemFacts) -> bool | None:
    """Return whether an I/O makes more round trips between zones on the candidate."""
    pools = facts.pools.get(cell.target)
    if pools is None:
        return None
    change = find_path_change(cell.op, *pools, streaming=cell.streaming)
    return change.candidate.most > change.base.most if change else None


def effects_of_differences(
    differences: Iterable[Difference],
) -> dict[Difference, tuple[Effect, ...]]:
    """Look up each difference in the table of effects."""
    return {difference: find_effects(difference) for difference in differences}


def summarise_cells(group: Sequence[CellEvidence]) -> CellGroup:
    """Sum up the cells of an explanation."""
    cells = [evidence.cell for evidence in group]
    known = [(one.cell.target, one.added_s) for one in group if one.added_s is not None]
    percentiles_only = cells[0].speed not in (Verdict.BETTER, Verdict.WORSE)
    verdicts: dict[Verdict, int] = {}
    for cell in cells:
        verdict = (cell.tail or cell.verdict) if percentiles_only else cell.verdict
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
    from_rates = not all(cell.by_mean for cell in cells)
    closed_loop = None
    if len(cells) == 1 and from_rates:
        depth, (baseline, candidate) = cells[0].depth, cells[0].iops
        if depth is not None and baseline and candidate:
            closed_loop = (depth, baseline, candidate)
    return CellGroup(
        ops=tuple(op for op in Op if any(cell.op is op for cell in cells)),
        targets=tuple(dict.fromkeys(cell.target for cell in cells)),
        depths=tuple(sorted({cell.depth for cell in cells if cell.depth is not None})),
        verdicts=tuple((verdict, verdicts[verdict]) for verdict in Verdict if verdict in verdicts),
        streaming=all(cell.streaming for cell in cells),
        added_s=tuple(known),
        sequential=sum(cell.sequential for cell in cells),
        from_rates=from_rates,
        closed_loop=closed_loop,
        percentiles_only=percentiles_only,
        single_trials=any(cell.single_trial for cell in cells),
    )


def find_indices(group: Iterable[CellEvidence], verdicts: Iterable[Verdict]) -> tuple[int, ...]:
    """Return the indices of the metrics with these verdicts, in the comparison."""
    wanted = tuple(verdicts)
    return tuple(index for evidence in group for index in evidence.cell.indices(wanted))


def summarise_cause(code: str, group: Iterable[CellEvidence]) -> Cause:
    """Sum up a cause of some cells: its differences, and how it works."""
    found: dict[Difference, Effect] = {}
    effects: dict[Effect, None] = {}
    for evidence in group:
        for effect, difference in evidence.effects:
            if effect.cause == code:
                found.setdefault(difference, effect)
                effects.setdefault(effect)
    # A cause may have several differences: the first of the table describes it best.
    best = min((effect.rank for effect in found.values()), default=0)
    chosen = {item: effect for item, effect in found.items() if effect.rank == best}
    label = next(iter(chosen.values()), None)
    ordered = sorted(effects, key=lambda effect: effect.rank)
    mechanisms = (one.mechanism for one in ordered if one.pattern == ordered[0].pattern)
    return Cause(
        code=code,
        label=label.label if label else code,
        values=tuple(
            ChangedValue(
                path=item.path, target=item.target, baseline=item.baseline, candidate=item.candidate
            )
            for item in chosen
        ),
        mechanisms=tuple(dict.fromkeys(mechanisms)),
        named_by_path=label.named_by_path if label else False,
    )


def count_cells(cause: Cause, every: Iterable[CellEvidence]) -> Cause:
    """Add the number of cells with a verdict that a cause applies to, and of those against it."""
    applying = _applying(cause.code, every)
    faster = {True: Verdict.BETTER, False: Verdict.WORSE}
    return replace(
        cause,
        applies=len(applying),
        unchanged=sum(evidence.cell.speed is Verdict.SAME for evidence in applying),
        opposed=sum(
            cause.code == ZONES
            and evidence.longer is not None
            and evidence.cell.speed is faster[evidence.longer]
            for evidence in applying
        ),
    )


def find_inseparable(
    codes: Sequence[str], every: Sequence[CellEvidence]
) -> tuple[tuple[str, ...], ...]:
    """Group the causes that apply to the same cells: the data cannot separate them."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for code in codes:
        groups.setdefault(tuple(map(id, _applying(code, every))), []).append(code)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _applying(code: str, every: Iterable[CellEvidence]) -> list[CellEvidence]:
    return [
        evidence
        for evidence in every
        if evidence.cell.speed is not None and any(one.cause == code for one, _ in evidence.effects)
    ]


def find_other_causes(group: Sequence[CellEvidence]) -> tuple[Cause, ...]:
    """Sum up the strong causes besides network distance, copies and shards."""
    codes = dict.fromkeys(code for evidence in group for code in evidence.strong_causes)
    return tuple(summarise_cause(code, group) for code in codes if code not in NETWORK)


def cite_paths(codes: Collection[str], group: Iterable[CellEvidence]) -> tuple[str, ...]:
    """Return the paths of the differences behind some causes."""
    return tuple(
        dict.fromkeys(
            difference.path
            for evidence in group
            for effect, difference in evidence.effects
            if effect.cause in codes
        )
    )


def cite_network(group: Sequence[CellEvidence], *, others: bool = False) -> tuple[str, ...]:
    """Return the paths of distance and redundancy, with `others` of every strong cause."""
    codes = {code for evidence in group for code in evidence.strong_causes}
    return cite_paths(codes if others else codes & set(NETWORK), group)
