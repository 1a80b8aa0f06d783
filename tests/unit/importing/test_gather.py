"""Which importer takes a file, which are read together, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.archive.records import Session
from leadline.archive.verify import verify
from leadline.errors import LeadlineError
from leadline.formats.importer import importer
from leadline.formats.result import EngineOutput
from leadline.importing import archives
from leadline.importing import gather as gathering
from leadline.importing.archives import Labels, import_results
from leadline.importing.gather import HEAD_BYTES, gather
from tests.conftest import RECORDED, ROOT

RESULT = ROOT / "tests" / "recorded" / "quick" / "randread-4k-qd1" / "fio.json"
PROGRESS = b"\rJobs: 1 (f=1): [r(1)][10.0%][r=1MiB/s][r=1 IOPS][eta 00m:00s]"


@pytest.mark.parametrize("noise", [PROGRESS, b"ok: [host]\n", b"{ set -x; }\n"])
def test_json_behind_a_long_text(tmp_path: Path, noise: bytes) -> None:
    content = noise * (2 * HEAD_BYTES // len(noise)) + b"\n" + RESULT.read_bytes()
    for name in ("a.out", "b.json"):
        (tmp_path / name).write_bytes(content)
    gathered = gather("auto", [tmp_path])
    assert [bundle.importer.kind for bundle in gathered.bundles] == ["fio-json", "fio-json"]
    assert not gathered.refused
    for bundle in gathered.bundles:
        (result,) = importer("fio-json").read(bundle.contents())
        assert isinstance(result.output, EngineOutput)
        (job,) = result.output.jobs
        assert job.name == "randread"


def test_a_long_text_without_a_result_is_left(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"ok: [host]\n" * (2 * HEAD_BYTES))
    gathered = gather("auto", [tmp_path])
    assert [refused.file for refused in gathered.refused] == ["log"]
    assert not gathered.bundles


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for number in range(4):
        content = (RECORDED / "randread-4k-qd1" / "fio.json").read_bytes()
        (tmp_path / f"{number}.json").write_bytes(content)
    return tmp_path


def test_an_import_takes_so_many_bytes_and_names_the_files_beyond(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = (results / "0.json").stat().st_size
    monkeypatch.setattr(gathering, "MOST_BYTES", 2 * size)
    found = gather("auto", [results])
    assert [list(bundle.files) for bundle in found.bundles] == [["0.json"], ["1.json"]]
    assert [refused.file for refused in found.refused] == ["2.json", "3.json"]
    assert all("import it into another run" in refused.reason for refused in found.refused)
    assert all(refused.expected for refused in found.refused)


def test_files_beyond_those_whose_beginning_is_kept_are_recognised(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "_MOST_HEADS", 1)
    (results / "letter.txt").write_text("Dear reader,")
    found = gather("auto", [results])
    assert len(found.bundles) == 4
    assert [refused.file for refused in found.refused] == ["letter.txt"]
    assert "Dear reader" in found.refused[0].reason


def test_an_import_has_so_many_results_and_keeps_nothing_of_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MOST_RESULTS", 3)
    for name, rows in (("a", 2), ("b", 2), ("c", 1)):
        lines = [f"rep3,w{name}{row},read,1000\n" for row in range(rows)]
        (tmp_path / f"{name}.csv").write_text("target,workload,op,iops\n" + "".join(lines))
    session = Session(started_at="", hostname="", leadline_version="", python_version="")
    labels = Labels(run="t")
    imported = import_results(gather("table", [tmp_path]), tmp_path / "runs", labels, session)
    (run,) = imported.runs
    assert len(run.trials) == 3
    assert [refused.file for refused in imported.refused] == ["b.csv"]
    assert imported.refused[0].reason == "has 2 results; 3 are the most of an import: split it"
    assert verify(run).ok
    kept = {path.name.partition("-")[2] for path in (run.path / "imported").iterdir()}
    assert kept == {"a.csv", "c.csv"}
    monkeypatch.setattr(archives, "MOST_RESULTS", 1)
    with pytest.raises(LeadlineError, match="no file gave a result"):
        import_results(gather("table", [tmp_path / "a.csv"]), tmp_path / "more", labels, session)
