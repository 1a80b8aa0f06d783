"""exceeds-ceiling: more I/Os than the disks below can do."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import PoolMedia, TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.metrics import Op

# Ceph rejects results of its own bench of random 4 KiB writes above these as unrealistic, per OSD
# (osd_mclock_iops_capacity_threshold_hdd and _ssd).
HARD_DISK_IOPS = 500.0
FLASH_WRITE_IOPS = 80_000.0
# Reads need no copies and no journal: 93,700 per OSD were published (30 OSDs, Reef, 2023), above
# the threshold for writes. Reads have twice that threshold.
FLASH_READ_IOPS = 2 * FLASH_WRITE_IOPS
_RANDOM = frozenset({"randread", "randwrite", "randrw"})


@rule("exceeds-ceiling", "More I/Os than the disks below can do, by the inventory.", TrialEvidence)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    pool = trial.pool
    if pool is None or trial.on_lab:
        return
    # Entries of one name ran together; several names may have run one after the other.
    rates: dict[tuple[str, Op], float] = {}
    for evidence in trial.jobs:
        if evidence.pattern not in _RANDOM:
            continue  # sequential I/Os are merged on the I/O path
        for operation in evidence.job.operations:
            key = (evidence.place.workload, operation.op)
            if operation.iops is not None and operation.op in (Op.READ, Op.WRITE):
                rates[key] = rates.get(key, 0.0) + operation.iops
    for (workload, op), iops in rates.items():
        ceiling = _ceiling(pool, op)
        if iops <= ceiling:
            continue
        # A virtual disk may appear as a rotating disk, so its class is uncertain.
        certain = not pool.hard_disks
        copies = f", {pool.copies} OSD writes for each" if op is Op.WRITE else ""
        yield RuleFinding(
            severity=Severity.ERROR if certain else Severity.WARNING,
            op=op,
            workload=workload,
            evidence={
                "iops": iops,
                "ceiling_iops": ceiling,
                "flash_osds": pool.flash,
                "hard_disk_osds": pool.hard_disks,
                "copies": pool.copies,
            },
            message=f"{iops:,.0f} random {op.value}s per second exceed the {ceiling:,.0f} "
            f"of the OSDs of the pool {pool.pool} ({_osds(pool)}{copies}). A cache answered"
            + ("." if certain else ", or the device class hdd is wrong (virtual disks)."),
            remedy="Find the cache (a span below memory size, unwritten data, rbd cache), and "
            "measure again without it.",
        )


def _ceiling(pool: PoolMedia, op: Op) -> float:
    if op is Op.READ:
        return pool.hard_disks * HARD_DISK_IOPS + pool.flash * FLASH_READ_IOPS
    return (pool.hard_disks * HARD_DISK_IOPS + pool.flash * FLASH_WRITE_IOPS) / pool.copies


def _osds(pool: PoolMedia) -> str:
    parts = ((pool.flash, "flash"), (pool.hard_disks, "hard disk"))
    return " and ".join(f"{number} {name}" for number, name in parts if number)
