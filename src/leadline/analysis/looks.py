"""Looks at a run that ends when its comparisons are decided.

The verdicts are those of `compare` on the trials so far (analysis/verdicts.py), which widen their
intervals for all looks of the plan (stats/sequential.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from leadline.analysis.compare import paired_samples
from leadline.analysis.comparison import By, ComparedCell, Side, within_run
from leadline.analysis.figures import figures
from leadline.analysis.samples import planned_looks
from leadline.analysis.verdicts import CAP_REASONS, Evidence, Judgement, Pair, Verdict, judge
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import Look, LookedPair, LookedRate, LookEnd, LookState
from leadline.archive.verify import Discrepancy
from leadline.audit.registry import audit
from leadline.plan.models import Cell
from leadline.plan.stop import Stop
from leadline.plan.stop_rules import compared_pairs
from leadline.stats.effects import FEWEST_BLOCKS
from leadline.stats.families import ALONE
from leadline.stats.outlook import decision_probability

_OpenCells = set[tuple[str, str, str]]
# Numbers of another machine may differ in their last digits.
_ALIKE = 1e-9


def take_look(run: Run, at: str) -> Look:
    """Test the comparisons that the plan declares on all trials that are over, and decide what
    goes on. `at` is the time in ISO 8601. Raises ValueError for a plan without `stop:`."""
    stop, looks = run.plan.stop, planned_looks(run)
    if stop is None or looks is None:
        raise ValueError("the plan has no rule that ends the run")
    findings = audit(run)
    judged = figures(run, findings), findings
    pairs, found = [], _OpenCells()
    for names in compared_pairs(run.plan):
        sides = within_run(run, By(stop.compare), *names, lambda _: judged)
        rates = list(_rates(sides, stop))
        for cell, rate in rates:
            if rate.state is LookState.OPEN:
                found |= _cells(sides, cell)
        pairs.append(
            LookedPair(
                baseline=names[0], candidate=names[1], rates=tuple(rate for _, rate in rates)
            )
        )
    used_s = math.fsum(trial.record.wall_s for trial in run.trials)
    cells = [number for number, cell in enumerate(run.plan.cells) if _key(cell) in found]
    next_s = sum(run.plan.cells[number].workload.duration_s for number in cells)
    end = None
    if not cells:
        end = LookEnd.DECIDED
    elif run.plan.repeats >= stop.max_repeats:
        end = LookEnd.MAX_REPEATS
    elif stop.max_time_s is not None and used_s + next_s > stop.max_time_s:
        end = LookEnd.MAX_TIME
    return Look(
        at=at,
        round=run.plan.repeats,
        trials=tuple(trial.record.label for trial in run.trials),
        used_s=round(used_s, 3),
        confidence=looks.level(ALONE),
        pairs=tuple(pairs),
        open=() if end else tuple(cells),
        end=end,
    )


def _rates(sides: tuple[Side, Side], stop: Stop) -> Iterator[tuple[ComparedCell, LookedRate]]:
    """Yield the compared rates: all metrics are tested, as `compare` does."""
    rows = paired_samples(*sides)
    judgements = judge([pair for _, pair in rows], stop.within)
    for (make_cell, pair), judgement in zip(rows, judgements, strict=True):
        cell = make_cell(judgement=judgement)
        if cell.rate:
            yield cell, _looked(cell, pair, judgement, stop)


def _looked(cell: ComparedCell, pair: Pair, judgement: Judgement, stop: Stop) -> LookedRate:
    trials = len(pair.baseline.trials), len(pair.candidate.trials)
    return LookedRate(
        target=cell.target,
        workload=cell.workload,
        level=cell.level,
        op=cell.op,
        metric=cell.metric,
        trials=trials,
        ratio=judgement.ratio,
        interval=judgement.interval,
        verdict=judgement.verdict.value,
        reasons=judgement.reasons,
        state=rate_state(judgement, min(trials), stop.max_repeats, stop.futility),
    )


def rate_state(judgement: Judgement, trials: int, most: int, futility: float) -> LookState:
    """Return what a look makes of a rate after so many `trials` per system, of `most`; `futility`
    is the probability of a verdict below which a rate is given up."""
    if judgement.verdict is Verdict.NOT_COMPARABLE or judgement.evidence is not Evidence.TRIALS:
        return LookState.CLOSED
    if judgement.verdict is not Verdict.INCONCLUSIVE:
        return LookState.DECIDED
    if CAP_REASONS & set(judgement.reasons):
        return LookState.CLOSED
    # Trials that are no pairs yet promise less than they will as pairs.
    futile = trials >= FEWEST_BLOCKS and _decision_probability(judgement, most) < futility
    return LookState.FUTILE if futile else LookState.OPEN


def _decision_probability(judgement: Judgement, most: int) -> float:
    """Compute the probability that `most` trials per system decide an inconclusive rate."""
    estimate, confidence, looks = judgement.estimate, judgement.confidence, judgement.looks
    if estimate is None or confidence is None or looks is None:
        return 1.0
    margin = np.log([1 - judgement.band, 1 + judgement.band])
    tails = looks.nominal(np.array([(1 - confidence) / 2]))
    return float(decision_probability([estimate], margin[:1], margin[1:], tails, most)[0])


def _key(cell: Cell) -> tuple[str, str, str]:
    return cell.target, cell.workload.name, cell.level


def _cells(sides: tuple[Side, Side], cell: ComparedCell) -> _OpenCells:
    """Return the cells of the plan that a compared rate is of."""
    parts = (cell.baseline_cell, cell.candidate_cell)
    return {
        (side.targets[cell.target], figure.planned_workload, figure.level)
        for side, figure in zip(sides, parts, strict=True)
        if figure is not None
    }


def check_looks(run: Run) -> tuple[int, tuple[Discrepancy, ...]]:
    """Take every look of an archive again from its trials; return how many, and what differs.

    Raises LeadlineError(`archive-damaged`).
    """
    if run.plan.stop is None:
        return 0, ()
    problems: list[Discrepancy] = []
    for number, look in enumerate(run.looks, start=1):
        place = layout.look_file(number)
        problems += (
            Discrepancy(path=place, message=message) for message in _differences(run, look)
        )
    if run.complete and run.undecided:
        message = "the last look, which ends the run, is missing"
        problems.append(Discrepancy(path=layout.LOOKS, message=message))
    return len(run.looks), tuple(problems)


def _differences(run: Run, look: Look) -> Iterator[str]:
    """Yield what a look and the rounds around it are not by the trials."""
    stored = {attempt.record.label: attempt.record.trial for attempt in run.attempts}
    over = {trial.id for trial in run.plan.trials if trial.block < look.round}
    if {stored.get(label) for label in look.trials} != over:
        yield f"did not see the trials of {look.round} rounds"
        return
    following = {trial.cell for trial in run.plan.trials if trial.block == look.round}
    if following and following != set(look.open):
        yield "the next round has other cells than those that are open"
    again = take_look(run.seen_by(look), look.at)
    if again.end != look.end or again.open != look.open:
        yield (f"decided {_course(look)}, but the trials give {_course(again)}")
    for recorded, fresh in zip(_by_place(look), _by_place(again), strict=False):
        if recorded[0] != fresh[0] or not _alike(recorded[1], fresh[1]):
            name = " · ".join(filter(None, recorded[0]))
            yield (
                f"{name} is {recorded[1].verdict} with {_numbers(recorded[1])}, but the trials "
                f"give {fresh[1].verdict} with {_numbers(fresh[1])}"
            )
    if len(_by_place(look)) != len(_by_place(again)):
        yield "lists other rates than the trials have"


def _course(look: Look) -> str:
    if look.end is not None:
        return f"the end ({look.end.value})"
    return f"a round of the cells {', '.join(str(cell) for cell in look.open)}"


def _by_place(look: Look) -> Sequence[tuple[tuple[str, ...], LookedRate]]:
    return [
        (
            (pair.baseline, pair.candidate, rate.target, rate.workload, rate.level, rate.op or ""),
            rate,
        )
        for pair in look.pairs
        for rate in pair.rates
    ]


def _alike(one: LookedRate, other: LookedRate) -> bool:
    words = {"ratio", "interval"}
    if one.model_dump(exclude=words) != other.model_dump(exclude=words):
        return False
    return len(_numbers(one)) == len(_numbers(other)) and all(
        math.isclose(first, second, rel_tol=_ALIKE)
        for first, second in zip(_numbers(one), _numbers(other), strict=True)
    )


def _numbers(rate: LookedRate) -> list[float]:
    return [number for number in (rate.ratio, *(rate.interval or ())) if number is not None]
