"""A pool whose disk is gone: in a guest of its own, since only its end gets rid of such a pool."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.guest.measuring import run
from tests.guest.zfs_guest import ZfsGuest

PLAN = """
leadline: 1
name: suspended
targets: [{name: gone, target: "zfs:gone?recordsize=128K"}]
repeats: 1
workloads: [{name: sequential, pattern: write, block_size: 1M, size: 16M, runtime: 2s}]
"""
# A disk in memory, whose power goes. OpenZFS tries its writes again and again: the pool still calls
# itself ONLINE 15 s later, and answers nothing.
LOSE_THE_DISK = """
modprobe null_blk nr_devices=0
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
mkdir /sys/kernel/config/nullb/nullb0
cd /sys/kernel/config/nullb/nullb0
echo 96 >size
echo 1 >memory_backed
echo 1 >power
udevadm settle
zpool create -o ashift=12 gone /dev/nullb0
echo 0 >power
(dd if=/dev/urandom of=/gone/a bs=1M count=8 && sync) </dev/null >/dev/null 2>&1 &
sleep 15
"""


def test_a_pool_that_answers_nothing_is_told_and_not_waited_for(parts: None) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="ll-guest-") as folder,
        ZfsGuest(Path(folder), {}) as guest,
    ):
        guest.sh(LOSE_THE_DISK)
        ended = run(guest, PLAN)
    assert ended.status in (3, 4), ended.err
    assert "error[" in ended.err
    assert "suspended" in ended.err.lower(), ended.err
    assert "hint:" in ended.err
