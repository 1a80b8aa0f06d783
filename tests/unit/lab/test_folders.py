"""Labs by name, their state files, and what is left of them, without any cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadline import errors
from leadline.errors import LeadlineError
from leadline.lab import processes
from leadline.lab.cluster import Condition, probe_lab, survey
from leadline.lab.conf import SOCKET_PATH_BYTES
from leadline.lab.daemons import failed, last_lines, require
from leadline.lab.down import mark_memory, take_down
from leadline.lab.state import (
    MEMORY,
    STATE,
    LabState,
    Phase,
    ProcessRecord,
    lab_access,
    lab_folder,
    labs_folder,
    paths_of,
    read_state,
    write_state,
)
from leadline.plan.lab import LabDescription, Store

DEAD = ProcessRecord(name="leadline", pid=2**22 - 1, start_ticks=1)


def a_state(name: str, phase: Phase = Phase.UP, owner: ProcessRecord = DEAD) -> LabState:
    return LabState(
        name=name,
        token=f"token-{name}",
        phase=phase,
        created_at="2026-11-21T00:00:00+00:00",
        owner=owner,
        description=LabDescription(),
    )


def a_lab(labs: Path, name: str, phase: Phase = Phase.UP, owner: ProcessRecord = DEAD) -> Path:
    folder = labs / name
    folder.mkdir(parents=True)
    write_state(folder, a_state(name, phase, owner))
    return folder


def raises(kind: errors.ErrorKind, call: Callable[[], object]) -> LeadlineError:
    with pytest.raises(LeadlineError) as caught:
        call()
    assert caught.value.kind is kind
    return caught.value


@pytest.fixture
def sleeper() -> Iterator[Callable[[Path, str], int]]:
    """Start a process that says it is of a lab; it is gone afterwards."""
    pids: list[int] = []

    def call(folder: Path, token: str) -> int:
        folder.mkdir(exist_ok=True)
        pid = processes.start(
            [sys.executable, "-c", "import time; time.sleep(60)"],
            folder=folder,
            output=folder / "out",
            environment=processes.environment(folder, token),
        )
        pids.append(pid)
        deadline = time.monotonic() + 60
        while pid not in {item.pid for item in processes.find(folder, token)}:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return pid

    yield call
    for pid in pids:
        if processes.exit_status(pid) is None:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


def test_where_labs_lie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEADLINE_LABS", "/srv/labs")
    assert labs_folder(None) == Path("/srv/labs")
    assert labs_folder(tmp_path) == tmp_path
    monkeypatch.delenv("LEADLINE_LABS")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert labs_folder(None) == tmp_path / "leadline" / "labs"
    monkeypatch.setenv("XDG_STATE_HOME", "")
    monkeypatch.setenv("HOME", "/home/x")
    assert labs_folder(None) == Path("/home/x/.local/state/leadline/labs")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-x", "a b", "x" * 41, "a\n"])
def test_names_that_no_lab_can_have(name: str, tmp_path: Path) -> None:
    raises(errors.LAB_INVALID, lambda: lab_folder(name, tmp_path))


def test_a_folder_too_long_for_sockets_is_refused_and_the_longest_is_not() -> None:
    longest = SOCKET_PATH_BYTES - len("/run/osd.47.asok")
    fitting = Path("/" + "x" * (longest - len("//ab")))
    assert lab_folder("ab", fitting) == fitting / "ab"
    error = raises(errors.LAB_INVALID, lambda: lab_folder("abc", fitting))
    assert "1 bytes too long" in error.fact


def test_a_folder_that_ceph_conf_cannot_hold_is_refused(tmp_path: Path) -> None:
    raises(errors.LAB_INVALID, lambda: lab_folder("x", tmp_path / "my labs"))


def test_a_state_is_read_as_written_and_replaced_whole(tmp_path: Path) -> None:
    folder = a_lab(tmp_path, "one")
    assert read_state(folder) == a_state("one")
    write_state(folder, a_state("one", Phase.GOING_DOWN))
    assert read_state(folder) == a_state("one", Phase.GOING_DOWN)
    assert [entry.name for entry in folder.iterdir()] == [STATE]
    assert read_state(tmp_path) is None


def test_ways_to_labs_that_are_not_there_or_not_up(tmp_path: Path) -> None:
    a_lab(tmp_path, "study")
    a_lab(tmp_path, "half", Phase.COMING_UP)
    assert lab_access("study", tmp_path).conf == tmp_path / "study" / "ceph.conf"
    error = raises(errors.LAB_NOT_FOUND, lambda: lab_access("studdy", tmp_path))
    assert error.hint == "did you mean 'study'?"
    raises(errors.LAB_NOT_READY, lambda: lab_access("half", tmp_path))
    (tmp_path / "study" / STATE).write_text("{")
    raises(errors.LAB_NOT_READY, lambda: lab_access("study", tmp_path))


def test_every_condition_is_reported(tmp_path: Path, sleeper: Callable[[Path, str], int]) -> None:
    own = processes.start_ticks(os.getpid())
    assert own is not None
    me = ProcessRecord(name="leadline", pid=os.getpid(), start_ticks=own)
    a_lab(tmp_path, "a-up")
    a_lab(tmp_path, "b-coming", Phase.COMING_UP, me)
    a_lab(tmp_path, "c-half", Phase.COMING_UP)
    a_lab(tmp_path, "d-down", Phase.GOING_DOWN)
    broken = a_lab(tmp_path, "e-broken")
    write_state(broken, a_state("e-broken").model_copy(update={"processes": (DEAD,)}))
    (a_lab(tmp_path, "f-damaged") / STATE).write_text("{}")
    (tmp_path / "g-remnant").mkdir()
    (tmp_path / "h-foreign").mkdir()
    (tmp_path / "h-foreign" / "precious").write_text("")
    sleeper(tmp_path / "i-orphan", "some-token")
    found = {item.name: item.condition for item in survey(tmp_path)}
    assert found == {
        "a-up": Condition.UP,
        "b-coming": Condition.COMING_UP,
        "c-half": Condition.HALF_UP,
        "d-down": Condition.HALF_DOWN,
        "e-broken": Condition.BROKEN,
        "f-damaged": Condition.DAMAGED,
        "g-remnant": Condition.HALF_UP,
        "i-orphan": Condition.ORPHAN,
    }
    assert probe_lab(broken).dead == ("leadline",)


def test_down_removes_what_is_a_labs_and_nothing_else(
    tmp_path: Path, sleeper: Callable[[Path, str], int]
) -> None:
    folder = a_lab(tmp_path, "one")
    memory = paths_of(folder, "token-one").memory
    memory.mkdir()
    (memory / "osd.0").write_text("x")
    (folder / "log").mkdir()
    (folder / "log" / "x").write_text("x")
    ours = sleeper(folder, "token-one")
    other = sleeper(tmp_path / "two", "token-two")
    assert take_down(folder)
    assert processes.start_ticks(ours) is None
    assert processes.start_ticks(other) is not None
    assert not folder.exists()
    assert not memory.exists()
    assert not take_down(folder)


def test_down_keeps_its_hands_off_a_folder_that_is_no_labs(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "precious").write_text("x")
    assert not take_down(folder)
    assert (folder / "precious").exists()


def test_down_of_another_lab_at_the_same_place_does_nothing(tmp_path: Path) -> None:
    folder = a_lab(tmp_path, "one")
    assert not take_down(folder, "an older token")
    assert folder.exists()


def test_down_by_a_token_keeps_a_lab_whose_state_is_damaged(
    tmp_path: Path, sleeper: Callable[[Path, str], int]
) -> None:
    """A token of an archive proves nothing where the state cannot."""
    damaged = a_lab(tmp_path, "damaged")
    (damaged / STATE).write_text("{")
    pid = sleeper(damaged, "0123456789abcdef")
    error = raises(errors.LEFT_BEHIND, lambda: take_down(damaged, "0123456789abcdef"))
    assert "may be another one" in error.fact
    assert error.hint == "`leadline lab down damaged` removes it, whichever it is"
    assert (damaged / STATE).read_text() == "{"
    assert processes.start_ticks(pid) is not None


def test_down_by_the_token_of_another_lab_keeps_its_memory(tmp_path: Path) -> None:
    other = a_lab(tmp_path, "other")
    memory = MEMORY / f"leadline-lab-{os.getpid():016x}"
    try:
        mark_memory(memory, other)
        (memory / "osd.0").touch()
        for folder in (tmp_path / "gone", a_lab(tmp_path, "own")):
            assert not take_down(folder, f"{os.getpid():016x}")
        assert (memory / "osd.0").exists()
        # Whose it is that has no mark, nobody knows, unless there is nothing in it.
        (memory / "lab").unlink()
        assert not take_down(tmp_path / "gone", f"{os.getpid():016x}")
        assert (memory / "osd.0").exists()
        (memory / "osd.0").unlink()
        (memory / "lab").write_text(str(tmp_path / "gone")[:9])
        assert take_down(tmp_path / "gone", f"{os.getpid():016x}")
        assert not memory.exists()
    finally:
        shutil.rmtree(memory, ignore_errors=True)


def test_down_removes_what_is_damaged_or_an_orphan(
    tmp_path: Path, sleeper: Callable[[Path, str], int]
) -> None:
    damaged = a_lab(tmp_path, "damaged")
    (damaged / STATE).write_text("{")
    orphan = tmp_path / "orphan"
    pid = sleeper(orphan, "lost")
    memory = MEMORY / "leadline-lab-lost-in-test"
    memory.mkdir()
    (memory / "lab").write_text(f"{orphan}\n")
    assert take_down(damaged)
    assert not damaged.exists()
    assert take_down(orphan)
    assert processes.start_ticks(pid) is None
    assert not memory.exists()
    assert (orphan / "out").exists(), "who made the folder is not known"


def test_missing_programs_are_named_with_their_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    error = raises(errors.LAB_NOT_READY, lambda: require(LabDescription(), tmp_path))
    assert "ceph-osd: Debian's package ceph-osd" in error.context
    assert error.hint is not None
    assert error.hint.startswith("apt-get install --no-install-recommends ceph-common ceph-mon")
    assert error.hint.endswith("ceph-fuse")


def test_room_and_memory_are_looked_at_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("leadline.lab.daemons.shutil.which", lambda name: f"/bin/{name}")
    monkeypatch.setattr("leadline.lab.daemons.MODULES", tmp_path)
    huge = LabDescription(osd_size_bytes=1 << 50)
    error = raises(errors.LAB_NOT_READY, lambda: require(huge, tmp_path / "not" / "there"))
    assert "grow to 3,072 TiB" in error.fact
    in_memory = huge.model_copy(update={"store": Store.MEMSTORE})
    assert "of memory" in raises(errors.LAB_NOT_READY, lambda: require(in_memory, tmp_path)).fact
    assert not (tmp_path / "not").exists()


def test_a_failure_shows_the_end_of_the_log_once_and_without_colour(tmp_path: Path) -> None:
    log, out = tmp_path / "osd.0.log", tmp_path / "osd.0.out"
    log.write_text("\n".join(f"line {number}" for number in range(20)) + "\n")
    out.write_text(
        "line 19\n\x1b[0;31m ** ERROR: no\x1b[0m\n--- begin dump of recent events ---\nx"
    )
    error = failed("osd.0 died", log, out)
    assert error.context[0] == f"{log}:"
    assert error.context[8] == "  line 19"
    assert error.context[9:] == (f"{out}:", "   ** ERROR: no")
    assert last_lines(tmp_path / "none") == []


def test_a_process_is_known_by_both_variables_only(tmp_path: Path) -> None:
    """A user's own process with one of them in its environment is left alone."""
    child = subprocess.Popen(
        ["sleep", "30"], env={**os.environ, processes.FOLDER_VARIABLE: str(tmp_path)}
    )
    try:
        assert processes.find(tmp_path) == []
    finally:
        child.kill()
        child.wait()
