"""The host inventory: CPU, memory, kernel, block devices and the mounts of targets."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from leadline.archive.records import Processor
from leadline.environment import child_environment
from leadline.inventory.host import HostInventory, TargetInventory
from leadline.plan.models import Target
from leadline.plan.target_url import TargetKind
from leadline.probes.mounts import block_devices, mount_of
from leadline.probes.nvme import nvme_inventory


def host_inventory(targets: Sequence[Target], fio_version: str) -> HostInventory:
    """Take a snapshot of this machine. Never raises: unknown values are empty."""
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
    """Return the answer of systemd-detect-virt, else the hypervisor flag of the CPU."""
    program = shutil.which("systemd-detect-virt")
    if program:
        try:
            done = subprocess.run(
                [program], capture_output=True, text=True, timeout=10, env=child_environment()
            )
            return done.stdout.strip()
        except (OSError, subprocess.TimeoutExpired):
            pass
    try:
        flags = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return ""
    return "virtual machine" if " hypervisor" in flags else "none"


_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """Ticks of all cores since boot: `idle` includes iowait, `steal` went to other guests."""

    total: int
    idle: int
    steal: int

    @classmethod
    def now(cls) -> CpuTimes:
        """Read the ticks."""
        fields = [int(field) for field in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
        return cls(total=sum(fields), idle=fields[3] + fields[4], steal=fields[7])


def processor_between(before: CpuTimes, after: CpuTimes, engine_cpu_s: float) -> Processor:
    """Return the CPU use of all cores between two readings."""
    span = max(1, after.total - before.total)
    return Processor(
        cores=os.cpu_count() or 1,
        busy_share=round(1 - (after.idle - before.idle) / span, 4),
        steal_share=round((after.steal - before.steal) / span, 4),
        engine_cpu_s=round(engine_cpu_s, 3),
    )


# Parsers of the kernel's counters, in the kernel's order: proc(5),
# Documentation/admin-guide/iostats.rst, Documentation/scheduler/sched-bwc.rst and
# admin-guide/cgroup-v2.rst. All raise ValueError or IndexError for another text.
CPU_FIELDS = 8


def parse_cpu_ticks(line: str) -> list[int]:
    """Parse `cpu` of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal. The time of
    guests is in user and nice."""
    words = line.split()
    if words[0] != "cpu":
        raise ValueError("/proc/stat does not begin with cpu")
    return [int(word) for word in words[1 : 1 + CPU_FIELDS]]


def parse_disk_counters(text: str, whole: Container[str]) -> dict[str, list[int]]:
    """Parse the counters of used whole devices: reads, merged, sectors, ms, writes, merged,
    sectors, ms, in flight, ms busy, ms x in flight, and more in newer kernels."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 14 or words[2] not in whole:
            continue
        counters = [int(word) for word in words[3:]]
        if any(counters):
            found[words[2]] = counters
    return found


def parse_interface_counters(text: str) -> dict[str, list[int]]:
    """Parse the counters of used interfaces: bytes and packets received, bytes and packets sent."""
    found = {}
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        if not colon:
            continue
        fields = rest.split()
        counters = [int(fields[index]) for index in (0, 1, 8, 9)]
        if any(counters):
            found[name.strip()] = counters
    return found


def parse_process_counters(stat: str, page_bytes: int) -> list[int]:
    """Parse the start, the user and the system time of a process, in ticks, and its resident
    memory in bytes from a /proc/PID/stat."""
    # The name is in parentheses and may hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    return [int(fields[19]), int(fields[11]), int(fields[12]), int(fields[21]) * page_bytes]


def parse_group_counters(text: str) -> dict[str, int | None]:
    """Parse a control group from `key value` lines: cpu.stat (either version), `quota` from cpu.max
    or from cpu.cfs_quota_us and cpu.cfs_period_us, `usage_ns` from cpuacct.usage. Microseconds;
    None where unknown."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        values[key] = value.strip()
    quota, period = [*values.get("quota", "").split(), "", ""][:2]
    throttled_us = _to_int(values.get("throttled_usec"))
    if throttled_us is None and "throttled_time" in values:
        throttled_us = int(values["throttled_time"]) // 1000
    usage_us = _to_int(values.get("usage_usec"))
    if usage_us is None and values.get("usage_ns"):
        usage_us = int(values["usage_ns"]) // 1000
    return {
        "periods": _to_int(values.get("nr_periods")),
        "throttled": _to_int(values.get("nr_throttled")),
        "throttled_us": throttled_us,
        "usage_us": usage_us,
        "quota_us": int(quota) if quota not in ("", "max", "-1") else None,
        "period_us": _to_int(period),
    }


def _to_int(text: str | None) -> int | None:
    return int(text) if text else None
