"""Volumes of ZFS as targets, on real OpenZFS 2.3."""

from __future__ import annotations

from pathlib import Path

from tests.guest.measuring import begin, kinds, measured, wait_for_trial
from tests.guest.zfs_guest import ZfsGuest

MIB = 1 << 20
PLAN = """
leadline: 1
name: volumes
targets:
  - {name: small, target: "zvol:tank?volblocksize=8K&compression=off"}
  - {name: large, target: "zvol:tank?volblocksize=64K&compression=off&sync=always"}
repeats: 1
grace: 2m
workloads: [{name: random, pattern: randwrite, block_size: 8k, size: 32M, runtime: 6s, ramp: 0s}]
"""


def test_block_sizes_are_measured_on_a_pool_of_the_user(
    guest: ZfsGuest, tank: str, tmp_path: Path
) -> None:
    done = measured(guest, PLAN, tmp_path)
    assert len(done.trials) == 2
    for target, size in (("small", "8192"), ("large", "65536")):
        assert kinds(done, target)[:2] == ["block", "zfs"]
        device, volume = done.stacks[target][:2]
        assert device.facts["type"] == "zvol"
        assert volume.facts["recordsize_bytes"] == size
    for trial in done.trials:
        assert trial.record.extent is not None
        allocated = trial.record.extent.allocated_bytes
        assert allocated is not None
        assert allocated >= 32 * MIB, "random data was laid out on all of it"


def test_a_volume_of_a_killed_run_is_removed_by_clean(guest: ZfsGuest, tank: str) -> None:
    begin(guest, PLAN.replace("runtime: 6s", "runtime: 120s"))
    wait_for_trial(guest, "t0001")
    volumes = guest.sh(f"zfs list -H -t volume -o name -r {tank}").split()
    assert volumes
    # Only the run itself, not the shell that it was begun by.
    guest.sh("kill -9 $(pgrep -f '^python3 -m leadline run')")
    guest.end(60.0)
    run = guest.sh("ls -t /var/runs").split()[0]
    ended = guest.leadline("clean", run)
    assert ended.status == 0, ended.err
    assert volumes[0] in ended.out
    assert guest.sh(f"zfs list -H -o name -r {tank}").split() == [tank]
    guest.sh(f"rm -r /var/runs/{run}")
