"""The watch of a pool, against programs that know all, little, nothing, or never answer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.archive import layout
from leadline.archive.trial import StoredTrial
from leadline.connect import programs as admin_programs
from leadline.formats.watch_records import MissedZfs, ZfsAnswer, first_and_last
from leadline.probes.watches import zfs
from leadline.probes.watches.zfs import ZfsWatch, read_answer
from tests.awaiting import BOUND_S, wait_for

BLOCK = """\
              capacity     operations     bandwidth
pool        alloc   free   read  write   read  write
----------  -----  -----  -----  -----  -----  -----
tank         1024   2048      0    438      0  65536
----------  -----  -----  -----  -----  -----  -----
"""
KNOWS_ALL = f"""
case "$*" in
*" 1") while :; do cat <<'END'
{BLOCK}
END
sleep 0.05; done;;
*) echo "answer to $*";;
esac
"""
KNOWS_LITTLE = f"""
case "$*" in
*-[lrwpqy]*) echo "invalid option 'r'" >&2; echo "usage: iostat" >&2; exit 2;;
*) {KNOWS_ALL.strip()};;
esac
"""
Program = Callable[[str], Path]


@pytest.fixture
def zpool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Put a `zpool` that is a shell script before all others; the trial's folder."""

    def write(script: str) -> Path:
        folder, programs = tmp_path / "trial", tmp_path / "bin"
        folder.mkdir()
        programs.mkdir()
        (programs / "zpool").write_text(f"#!/bin/sh\necho $$ >>{programs}/pids\n{script}\n")
        (programs / "zpool").chmod(0o755)
        (programs / "pids").touch()
        searched = os.pathsep.join((str(programs), os.environ["PATH"]))
        monkeypatch.setattr(admin_programs, "_SEARCHED", searched)
        monkeypatch.setattr(zfs, "_KSTATS", tmp_path / "kstat")
        # These programs answer at once, but where the machine is busy.
        answers(monkeypatch, BOUND_S)
        return folder

    return write


def answers(monkeypatch: pytest.MonkeyPatch, bound_s: float) -> None:
    """Have an answer waited for so long."""
    monkeypatch.setattr(zfs, "read_answer", lambda command: read_answer(command, bound_s))


def left(folder: Path) -> list[int]:
    pids = [int(word) for word in (folder.parent / "bin/pids").read_text().split()]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def printed(folder: Path, blocks: int) -> bool:
    """Whether `zpool iostat` has printed so many whole blocks."""
    text = folder / layout.ZPOOL_IOSTAT
    return text.exists() and text.read_text().count(BLOCK) >= blocks


def test_a_zfs_that_knows_all(zpool: Program, tmp_path: Path) -> None:
    folder = zpool(KNOWS_ALL)
    (tmp_path / "kstat/tank").mkdir(parents=True)
    (tmp_path / "kstat/arcstats").write_text("hits 4 7\n")
    (tmp_path / "kstat/tank/txgs").write_text("txg birth\n")
    with ZfsWatch("tank", folder):
        wait_for(lambda: printed(folder, 4))
    trial = StoredTrial(folder, None)
    asked = [item.asked for item in trial.zfs if isinstance(item, ZfsAnswer)]
    once = ["iostat -r -p", "iostat -w -p", "iostat -v -l -q -p", "kstat arcstats", "kstat txgs"]
    assert asked == once * 2
    both = first_and_last(trial.zfs, "tank", "iostat -r -p")
    assert both is not None
    assert both[0].text == "answer to iostat -r -p tank\n"
    assert both[1].elapsed_s > both[0].elapsed_s
    raw = (folder / layout.ZPOOL_IOSTAT).read_text()
    assert raw.startswith("# zpool iostat -v -l -q -p -y tank 1\n")
    report = trial.zpool_iostat
    assert report is not None
    assert report.intervals > 2
    assert (report.since_boot, report.interval_s) == (False, 1.0)
    wait_for(lambda: not left(folder))


def test_an_old_zfs_reports_what_it_does_not_know_and_is_asked_plainly(zpool: Program) -> None:
    folder = zpool(KNOWS_LITTLE)
    with ZfsWatch("tank", folder):
        wait_for(lambda: printed(folder, 2))
    trial = StoredTrial(folder, None)
    assert {item.reason for item in trial.zfs if isinstance(item, MissedZfs)} == {
        "status 2: invalid option 'r'"
    }
    assert len(trial.zfs) == 6
    assert (folder / layout.ZPOOL_IOSTAT).read_text().startswith("# zpool iostat -v tank 1\n")
    assert trial.zpool_iostat is not None
    assert trial.zpool_iostat.since_boot is True
    wait_for(lambda: not left(folder))


def test_a_pool_that_answers_nothing_does_not_hold_the_trial_up(
    zpool: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = zpool("trap '' TERM; exec sleep 600")
    answers(monkeypatch, 0.2)
    began = time.monotonic()
    with ZfsWatch("tank", folder):
        time.sleep(0.1)
    assert time.monotonic() - began < 60
    reported = StoredTrial(folder, None).zfs
    # One question at each end: nothing else would be answered either.
    assert [(item.asked, isinstance(item, MissedZfs)) for item in reported] == [
        ("iostat -r -p", True)
    ] * 2
    assert StoredTrial(folder, None).zpool_iostat is None
    wait_for(lambda: not left(folder))


def test_a_pool_that_answers_nothing_at_first_is_watched_from_then_on(
    zpool: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = zpool(f'case "$*" in *"-r -p tank") exec sleep 600;; esac\n{KNOWS_ALL}')
    answers(monkeypatch, 0.2)
    with ZfsWatch("tank", folder):
        wait_for(lambda: printed(folder, 4))
    assert StoredTrial(folder, None).zpool_iostat is not None
    wait_for(lambda: not left(folder))


def test_without_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_programs, "_SEARCHED", str(tmp_path))
    with ZfsWatch("tank", tmp_path):
        pass
    reported = StoredTrial(tmp_path, None).zfs
    assert all(isinstance(item, MissedZfs) for item in reported)
    assert any(isinstance(item, MissedZfs) and "no 'zpool'" in item.reason for item in reported)


def test_nothing_goes_on_printing_when_the_program_is_killed(zpool: Program) -> None:
    folder = zpool(KNOWS_ALL)
    script = (
        "import sys, time; from pathlib import Path\n"
        "from leadline.probes.watches import zfs as zfs_watch\n"
        "from leadline.connect import programs as admin_programs\n"
        "admin_programs._SEARCHED = sys.argv[2]\n"
        "zfs_watch.ZfsWatch('tank', Path(sys.argv[1])).start(); time.sleep(600)\n"
    )
    searched = os.pathsep.join((str(folder.parent / "bin"), os.environ["PATH"]))
    text = folder / layout.ZPOOL_IOSTAT
    with subprocess.Popen([sys.executable, "-c", script, folder, searched]) as program:
        wait_for(lambda: text.exists() and text.stat().st_size >= 1000)
        program.kill()
    wait_for(lambda: not left(folder))
