"""The krew manifest is made from an archive that was built, and the launcher finds Leadline."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from leadline import __version__
from tests.conftest import ROOT, unpack

KREW = ROOT / "deploy" / "krew"
URI = "https://downloads.example/kubectl-leadline.tar.gz"


def _rendered(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    where = ["--uri", URI, "--homepage", "https://leadline.example", "--to", str(folder)]
    return subprocess.run(
        [sys.executable, str(KREW / "render.py"), *where, *more],
        capture_output=True,
        text=True,
    )


@pytest.fixture
def release(tmp_path: Path) -> Path:
    folder = tmp_path / "release"
    done = _rendered(folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_manifest_has_the_checksum_of_the_archive_beside_it(release: Path) -> None:
    manifest = yaml.safe_load((release / "leadline.yaml").read_text("utf-8"))
    packed = (release / "kubectl-leadline.tar.gz").read_bytes()
    (platform,) = manifest["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(packed).hexdigest()
    assert platform["uri"] == URI
    assert manifest["spec"]["version"] == f"v{__version__}"
    assert "@" not in (release / "leadline.yaml").read_text("utf-8")


def test_who_builds_it_again_gets_the_same_bytes(release: Path, tmp_path: Path) -> None:
    _rendered(tmp_path / "again")
    for name in ("leadline.yaml", "kubectl-leadline.tar.gz"):
        assert (tmp_path / "again" / name).read_bytes() == (release / name).read_bytes()


def test_what_the_manifest_installs_is_in_the_archive(release: Path) -> None:
    manifest = yaml.safe_load((release / "leadline.yaml").read_text("utf-8"))
    with tarfile.open(release / "kubectl-leadline.tar.gz") as tar:
        modes = {entry.name: entry.mode for entry in tar}
    (platform,) = manifest["spec"]["platforms"]
    assert {one["from"] for one in platform["files"]} == set(modes)
    assert modes[platform["bin"]] & 0o111


def test_a_version_that_krew_would_refuse_is_refused(tmp_path: Path) -> None:
    done = _rendered(tmp_path, "--version", "1.0")
    assert done.returncode == 2
    assert "three numbers" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_place_of_the_template_that_nothing_fills_is_no_manifest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    render = _module()
    (tmp_path / "leadline.yaml").write_text("apiVersion: @NEW@\n")
    monkeypatch.setattr(render, "HERE", tmp_path)
    with pytest.raises(ValueError, match="@NEW@"):
        render.manifest("1.2.3", URI, "https://leadline.example", b"")


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render", KREW / "render.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestLauncher:
    """What it starts, told by stand-ins that print how they were called."""

    @pytest.fixture
    def launcher(self, release: Path, tmp_path: Path) -> Path:
        unpack(release / "kubectl-leadline.tar.gz", tmp_path / "krew")
        return tmp_path / "krew" / "kubectl-leadline"

    def _call(self, launcher: Path, *folders: Path, package: str = "") -> tuple[int, str, str]:
        tools = launcher.parent / "tools"
        tools.mkdir(exist_ok=True)
        for name in ("dirname", "readlink", "cat"):
            (tools / name).symlink_to(next(p for p in _found(name)))
        path = ":".join(map(str, (*folders, tools)))
        done = subprocess.run(
            ["/bin/sh", str(launcher), "run", "two words"],
            env={"PATH": path} | ({"LEADLINE_PACKAGE": package} if package else {}),
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout.strip(), done.stderr

    def _stand_in(self, folder: Path, name: str) -> Path:
        folder.mkdir(exist_ok=True)
        program = folder / name
        program.write_text(f'#!/bin/sh\necho {name} "$#" "$@"\n')
        program.chmod(0o755)
        return program

    def test_an_installed_leadline_behind_a_link(self, launcher: Path, tmp_path: Path) -> None:
        installed = self._stand_in(tmp_path / "venv", "leadline")
        self._stand_in(tmp_path / "venv", "kubectl-leadline")
        links = tmp_path / "links"
        links.mkdir()
        (links / "leadline").symlink_to(installed)
        self._stand_in(links, "uvx")
        assert self._call(launcher, links) == (0, "kubectl-leadline 2 run two words", "")

    def test_a_leadline_without_the_plugin_beside_it(self, launcher: Path, tmp_path: Path) -> None:
        self._stand_in(tmp_path / "bin", "leadline")
        assert self._call(launcher, tmp_path / "bin")[1] == "leadline 2 run two words"

    @pytest.mark.parametrize("tool", ["uvx", "pipx"])
    def test_else_a_tool_that_runs_the_package_that_the_user_names(
        self, launcher: Path, tmp_path: Path, tool: str
    ) -> None:
        self._stand_in(tmp_path / "bin", tool)
        wheel = "/wheels/leadline.whl"
        status, said, _ = self._call(launcher, tmp_path / "bin", package=wheel)
        assert status == 0
        assert said.startswith(f"{tool} ")
        assert said.endswith(f"{wheel} kubectl-leadline run two words")

    @pytest.mark.parametrize("tool", ["uvx", "pipx"])
    def test_no_tool_downloads_by_the_name_of_the_program(
        self, launcher: Path, tmp_path: Path, tool: str
    ) -> None:
        self._stand_in(tmp_path / "bin", tool)
        status, said, errors = self._call(launcher, tmp_path / "bin")
        assert (status, said) == (3, "")
        assert errors.startswith("error[environment]: ")
        assert "LEADLINE_PACKAGE" in errors
        assert f"leadline=={__version__}" in errors

    def test_a_release_names_its_wheel_with_its_checksum(self, tmp_path: Path) -> None:
        wheel = f"https://leadline.example/leadline.whl#sha256={'0a' * 32}"
        assert _rendered(tmp_path, "--package", wheel).returncode == 0
        with tarfile.open(tmp_path / "kubectl-leadline.tar.gz") as tar:
            file = tar.extractfile("kubectl-leadline")
            assert file is not None
            assert f"package=${{LEADLINE_PACKAGE:-{wheel}}}" in file.read().decode()
        for wrong in ("leadline", "https://leadline.example/leadline.whl"):
            assert _rendered(tmp_path, "--package", wrong).returncode == 2


def _found(name: str) -> list[Path]:
    folders = os.environ["PATH"].split(":")
    return [Path(one) / name for one in folders if (Path(one) / name).exists()]
