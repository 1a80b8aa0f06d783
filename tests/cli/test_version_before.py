"""Archives and pages that earlier versions made: they verify, and their numbers are unchanged.

Those of a later version of the format are refused by every verb, and nothing is written to them.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import leadline as python
from leadline.errors import LeadlineError
from tests.cli.conftest import Leadline, refused
from tests.cli.test_verify_page import with_answer
from tests.conftest import RECORDED

BEFORE = RECORDED.parent / "version-0.1"
FORMAT_1 = RECORDED.parent / "version-0.2"
RUN = "perf-20261121-095148"
RUN_OF_FORMAT_1 = "perf-20261123-133213-format-1"


@pytest.fixture(autouse=True)
def _a_later_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge pages as a later version does: its sentences may be others."""
    monkeypatch.setattr("leadline.report.page_check.__version__", "99")


@pytest.mark.parametrize(
    ("folder", "run"),
    [
        (BEFORE, RUN),
        (BEFORE, "study-single-zone"),
        (BEFORE, "study-multi-zone"),
        (FORMAT_1, RUN_OF_FORMAT_1),
        (FORMAT_1, "import-1"),
    ],
)
def test_an_archive_verifies(leadline: Leadline, folder: Path, run: str) -> None:
    said = leadline("verify", run, "--runs", folder)
    assert said.status == 0, said.out
    assert re.search(r"\d+ files, [1-9]\d* numbers checked\nok\n", said.out)


@pytest.mark.parametrize("folder", [BEFORE, FORMAT_1])
@pytest.mark.parametrize("page", ["run.html", "comparison.html"])
def test_a_page_verifies(leadline: Leadline, folder: Path, page: str) -> None:
    said = leadline("verify", folder / page, "--runs", folder)
    assert said.status == 0, said.out
    *_, numbers, verdict = said.out.splitlines()
    assert re.search(r": [1-9]\d{2,} numbers checked$", numbers)
    assert verdict == "ok"


def test_a_number_that_was_changed_by_hand_is_found(leadline: Leadline, tmp_path: Path) -> None:
    def change(answer: dict[str, object]) -> None:
        measurements = answer["measurements"]
        assert isinstance(measurements, list)
        measurements[0]["value"] += 1

    page = tmp_path / "run.html"
    shutil.copy(BEFORE / "run.html", page)
    page.write_text(with_answer(page.read_text("utf-8"), change), "utf-8")
    said = leadline("verify", page, "--runs", BEFORE)
    assert said.status == 1
    assert "measurements[0].value" in said.out


def contents(folder: Path) -> dict[str, str]:
    """The digest of every file below a folder, hidden ones included."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def later(tmp_path: Path) -> Callable[[str], Path]:
    """Make a folder of runs whose record of that name is of version 2 of its format."""

    def make(record: str) -> Path:
        runs = tmp_path / "runs"
        shutil.copytree(FORMAT_1, runs)
        (place,) = sorted(runs.glob(f"{RUN_OF_FORMAT_1}/{record}"))[:1]
        document = json.loads(place.read_text())
        name, _, number = document["schema"].rpartition("/")
        assert number == "1"
        # A field that this version does not know, and none that it does.
        place.write_text(json.dumps({"schema": f"{name}/2", "future": {}}))
        # An unsealed archive is what `run --resume` and `clean` write to.
        if record != "manifest.json":
            manifest = runs / RUN_OF_FORMAT_1 / "manifest.json"
            open_again = json.loads(manifest.read_text()) | {"status": "running", "files": {}}
            manifest.write_text(json.dumps(open_again | {"seal": ""}))
        return runs

    return make


RECORDS = ("manifest.json", "plan.json", "trials/t0003-*/trial.json")
VERBS = (
    ("show", "RUN"),
    ("verify", "RUN"),
    ("audit", "RUN"),
    ("rank", "RUN"),
    ("recommend", "RUN", "--for", "database"),
    ("compare", "a", "b", "--by", "target", "--run", "RUN"),
    ("compare", "RUN", "import-1"),
    ("scale", "RUN"),
    ("predict", "RUN"),
    ("layers", "RUN"),
    ("report", "RUN", "-o", "page.html"),
    ("run", "--resume", "RUN"),
    ("run", "--resume", "RUN", "--dry-run"),
    ("clean", "RUN"),
    ("scrub", "RUN"),
)


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: "-".join(verb[:2]))
def test_an_archive_of_a_later_format_is_refused_and_not_touched(
    leadline: Leadline,
    later: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    record: str,
    verb: tuple[str, ...],
) -> None:
    runs = later(record)
    monkeypatch.chdir(tmp_path)
    before = contents(tmp_path)
    words = [RUN_OF_FORMAT_1 if word == "RUN" else word for word in verb]
    error = refused(leadline(*words, "--runs", runs), 2, "archive-newer")
    assert "version 2, and this Leadline reads up to version 1" in error
    assert "hint: use the version of Leadline that wrote it" in error
    assert contents(tmp_path) == before


@pytest.mark.parametrize("record", RECORDS)
def test_verbs_of_many_runs_go_on_without_it(
    leadline: Leadline, later: Callable[[str], Path], record: str
) -> None:
    runs = later(record)
    before = contents(runs)
    listed = json.loads(leadline("list", "--runs", runs, "--format", "json").out)
    assert {run["run"]: run["status"] for run in listed["runs"]} == {
        "import-1": "complete",
        RUN_OF_FORMAT_1: "newer",
    }
    cleaned = leadline("clean", "--runs", runs)
    assert (cleaned.status, cleaned.out) == (2, "nothing was left behind\n")
    assert cleaned.err.startswith("error[archive-newer]: ")
    assert contents(runs) == before


def test_the_python_interface_refuses_it(later: Callable[[str], Path]) -> None:
    with pytest.raises(LeadlineError, match="reads up to version 1"):
        python.open_run(later("manifest.json") / RUN_OF_FORMAT_1)


@pytest.mark.parametrize("page", ["run.html", "comparison.html"])
def test_a_page_of_a_later_format_is_refused(leadline: Leadline, tmp_path: Path, page: str) -> None:
    def change(answer: dict[str, object]) -> None:
        answer["schema"] = re.sub(r"/1$", "/2", str(answer["schema"]))
        answer["future"] = {}

    changed = tmp_path / page
    changed.write_text(with_answer((FORMAT_1 / page).read_text("utf-8"), change), "utf-8")
    error = refused(leadline("verify", changed, "--runs", FORMAT_1), 2, "archive-newer")
    assert page in error
