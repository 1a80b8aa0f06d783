"""The ZFS layer: what ZFS sent to its leaf vdevs, by `zpool iostat`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leadline.analysis.layers.facts import Code, Fact, fact
from leadline.analysis.layers.model import (
    DIRECTIONS,
    Figure,
    Flow,
    LayerFlow,
    Sizes,
    add_counts,
    add_in_flight,
    by_littles_law,
    measured,
    missing,
)
from leadline.analysis.layers.windows import Basis, Seconds, Window
from leadline.formats.zfs.iostat import IostatReport, IostatRow
from leadline.formats.zfs.iostat_sizes import RequestSizes
from leadline.formats.zfs.kstat import Txg
from leadline.inventory.layer import Layer, LayerKind
from leadline.metrics import Op

SOURCE = "zpool iostat -v"
_KINDS = {Op.READ: ("sync_read", "async_read"), Op.WRITE: ("sync_write", "async_write")}
_INTERVAL_S = 1.0
_LEAST_COVERED = 0.5
# Vdevs that hold no data of the pool (zpoolconcepts(7)).
_NO_DATA = frozenset({"logs", "cache", "spares"})
# A data vdev in a layout; other vdevs have their group before them.
_LAYOUT = re.compile(r"(?:^|, )\d+ x ([a-z]+\d?(?::\w+)*)(?: of (\d+))?")
_PARITY = re.compile(r"(?:raidz|draid)(?P<parity>[123]?)(?::(?P<data>\d+)d)?(?::\w+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clock:
    """When the intervals of `zpool iostat` lie: interval N begins at `first_s` + N - `first`, or up
    to `late_s` later. The program does not print when it began, and sleeps a second between two
    blocks in addition to the time to make one (cmd/zpool/zpool_main.c, fsleep). The rest of the
    watch may lie before, between or after its seconds."""

    first: int
    first_s: float
    late_s: float

    def begin_s(self, interval: int) -> float:
        return self.first_s + (interval - self.first) * _INTERVAL_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Requests of one class at one leaf vdev, sampled at the ends of `samples` intervals: mean and
    maximum in flight (`active`), and mean waiting (`pending`). `waited_s` is the mean wait of all
    requests, `served_s` their mean time at the device; None without `-l`."""

    active_mean: float
    active_most: float
    pending_mean: float
    samples: int
    waited_s: float | None
    served_s: float | None

    @property
    def length(self) -> float:
        return self.active_mean + self.pending_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsSamples:
    """What was recorded of ZFS in a trial. `requests` are those between its start and its end,
    `counters` the growth by kstat and counter, `groups` the transaction groups committed in
    between. `watched_s` are the moments between which `zpool iostat` printed, None if unknown.
    `missed` are the causes of missing records."""

    report: IostatReport | None = None
    requests: RequestSizes | None = None
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    groups: tuple[Txg, ...] = ()
    watched_s: tuple[float, float] | None = None
    missed: tuple[Fact, ...] = ()


def zfs_flow(layer: Layer, samples: ZfsSamples, windows: Mapping[Op, Window]) -> LayerFlow:
    """Return all leaf vdevs with data together; every disk of a mirror counts. Logs and caches are
    devices of their own and appear in the notes."""
    every = _leaves(samples.report) if samples.report else ()
    leaves = tuple(row for row in every if row.group not in _NO_DATA)
    clock = _clock(leaves, samples.watched_s)
    flows = {}
    basis = Basis.TOTALS
    covered: list[Seconds] = []
    for op in DIRECTIONS:
        window = windows.get(op)
        inside = _inside(leaves, window, clock) if window else ()
        if not window or not inside:
            continue
        basis = window.basis
        seconds = window.seconds
        if basis is Basis.WINDOW:
            seconds = len({row.interval for row in inside}) * _INTERVAL_S
        covered.append(_seconds_covered(inside, clock, seconds))
        flow = _flow(op, inside, seconds, samples.requests)
        if flow.rate.value or flow.bandwidth.value:
            flows[op] = flow
    unobserved = fact(Code.ZPOOL_NO_INTERVAL)
    if samples.report is None:
        unobserved = samples.missed[0] if samples.missed else fact(Code.ZPOOL_NOT_RECORDED)
    whole_pool = (fact(Code.ZPOOL_WHOLE),) if flows else ()
    return LayerFlow(
        kind=layer.kind,
        name=layer.name,
        devices=layer.devices,
        facts=layer.facts,
        basis=basis,
        flows=flows,
        in_flight=add_in_flight(flows.values(), fact(Code.NO_QUEUES)),
        unobserved=None if covered else unobserved,
        notes=(*whole_pool, *_other_vdevs(every), *samples.missed),
        seconds=covered[0] if len(set(covered)) == 1 else None,
        parts=len({row.name for row in leaves}),
    )


def queues(samples: ZfsSamples, windows: Mapping[Op, Window]) -> Mapping[str, Queue]:
    """Return by queue (`asyncq_write`) the data vdev with the longest one; empty without `-q`."""
    window = windows.get(Op.WRITE) or windows.get(Op.READ)
    if window is None or samples.report is None:
        return {}
    leaves = [row for row in _leaves(samples.report) if row.group not in _NO_DATA]
    inside = _inside(leaves, window, _clock(leaves, samples.watched_s))
    found: dict[str, Queue] = {}
    for vdev in dict.fromkeys(row.name for row in inside):
        rows = [row for row in inside if row.name == vdev]
        for column in rows[0].values:
            name = column.removesuffix("_activ")
            if name == column:
                continue
            queue = _queue(name, rows)
            if name not in found or queue.length > found[name].length:
                found[name] = queue
    return found


def _queue(name: str, rows: Sequence[IostatRow]) -> Queue:
    active = [row.values.get(f"{name}_activ") or 0.0 for row in rows]
    pending = [row.values.get(f"{name}_pend") or 0.0 for row in rows]
    kind, _, op = name.partition("_")
    return Queue(
        active_mean=sum(active) / len(active),
        active_most=max(active),
        pending_mean=sum(pending) / len(pending),
        samples=len(rows),
        waited_s=_mean_wait(f"{kind}_wait_{op}", op, rows),
        served_s=_mean_wait(f"disk_wait_{op}", op, rows),
    )


def write_factor(layout: str) -> float | None:
    """Return bytes written per byte of data for a layout (`2 x mirror of 2, log: 1 x disk`):
    copies, and parity of blocks that fill a row. None if vdevs differ or are unknown."""
    found = {_vdev_factor(*vdev) for vdev in _LAYOUT.findall(layout)}
    return found.pop() if len(found) == 1 else None


def _vdev_factor(name: str, size: str) -> float | None:
    members = int(size) if size else 1
    if name == "disk":
        return 1.0
    if name == "mirror":
        return float(members)
    striped = _PARITY.fullmatch(name)
    if striped is None:
        return None
    parity = int(striped["parity"] or 1)
    data = int(striped["data"]) if striped["data"] else members - parity
    return (data + parity) / data if data > 0 else None


def vdev_devices(layers: Sequence[LayerFlow]) -> LayerFlow | None:
    """Return the devices directly below ZFS; None if its vdevs are files, or there is no ZFS."""
    place = next((at for at, layer in enumerate(layers) if layer.kind is LayerKind.ZFS), None)
    below = layers[place + 1 : place + 2] if place is not None else ()
    return next((layer for layer in below if layer.kind is LayerKind.BLOCK), None)


def _leaves(report: IostatReport) -> tuple[IostatRow, ...]:
    """The rows of leaf vdevs in the measured intervals. Without -y the first interval is the
    average since the import; zfs-fuse has neither -y nor -l."""
    timed = any("disk_wait_read" in row.values for row in report.rows)
    first = 0 if report.since_boot is False or timed else 1
    rows = report.rows
    found = []
    for row, following in zip(rows, (*rows[1:], None), strict=True):
        deeper = following is not None and (following.depth or 0) > (row.depth or 0)
        if row.depth and not deeper and row.interval >= first:
            found.append(row)
    return tuple(found)


def _clock(leaves: Sequence[IostatRow], watched_s: tuple[float, float] | None) -> _Clock:
    intervals = {row.interval for row in leaves}
    first = min(intervals, default=0)
    if watched_s is None:
        return _Clock(first=first, first_s=0.0, late_s=_INTERVAL_S)
    begin_s, end_s = watched_s
    late_s = max(0.0, end_s - begin_s - len(intervals) * _INTERVAL_S)
    return _Clock(first=first, first_s=begin_s, late_s=late_s)


def _inside(leaves: Sequence[IostatRow], window: Window, clock: _Clock) -> tuple[IostatRow, ...]:
    """Rows of intervals whose middle lies in the window."""
    if window.basis is not Basis.WINDOW:
        return tuple(leaves)
    half_s = (_INTERVAL_S + clock.late_s) / 2
    inside = tuple(row for row in leaves if window.holds(clock.begin_s(row.interval) + half_s))
    covered = len({row.interval for row in inside}) * _INTERVAL_S
    return inside if covered >= _LEAST_COVERED * window.seconds else ()


def _seconds_covered(inside: Sequence[IostatRow], clock: _Clock, divided_by_s: float) -> Seconds:
    """Rates are of the true length of an interval: a second, or all together `late_s` more. At
    most the busiest interval was longer by all of that."""
    busiest = 0.0
    for op in DIRECTIONS:
        moved: dict[int, float] = {}
        for row in inside:
            rate = row.values.get(f"bandwidth_{op.value}") or 0.0
            moved[row.interval] = moved.get(row.interval, 0.0) + rate
        whole = sum(moved.values())
        busiest = max(busiest, max(moved.values()) / whole if whole else 0.0)
    spans: list[tuple[float, float]] = []
    for number in sorted({row.interval for row in inside}):
        begin_s, end_s = clock.begin_s(number), clock.begin_s(number + 1)
        if spans and spans[-1][1] == begin_s:
            begin_s = spans.pop()[0]
        spans.append((begin_s, end_s))
    return Seconds(
        spans=tuple(spans),
        late_s=clock.late_s,
        divided_by_s=divided_by_s,
        at_most_times=1 + busiest * clock.late_s / _INTERVAL_S,
    )


def _other_vdevs(leaves: Sequence[IostatRow]) -> tuple[Fact, ...]:
    """Log, cache and spare devices of the pool, and their rates."""
    notes = []
    for group in sorted({row.group for row in leaves} & _NO_DATA):
        rows = [row for row in leaves if row.group == group]
        seconds = len({row.interval for row in rows}) * _INTERVAL_S
        read, written = (
            sum(row.values.get(f"bandwidth_{op.value}") or 0.0 for row in rows) / seconds
            for op in DIRECTIONS
        )
        notes.append(fact(Code.ZPOOL_GROUP, group=group, read_bps=read, write_bps=written))
    return tuple(notes)


def _flow(op: Op, rows: Sequence[IostatRow], seconds: float, requests: RequestSizes | None) -> Flow:
    def per_s(*columns: str) -> float | None:
        found = [row.values[column] for row in rows for column in columns if column in row.values]
        known = [value for value in found if value is not None]
        return sum(known) * _INTERVAL_S / seconds if known else None

    rate = measured(
        per_s(f"operations_{op.value}"), SOURCE, fact(Code.NO_OPERATIONS, source=SOURCE)
    )
    latency = measured(
        _mean_wait(f"disk_wait_{op.value}", op.value, rows),
        f"{SOURCE} -l",
        fact(Code.NO_LATENCY, source=SOURCE),
    )
    active = per_s(f"syncq_{op.value}_activ", f"asyncq_{op.value}_activ")
    counts = add_counts(
        half
        for kind in _KINDS[op]
        if requests is not None and kind in requests.kinds
        for half in (requests.kinds[kind].individual, requests.kinds[kind].aggregated)
    )
    return Flow(
        op=op,
        rate=rate,
        bandwidth=measured(
            per_s(f"bandwidth_{op.value}"), SOURCE, fact(Code.NO_BYTES, source=SOURCE)
        ),
        merged=missing(Code.MERGED_AS_ONE),
        latency=latency,
        # Queues are sampled once a second; the waits of all requests are more exact.
        in_flight=Figure(value=active, source=f"{SOURCE} -q")
        if active is not None and latency.value is None
        else by_littles_law(rate, latency),
        sizes=Sizes(counts=counts, exact=False, source="zpool iostat -r")
        if any(counts.values())
        else None,
        sizes_absent=fact(Code.NO_SIZES, source="zpool iostat -r"),
    )


def _mean_wait(column: str, op: str, rows: Sequence[IostatRow]) -> float | None:
    """Mean seconds of all requests of that direction; None without the column."""
    pairs = [
        (rate, wait)
        for row in rows
        if (wait := row.values.get(column)) is not None
        and (rate := row.values.get(f"operations_{op}"))
    ]
    whole = sum(rate for rate, _ in pairs)
    return sum(rate * wait for rate, wait in pairs) / whole if whole else None
