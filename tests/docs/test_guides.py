"""The guides: their plans, commands and Python are run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, unpack
from tests.docs import console
from tests.docs.console import hold_against

pytestmark = pytest.mark.slow

GUIDES = ROOT / "docs" / "guides"
STUDY = ROOT / "tests" / "recorded" / "imports" / "table" / "multizone-vs-singlezone.csv"
_FILE = re.compile(
    r"^`([\w./-]+)`:\n\n```(?:yaml|ini|python|csv|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
NEEDS_FIO = pytest.mark.skipif(
    not shutil.which("fio"), reason="no fio: the guides' commands do NOT get tested"
)


@pytest.fixture(autouse=True)
def _no_starts(forked_leadline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tutorial and the README call the program as it is installed."""
    monkeypatch.setattr(console, "PROGRAMS", (forked_leadline.parent, *console.PROGRAMS))


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
    unpack(ROOT / "tests" / "recorded" / "lab-study" / "study.tar.xz", tmp_path / "study")
    page = GUIDES / "import-results.md"
    assert _files(page, tmp_path) == ["lab-facts.yaml", "facts.yaml", "mine.csv", "pools.csv"]
    hold_against(page, tmp_path, least=12)


def test_nightly_gate(tmp_path: Path) -> None:
    page = GUIDES / "nightly-gate.md"
    files = ["policy.yaml", "monday.csv", "tuesday.csv", "again.csv", "nightly.yaml", "nightly.sh"]
    assert _files(page, tmp_path) == files
    hold_against(page, tmp_path, least=7)


@pytest.fixture
def memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@NEEDS_FIO
@pytest.mark.real
def test_a_nightly_job(tmp_path: Path, memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of both job files, with real fio and trials of a second: a night like the release,
    in memory, and one on a disk, whose every write takes many times as long."""
    page = GUIDES / "nightly-gate.md"
    _files(page, tmp_path)
    jobs = re.findall(
        r"`\.git[\w./-]*`:\n\n```yaml\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S
    )
    github, gitlab = map(yaml.safe_load, jobs)
    plan = yaml.safe_load((tmp_path / "nightly.yaml").read_text())
    del plan["profile"]
    plan["repeats"] = 4
    sync = {"pattern": "write", "block_size": "4k", "fsync": 1, "direct": False, "size": "16M"}
    # psync: io_uring gives each fsync to a thread of the kernel, which costs more than memory does.
    sync["engine"] = "psync"
    plan["workloads"] = [{"name": "log", "runtime": "1s", "ramp": "0s", **sync}]

    def store(place: Path) -> None:
        for target in plan["targets"]:
            folder = place / target["name"]
            folder.mkdir()
            target["target"] = f"dir:{folder}"
        (tmp_path / "nightly.yaml").write_text(yaml.safe_dump(plan))

    # Between the two: with much other work on the machine a rate in memory falls by 60 %, and the
    # disk has less than 5 % of it.
    policy = {"between_runs": "15%", "confirm": True, "rules": [{"limit": "write iops < -85%"}]}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("LEADLINE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    path = [*map(str, console.PROGRAMS), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(path))

    def shell(command: str) -> tuple[int, str]:
        done = subprocess.run(["bash", "-ec", command], cwd=tmp_path, stdout=subprocess.PIPE)
        return done.returncode, done.stdout.decode()

    store(memory)
    assert shell("leadline run nightly.yaml --quiet --name release")[0] in (0, 1)
    measure, history, _ = (
        step
        for step in github["jobs"]["nightly"]["steps"]
        if step.get("uses") != "actions/checkout@v4"
    )
    status, said = shell(measure["run"])
    assert (status, "::error" in said) == (0, False), said
    store(tmp_path)
    status, said = shell(gitlab["storage"]["script"][0])
    told = json.loads((tmp_path / "gl-code-quality-report.json").read_text())
    assert status == 1, told
    assert {issue["severity"] for issue in told} == {"major"}
    # The release, a good night, a bad one and its confirmation.
    assert len(list((tmp_path / "runs").glob("perf-*"))) == 4
    assert shell(history["run"])[0] == 0
    assert shell(gitlab["storage"]["after_script"][0])[0] == 0
    assert "rep3" in summary.read_text()
    assert (tmp_path / "history.html").stat().st_size > 10_000


def test_follow_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    page = GUIDES / "follow-a-cluster.md"
    assert _files(page, tmp_path) == ["nights.py"]
    hold_against(page, tmp_path, least=8)


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


def test_predict_a_change(tmp_path: Path) -> None:
    page = GUIDES / "predict-a-change.md"
    assert _files(page, tmp_path) == ["curve.csv"]
    hold_against(page, tmp_path, least=2)


def test_load_from_several_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of a network of one's own do not lead to a machine of the same name."""
    nowhere = tmp_path / "ssh"
    nowhere.write_text("Host node*\n    HostName %h.invalid\n")
    monkeypatch.setenv("LEADLINE_SSH_CONFIG", str(nowhere))
    page = GUIDES / "load-from-several-hosts.md"
    assert _files(page, tmp_path) == ["hosts.yaml", "image.yaml"]
    hold_against(page, tmp_path, least=4)


def test_measure_zfs(tmp_path: Path) -> None:
    """What needs no ZFS: the plans and what they would do."""
    page = GUIDES / "measure-zfs.md"
    names = [
        *("dataset-or-volume.yaml", "zfs.yaml", "parallel-streams.yaml", "replicate.yaml"),
        *("record-size.yaml", "same-image.yaml", "slog.yaml"),
    ]
    assert _files(page, tmp_path) == names
    hold_against(page, tmp_path, least=7)


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
def test_try_settings(tmp_path: Path) -> None:
    page = GUIDES / "try-settings.md"
    assert _files(page, tmp_path) == ["settings.yaml"]
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
