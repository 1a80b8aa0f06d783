"""What a lab needs of the machine: programs, memory, room."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from leadline import errors
from leadline.errors import LeadlineError
from leadline.lab import cpu_groups
from leadline.lab.state import MEMORY
from leadline.plan.lab_description import LabDescription, Store
from leadline.units import format_size

# Program -> Debian's package. ceph-mgr-modules-core comes with ceph-mgr.
_PROGRAMS = {
    "monmaptool": "ceph-common",
    "ceph-mon": "ceph-mon",
    "ceph-mgr": "ceph-mgr",
    "ceph-osd": "ceph-osd",
}
_MDS = {"ceph-mds": "ceph-mds"}
# Resident memory that a daemon comes to under load (docs/internals/lab.md).
_OSD_BYTES = 500 << 20
_OTHERS_BYTES = 600 << 20
MODULES = Path("/usr/share/ceph/mgr")


def require(description: LabDescription, folder: Path) -> None:
    """Raise LeadlineError(`lab-not-ready`) that names all that is missing here for the lab."""
    needed = _PROGRAMS | (_MDS if description.filesystem else {})
    missing = {name: package for name, package in needed.items() if shutil.which(name) is None}
    if not MODULES.is_dir():
        missing[str(MODULES)] = "ceph-mgr-modules-core"
    if missing:
        packages = " ".join(dict.fromkeys(missing.values()))
        optional = " ceph-fuse" if description.filesystem and not shutil.which("ceph-fuse") else ""
        raise LeadlineError(
            errors.LAB_NOT_READY,
            "programs of Ceph's are missing on this machine",
            context=[f"{name}: Debian's package {package}" for name, package in missing.items()],
            hint=f"apt-get install --no-install-recommends {packages}{optional}",
        )
    _require_memory(description)
    _require_room(description, folder)
    if description.cpu_per_host is not None:
        _require_processor(description.cpu_per_host)


def _require_memory(description: LabDescription) -> None:
    """Memory that is free or can be freed, against what the daemons and their stores come to."""
    stores = 0
    if description.store is not Store.BLUESTORE:
        stores = description.osds * description.osd_size_bytes
    needed = _OTHERS_BYTES + description.osds * _OSD_BYTES + stores
    available = available_memory_bytes()
    if available is not None and available < needed:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"a lab with {description.osds} OSDs needs {format_size(needed)} of memory, and "
            f"{format_size(available)} is available",
            context=[f"{format_size(stores)} of it for stores in memory"] if stores else (),
            hint="take fewer OSDs, a smaller osd_size, or `store: bluestore`",
        )


def _require_processor(cores: float) -> None:
    there = os.cpu_count() or 1
    if cores > there:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"a host of the lab was to have {cores:g} cores, and this machine has {there}",
            hint=f"take {there} or less for cpu_per_host",
        )
    if why := cpu_groups.why_unavailable():
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"the processor of the lab's hosts cannot be bounded here: {why}",
            hint="leave cpu_per_host out, or run as root where the cpu controller can be written",
        )


def _require_room(description: LabDescription, folder: Path) -> None:
    """The files of OSDs grow to their full size and never shrink."""
    if description.store is Store.MEMSTORE:
        return
    needed = description.osds * description.osd_size_bytes
    where = folder
    if description.store is Store.BLUESTORE_IN_MEMORY:
        where = MEMORY
    while not where.exists():
        where = where.parent
    free = shutil.disk_usage(where).free
    if free < needed:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"the stores of {description.osds} OSDs grow to {format_size(needed)}, and "
            f"{format_size(free)} is free in {where}",
            hint="take fewer OSDs or a smaller osd_size, or name another folder with --labs",
        )


def available_memory_bytes() -> int | None:
    """MemAvailable of the kernel; None where it does not tell."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except OSError:
        return None
    return None


def why_no_mount() -> str | None:
    """Why CephFS cannot be mounted here; None if nothing stands against it."""
    if shutil.which("ceph-fuse") is None:
        return "there is no ceph-fuse (Debian: ceph-fuse)"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse is missing or closed to this user"
    return None
