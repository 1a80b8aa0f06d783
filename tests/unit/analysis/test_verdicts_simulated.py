"""How often a verdict is wrong, by simulation; and the page that publishes it has the same numbers.

The quick tests hold the goals in small numbers; the thorough ones recompute the page: of long
tables some rows, in `make test-deep` all.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import simulated

from leadline.analysis.verdicts import judge
from tests.conftest import every

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "comparing.md"
REPEATS = Path(__file__).parents[2] / "recorded" / "repeats"
# Three standard deviations of a count of 800.
ALLOWED = 3 * math.sqrt(0.95 * 0.05 / simulated.ROUNDS)
thorough = pytest.mark.thorough


# --- the goals, in small numbers ----------------------------------------------------------------


@pytest.mark.parametrize("cells", [1, simulated.MATRIX])
@pytest.mark.parametrize("paired", [False, True])
def test_intervals_cover_and_nothing_is_flagged(cells: int, paired: bool) -> None:
    found = simulated.rates(3, "normal", paired, cells)
    assert found.covered >= 0.95 - ALLOWED
    assert found.flagged <= 0.01


def test_a_fifth_is_found_among_forty_cells_with_three_trials() -> None:
    found = simulated.power(3, "normal")
    assert found.found >= 0.7
    assert found.wrong <= 0.05


def test_a_wild_trial_costs_the_other_cells_nothing() -> None:
    found = simulated.power(3, "one wild trial", number=40)
    assert found.found >= 0.6
    assert found.wrong <= 0.08


def test_pairs_cancel_the_weather_of_their_block() -> None:
    assert simulated.ties(15, 0.02, 0.2) >= 0.95


def test_several_runs_cover_a_day_that_all_cells_share() -> None:
    generator = np.random.default_rng(simulated.SEED)
    judged = [
        one
        for _ in range(40)
        for one in judge(simulated.matrix_of_runs(generator, (3, 3), "all cells", 20))
    ]
    assert np.mean([simulated.holds(one) for one in judged]) >= 0.9
    assert not any(one.verdict in simulated.CHANGED for one in judged)


def test_two_runs_cover_a_day_effect() -> None:
    found = simulated.rates(10, "day effect", False, simulated.MATRIX)
    assert found.covered >= 0.95 - ALLOWED
    assert found.flagged <= 0.02


@thorough
@pytest.mark.parametrize("trials", [2, 3])
def test_trials_in_a_row_make_no_verdict(trials: int) -> None:
    for cells in (1, simulated.MATRIX):
        found = simulated.rates(trials, "correlated", False, cells)
        assert found.covered >= 0.95 - ALLOWED
        assert found.flagged <= 0.02
    assert simulated.power(trials, "correlated", number=40).wrong <= 0.05


def test_the_order_of_a_plan_breaks_a_correlation_of_neighbours() -> None:
    found = simulated.rates(3, "correlated", True, simulated.MATRIX)
    assert found.covered >= 0.95 - ALLOWED
    assert found.flagged <= 0.01


def test_alone_no_worse_than_before() -> None:
    """Welch with complete separation, the rule before, found this loss in 76.6 %."""
    assert simulated.found_alone(3) >= 0.766


# --- the page ----------------------------------------------------------------------------------


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its two lines of heads."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n{heading}\n")[1].split("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def share(text: str) -> float:
    found = re.match(r"([0-9.]+) %", text)
    assert found, text
    return float(found[1]) / 100


# Every fourth row has each shape, and each of the five numbers of trials with several shapes.
@thorough
@pytest.mark.parametrize(
    "row", every(4, rows("### Coverage and power")), ids=lambda row: " ".join(row[:2])
)
def test_the_page_has_what_is_simulated(row: list[str]) -> None:
    shape, trials, *numbers = row
    n = int(trials)
    found = [
        simulated.rates(n, shape, paired, cells)
        for paired, cells in ((False, 1), (False, simulated.MATRIX), (True, simulated.MATRIX))
    ]
    power = simulated.power(n, shape)
    expected = [*(one.covered for one in found), found[0].flagged, power.found, power.wrong]
    assert power.wrong <= 0.05
    # Another version of numpy may draw other numbers.
    assert [share(one) for one in numbers] == pytest.approx(expected, abs=0.04)


@thorough
@pytest.mark.parametrize(
    "row", every(5, rows("### Several runs")), ids=lambda row: " ".join(row[:2])
)
def test_the_page_has_several_runs(row: list[str]) -> None:
    runs, days, alone, *numbers = row
    count = int(runs[0]), int(runs[-1])
    expected = simulated.rates_of_runs(count, days)
    assert [share(one) for one in numbers] == pytest.approx(expected, abs=0.04)
    if alone != "-":
        assert share(alone) == pytest.approx(simulated.covered_alone(count, days), abs=0.02)
    assert share(numbers[0]) >= 0.93
    assert share(numbers[1]) <= 0.01


@thorough
@pytest.mark.parametrize("row", rows("### Long memory"), ids=lambda row: row[0])
def test_the_page_has_what_a_long_memory_does(row: list[str]) -> None:
    trials, *numbers = row
    n = int(trials)
    expected = [
        *(
            simulated.rates(n, "long memory", paired, simulated.MATRIX).covered
            for paired in (False, True)
        ),
        *(simulated.power(n, "long memory", paired=paired).wrong for paired in (False, True)),
    ]
    assert [share(one) for one in numbers] == pytest.approx(expected, abs=0.04)


@thorough
@pytest.mark.deep
def test_two_trials_of_uneven_cells_are_wrong_as_often_as_the_page_states() -> None:
    told = re.search(
        r"and ([0-9]+ %) of the verdicts of\s+400 matrices", PAGE.read_text(encoding="utf-8")
    )
    assert told
    found = simulated.power(2, "uneven cells", number=400).wrong
    assert share(told[1]) == pytest.approx(found, abs=0.04)


@thorough
@pytest.mark.parametrize("row", rows("### Many changed cells"), ids=lambda row: row[0])
def test_the_page_has_many_changed_cells(row: list[str]) -> None:
    changed, *numbers = row
    expected = simulated.power_of_many(int(changed))
    assert [share(one) for one in numbers] == pytest.approx(expected, abs=0.03)


@thorough
@pytest.mark.parametrize(
    "row", every(5, rows("### Calls of correlation")), ids=lambda row: " ".join(row[:2])
)
def test_the_page_has_calls_of_correlation(row: list[str]) -> None:
    shape, trials, *numbers = row
    expected = [
        simulated.false_alarms(int(trials), shape, paired=paired) for paired in (False, True)
    ]
    assert [share(one) for one in numbers] == pytest.approx(expected, abs=0.06)
    if shape != "long memory":
        assert max(share(one) for one in numbers) <= 0.05


def test_every_shape_is_on_the_page() -> None:
    listed = {(shape, trials) for shape, trials, *_ in rows("### Coverage and power")}
    assert listed == {(shape, n) for shape in simulated.NOISES for n in ("2", "3", "6", "10", "15")}


@thorough
@pytest.mark.parametrize("row", rows("### benchstat's test"), ids=lambda row: row[0])
def test_the_page_has_benchstats_numbers(row: list[str]) -> None:
    n, *numbers = row
    power = simulated.power(int(n), "normal")
    expected = [*simulated.benchstat(int(n), simulated.LOSS), power.found]
    assert [share(one) for one in numbers] == pytest.approx(expected, abs=0.04)


@thorough
@pytest.mark.parametrize("row", rows("### The promise of `trials_needed`"), ids=" ".join)
def test_the_trials_that_are_asked_for_decide(row: list[str]) -> None:
    cells, loss, deviation, told = row
    found = simulated.promise(share(loss), share(deviation), int(cells))
    assert share(told) == pytest.approx(found, abs=0.05)
    assert found >= 0.7


@thorough
def test_the_page_has_single_trials() -> None:
    told = {name: [share(one) for one in cells] for name, *cells in rows("### One trial a side")}
    for name, imported in (("its own seconds", False), ("the margin alone", True)):
        expected = [simulated.single_trials(imported, published) for published in (True, False)]
        assert told[name] == pytest.approx(expected, abs=0.02)


def real(source: str, metric: int, trials: int, systems: str) -> tuple[int, float, float, float]:
    """Every series of real repeats against itself: its even trials against its odd ones, or the
    first against the next where they ran in a row. Returns the number of pairs, and the shares that
    are covered, flagged, and called changed by Mann-Whitney's test."""
    runs = json.loads((REPEATS / f"{source}.json").read_text(encoding="utf-8"))["runs"]
    in_a_row = systems == "in a row"
    judged, tested = [], []
    for run in runs:
        for start in range(0, 12 - 2 * trials + 1, 2 * trials):
            family = []
            for files in run.values():
                for series in files.values():
                    part = [one[metric] for one in series[start : start + 2 * trials]]
                    halves = (part[:trials], part[trials:]) if in_a_row else (part[::2], part[1::2])
                    paired = systems == "interleaved"
                    family.append(simulated.pair(*halves, paired=paired, imported=in_a_row))
            judged += judge(family)
            sides = np.array([(one.baseline.trials, one.candidate.trials) for one in family])
            tested += simulated.mann_whitney(sides[:, 0], sides[:, 1]).tolist()
    flagged = sum(one.verdict in simulated.CHANGED for one in judged)
    covered = sum(map(simulated.holds, judged))
    number = len(judged)
    return number, covered / number, flagged / number, float(np.mean(tested))


@pytest.mark.parametrize("row", rows("### Real repeats"), ids=lambda row: " ".join(row[:4]))
def test_real_repeats_do_not_differ_from_themselves(row: list[str]) -> None:
    source, metric, trials, systems, *told = row
    number, *found = real(source, ("IOPS", "p99").index(metric), int(trials), systems)
    assert int(told[0]) == number
    assert [share(one) for one in told[1:]] == pytest.approx(found, abs=0.002)
    assert found[0] >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / number)
    assert found[1] <= 0.05


@thorough
def test_real_repeats_in_random_order_are_rarely_called_correlated() -> None:
    runs = json.loads((REPEATS / "directory.json").read_text(encoding="utf-8"))["runs"]
    generator = np.random.default_rng(simulated.SEED)
    called = []
    for trials, paired in 40 * ((3, False), (3, True), (6, False)):
        for run in runs:
            for metric in (0, 1):
                order = generator.permutation(12)[: 2 * trials]
                family = []
                for files in run.values():
                    for series in files.values():
                        part = [series[at][metric] for at in order]
                        family.append(simulated.pair(part[::2], part[1::2], paired=paired))
                estimate = judge(family)[0].estimate
                called.append(estimate is not None and estimate.correlation > 0)
    assert np.mean(called) == pytest.approx(0.01, abs=0.015)
