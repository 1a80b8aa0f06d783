"""Block devices: counters of /proc/diskstats, and the sizes that the tracepoint saw.

Documentation/admin-guide/iostats.rst: requests are counted when they end, after merging; bytes in
sectors of 512; the times of all requests are added up, so that time over time is how many were in
flight (Little's law), and time over requests their latency.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leadline.analysis.layers.model import Basis, Figure, Flow, LayerFlow, Series
from leadline.analysis.layers.series import Growth, Sample, growth, seconds_of
from leadline.analysis.layers.sizes import Sizes, added
from leadline.analysis.layers.windows import Window
from leadline.archive.records import Layer
from leadline.formats.host_counters import DiskCounters, HostSample, Role
from leadline.formats.host_rates import by_machine
from leadline.metrics import Op

SOURCE = "/proc/diskstats"
_TRACED = "block_rq_issue"
# The kernel counts milliseconds of disks in 32 bits.
_MS_WRAP = 1 << 32
_REQUESTS, _MERGED, _BYTES, _SPENT_MS = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRequests:
    """Requests issued to one device, by size in bytes, over all windows in which it was traced;
    `lost` is how many the tracer knows to have missed, `missed` why windows are not there."""

    reads: Mapping[int, int]
    writes: Mapping[int, int]
    lost: int
    missed: tuple[str, ...] = ()


def device_flow(
    layer: Layer,
    samples: Iterable[object],
    windows: Mapping[Op, Window],
    traced: Mapping[str, BlockRequests],
    shared: str,
) -> LayerFlow:
    """A block layer, all its devices together. `samples` are the machines' of the trial."""
    series = _series(samples, layer.devices)
    if series is None:
        return LayerFlow(
            kind=layer.kind,
            name=layer.name,
            devices=layer.devices,
            facts=layer.facts,
            unobserved=_why_not(layer.devices, samples),
        )
    flows = {}
    counted: dict[Op, Series] = {}
    basis = Basis.TOTALS
    weighted = 0.0
    covered = False
    for op, window in windows.items():
        samples_of_op = _counted(series, layer.devices, op)
        grown = growth(samples_of_op, window)
        if grown is None:
            continue
        covered, basis = True, grown.basis
        counted[op] = [(at_s, counts[_BYTES]) for at_s, counts in samples_of_op]
        weighted += grown.per_s(_SPENT_MS) / 1e3
        if grown.counts[_REQUESTS] or grown.counts[_BYTES]:
            flows[op] = _flow(op, grown, layer.devices, traced)
    return LayerFlow(
        kind=layer.kind,
        name=layer.name,
        devices=layer.devices,
        facts=layer.facts,
        basis=basis,
        flows=flows,
        in_flight=Figure.of(
            weighted if covered and _same_seconds(windows) else None,
            SOURCE,
            "reads and writes were done one after the other, or no counters came",
        ),
        shared=shared,
        unobserved="" if covered else "its counters went backwards, or no sample fell in",
        seconds=seconds_of(windows, basis),
        counted=counted,
    )


def _same_seconds(windows: Mapping[Op, Window]) -> bool:
    return len({(one.spans, one.seconds) for one in windows.values()}) == 1


def _series(samples: Iterable[object], devices: Sequence[str]) -> Sequence[HostSample] | None:
    """The samples of the machine that made the load, where it has all of the devices."""
    if not devices:
        return None
    told = [one for one in samples if isinstance(one, HostSample)]
    for series in by_machine(told).values():
        if (
            len(series) > 1
            and Role.CLIENT in series[0].roles
            and all(name in series[-1].disks for name in devices)
        ):
            return series
    return None


def _why_not(devices: Sequence[str], samples: Iterable[object]) -> str:
    if not devices:
        return "its devices are not known"
    if not any(isinstance(one, HostSample) for one in samples):
        return "no machine was sampled during the trial"
    return f"the samples have no counters of {' or '.join(devices)}"


def _counted(series: Sequence[HostSample], devices: Sequence[str], op: Op) -> list[Sample]:
    """All devices added up: requests, merged, bytes, and milliseconds spent."""
    # A device that had done nothing yet is not in the first samples.
    nothing = DiskCounters(**dict.fromkeys(DiskCounters.__dataclass_fields__, 0))
    found: list[Sample] = []
    wrapped_ms = dict.fromkeys(devices, 0)
    last_ms = dict.fromkeys(devices, 0)
    for sample in series:
        total = [0.0] * 4
        for name in devices:
            disk = sample.disks.get(name, nothing)
            counted = (
                (disk.reads, disk.reads_merged, disk.read_bytes, disk.read_ms)
                if op is Op.READ
                else (disk.writes, disk.writes_merged, disk.write_bytes, disk.write_ms)
            )
            if counted[_SPENT_MS] < last_ms[name]:
                wrapped_ms[name] += _MS_WRAP
            last_ms[name] = counted[_SPENT_MS]
            total = [sum_ + one for sum_, one in zip(total, counted, strict=True)]
            total[_SPENT_MS] += wrapped_ms[name]
        found.append((sample.elapsed_s, tuple(total)))
    return found


def _flow(
    op: Op,
    grown: Growth,
    devices: Sequence[str],
    traced: Mapping[str, BlockRequests],
) -> Flow:
    requests = grown.counts[_REQUESTS]
    spent_s = grown.counts[_SPENT_MS] / 1e3
    return Flow(
        op=op,
        rate=Figure(value=grown.per_s(_REQUESTS), source=SOURCE),
        bandwidth=Figure(value=grown.per_s(_BYTES), source=SOURCE),
        merged=Figure(value=grown.per_s(_MERGED), source=SOURCE),
        latency=Figure.of(spent_s / requests if requests else None, SOURCE, "no request ended"),
        in_flight=Figure(value=spent_s / grown.seconds, source=SOURCE),
        sizes=_sizes(op, devices, traced),
        sizes_absent="; ".join(
            dict.fromkeys(why for name in devices if name in traced for why in traced[name].missed)
        )
        or "requests were not traced by size",
    )


def _sizes(op: Op, devices: Sequence[str], traced: Mapping[str, BlockRequests]) -> Sizes | None:
    seen = [traced[name] for name in devices if name in traced]
    counts = added([one.reads if op is Op.READ else one.writes for one in seen])
    if not any(counts.values()):
        return None
    lost = sum(one.lost for one in seen)
    return Sizes(counts=counts, exact=True, source=_TRACED, lost=lost)
