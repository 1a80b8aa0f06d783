"""Which configuration differences account for which changes. Rules: docs/concepts/explaining.md."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

from leadline.analysis.comparison import ComparedCell
from leadline.analysis.explain.causes import (
    CellEvidence,
    cite_network,
    cite_paths,
    collect_evidence,
    effects_of_differences,
    find_other_causes,
    summarise_cause,
    summarise_cells,
)
from leadline.analysis.explain.effects import LABELS, REDUNDANCY, ZONES
from leadline.analysis.explain.facts import (
    Explanation,
    ImpliedRoundTrip,
    Isolation,
    MoreCopies,
    MoreCores,
    NearestCopyRead,
    NoCause,
    PossibleCauses,
    RoundTripCost,
    UnchangedDespiteCause,
    UnchangedDespiteRoundTrips,
    Unknown,
)
from leadline.analysis.explain.operation_cells import (
    CHANGED,
    OperationCell,
    drop_redundant_totals,
    group_metrics,
)
from leadline.analysis.explain.round_trips import (
    LEAST_TOLERANCE_S,
    Agreement,
    count_round_trips,
    find_path_change,
    implied_round_trip_s,
)
from leadline.analysis.explain.systems import ReadFrom, SystemFacts
from leadline.analysis.verdicts import Verdict
from leadline.inventory.diff import Difference, PossibleEffect
from leadline.metrics import Op
from leadline.plan.facts import LEVELS
from leadline.plan.labels import is_number

# Causes that usually show in the figures.
_EXPECTED = (REDUNDANCY, "wire", "at rest", "media")
_CORES = frozenset({"cores", "cpus"})
# Failure domains by width, from 1.
_WIDTH = {level: width for width, level in enumerate(LEVELS, start=1)}
_COPIES = frozenset({"replicas", "copies"})
_INCONCLUSIVE = (Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE)


def explain(
    cells: Sequence[ComparedCell], differences: Sequence[Difference], facts: SystemFacts
) -> tuple[tuple[Difference, ...], tuple[Explanation, ...]]:
    """Return the differences with their effects, and the explanations, the best founded first."""
    every = collect_evidence(group_metrics(cells), effects_of_differences(differences), facts)
    kept = {id(cell) for cell in drop_redundant_totals([evidence.cell for evidence in every])}
    relevant = [evidence for evidence in every if id(evidence.cell) in kept]
    return (
        _add_effects(differences, every),
        (*_explain_cells(relevant, facts), *_expect_of_labels(relevant, differences, facts.pools)),
    )


def _add_effects(
    differences: Sequence[Difference], every: Sequence[CellEvidence]
) -> tuple[Difference, ...]:
    """Add to each difference its effects and the verdicts of the cells where they apply."""
    applying: dict[Difference, dict[int, tuple[str, list[OperationCell]]]] = {}
    for evidence in every:
        for effect, difference in evidence.effects:
            by_effect = applying.setdefault(difference, {})
            by_effect.setdefault(effect.rank, (effect.mechanism, []))[1].append(evidence.cell)
    return tuple(
        replace(
            difference,
            explains=tuple(
                PossibleEffect(mechanism=mechanism, verdicts=verdicts)
                for _, (mechanism, on) in sorted(applying.get(difference, {}).items())
                if (verdicts := _count_verdicts(on))
            ),
        )
        for difference in differences
    )


def _count_verdicts(cells: Sequence[OperationCell]) -> tuple[tuple[str, int], ...]:
    """Count cells by the verdict of their speed, without one by that of a percentile."""
    tested = [cell for cell in cells if cell.speed] or [
        cell for cell in cells if cell.verdict not in _INCONCLUSIVE
    ]
    found = [cell.verdict for cell in tested]
    return tuple((verdict.value, found.count(verdict)) for verdict in Verdict if verdict in found)


def _explain_cells(every: Sequence[CellEvidence], facts: SystemFacts) -> Iterator[Explanation]:
    of_speed = [evidence for evidence in every if evidence.cell.speed in CHANGED]
    costed = [evidence for evidence in of_speed if evidence.agreement is not None]
    yield from _explain_by_round_trips(costed, facts)
    yield from _find_unchanged(every, facts)
    slower = [evidence for evidence in of_speed if _nearest_copy_slower(evidence, facts)]
    if slower:
        yield NearestCopyRead(
            paths=cite_network(slower, others=True),
            cells=_indices(slower, CHANGED),
            group=summarise_cells(slower),
            closes=False,
            mixed=any(evidence.cell.mixed for evidence in slower),
            others=find_other_causes(slower),
        )
    done = {id(evidence) for evidence in (*slower, *costed)}
    rest = [one for one in every if one.cell.changed and id(one) not in done]
    implied = () if facts.measured else tuple(_imply_round_trip(rest, facts))
    yield from implied
    covered = {index for explanation in implied for index in explanation.cells}
    yield from _list_causes([one for one in rest if one.causes], covered, facts)
    yield from _without_cause([one for one in rest if not one.causes], facts)


def _indices(group: Iterable[CellEvidence], verdicts: Iterable[Verdict]) -> tuple[int, ...]:
    wanted = tuple(verdicts)
    return tuple(index for evidence in group for index in evidence.cell.indices(wanted))


def _grouped(
    every: Iterable[CellEvidence], key: Callable[[CellEvidence], Hashable]
) -> list[list[CellEvidence]]:
    groups: dict[Hashable, list[CellEvidence]] = {}
    for evidence in every:
        groups.setdefault(key(evidence), []).append(evidence)
    return list(groups.values())


# --- round trips ---------------------------------------------------------------------------------


def _explain_by_round_trips(
    costed: Sequence[CellEvidence], facts: SystemFacts
) -> Iterator[Explanation]:
    """Compare change and cost for each I/O path, operation and outcome, isolated I/Os first."""
    isolated = [evidence for evidence in costed if _is_isolated(evidence.cell)]
    deep = [evidence for evidence in costed if not _is_isolated(evidence.cell)]
    known = {_path_key(evidence) for evidence in isolated}
    also = [evidence for evidence in deep if _path_key(evidence) in known]
    never = [evidence for evidence in deep if _path_key(evidence) not in known]
    for isolation, cells in (
        (Isolation.ISOLATED, isolated),
        (Isolation.ALSO_ISOLATED, also),
        (Isolation.NEVER_ISOLATED, never),
    ):
        groups = _grouped(cells, _outcome_key)
        if isolation is Isolation.ALSO_ISOLATED:
            groups.sort(key=lambda group: not _agrees(group[0]))
        for group in groups:
            yield _round_trip_cost(group, isolation, facts)


def _is_isolated(cell: OperationCell) -> bool:
    """Whether one small I/O was in flight at a time."""
    return cell.depth == 1 and not cell.streaming


def _agrees(evidence: CellEvidence) -> bool:
    return evidence.agreement is not None and evidence.agreement.agrees


def _path_key(evidence: CellEvidence) -> Hashable:
    assert evidence.cost is not None
    return evidence.cell.op, evidence.cost.base.path, evidence.cost.candidate.path


def _outcome_key(evidence: CellEvidence) -> Hashable:
    cost, cell = evidence.cost, evidence.cell
    assert cost is not None
    return (
        _path_key(evidence),
        cost.least_s,
        cost.most_s,
        None if _agrees(evidence) else evidence.agreement,
        # A baseline that is faster here and slower there makes two explanations.
        (evidence.added_s or 0.0) < 0,
        # Sequential I/Os do not wait for others in flight.
        not _is_isolated(cell) and cell.sequential,
    )


def _round_trip_cost(
    group: Sequence[CellEvidence], isolation: Isolation, facts: SystemFacts
) -> RoundTripCost:
    first = group[0]
    cost, agreement = first.cost, first.agreement
    assert cost is not None
    assert agreement is not None
    added = [abs(evidence.added_s or 0.0) for evidence in group]
    gaps: list[float] = []
    multiples = None
    if agreement is Agreement.LESS:
        least_s = min(abs(cost.least_s), abs(cost.most_s))
        gaps = [least_s - added_s for added_s in added]
    elif agreement is Agreement.MORE:
        gaps = [added_s - cost.largest_s for added_s in added]
        if first.cell.sequential and not _is_isolated(first.cell) and cost.most_s > 0:
            times = [round(added_s / cost.most_s) for added_s in added]
            multiples = (min(times), max(times)) if min(times) > 1 else None
    elif any(evidence.agreement is Agreement.TOLERATED for evidence in group):
        agreement = Agreement.TOLERATED
    redundancy = any(REDUNDANCY in evidence.causes for evidence in group)
    return RoundTripCost(
        paths=cite_network(group, others=True),
        cells=_indices(group, CHANGED),
        group=summarise_cells(group),
        closes=agreement.agrees,
        cost=cost,
        base_rtt_s=facts.base_rtt_s,
        candidate_rtt_s=facts.candidate_rtt_s,
        agreement=agreement,
        isolation=isolation,
        gap_s=(min(gaps), max(gaps)) if gaps else None,
        multiples=multiples,
        redundancy=summarise_cause(REDUNDANCY, group) if redundancy else None,
        others=find_other_causes(group),
    )


def _reads_nearest_copy(cell: OperationCell, facts: SystemFacts) -> bool:
    """Whether reads on the candidate stay in the client's zone, though the primaries do not."""
    pools = facts.pools.get(cell.target)
    if cell.op is not Op.READ or pools is None or not facts.measured:
        return False
    pool = pools[1]
    if pool.reads is not ReadFrom.NEAREST or pool.zones < 2:
        return False
    return count_round_trips(cell.op, pool, streaming=cell.streaming).most == 0.0


def _nearest_copy_slower(evidence: CellEvidence, facts: SystemFacts) -> bool:
    if evidence.cell.speed is not Verdict.WORSE or not _reads_nearest_copy(evidence.cell, facts):
        return False
    return (evidence.added_s or 0.0) >= LEAST_TOLERANCE_S


def _imply_round_trip(
    every: Sequence[CellEvidence], facts: SystemFacts
) -> Iterator[ImpliedRoundTrip]:
    """Invert the computation where copies moved and no round trip was measured."""
    found = []
    for evidence in every:
        cell, added_s = evidence.cell, evidence.added_s
        pools = facts.pools.get(cell.target)
        if pools is None or added_s is None or cell.op is Op.TOTAL:
            continue
        change = find_path_change(cell.op, *pools, streaming=cell.streaming)
        # A longer path must take longer, a shorter one less.
        if change and (change.candidate.most > change.base.most) == (added_s > 0):
            found.append((evidence, change, implied_round_trip_s(abs(added_s), change)))
    if not found:
        return
    fewest = min(evidence.cell.depth or 0 for evidence, _, _ in found)
    shallow = [item for item in found if (item[0].cell.depth or 0) == fewest]
    keys = {id(one): (one.cell.op, path.base.path, path.candidate.path) for one, path, _ in shallow}
    lengths = [length for _, _, length in shallow]
    low, high = max(low for low, _ in lengths), min(high for _, high in lengths)
    common = low <= high
    given = [evidence for evidence, _, _ in found]
    yield ImpliedRoundTrip(
        paths=cite_network(given),
        cells=_indices(given, CHANGED),
        group=summarise_cells(given),
        groups=tuple(
            summarise_cells(group)
            for group in _grouped((one for one, _, _ in shallow), lambda one: keys[id(one)])
        ),
        least_s=low if common else min(low for low, _ in lengths),
        most_s=high if common else max(high for _, high in lengths),
        common=common,
        isolated=fewest == 1,
    )


# --- expected changes that are absent ------------------------------------------------------------


def _find_unchanged(every: Sequence[CellEvidence], facts: SystemFacts) -> Iterator[Explanation]:
    """Find unchanged cells where a difference usually shows, or where reads stay in their zone."""
    same = [evidence for evidence in every if evidence.cell.verdict is Verdict.SAME]
    near = [evidence for evidence in same if _reads_nearest_copy(evidence.cell, facts)]
    far = [one for one in same if not _reads_nearest_copy(one.cell, facts) and _would_show(one)]
    for group in _grouped(far, lambda evidence: evidence.cell.op):
        costs = [one.cost.expected_s for one in group if one.cost and one.cost.expected_s]
        ordered = sorted(costs, key=abs)
        yield UnchangedDespiteRoundTrips(
            paths=cite_network(group),
            cells=_indices(group, (Verdict.SAME,)),
            group=summarise_cells(group),
            closes=False,
            expected_s=(ordered[0], ordered[-1]),
        )
    if near:
        yield NearestCopyRead(
            paths=cite_network(near),
            cells=_indices(near, (Verdict.SAME,)),
            group=summarise_cells(near),
            closes=True,
        )
    for code in _EXPECTED:
        unaffected = [evidence for evidence in same if code in evidence.causes]
        if unaffected:
            yield UnchangedDespiteCause(
                paths=cite_paths((code,), unaffected),
                cells=_indices(unaffected, (Verdict.SAME,)),
                group=summarise_cells(unaffected),
                cause=summarise_cause(code, unaffected),
                margin=max(evidence.cell.margin for evidence in unaffected),
            )


def _would_show(evidence: CellEvidence) -> bool:
    """Whether the expected cost is beyond the equivalence margin of the latency."""
    cost, latencies = evidence.cost, evidence.cell.latencies_s
    if cost is None or cost.expected_s is None or latencies is None:
        return False
    return abs(cost.expected_s) > 2 * evidence.cell.margin * latencies[0]


# --- causes without a formula --------------------------------------------------------------------


def _list_causes(
    every: Sequence[CellEvidence], covered: Container[int], facts: SystemFacts
) -> Iterator[Explanation]:
    """List the possible causes; cells that only zones explain may be `covered` already."""
    open_ = [
        evidence
        for evidence in every
        if evidence.causes != (ZONES,)
        or not all(index in covered for index in evidence.cell.indices(CHANGED))
    ]
    for group in _grouped(
        open_, lambda one: (one.causes, one.cell.speed in CHANGED, _opposite(one))
    ):
        codes = group[0].causes
        yield PossibleCauses(
            paths=cite_paths(codes, group),
            cells=_indices(group, CHANGED),
            group=summarise_cells(group),
            causes=tuple(summarise_cause(code, group) for code in codes),
            labels_only=codes == (LABELS,) and not facts.both_known,
            given=facts.given and not facts.both_known,
            opposite=_opposite(group[0]),
        )


def _opposite(evidence: CellEvidence) -> bool:
    """Return whether the only cause is the failure domain, and the cell changed the other way:
    faster with copies farther apart, or slower with copies closer together."""
    domains = [
        (_WIDTH.get(difference.baseline, 0), _WIDTH.get(difference.candidate, 0))
        for _, difference in evidence.effects
        if difference.path.endswith(".failure_domain")
    ]
    if evidence.causes != (ZONES,) or not domains or not all(map(all, domains)):
        return False
    cell = evidence.cell
    if all(before < after for before, after in domains):
        expected = Verdict.WORSE
    elif all(before > after for before, after in domains):
        expected = Verdict.BETTER
    else:
        return False
    # What the sentence on the cell states.
    direction = cell.speed if cell.speed in CHANGED else cell.tail
    return direction in CHANGED and direction is not expected


def _without_cause(every: Sequence[CellEvidence], facts: SystemFacts) -> Iterator[Explanation]:
    """Report changes without a known cause, and configurations that are unknown."""
    if facts.both_known:
        for group in _grouped(every, lambda one: one.cell.speed in CHANGED):
            yield NoCause(
                cells=_indices(group, CHANGED), group=summarise_cells(group), unknown=Unknown.NONE
            )
        return
    unknown = Unknown.BOTH
    if facts.base_known or facts.candidate_known:
        unknown = Unknown.CANDIDATE if facts.base_known else Unknown.BASELINE
    known = [one for one in every if one.added_s is not None and one.cell.speed in CHANGED]
    rest = [one for one in every if one not in known]
    for group in _grouped(known, lambda one: (one.cell.op, (one.added_s or 0.0) < 0)):
        yield NoCause(cells=_indices(group, CHANGED), group=summarise_cells(group), unknown=unknown)
    if rest:
        without = [one.cell for one in rest if one.added_s is None]
        yield NoCause(
            cells=_indices(rest, CHANGED),
            group=summarise_cells(rest),
            unknown=unknown,
            unmeasurable=len(without),
            depth_unknown=any(cell.depth is None for cell in without),
        )


# --- expected effects of labels ------------------------------------------------------------------


def _expect_of_labels(
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
    changed = [evidence for evidence in every if evidence.cell.speed in CHANGED]
    for (key, baseline, candidate), given in labels.items():
        targets = {difference.target for difference in given}
        group = [evidence for evidence in changed if evidence.cell.target in targets]
        build = _more_cores if key.lower() in _CORES else _more_copies
        known = all(evidence.cell.target in pools for evidence in group)
        if group and (build is _more_cores or not known):
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
    gains = [(one.cell, _gain(one.cell, inverse=candidate < baseline)) for one in group]
    known = [(cell, gain) for cell, gain in gains if gain is not None]
    beyond = tuple(gain for cell, gain in known if gain > factor * (1 + cell.margin))
    lower = sum(gain < 1 - cell.margin for cell, gain in known)
    return MoreCores(
        paths=paths,
        cells=_indices(group, CHANGED),
        group=summarise_cells(group),
        closes=not (beyond or lower) if known else None,
        key=key,
        baseline=baseline,
        candidate=candidate,
        factor=factor,
        tested=len(known),
        beyond=beyond,
        lower=lower,
    )


def _more_copies(
    key: str,
    baseline: float,
    candidate: float,
    paths: tuple[str, ...],
    group: Sequence[CellEvidence],
) -> MoreCopies:
    contradicting = []
    for evidence in group:
        cell = evidence.cell
        gain = _gain(cell, inverse=candidate < baseline)
        if gain is None or cell.op not in (Op.READ, Op.WRITE):
            continue
        # Writes to more copies are not faster, reads are not slower.
        if gain > 1 + cell.margin if cell.op is Op.WRITE else gain < 1 - cell.margin:
            contradicting.append(evidence)
    writes = [
        one
        for one in group
        if one.cell.op is Op.WRITE and one.added_s is not None and one not in contradicting
    ]
    return MoreCopies(
        paths=paths,
        cells=_indices(group, CHANGED),
        group=summarise_cells(group),
        closes=False if contradicting else None,
        key=key,
        baseline=baseline,
        candidate=candidate,
        writes=summarise_cells(writes) if writes else None,
        contradicting=tuple((one.cell.op, one.cell.workload) for one in contradicting),
    )


def _gain(cell: OperationCell, *, inverse: bool) -> float | None:
    """Return the rate with more divided by the rate with fewer."""
    rates = cell.rates
    if rates is None:
        return None
    return rates[0] / rates[1] if inverse else rates[1] / rates[0]
