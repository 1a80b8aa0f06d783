"""Comparisons whose truth is known, drawn from noise of many shapes and judged.

The tables of docs/concepts/comparing.md come from here; a test recomputes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from leadline.analysis.verdicts import Judgement, Pair, Sample, Verdict, judge
from leadline.metrics import Metric
from leadline.plan.expand import interleaved
from leadline.stats.effects import Estimate, p_beyond
from leadline.stats.families import benjamini_hochberg, two_sided

SEED = 20261121
ROUNDS = 800
MATRIX = 40
BAND = 0.05
# The scatter of trials, and what a block's weather does to both systems that ran in it.
DEVIATION = 0.05
WEATHER = 0.2
# What changed in one cell of a matrix.
LOSS = 0.2
CHANGED = (Verdict.BETTER, Verdict.WORSE)
NOISES = (
    "normal",
    "skewed",
    "heavy-tailed",
    "two placements",
    "uneven cells",
    "one noisy system",
    "one wild trial",
    "drift",
    "correlated",
    "day effect",
)

Values = npt.NDArray[np.float64]


def noise(generator: np.random.Generator, shape: str, size: tuple[int, ...]) -> Values:
    """Of mean 0 (but for one wild trial) and, but for Student's, a standard deviation of 1; the
    last axis is time, those before are cells and systems."""
    if shape in ("normal", "one noisy system", "uneven cells", "day effect"):
        return generator.normal(size=size)
    if shape == "skewed":
        spread = math.sqrt(math.exp(0.25) * (math.exp(0.25) - 1))
        return (np.exp(0.5 * generator.normal(size=size)) - math.exp(0.125)) / spread
    if shape == "heavy-tailed":
        return generator.standard_t(3, size=size) / math.sqrt(3)
    if shape == "two placements":
        # A volume lands on quick or on slow disks, at random.
        placed = generator.choice([-1.0, 1.0], size=size)
        return (placed + 0.3 * generator.normal(size=size)) / math.sqrt(1.09)
    if shape == "one wild trial":
        # Half the rate, in one trial of one system.
        found = generator.normal(size=size)
        found[..., 1, 0] += math.log(0.5) / DEVIATION
        return found
    if shape == "drift":
        # A cluster that gets slower during the run, as much as its trials scatter.
        slope = np.linspace(-1, 1, size[-1]) * math.sqrt(3)
        return (generator.normal(size=size) - slope) / math.sqrt(2)
    if shape in ("correlated", "long memory"):
        found = generator.normal(size=size)
        for at in range(1, size[-1]):
            found[..., at] = 0.6 * found[..., at - 1] + 0.8 * found[..., at]
        return found
    raise ValueError(shape)


def pair(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    paired: bool = False,
    runs: bool = False,
    imported: bool = False,
) -> Pair:
    sides = [
        Sample(
            value=float(np.median(values)),
            trials=tuple(float(one) for one in values),
            blocks=tuple(("both" if paired else name, index) for index in range(len(values))),
            run=name if runs else "",
            imported=imported,
        )
        for name, values in (("a", baseline), ("b", candidate))
    ]
    return Pair(metric=Metric.IOPS, baseline=sides[0], candidate=sides[1])


def matrices(
    trials: int, shape: str, *, paired: bool, cells: int, number: int, seed: int
) -> list[list[Pair]]:
    """Matrices of A against A: no difference but noise. Each cell of a wild matrix would be wild
    alone; of many cells one is. A correlation is from each trial to the next that runs: in the
    order of a plan where blocks are paired, else the trials of a cell in a row, as imported."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(number):
        size = (cells, 2, trials)
        logs = noise(generator, "normal" if shape == "one wild trial" else shape, size)
        if shape == "one wild trial":
            logs[:1] = noise(generator, shape, (1, 2, trials))
        if shape == "correlated" and paired:
            logs = in_the_order_of_a_plan(generator, cells, trials)
        scale = np.full((cells, 2, 1), DEVIATION)
        if shape == "uneven cells":
            scale = scale * np.exp(generator.normal(size=(cells, 1, 1)))
        if shape == "one noisy system":
            scale[:, 1] *= 3
        logs = logs * scale
        if shape == "day effect":
            logs += 0.05 * generator.normal(size=(cells, 2, 1))
        if paired:
            logs += WEATHER * generator.normal(size=(cells, 1, trials))
        rates = 100 * np.exp(logs)
        found.append(
            [
                pair(
                    a,
                    b,
                    paired=paired,
                    runs=shape == "day effect",
                    imported=shape == "correlated" and not paired,
                )
                for a, b in rates.tolist()
            ]
        )
    return found


def in_the_order_of_a_plan(generator: np.random.Generator, cells: int, trials: int) -> Values:
    """Correlated noise of two systems whose trials run in the randomised blocks of a plan, shape
    (cells, systems, trials)."""
    plan = interleaved([trials] * (2 * cells), int(generator.integers(2**31)))
    found = np.empty((2 * cells, trials))
    values = noise(generator, "correlated", (len(plan),))
    for trial, value in zip(plan, values.tolist(), strict=True):
        found[trial.cell, trial.block] = value
    return found.reshape(cells, 2, trials)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Shares of comparisons of A with A: whose 95 % interval covers the truth; that are flagged."""

    covered: float
    flagged: float


@cache
def rates(trials: int, shape: str, paired: bool, cells: int) -> Rates:
    number = ROUNDS // cells
    given = matrices(trials, shape, paired=paired, cells=cells, number=number, seed=SEED)
    judged = [one for matrix in given for one in judge(matrix)]
    return Rates(covered=sum(map(holds, judged)) / len(judged), flagged=_changed(judged))


def holds(judged: Judgement, truth: float = 1.0) -> bool:
    """Whether the 95 % interval covers the true ratio."""
    ends = judged.interval_alone or judged.interval
    return ends is not None and ends[0] <= truth <= ends[1]


def _changed(judged: Sequence[Judgement]) -> float:
    return sum(one.verdict in CHANGED for one in judged) / len(judged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Of matrices in which one cell of forty lost a share: how many find it, and the mean share of
    wrong verdicts among all verdicts (false discovery rate)."""

    found: float
    wrong: float


@cache
def power(
    trials: int, shape: str, loss: float = LOSS, *, paired: bool = False, number: int = 100
) -> Power:
    given = matrices(trials, shape, paired=paired, cells=MATRIX, number=number, seed=SEED + 1)
    found, wrong = 0, 0.0
    for matrix in given:
        # The last cell: the first may have the wild trial.
        changed = matrix[-1]
        slower = tuple((1 - loss) * one for one in changed.candidate.trials)
        candidate = Sample(
            value=float(np.median(slower)),
            trials=slower,
            blocks=changed.candidate.blocks,
            run=changed.candidate.run,
            imported=changed.candidate.imported,
        )
        matrix[-1] = Pair(metric=Metric.IOPS, baseline=changed.baseline, candidate=candidate)
        judged = judge(matrix)
        found += judged[-1].verdict is Verdict.WORSE
        flagged = sum(one.verdict in CHANGED for one in judged)
        wrong += sum(one.verdict in CHANGED for one in judged[:-1]) / max(flagged, 1)
    return Power(found=found / number, wrong=wrong / number)


def run_pair(baseline: Values, candidate: Values) -> Pair:
    """Two systems with several runs each, shapes (runs, trials)."""
    sides = [
        Sample(
            value=float(np.median(runs)),
            trials=tuple(runs.ravel().tolist()),
            by_run=tuple(map(tuple, runs.tolist())),
            run=name,
        )
        for name, runs in (("a", baseline), ("b", candidate))
    ]
    return Pair(metric=Metric.IOPS, baseline=sides[0], candidate=sides[1])


def matrix_of_runs(
    generator: np.random.Generator, runs: tuple[int, int], days: str, cells: int
) -> list[Pair]:
    """Three trials in each run of a system that differs by 5 % from run to run: `each cell` on its
    own, `all cells` together, or `half of the cells` together and the others not."""
    rates = []
    for count in runs:
        shape = (1, count, 1) if days != "each cell" else (cells, count, 1)
        day = 0.05 * generator.normal(size=shape) * np.ones((cells, 1, 1))
        if days == "half of the cells":
            day[cells // 2 :] = 0
        rates.append(100 * np.exp(day + DEVIATION * generator.normal(size=(cells, count, 3))))
    return [run_pair(a, b) for a, b in zip(*rates, strict=True)]


@cache
def rates_of_runs(runs: tuple[int, int], days: str) -> tuple[float, float, float]:
    """Shares of cells of equal systems that are covered and flagged, and of matrices of which one
    cell lost 20 % whose verdict of it is `worse`."""
    generator = np.random.default_rng(SEED + 6)
    judged: list[Judgement] = []
    found, rounds = 0, 200
    for _ in range(rounds):
        matrix = matrix_of_runs(generator, runs, days, MATRIX)
        judged += judge(matrix)
        changed = matrix[-1].candidate
        slower = np.array(changed.by_run) * (1 - LOSS)
        matrix[-1] = run_pair(np.array(matrix[-1].baseline.by_run), slower)
        found += judge(matrix)[-1].verdict is Verdict.WORSE
    return sum(map(holds, judged)) / len(judged), _changed(judged), found / rounds


@cache
def covered_alone(runs: tuple[int, int], days: str) -> float:
    """Share of equal systems with a single cell that are covered."""
    generator = np.random.default_rng(SEED + 6)
    judged = [judge(matrix_of_runs(generator, runs, days, 1))[0] for _ in range(2_000)]
    return sum(map(holds, judged)) / len(judged)


@cache
def found_alone(trials: int, loss: float = LOSS) -> float:
    """Share of single comparisons that find a loss."""
    generator = np.random.default_rng(SEED + 2)
    noisy = 100 * np.exp(DEVIATION * generator.normal(size=(ROUNDS, 2, trials)))
    noisy[:, 1] *= 1 - loss
    judged = [judge([pair(a, b)])[0].verdict for a, b in noisy.tolist()]
    return judged.count(Verdict.WORSE) / ROUNDS


@cache
def ties(trials: int, own: float, weather: float) -> float:
    """Share of interleaved comparisons of A with A that are shown to be the same."""
    generator = np.random.default_rng(SEED + 3)
    noisy = own * generator.normal(size=(300, 2, trials))
    noisy += weather * generator.normal(size=(300, 1, trials))
    judged = [judge([pair(a, b, paired=True)])[0].verdict for a, b in np.exp(noisy).tolist()]
    return judged.count(Verdict.SAME) / len(judged)


def mann_whitney(baseline: Values, candidate: Values) -> npt.NDArray[np.bool_]:
    """benchstat's test of each row: U by its exact distribution, two-sided at 5 %, without a
    margin."""
    from scipy.stats import mannwhitneyu

    return np.asarray(mannwhitneyu(baseline, candidate, axis=1, method="exact").pvalue < 0.05)


@cache
def benchstat(trials: int, loss: float) -> tuple[float, float]:
    """Shares of cells that Mann-Whitney's test calls changed: of 4,000 unchanged ones, and of those
    with a loss."""
    generator = np.random.default_rng(SEED + 4)
    noisy = np.exp(DEVIATION * generator.normal(size=(4_000, 2, trials)))
    flagged = mann_whitney(noisy[:, 0], noisy[:, 1])
    found = mann_whitney(noisy[:1_000, 0], noisy[:1_000, 1] * (1 - loss))
    return float(flagged.mean()), float(found.mean())


@cache
def promise(loss: float, deviation: float, cells: int) -> float:
    """Share of `trials_needed` that decide: three trials leave a loss open, and as many fresh ones
    as are said to be needed are tested in the same family."""
    generator = np.random.default_rng(SEED + 5)
    asked = decided = 0
    for _ in range(max(1, 600 // cells)):
        few = 100 * np.exp(deviation * generator.normal(size=(cells, 2, 3)))
        few[0, 1] *= 1 - loss
        now = judge([pair(a, b) for a, b in few.tolist()])[0]
        if now.trials_needed is None or now.trials_needed > 200:
            continue
        fresh = deviation * generator.normal(size=(cells, 2, now.trials_needed))
        fresh = 100 * np.exp(fresh)
        fresh[0, 1] *= 1 - loss
        asked += 1
        later = judge([pair(a, b) for a, b in fresh.tolist()])[0]
        decided += later.verdict is not Verdict.INCONCLUSIVE
    return decided / asked


def coefficients(generator: np.random.Generator, count: int) -> Values:
    """Run-to-run coefficients of variation as published of 180 groups of three runs on a production
    cluster: median 2.0 %, 90th percentile 16.1 %, worst 44 %. Between them log-normal."""
    spread = math.log(16.1 / 2.0) / 1.281552
    return np.minimum(0.02 * np.exp(spread * generator.normal(size=count)), 0.44)


@cache
def single_trials(imported: bool, published: bool) -> float:
    """Share of A against A called better or worse with one trial a side, by its own seconds (1 %)
    or by the band alone; noise between trials as published, or at its 90th percentile, 16.1 %."""
    rounds = 2_000
    generator = np.random.default_rng(SEED)
    deviation = coefficients(generator, rounds) if published else np.full(rounds, 0.161)
    sides = 100 * np.exp(deviation * generator.normal(size=(2, rounds)))
    samples = [
        [
            Sample(value=one, trials=(one,), within=(0.01,), imported=imported)
            for one in side.tolist()
        ]
        for side in sides
    ]
    return _changed(
        judge(
            [
                Pair(metric=Metric.IOPS, baseline=a, candidate=b)
                for a, b in zip(*samples, strict=True)
            ]
        )
    )


@cache
def power_of_many(
    changed: int, loss: float = 0.1, *, number: int = 100
) -> tuple[float, float, float]:
    """Of the `changed` cells of forty that lost a share, with three trials: the share found; the
    share found if the scatter were known; and the mean share of wrong verdicts."""
    generator = np.random.default_rng(SEED + 7)
    found, known, wrong = 0.0, 0.0, 0.0
    for _ in range(number):
        rates = 100 * np.exp(DEVIATION * generator.normal(size=(MATRIX, 2, 3)))
        rates[:changed, 1] *= 1 - loss
        judged = judge([pair(a, b) for a, b in rates.tolist()])
        flagged = np.array([one.verdict in CHANGED for one in judged])
        found += flagged[:changed].mean()
        wrong += flagged[changed:].sum() / max(flagged.sum(), 1)
        known += (_known(rates) <= 0.05)[:changed].mean()
    return found / number, known / number, wrong / number


def _known(rates: Values) -> Values:
    """Adjusted p values of the same tests by the normal distribution with the true scatter."""
    logs = np.log(rates).mean(axis=2)
    error = DEVIATION * math.sqrt(2 / rates.shape[2])
    normal = [
        Estimate(value=value, error=error, freedom=math.inf)
        for value in (logs[:, 1] - logs[:, 0]).tolist()
    ]
    edges = (np.full(len(normal), math.log(end)) for end in (1 - BAND, 1 + BAND))
    return np.array(benjamini_hochberg(two_sided(p_beyond(normal, *edges)).tolist()))


@cache
def false_alarms(trials: int, shape: str, *, paired: bool = False, number: int = 100) -> float:
    """Share of matrices whose trials are called correlated."""
    given = matrices(trials, shape, paired=paired, cells=MATRIX, number=number, seed=SEED + 8)
    estimates = (judge(matrix)[0].estimate for matrix in given)
    return sum(one is not None and one.correlation > 0 for one in estimates) / number
