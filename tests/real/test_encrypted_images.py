"""Images behind qemu-nbd on a real cluster, encrypted by librbd: the passphrase is found nowhere,
and nothing is left behind."""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.archive.reader import Run
from leadline.archive.records import Created, TrialStatus
from leadline.archive.runs import find_run
from leadline.connect.ceph import CephAccess
from leadline.lab.cluster import open_lab
from leadline.lab.state import lab_access, labs_folder
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.probes.stacks import QEMU_NBD
from leadline.targets.ceph_cluster import OpenCluster
from leadline.targets.daemons import find_processes
from leadline.targets.rbd_by_nbd import RbdByNbdTarget, served_folder
from tests.awaiting import wait_for
from tests.real.conftest import Ended, sh

pytestmark = [
    pytest.mark.real,
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which(QEMU_NBD) is None, reason="no qemu-nbd (qemu-utils)"),
]

PASSPHRASE = "planted-passphrase-7Jq"
PATTERN = "c0ffee11deadbee5"
SIZE = 8 << 20


class Journal:
    """What was made, and not removed."""

    def __init__(self) -> None:
        self.left: list[Created] = []

    def note_created(self, created: Created) -> None:
        self.left.append(created)

    def note_removed(self, created: Created) -> None:
        self.left.remove(created)


def images(access: CephAccess) -> str:
    return sh(*access.command("rbd", "ls", "rep3"))


def test_the_cluster_stores_ciphertext_and_the_passphrase_is_in_no_file_and_no_command_line(
    lab: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_urlsafe", lambda _: PASSPHRASE)
    access = lab_access(lab)
    cluster = OpenCluster("here", access, open_lab(lab, labs_folder(None)))
    target = Target(url="rbd:rep3?encryption=luks1", name="luks", cluster="here")
    adapter = RbdByNbdTarget(target, cluster)
    journal = Journal()
    footprint = Footprint(files={"a": SIZE}, span=SIZE, job_file_bytes=0, writes=True)
    try:
        adapter.inspect(footprint, prefill=True)
        adapter.acquire(footprint, "test", journal)
        place = adapter.location
        assert place.encryption == "luks1"
        uri = f"--uri=nbd+unix:///?socket={place.socket}"
        write = ("--rw=write", "--bs=1M", f"--size={SIZE}", "--end_fsync=1", "--verify=pattern")
        verified = (f"--verify_pattern=0x{PATTERN}", "--do_verify=1", "--thread")
        sh("fio", "--name=w", "--ioengine=nbd", uri, *write, *verified)
        export = access.command("rbd", "export", "--no-progress", str(place)[4:].split()[0], "-")
        stored = subprocess.run(export, capture_output=True, check=True).stdout
        assert stored[:6] == b"LUKS\xba\xbe"
        assert bytes.fromhex(PATTERN) not in stored
        proc = Path("/proc") / str(place.server)
        kept = [proc / "cmdline", proc / "environ", *place.socket.parent.glob("*.log")]
        assert not [path for path in kept if PASSPHRASE.encode() in path.read_bytes()]
        assert place.socket.parent.stat().st_mode & 0o777 == 0o700
        assert adapter.layers()[0].facts["encryption"] == "luks1"
        adapter.settle(0.0)
        assert adapter.present()
    finally:
        assert adapter.release() == ()
        cluster.close()
    assert not place.socket.parent.exists()
    assert place.image not in images(access)
    assert journal.left == []


def test_a_killed_run_leaves_a_server_that_the_resumed_run_ends(
    lab: str,
    process: Callable[..., Ended],
    started: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"clusters: {{here: {{lab: {lab}}}}}\ntargets: [{{target: 'rbd:rep3?path=nbd', name: p}}]\n"
        "workloads: [{name: w, pattern: randwrite, block_size: 4k, iodepth: 4, numjobs: 2}]\n"
        "defaults: {size: 8M, runtime: 2s}\nrepeats: 2\n"
    )
    child = started("run", plan, "--quiet")

    def run() -> Run:
        return find_run("@latest", tmp_path / "runs")

    wait_for(lambda: list((tmp_path / "runs").glob("*/trials/t0001*")), 120)
    child.send_signal(signal.SIGKILL)
    child.wait()
    (left,) = run().left_behind
    folder = served_folder(left.token)
    assert find_processes(QEMU_NBD, folder), "it served the image of the killed run"
    ended = process("run", "--resume", run().path, "--quiet")
    assert ended.status in (0, 1), ended.err
    assert not find_processes(QEMU_NBD, folder)
    assert not folder.exists()
    assert run().left_behind == ()
    for trial in run().trials:
        assert trial.record.status is TrialStatus.COMPLETED, trial.record.problem
        assert "--ioengine=nbd" in trial.record.command
        assert trial.record.processor is not None
        assert trial.record.processor.engine_cpu_s > 0
    assert "leadline-" not in images(lab_access(lab))
