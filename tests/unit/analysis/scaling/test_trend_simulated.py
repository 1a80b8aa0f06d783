"""How often the headline of a load curve is wrong: the table of docs/concepts/scaling.md."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from leadline.analysis.scaling.trend import LevelMeans, Trend, ending_of, hard_limit
from leadline.stats.usl import Usl, fit_usl
from tests.conftest import ROOT, every

ROUNDS = 300
# A fit of the law takes most of the time.
FITTED = 40
LOADS = (1, 2, 4, 8, 16, 32, 64, 128)
PAGE = ROOT / "docs" / "concepts" / "scaling.md"
QUEUE = Usl(rate=1000.0, contention=0.05, coherence=0.0)
CURVES: dict[str, Callable[[float], float]] = {
    "flat": lambda load: 1000.0,
    "limit": lambda load: min(load, 16) * 1000.0,
    "queue": QUEUE.at,
    "growing": lambda load: 1000.0 * 2 ** (np.log2(load) * np.log2(1.2)),
    "proportional": lambda load: 1000.0 * load,
    "collapsing": lambda load: min(load, 16) * (700.0 if load == LOADS[-1] else 1000.0),
}
WRONG = {
    "flat": (Trend.GROWS, Trend.FALLS),
    "limit": (Trend.GROWS, Trend.FALLS),
    "queue": (Trend.FALLS,),
    "growing": (Trend.FLAT, Trend.FALLS),
    "proportional": (Trend.FLAT, Trend.FALLS),
    "collapsing": (Trend.GROWS, Trend.FLAT),
}
NOISE = (0.05, 0.1)
TRIALS = (1, 3, 6)


def means(trials: Any) -> LevelMeans:
    """Rates of shape (levels, trials)."""
    logs = np.log(trials)
    freedom = logs.size - len(logs)
    within = float(((logs - logs.mean(axis=1, keepdims=True)) ** 2).sum())
    points: Any = LOADS
    return LevelMeans(
        points=points,
        loads=np.array(LOADS, dtype=np.float64),
        means=logs.mean(axis=1),
        counts=np.full(len(logs), float(logs.shape[1])),
        variance=within / freedom if freedom else 0.0,
        freedom=freedom,
    )


def headlines(curve: str, trials: int, noise: float, rounds: int) -> tuple[Counter[Trend], int]:
    """Count the trends of simulated sweeps, and the named hard limits."""
    generator = np.random.default_rng([trials, round(100 * noise), list(CURVES).index(curve)])
    truth = np.array([CURVES[curve](load) for load in LOADS])
    found: Counter[Trend] = Counter()
    limits = 0
    for done in range(rounds):
        rates = truth[:, None] * np.exp(noise * generator.normal(size=(len(LOADS), trials)))
        levels = means(rates)
        ending = ending_of(levels)
        assert ending is not None
        found[ending.trend] += 1
        if done < FITTED and ending.trend is Trend.FLAT:
            law = fit_usl(list(zip(LOADS, rates.tolist(), strict=True)))
            limits += hard_limit(levels, ending, law) is not None
    return found, limits


def percent(count: int, rounds: int) -> str:
    return f"{100 * count / rounds:.0f} %"


@pytest.mark.thorough
@pytest.mark.parametrize("curve", CURVES)
def test_a_headline_is_seldom_wrong(curve: str) -> None:
    for trials in (1, 3):
        found, limits = headlines(curve, trials, 0.05, rounds=40)
        assert sum(found[trend] for trend in WRONG[curve]) <= 3, (trials, found)
        if curve in ("growing", "proportional", "collapsing"):
            assert limits <= 2
    if curve in ("limit", "flat"):
        assert found[Trend.FLAT] >= 30


@pytest.mark.thorough
@pytest.mark.parametrize(("curve", "trials"), every(2, itertools.product(CURVES, TRIALS)))
def test_the_page_says_how_often_the_headline_is_wrong(curve: str, trials: int) -> None:
    rows = []
    for noise in NOISE:
        found, limits = headlines(curve, trials, noise, ROUNDS)
        wrong = sum(found[trend] for trend in WRONG[curve])
        assert wrong <= 0.02 * ROUNDS, (curve, trials, noise, found)
        cells = [curve, str(trials), f"{100 * noise:.0f} %"]
        cells += [percent(found[trend], ROUNDS) for trend in Trend]
        rows.append(f"| {' | '.join([*cells, percent(limits, FITTED)])} |")
    assert "\n".join(rows) in PAGE.read_text("utf-8"), "\n".join(rows)
