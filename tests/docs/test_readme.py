"""The commands of the README's one minute are run, in order, with the real fio."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.console import hold_against

pytestmark = pytest.mark.real
# What ends otherwise than with 0, and why.
PUBLISHED = "tests/recorded/imports/table/openebs-and-rook-fio.csv"
STATUS = {
    "run --resume @latest": 2,  # the run of the page is complete
    f"audit {PUBLISHED}": 1,  # whose numbers are refused
}


def commands() -> list[str]:
    """`leadline` command lines below "One minute", comments left off."""
    text = (ROOT / "README.md").read_text("utf-8").partition("## One minute")[2]
    lines = re.findall(r"^\$ uv run leadline (.*?)(?:\s+#.*)?$", text, re.MULTILINE)
    assert len(lines) >= 5
    return [str(line) for line in lines]


def test_the_section_on_pools_prints_what_it_shows(tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    section = (ROOT / "README.md").read_text("utf-8").partition("## Which pool")[2]
    page = tmp_path / "README.md"
    page.write_text(section.partition("\n## ")[0].replace("$ uv run leadline", "$ leadline"))
    hold_against(page, tmp_path, least=4)


@pytest.mark.slow
def test_every_command_does_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "pool").mkdir()
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    printed = ""
    refused = False
    for line in commands():
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
    minute = (ROOT / "README.md").read_text("utf-8").partition("## One minute")[2]
    shown = minute.partition("```text\n")[2].partition("```")[0]
    for row in re.findall(r"^(\S+) +(read|write|total) +[\d,]+", shown, re.MULTILINE):
        assert re.search(rf"^{row[0]} +{row[1]} +[\d,]+", printed, re.MULTILINE), row


@pytest.mark.slow
@pytest.mark.root
def test_the_lines_about_ceph_do_what_they_say(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: the README's lines about Ceph do NOT get tested")
    text = (ROOT / "README.md").read_text("utf-8").partition("And Ceph, yours")[2]
    text = text.partition("And Kubernetes")[0]
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
