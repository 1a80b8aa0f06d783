"""How often a judgement is wrong, by trying; and the pages that tell it tell the same."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import simulated

from leadline.analysis.verdicts import Verdict, judge

pytestmark = pytest.mark.thorough

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "comparing.md"
TRIALS = (3, 5, 6, 8, 10)
SHAPES = ("normal", "skewed", "heavy-tailed")
# Three standard deviations of the count: one wrong alarm in 740 where the truth is just 95 %.
ALLOWED = 3 * math.sqrt(0.95 * 0.05 / simulated.ROUNDS)

cells = pytest.mark.parametrize(
    ("trials", "shape", "paired"),
    [(n, shape, paired) for n in TRIALS for shape in SHAPES for paired in (False, True)],
)


@cells
def test_intervals_cover_what_they_promise(trials: int, shape: str, paired: bool) -> None:
    assert simulated.rates(trials, shape, paired).coverage >= 0.95 - ALLOWED


@cells
def test_a_thing_rarely_differs_from_itself(trials: int, shape: str, paired: bool) -> None:
    found = simulated.rates(trials, shape, paired)
    assert found.alone <= 0.05
    assert found.in_matrices <= found.alone


def test_a_single_trial_rarely_differs_from_itself() -> None:
    assert simulated.single_trials(imported=False, published=True) <= 0.05
    allowed = 3 * math.sqrt(0.05 * 0.95 / simulated.ROUNDS)
    assert simulated.single_trials(imported=False, published=False) <= 0.05 + allowed


@pytest.mark.parametrize("trials", [5, 6])
def test_a_fifth_is_found_among_forty_cells(trials: int) -> None:
    hits, wrong = simulated.found_in_matrix(trials, -0.2, 0.02)
    assert hits == 1
    assert wrong <= 0.05


@pytest.mark.parametrize("deviation", [0.05, 0.1])
def test_the_trials_that_are_asked_for_decide(deviation: float) -> None:
    """Where a fifth is still open with three trials, as many as are said to be needed find it in
    most cases: the number comes from a scatter that three trials tell badly, so not in all."""
    generator = np.random.default_rng(simulated.SEED)
    asked, decided = 0, 0
    for _ in range(300):
        draw = [100 * factor * np.exp(deviation * generator.normal(size=40)) for factor in (1, 0.8)]
        few = judge([simulated.pair(*(side[:3] for side in draw), paired=False)])[0]
        if few.trials_needed is None or few.trials_needed > 37:
            continue
        asked += 1
        fresh = [side[3 : 3 + few.trials_needed] for side in draw]
        decided += judge([simulated.pair(*fresh, paired=False)])[0].verdict is Verdict.WORSE
    assert asked > 30
    assert decided / asked > 0.6


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its two lines of heads."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n{heading}\n")[1].split("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def share(text: str) -> float:
    found = re.match(r"([0-9.]+) %", text)
    assert found, text
    return float(found[1]) / 100


def test_the_page_tells_what_comes_out() -> None:
    """Another version of numpy may draw other numbers: within three standard deviations."""
    told = rows("### Intervals, and A against A")
    assert len(told) == len(TRIALS) * 2
    for n, way, *numbers in told:
        found = [simulated.rates(int(n), shape, way == "interleaved") for shape in SHAPES]
        expected = [
            *(one.coverage for one in found),
            max(one.alone for one in found),
            max(one.in_matrices for one in found),
        ]
        assert [share(one) for one in numbers] == pytest.approx(expected, abs=0.01)


def test_the_page_tells_of_single_trials() -> None:
    told = {name: [share(one) for one in cells] for name, *cells in rows("### One trial a side")}
    for name, imported in (("its own seconds", False), ("the band alone", True)):
        expected = [simulated.single_trials(imported, published) for published in (True, False)]
        assert told[name] == pytest.approx(expected, abs=0.02)


def test_the_page_tells_of_changes_that_are_found() -> None:
    told = rows("### One change among forty cells")
    assert told
    for n, change, deviation, *numbers in told:
        expected = simulated.found_in_matrix(int(n), -share(change), share(deviation))
        assert [share(one) for one in numbers] == pytest.approx(expected, abs=0.05)
