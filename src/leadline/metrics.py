"""What is measured: operations, metrics with their units, and one measurement."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leadline.stats.histogram import LatencyHistogram

# The equivalence margin where none is stated, as a share: a smaller change counts as none.
MARGIN = 0.05


class Op(StrEnum):
    """The direction of the I/O, a transaction of a database, or a stage in the life of a volume
    (`STAGES`). `sync` is an fsync that was measured as such. `total` adds what ran at the same
    time: reads and writes, and fsyncs where the program measures them like these."""

    READ = "read"
    WRITE = "write"
    TRIM = "trim"
    TOTAL = "total"
    SYNC = "sync"
    TRANSACTION = "transaction"
    READY = "ready"
    PROVISION = "provision"
    BIND = "bind"
    ATTACH = "attach"
    MOUNT = "mount"
    VM_START = "vm-start"
    VM_BOOT = "vm-boot"
    FIRST_IO = "first-io"
    EXPAND = "expand"
    SNAPSHOT = "snapshot"
    RESTORE = "restore"
    CLONE = "clone"
    DELETE = "delete"
    RECLAIM = "reclaim"


# What a control plane does with a volume: an operation is one volume that went through the stage.
STAGES: tuple[Op, ...] = (
    Op.READY,
    Op.PROVISION,
    Op.BIND,
    Op.ATTACH,
    Op.MOUNT,
    Op.VM_START,
    Op.VM_BOOT,
    Op.FIRST_IO,
    Op.EXPAND,
    Op.SNAPSHOT,
    Op.RESTORE,
    Op.CLONE,
    Op.DELETE,
    Op.RECLAIM,
)


class Metric(StrEnum):
    """Metrics by their contract names; latency is total latency (slat + clat).

    The last ones are costs (`is_cost`): what an I/O of any operation takes from the storage's
    daemons, disks and links and from the load generator. `storage_memory` is the resident memory of
    the storage's daemons, whatever the I/O."""

    IOPS = "iops"
    BANDWIDTH = "bandwidth"
    LATENCY_MEAN = "latency_mean"
    LATENCY_P50 = "latency_p50"
    LATENCY_P95 = "latency_p95"
    LATENCY_P99 = "latency_p99"
    LATENCY_P999 = "latency_p999"
    LATENCY_P9999 = "latency_p9999"
    STORAGE_CPU = "storage_cpu_per_io"
    CLIENT_CPU = "client_cpu_per_io"
    DISK_BYTES = "disk_bytes_per_io"
    NETWORK_BYTES = "network_bytes_per_io"
    STORAGE_MEMORY = "storage_memory"

    @property
    def unit(self) -> str:
        """Base unit as printed in JSON: `1/s`, `bytes/s`, `bytes` or `s`."""
        return _UNITS.get(self, "s")

    @property
    def quantile(self) -> float | None:
        """The quantile in (0, 1) of a percentile metric, else None."""
        return _QUANTILES.get(self)

    @property
    def is_latency(self) -> bool:
        return self not in (Metric.IOPS, Metric.BANDWIDTH) and not self.is_cost

    @property
    def is_cost(self) -> bool:
        return self in COSTS

    @property
    def lower_is_better(self) -> bool:
        return self.is_latency or self.is_cost


COSTS: tuple[Metric, ...] = (
    Metric.STORAGE_CPU,
    Metric.CLIENT_CPU,
    Metric.DISK_BYTES,
    Metric.NETWORK_BYTES,
    Metric.STORAGE_MEMORY,
)
# What engines report.
IO_METRICS: tuple[Metric, ...] = tuple(metric for metric in Metric if metric not in COSTS)
_UNITS = {
    Metric.IOPS: "1/s",
    Metric.BANDWIDTH: "bytes/s",
    Metric.DISK_BYTES: "bytes",
    Metric.NETWORK_BYTES: "bytes",
    Metric.STORAGE_MEMORY: "bytes",
}

_QUANTILES = {
    Metric.LATENCY_P50: 0.5,
    Metric.LATENCY_P95: 0.95,
    Metric.LATENCY_P99: 0.99,
    Metric.LATENCY_P999: 0.999,
    Metric.LATENCY_P9999: 0.9999,
}
PERCENTILES: tuple[Metric, ...] = tuple(_QUANTILES)

# What people write for the metrics' contract names.
_ALIASES = {
    "bw": Metric.BANDWIDTH,
    "mean": Metric.LATENCY_MEAN,
    "latency": Metric.LATENCY_MEAN,
    "p50": Metric.LATENCY_P50,
    "median": Metric.LATENCY_P50,
    "p95": Metric.LATENCY_P95,
    "p99": Metric.LATENCY_P99,
    "p99.9": Metric.LATENCY_P999,
    "p999": Metric.LATENCY_P999,
    "p99.99": Metric.LATENCY_P9999,
    "p9999": Metric.LATENCY_P9999,
    "storage-cpu": Metric.STORAGE_CPU,
    "client-cpu": Metric.CLIENT_CPU,
    "disk-bytes": Metric.DISK_BYTES,
    "network-bytes": Metric.NETWORK_BYTES,
    "memory": Metric.STORAGE_MEMORY,
}
METRIC_WORDS = {**{metric.value: metric for metric in Metric}, **_ALIASES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The scatter of the trials behind an imported mean: their standard deviation (n - 1) in the
    metric's base unit, and their number (two or more)."""

    deviation: float
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One row of the measurements table: a trial's value of one metric for one operation.

    `value` is in the metric's base unit and None where it was not measured or where the sample is
    too small to show it. `histogram` is the trial's latency histogram, on the row
    `latency_mean` only, so that percentiles of several trials can be merged. `spread` is set where
    the value is an imported mean over trials.
    """

    trial: str
    target: str
    workload: str
    level: str
    block: int
    op: Op
    metric: Metric
    value: float | None
    histogram: LatencyHistogram | None = None
    spread: Spread | None = None
