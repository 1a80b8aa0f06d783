"""`leadline history` on runs imported from tables: changes, statuses, formats, bad input."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest

from leadline import run_index
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import RunStatus
from leadline.report.answers.schemas import SCHEMAS
from tests.cli.conftest import Leadline, refused
from tests.conftest import RECORDED, Said

FIRST = datetime(2026, 3, 1, 2, tzinfo=UTC)
NIGHTS, STEP = 20, 12
RATES = {"rep3": 4000.0, "rep2": 5000.0, "ec": 1500.0}
DUMPS = RECORDED.parent / "ceph-multi-az"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "leadline"


class Nights:
    """Imports tables of nights; a night's factor is that of rep3."""

    def __init__(self, leadline: Leadline, folder: Path) -> None:
        self.leadline, self.folder = leadline, folder
        self.random = random.Random(4)

    def night(
        self, number: int, factor: float = 1.0, *further: object, block: str = "4k", name: str = ""
    ) -> Path:
        lines = ["target,workload,op,block_size,iops,p99_ms,trial"]
        for target, rate in RATES.items():
            night = rate * self.random.gauss(1, 0.02) * (factor if target == "rep3" else 1.0)
            for trial in range(3):
                iops = night * self.random.gauss(1, 0.01)
                lines.append(
                    f"{target},randwrite,write,{block},{iops:.1f},{8000 / iops:.4f},{trial}"
                )
        run = name or f"night-{number:04d}"
        table = self.folder / f"{run}.csv"
        table.write_text("\n".join(lines) + "\n")
        date = (FIRST + timedelta(days=number)).isoformat()
        dated = () if "--undated" in further else ("--date", date)
        rest = [word for word in further if word != "--undated"]
        said = self.leadline("import", "table", table, "--run", run, *dated, *rest)
        assert said.status in (0, 1), said.err
        return self.folder / "runs" / run


@pytest.fixture
def nights(leadline: Leadline, tmp_path: Path) -> Nights:
    return Nights(leadline, tmp_path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test leaves the nights of `fallen` for the others."""
    return tmp_path_factory.mktemp("made") / "runs"


@pytest.fixture
def fallen(nights: Nights, made: Path, tmp_path: Path) -> Path:
    """Twenty nights; from the thirteenth on rep3 loses 20 %, after an upgrade of Ceph."""
    if not made.exists():
        _import_nights(nights, tmp_path)
        (tmp_path / "runs").rename(made)
    return Path(shutil.copytree(made, tmp_path / "runs"))


def _import_nights(nights: Nights, tmp_path: Path) -> None:
    upgraded = tmp_path / "upgraded"
    shutil.copytree(DUMPS, upgraded)
    for path in upgraded.iterdir():
        text = path.read_text()
        path.write_text(text.replace("16.2.15", "16.2.16").replace("4294967296", "8589934592"))
    for number in range(NIGHTS):
        dumps = upgraded if number >= STEP else DUMPS
        nights.night(number, 0.8 if number >= STEP else 1.0, "--inventory", dumps)


def answer(said: Said, status: int = 0) -> Any:
    assert said.status == status, said.err
    told = json.loads(said.out)
    jsonschema.validate(told, SCHEMAS["history"].model_json_schema(by_alias=True))
    return told


def test_the_change_its_size_and_what_changed(leadline: Leadline, fallen: Path) -> None:
    told = answer(leadline("history", fallen, "--metric", "iops", "--format", "json"))
    changes = [(one["target"], change) for one in told["series"] for change in one["changes"]]
    ((target, change),) = changes
    assert target == "rep3"
    assert change["kind"] == "step"
    assert (change["after"], change["run"]) == ("night-0011", "night-0012")
    low, high = change["interval"]
    assert low < 0.8 < high < 0.9
    assert change["verdict"] == "worse"
    assert change["regression"]
    differing = {one["path"]: (one["baseline"], one["candidate"]) for one in change["differences"]}
    assert any("16.2.15" in first and "16.2.16" in second for first, second in differing.values())
    assert told["regressions"] == 1

    text = leadline("history", fallen)
    assert text.status == 0
    assert "2 lasting regressions in 2 of 6 series" in text.out
    assert "16.2.16" in text.out
    assert re.search(r"[▁▂▃▄▅▆▇█]{20}", text.out)


def test_statuses_of_a_nightly_job(leadline: Leadline, fallen: Path) -> None:
    said = leadline("history", fallen, "--fail-on-regression", "--metric", "iops")
    assert said.status == 1
    assert "regression: rep3 · randwrite · write IOPS: -" in said.err
    assert "night-0012" in said.err
    for accepted in ("night-0013", "2026-03-14"):
        later = leadline("history", fallen, "--fail-on-regression", "--since", accepted)
        assert later.status == 0, later.err
    assert leadline("history", fallen, "--fail-on-regression", "--since", "night-0012").status == 1
    other = ("--select", "target=rep2,workload=rand*")
    assert leadline("history", fallen, "--fail-on-regression", *other).status == 0


def test_a_change_within_reach_of_the_margin_is_inconclusive(
    leadline: Leadline, nights: Nights, tmp_path: Path
) -> None:
    for number in range(NIGHTS):
        nights.night(number, 0.94 if number >= STEP else 1.0)
    said = leadline("history", tmp_path / "runs", "--fail-on-regression", "--metric", "iops")
    assert said.status == 5
    assert said.err.startswith("undecided: rep3")


def test_a_recovered_change_and_a_higher_rate_do_not_fail(
    leadline: Leadline, nights: Nights, tmp_path: Path
) -> None:
    for number in range(NIGHTS):
        nights.night(number, 0.7 if 6 <= number < 12 else 1.3 if number >= 16 else 1.0)
    runs = tmp_path / "runs"
    told = answer(leadline("history", runs, "--fail-on-regression", "--format", "json"))
    assert told["regressions"] == 0
    rates = next(
        one for one in told["series"] if (one["target"], one["metric"]) == ("rep3", "iops")
    )
    verdicts = [(change["verdict"], change["recovered"]) for change in rates["changes"]]
    assert verdicts == [("worse", True), ("better", False), ("better", False)]
    latencies = next(
        one for one in told["series"] if (one["target"], one["metric"]) == ("rep3", "latency_p99")
    )
    assert [change["ratio"] > 1 for change in latencies["changes"]] == [True, False, False]


def test_cells_with_other_settings_are_split_and_named(
    leadline: Leadline, nights: Nights, tmp_path: Path
) -> None:
    for number in range(8):
        nights.night(number, block="4k" if number < 4 else "8k")
    runs = tmp_path / "runs"
    told = answer(leadline("history", runs, "--metric", "iops", "--format", "json"))
    assert len(told["series"]) == 2 * len(RATES)
    assert {len(one["points"]) for one in told["series"]} == {4}
    (split, *_) = told["splits"]
    assert split["settings"] == {"workload.bs": ["4k", "8k"]}
    assert split["before"] != split["after"]
    assert "Different fingerprints" in leadline("history", runs).out


def test_times_that_contradict_each_other_are_named(
    leadline: Leadline, nights: Nights, tmp_path: Path
) -> None:
    nights.night(1)
    nights.night(2)
    nights.night(0, name="night-0003")
    nights.night(365 * 200, name="far")
    nights.night(0, 1.0, "--undated", name="loose")
    told = answer(leadline("history", tmp_path / "runs", "--format", "json"))
    assert told["runs"][0]["run"] == "night-0003"
    found = {(one["run"], one["problem"], one["other"]) for one in told["clock"]}
    assert found == {
        ("night-0003", "before-its-predecessor", "night-0002"),
        ("far", "in-the-future", None),
        ("loose", "time-of-import", None),
    }
    text = leadline("history", tmp_path / "runs").out
    assert "the clock went back" in text
    assert "Runs are in the order of these times." in text


@pytest.mark.parametrize("file", [layout.MANIFEST, layout.PLAN, "trials/t0001-1/trial.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\xff\x00"])
def test_a_damaged_archive_is_named_and_the_rest_goes_on(
    leadline: Leadline, nights: Nights, tmp_path: Path, file: str, content: bytes
) -> None:
    paths = [nights.night(number) for number in range(2)]
    assert (paths[1] / file).exists()
    (paths[1] / file).write_bytes(content)
    said = leadline("history", tmp_path / "runs", "--format", "json")
    told = answer(said, 1)
    assert [Path(one["path"]).name for one in told["unread"]] == ["night-0001"]
    assert told["unread"][0]["code"] == "archive-damaged"
    assert [run["run"] for run in told["runs"]] == ["night-0000"]
    assert f"left out: {paths[1]}: archive-damaged" in said.err


def test_a_foreign_manifest_is_no_archive(
    leadline: Leadline, nights: Nights, tmp_path: Path
) -> None:
    nights.night(0)
    web = tmp_path / "runs" / "site"
    web.mkdir()
    (web / "manifest.json").write_text('{"name": "a web application"}')
    assert answer(leadline("history", tmp_path / "runs", "--format", "json"))["unread"] == []


def test_an_archive_that_vanishes_while_it_is_read(
    leadline: Leadline, nights: Nights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [nights.night(number) for number in range(3)]
    find = run_index.find_archives

    def then_removed(folder: Path) -> Any:
        found = list(find(folder))
        shutil.rmtree(paths[0])
        return found

    monkeypatch.setattr(run_index, "find_archives", then_removed)
    told = answer(leadline("history", tmp_path / "runs", "--format", "json"), 1)
    assert [Path(one["path"]).name for one in told["unread"]] == ["night-0000"]
    assert len(told["runs"]) == 2


def test_copies_and_unfinished_runs_are_named_and_no_fault(
    leadline: Leadline, nights: Nights, tmp_path: Path
) -> None:
    paths = [nights.night(number) for number in range(3)]
    shutil.copytree(paths[0], tmp_path / "runs" / "deep" / "copied")
    manifest = Run(paths[2]).manifest.model_copy(update={"status": RunStatus.RUNNING})
    (paths[2] / layout.MANIFEST).write_bytes(layout.encode(manifest))
    told = answer(leadline("history", tmp_path / "runs", "--format", "json"))
    assert {one["code"] for one in told["unread"]} == {"copy", "not-finished"}
    assert len(told["runs"]) == 2


def test_the_index_is_used_renewed_and_rebuilt(
    leadline: Leadline, nights: Nights, tmp_path: Path, cache: Path
) -> None:
    paths = [nights.night(number) for number in range(3)]
    runs = tmp_path / "runs"
    assert run_index.index_runs([runs]).read == 3
    again = run_index.index_runs([runs])
    assert again.read == 0
    assert [run.run for run in again.runs] == [path.name for path in paths]
    nights.night(3)
    shutil.rmtree(paths[0])
    (paths[1] / layout.MANIFEST).touch()
    renewed = run_index.index_runs([runs])
    assert renewed.read == 2
    assert {run.run for run in renewed.runs} == {"night-0001", "night-0002", "night-0003"}

    whole = answer(leadline("history", runs, "--format", "json"))
    (index,) = cache.iterdir()
    for broken in (b"", b"PAR1 and more", index.read_bytes()[:-40]):
        index.write_bytes(broken)
        said = leadline("history", runs, "--format", "json")
        assert answer(said) == whole
        assert f"note: the index {index} cannot be read and is made anew" in said.err
        assert leadline("history", runs).err == ""


def test_an_index_that_cannot_be_written_is_a_note(
    leadline: Leadline, nights: Nights, tmp_path: Path, cache: Path
) -> None:
    nights.night(0)
    cache.parent.mkdir()
    cache.write_text("a file of the user")
    said = leadline("history", tmp_path / "runs")
    assert said.status == 0
    assert "cannot be written" in said.err
    assert cache.read_text() == "a file of the user"


def test_formats_for_other_programs(leadline: Leadline, fallen: Path) -> None:
    plain = list(csv.DictReader(io.StringIO(leadline("history", fallen, "--format", "csv").out)))
    assert len(plain) == NIGHTS * len(RATES) * 2
    assert float(plain[0]["value"]) > 0

    otava = list(csv.reader(io.StringIO(leadline("history", fallen, "--format", "otava-csv").out)))
    assert otava[0][:2] == ["time", "run"]
    assert "rep3.randwrite.write.iops" in otava[0]
    assert len(otava) == NIGHTS + 1
    assert all(float(cell) > 0 for row in otava[1:] for cell in row[2:])

    lines = leadline("history", fallen, "--format", "benchstat").out.splitlines()
    assert "Unit IOPS better=higher" in lines
    results = [line for line in lines if line.startswith("Benchmark")]
    assert len(results) == len(plain)
    assert all(re.fullmatch(r"Benchmark\S+ \d+ \S+ \S+", line) for line in results)

    gauges = leadline("history", fallen, "--format", "openmetrics").out
    assert gauges.endswith("# EOF\n")
    sample = re.compile(r'leadline_history_\w+\{(\w+="[^"]*",?)+\} [\d.e+-]+')
    shown = [line for line in gauges.splitlines() if not line.startswith("#")]
    assert all(sample.fullmatch(line) for line in shown)
    regressed = [line for line in shown if "history_regressed" in line and line.endswith(" 1")]
    assert len(regressed) == 2
    assert all('target="rep3"' in line for line in regressed)


def test_arrow_is_the_same_table(
    leadline: Leadline, fallen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "utf-8"))
    leadline("history", fallen, "--format", "arrow")
    sys.stdout.flush()
    table = pa.ipc.open_stream(written.getvalue()).read_all()
    assert table.num_rows == NIGHTS * len(RATES) * 2
    assert table.column("value").type == pa.float64()


def test_a_page_is_written(leadline: Leadline, fallen: Path, tmp_path: Path) -> None:
    page = tmp_path / "history.html"
    said = leadline("history", fallen, "-o", page)
    assert said.status == 0
    text = page.read_text("utf-8")
    assert "Series with changes" in text
    assert text.count('id="history-') >= 6


def test_verify_makes_a_page_again_without_the_index(
    leadline: Leadline, fallen: Path, cache: Path, tmp_path: Path
) -> None:
    page = tmp_path / "history.html"
    options = ("--select", "target=rep3", "--metric", "iops", "--since", "2026-03-02")
    assert leadline("history", fallen, *options, "-o", page).status == 0
    shutil.rmtree(cache)
    shutil.move(fallen, tmp_path / "moved")
    said = leadline("verify", page, "--runs", tmp_path / "moved")
    assert said.status == 0, said.out
    assert f"{page}: " in said.out
    # Another night than the page is of: verify reads raw output.
    changed = tmp_path / "moved" / "night-0001"
    shutil.rmtree(changed)
    shutil.copytree(tmp_path / "moved" / "night-0002", changed)
    said = leadline("verify", page, "--runs", tmp_path / "moved")
    assert said.status == 1
    assert "series[0].points[1].value" in said.out


def test_requests_that_name_nothing(leadline: Leadline, nights: Nights, tmp_path: Path) -> None:
    nights.night(0)
    runs = tmp_path / "runs"
    refused(leadline("history", tmp_path / "none"), 2, "run-not-found")
    (tmp_path / "empty").mkdir()
    refused(leadline("history", tmp_path / "empty"), 2, "run-not-found")
    assert "rep3" in refused(leadline("history", runs, "--select", "target=rep9"), 2, "usage")
    refused(leadline("history", runs, "--select", "pool=rep3"), 2, "usage")
    refused(leadline("history", runs, "--since", "2026-99-99"), 2, "usage")
    table = tmp_path / "night-0000.csv"
    refused(leadline("import", "table", table, "--date", "yesterday"), 2, "usage")
