"""How often a gate would be wrong: its rules on simulated repeats of the measured cells."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from leadline.analysis.compare import PairedCell, judge_cells
from leadline.analysis.comparison import Comparison
from leadline.analysis.gate import Outcome, Policy, decide
from leadline.analysis.verdicts import (
    REPEATS_DEVIATION,
    Evidence,
    Judgement,
    Pair,
    Sample,
    Verdict,
)
from leadline.stats.families import LEVEL

SIMULATIONS = 200
SEED = 20261125
# What the injected change must be found in: as `trials_needed` promises.
POWER = 0.8
# Fewer residuals do not show a distribution: the normal one is taken.
_FEWEST_RESIDUALS = 20

_Draws = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRates:
    """Outcomes of a gate in `simulations` comparisons without a change, and in as many where one
    random cell with a limit changes by `excess` times as much as its limit allows. `resampled`:
    trials scatter as the measured ones do; else as the normal distribution.

    `confirm` of the policy is left out: these are the rates of one comparison.
    """

    simulations: int
    excess: float
    unchanged: Mapping[Outcome, int]
    changed: Mapping[Outcome, int]
    resampled: bool

    @property
    def sound(self) -> bool:
        """Whether failures without a change are at most 5 % (within two standard errors of the
        simulation), and the change is found in 80 %."""
        error = math.sqrt(LEVEL * (1 - LEVEL) / self.simulations)
        alarms = self.unchanged[Outcome.FAIL] / self.simulations
        return (
            alarms <= LEVEL + 2 * error and self.changed[Outcome.FAIL] / self.simulations >= POWER
        )


def gate_rates(
    policy: Policy,
    comparison: Comparison,
    rows: Sequence[PairedCell],
    *,
    simulations: int = SIMULATIONS,
    excess: float = 2.0,
) -> GateRates:
    """Simulate comparisons with the cells, numbers of trials, blocks and scatter of `comparison`,
    whose samples are `rows`, in the same order.

    A trial is the mean of its cell times the exponential of a residual, which is drawn from those
    of all cells and scaled by the moderated deviation of the cell. The cells of a run share a day's
    effect of `between_runs`. A single trial scatters as published repeats do (16.1 %).
    """
    generator = np.random.default_rng(SEED)
    policy = policy.model_copy(update={"confirm": False})
    judgements = [cell.judgement for cell in comparison.tested]
    residuals = _residuals([pair for _, pair in rows], judgements)
    resampled = len(residuals) >= _FEWEST_RESIDUALS
    limited = [
        (at, rule.parsed)
        for at, cell in enumerate(comparison.tested)
        for rule in policy.rules
        if rule.parsed.applies(cell) and cell.verdict is not Verdict.NOT_COMPARABLE
    ]
    found: tuple[Counter[Outcome], Counter[Outcome]] = Counter(), Counter()
    for number in range(2 * simulations):
        shifts = np.zeros(len(rows))
        if number >= simulations and limited:
            at, limit = limited[generator.integers(len(limited))]
            # A limit of 0 % allows nothing: the margin is exceeded instead.
            allowed = limit.ratio - 1 or (policy.band if limit.above else -policy.band)
            shifts[at] = math.log(max(1 + excess * allowed, 0.01))
        draws = _Draw(generator, residuals if resampled else None, comparison.between_runs)
        drawn = [
            (cell, draws.pair(pair, judgement, float(shift)))
            for (cell, pair), judgement, shift in zip(rows, judgements, shifts, strict=True)
        ]
        cells, costs = judge_cells(drawn, policy.band, policy.between_runs)
        gate = decide(policy, replace(comparison, cells=cells, costs=costs))
        found[number >= simulations][gate.outcome] += 1
    return GateRates(
        simulations=simulations,
        excess=excess,
        unchanged={outcome: found[0][outcome] for outcome in Outcome},
        changed={outcome: found[1][outcome] for outcome in Outcome},
        resampled=resampled,
    )


def _residuals(pairs: Sequence[Pair], judgements: Sequence[Judgement]) -> _Draws:
    """Collect the standardised residuals of all samples of three trials and more, of variance 1."""
    found = []
    for pair, judgement in zip(pairs, judgements, strict=True):
        estimate = judgement.estimate
        if estimate is None or estimate.of_runs or judgement.evidence is not Evidence.TRIALS:
            continue
        for sample in (pair.baseline, pair.candidate):
            logs = np.log(np.asarray(sample.trials, dtype=np.float64))
            if len(logs) > 2 and estimate.scale:
                spread = (logs - logs.mean()) * math.sqrt(len(logs) / (len(logs) - 1))
                found.append(spread / estimate.scale)
    if not found:
        return np.empty(0)
    together = np.concatenate(found)
    deviation = float(together.std())
    return together / deviation if deviation else np.empty(0)


class _Draw:
    """One simulated comparison: the day's effect of each system is the same in all cells."""

    def __init__(
        self, generator: np.random.Generator, residuals: _Draws | None, between_runs: float
    ) -> None:
        self._generator = generator
        self._residuals = residuals
        self._days = between_runs * generator.standard_normal(2)

    def _draw(self, number: int) -> _Draws:
        if self._residuals is None:
            return self._generator.standard_normal(number)
        return self._generator.choice(self._residuals, number)

    def pair(self, pair: Pair, judgement: Judgement, shift: float) -> Pair:
        """Return new samples of a pair whose systems differ by `shift` (logarithm) alone. What is
        not comparable stays so."""
        value = pair.baseline.value
        if judgement.verdict is Verdict.NOT_COMPARABLE or not value:
            return pair
        estimate = judgement.estimate
        scale = estimate.scale if estimate and estimate.scale else math.sqrt(2) * REPEATS_DEVIATION
        baseline, candidate = pair.baseline, pair.candidate
        if estimate is not None and estimate.paired:
            # Blocks keep what they share.
            common = [block for block in baseline.blocks if block in candidate.blocks]
            ours = dict(zip(baseline.blocks, baseline.trials, strict=True))
            level = np.log([ours[block] for block in common])
            changed = level + shift + scale * self._draw(len(common))
            return replace(
                pair,
                baseline=_sample(baseline, level, tuple(common)),
                candidate=_sample(candidate, changed, tuple(common)),
            )
        days = self._days if baseline.run != candidate.run else np.zeros(2)
        made = [
            self._alone(sample, math.log(value) + day + added, scale / math.sqrt(2))
            for sample, day, added in zip((baseline, candidate), days, (0.0, shift), strict=True)
        ]
        return replace(pair, baseline=made[0], candidate=made[1])

    def _alone(self, sample: Sample, level: float, deviation: float) -> Sample:
        if sample.by_run:
            means = level + deviation * self._draw(len(sample.by_run))
            by_run = tuple(
                (math.exp(mean),) if trials else ()
                for mean, trials in zip(means, sample.by_run, strict=True)
            )
            trials = tuple(value for run in by_run for value in run)
            return replace(sample, by_run=by_run, trials=trials, blocks=())
        if sample.spread is not None:
            error = deviation / math.sqrt(sample.spread.number)
            value = math.exp(level + error * float(self._draw(1)[0]))
            share = sample.spread.deviation / (sample.value or 1.0)
            spread = replace(sample.spread, deviation=share * value)
            return replace(sample, value=value, trials=(value,), spread=spread)
        count = max(len(sample.trials), 1)
        return _sample(sample, level + deviation * self._draw(count), sample.blocks)


def _sample(sample: Sample, logs: _Draws, blocks: tuple[object, ...]) -> Sample:
    values = tuple(np.exp(logs).tolist())
    return replace(
        sample,
        value=math.exp(float(logs.mean())),
        trials=values if sample.trials else (),
        blocks=blocks,
        within=sample.within[: len(values)],
    )
