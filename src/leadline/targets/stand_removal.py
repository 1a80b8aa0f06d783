"""Removing a stand, from the top down, however much of it there is: behind a run, and behind a
session that was killed while it made or used one."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from leadline import zfs_programs
from leadline.archive.records import Created
from leadline.ceph.access import CephAccess
from leadline.errors import LeadlineError
from leadline.targets import image_device, zfs_daemon
from leadline.targets.dataset import OWNER, why_it_stays
from leadline.targets.rbd import remove_image
from leadline.targets.stand_names import StandNames, names_of

_BUSY_S = 30.0
_DESTROY_S = 120.0


def remove_stand(created: Created, access: CephAccess | None) -> tuple[str, ...]:
    """Remove what a journal's entry tells of; what could not be done as sentences. Without
    `access` the image goes with its lab."""
    names = names_of(created.path, created.token)
    if not names.image.endswith(f"-{names.token}"):
        return (f"{created.path} has no name of ours and was left alone",)
    stuck = _destroy_pool(names)
    if stuck and not zfs_daemon.ours(names.folder):
        return stuck  # a pool that stays must keep what it stands on
    stuck += image_device.unmount(names.ext4)
    if stuck:
        # What lies below does not come back: it is cut off, and what waits for it lets go.
        image_device.withdraw(names, force=True)
    problems = image_device.unmount(names.ext4, lazy_after_s=0.0)
    problems += zfs_daemon.stop(names.folder, names.zpool)
    # A daemon that had to be killed leaves its mounts, which answer nothing.
    for path in image_device.mounts_below(names.datasets):
        problems += image_device.unmount(path, lazy_after_s=0.0)
    problems += image_device.detach_loops(names)
    problems += image_device.withdraw(names)
    if access is not None:
        image = created.model_copy(update={"path": f"rbd:{names.spec}"})
        problems += remove_image(access, image)
    return (*problems, *(() if problems else _remove_folder(names)))


def _destroy_pool(names: StandNames) -> tuple[str, ...]:
    """Destroy our pool, as long as it is busy; no other has its name."""
    end = time.monotonic() + _BUSY_S
    try:
        while names.zpool in _pools():
            # A pool that was made and not yet marked has no dataset of anybody.
            owner = zfs_programs.own_property(OWNER, names.zpool)
            if owner and not owner.endswith(names.token):
                return (f"the pool {names.zpool} carries another owner's mark",)
            try:
                zfs_programs.ask(
                    "removing a pool", "zpool", "destroy", names.zpool, bound_s=_DESTROY_S
                )
            except LeadlineError as error:
                busy = any("busy" in line for line in error.context)
                if not busy or time.monotonic() > end:
                    raise
                time.sleep(0.5)
    except LeadlineError as error:
        others = image_device.mounted_elsewhere(names.token)
        said = "; ".join([why_it_stays(error), *others])
        return (f"the pool {names.zpool} could not be removed: {said}",)
    return ()


def _pools() -> tuple[str, ...]:
    return zfs_programs.pools() if zfs_daemon.answers() else ()


def _remove_folder(names: StandNames) -> tuple[str, ...]:
    """Remove the folder with what we made in it, and nothing else."""
    with suppress(FileNotFoundError):
        for path in (names.pid_file, names.socket, names.folder / "rbd-fuse.log"):
            path.unlink(missing_ok=True)
    folders = (names.exposed, names.ext4, *_below(names.datasets), names.datasets, names.folder)
    for folder in folders:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            return (f"{folder} could not be removed: {error.strerror}",)
    return ()


def _below(folder: Path) -> tuple[Path, ...]:
    try:
        return tuple(folder.iterdir())
    except OSError:
        return ()
