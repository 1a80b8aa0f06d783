"""Comparisons whose truth is known, drawn from noise of three shapes and judged.

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

SEED = 20261121
ROUNDS = 2_000
MATRIX = 40
BAND = 0.05
# What a block's weather does to both sides that ran in it.
WEATHER = 0.05
CHANGED = (Verdict.BETTER, Verdict.WORSE)

Values = npt.NDArray[np.float64]


def noise(generator: np.random.Generator, shape: str, size: tuple[int, ...]) -> Values:
    """Of median 0 and, but for Student's, of a standard deviation of 1."""
    if shape == "normal":
        return generator.normal(size=size)
    if shape == "skewed":
        spread = math.sqrt(math.exp(0.25) * (math.exp(0.25) - 1))
        return (np.exp(0.5 * generator.normal(size=size)) - 1) / spread
    if shape == "heavy-tailed":
        return generator.standard_t(3, size=size)
    raise ValueError(shape)


def pair(baseline: Sequence[float], candidate: Sequence[float], *, paired: bool) -> Pair:
    sides = [
        Sample(
            value=float(np.median(values)),
            trials=tuple(float(one) for one in values),
            blocks=tuple(("both" if paired else name, index) for index in range(len(values))),
        )
        for name, values in (("a", baseline), ("b", candidate))
    ]
    return Pair(metric=Metric.IOPS, baseline=sides[0], candidate=sides[1])


def alike(
    trials: int, shape: str, deviation: float, *, paired: bool, rounds: int, seed: int
) -> list[Pair]:
    """A against A: no difference but noise."""
    generator = np.random.default_rng(seed)
    blocks = np.exp(WEATHER * generator.normal(size=(rounds, trials))) if paired else 1.0
    sides = [
        100 * blocks * np.exp(deviation * noise(generator, shape, (rounds, trials)))
        for _ in range(2)
    ]
    return [pair(a, b, paired=paired) for a, b in zip(*sides, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Shares of ROUNDS comparisons of A with A: whose interval holds one; that are called better or
    worse when each is asked alone, and when they come in matrices of 40 cells."""

    coverage: float
    alone: float
    in_matrices: float


@cache
def rates(trials: int, shape: str, paired: bool) -> Rates:
    """With a noise of 10 % of the value."""
    pairs = alike(trials, shape, 0.1, paired=paired, rounds=ROUNDS, seed=SEED)
    matrices = [
        one for start in range(0, ROUNDS, MATRIX) for one in judge(pairs[start : start + MATRIX])
    ]
    held = sum(
        one.interval is not None and one.interval[0] <= 1 <= one.interval[1] for one in matrices
    )
    # Only those whose p is small by itself can be called when asked alone.
    alone = sum(
        one.p is not None and one.p <= 0.05 and judge([asked])[0].verdict in CHANGED
        for one, asked in zip(matrices, pairs, strict=True)
    )
    return Rates(
        coverage=held / ROUNDS,
        alone=alone / ROUNDS,
        in_matrices=_changed(matrices),
    )


def _changed(judged: Sequence[Judgement]) -> float:
    return sum(one.verdict in CHANGED for one in judged) / len(judged)


def coefficients(generator: np.random.Generator, count: int) -> Values:
    """Run-to-run coefficients of variation as published of 180 groups of three runs on a production
    cluster: median 1.6 %, 90th percentile 13.5 %, worst 36 %. Between them log-normal."""
    spread = math.log(13.5 / 1.6) / 1.281552
    return np.minimum(0.016 * np.exp(spread * generator.normal(size=count)), 0.36)


@cache
def single_trials(imported: bool, published: bool) -> float:
    """Share of A against A called better or worse with one trial a side, by its own seconds (1 %)
    or by the band alone; noise between trials as published, or at its 90th percentile, 13.5 %."""
    generator = np.random.default_rng(SEED)
    deviation = coefficients(generator, ROUNDS) if published else np.full(ROUNDS, 0.135)
    sides = 100 * np.exp(deviation * generator.normal(size=(2, ROUNDS)))
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
def found_in_matrix(trials: int, change: float, deviation: float) -> tuple[float, float]:
    """One cell of 40 has changed. In how many of 200 matrices it is found, and in how many another
    is called."""
    generator = np.random.default_rng(SEED)
    matrices = 200
    noisy = 100 * np.exp(deviation * generator.normal(size=(2, matrices, MATRIX, trials)))
    noisy[1, :, 0] *= 1 + change
    expected = Verdict.WORSE if change < 0 else Verdict.BETTER
    hits = wrong = 0
    for a, b in zip(*noisy, strict=True):
        judged = judge([pair(x, y, paired=False) for x, y in zip(a, b, strict=True)])
        hits += judged[0].verdict is expected
        wrong += any(one.verdict in CHANGED for one in judged[1:])
    return hits / matrices, wrong / matrices
