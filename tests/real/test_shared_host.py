"""A host with other users: what they make, name or own never moves Leadline to harm this user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline import errors, files
from leadline.errors import LeadlineError
from leadline.lab import network, processes
from leadline.lab.down import mark_memory, take_down
from leadline.lab.network import NetworkUnavailable
from leadline.lab.state import MEMORY, STATE, read_state
from leadline.targets.file_system import OWNER_FILE
from leadline.targets.file_system_calls import mark_folder
from tests.unit.lab.test_folders import a_lab

pytestmark = [pytest.mark.real, pytest.mark.root]
NOBODY = 65534


@pytest.fixture(autouse=True)
def _needs_another_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: no other user can act, so shared hosts are NOT tested here")


@pytest.fixture
def foreign_process(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of another user that claims to be of the lab `one`, with a path as its token."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    # The kernel resolves `..` only below a folder that exists, and anybody may make this one.
    step = MEMORY / f"leadline-lab-step{os.getpid()}"
    step.mkdir()
    os.chown(step, NOBODY, NOBODY)
    above = "/".join([".."] * len(step.parts))
    process = subprocess.Popen(
        ["/bin/sleep", "120"],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        env={
            processes.FOLDER_VARIABLE: str(tmp_path / "one"),
            processes.TOKEN_VARIABLE: f"step{os.getpid()}/{above}{precious}",
        },
    )
    deadline = time.monotonic() + 60
    while b"LEADLINE_LAB" not in Path(f"/proc/{process.pid}/environ").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    yield process
    process.kill()
    process.wait()
    shutil.rmtree(step)


def test_a_process_of_another_user_is_never_one_of_a_lab(
    tmp_path: Path, foreign_process: subprocess.Popen[bytes]
) -> None:
    a_lab(tmp_path, "one")
    assert processes.find(tmp_path / "one") == []
    assert take_down(tmp_path / "one")
    assert (tmp_path / "precious" / "file").exists()
    assert foreign_process.poll() is None


def test_a_token_that_is_a_path_is_never_used(tmp_path: Path) -> None:
    folder = a_lab(tmp_path, "one")
    child = subprocess.Popen(
        ["sleep", "60"], env={"PATH": os.environ["PATH"], **identity(folder, "x/../../precious")}
    )
    try:
        assert processes.find(folder) == []
    finally:
        child.kill()
        child.wait()
    state = (folder / STATE).read_text()
    (folder / STATE).write_text(state.replace("token-one", "../../precious"))
    with pytest.raises(LeadlineError, match="damaged"):
        read_state(folder)


def identity(folder: Path, token: str) -> dict[str, str]:
    return {processes.FOLDER_VARIABLE: str(folder), processes.TOKEN_VARIABLE: token}


def test_what_another_user_put_in_memory_stays_and_is_not_waited_for(tmp_path: Path) -> None:
    folder = a_lab(tmp_path, "one")
    planted = MEMORY / f"leadline-lab-planted{os.getpid()}"
    pipe = MEMORY / f"leadline-lab-pipe{os.getpid()}"
    try:
        mark_memory(planted, folder)
        os.chown(planted, NOBODY, NOBODY)
        pipe.mkdir()
        os.mkfifo(pipe / "lab")
        assert take_down(folder)
        assert (planted / "lab").exists()
    finally:
        shutil.rmtree(planted)
        shutil.rmtree(pipe)


def test_a_lab_of_another_user_is_not_used(tmp_path: Path) -> None:
    folder = a_lab(tmp_path, "one")
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(LeadlineError, match="belongs to another user") as raised:
        read_state(folder)
    assert raised.value.kind is errors.LAB_NOT_READY


def test_the_forwarder_is_never_taken_from_a_folder_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    binary = network.build()
    binary.parent.chmod(0o777)
    assert network.build() == binary
    assert binary.parent.stat().st_mode & 0o022 == 0, "the folder was mended"
    os.chown(binary.parent, NOBODY, NOBODY)
    with pytest.raises(NetworkUnavailable, match="belongs to another user"):
        network.build()


def test_folders_of_another_user_in_the_temporary_folder_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SHORT", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    planted = tmp_path / f"leadline-ssh-{ended.pid}-x"
    planted.mkdir()
    os.chown(planted, NOBODY, NOBODY)
    assert planted not in files.remove_abandoned()
    assert planted.is_dir()


PLAN = """
targets: ["dir:{parent}"]
repeats: 1
prefill: false
workloads:
  - {{name: w, pattern: randwrite, block_size: 4k, size: 8M, runtime: 300ms, clients: {clients}}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("clients", [1, 2])
def test_a_folder_that_another_user_exchanges_redirects_no_write(
    clients: int, tmp_path: Path
) -> None:
    """The owner of the directory puts links to a file of root in the place of the data files."""
    parent, moved = tmp_path / "theirs", tmp_path / "moved"
    parent.mkdir()
    os.chown(parent, NOBODY, NOBODY)
    precious = tmp_path / "precious"
    content = b"x" * (8 << 20)  # fio replaces a smaller file, and writes into this one
    precious.write_bytes(content)
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.format(parent=parent, clients=clients))
    planted = tmp_path / "planted"
    planted.mkdir()
    for job in range(8):
        for name in (f"leadline.{job}.dat", f"leadline.c2{job}.dat", f"leadline.c2.{job}.dat"):
            (planted / name).symlink_to(precious)
    runs = tmp_path / "runs"
    command = [sys.executable, "-m", "leadline", "run", str(plan), "--runs", str(runs)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found: list[Path] = []
    while not found and run.poll() is None:
        found = [path for path in parent.iterdir() if (path / ".leadline-owner").exists()]
    assert found, run.communicate()[0]
    shutil.copy(found[0] / ".leadline-owner", planted)
    found[0].rename(moved)
    planted.rename(found[0])
    said = run.communicate()[0].decode()
    assert "Traceback" not in said
    assert precious.read_bytes() == content, "a file of root was written"
    assert run.returncode in (0, 1, 3, 4), said


def test_a_folder_of_another_user_in_the_place_of_the_own_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    with pytest.raises(OSError, match="another user has exchanged"):
        mark_folder(str(theirs), OWNER_FILE, "run token")
    (tmp_path / "precious").write_text("x")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / ".leadline-owner").symlink_to(tmp_path / "precious")
    with pytest.raises(FileExistsError):
        mark_folder(str(tmp_path / "own"), OWNER_FILE, "run token")
    assert (tmp_path / "precious").read_text() == "x"


@pytest.mark.parametrize(
    ("owner", "mode", "controlled"),
    [
        (0, 0o755, False),
        (0, 0o1777, False),
        (0, 0o775, True),
        (0, 0o757, True),
        (NOBODY, 0o755, True),
        (NOBODY, 0o1777, True),
    ],
)
def test_who_can_exchange_a_part_of_a_path(
    owner: int, mode: int, controlled: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "above" / "below"
    folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(folder)
    folder.parent.chmod(mode)
    os.chown(folder.parent, owner, -1)
    assert files.others_control(folder) is controlled
    assert files.others_control(tmp_path / "link") is controlled
    assert not files.others_control(tmp_path)


def modes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.lstat().st_mode & 0o777 for path in folder.rglob("*")
    }


@pytest.mark.parametrize(("umask", "shut"), [(0, 0o022), (0o027, 0o027)])
def test_what_is_made_is_never_writable_by_others_and_readable_as_the_umask_says(
    umask: int, shut: int, tmp_path: Path
) -> None:
    (tmp_path / "target").mkdir()
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.format(parent=tmp_path / "target", clients=1))
    command = [sys.executable, "-m", "leadline", "run", plan, "--runs", tmp_path / "runs"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, umask=umask)
    assert done.returncode in (0, 1), done.stderr
    found = modes(tmp_path / "runs")
    assert any(name.endswith("fio.json") for name in found)
    assert {name: oct(mode) for name, mode in found.items() if mode & shut} == {}
    if umask == 0o027:
        assert all(mode & 0o040 for name, mode in found.items()), found
