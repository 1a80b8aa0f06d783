"""What a study says in words and tables, in a terminal as in Markdown and on a page."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from leadline.archive.records import Problem
from leadline.report.curves import PageBudget
from leadline.report.document import Block, Choices, Document, LineChart, Section, Table
from leadline.report.marks import Marks
from leadline.report.pages.scaling.page import curve_section, scaling_document
from leadline.report.pages.scaling.sentences import named_curves
from leadline.report.render import html, markdown, terminal
from tests.unit.analysis.scaling.levels import Simulated, closed, refusal
from tests.unit.analysis.scaling.systems import known
from tests.unit.report.pages.scaling.studies import (
    LAW,
    neighbours,
    offered,
    run_of,
    saturating,
    search,
    study_of,
    volumes,
)

HOSTILE = "<img src=x onerror=alert(1)>"


def document(*made: Simulated, limit: str | None = None) -> Document:
    return scaling_document(study_of(*made, limit=limit))


def every_section(sections: tuple[Section, ...]) -> list[Section]:
    return [one for section in sections for one in (section, *every_section(section.sections))]


def table(shown: Document, anchor: str) -> Table:
    (found,) = (
        block
        for section in every_section(shown.sections)
        for block in section.blocks
        if isinstance(block, Table) and block.id == anchor
    )
    return found


def rows(found: Table) -> list[dict[str, str]]:
    titles = [column.title for column in found.columns]
    return [dict(zip(titles, (one.text for one in row), strict=True)) for row in found.rows]


def text(shown: Document, width: int = 100) -> str:
    stream = io.StringIO()
    terminal.render(Console(width=width, file=stream, no_color=True), shown)
    return stream.getvalue()


# --- the first sentence -------------------------------------------------------------------------


def test_the_first_sentence_says_growth_limit_and_where_it_ends() -> None:
    shown = document(run_of(*saturating()), limit="p99<200ms")
    assert shown.summary[0] == (
        f"randread on pool at depth 32: throughput grows to 6 clients ({LAW.at(6):,.0f} "
        f"IOPS), then falls to {LAW.at(12):,.0f} IOPS at 12 clients, -12 % vs the highest "
        "(-14 % to -9.5 %); p99<200 ms is kept up to "
        f"c6-qd32x1 ({LAW.at(6):,.0f} IOPS) and exceeded at c8-qd32x1."
    )


def test_what_a_closed_loop_keeps_and_an_open_one_does_not_is_shown_of_both() -> None:
    levels = [*saturating(loads=(1, 2)), offered(500.0, 0.1, label="peak50")]
    said = document(run_of(*levels), limit="p99<200ms").summary[0]
    assert "p99<200 ms is kept by every level in a closed loop" in said
    assert "no level keeps p99<200 ms in an open loop" in said


def test_growth_that_has_not_ended_is_no_knee() -> None:
    shown = document(run_of(*(closed(one, *[100.0 * one] * 3) for one in (1, 2, 4))))
    assert (
        "still grows at 4 I/Os in flight, the highest load measured (400 IOPS)"
        in (shown.summary[0])
    )
    assert rows(table(shown, "load-shapes"))[0]["knee"] == "beyond the last"


def test_a_limit_that_no_level_keeps_and_one_that_all_keep() -> None:
    made = run_of(*saturating())
    assert "no level keeps p99<1 ms" in document(made, limit="p99<1ms").summary[0]
    assert "p99<9 s is kept by every level" in document(made, limit="p99<9s").summary[0]


def test_a_refused_latency_answers_no_limit() -> None:
    levels = saturating(loads=(1, 2, 4))
    findings = [refusal(one.level, latency_only=True, code="throttled-cpu") for one in levels]
    made = run_of(*levels, findings=findings)
    assert "whether p99<200 ms is kept is unknown" in document(made, limit="p99<200ms").summary[0]


def test_density_is_the_interval_between_two_numbers() -> None:
    steps = [volumes(one, 0.002 if one < 6 else 0.009) for one in (1, 2, 4, 8, 6, 5)]
    shown = document(run_of(*steps, follow_ups=[search()]))
    assert shown.summary[0] == (
        "volumes on pool, clients at 500 IOPS each: 5 clients keep p99<5 ms, 6 exceed it."
    )
    steps = rows(table(shown, "density-1"))
    assert [one["p99<5 ms"] for one in steps] == ["kept"] * 4 + ["broken"] * 2
    assert steps[-1]["slowest client"] == "90 %"
    assert steps[0]["slowest client"] == "–", "one client has no slowest"


def test_a_sweep_of_one_level_says_so() -> None:
    shown = document(run_of(closed(4, 100.0, 101.0)))
    assert "was measured at two load levels" in shown.summary[0]
    assert "100 IOPS at the only usable level" in shown.summary[1]
    assert all(not section.heading.startswith("Scalability") for section in shown.sections)


# --- tables -------------------------------------------------------------------------------------


def test_levels_show_closed_and_open_loop_and_neighbours_apart() -> None:
    levels = [*saturating(loads=(1, 2)), offered(1500.0, 0.02, label="peak50"), neighbours(2, 380)]
    found = rows(table(document(run_of(*levels)), "load-1-levels"))
    assert [(one["level"], one["loop"], one["neighbours"], one["offered"]) for one in found] == [
        ("c1-qd32x1", "closed", "0", "–"),
        ("c2-qd32x1", "closed", "0", "–"),
        ("peak50", "open", "0", "1,500"),
        ("c1-qd32x1-n2", "closed", "2", "–"),
    ]
    assert found[0]["p99"] == "96 ms"


def test_a_findinged_number_carries_its_mark_and_the_finding_is_listed() -> None:
    levels = saturating(loads=(1, 2, 4))
    finding = refusal(levels[1].level)
    made = run_of(*levels, findings=[finding])
    shown = scaling_document(study_of(made, findings=[finding]))
    row = table(shown, "load-1-levels").rows[1]
    assert {mark.label for cell in row for mark in cell.marks} == {"E1"}
    assert any(section.id == "findings" for section in shown.sections)
    assert "E1 error: cache-served-reads" in text(shown)


def test_neighbours_are_held_against_the_level_alone() -> None:
    shown = document(run_of(*saturating(loads=(1, 2)), neighbours(2, 500), neighbours(4, 250)))
    found = table(shown, "neighbours").rows
    assert [row[1].text for row in found] == ["none", "2", "4"]
    assert [row[3].sort for row in found[1:]] == pytest.approx([0.5, 0.25], rel=1e-3)


def test_the_law_says_its_parameters_or_why_there_are_none() -> None:
    found = rows(table(document(run_of(*saturating())), "load-laws"))[0]
    assert found["contention"].startswith("0.05 (")
    assert found["coherence"].startswith("0.02 (")
    few = text(document(run_of(*saturating(loads=(1, 2, 4)))))
    assert "is fitted to 1 curve: 3 load levels with a rate" in few


def test_each_curve_stands_next_to_its_own_limit() -> None:
    """Curves of two runs differ in nothing but the run."""
    small = run_of(*saturating(), name="small")
    large = run_of(*saturating(scale=2.0), name="large", hosts=5)
    shown = document(small, large, limit="p99<200ms")
    within = [one["within p99<200 ms"] for one in rows(table(shown, "load-shapes"))]
    assert within[0].startswith("c6-qd32x1, ")
    assert within[1].startswith("c8-qd32x1, ")


def test_systems_are_next_to_what_was_added() -> None:
    small = run_of(*saturating(), name="small")
    large = run_of(*saturating(scale=2.4), name="large", hosts=5)
    shown = document(small, large)
    assert shown.summary[0].startswith(
        "large vs small, randread on pool (read): highest throughput +140 % ("
    )
    assert "for +67 % hosts (3 to 5)" in shown.summary[0]
    levels = rows(table(shown, "speedups-1"))
    assert [one["level"] for one in levels[:2]] == ["c1-qd32x1", "c2-qd32x1"]
    assert all(one["speed-up"].startswith("× 2.40 (") for one in levels[:7])
    assert all(one["efficiency"].startswith("144 %") for one in levels[:7])
    assert "superlinear-scaling" in text(shown)
    assert len(table(shown, "causes-1").rows) > 3


def test_systems_within_one_run_are_compared_on_its_page() -> None:
    made = run_of(*saturating(target="small"), *saturating(target="large", scale=1.5))
    known(made, labels={"small": {"cores": "1"}, "large": {"cores": "2"}})
    study = study_of(made)
    (section,) = curve_section(study, Marks(()), PageBudget())
    (section,) = (one for one in section.sections if one.id == "speedup-1")
    assert section.heading == "Speed-up: cores=2 vs cores=1"
    sentence = scaling_document(study).summary[0]
    assert "for +100 % cores (1 to 2); efficiency 75 %" in sentence


def test_every_level_says_its_bottleneck() -> None:
    shown = document(run_of(*saturating()))
    found = rows(table(shown, "bottlenecks"))
    assert len(found) == 7
    assert found[0]["limited by"] == "not saturated"
    assert found[-1]["limited by"] == "unknown", "no machine was measured"
    assert int(found[-1]["not measured"]) >= 7


# --- renderings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 100])
def test_in_a_terminal_curves_are_drawn_and_nothing_is_too_wide(width: int) -> None:
    levels = [*saturating(), offered(1500.0, 0.02), neighbours(2, 380)]
    said = text(document(run_of(*levels), limit="p99<200ms"), width)
    assert max(map(len, said.splitlines())) <= width
    assert "└──" in said
    assert "knee" in said
    assert "┄limit p99<200 ms┄" in said


def test_markdown_draws_curves_in_a_block_of_code() -> None:
    said = markdown.render(document(run_of(*saturating())))
    assert said.count("```") % 2 == 0
    assert "└──" in said


def test_names_are_text_everywhere() -> None:
    made = run_of(*saturating(target=HOSTILE), *saturating(target="a\x1b[31m|b"))
    shown = document(made, limit="p99<200ms")
    assert "<img" not in html.render(shown)
    outside_code = re.sub(r"(?s)```.*?```", "", markdown.render(shown))
    assert "&lt;img" in outside_code
    assert "<img" not in outside_code
    assert "\x1b" not in text(shown)


def test_a_level_that_was_stopped_is_reported_and_not_drawn() -> None:
    stopped = Problem(code="rate-not-reached", fact="the queue grew without bound")
    late = offered(9000.0, 0.1, label="peak90", trials=[stopped])
    shown = document(run_of(*saturating(), late), limit="p99<200ms")
    found = table(shown, "load-1-levels")
    assert "peak90" in [row[0].text for row in found.rows]


# --- on the page of a run -----------------------------------------------------------------------


def page_blocks(made: Simulated, budget: PageBudget) -> tuple[Block, ...]:
    (section,) = curve_section(study_of(made), Marks(()), budget)
    return section.blocks


def test_one_workload_is_shown_at_a_time() -> None:
    made = run_of(*saturating(), *saturating(workload="randwrite"))
    blocks = page_blocks(made, PageBudget())
    (choices,) = (block for block in blocks if isinstance(block, Choices))
    values = [value for value, _ in choices.options]
    assert [label for _, label in choices.options] == ["randread · read", "randwrite · read"]
    chosen = [block.choice for block in blocks if isinstance(block, LineChart | Table)]
    assert set(chosen) == set(values)


def test_a_page_draws_no_more_than_its_budget_and_says_what_it_leaves_out() -> None:
    levels = [one for number in range(6) for one in saturating(workload=f"w{number}")]
    blocks = page_blocks(run_of(*levels), PageBudget(200))
    charts = [block for block in blocks if isinstance(block, LineChart)]
    assert 0 < len(charts) < 12
    assert any("not drawn" in str(block) for block in blocks)


def test_of_very_many_targets_the_fastest_are_drawn_and_all_are_reported() -> None:
    levels = [
        one
        for number in range(12)
        for one in saturating(target=f"pool-{number:02d}", scale=1.0 + number, loads=(1, 2))
    ]
    blocks = page_blocks(run_of(*levels), PageBudget())
    chart = next(block for block in blocks if isinstance(block, LineChart))
    drawn = {line.label for line in chart.lines if ":" not in line.label}
    assert drawn == {f"pool-{number:02d}" for number in range(4, 12)}
    (levels_table,) = (block for block in blocks if isinstance(block, Table))
    assert len(levels_table.rows) == 24
    assert "4 slower curves are not drawn" in levels_table.caption


def test_curves_have_names_that_show_them_apart() -> None:
    deep = saturating()
    shallow = [
        one for level in saturating(loads=(1, 2, 4))
        for one in [type(level)(**({**vars(level), "iodepth": 4}))]
    ]  # fmt: skip
    names = [one.name for one in named_curves(study_of(run_of(*deep, *shallow)))]
    assert len(names) == len(set(names)) == 2
