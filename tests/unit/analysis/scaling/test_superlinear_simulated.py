"""How often growth in exact proportion is called more, and more is found: the table of
docs/concepts/systems-of-different-size.md."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from leadline.analysis.scaling.limits import crossing
from leadline.analysis.scaling.speedup import LevelSpeedup
from leadline.analysis.scaling.superlinear import exceeding
from leadline.analysis.verdicts import Judgement, Pair, Sample, judge
from leadline.metrics import Metric
from tests.conftest import ROOT, every
from tests.unit.analysis.scaling.systems import HOSTS

ROUNDS = 200
LOADS = np.array([1, 2, 4, 8, 16, 32])
SMALL = 1000 * LOADS / (1 + 0.1 * (LOADS - 1) + 0.002 * LOADS * (LOADS - 1))
PAGE = ROOT / "docs" / "concepts" / "systems-of-different-size.md"
TRIALS, NOISE = (1, 2, 3, 6, 10), (0.05, 0.1)


def sample(name: str, values: Any) -> Sample:
    return Sample(
        value=float(np.median(values)),
        trials=tuple(map(float, values)),
        blocks=tuple((name, index) for index in range(len(values))),
        # Single numbers are published figures: no seconds within the run.
        imported=len(values) == 1,
    )


def pair(ours: Any, theirs: Any) -> Pair:
    return Pair(metric=Metric.IOPS, baseline=sample("a", ours), candidate=sample("b", theirs))


def level(judgement: Judgement) -> LevelSpeedup:
    nothing: Any = None
    return LevelSpeedup(baseline=nothing, candidate=nothing, judgement=judgement, efficiency=None)


def share_found(efficiency: float, trials: int, noise: float, rounds: int) -> float:
    """Of `rounds` sweeps those with a finding."""
    generator = np.random.default_rng([trials, round(100 * noise), round(100 * efficiency)])
    found = 0
    for _ in range(rounds):
        drawn = [
            truth[:, None] * np.exp(noise * generator.normal(size=(len(LOADS), trials)))
            for truth in (SMALL, SMALL * HOSTS.ratio * efficiency)
        ]
        tops = [one[np.argmax(np.median(one, axis=1))] for one in drawn]
        judged = judge([*(pair(*both) for both in zip(*drawn, strict=True)), pair(*tops)])
        *levels, peak = map(level, judged)
        found += exceeding(levels, peak, HOSTS) is not None
    return found / rounds


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


@pytest.mark.parametrize("trials", [1, 3])
def test_growth_in_proportion_is_hardly_ever_called_more(trials: int) -> None:
    assert share_found(1.0, trials, 0.05, rounds=60) <= 0.05


@pytest.mark.thorough
@pytest.mark.parametrize("trials", every(3, TRIALS))
def test_the_page_says_how_often_it_is_wrong(trials: int) -> None:
    rows = []
    for noise in NOISE:
        fair, more, double = (share_found(one, trials, noise, ROUNDS) for one in (1.0, 1.2, 2))
        assert fair <= 0.05, "growth in proportion is hardly ever called more"
        if trials >= 6:
            assert more >= 0.95, "a fifth more is found"
        cells = [str(trials), percent(noise), *map(percent, (fair, more, double))]
        rows.append(f"| {' | '.join(cells)} |")
    assert "\n".join(rows) in PAGE.read_text("utf-8"), "\n".join(rows)


@pytest.mark.parametrize("trials", [3, 6])
def test_the_interval_of_equal_latency_holds_the_truth(trials: int) -> None:
    generator = np.random.default_rng(20261121)
    limit = 0.004
    larger = 1.5 * SMALL
    truth = [crossing(list(zip(one, LOADS / one, strict=True)), limit) for one in (SMALL, larger)]
    held = 0
    for _ in range(ROUNDS):
        answers = []
        for true in (SMALL, larger):
            rates = true[:, None] * np.exp(0.1 * generator.normal(size=(len(LOADS), trials)))
            paths = [list(zip(one, LOADS / one, strict=True)) for one in rates.T]
            answers.append([crossing(path, limit) for path in paths])
        (found,) = judge([pair(*answers)])
        assert found.interval is not None
        held += found.interval[0] <= truth[1] / truth[0] <= found.interval[1]
    assert held / ROUNDS >= 0.91
