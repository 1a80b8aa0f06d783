"""A directory on NFS: the kernel's server and client, on loopback, by releases 4.2 and 3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.formats.watch_records import NfsSample
from tests.guest.measuring import answer, flow, kinds, measured
from tests.guest.zfs_guest import ZfsGuest

KIB = 1 << 10
BLOCK, WIRE = 256 * KIB, 64 * KIB
# Without systemd: what its units do. Nobody reclaims locks, so that the grace period of NFS 4, in
# which no file can be opened, ends at once.
SERVE = """
modprobe nfsd
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
mkdir -p /srv/exported /mnt/nfs
echo '/srv/exported 127.0.0.1(rw,async,no_root_squash,no_subtree_check,insecure)' >/etc/exports
rpcbind -w
exportfs -ra
rpc.nfsd 4
rpc.mountd
echo Y >/proc/fs/nfsd/v4_end_grace || true
"""
STOP = """
umount /mnt/nfs
rpc.nfsd 0
exportfs -ua
pkill -x rpc.mountd
pkill -x rpcbind
rm -r /srv/exported
"""
PLAN = """
leadline: 1
name: nfs
targets: [{name: nfs, target: "dir:/mnt/nfs"}]
repeats: 1
grace: 2m
defaults: {size: 32M, runtime: 6s, ramp: 0s, block_size: 256k}
workloads:
  - {name: direct-write, pattern: write, iodepth: 4}
  - {name: direct-read, pattern: randread, iodepth: 4}
  - {name: buffered-write, pattern: write, direct: false}
  - {name: buffered-read, pattern: read, direct: false}
"""


@pytest.fixture(params=["4.2", "3"])
def mount(guest: ZfsGuest, request: pytest.FixtureRequest) -> Iterator[str]:
    """The release by which /mnt/nfs is mounted; what goes over the wire has 64 KiB at most."""
    release: str = request.param
    guest.sh(SERVE)
    options = f"vers={release},rsize={WIRE},wsize={WIRE},nolock"
    guest.sh(f"mount -t nfs -o {options} 127.0.0.1:/srv/exported /mnt/nfs")
    yield release
    left = guest.sh("ls -A /mnt/nfs")
    guest.sh(STOP)
    assert left == ""


def test_what_goes_over_the_wire_is_what_fio_asked_for(
    guest: ZfsGuest, mount: str, tmp_path: Path
) -> None:
    before = served(guest)
    done = measured(guest, PLAN, tmp_path)
    assert kinds(done, "nfs") == ["nfs"]
    (layer,) = done.stacks["nfs"]
    assert layer.facts["version"] == mount
    assert layer.facts["server"] == "127.0.0.1:/srv/exported"
    assert layer.facts["wsize_bytes"] == str(WIRE)
    cells = {one["workload"]: one for one in answer(done, "layers")["cells"]}
    for name, op in (("direct-write", "write"), ("direct-read", "read")):
        engine, nfs = flow(cells[name], "engine", op), flow(cells[name], "nfs", op)
        assert 0.95 < nfs["bandwidth"]["value"] / engine["bandwidth"]["value"] < 1.05, name
        assert 0.99 * WIRE < nfs["mean_size"] <= WIRE, name
        assert 0.95 * 4 < nfs["rate"]["value"] / engine["rate"]["value"] < 1.05 * 4, name
        # Four blocks at a time, each of four requests.
        assert 0 < nfs["in_flight"]["value"] <= 16, name
    # Through the page cache bytes need not agree: it says so, and does not call it a fault.
    for name, op in (("buffered-write", "write"), ("buffered-read", "read")):
        assert flow(cells[name], "nfs", op)["mean_size"] <= WIRE, name
        (step,) = [one for one in cells[name]["steps"] if one["op"] == op]
        assert not step["one_to_one"], name
        assert step["adds_up"] is None, name
        assert step["reasons"] or abs(step["difference"]) <= 0.05, name
    # The server's own counters saw what the client's did, prefill and all.
    samples = [one for trial in done.trials for one in trial.mount_counters]
    last = max((one for one in samples if isinstance(one, NfsSample)), key=lambda one: one.at)
    reads, writes = (now - old for now, old in zip(served(guest), before, strict=True))
    assert last.bytes.server_read == pytest.approx(reads, rel=0.01)
    assert last.bytes.server_written == pytest.approx(writes, rel=0.01)


def served(guest: ZfsGuest) -> tuple[int, int]:
    """Bytes that the server read and wrote for its clients."""
    _, reads, writes = guest.sh("grep ^io /proc/net/rpc/nfsd").split()
    return int(reads), int(writes)
