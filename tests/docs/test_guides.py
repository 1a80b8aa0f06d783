"""The guides: their plans, commands and Python are run."""

from __future__ import annotations

import re
import shutil
import tarfile
import tempfile
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.console import hold_against

pytestmark = pytest.mark.slow

GUIDES = ROOT / "docs" / "guides"
STUDY = ROOT / "tests" / "recorded" / "imports" / "table" / "multizone-vs-singlezone.csv"
_FILE = re.compile(
    r"^`([\w./-]+)`:\n\n```(?:yaml|ini|python|csv)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
NEEDS_FIO = pytest.mark.skipif(
    not shutil.which("fio"), reason="no fio: the guides' commands do NOT get tested"
)


def _files(page: Path, folder: Path) -> list[str]:
    """Write the files that a page shows, each behind a line with its name; returns the names."""
    names = []
    for match in _FILE.finditer(page.read_text("utf-8")):
        path = folder / match[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(match[2])
        names.append(match[1])
    return names


@NEEDS_FIO
def test_write_a_plan(tmp_path: Path) -> None:
    page = GUIDES / "write-a-plan.md"
    assert _files(page, tmp_path) == ["plan.yaml", "jobs/mine.fio", "own.yaml", "faulty.yaml"]
    hold_against(page, tmp_path, least=5)


@NEEDS_FIO
@pytest.mark.real
def test_use_in_scripts(tmp_path: Path) -> None:
    page = GUIDES / "use-in-scripts.md"
    shutil.copy(STUDY, tmp_path / "study.csv")
    assert _files(page, tmp_path) == ["snippet.py", "judge.py"]
    hold_against(page, tmp_path, least=6)


def test_import_results(tmp_path: Path) -> None:
    published = ROOT / "tests" / "recorded" / "imports" / "table" / "openebs-and-rook-fio.csv"
    shutil.copy(published, tmp_path / "published.csv")
    with tarfile.open(ROOT / "tests" / "recorded" / "lab-study" / "study.tar.xz") as archive:
        archive.extractall(tmp_path / "study", filter="data")
    page = GUIDES / "import-results.md"
    assert _files(page, tmp_path) == ["lab-facts.yaml", "facts.yaml", "mine.csv", "pools.csv"]
    hold_against(page, tmp_path, least=12)


def test_nightly_gate(tmp_path: Path) -> None:
    page = GUIDES / "nightly-gate.md"
    assert _files(page, tmp_path) == ["policy.yaml", "monday.csv", "tuesday.csv", "again.csv"]
    hold_against(page, tmp_path, least=7)


def test_choose_a_pool(tmp_path: Path) -> None:
    shutil.copy(STUDY, tmp_path / "study.csv")
    page = GUIDES / "choose-a-pool.md"
    assert _files(page, tmp_path) == ["mail.yaml"]
    hold_against(page, tmp_path, least=6)


def test_compare_two_clusters(tmp_path: Path) -> None:
    shutil.copy(STUDY, tmp_path / "study.csv")
    page = GUIDES / "compare-two-clusters.md"
    assert _files(page, tmp_path) == ["cores.yaml"]
    hold_against(page, tmp_path, least=10)
    pictures = re.findall(r"\]\((study-charts/[^)]+)\)", (tmp_path / "study.md").read_text("utf-8"))
    assert pictures
    assert all((tmp_path / picture).exists() for picture in pictures)


@NEEDS_FIO
def test_find_the_knee(tmp_path: Path) -> None:
    page = GUIDES / "find-the-knee.md"
    assert _files(page, tmp_path) == ["sweep.yaml"]
    hold_against(page, tmp_path, least=1)


def test_load_from_several_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of a network of one's own do not lead to a machine of the same name."""
    nowhere = tmp_path / "ssh"
    nowhere.write_text("Host node*\n    HostName %h.invalid\n")
    monkeypatch.setenv("LEADLINE_SSH_CONFIG", str(nowhere))
    page = GUIDES / "load-from-several-hosts.md"
    assert _files(page, tmp_path) == ["hosts.yaml"]
    hold_against(page, tmp_path, least=3)


def test_measure_zfs(tmp_path: Path) -> None:
    """What needs no ZFS: the plans and what they would do."""
    page = GUIDES / "measure-zfs.md"
    assert _files(page, tmp_path) == ["zfs.yaml", "record-size.yaml", "same-image.yaml"]
    hold_against(page, tmp_path, least=2)


def test_compare_cores_and_replicas(tmp_path: Path) -> None:
    published = ROOT / "tests" / "recorded" / "imports" / "table" / "openebs-and-rook-fio.csv"
    shutil.copy(published, tmp_path / "published.csv")
    page = GUIDES / "compare-cores-and-replicas.md"
    assert _files(page, tmp_path) == ["engine.yaml"]
    hold_against(page, tmp_path, least=8)


@NEEDS_FIO
@pytest.mark.real
def test_guard_a_run(tmp_path: Path) -> None:
    page = GUIDES / "guard-a-run.md"
    assert _files(page, tmp_path) == ["guarded.yaml", "busy.yaml", "faulty.yaml"]
    hold_against(page, tmp_path, least=7)


@NEEDS_FIO
@pytest.mark.real
def test_database_workloads(tmp_path: Path) -> None:
    page = GUIDES / "database-workloads.md"
    # The user postgres must reach it, unlike pytest's own folder.
    folder = Path(tempfile.mkdtemp(prefix="leadline-guide-"))
    folder.chmod(0o755)
    try:
        assert _files(page, folder) == ["database.yaml"]
        hold_against(page, folder, least=5)
    finally:
        shutil.rmtree(folder)
