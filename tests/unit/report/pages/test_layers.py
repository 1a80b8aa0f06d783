"""`leadline layers` and the page's section: what is shown, and how wide it is."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from leadline.analysis.layers.facts import Code, cannot, not_known
from leadline.analysis.layers.study import LayerStudy, layer_study
from leadline.archive.reader import Run
from leadline.findings import Finding, Severity
from leadline.report.answers.layers import LAYER_COLUMNS, layer_rows, layers_output
from leadline.report.document import LineChart, Section, Table
from leadline.report.pages.layer_tables import setting_items, signed_share
from leadline.report.pages.layer_words import explanation
from leadline.report.pages.layers import (
    MOST_OPEN,
    layers_document,
    layers_of_page,
    page_section,
    summary_sentences,
    sweep_sentences,
)
from leadline.report.render.html import render as page
from leadline.report.render.markdown import render as markdown
from leadline.report.render.terminal import render as terminal
from tests.unit.analysis.layers.layer_archives import disk_run
from tests.unit.analysis.layers.streams import stack, stream_run
from tests.unit.analysis.layers.test_study import as_read
from tests.unit.audit.audit_archives import Stored, build, cell

SLOW = {"throughput_bps": 1.2e7, "size": 1.1e4, "latency_s": 1.2e-3}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    records = (4096, 8192, 16384, 32768, 131072)
    cells = {f"zfs-{size}": (stack(size), [SLOW, SLOW]) for size in records}
    return stream_run(tmp_path_factory.mktemp("layers") / "r", cells)


@pytest.fixture(scope="module")
def study(run: Run) -> LayerStudy:
    return layer_study(run)


def shown(study: LayerStudy, width: int) -> str:
    stream = io.StringIO()
    terminal(Console(file=stream, width=width, color_system=None), layers_document(study))
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_terminal_shows_it_all_in_its_width(study: LayerStudy, width: int) -> None:
    text = shown(study, width)
    assert max(map(len, text.splitlines())) <= width
    joined = " ".join(text.split())
    for part in (
        "The receiver limits the stream",
        "recordsize",
        "By record size",
        "An object of 4 MiB holds",
        "rbd-fuse",
        "can matter",
        "cannot matter",
    ):
        assert part in joined


def test_markdown_has_the_same(study: LayerStudy) -> None:
    text = markdown(layers_document(study))
    assert "| loop7 | write |" in text
    assert "## By record size" in text


def test_every_direction_of_every_layer_is_a_row_for_programs(study: LayerStudy) -> None:
    answer = layers_output(study)
    rows = [dict(zip(LAYER_COLUMNS, row, strict=True)) for row in layer_rows(answer)]
    first = [row for row in rows if row["target"] == "zfs-4096"]
    assert [(row["kind"], row["op"]) for row in first] == [
        ("engine", "write"),
        ("zfs", ""),
        ("block", "write"),
        ("fuse", ""),
        ("image", "write"),
        ("pool", "write"),
    ]
    assert first[0]["rate"] is None, "a stream has no operations, which are not zero"
    assert first[1]["unobserved"], "zpool iostat was not recorded"
    assert first[3]["in_flight"] == 3
    assert first[2]["p50_size"] == 8192


def test_each_figure_has_a_source_or_a_reason(study: LayerStudy) -> None:
    for one in layers_output(study).cells:
        for layer in one.layers:
            for flow in layer.flows:
                for figure in (
                    *(flow.rate, flow.bandwidth, flow.merged),
                    *(flow.latency, flow.in_flight),
                ):
                    assert bool(figure.source) is (figure.value is not None)
                    assert bool(figure.absent) is (figure.value is None)
                    assert figure.value is None or figure.value >= 0


def test_the_page_shows_some_cells_and_refers_to_the_others(run: Run, study: LayerStudy) -> None:
    sentences, (section,) = layers_of_page(run, ())
    assert sentences == sweep_sentences(study)
    assert section.heading == "Layers"
    cells = [one for one in section.sections if one.id != "layers-by-record"]
    assert len(cells) == MOST_OPEN < len(study.cells)
    assert any("leadline layers" in getattr(block, "text", "") for block in section.blocks)
    charts = [block for one in cells for block in one.blocks if isinstance(block, LineChart)]
    assert len(charts) == MOST_OPEN
    for chart in charts:
        for line in chart.lines:
            assert sum(share for _, share in line.points) == pytest.approx(1)
            assert all(chart.x.low <= x <= chart.x.high for x, _ in line.points)


def test_words_of_an_explanation(study: LayerStudy) -> None:
    little, stalls, loss, copies = explanation(study.cells[1])
    assert little == (
        "receive: 11.4 MiB/s. Writes at image: 10.7 KiB x 1.31 in flight / 1.2 ms = 11.4 MiB/s, "
        "within 1 % (Little's law). The median size at loop7 is 8 KiB. An object of 4 MiB holds "
        "381 requests."
    )
    assert stalls == (
        "The receiver limits the stream: the pipe waited for the receiver 70 % of the time, for "
        "the sender 2 %."
    )
    assert loss == (
        "Concurrency is lost between loop7 and image (program rbd-fuse): 8 in flight above, 1.31 "
        "below."
    )
    assert copies == (
        "Each client write becomes 2 OSD writes: copies, or chunks of an erasure-coded object."
    )


def test_the_page_renders(run: Run, study: LayerStudy) -> None:
    html = page(layers_document(study))
    assert "Sizes of writes by layer" in html


def test_a_run_without_layers_has_no_section(tmp_path: Path) -> None:
    assert layers_of_page(build(tmp_path / "r", {"a": (cell(), [Stored()])}), ()) == ((), ())
    unobserved = disk_run(tmp_path / "u")
    assert layers_of_page(unobserved, ())[1] == (), "nor one below whose engine nothing was counted"
    assert page_section(None) == ()


def test_untrusted_names_cannot_draw_on_the_terminal(tmp_path: Path) -> None:
    run = disk_run(tmp_path / "r", as_read())
    (path,) = (run.path / "inventory").iterdir()
    path.write_text(path.read_text().replace('"ext4"', '"\\u001b[31mext4"'))
    text = shown(layer_study(Run(run.path)), 100)
    assert "ext4" in text
    assert "\x1b" not in text


def test_rows_have_a_cell_for_each_column(run: Run) -> None:
    def tables(section: Section) -> list[Table]:
        inner = [table for one in section.sections for table in tables(one)]
        return [*(block for block in section.blocks if isinstance(block, Table)), *inner]

    _, (section,) = layers_of_page(run, ())
    found = tables(section)
    assert found
    for table in found:
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert len({table.id for table in found}) == len(found)


def test_a_comparison_of_record_sizes_comes_first(study: LayerStudy) -> None:
    assert study.sweeps
    first, second, *_ = summary_sentences(study)
    assert "the record size" in first
    middle = study.sweeps[0].rows[len(study.sweeps[0].rows) // 2]
    assert second.startswith(middle.target)
    assert "receive: 11.4 MiB/s" in second


def test_a_refusal_of_the_audit_is_shown_next_to_the_refused_throughput(run: Run) -> None:
    found = Finding(
        code="cache-served-reads",
        severity=Severity.ERROR,
        target="zfs-16384",
        message="a cache answered",
        remedy="read more than it holds",
    )
    study = layer_study(run, [found])
    sentences = summary_sentences(study)
    assert not any(one.startswith("zfs-16384") for one in sentences), "it explains no result"
    assert any("refuses the throughput of 1 of 5 cells" in one for one in sentences)
    text = " ".join(shown(study, 160).split())
    assert text.count("(refused)") == 1
    assert text.count("Refused by the audit: cache-served-reads.") == 1
    answer = layers_output(study)
    refused = {one.target: one.refused for one in answer.cells}
    assert refused.pop("zfs-16384") == ["cache-served-reads"]
    assert not any(refused.values())
    assert [row.refused for row in answer.sweeps[0].rows] == [
        *([], []),
        ["cache-served-reads"],
        *([], []),
    ]


@pytest.mark.parametrize(
    ("share", "text"),
    [(-0.9994, "-99.9 %"), (-0.99999, "-99.9 %"), (-1.0, "-100 %"), (0.004, "+0.4 %")],
)
def test_a_rest_below_one_percent_is_not_rounded_to_nothing(share: float, text: str) -> None:
    assert signed_share(share) == text


def test_settings_with_the_same_cause_share_a_line() -> None:
    code = Code.TRIAL_READS
    items = setting_items([cannot("a", "", code), not_known("b", "1", code), cannot("c", "", code)])
    assert items == (
        "a, c cannot matter. The trial writes nothing.",
        "b (1) may matter (unknown). The trial writes nothing.",
    )
