"""What is installed from the wheel is whole: profiles, rule pages and templates come along."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from leadline.audit.registry import RULES
from leadline.plan.loader import profile_names
from tests.conftest import RECORDED, ROOT


def uv(*arguments: object) -> None:
    program = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `leadline` command of a fresh environment made from the wheel alone."""
    folder = tmp_path_factory.mktemp("wheel")
    uv("build", "--quiet", "--wheel", "--out-dir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]
    uv("venv", "--quiet", folder / "venv")
    uv("pip", "install", "--quiet", "--python", folder / "venv" / "bin" / "python", wheel)
    return folder / "venv" / "bin" / "leadline"


@pytest.mark.slow
def test_rule_pages_profiles_and_the_page_work_without_the_checkout(
    installed: Path, tmp_path: Path
) -> None:
    def said(*arguments: object) -> str:
        done = subprocess.run(
            [installed, *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    for rule in RULES:
        assert "## What to do" in said("explain", rule.code)
    for profile in profile_names():
        target = "zfs:tank" if profile == "zfs-stream" else "dir:/x"
        assert "trials" in said("check", "--target", target, "--profile", profile)
    said(
        "run", "--target", f"dir:{tmp_path}", "--profile", "quick", "--runtime", "2s",
        "--ramp", "0", "--size", "64M", "--no-prefill", "--replay", RECORDED,
    )  # fmt: skip
    said("report", "-o", tmp_path / "page.html")
    assert "<svg" in (tmp_path / "page.html").read_text()
