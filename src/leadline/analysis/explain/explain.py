"""Which configuration differences account for which changes. Rules: docs/concepts/explaining.md."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

from leadline.analysis.comparison import ComparedCell
from leadline.analysis.explain.accounts import Account, Estimate
from leadline.analysis.explain.causes import (
    CellEvidence,
    cite_network,
    cite_paths,
    collect_evidence,
    count_cells,
    effects_of_differences,
    find_indices,
    find_inseparable,
    find_other_causes,
    summarise_cause,
    summarise_cells,
)
from leadline.analysis.explain.effects import LABELS, REDUNDANCY, ZONES
from leadline.analysis.explain.facts import (
    CellTest,
    Explanation,
    ImpliedRoundTrip,
    Isolation,
    NearestCopyRead,
    NoCause,
    PossibleCauses,
    RateLimited,
    RoundTripCost,
    RoundTripEvidence,
    UnchangedDespiteCause,
    UnchangedDespiteRoundTrips,
    Unknown,
)
from leadline.analysis.explain.labels import explain_labels
from leadline.analysis.explain.operation_cells import (
    CHANGED,
    OperationCell,
    drop_redundant_totals,
    group_metrics,
)
from leadline.analysis.explain.round_trips import (
    LEAST_COST_S,
    count_round_trips,
    find_path_change,
    implied_round_trip_s,
    is_hidden,
)
from leadline.analysis.explain.systems import ReadFrom, SystemFacts
from leadline.analysis.verdicts import Verdict
from leadline.inventory.diff import Difference, PossibleEffect
from leadline.metrics import Op
from leadline.plan.facts import LEVELS

# Causes that usually show in the figures.
_EXPECTED = (REDUNDANCY, "wire", "at rest", "media")
# Failure domains by width, from 1.
_WIDTH = {level: width for width, level in enumerate(LEVELS, start=1)}
_INCONCLUSIVE = (Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE)
_CLOSES = {Account.ACCOUNTS_FOR: True, Account.PARTLY: False, Account.EXCEEDS: False}


def explain(
    cells: Sequence[ComparedCell], differences: Sequence[Difference], facts: SystemFacts
) -> tuple[tuple[Difference, ...], tuple[Explanation, ...]]:
    """Return the differences with their effects, and the explanations, the best founded first."""
    every = collect_evidence(group_metrics(cells), effects_of_differences(differences), facts)
    kept = {id(cell) for cell in drop_redundant_totals([evidence.cell for evidence in every])}
    relevant = [evidence for evidence in every if id(evidence.cell) in kept]
    return (
        _add_effects(differences, every),
        (*_explain_cells(relevant, facts), *explain_labels(relevant, differences, facts.pools)),
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
    costed = [evidence for evidence in of_speed if evidence.share is not None]
    yield from _explain_by_round_trips(costed)
    yield from _find_unchanged(every, facts)
    yield from _count_evidence(every, facts)
    capped = [one for one in of_speed if one.cell.caps and one.cost is not None]
    if capped:
        yield RateLimited(
            cells=find_indices(capped, CHANGED),
            group=summarise_cells(capped),
            codes=tuple(dict.fromkeys(code for one in capped for code in one.cell.caps)),
        )
    slower = [evidence for evidence in of_speed if _nearest_copy_slower(evidence, facts)]
    if slower:
        yield NearestCopyRead(
            paths=cite_network(slower, others=True),
            cells=find_indices(slower, CHANGED),
            group=summarise_cells(slower),
            closes=False,
            mixed=any(evidence.cell.mixed for evidence in slower),
            others=find_other_causes(slower),
        )
    done = {id(evidence) for evidence in (*slower, *costed, *capped)}
    rest = [one for one in every if one.cell.changed and id(one) not in done]
    implied = () if facts.measured else tuple(_imply_round_trip(rest, facts))
    yield from implied
    covered = {index for explanation in implied for index in explanation.cells}
    yield from _list_causes([one for one in rest if one.causes], covered, facts, every)
    yield from _without_cause([one for one in rest if not one.causes], facts)


def _grouped(
    every: Iterable[CellEvidence], key: Callable[[CellEvidence], Hashable]
) -> list[list[CellEvidence]]:
    groups: dict[Hashable, list[CellEvidence]] = {}
    for evidence in every:
        groups.setdefault(key(evidence), []).append(evidence)
    return list(groups.values())


# --- round trips ---------------------------------------------------------------------------------


def _explain_by_round_trips(costed: Sequence[CellEvidence]) -> Iterator[Explanation]:
    """Compare change and cost for each I/O path, operation and outcome, isolated I/Os first."""
    isolated = [evidence for evidence in costed if _is_isolated(evidence.cell)]
    deep = [evidence for evidence in costed if not _is_isolated(evidence.cell)]
    known = {_path_key(evidence) for evidence in isolated}
    also = [evidence for evidence in deep if _path_key(evidence) in known]
    never = [evidence for evidence in deep if _path_key(evidence) not in known]
    order = list(Account)
    for isolation, cells in (
        (Isolation.ISOLATED, isolated),
        (Isolation.ALSO_ISOLATED, also),
        (Isolation.NEVER_ISOLATED, never),
    ):
        groups = _grouped(cells, _outcome_key)
        for group in sorted(groups, key=lambda group: order.index(_account(group[0]))):
            yield _round_trip_cost(group, isolation)


def _is_isolated(cell: OperationCell) -> bool:
    """Whether one small I/O was in flight at a time."""
    return cell.depth == 1 and not cell.streaming


def _account(evidence: CellEvidence) -> Account:
    assert evidence.share is not None
    return evidence.share.account


def _path_key(evidence: CellEvidence) -> Hashable:
    assert evidence.cost is not None
    return evidence.cell.op, evidence.cost.base.path, evidence.cost.candidate.path


def _outcome_key(evidence: CellEvidence) -> Hashable:
    cost, cell, expected = evidence.cost, evidence.cell, evidence.expected
    assert cost is not None
    assert expected is not None
    if _account(evidence) is Account.INCONCLUSIVE and is_hidden(cell.depth, expected):
        return "hidden by queues"
    return (
        _path_key(evidence),
        _account(evidence),
        # A baseline that is faster here and slower there makes two explanations.
        (evidence.added_s or 0.0) < 0,
        (cost.base_placed, cost.candidate_placed),
        # A change without an interval cannot be tested, whatever it is.
        cell.added_interval_s is None,
        # Sequential I/Os do not wait for others in flight.
        not _is_isolated(cell) and cell.sequential,
    )


def _round_trip_cost(group: Sequence[CellEvidence], isolation: Isolation) -> RoundTripCost:
    first, account = group[0], _account(group[0])
    cost = first.cost
    assert cost is not None
    multiples = None
    largest_s = max(abs(cost.added.low), abs(cost.added.high))
    if account is Account.PARTLY and first.cell.sequential and not _is_isolated(first.cell):
        times = [round(abs(evidence.added_s or 0.0) / largest_s) for evidence in group]
        multiples = (min(times), max(times)) if min(times) > 1 else None
    redundancy = any(REDUNDANCY in evidence.causes for evidence in group)
    return RoundTripCost(
        paths=cite_network(group, others=True),
        cells=find_indices(group, CHANGED),
        group=summarise_cells(group),
        closes=_CLOSES.get(account),
        account=account,
        cost=cost,
        tests=tuple(map(_cell_test, group)),
        isolation=isolation,
        multiples=multiples,
        redundancy=summarise_cause(REDUNDANCY, group) if redundancy else None,
        others=find_other_causes(group),
    )


def _cell_test(evidence: CellEvidence) -> CellTest:
    added_s, interval = evidence.added_s, evidence.cell.added_interval_s
    assert added_s is not None
    assert evidence.expected is not None
    assert evidence.share is not None
    return CellTest(
        target=evidence.cell.target,
        workload=evidence.cell.workload,
        level=evidence.cell.level,
        op=evidence.cell.op,
        measured=Estimate(value=added_s, low=interval[0], high=interval[1]) if interval else None,
        expected=evidence.expected,
        share=evidence.share,
    )


def _count_evidence(
    every: Sequence[CellEvidence], facts: SystemFacts
) -> Iterator[RoundTripEvidence]:
    """Count the results of the test over all cells that it may refute: an inconclusive cell, too,
    may exclude the expected cost."""
    tested = [evidence for evidence in every if evidence.share is not None and _decides(evidence)]
    if len(tested) < 2:
        return
    accounts = [_account(evidence) for evidence in tested]
    yield RoundTripEvidence(
        paths=cite_network(tested),
        cells=(),
        group=summarise_cells(tested),
        accounts=tuple(
            (account, accounts.count(account)) for account in Account if account in accounts
        ),
        unchanged=sum(map(_is_against, tested)),
    )


def _decides(evidence: CellEvidence) -> bool:
    """Whether the speed has a verdict, or is inconclusive and decides the test nevertheless."""
    cell = evidence.cell
    if cell.speed is not None:
        return True
    return cell.inconclusive and _account(evidence) is not Account.INCONCLUSIVE


def _is_against(evidence: CellEvidence) -> bool:
    """Whether a cell is unchanged where round trips predict a change."""
    if evidence.share is None or evidence.cell.speed is not Verdict.SAME:
        return False
    return evidence.share.account is Account.EXCEEDS


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
    return (evidence.added_s or 0.0) > LEAST_COST_S


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
            sign = -1 if added_s < 0 else 1
            ends = [max(0.0, sign * end) for end in cell.added_interval_s or (added_s,)]
            found.append((evidence, change, implied_round_trip_s(ends, change)))
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
        cells=find_indices(given, CHANGED),
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
    against = [one for one in every if _is_against(one)]
    for group in _grouped(against, lambda evidence: evidence.cell.op):
        yield UnchangedDespiteRoundTrips(
            paths=cite_network(group),
            cells=find_indices(group, (Verdict.SAME,)),
            group=summarise_cells(group),
            closes=False,
            expected=tuple(one.expected for one in group if one.expected is not None),
        )
    if near:
        yield NearestCopyRead(
            paths=cite_network(near),
            cells=find_indices(near, (Verdict.SAME,)),
            group=summarise_cells(near),
            closes=True,
        )
    for code in _EXPECTED:
        unaffected = [evidence for evidence in same if code in evidence.causes]
        if unaffected:
            yield UnchangedDespiteCause(
                paths=cite_paths((code,), unaffected),
                cells=find_indices(unaffected, (Verdict.SAME,)),
                group=summarise_cells(unaffected),
                cause=count_cells(summarise_cause(code, unaffected), every),
                margin=max(evidence.cell.margin for evidence in unaffected),
            )


# --- causes without a formula --------------------------------------------------------------------


def _list_causes(
    unexplained: Sequence[CellEvidence],
    covered: Container[int],
    facts: SystemFacts,
    every: Sequence[CellEvidence],
) -> Iterator[Explanation]:
    """List the possible causes of `unexplained` cells with the counter-evidence of `every` cell;
    cells that only zones explain may be `covered` already."""
    open_ = [
        evidence
        for evidence in unexplained
        if evidence.causes != (ZONES,)
        or not all(index in covered for index in evidence.cell.indices(CHANGED))
    ]
    for group in _grouped(
        open_, lambda one: (one.causes, one.cell.speed in CHANGED, _opposite(one))
    ):
        codes = group[0].causes
        yield PossibleCauses(
            paths=cite_paths(codes, group),
            cells=find_indices(group, CHANGED),
            group=summarise_cells(group),
            causes=tuple(count_cells(summarise_cause(code, group), every) for code in codes),
            inseparable=find_inseparable(codes, every),
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
                cells=find_indices(group, CHANGED),
                group=summarise_cells(group),
                unknown=Unknown.NONE,
            )
        return
    unknown = Unknown.BOTH
    if facts.base_known or facts.candidate_known:
        unknown = Unknown.CANDIDATE if facts.base_known else Unknown.BASELINE
    known = [one for one in every if one.added_s is not None and one.cell.speed in CHANGED]
    rest = [one for one in every if one not in known]
    for group in _grouped(known, lambda one: (one.cell.op, (one.added_s or 0.0) < 0)):
        yield NoCause(
            cells=find_indices(group, CHANGED), group=summarise_cells(group), unknown=unknown
        )
    if rest:
        without = [one.cell for one in rest if one.added_s is None]
        yield NoCause(
            cells=find_indices(rest, CHANGED),
            group=summarise_cells(rest),
            unknown=unknown,
            unmeasurable=len(without),
            depth_unknown=any(cell.depth is None for cell in without),
        )
