"""What a run that stops when decided costs and gets wrong, against a fixed plan of six trials.

    uv run python benchmarks/looks.py [STUDIES [TABLE]]

Each study has the cells of two systems whose true ratios are known. A fixed plan judges six trials
of each cell. The other plans are looked at after each round, as `leadline run --until-decided`
does, with the same `judge`. A wrong verdict is `better` or `worse` where the true ratio is within
the margin, or the wrong way round, and `same` where it is not. Tables, in this order:

1. false calls and coverage without any difference, and at the edge of the margin;
2. cost and verdicts of studies with the true ratios of a published one;
3. the factor of small samples in stats/sequential.py.

Scatter: normal with the published median of 2.0 % or another one; with the published coefficients
of variation (90th percentile 16.1 %); or blocks of trials on one system, resampled from
tests/recorded/repeats (`directory`, `lab`), as they are or scaled to the published coefficients.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

from leadline.analysis.looks import rate_state
from leadline.analysis.power import REPEATS
from leadline.analysis.verdicts import Judgement, Pair, Sample, Verdict, judge
from leadline.archive.records import LookState
from leadline.metrics import Metric
from leadline.stats.sequential import Looks

Values = npt.NDArray[np.float64]

RECORDED = Path(__file__).resolve().parents[1] / "tests" / "recorded"
STUDY = RECORDED / "imports" / "table" / "multizone-vs-singlezone.csv"
SEED = 20261125
MARGIN = 0.05
FIXED = 6
MOST = 12
# First look, last round, and the probability of a verdict below which a cell is given up; a fixed
# plan has one look.
PLANS = (
    (6, 6, 0.0),
    *((3, 6, 0.0), (3, 6, 0.2), (2, 6, 0.0), (2, 6, 0.2)),
    *((3, 12, 0.0), (3, 12, 0.2), (2, 12, 0.0), (2, 12, 0.2)),
)
# Multi-zone / single-zone IOPS of two labs with 1 ms between zones, six trials, 2026-11-25.
LAB_RATIOS = (0.376, 0.723, 0.298, 0.433, 0.669, 0.230)
# What both systems of a block share, for instance an hour in which all is slow.
WEATHER = 0.05


@dataclass(frozen=True)
class Study:
    """Logarithms of trials, shape (cells, 2, blocks), and the true log ratio of each cell."""

    logs: Values
    truth: Values


@dataclass(frozen=True)
class Outcome:
    """The last judgement of each cell and the trials that it took per system."""

    judgements: Sequence[Judgement]
    trials: Sequence[int]


def run(study: Study, first: int, most: int, futility: float) -> Outcome:
    """Add a block to each open cell until none is open, with at most `most` blocks."""
    looks = Looks(most=most, first=first) if most > first else None
    blocks = [list(range(first)) for _ in study.truth]
    for block in range(first, most + 1):
        judged = judge([pair(study.logs[at], one, looks) for at, one in enumerate(blocks)], MARGIN)
        still = [
            at
            for at, one in enumerate(judged)
            if rate_state(one, len(blocks[at]), most, futility) is LookState.OPEN
        ]
        if not still or block == most:
            break
        for at in still:
            blocks[at].append(block)
    return Outcome(judgements=judged, trials=[len(one) for one in blocks])


def pair(logs: Values, blocks: Sequence[int], looks: Looks | None) -> Pair:
    samples = []
    for side in logs:
        trials = tuple(100 * math.exp(side[block]) for block in blocks)
        value = float(np.median(trials))
        samples.append(Sample(value=value, trials=trials, blocks=tuple(blocks), looks=looks))
    return Pair(metric=Metric.IOPS, baseline=samples[0], candidate=samples[1])


def is_wrong(judgement: Judgement, truth: float) -> bool:
    inside = math.log(1 - MARGIN) - 1e-12 <= truth <= math.log(1 + MARGIN) + 1e-12
    if judgement.verdict is Verdict.SAME:
        return not inside
    if judgement.verdict is Verdict.BETTER:
        return inside or truth < 0
    return judgement.verdict is Verdict.WORSE and (inside or truth > 0)


def covers(judgement: Judgement, truth: float) -> bool:
    low, high = judgement.interval or (0.0, math.inf)
    return low <= math.exp(truth) <= high


# --- studies -------------------------------------------------------------------------------------


def published_ratios() -> Values:
    """Multi-zone / single-zone rates of a published study of two clusters."""
    found: dict[tuple[str, ...], dict[str, float]] = {}
    with STUDY.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["iops"]:
                key = (row["target"], row["workload"], row["op"])
                found.setdefault(key, {})[row["cluster"]] = float(row["iops"])
    return np.array(
        [one["multi-zone"] / one["single-zone"] for one in found.values() if len(one) == 2]
    )


def published_scatter(generator: np.random.Generator, cells: int) -> Values:
    return np.array([REPEATS.quantile(one) for one in generator.normal(size=cells)])


def recorded_pairs(name: str) -> list[Values]:
    """Log rates of two targets that are one system, by cell: shape (2, blocks)."""
    found = []
    for part in json.loads((RECORDED / "repeats" / f"{name}.json").read_text())["runs"]:
        for cell in part.values():
            logs = np.log([[rate for rate, _ in cell[side]] for side in ("a", "b")])
            found.append(logs - logs.mean())
    return found


def normal_study(generator: np.random.Generator, truth: Values, scatter: Values) -> Study:
    logs = scatter[:, None, None] * generator.normal(size=(len(truth), 2, MOST))
    logs += WEATHER * generator.normal(size=(1, 1, MOST))
    logs[:, 1] += truth[:, None]
    return Study(logs=logs, truth=truth)


def recorded_study(
    generator: np.random.Generator, truth: Values, pairs: Sequence[Values], size: Values | None
) -> Study:
    """Blocks of recorded cells in random order, in each a target by chance the baseline; `size`
    scales the scatter of a cell to a coefficient of variation, None keeps it."""
    logs = np.empty((len(truth), 2, MOST))
    for at in range(len(truth)):
        cell = pairs[int(generator.integers(len(pairs)))]
        # A block drawn twice would show no scatter.
        drawn = cell[:, generator.permutation(cell.shape[1])[:MOST]]
        # A difference of the two recorded targets would count as a true one.
        flips = generator.integers(2, size=MOST).astype(bool)
        drawn = np.where(flips, drawn[::-1], drawn)
        if size is not None:
            drawn = drawn * size[at] / cell.std(axis=1, ddof=1).mean()
        logs[at] = drawn
    logs[:, 1] += truth[:, None]
    return Study(logs=logs, truth=truth)


# --- tables --------------------------------------------------------------------------------------


def row(name: str, studies: Sequence[Study], plans: Sequence[tuple[int, int, float]]) -> None:
    """Print a line for each plan; the first is the fixed one that the others are compared with."""
    fixed: list[Outcome] = []
    for first, most, futility in plans:
        outcomes = [run(study, first, most, futility) for study in studies]
        fixed = fixed or outcomes
        cells = [
            (judgement, trials, float(truth), planned)
            for study, outcome, base in zip(studies, outcomes, fixed, strict=True)
            for judgement, trials, truth, planned in zip(
                outcome.judgements, outcome.trials, study.truth, base.judgements, strict=True
            )
        ]
        decided = [one for one, *_ in cells if one.verdict is not Verdict.INCONCLUSIVE]
        wrong = [is_wrong(one, truth) for one, _, truth, _ in cells]
        any_wrong = np.mean(
            [
                any(map(is_wrong, outcome.judgements, study.truth.tolist()))
                for study, outcome in zip(studies, outcomes, strict=True)
            ]
        )
        covered = np.mean([covers(one, truth) for one, _, truth, _ in cells])
        trials = np.mean([number for _, number, _, _ in cells])
        known = [
            one.verdict is planned.verdict
            for one, _, _, planned in cells
            if planned.verdict is not Verdict.INCONCLUSIVE
        ]
        agree = f"{np.mean(known):6.1%}" if known else "     -"
        print(
            f"{name:32} {first:2} to {most:2}, {futility:4.0%}  "
            f"trials {trials:5.2f}  cost {trials / FIXED:4.0%}  "
            f"decided {len(decided) / len(cells):6.1%}  of the fixed plan's {agree}  "
            f"wrong {np.mean(wrong):6.2%}  any wrong {any_wrong:6.2%}  covered {covered:6.1%}"
        )
    print()


def false_calls(number: int) -> None:
    """No difference, and one at the edge of the margin, where a false call is most probable."""
    generator = np.random.default_rng(SEED)
    # Giving up makes no verdicts.
    plans = [plan for plan in PLANS if not plan[2]]
    edge = math.log(1 + MARGIN)
    for name, ratio in (("equal", 0.0), ("at the margin", edge)):
        for cells, many in ((1, 10 * number), (20, number)):
            truth = np.full(cells, ratio)
            normal = np.full(cells, REPEATS.median)
            studies = [normal_study(generator, truth, normal) for _ in range(many)]
            row(f"{name}, {cells} cells, normal", studies, plans)
        for source in ("directory", "lab"):
            pairs = recorded_pairs(source)
            truth = np.full(8, ratio)
            studies = [recorded_study(generator, truth, pairs, None) for _ in range(2 * number)]
            row(f"{name}, 8 cells, {source}", studies, plans)


def costs(number: int) -> None:
    """True ratios of a lab with distant zones, and of a published study."""
    # Giving up costs less, and few verdicts.
    plans = [plan for plan in PLANS if plan[2] or plan[0] == FIXED]
    for name, truth in (("lab", np.log(LAB_RATIOS)), ("published", np.log(published_ratios()))):
        generator = np.random.default_rng([SEED, len(truth)])
        cells = len(truth)
        for scatter in (REPEATS.median, 0.05):
            sizes = np.full(cells, scatter)
            studies = [normal_study(generator, truth, sizes) for _ in range(number)]
            row(f"{name} ratios, {scatter:.0%}", studies, plans)
        scatters = [published_scatter(generator, cells) for _ in range(number)]
        studies = [normal_study(generator, truth, sizes) for sizes in scatters]
        row(f"{name} ratios, published CVs", studies, plans)
        for source in ("directory", "lab"):
            pairs = recorded_pairs(source)
            studies = [recorded_study(generator, truth, pairs, sizes) for sizes in scatters]
            row(f"{name} ratios, {source}, CVs", studies, plans)
        pairs = recorded_pairs("lab")
        studies = [recorded_study(generator, truth, pairs, None) for _ in range(number)]
        row(f"{name} ratios, lab as is", studies, plans)


def small_samples(number: int) -> None:
    """How much more probable a small t is at any look than a small normal statistic."""
    generator = np.random.default_rng(SEED + 2)
    from leadline.stats.sequential import _chance

    tails = (0.025, 0.005, 0.001, 0.0002)
    for first, most in ((2, 6), (3, 6), (2, 12), (3, 12), (4, 16), (3, 30)):
        looks = Looks(most=most, first=first)
        nominal = looks.nominal(np.array(tails))
        hits, done = np.zeros(len(tails)), 0
        while done < number:
            values = generator.normal(size=(100_000, most))
            sums, squares = values.cumsum(axis=1), (values**2).cumsum(axis=1)
            hit = np.zeros((len(values), len(tails)), dtype=bool)
            for n in range(first, most + 1):
                mean = sums[:, n - 1] / n
                error = np.sqrt((squares[:, n - 1] - n * mean**2) / (n - 1) / n)
                hit |= (mean / error)[:, None] > student.isf(nominal, n - 1)[None, :]
            hits, done = hits + hit.sum(axis=0), done + len(values)
        theory = [_chance(float(-student.ppf(tail, 1e9)), first, most) for tail in nominal]
        ratios = ", ".join(f"{ratio:.2f}" for ratio in hits / done / theory)
        print(f"looks at {first} to {most}: t / normal at tails {tails}: {ratios}")


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    tables = (false_calls, costs, lambda number: small_samples(number * 10_000))
    for at in map(int, sys.argv[2:3] or "123"):
        tables[at - 1](number)


if __name__ == "__main__":
    main()
