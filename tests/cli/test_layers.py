"""`leadline layers`: formats, selection of cells, and runs without layers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import leadline as package
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from tests.cli.conftest import Leadline, refused
from tests.conftest import Said, unpack
from tests.unit.analysis.layers.streams import stack, stream_run
from tests.unit.audit.audit_archives import Stored, build, cell

RECORDED = Path(__file__).parents[2] / "benchmarks/audit/recorded"
OPENZFS = Path(__file__).parents[1] / "recorded/layers/openzfs-mirror-log.tar.xz"
SLOW = {"throughput_bps": 1.2e7, "size": 1.1e4, "latency_s": 1.2e-3}


@pytest.fixture
def streams(tmp_path: Path) -> Run:
    cells = {f"zfs-{size}": (stack(size), [SLOW]) for size in (8192, 131072)}
    return stream_run(tmp_path / "runs" / "streams", cells)


def test_layers_as_text_markdown_csv_and_json(leadline: Leadline, streams: Run) -> None:
    text = leadline("layers", "streams")
    assert (text.status, text.err) == (0, "")
    assert "receive: 11.4 MiB/s. Writes at image:" in " ".join(text.out.split())
    assert "| loop7 | write |" in leadline("layers", "streams", "--format", "markdown").out
    rows = list(csv.DictReader(io.StringIO(leadline("layers", "--format", "csv").out)))
    assert {row["target"] for row in rows} == {"zfs-8192", "zfs-131072"}
    answer = json.loads(leadline("layers", "streams", "--format", "json").out)
    assert answer["schema"] == "leadline/layers/1"
    assert [one["record_bytes"] for one in answer["sweeps"][0]["rows"]] == [8192, 131072]


def test_cells_can_be_chosen(leadline: Leadline, streams: Run) -> None:
    one = leadline("layers", "--target", "zfs-8192", "--workload", "receive", "--format", "json")
    assert [cell["target"] for cell in json.loads(one.out)["cells"]] == ["zfs-8192"]
    answer = refused(leadline("layers", "--level", "qd99"), 2, "usage")
    assert "qd99" in answer
    assert "leadline show" in answer


def test_a_run_without_layers_says_so(leadline: Leadline, tmp_path: Path) -> None:
    build(tmp_path / "runs" / "old", {"a": (cell(), [Stored()])})
    answer = refused(leadline("layers", "old"), 2, "no-layers")
    assert "hint: " in answer


def test_a_run_on_this_machine_has_layers(quick: Callable[..., Said], leadline: Leadline) -> None:
    """Results are replayed, the file system below the folder is real."""
    quick()
    said = leadline("layers", "--format", "json")
    assert said.status == 0, said.err
    answer = json.loads(said.out)
    assert {one["layers"][0]["kind"] for one in answer["cells"]} == {"engine"}
    assert all(len(one["layers"]) > 1 for one in answer["cells"])


def test_layers_in_a_notebook(streams: Run) -> None:
    found = package.layers(streams.path)
    table = found.flows()
    assert set(table.column("kind").to_pylist()) == {
        *("engine", "zfs", "block", "fuse", "image", "pool"),
    }
    assert table.schema.field("bandwidth").type == "double"
    assert found.sweep().column("record_bytes").to_pylist() == [8192, 131072]
    assert "2 cells" in repr(found)
    with pytest.raises(LeadlineError) as error:
        package.layers(streams.path, target="nowhere")
    assert error.value.kind.code == "usage"


@pytest.mark.parametrize("output", ["text", "json", "csv", "markdown"])
@pytest.mark.parametrize(
    "name", ["zfs-cache-run", "zfs-zeros-run", "filesystem-reads-run", "filesystem-reread-run"]
)
def test_recorded_runs_are_shown_in_every_format(
    leadline: Leadline, tmp_path: Path, name: str, output: str
) -> None:
    """Real zfs-fuse and ext4 on loop devices (benchmarks/audit)."""
    unpack(RECORDED / f"{name}.tar.xz", tmp_path)
    said = leadline("layers", str(tmp_path / name / "run"), "--format", output)
    assert (said.status, said.err) == (0, "")
    if output == "json":
        cells = json.loads(said.out)["cells"]
        assert all(one["adds_up"] is not False for cell in cells for one in cell["sums"])
    if output == "text" and name == "zfs-cache-run":
        assert "nothing of it reached zfs." in " ".join(said.out.split())
        assert "Concurrency is lost" not in said.out


def test_no_sum_of_a_busy_openzfs_mirror_with_a_log_is_flagged(
    leadline: Leadline, tmp_path: Path
) -> None:
    """`zpool iostat` and the disks differ by -13 to +68 %: none of it is a known error."""
    unpack(OPENZFS, tmp_path)
    said = leadline(
        "layers", str(tmp_path / OPENZFS.name.removesuffix(".tar.xz")), "--format", "json"
    )
    assert said.status == 0, said.err
    cells = {one["workload"]: one for one in json.loads(said.out)["cells"]}
    for one in cells.values():
        kinds = [layer["kind"] for layer in one["layers"]]
        assert kinds == ["engine", "zfs", "block", "block"], "partitions, and their disks"
        steps = {(step["above"], step["op"]): step for step in one["steps"]}
        vdevs, disks = steps[1, "write"], steps[2, "write"]
        assert abs(vdevs["difference"]) > 0.05
        assert (vdevs["one_to_one"], vdevs["adds_up"]) == (True, None)
        assert vdevs["bytes_ratio_least"] < 1 < vdevs["bytes_ratio_most"]
        assert "accounts for the difference" in " ".join(vdevs["reasons"])
        assert disks["adds_up"] is True
        copies = steps[0, "write"]["reasons"]
        assert copies[0] == "Each byte is written at least 2 times: 1 x mirror of 2, log: 1 x disk."
        settings = {setting["name"]: setting["relevance"] for setting in one["settings"]}
        assert settings["zfs_dirty_data_max"] == "cannot matter"
    late = {layer["basis"] for layer in cells["ramped"]["layers"][1:]}
    assert late == {"whole trial"}, "the engine began five seconds late, for four"
    flushed = {one["name"]: one["relevance"] for one in cells["flushed"]["settings"]}
    assert flushed["sync, logbias"] == "can matter"
    assert "zfs_vdev_sync_write_max_active" in flushed, "the log's class is the busy one"
