"""Load curves of both systems on the page of a comparison."""

from __future__ import annotations

from leadline.analysis.compare import compare
from leadline.analysis.comparison import By, Comparison, two_runs
from leadline.report.document import SYSTEM_HUES, LineChart, Paragraph
from leadline.report.pages.comparison.load_curves import MOST_PANELS, load_blocks
from tests.unit.analysis.scaling.levels import Level
from tests.unit.report.pages.scaling.studies import run_of, saturating


def compared(before: list[Level], after: list[Level]) -> Comparison:
    made = run_of(*before, name="before"), run_of(*after, name="after")

    def judged(run: object) -> tuple[object, tuple[()]]:
        return next(one.figures for one in made if one.run is run), ()

    sides = two_runs(made[0].run, made[1].run, judged)  # type: ignore[arg-type]
    return compare(*sides, by=By.RUN)


def charts(found: Comparison) -> list[LineChart]:
    return [block for block in load_blocks(found) if isinstance(block, LineChart)]


def test_both_systems_share_a_panel_in_their_colours() -> None:
    levels = [*saturating(loads=(1, 2, 4)), *saturating(target="other", loads=(1, 2, 4))]
    slower = [
        *saturating(scale=0.5, loads=(1, 2, 4)),
        *saturating(target="other", scale=0.8, loads=(1, 2, 4)),
    ]
    first, second = charts(compared(levels, slower))
    assert (first.title, second.title) == ("pool", "other")
    assert first.note == "c1-qd32x1 -50.0 %, c4-qd32x1 -50.0 %"
    assert (first.x, first.y) == (second.x, second.y)
    assert {first.look(line.series).hue for line in first.lines} == set(SYSTEM_HUES)
    points = [line.points for line in first.lines if line.label == "after p99"]
    assert [len(one) for one in points] == [3]


def test_one_level_is_no_curve() -> None:
    assert load_blocks(compared(saturating(loads=(1,)), saturating(loads=(1,)))) == ()


def test_levels_of_one_system_alone_are_drawn() -> None:
    (chart,) = charts(compared(saturating(loads=(1, 2, 4)), saturating(loads=(4,))))
    drawn = {line.label: len(line.points) for line in chart.lines}
    assert (drawn["before p99"], drawn["after p99"]) == (3, 1)


def test_of_many_curves_those_with_the_largest_changes_are_drawn() -> None:
    before = [one for number in range(14) for one in saturating(target=f"p{number}", loads=(1, 2))]
    after = [
        one
        for number in range(14)
        for one in saturating(target=f"p{number}", loads=(1, 2), scale=1.0 + number / 10)
    ]
    found = load_blocks(compared(before, after))
    text, *drawn = found
    assert isinstance(text, Paragraph)
    assert text.text == "The 12 with the largest changes, of 14 load curves."
    assert len(drawn) == MOST_PANELS
    assert "p0" not in {chart.title for chart in drawn if isinstance(chart, LineChart)}
