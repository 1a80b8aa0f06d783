"""What comes out where: widths, colours, encodings, and readers that go away."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.archive.runs import list_runs
from leadline.cli.main import main
from tests.cli.conftest import QUICK, Leadline
from tests.conftest import RECORDED, Said

COLOUR = re.compile(r"\x1b\[[0-9;]*\b(?:3[0-7]|9[0-7]|38;)[0-9;]*m")


@pytest.fixture(scope="module")
def runs_of_two_targets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two targets and three repeats, whose table has a target column."""
    folder = tmp_path_factory.mktemp("two-targets")
    targets = []
    for name in ("a", "b"):
        (folder / name).mkdir()
        targets += ["--target", f"pool-{name}=dir:{folder / name}"]
    given = (*QUICK, "--repeats", "3", "--replay", str(RECORDED), "--quiet")
    assert main(["run", *targets, *given, "--runs", str(folder / "runs")]) == 0
    return folder / "runs"


@pytest.fixture
def two_targets(
    leadline: Leadline, runs_of_two_targets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read the run of two targets, which no test changes."""
    monkeypatch.setenv("LEADLINE_RUNS", str(runs_of_two_targets))


def tables(text: str) -> list[list[str]]:
    """The lines of each table of results: its header and its rows."""
    found = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("target ", "workload ")) and " trials" in line:
            ends = (n for n, row in enumerate(lines[number:]) if not row)
            length = next(ends, len(lines) - number)
            found.append(lines[number : number + length])
    return found


# --- widths -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("two_targets")
@pytest.mark.parametrize("width", [80, 81, 83, 86, 90, 100, 132])
def test_no_header_is_cut_and_columns_stand_under_their_titles(
    leadline: Leadline, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    shown = leadline("show").out
    found = tables(shown)
    assert len(found) == 4
    known = {
        "target", "op", "IOPS", "MiB/s", "mean", "p50", "p99", "p99.9", "trials", "range",
        "findings",
    }  # fmt: skip
    for header, *rows in found:
        titles = header.split()
        assert set(titles) <= known, "a column is left out whole or is there whole"
        assert {"target", "op", "IOPS", "p99", "trials"} <= set(titles)
        if titles[-1] == "findings":
            column = header.index("findings")
            assert all(row[column - 1] == " " != row[column] for row in rows if len(row) > column)
        elif "range" in titles:
            ends = {len(row) for row in rows} | {len(header)}
            assert len(ends) == 1, "the last column ends where its title ends"


@pytest.mark.usefixtures("two_targets")
@pytest.mark.parametrize("width", [40, 60, 80, 100])
@pytest.mark.parametrize("verb", ["show", "audit"])
def test_lines_fit_and_have_no_spaces_behind(
    leadline: Leadline, monkeypatch: pytest.MonkeyPatch, width: int, verb: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for options in ([], ["--trials"]) if verb == "show" else ([],):
        lines = leadline(verb, *options).out.splitlines()
        assert max(map(len, lines)) <= width
        assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.usefixtures("two_targets")
def test_where_there_is_no_room_for_a_table_every_number_is_still_there(
    leadline: Leadline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def numbers(width: int) -> set[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        text = leadline("show").out
        return set(re.findall(r"[\d,.]+ (?:us|ms|%)|\d+,\d+", text.replace("\n   ", " ")))

    wide = numbers(200)
    assert len(wide) > 30
    assert wide <= numbers(40)


@pytest.mark.usefixtures("two_targets")
@pytest.mark.parametrize("columns", [None, "", "0", "many"])
def test_a_pipe_is_100_columns_wide(
    leadline: Leadline, monkeypatch: pytest.MonkeyPatch, columns: str | None
) -> None:
    if columns is None:
        monkeypatch.delenv("COLUMNS")
    else:
        monkeypatch.setenv("COLUMNS", columns)
    widest = max(map(len, leadline("show").out.splitlines()))
    assert 90 < widest <= 100


# --- colours ------------------------------------------------------------------------------------


def test_colour_only_where_it_is_wanted(
    quick: Callable[..., Said],
    leadline: Leadline,
    monkeypatch: pytest.MonkeyPatch,
    failing: Path,
) -> None:
    quick("--replay", failing)
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b" not in leadline("show").out, "a pipe"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")  # a dumb terminal has no colour to give
    assert COLOUR.search(leadline("show").out), "asked for"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not COLOUR.search(leadline("show").out), "NO_COLOR is honoured"
    assert "error" in leadline("show").out, "severity is a word and no colour"


# --- encodings and readers ----------------------------------------------------------------------


def shell(line: str, runs: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("LC_ALL", "LANG")
    }
    return subprocess.run(
        ["bash", "-c", line.replace("leadline ", f"{sys.executable} -m leadline ")],
        capture_output=True,
        timeout=60,
        env=environment | {"LEADLINE_RUNS": str(runs)} | variables,
    )


# Several calls in one process of the locale, each with its status behind its output.
CALLS = """
import sys
from leadline.cli.main import main, set_up_process

set_up_process()
for words in sys.argv[1:]:
    status = main(words.split())
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\\0%d\\0" % status)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
    ],
)
def test_data_is_utf_8_whatever_the_locale(
    leadline: Leadline,
    trusted_plan: Path,
    recorded: Path,
    tmp_path: Path,
    locale: dict[str, str],
) -> None:
    trusted_plan.write_text(
        trusted_plan.read_text("utf-8")
        .replace("[dir:", "[{name: 目標, target: 'dir:")
        .replace("target]", "target'}]"),
        "utf-8",
    )
    assert leadline("run", trusted_plan, "--replay", recorded, "--quiet").status == 0
    verbs = ("show --format json", "show --format csv", "list", "show", "check trusted.yaml")
    line = " ".join(shlex.quote(word) for word in (sys.executable, "-c", CALLS, *verbs))
    done = shell(f"cd {tmp_path}; {line}", tmp_path / "runs", **locale)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    *parts, rest = done.stdout.split(b"\0")
    assert (parts[1::2], rest) == ([b"0"] * len(verbs), b"")
    for verb, answer in zip(verbs, parts[::2], strict=True):
        if verb != "show":
            assert "目標" in answer.decode("utf-8")


@pytest.mark.parametrize("verb", ["show", "show --format json"])
def test_a_full_disk_behind_stdout_is_an_error_of_its_own(
    runs_of_two_targets: Path, verb: str
) -> None:
    done = shell(f"leadline {verb} >/dev/full", runs_of_two_targets)
    assert done.returncode == 2
    told = done.stderr.decode()
    assert told.startswith("error[output-unwritable]: the answer cannot be written: No space left")
    assert "Traceback" not in told


@pytest.mark.parametrize("verb", ["show", "show --format csv", "--help"])
def test_a_reader_that_goes_away_is_no_error(runs_of_two_targets: Path, verb: str) -> None:
    done = shell(f"set -o pipefail; leadline {verb} | true", runs_of_two_targets)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.thorough
def test_closed_streams_are_no_error(runs_of_two_targets: Path) -> None:
    assert shell("leadline show >&- 2>&-", runs_of_two_targets).returncode == 0
    (run,) = list_runs(runs_of_two_targets)
    done = shell(f"leadline verify {run.path} >&-", runs_of_two_targets)
    assert (done.returncode, done.stderr) == (0, b"")


# --- a terminal ---------------------------------------------------------------------------------


def test_on_a_terminal_there_is_a_live_table_that_vanishes(
    trusted_plan: Path, recorded: Path, tmp_path: Path
) -> None:
    """stderr is a terminal, stdout a pipe: the table is drawn, then taken away again."""
    mine, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "leadline", "run", trusted_plan, "--replay", recorded],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=os.environ
        | {"LEADLINE_RUNS": str(tmp_path / "runs"), "NO_COLOR": "1", "TERM": "xterm"},
    )
    os.close(theirs)
    drawn = b""
    while True:
        try:
            chunk = os.read(mine, 65536)
        except OSError:  # how Linux says that nobody holds the other end any more
            break
        if not chunk:
            break
        drawn += chunk
    os.close(mine)
    assert child.stdout is not None
    answer = child.stdout.read()
    child.stdout.close()
    assert child.wait(timeout=30) == 0
    assert b"\x1b" not in answer, "what is piped away gets no escape sequences"
    text = drawn.decode()
    for row in (
        "cell ",
        "trial  1 of 1, repeat 1",
        "now ",
        "left ",
        "of the trial, ",
        "of the run",
    ):
        assert row in text
    assert "20,148 IOPS" in text, "results stay"
    assert "\x1b[?25h" in text[text.rindex("\x1b[?25l") :], "the cursor is there again"
    assert "\x1b[2K" in text[text.rindex("of the run") :], "the table is wiped"
    assert not COLOUR.search(text)
