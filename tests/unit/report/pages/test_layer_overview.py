"""The page of a layer study: headline, tiles and the drawn stack."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leadline.analysis.layers.study import LayerStudy, layer_study
from leadline.archive.reader import Run
from leadline.report.document import (
    BarChart,
    Block,
    Document,
    LineChart,
    Table,
    Tile,
    Tiles,
)
from leadline.report.pages.layer_overview import layers_page, stack_table
from tests.unit.analysis.layers.streams import stack, stream_run

SLOW = {"throughput_bps": 1.2e7, "size": 1.1e4, "latency_s": 1.2e-3}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    cells = {f"zfs-{size}": (stack(size), [SLOW, SLOW]) for size in (4096, 16384, 131072)}
    return stream_run(tmp_path_factory.mktemp("layers") / "r", cells)


@pytest.fixture(scope="module")
def study(run: Run) -> LayerStudy:
    return layer_study(run)


@pytest.fixture(scope="module")
def shown(study: LayerStudy) -> Document:
    return layers_page(study)


def blocks(shown: Document) -> list[Block]:
    return [*shown.front, *(block for section in shown.sections for block in section.blocks)]


def tiles(shown: Document) -> dict[str, Tile]:
    (found,) = (block for block in shown.front if isinstance(block, Tiles))
    return {tile.title: tile for tile in found.tiles}


def rows(found: Table) -> dict[str, dict[str, str]]:
    titles = [column.title for column in found.columns]
    return {
        row[0].text: dict(zip(titles, (cell.text for cell in row), strict=True))
        for row in found.rows
    }


def test_the_headline_says_where_concurrency_is_lost(shown: Document) -> None:
    assert shown.summary[0] == "11.4 MiB/s: 8 requests in flight at loop7 become 1.31 at image."
    assert all(len(text.split()) <= 20 for text in shown.summary)


def test_the_tiles_have_narrowest_layer_record_size_and_sums(shown: Document) -> None:
    found = tiles(shown)
    assert found["Throughput"].note == "zfs-16384 · receive.", "the middle of the sweep"
    assert found["Narrowest layer"].value == "image"
    assert found["Narrowest layer"].note == "10.7 KiB, 1.31 in flight, 1.2 ms each."
    assert found["Record size"].value == "unknown", "two trials decide nothing"
    assert found["Bytes agree"].value == "6 of 6"
    assert "Split" not in found


def test_the_stack_is_drawn_from_the_engine_down(shown: Document) -> None:
    (found,) = (block for block in shown.front if isinstance(block, Table))
    layers = rows(found)
    assert list(layers) == ["zfs stream", "zfs", "loop7", "rbd-fuse", "image", "pool rep2"]
    image = layers["image"]
    assert image["kind"] == "image (librbd), narrowest"
    assert (image["request size"], image["in flight"]) == ("10.7 KiB", "1.31")
    assert image["from the layer above"] == "same size; x 0.164 in flight"
    assert layers["rbd-fuse"]["latency"] == "–", "FUSE counts no operations"
    bars = {row[0].text: [cell.gauge for cell in row if cell.gauge] for row in found.rows}
    assert [gauge.bar for gauge in bars["image"]] == [False, True, True]
    assert bars["rbd-fuse"] == []
    assert [column.scale is not None for column in found.columns] == [
        False, False, True, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("operations", "size", "expected"),
    [
        (2.0, 1.0, "split: x 2 requests"),
        (0.5, 1.0, "merged: x 0.5 requests"),
        # As many fewer bytes as requests: nothing was merged.
        (0.9, 0.9, "same size; x 0.9 bytes"),
        (1.0, 1.0, "same size"),
    ],
)
def test_requests_are_split_or_merged_where_their_size_changes(
    study: LayerStudy, operations: float, size: float, expected: str
) -> None:
    cell = study.cells[0]
    steps = tuple(
        replace(
            step, operations_ratio=operations, bytes_ratio=size, in_flight_ratio=1.0, open_for=None
        )
        for step in cell.median.steps
    )
    made = stack_table("s", replace(cell, median=replace(cell.median, steps=steps)), "")
    assert rows(made)["image"]["from the layer above"] == expected


def test_the_page_has_sizes_sweep_and_evidence_of_every_cell(shown: Document) -> None:
    found = blocks(shown)
    (bars,) = (block for block in found if isinstance(block, BarChart))
    assert [group.label for group in bars.groups] == ["4 KiB", "16 KiB", "128 KiB"]
    assert [len(group.bars[0].dots) for group in bars.groups] == [2, 2, 2]
    ids = {block.id for block in found if isinstance(block, Table)}
    assert {"stack", "stack-1", "stack-3", "explanations", "layer-settings"} <= ids
    assert "stack-2" not in ids, "it is on the first screen"
    assert len([block for block in found if isinstance(block, LineChart)]) == 3
    assert len({(block.id) for block in found if isinstance(block, Table)}) == len(
        [block for block in found if isinstance(block, Table)]
    )


def test_a_refused_throughput_is_said(study: LayerStudy) -> None:
    cells = tuple(replace(cell, refused=("short-runtime",)) for cell in study.cells)
    shown = layers_page(replace(study, cells=cells, sweeps=()))
    assert tiles(shown)["Throughput"].note == "Refused: short-runtime."
    assert shown.summary[1] == (
        "The audit refuses the throughput of 3 of 3 cells: short-runtime; the counters remain "
        "valid."
    )


def test_layers_without_figures_have_a_stack_of_dashes(study: LayerStudy) -> None:
    cell = study.cells[0]
    bare = tuple(replace(layer, flows={}) for layer in cell.median.layers[1:])
    median = replace(cell.median, layers=(cell.median.layers[0], *bare), steps=())
    causes = replace(cell.causes, little=None, lost_at=None)
    alone = replace(study, cells=(replace(cell, median=median, causes=causes),), sweeps=())
    shown = layers_page(alone)
    assert shown.summary[0].endswith("no layer below reports size, latency and requests in flight.")
    (found,) = (block for block in shown.front if isinstance(block, Table))
    assert rows(found)["image"]["in flight"] == "–"
