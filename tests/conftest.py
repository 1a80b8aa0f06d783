"""What all tests share: where recorded output lies, and a way to run the command line."""

from __future__ import annotations

import gc
import os
import tarfile
import threading
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from leadline.cli.main import main
from leadline.plan.loader import RUNNER_IMAGE_VARIABLE
from tests.forked import shared_program

# Plans of tests name no image; nothing is pulled. tests/kubernetes names its own.
IMAGE = "registry.example/runner:1"
os.environ[RUNNER_IMAGE_VARIABLE] = IMAGE

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "tests" / "recorded" / "quick"
SHARED = ROOT.parent / "shared"

# The machine is shared and noisy: a slow example is no failure. The same examples on every machine:
# what CI says of a change is then about the change. `make test-deep` seeks new ones.
settings.register_profile("leadline", deadline=None, max_examples=20, derandomize=True)
settings.register_profile("seeking", deadline=None, max_examples=2000)
settings.load_profile("leadline")


def every(step: int, cases: Iterable[Any]) -> list[Any]:
    """Cases of a thorough test: each `step`-th is in `make test-thorough`, all in `make test-deep`.
    A tuple has the values of several arguments."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[pytest.mark.deep] if number % step else [],
        )
        for number, case in enumerate(cases)
    ]


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a recorded archive. Debian 12's Python has no filters of tarfile."""
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)


def pytest_collection() -> None:
    """Do not search what is imported and collected for garbage again and again: it stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of every later search for garbage."""
    gc.collect()
    gc.freeze()
    gc.enable()


# What these write has to be on the disk, as what a user writes has.
_ON_DISK = ("tests/real/", "tests/kubernetes/", "tests/guest/")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Do not wait for the disk, to which an archive is flushed many times.

    That everything is flushed in time is shown with real processes: tests/real/test_power_cut.py.
    """
    if item.nodeid.startswith(_ON_DISK):
        return (yield)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda handle: None)
        return (yield)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Names cases of bytes by their argument and number, `content3`, not by what is in them.

    Packed bytes bear the second in which they were packed: two workers of pytest-xdist that
    collect across a second would name one test in two ways, and none would run.
    """
    return argname if isinstance(val, bytes) else None


# Files of long tests that share nothing but the session's lab or cluster, except within a class:
# any worker may take any of them.
_APART = (
    "tests/docs/test_guides.py",
    "tests/docs/test_readme.py",
    "tests/kubernetes/test_failures.py",
    "tests/kubernetes/test_interrupt.py",
    "tests/kubernetes/test_matrix.py",
    "tests/kubernetes/test_pod_security.py",
    "tests/kubernetes/test_restricted_user.py",
    "tests/kubernetes/test_virtual_machines.py",
    "tests/real/test_ceph_failures.py",
    "tests/real/test_ceph_targets.py",
    "tests/real/test_fleet.py",
    "tests/real/test_lab.py",
    "tests/real/test_run.py",
)


def _part(nodeid: str) -> str:
    """The part of a suite that one worker runs, by the name of a test."""
    file = nodeid.partition("::")[0]
    # A machine has one daemon of zfs-fuse.
    if file.startswith("tests/real/test_zfs"):
        return "zfs"
    # They share a browser and a page of each kind.
    if file.startswith("tests/browser/"):
        return "browser"
    if file not in _APART:
        return file
    name = nodeid.partition("::")[2].partition("[")[0]
    return f"{file}::{name.partition('::')[0]}" if "::" in name else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """`--dist loadfile`, with smaller and larger parts than files."""
    if config.getvalue("dist") != "loadfile":
        return None
    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = _part
    return scheduler


@pytest.fixture
def use_cores(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the number of cores of this process. Other tests in it may have left threads, which
    forbid workers."""

    def use(count: int) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(count)))
        monkeypatch.setattr(threading, "active_count", lambda: 1)

    return use


@dataclass(frozen=True, slots=True)
class Said:
    """What a call of the command line ended with."""

    status: int
    out: str
    err: str


@pytest.fixture
def leadline(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Said]:
    """Run `leadline ARGS` in this process, with its runs below tmp_path/runs."""
    monkeypatch.setenv("LEADLINE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: object) -> Said:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Said(status, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def forked_leadline() -> Path:
    """The program `leadline`, whose calls need no start of an interpreter."""
    return shared_program()


@pytest.fixture
def recorded() -> Path:
    """Recorded output of the `quick` profile with --runtime 2s --ramp 0 --size 64M."""
    return RECORDED


@pytest.fixture
def shared() -> Path:
    """../shared, or a loud skip."""
    if not SHARED.is_dir():
        pytest.skip("../shared is absent: the corpus tests do NOT run here")
    return SHARED
