"""Targets of ZFS: in a pool of the user's on a file, and on an RBD image of a real cluster, which
they share with ext4 and librbd. Whatever happens, nothing of Leadline is left and nothing of the
user's is touched."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.runs import find_run
from leadline.connect.programs import find
from leadline.inventory.layer import LayerKind
from leadline.lab.state import lab_access
from leadline.targets import daemons
from tests.awaiting import wait_for
from tests.conftest import Said
from tests.real.conftest import Ended, fio_processes, sh
from tests.real.zfs_here import left_here, pool_on_file, tokens

pytestmark = [pytest.mark.real, pytest.mark.root, pytest.mark.usefixtures("only_zfs")]

SHORT = "defaults: {size: 16M, runtime: 1s, block_size: 4k}\nrepeats: 1\n"
# A busy machine may take long to write back at the end.
PATIENT = f"{SHORT}grace: 60s\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """A pool of the user's with a dataset and a file in it."""

    pool: str
    folder: Path

    @property
    def dataset(self) -> str:
        return f"{self.pool}/users"

    @property
    def state(self) -> tuple[str, str, str]:
        """All that is in the pool: names, properties that were set, the file's content."""
        names = sh(find("zfs"), "list", "-H", "-t", "all", "-o", "name", "-r", self.pool)
        set_ = sh(find("zfs"), "get", "-Hp", "-s", "local", "-r", "all", self.pool)
        content = (self.folder / "users" / "precious").read_bytes()
        return names, set_, hashlib.sha256(content).hexdigest()


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    """On zfs-fuse, unless a ZFS runs here."""
    if os.geteuid() != 0 or find("zpool") is None:
        pytest.skip("needs root and ZFS (apt-get install zfs-fuse): ZFS is NOT tested here")
    folder = tmp_path_factory.mktemp("zfs")
    with pool_on_file(folder, 512 << 20) as pool:
        sh(find("zfs"), "create", f"{pool}/users")
        (folder / "mnt" / "users" / "precious").write_bytes(secrets.token_bytes(1 << 20))
        yield Users(pool=pool, folder=folder / "mnt")


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    assert left_here(tmp_path) == []


def archive(tmp_path: Path) -> Run:
    return find_run("@latest", tmp_path / "runs")


def plan(tmp_path: Path, *targets: str, cluster: str = "", more: str = PATIENT) -> Path:
    path = tmp_path / "plan.yaml"
    clusters = f"clusters: {{here: {{lab: {cluster}}}}}\n" if cluster else ""
    listed = "".join(f"  - {target}\n" for target in targets)
    workloads = "workloads: [{name: w, pattern: randwrite}]\n"
    path.write_text(f"{clusters}targets:\n{listed}{workloads}{more}")
    return path


def test_a_pool_is_measured_as_asked_and_left_as_it_was(
    users: Users, process: Callable[..., Ended], tmp_path: Path
) -> None:
    before = users.state
    url = f"zfs:{users.dataset}?recordsize=16K&compression=gzip-6&primarycache=metadata"
    ended = process("run", plan(tmp_path, f"{{target: '{url}', name: z}}"), "--quiet")
    assert ended.status in (0, 1), ended.err
    assert users.state == before
    run = archive(tmp_path)
    assert run.left_behind == ()
    (trial,) = run.trials
    assert trial.record.status is TrialStatus.COMPLETED
    top = run.stacks["z"][0]
    assert top.kind is LayerKind.ZFS
    assert top.name.startswith(f"{users.dataset}/leadline-")
    assert top.facts["recordsize_bytes"] == "16384"
    assert top.facts["primarycache"] == "metadata"
    assert len(run.stacks["z"]) > 1, "what the pool's file lies on"
    assert b"\trecordsize\t16384\tlocal" in run.target_dumps("z")["zfs-get.txt"]
    # 16 MiB of random data, which no compression makes smaller.
    assert trial.record.extent is not None
    allocated = trial.record.extent.allocated_bytes
    assert allocated is not None
    assert 16 << 20 <= allocated < 20 << 20
    assert process("verify", "@latest").status == 0


@pytest.mark.parametrize(
    ("of", "code", "status", "said"),
    [
        ("zfs:{pool}x", "target-invalid", 2, "there is no pool"),
        ("zfs:{pool}/nobody", "target-invalid", 2, "there is no dataset"),
        ("zfs:{pool}?compression=lz5", "plan-invalid", 2, "'lz5' is no compression of ZFS"),
        ("zvol:{pool}?recordsize=8K", "plan-invalid", 2, "have no option 'recordsize'"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_touched(
    users: Users,
    leadline: Callable[..., Said],
    tmp_path: Path,
    of: str,
    code: str,
    status: int,
    said: str,
) -> None:
    before = users.state
    ended = leadline("run", plan(tmp_path, of.format(pool=users.pool)), "--quiet")
    assert ended.status == status, ended.err
    assert f"error[{code}]" in ended.err
    assert said in ended.err
    assert users.state == before
    assert not (tmp_path / "runs").exists()


def test_an_old_pool_is_reported_what_it_does_not_have(
    users: Users, leadline: Callable[..., Said], tmp_path: Path
) -> None:
    if Path("/dev/zfs").exists():
        pytest.skip("the kernel's ZFS has all of it: an old pool is NOT tested here")
    url = f"zfs:{users.pool}?recordsize=1M&sync=always&compression=zstd"
    ended = leadline("run", plan(tmp_path, url), "--quiet")
    assert ended.status == 3, ended.err
    assert "error[target-unsuitable]" in ended.err
    for said in ("no property 'sync'", "128 KiB at most", "compression=zstd", "version 23"):
        assert said in ended.err


def test_zfs_fuse_has_no_volumes(
    users: Users, leadline: Callable[..., Said], tmp_path: Path
) -> None:
    if Path("/dev/zfs").exists():
        pytest.skip("the kernel's ZFS has volumes: the refusal is NOT tested here")
    before = users.state
    ended = leadline("run", plan(tmp_path, f"zvol:{users.pool}?volblocksize=16K"), "--quiet")
    assert ended.status == 3, ended.err
    assert "error[target-unsuitable]: zfs-fuse has no volumes" in ended.err
    assert f"zfs:{users.pool}" in ended.err
    assert users.state == before


def test_a_plan_that_does_not_fit_is_refused(
    users: Users, leadline: Callable[..., Said], tmp_path: Path
) -> None:
    path = plan(tmp_path, f"zfs:{users.pool}")
    ended = leadline("run", path, "--quiet", "--size", "460M")
    assert ended.status == 3, ended.err
    assert "error[target-no-space]" in ended.err


def killed_in_trial(
    started: Callable[..., subprocess.Popen[str]], tmp_path: Path, path: Path
) -> Run:
    """A run that got kill -9 when its first trial was going on."""
    child = started("run", path, "--quiet", "--runtime", "60s")

    def in_trial() -> bool:
        assert child.poll() is None, child.communicate()
        return bool(list((tmp_path / "runs").glob("*/trials/.*/fio.json*"))) or bool(
            list((tmp_path / "runs").glob("*/*/*/resources.jsonl"))
        )

    # A busy machine needs minutes to make and fill several images.
    wait_for(in_trial, 900)
    child.send_signal(signal.SIGKILL)
    child.wait()
    wait_for(lambda: not fio_processes(tmp_path), 50)
    return archive(tmp_path)


@pytest.mark.slow
def test_what_a_killed_run_left_in_a_pool_is_destroyed_by_clean(
    users: Users,
    process: Callable[..., Ended],
    started: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    before = users.state
    run = killed_in_trial(started, tmp_path, plan(tmp_path, f"zfs:{users.dataset}"))
    (left,) = run.left_behind
    assert left.path.startswith(f"zfs:{users.dataset}/leadline-")
    assert left.path.removeprefix("zfs:") in users.state[0]
    # Another's mark is stronger than the journal's word.
    ours = left.path.removeprefix("zfs:")
    owner = sh(find("zfs"), "get", "-H", "-o", "value", "leadline:owner", ours)
    sh(find("zfs"), "set", "leadline:owner=somebody", ours)
    refused = process("clean", "@latest")
    assert "error[left-behind]" in refused.err
    assert "mark of another owner" in refused.err
    assert refused.status == 4
    assert ours in users.state[0]
    sh(find("zfs"), "set", f"leadline:owner={owner}", ours)
    cleaned = process("clean", "@latest")
    assert cleaned.status == 0, cleaned.err
    assert archive(tmp_path).left_behind == ()
    assert users.state == before


# --- on a cluster ---------------------------------------------------------------------------------

SHARED = (
    "{target: 'rbd:rep2?shared=yes', name: rbd}",
    "{target: 'ext4+rbd:rep2', name: ext4}",
    "{target: 'zfs+rbd:rep2?recordsize=8K', name: z8}",
    "{target: 'zfs+rbd:rep2?recordsize=128K', name: z128}",
)


@pytest.fixture
def cluster(lab: str) -> str:
    for program in ("zpool", "losetup", "mkfs.ext4"):
        if find(program) is None:
            pytest.skip(f"no {program!r}: file systems on RBD are NOT tested here")
    if shutil.which("rbd-fuse") is None and not Path("/sys/bus/rbd").exists():
        pytest.skip("neither krbd nor rbd-fuse: file systems on RBD are NOT tested here")
    return lab


def images(lab: str) -> list[str]:
    access = lab_access(lab)
    found: list[str] = json.loads(sh(*access.command("rbd", "ls", "--format", "json", "rep2")))
    return found


@pytest.mark.slow
def test_one_image_is_measured_three_ways_and_left_as_it_was(
    cluster: str, users: Users, process: Callable[..., Ended], tmp_path: Path
) -> None:
    access, before = lab_access(cluster), users.state
    content = tmp_path / "content"
    content.write_bytes(secrets.token_bytes(4 << 20))
    sh(*access.command("rbd", "import", "--no-progress", str(content), "rep2/users-own"))
    try:
        ended = process("run", plan(tmp_path, *SHARED, cluster=cluster), "--quiet")
        assert ended.status in (0, 1), ended.err
        assert images(cluster) == ["users-own"]
        again = tmp_path / "again"
        sh(*access.command("rbd", "export", "--no-progress", "rep2/users-own", str(again)))
        assert again.read_bytes() == content.read_bytes()
    finally:
        sh(*access.command("rbd", "rm", "--no-progress", "rep2/users-own"))
    assert users.state == before
    run = archive(tmp_path)
    assert run.left_behind == ()
    assert run.complete
    assert [trial.record.status for trial in run.trials] == [TrialStatus.COMPLETED] * 4
    assert process("verify", "@latest").status == 0

    stacks = run.stacks
    below = {name: [layer.kind for layer in stack] for name, stack in stacks.items()}
    assert below["rbd"] == [LayerKind.IMAGE, LayerKind.POOL]
    assert below["ext4"][0] is LayerKind.FILESYSTEM
    assert below["z8"][0] is below["z128"][0] is LayerKind.ZFS
    named = {
        layer.name for stack in stacks.values() for layer in stack if layer.kind is LayerKind.IMAGE
    }
    assert len(named) == 1, "all of them on the same image"
    assert stacks["z8"][0].facts["recordsize_bytes"] == "8192"
    assert stacks["z128"][0].facts["recordsize_bytes"] == "131072"
    for name in ("ext4", "z8", "z128"):
        assert below[name][-2:] == [LayerKind.IMAGE, LayerKind.POOL]
        (block,) = [layer for layer in stacks[name] if layer.kind is LayerKind.BLOCK]
        (image,) = [layer for layer in stacks[name] if layer.kind is LayerKind.IMAGE]
        assert image.facts["object_size_bytes"] == str(4 << 20)
        assert block.devices
    for trial in run.trials:
        assert trial.record.extent is not None
        allocated = trial.record.extent.allocated_bytes
        assert allocated is not None
        assert 16 << 20 <= allocated < 24 << 20, trial.record.target
        assert trial.cluster, "the cluster's health was recorded"


@pytest.mark.slow
def test_a_killed_run_on_a_shared_image_is_undone_by_clean(
    cluster: str,
    users: Users,
    process: Callable[..., Ended],
    started: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    before = users.state
    run = killed_in_trial(started, tmp_path, plan(tmp_path, *SHARED, cluster=cluster))
    (left,) = run.left_behind
    assert left.path.startswith("shared:rep2/leadline-")
    assert left_here(tmp_path), "the test is about what is left"
    assert left.path in process("clean", "--dry-run").out
    cleaned = process("clean", "@latest")
    assert "removed what a killed session left" in cleaned.out, cleaned.out
    assert archive(tmp_path).left_behind == ()
    assert images(cluster) == []
    assert left_here(tmp_path) == []
    assert users.state == before
    assert process("clean", "@latest").out.strip() == "nothing was left behind"


# A pool for each make of it, and an image for each further vdev: zfs-fuse has no special ones.
MAKES = """
settings:
  sector: {zpool: {ashift: [9]}}
  slog: {zpool: {log: [rep3/64M]}}
  l2arc: {zpool: {cache: [64M]}}
"""


@pytest.mark.slow
def test_pools_of_other_makes_are_states_and_leave_nothing(
    cluster: str, users: Users, process: Callable[..., Ended], tmp_path: Path
) -> None:
    target = "{target: 'zfs+rbd:rep2?recordsize=8K', name: z}"
    path = plan(tmp_path, target, cluster=cluster, more=f"{PATIENT}{MAKES}")
    before = users.state
    ended = process("run", path, "--quiet")
    assert ended.status in (0, 1), ended.err
    run = archive(tmp_path)
    assert [trial.record.status for trial in run.trials] == [TrialStatus.COMPLETED] * 4
    assert run.left_behind == ()
    assert images(cluster) == []
    assert users.state == before
    found = {
        name: (zfs.facts["ashift"], zfs.facts["layout"]) for name, (zfs, *_) in run.stacks.items()
    }
    assert found == {
        "z": ("12", "1 x disk"),
        "z sector=9": ("9", "1 x disk"),
        "z slog=rep3/64M": ("12", "1 x disk, log: 1 x disk"),
        "z l2arc=64M": ("12", "1 x disk, cache: 1 x disk"),
    }
    below = {[layer.name for layer in stack][-1] for stack in run.stacks.values()}
    assert below == {"rep2"}
    assert process("verify", "@latest").status == 0


@pytest.mark.slow
def test_further_vdevs_of_a_killed_run_are_removed_by_clean(
    cluster: str,
    process: Callable[..., Ended],
    started: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    targets = (
        "{target: 'zfs+rbd:rep2?log=rep3/64M&cache=64M', name: both}",
        "{target: 'zfs+rbd:rep2', name: plain}",
    )
    run = killed_in_trial(started, tmp_path, plan(tmp_path, *targets, cluster=cluster))
    assert len(run.left_behind) == 4
    assert process("clean", "@latest").status == 0
    assert archive(tmp_path).left_behind == ()
    assert images(cluster) == []


@pytest.mark.slow
def test_an_image_whose_client_dies_in_a_trial_leaves_nothing(
    cluster: str,
    process: Callable[..., Ended],
    started: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    if Path("/sys/bus/rbd").exists():
        pytest.skip("the image is the kernel's: the death of rbd-fuse is NOT tested here")
    target = "{target: 'ext4+rbd:rep2', name: ext4}"
    path = plan(tmp_path, target, cluster=cluster, more=SHORT)
    child = started("run", path, "--quiet", "--runtime", "15s")
    trials = tmp_path / "runs"
    wait_for(lambda: list(trials.glob("*/*/*/resources.jsonl")) or child.poll() is not None, 90)
    time.sleep(1.0)
    (token,) = tokens(tmp_path)
    (pid,) = daemons.find_processes("rbd-fuse", Path(f"/run/leadline-{token}"))
    os.kill(pid, signal.SIGKILL)
    child.communicate(timeout=180)
    assert child.returncode != 0
    (trial,) = archive(tmp_path).trials
    assert trial.record.status is not TrialStatus.COMPLETED
    if archive(tmp_path).left_behind:
        process("clean", "@latest")
    assert archive(tmp_path).left_behind == ()
    assert images(cluster) == []


@pytest.mark.slow
def test_what_file_systems_on_an_image_cannot_have_is_refused(
    cluster: str, leadline: Callable[..., Said], tmp_path: Path
) -> None:
    for url, code in (
        ("ext4+rbd:nowhere", "pool-missing"),
        ("zfs+rbd:cephfs-rep3", "pool-unsuitable"),
        ("zfs+rbd:rep2?compression=lz5", "plan-invalid"),
        ("zfs+rbd:rep2?log=nowhere/64M", "pool-missing"),
        ("zfs+rbd:rep2?log=cephfs-rep3/64M", "pool-unsuitable"),
        ("rbd:rep2/mine?shared=yes", "plan-invalid"),
    ):
        ended = leadline("run", plan(tmp_path, f"'{url}'", cluster=cluster), "--quiet")
        assert f"error[{code}]" in ended.err, (url, ended.err)
    large = leadline("run", plan(tmp_path, *SHARED, cluster=cluster), "--quiet", "--size", "64G")
    assert "error[target-no-space]" in large.err
    assert not (tmp_path / "runs").exists()
