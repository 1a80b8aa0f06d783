"""What scripts/test-real.sh makes of tests that fail: each case is a real run of pytest."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

SCRIPT = ROOT / "scripts" / "test-real.sh"

TESTS = """\
from pathlib import Path
import pytest

pytestmark = pytest.mark.thorough

LEFT = Path({left!r})

@pytest.mark.parametrize("number", {numbers})
def test_fails_at_first(number: int) -> None:
    mine = LEFT / str(number)
    times = int(mine.read_text()) if mine.exists() else 0
    mine.write_text(str(times + 1))
    assert times >= {times}, "the machine was busy"

def test_passes() -> None:
    (LEFT / "passing").open("a").write("x")
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """What the script ended with, and how often each test was run."""

    status: int
    out: str
    runs: dict[str, int]


def ended(folder: Path, *, failing: int, times: int, files: int = 1) -> Ended:
    """The script over files with `failing` tests each, which fail in their first `times` runs."""
    for number in range(files):
        numbers = list(range(number * failing, (number + 1) * failing))
        text = TESTS.format(left=str(folder), numbers=numbers, times=times)
        (folder / f"test_it_{number}.py").write_text(text)
    done = subprocess.run([SCRIPT, "--rootdir", folder, folder], capture_output=True, text=True)
    counts = {file.name: int(file.read_text()) for file in folder.glob("[0-9]")}
    passing = folder / "passing"
    counts["passing"] = len(passing.read_text()) if passing.exists() else 0
    return Ended(done.returncode, done.stdout, counts)


def test_what_passes_is_run_once(tmp_path: Path) -> None:
    passed = ended(tmp_path, failing=0, times=0)
    assert passed.status == 0
    assert passed.runs == {"passing": 1}
    assert "SECOND CHANCE" not in passed.out


def test_what_passes_when_run_again_is_printed_with_its_failure_and_named(tmp_path: Path) -> None:
    unsteady = ended(tmp_path, failing=2, times=1)
    assert unsteady.status == 0
    assert unsteady.runs == {"0": 2, "1": 2, "passing": 1}
    assert "the machine was busy" in unsteady.out
    _, named = unsteady.out.split("FAILED ONCE, PASSED WHEN RUN AGAIN")
    assert "test_fails_at_first[0]" in named
    assert "test_fails_at_first[1]" in named


def test_what_fails_twice_has_failed(tmp_path: Path) -> None:
    failed = ended(tmp_path, failing=1, times=2)
    assert failed.status == 1
    assert failed.runs == {"0": 2, "passing": 1}
    assert "FAILED ONCE" not in failed.out


def test_failures_of_one_file_may_have_one_cause(tmp_path: Path) -> None:
    assert ended(tmp_path, failing=4, times=1).status == 0


def test_failures_of_many_files_are_no_chance(tmp_path: Path) -> None:
    broken = ended(tmp_path, failing=1, times=1, files=4)
    assert broken.status == 1
    assert broken.runs == {"0": 1, "1": 1, "2": 1, "3": 1, "passing": 4}


def test_nothing_to_run_is_no_pass(tmp_path: Path) -> None:
    assert subprocess.run([SCRIPT, "--rootdir", tmp_path, tmp_path]).returncode == 5
