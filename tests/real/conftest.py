"""Real systems for the tests: Leadline as a process of its own, loop devices, small filesystems.

Nothing here passes in silence where it cannot run: without root or loop devices the tests are
skipped with the reason, and `-ra` prints it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from leadline.connect.ceph import Connection
from leadline.connect.programs import find
from leadline.connect.ssh import CONFIG
from tests.real.ssh_hosts import SshHosts, short_folder


@dataclass(frozen=True, slots=True)
class Ended:
    status: int
    out: str
    err: str


def environment(runs: Path) -> dict[str, str]:
    return os.environ | {"LEADLINE_RUNS": str(runs), "NO_COLOR": "1", "COLUMNS": "100"}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "leadline", *map(str, arguments)]


def ended(words: Sequence[object], runs: Path, **variables: str) -> Ended:
    """How a call ends that is waited for."""
    done = subprocess.run(
        list(map(str, words)),
        capture_output=True,
        text=True,
        timeout=900,  # against hanging only: a busy machine is slow
        env=environment(runs) | variables,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def process(tmp_path: Path, forked_leadline: Path) -> Callable[..., Ended]:
    """Run `leadline ARGS` in a process of its own."""

    def call(*arguments: object, **variables: str) -> Ended:
        return ended([forked_leadline, *arguments], tmp_path / "runs", **variables)

    return call


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `leadline ARGS` as a user does; whatever is still there at the end is killed."""
    children: list[subprocess.Popen[str]] = []

    def call(*arguments: object) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(tmp_path / "runs"),
        )
        children.append(child)
        return child

    yield call
    for child in children:
        if child.poll() is None:
            child.kill()
        child.communicate()


def sh(*arguments: object) -> str:
    done = subprocess.run(
        [str(argument) for argument in arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout.strip()


def fio_processes(marker: Path) -> list[int]:
    """Processes of fio whose command line names something below `marker`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"fio" in line.split(b"\0")[0] and str(marker).encode() in line:
                found.append(int(entry.name))
    return found


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[Path]:
    """An empty 128 MiB loop device of the test's own."""
    if os.geteuid() != 0:
        pytest.skip("needs root: loop devices do NOT get tested here")
    image = tmp_path / "disk.img"
    with image.open("wb") as stream:
        stream.truncate(128 << 20)
    made = subprocess.run(
        ["losetup", "--find", "--show", str(image)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"no loop device can be had, block devices do NOT get tested: {made.stderr}")
    device = Path(made.stdout.strip())
    yield device
    sh("losetup", "--detach", device)


@pytest.fixture
def mounted(loop_device: Path, tmp_path: Path) -> Iterator[Path]:
    """A small ext4 filesystem of the test's own, mounted."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    sh("mkfs.ext4", "-q", "-m", "0", loop_device)
    sh("mount", loop_device, folder)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], capture_output=True)


@pytest.fixture(scope="module")
def only_zfs() -> Iterator[None]:
    """Tests of ZFS in another suite wait meanwhile: a machine has one daemon of zfs-fuse."""
    program = find("zpool")
    if program is None:
        yield
        return
    with Path(program).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[SshHosts]:
    """Hosts by ssh, each an sshd of the test's own."""
    folder = short_folder()
    made = SshHosts(folder)
    monkeypatch.setenv(CONFIG, str(made.config))
    yield made
    made.close()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a lab with three OSDs, which all real tests of a session share; its folder is in
    LEADLINE_LABS. Down again at the end, whatever happened."""
    if os.geteuid() != 0:
        pytest.skip("needs root: no lab, so NO real Ceph cluster is tested here")
    if shutil.which("ceph-mon") is None:
        pytest.skip("no ceph-mon (apt-get install ceph): NO real Ceph cluster is tested here")
    name = "tests"
    # Sockets have short paths: not below pytest's own folders.
    labs = Path(tempfile.mkdtemp(prefix="ll-labs-"))
    variables = environment(labs / "runs") | {"LEADLINE_LABS": str(labs)}

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command("lab", *arguments), capture_output=True, text=True, timeout=900, env=variables
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEADLINE_LABS", str(labs))
        try:
            up = ask("up", name, "--osds", "3")
            assert up.returncode == 0, up.stderr
            yield name
        finally:
            down = ask("down", name)
            shutil.rmtree(labs, ignore_errors=True)
    assert down.returncode == 0, down.stderr


def is_whole(cluster: Connection) -> bool:
    """Whether a manager works, all OSDs are up and in, and all PGs active+clean. The health is no
    measure: after a lost link the monitor of Ceph 16 keeps reports of failed OSDs as slow
    operations."""
    status = cluster.mon_json("status")
    osds, pgs = status["osdmap"], status["pgmap"].get("pgs_by_state", ())
    up_and_in = osds["num_osds"] == osds["num_up_osds"] == osds["num_in_osds"]
    clean = [one["state_name"] for one in pgs] == ["active+clean"]
    return bool(up_and_in and clean and status["mgrmap"]["available"])
