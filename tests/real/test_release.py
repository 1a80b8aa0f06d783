"""What `make release` makes: the same bytes everywhere, a complete SBOM, a wheel that is whole."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from leadline.audit.registry import RULES
from leadline.plan.loader import profile_names
from tests.conftest import RECORDED, ROOT

pytestmark = [pytest.mark.real, pytest.mark.thorough]
_COMMIT = {
    **{f"GIT_{who}_NAME": "test" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "test@example.org" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_DATE": "2026-11-01T12:34:57Z" for who in ("AUTHOR", "COMMITTER")},
}


def run(
    *arguments: object, cwd: Path, umask: int = 0o022, variables: Mapping[str, str] = {}
) -> str:
    words = list(map(str, arguments))
    known = os.environ | {"PATH": f"{os.environ['PATH']}:{ROOT / '.tools' / 'bin'}"}
    done = subprocess.run(
        words, cwd=cwd, env=known | dict(variables), umask=umask, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def tracked(folder: str) -> list[Path]:
    """The files of this checkout that git has, and that are still there."""
    names = run("git", "ls-files", "-z", folder, cwd=ROOT).split("\0")[:-1]
    return [ROOT / name for name in names if os.path.lexists(ROOT / name)]


def commit_copy(folder: Path, umask: int) -> None:
    """Commit the tracked files of this checkout, as they are now, in a repository of their own."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout: releases do NOT get tested here")
    folder.mkdir(parents=True)
    for source in tracked("."):
        place = folder / source.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, place, follow_symlinks=False)
        if not place.is_symlink():
            executable = source.stat().st_mode & 0o100
            place.chmod((0o777 if executable else 0o666) & ~umask)
    run("git", "init", "-q", cwd=folder)
    run("git", "add", "-A", "-f", cwd=folder)
    run("git", "commit", "-q", "-m", "release", cwd=folder, variables=_COMMIT)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a release of this checkout."""
    folder = tmp_path_factory.mktemp("release")
    commit_copy(folder / "checkout", 0o022)
    run("scripts/release.sh", folder / "dist", cwd=folder / "checkout")
    return folder / "dist"


def contents(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
    }


def test_the_same_commit_gives_the_same_bytes_elsewhere(release: Path, tmp_path: Path) -> None:
    other = tmp_path / "another" / "depth" / "leadline of a user"
    commit_copy(other, 0o077)
    for path in other.rglob("*"):
        if ".git" not in path.parts and not path.is_symlink():
            os.utime(path, (1_000_000_000, 1_000_000_000))
    host = ("unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh")
    run(
        *(host if os.geteuid() == 0 else ()),
        *("scripts/release.sh", tmp_path / "dist"),
        cwd=other,
        umask=0o077,
        variables={"TZ": "Asia/Tokyo", "LC_ALL": "C", "HOSTNAME": "elsewhere"},
    )
    assert contents(tmp_path / "dist") == contents(release)


def test_checksums_name_every_file(release: Path) -> None:
    found = contents(release)
    lines = (release / "SHA256SUMS").read_text().splitlines()
    del found["SHA256SUMS"]
    assert dict(line.split("  ")[::-1] for line in lines) == found
    assert {Path(name).suffix for name in found} == {".whl", ".gz", ".json"}


def test_uncommitted_changes_are_refused(release: Path, tmp_path: Path) -> None:
    checkout = release.parent / "checkout"
    readme = checkout / "README.md"
    committed = readme.read_bytes()
    readme.write_text("changed")
    done = subprocess.run(
        ["scripts/release.sh", tmp_path / "dist"], cwd=checkout, capture_output=True, text=True
    )
    readme.write_bytes(committed)
    assert done.returncode == 3
    assert "error[environment]: there are uncommitted changes\nhint:" in done.stderr
    assert list((tmp_path / "dist").iterdir()) == []


def bom_of(release: Path) -> dict[str, Any]:
    (file,) = release.glob("*.cdx.json")
    bom: dict[str, Any] = json.loads(file.read_text())
    return bom


def test_the_sbom_is_valid_cyclonedx(release: Path) -> None:
    bom = bom_of(release)
    validator = JsonStrictValidator(SchemaVersion.V1_5)
    assert validator.validate_str(json.dumps(bom)) is None
    del bom["components"][0]["name"]
    assert validator.validate_str(json.dumps(bom)) is not None, "the schema is enforced"


def locked() -> dict[tuple[str, str], set[str]]:
    """The checksums of every package that uv.lock has for Leadline at run time."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    found: dict[tuple[str, str], set[str]] = {}
    pending = [package for package in packages if package["name"] == "leadline"]
    while pending:
        for needed in pending.pop().get("dependencies", ()):
            for other in packages:
                key = other["name"], other["version"]
                if other["name"] == needed["name"] and key not in found:
                    files = [*other.get("wheels", ()), other.get("sdist")]
                    found[key] = {file["hash"] for file in files if file}
                    optional = other.get("optional-dependencies", {})
                    extras = [part for name in needed.get("extra", ()) for part in optional[name]]
                    pending += [other, {"dependencies": extras}]
    return found


def test_the_sbom_has_every_locked_package_with_checksums_and_licence(release: Path) -> None:
    bom = bom_of(release)
    hashes = {
        (entry["name"], entry["version"]): {
            f"sha256:{one['content']}"
            for reference in entry["externalReferences"]
            for one in reference["hashes"]
        }
        for entry in bom["components"]
    }
    assert hashes == locked()
    assert all(hashes.values())
    without = {entry["name"] for entry in bom["components"] if "licenses" not in entry}
    assert without <= {"httpx2-jsfetch"}, "of another platform, so not installed here"
    assert bom["metadata"]["component"]["licenses"] == [{"expression": "Apache-2.0"}]
    named = {entry["ref"] for entry in bom["dependencies"]}
    assert named >= {entry["bom-ref"] for entry in bom["components"]}


@pytest.fixture(scope="module")
def installed(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `leadline` command of a fresh environment made from the wheel alone."""
    venv = tmp_path_factory.mktemp("installed") / "venv"
    (wheel,) = release.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]
    needed = {f"leadline/audit/pages/{rule.code}.md" for rule in RULES}
    needed |= {f"leadline/data/profiles/{name}.yaml" for name in profile_names()}
    needed |= {str(path.relative_to(ROOT / "src")) for path in tracked("src")}
    assert needed - names == set()
    run("uv", "venv", "--quiet", venv, cwd=ROOT)
    requirements = venv / "requirements.txt"
    requirements.write_text(
        run("uv", "export", "--frozen", "-q", "--no-dev", "--no-emit-project", cwd=ROOT)
    )
    pip = ("uv", "pip", "install", "--quiet", "--python", venv / "bin" / "python")
    run(*pip, "--require-hashes", "-r", requirements, cwd=venv)
    run(*pip, "--no-deps", wheel, cwd=venv)
    return venv / "bin" / "leadline"


def test_the_installed_wheel_works_without_the_checkout(installed: Path, tmp_path: Path) -> None:
    def said(*arguments: object, accepted: Mapping[int, str] = {0: "", 1: "findings"}) -> str:
        done = subprocess.run(
            [installed, *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode in accepted, done.stderr
        return done.stdout

    assert "recommend" in said("--help")
    assert "## What to do" in said("explain", RULES[0].code)
    said(
        "run", "--target", f"dir:{tmp_path}", "--profile", "quick", "--runtime", "1s",
        "--ramp", "0", "--size", "8M", "--repeats", "1", "--no-prefill", "--quiet",
    )  # fmt: skip
    said("report", "-o", tmp_path / "page.html")
    assert "<svg" in (tmp_path / "page.html").read_text()
    said("verify", "@latest", accepted={0: ""})
    said("import", "fio", RECORDED / "randread-4k-qd1" / "fio.json", "--run", "imported")
    assert "randread" in said("show", "imported")
