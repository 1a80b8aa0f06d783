"""The kernel's counters as its files tell them, as whole numbers in the kernel's order.

proc(5): /proc/stat, /proc/diskstats (Documentation/admin-guide/iostats.rst), /proc/net/dev,
/proc/PID/stat; Documentation/scheduler/sched-bwc.rst and admin-guide/cgroup-v2.rst for control
groups. All raise ValueError or IndexError for a text that is none of theirs.
"""

from __future__ import annotations

from collections.abc import Container

CPU_FIELDS = 8


def cpu_ticks(line: str) -> list[int]:
    """`cpu` of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal. Guests' time is
    in user and nice already."""
    words = line.split()
    if words[0] != "cpu":
        raise ValueError("/proc/stat does not begin with cpu")
    return [int(word) for word in words[1 : 1 + CPU_FIELDS]]


def disk_counters(text: str, whole: Container[str]) -> dict[str, list[int]]:
    """Of whole devices that ever did something: reads, merged, sectors, ms, writes, merged,
    sectors, ms, in flight, ms busy, ms x in flight, and more that newer kernels have."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 14 or words[2] not in whole:
            continue
        counters = [int(word) for word in words[3:]]
        if any(counters):
            found[words[2]] = counters
    return found


def interface_counters(text: str) -> dict[str, list[int]]:
    """Of interfaces that ever saw a packet: bytes and packets received, bytes and packets sent."""
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


def process_ticks(stat: str) -> list[int]:
    """When a process began, and its user and system time, in ticks."""
    # The name stands in parentheses and may itself hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    return [int(fields[19]), int(fields[11]), int(fields[12])]


def group_counters(text: str) -> dict[str, int | None]:
    """A control group from `key value` lines of its files: of cpu.stat (either version), and
    `quota` with what cpu.max, or cpu.cfs_quota_us and cpu.cfs_period_us, hold; `usage_ns` with
    cpuacct.usage. Microseconds; None where the group's files do not tell."""
    told: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        told[key] = value.strip()
    quota, period = [*told.get("quota", "").split(), "", ""][:2]
    throttled_us = _whole(told.get("throttled_usec"))
    if throttled_us is None and "throttled_time" in told:
        throttled_us = int(told["throttled_time"]) // 1000
    usage_us = _whole(told.get("usage_usec"))
    if usage_us is None and told.get("usage_ns"):
        usage_us = int(told["usage_ns"]) // 1000
    return {
        "periods": _whole(told.get("nr_periods")),
        "throttled": _whole(told.get("nr_throttled")),
        "throttled_us": throttled_us,
        "usage_us": usage_us,
        "quota_us": int(quota) if quota not in ("", "max", "-1") else None,
        "period_us": _whole(period),
    }


def _whole(text: str | None) -> int | None:
    return int(text) if text else None
