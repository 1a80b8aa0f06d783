"""The host inventory: processor, memory, kernel, block devices, and what targets stand on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from leadline.inventory.models import HostInventory, TargetInventory
from leadline.plan.models import Target
from leadline.plan.target_url import TargetKind
from leadline.probes.mounts import block_devices, mount_of
from leadline.probes.nvme import nvme_inventory


def host_inventory(targets: Sequence[Target], fio_version: str) -> HostInventory:
    """A snapshot of this machine now. Never raises: what cannot be read stays empty."""
    system = os.uname()
    return HostInventory(
        taken_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        hostname=system.nodename,
        operating_system=_operating_system(),
        kernel=system.release,
        architecture=system.machine,
        virtualization=_virtualization(),
        cpu_model=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        block_devices=block_devices(),
        nvme=nvme_inventory(),
        targets=tuple(_target(target) for target in targets),
        fio_version=fio_version,
    )


def _target(target: Target) -> TargetInventory:
    url = target.parsed
    path = Path(url.location)
    if url.kind in (TargetKind.DIR, TargetKind.CEPHFS):
        return TargetInventory(target=target.name, url=target.url, mount=mount_of(path))
    if url.kind is TargetKind.DEVICE:
        return TargetInventory(target=target.name, url=target.url, device=path.resolve().name)
    return TargetInventory(target=target.name, url=target.url)


def _operating_system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


def _virtualization() -> str:
    """systemd-detect-virt's word where it is installed, else the hypervisor flag of the CPU."""
    program = shutil.which("systemd-detect-virt")
    if program:
        try:
            asked = subprocess.run([program], capture_output=True, text=True, timeout=10)
            return asked.stdout.strip()
        except (OSError, subprocess.TimeoutExpired):
            pass
    try:
        flags = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return ""
    return "virtual machine" if " hypervisor" in flags else "none"
