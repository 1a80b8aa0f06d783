"""Run the commands of the README and of docs/tutorial/tour.md, with the real fio."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.console import hold_against

pytestmark = pytest.mark.real
README = ROOT / "README.md"
TOUR = ROOT / "docs" / "tutorial" / "tour.md"
MAXIMUM_LINES = 120
PUBLISHED = "tests/recorded/imports/table/openebs-and-rook-fio.csv"
# Commands with an exit status other than 0, and the reason.
STATUS = {
    "run --resume @latest": 2,  # the run of the page is complete
    f"audit {PUBLISHED}": 1,  # the audit refuses numbers of this table
}


def commands(text: str) -> list[str]:
    """Return the arguments of each `$ uv run leadline` line, without comments."""
    lines = re.findall(r"^\$ uv run leadline (.*?)(?:\s+#.*)?$", text, re.MULTILINE)
    return [str(line) for line in lines]


def test_the_readme_is_short_and_has_its_picture() -> None:
    text = README.read_text("utf-8")
    assert len(text.splitlines()) <= MAXIMUM_LINES
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert pictures
    for picture in pictures:
        assert (ROOT / picture).read_bytes().startswith(b"\x89PNG")
        assert (ROOT / picture).stat().st_size < 300_000


def test_a_shell_of_the_user_finds_uv_after_make_setup() -> None:
    # `make` has a PATH of its own, with the folder of the checkout in which setup installs uv.
    path = os.environ.get("LEADLINE_USER_PATH", os.environ["PATH"])
    if os.geteuid() == 0:
        assert shutil.which("uv", path=path)
    else:
        assert shutil.which("uv", path=f"{path}:{Path.home()}/.local/bin")


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    lines = commands(README.read_text("utf-8"))
    assert [line.split()[0] for line in lines] == ["import", "compare", "recommend", "audit"]
    for line in lines:
        done = subprocess.run(
            [sys.executable, "-m", "leadline", *shlex.split(line)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=os.environ | {"NO_COLOR": "1", "COLUMNS": "100"},
        )
        assert done.returncode == STATUS.get(line, 0), f"{line}: {done.stderr}"


@pytest.mark.slow
def test_the_section_on_pools_prints_what_it_shows(tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    section = TOUR.read_text("utf-8").partition("## Which pool")[2]
    page = tmp_path / "tour.md"
    page.write_text(section.partition("\n## ")[0].replace("$ uv run leadline", "$ leadline"))
    hold_against(page, tmp_path, least=4)


@pytest.mark.slow
def test_every_command_does_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "pool").mkdir()
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    printed = ""
    refused = False
    lines = commands(TOUR.read_text("utf-8").partition("## One minute")[2])
    assert len(lines) >= 5
    for line in lines:
        # The page's three seconds are for people; one is enough to see that it works.
        call = line.replace("/mnt/pool", str(tmp_path / "pool")).replace("3s", "1s")
        done = subprocess.run(
            [sys.executable, "-m", "leadline", *shlex.split(call)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=os.environ | {"NO_COLOR": "1", "COLUMNS": "100"},
        )
        # 1 would say that the audit refuses a number, which a busy machine may deserve.
        expected = {STATUS.get(line, 0)}
        if line.startswith("run --target"):
            expected |= {1}
        elif refused and line.startswith("rank "):
            expected |= {6}  # nothing is ranked by numbers that are refused
        assert done.returncode in expected, f"{line}: {done.stderr}"
        refused |= line.startswith("run --target") and done.returncode == 1
        printed += done.stdout
    assert (tmp_path / "result.html").stat().st_size > 10_000
    assert list((tmp_path / "pool").iterdir()) == []
    minute = TOUR.read_text("utf-8").partition("## One minute")[2]
    shown = minute.partition("```text\n")[2].partition("```")[0]
    for row in re.findall(r"^(\S+) +(read|write|total) +[\d,]+", shown, re.MULTILINE):
        assert re.search(rf"^{row[0]} +{row[1]} +[\d,]+", printed, re.MULTILINE), row


@pytest.mark.slow
@pytest.mark.root
def test_the_lines_about_ceph_do_what_they_say(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: the lines of the tour about Ceph do NOT get tested")
    text = TOUR.read_text("utf-8").partition("## Ceph")[2]
    text = text.partition("## Kubernetes")[0]
    lines = re.findall(r"^uv run leadline (.*?)(?:\s+#.*)?$", text, re.MULTILINE)
    assert [line.split()[0] for line in lines] == ["lab", "inventory", "run", "lab"]
    with tempfile.TemporaryDirectory(prefix="ll-readme-") as labs:
        for line in lines:
            short = ["--runtime", "1s", "--ramp", "0", "--size", "16M", "--repeats", "1"]
            call = [*shlex.split(line), *(short if line.startswith("run") else [])]
            done = subprocess.run(
                [sys.executable, "-m", "leadline", *call],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                env=os.environ | {"NO_COLOR": "1", "LEADLINE_LABS": labs},
            )
            assert done.returncode in ((0, 1) if line.startswith("run") else (0,)), done.stderr
        assert not list(Path(labs).iterdir())
