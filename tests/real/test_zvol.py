"""The target `zvol:` on a real block device, by a ZFS that is played: no kernel here has the real
one, whose test is tests/guest/test_zvol.py."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline import errors
from leadline.archive.records import Created, TrialStatus
from leadline.archive.runs import find_run
from leadline.connect import programs
from leadline.errors import LeadlineError
from leadline.inventory.layer import LayerKind
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.targets import zvol
from leadline.targets.zfs_dataset import OWNER
from leadline.targets.zvol import ZvolTarget
from tests.conftest import Said
from tests.unit.targets.test_zfs import Played, footprint, played

__all__ = ["played"]  # a fixture

pytestmark = [pytest.mark.real, pytest.mark.root]


class Noted:
    """A journal in memory."""

    def __init__(self) -> None:
        self.left: list[Created] = []

    def note_created(self, created: Created) -> None:
        self.left.append(created)

    def note_removed(self, created: Created) -> None:
        self.left.remove(created)


@pytest.fixture
def volumes(
    played: Played, loop_device: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The folder of links, in which each new volume is the loop device."""
    folder = tmp_path / "zvol"
    folder.mkdir()

    def link(name: str) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(loop_device)

    played.made = link
    monkeypatch.setattr(programs, "is_zfs_fuse", lambda: False)
    monkeypatch.setattr(zvol, "VOLUMES", folder)
    monkeypatch.setattr(zvol, "_LINKED_WITHIN_S", 0.0)
    return folder


URL = "zvol:tank/user?volblocksize=16K&sync=always"
NEEDS: Footprint = footprint((3 << 20) + 1)


def acquired(journal: Noted, url: str = URL) -> ZvolTarget:
    target = ZvolTarget(Target(name="t", url=url))
    target.inspect(NEEDS, prefill=True)
    target.acquire(NEEDS, "run", journal)
    return target


def test_a_volume_is_made_held_and_destroyed(
    played: Played, volumes: Path, loop_device: Path
) -> None:
    journal = Noted()
    target = acquired(journal)
    ((created),) = journal.left
    name = created.path.removeprefix("zfs:")
    assert name == f"tank/user/leadline-run-{created.token}"
    made = played.datasets[name]
    assert made["volsize"] == str(4 << 20), "whole MiB, and all that the plan spans"
    assert made["volblocksize"] == "16384"
    assert made["sync"] == "always"
    assert made["volmode"] == "dev"
    assert made[OWNER] == f"run {created.token}"

    assert target.present()
    assert target.location.path == volumes / name
    assert target.location.descriptor is not None
    assert target.location.descriptor.stat().st_rdev == loop_device.stat().st_rdev
    with pytest.raises(OSError, match="busy"):
        os.close(os.open(loop_device, os.O_RDONLY | os.O_EXCL))

    assert target.release() == ()
    assert target.release() == ()
    assert journal.left == []
    assert name not in played.datasets
    os.close(os.open(loop_device, os.O_RDONLY | os.O_EXCL))


def test_a_run_writes_and_reads_the_volume_and_leaves_nothing(
    played: Played, volumes: Path, leadline: Callable[..., Said], tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"targets: [{{target: '{URL}', name: z}}]\n"
        "defaults: {size: 8M, runtime: 1s, block_size: 4k}\nrepeats: 1\n"
        "workloads: [{name: w, pattern: randwrite}, {name: r, pattern: randread}]\n"
    )
    ended = leadline("run", plan, "--quiet")
    assert ended.status in (0, 1), ended.err
    assert set(played.datasets) == {"tank", "tank/user"}
    run = find_run("@latest", tmp_path / "runs")
    assert run.left_behind == ()
    assert [trial.record.status for trial in run.trials] == [TrialStatus.COMPLETED] * 2
    assert run.stacks["z"][0].kind is LayerKind.BLOCK


def test_what_a_killed_run_left_is_removed_by_its_journal(played: Played, volumes: Path) -> None:
    from leadline.targets.zfs_dataset import remove_dataset

    journal = Noted()
    target = acquired(journal)
    (created,) = journal.left
    target._held.release()  # the end of the process closes the device
    assert remove_dataset(created, "run") == ()
    assert set(played.datasets) == {"tank", "tank/user"}


def test_a_volume_without_a_device_is_reported_and_removed(played: Played, volumes: Path) -> None:
    played.made = lambda name: None
    journal = Noted()
    target = ZvolTarget(Target(name="t", url=URL))
    target.inspect(NEEDS, prefill=True)
    with pytest.raises(LeadlineError) as caught:
        target.acquire(NEEDS, "run", journal)
    assert caught.value.kind is errors.ZFS_FAILED
    assert "udev" in (caught.value.hint or "")
    assert target.release() == ()
    assert journal.left == []
    assert set(played.datasets) == {"tank", "tank/user"}


def test_another_block_size_than_asked_for_is_refused(played: Played, volumes: Path) -> None:
    played.overruled = {"volblocksize": "8192"}
    target = ZvolTarget(Target(name="t", url=URL))
    with pytest.raises(LeadlineError) as caught:
        target.acquire(NEEDS, "run", Noted())
    assert caught.value.kind is errors.TARGET_UNSUITABLE
    assert "volblocksize is 8192 instead of 16384" in caught.value.fact
    assert target.release() == ()


def test_a_suspended_pool_is_reported_and_its_device_is_not_used(
    played: Played, volumes: Path, tmp_path: Path
) -> None:
    target = acquired(Noted())
    (tmp_path / "kstats" / "tank").mkdir(parents=True)
    (tmp_path / "kstats" / "tank" / "state").write_text("SUSPENDED\n")
    with pytest.raises(LeadlineError) as caught:
        target.present()
    assert caught.value.kind is errors.ZPOOL_UNFIT
    target._held.release()


def test_a_device_in_the_pool_has_no_room_for_more_than_the_pool(
    played: Played, volumes: Path
) -> None:
    target = ZvolTarget(Target(name="t", url="zvol:tank"))
    with pytest.raises(LeadlineError) as caught:
        target.inspect(footprint(950 << 20), prefill=True)
    assert caught.value.kind is errors.TARGET_NO_SPACE


def test_blocks_above_128_kib_need_the_feature_of_the_pool(played: Played, volumes: Path) -> None:
    target = ZvolTarget(Target(name="t", url="zvol:tank?volblocksize=1M"))
    target.inspect(NEEDS, prefill=True)
    played.pool["feature@large_blocks"] = "disabled"
    with pytest.raises(LeadlineError) as caught:
        target.inspect(NEEDS, prefill=True)
    assert "128 KiB at most" in caught.value.fact
