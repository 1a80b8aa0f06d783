"""Layers that the kernel counts: block devices, FUSE mounts and NFS mounts.

Block devices: Documentation/admin-guide/iostats.rst. Requests are counted when they end, after
merging; bytes in sectors of 512. The times of all requests are added, so that time / time is the
number in flight (Little's law), and time / requests is the latency.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leadline.analysis.layers.facts import Code, Fact, fact
from leadline.analysis.layers.model import (
    Figure,
    Flow,
    LayerFlow,
    Sizes,
    add_counts,
    add_in_flight,
    measured,
    missing,
)
from leadline.analysis.layers.windows import (
    Basis,
    Growth,
    Sample,
    Series,
    Window,
    common_seconds,
    growth,
)
from leadline.formats.host_rates import by_machine
from leadline.formats.watch_records import (
    DiskCounters,
    FuseSample,
    HostSample,
    MissedMount,
    MountSample,
    NfsOperation,
    NfsSample,
    Role,
)
from leadline.inventory.layer import Layer
from leadline.metrics import Op

DISK_SOURCE = "/proc/diskstats"
SIZES_SOURCE = "block_rq_issue"
FUSE_SOURCE = "/sys/fs/fuse/connections/N/waiting"
NFS_SOURCE = "/proc/self/mountstats"
# The kernel counts milliseconds of disks in 32 bits.
_MS_WRAP = 1 << 32
_REQUESTS, _MERGED, _BYTES, _SPENT_MS = range(4)
_NFS_NAMES = {Op.READ: "READ", Op.WRITE: "WRITE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRequests:
    """Traced requests of one device by size in bytes. The tracer lost `lost` requests; `missed`
    are the recorded reasons for missing windows."""

    reads: Mapping[int, int]
    writes: Mapping[int, int]
    lost: int
    missed: tuple[str, ...] = ()


def device_flow(
    layer: Layer,
    samples: Iterable[object],
    windows: Mapping[Op, Window],
    traced: Mapping[str, BlockRequests],
    shared: Fact | None,
) -> LayerFlow:
    """Return a block layer, all its devices together. `samples` are of the trial's machines."""
    series = _client_samples(samples, layer.devices)
    flows = {}
    counted: dict[Op, Series] = {}
    basis = Basis.TOTALS
    in_flight = 0.0
    for op, window in windows.items() if series else ():
        counters = _disk_counters(series, layer.devices, op)
        grown = growth(counters, window)
        if grown is None:
            continue
        basis = grown.basis
        counted[op] = [(at_s, values[_BYTES]) for at_s, values in counters]
        in_flight += grown.per_s(_SPENT_MS) / 1e3
        if grown.counts[_REQUESTS] or grown.counts[_BYTES]:
            flows[op] = _disk_flow(op, grown, layer.devices, traced)
    same_seconds = len({(window.spans, window.seconds) for window in windows.values()}) == 1
    return LayerFlow(
        kind=layer.kind,
        name=layer.name,
        devices=layer.devices,
        facts=layer.facts,
        basis=basis,
        flows=flows,
        in_flight=measured(
            in_flight if counted and same_seconds else None, DISK_SOURCE, fact(Code.NOT_CONCURRENT)
        ),
        shared=shared if series else None,
        unobserved=None if counted else _why_unobserved(layer.devices, samples, series),
        seconds=common_seconds(windows, basis) if series else None,
        counted=counted,
    )


def _client_samples(samples: Iterable[object], devices: Sequence[str]) -> Sequence[HostSample]:
    """The samples of the load generator, if it has all of the devices."""
    found = [sample for sample in samples if isinstance(sample, HostSample)]
    for series in by_machine(found).values() if devices else ():
        client = len(series) > 1 and Role.CLIENT in series[0].roles
        if client and all(name in series[-1].disks for name in devices):
            return series
    return ()


def _why_unobserved(
    devices: Sequence[str], samples: Iterable[object], series: Sequence[HostSample]
) -> Fact:
    if not devices:
        return fact(Code.DEVICES_UNKNOWN)
    if series:
        return fact(Code.NO_USABLE_COUNTERS)
    if not any(isinstance(sample, HostSample) for sample in samples):
        return fact(Code.NO_MACHINE_SAMPLES)
    return fact(Code.NO_DEVICE_COUNTERS, devices=" or ".join(devices))


def _disk_counters(series: Sequence[HostSample], devices: Sequence[str], op: Op) -> list[Sample]:
    """Sums over all devices: requests, merged requests, bytes, and milliseconds spent."""
    # A device without I/O is missing in the first samples.
    idle = DiskCounters(**dict.fromkeys(DiskCounters.__dataclass_fields__, 0))
    found: list[Sample] = []
    wrapped_ms = dict.fromkeys(devices, 0)
    last_ms = dict.fromkeys(devices, 0)
    for sample in series:
        total = [0.0] * 4
        for name in devices:
            disk = sample.disks.get(name, idle)
            counters = (
                (disk.reads, disk.reads_merged, disk.read_bytes, disk.read_ms)
                if op is Op.READ
                else (disk.writes, disk.writes_merged, disk.write_bytes, disk.write_ms)
            )
            if counters[_SPENT_MS] < last_ms[name]:
                wrapped_ms[name] += _MS_WRAP
            last_ms[name] = counters[_SPENT_MS]
            total = [so_far + count for so_far, count in zip(total, counters, strict=True)]
            total[_SPENT_MS] += wrapped_ms[name]
        found.append((sample.elapsed_s, tuple(total)))
    return found


def _disk_flow(
    op: Op, grown: Growth, devices: Sequence[str], traced: Mapping[str, BlockRequests]
) -> Flow:
    requests = grown.counts[_REQUESTS]
    spent_s = grown.counts[_SPENT_MS] / 1e3
    found = [traced[name] for name in devices if name in traced]
    counts = add_counts(part.reads if op is Op.READ else part.writes for part in found)
    missed = "; ".join(dict.fromkeys(reason for part in found for reason in part.missed))
    return Flow(
        op=op,
        rate=Figure(value=grown.per_s(_REQUESTS), source=DISK_SOURCE),
        bandwidth=Figure(value=grown.per_s(_BYTES), source=DISK_SOURCE),
        merged=Figure(value=grown.per_s(_MERGED), source=DISK_SOURCE),
        latency=measured(
            spent_s / requests if requests else None,
            DISK_SOURCE,
            fact(Code.NO_OPERATIONS, source=DISK_SOURCE),
        ),
        in_flight=Figure(value=spent_s / grown.seconds, source=DISK_SOURCE),
        sizes=Sizes(
            counts=counts, exact=True, source=SIZES_SOURCE, lost=sum(part.lost for part in found)
        )
        if any(counts.values())
        else None,
        sizes_absent=fact(Code.RECORDED, text=missed) if missed else fact(Code.NOT_TRACED),
    )


def fuse_flow(
    layer: Layer, samples: Sequence[MountSample], windows: Mapping[Op, Window]
) -> LayerFlow:
    """Return a FUSE mount: the kernel counts only the requests that wait for its process."""
    inside = [
        sample.waiting
        for sample in samples
        if isinstance(sample, FuseSample)
        and sample.mount == layer.name
        and any(window.holds(sample.elapsed_s) for window in windows.values())
    ]
    bases = dict.fromkeys(window.basis for window in windows.values())
    not_sampled = fact(Code.NOT_SAMPLED)
    return LayerFlow(
        kind=layer.kind,
        name=layer.name,
        facts=layer.facts,
        basis=Basis.WINDOW if Basis.WINDOW in bases else next(iter(bases), Basis.TOTALS),
        in_flight=measured(sum(inside) / len(inside) if inside else None, FUSE_SOURCE, not_sampled),
        unobserved=None if inside else _missed_mount(layer, samples) or not_sampled,
        notes=(fact(Code.FUSE_COUNTS),) if inside else (),
    )


def nfs_flow(
    layer: Layer, samples: Sequence[MountSample], windows: Mapping[Op, Window]
) -> LayerFlow:
    """Return an NFS mount: the client's requests between the first and the last sample."""
    found = [
        sample for sample in samples if isinstance(sample, NfsSample) and sample.mount == layer.name
    ]
    flows = {}
    notes = []
    basis = Basis.TOTALS
    for op, window in windows.items() if len(found) > 1 else ():
        basis, seconds = window.ends_only
        grown = _nfs_growth(found[0], found[-1], _NFS_NAMES[op])
        if grown.operations > 0:
            moved = (
                found[-1].bytes.server_read - found[0].bytes.server_read
                if op is Op.READ
                else found[-1].bytes.server_written - found[0].bytes.server_written
            )
            flows[op] = Flow(
                op=op,
                rate=Figure(value=grown.operations / seconds, source=NFS_SOURCE),
                bandwidth=Figure(value=max(0, moved) / seconds, source=NFS_SOURCE),
                merged=missing(Code.NO_MERGE_COUNT, source="NFS"),
                latency=Figure(value=grown.total_s / grown.operations, source=NFS_SOURCE),
                in_flight=Figure(value=grown.total_s / seconds, source=NFS_SOURCE),
                sizes_absent=fact(Code.NO_SIZES, source="NFS"),
            )
            notes.append(
                fact(
                    Code.NFS_TIMES,
                    operation=_NFS_NAMES[op],
                    queue_s=grown.queue_s / grown.operations,
                    round_trip_s=grown.round_trip_s / grown.operations,
                )
            )
    if Op.WRITE in flows:
        # Direct writes also wait until the server has each block on stable storage.
        commits = _nfs_growth(found[0], found[-1], "COMMIT")
        if commits.operations > 0:
            notes.append(
                fact(
                    Code.NFS_COMMITS,
                    commits=commits.operations,
                    latency_s=commits.total_s / commits.operations,
                )
            )
    return LayerFlow(
        kind=layer.kind,
        name=layer.name,
        facts=layer.facts,
        basis=basis,
        flows=flows,
        in_flight=add_in_flight(flows.values(), fact(Code.NO_OPERATIONS, source=NFS_SOURCE)),
        unobserved=None
        if len(found) > 1
        else _missed_mount(layer, samples) or fact(Code.NOT_READ_TWICE),
        notes=tuple(notes),
    )


def _nfs_growth(first: NfsSample, last: NfsSample, name: str) -> NfsOperation:
    """Growth of one operation. An operation that was not counted at first is zero then."""
    zero = NfsOperation(**dict.fromkeys(NfsOperation.__dataclass_fields__, 0))
    before, after = first.operations.get(name, zero), last.operations.get(name, zero)
    return NfsOperation(
        **{
            field: getattr(after, field) - getattr(before, field)
            for field in NfsOperation.__dataclass_fields__
        }
    )


def _missed_mount(layer: Layer, samples: Sequence[MountSample]) -> Fact | None:
    for sample in samples:
        if isinstance(sample, MissedMount) and sample.mount in ("", layer.name):
            return fact(Code.RECORDED, text=sample.reason)
    return None
