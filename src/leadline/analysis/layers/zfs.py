"""ZFS: what it gave its leaf vdevs, by `zpool iostat`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leadline.analysis.layers.model import (
    DIRECTIONS,
    Basis,
    Figure,
    Flow,
    LayerFlow,
    Seconds,
    Sizes,
    Window,
    added,
    by_little,
)
from leadline.formats.zfs.iostat import IostatReport, IostatRow
from leadline.formats.zfs.iostat_sizes import RequestSizes
from leadline.formats.zfs.kstat import Txg
from leadline.inventory.layer import Layer, LayerKind
from leadline.metrics import Op
from leadline.units import format_bandwidth

SOURCE = "zpool iostat -v"
_KINDS = {Op.READ: ("sync_read", "async_read"), Op.WRITE: ("sync_write", "async_write")}
_INTERVAL_S = 1.0
_LEAST_COVERED = 0.5
# Vdevs beside those that hold data (zpoolconcepts(7)).
_BESIDE = frozenset({"logs", "cache", "spares"})
# A vdev of data in a layout; others have their group before them.
_LAYOUT = re.compile(r"(?:^|, )\d+ x ([a-z]+\d?(?::\w+)*)(?: of (\d+))?")
_PARITY = re.compile(r"(?:raidz|draid)(?P<parity>[123]?)(?::(?P<data>\d+)d)?(?::\w+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clock:
    """When the intervals of `zpool iostat` lie: interval N of the report begins at `first_s` + N -
    `first`, or up to `late_s` later. The program does not tell when it began, and sleeps a second
    between two blocks beside the time that it takes to make one (cmd/zpool/zpool_main.c, fsleep),
    so that all of the watch that its whole seconds leave over may lie before, between or behind."""

    first: int
    first_s: float
    late_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Requests of one kind at one leaf vdev, by `samples` at the ends of the intervals measured:
    mean and most in flight (`active`), and mean waiting for it (`pending`). `waited_s` is how long
    a request waited on average, `served_s` how long the device then took, of all requests, None
    where that is not told (-l)."""

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
class ZfsSeen:
    """What was kept of ZFS in a trial. `requests` are those between its start and its end,
    `counters` the growth of kstats by name of the kstat and counter, `groups` the transaction
    groups that were committed in between. `watched_s` are the moments between which `zpool iostat`
    printed, None where they are not known. `missed` says what did not come."""

    report: IostatReport | None = None
    requests: RequestSizes | None = None
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    groups: tuple[Txg, ...] = ()
    watched_s: tuple[float, float] | None = None
    missed: tuple[str, ...] = ()


def zfs_flow(layer: Layer, seen: ZfsSeen, windows: Mapping[Op, Window]) -> LayerFlow:
    """All leaf vdevs that hold data together: of a mirror each side counts. Logs and caches, which
    are devices of their own, are left to `notes`."""
    every = _leaves(seen.report) if seen.report else ()
    leaves = tuple(one for one in every if one.group not in _BESIDE)
    clock = _clock(leaves, seen.watched_s)
    flows = {}
    basis = Basis.TOTALS
    covered: list[Seconds] = []
    for op in DIRECTIONS:
        window = windows.get(op)
        inside = _inside(leaves, window, clock) if window else ()
        if not window or not inside:
            continue
        basis = window.basis
        seconds = _seconds(inside, window)
        covered.append(_counted_over(inside, clock, seconds))
        flow = _flow(op, inside, seconds, seen.requests)
        if flow.rate.value or flow.bandwidth.value:
            flows[op] = flow
    return LayerFlow(
        kind=layer.kind,
        name=layer.name,
        devices=layer.devices,
        facts=layer.facts,
        basis=basis,
        flows=flows,
        in_flight=_together(flows),
        unobserved="" if covered else _why_not(seen),
        notes=(*_whole_pool(flows), *_beside(every), *seen.missed),
        seconds=covered[0] if len(set(covered)) == 1 else None,
        parts=len({one.name for one in leaves}),
    )


def queues(seen: ZfsSeen, windows: Mapping[Op, Window]) -> Mapping[str, Queue]:
    """By queue (`asyncq_write`), of the leaf vdev with data where it was longest; empty without
    -q."""
    window = windows.get(Op.WRITE) or windows.get(Op.READ)
    if window is None or seen.report is None:
        return {}
    leaves = [one for one in _leaves(seen.report) if one.group not in _BESIDE]
    inside = _inside(leaves, window, _clock(leaves, seen.watched_s))
    found: dict[str, Queue] = {}
    for row in {one.name for one in inside}:
        mine = [one for one in inside if one.name == row]
        for column in mine[0].values:
            if not column.endswith("_activ"):
                continue
            name = column.removesuffix("_activ")
            queue = _queue(name, mine)
            if name not in found or queue.length > found[name].length:
                found[name] = queue
    return found


def _queue(name: str, rows: Sequence[IostatRow]) -> Queue:
    active = [one.values.get(f"{name}_activ") or 0.0 for one in rows]
    pending = [one.values.get(f"{name}_pend") or 0.0 for one in rows]
    kind, _, op = name.partition("_")
    return Queue(
        active_mean=sum(active) / len(active),
        active_most=max(active),
        pending_mean=sum(pending) / len(pending),
        samples=len(rows),
        waited_s=_mean_wait(f"{kind}_wait_{op}", op, rows),
        served_s=_mean_wait(f"disk_wait_{op}", op, rows),
    )


def written_times(layout: str) -> float | None:
    """How often a byte is written to vdevs of a layout (`2 x mirror of 2, log: 1 x disk`): copies,
    and parity at its best, of blocks that fill a row. None where vdevs differ, or are not known."""
    found = {_times(kind) for kind in _LAYOUT.findall(layout)}
    return found.pop() if len(found) == 1 else None


def _times(kind: tuple[str, str]) -> float | None:
    name, told = kind
    members = int(told) if told else 1
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
    """The devices right below ZFS; None where its vdevs are files, or there is no ZFS."""
    place = next((at for at, one in enumerate(layers) if one.kind is LayerKind.ZFS), None)
    below = layers[place + 1 : place + 2] if place is not None else ()
    return next((one for one in below if one.kind is LayerKind.BLOCK), None)


def _why_not(seen: ZfsSeen) -> str:
    if seen.report is None:
        return next(iter(seen.missed), "`zpool iostat` was not recorded during the trial")
    return "`zpool iostat` told no interval of the seconds measured"


def _leaves(report: IostatReport) -> tuple[IostatRow, ...]:
    """The rows of leaf vdevs of the intervals that measured something. What -y leaves out, the
    average since the import, stands first without it, as zfs-fuse knows no -y nor -l."""
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
    numbers = [one.interval for one in leaves]
    first, count = min(numbers, default=0), len(set(numbers))
    if watched_s is None:
        return _Clock(first=first, first_s=0.0, late_s=_INTERVAL_S)
    begin_s, end_s = watched_s
    late_s = max(0.0, end_s - begin_s - count * _INTERVAL_S)
    return _Clock(first=first, first_s=begin_s, late_s=late_s)


def _inside(leaves: Sequence[IostatRow], window: Window, clock: _Clock) -> tuple[IostatRow, ...]:
    """Rows of intervals of which the middle lies in a window."""
    if window.basis is not Basis.WINDOW:
        return tuple(leaves)
    middle_s = clock.first_s + (_INTERVAL_S + clock.late_s) / 2
    inside = tuple(
        one for one in leaves if window.holds((one.interval - clock.first) * _INTERVAL_S + middle_s)
    )
    covered = len({one.interval for one in inside}) * _INTERVAL_S
    return inside if covered >= _LEAST_COVERED * window.seconds else ()


def _counted_over(inside: Sequence[IostatRow], clock: _Clock, divided_by_s: float) -> Seconds:
    """Rates are of the true length of an interval, which is a second or, all together, `late_s`
    more: at most the busiest one was longer by all of that."""
    busiest = 0.0
    for op in DIRECTIONS:
        moved: dict[int, float] = {}
        for row in inside:
            rate = row.values.get(f"bandwidth_{op.value}") or 0.0
            moved[row.interval] = moved.get(row.interval, 0.0) + rate
        whole = sum(moved.values())
        busiest = max(busiest, max(moved.values()) / whole if whole else 0.0)
    return Seconds(
        spans=_spans(inside, clock),
        late_s=clock.late_s,
        divided_by_s=divided_by_s,
        at_most_times=1 + busiest * clock.late_s / _INTERVAL_S,
    )


def _spans(inside: Sequence[IostatRow], clock: _Clock) -> tuple[tuple[float, float], ...]:
    """The seconds of the intervals, those that follow each other as one."""
    spans: list[tuple[float, float]] = []
    for number in sorted({one.interval for one in inside}):
        begin_s = clock.first_s + (number - clock.first) * _INTERVAL_S
        if spans and spans[-1][1] == begin_s:
            begin_s = spans.pop()[0]
        spans.append((begin_s, clock.first_s + (number - clock.first + 1) * _INTERVAL_S))
    return tuple(spans)


def _seconds(inside: Sequence[IostatRow], window: Window) -> float:
    if window.basis is not Basis.WINDOW:
        return window.seconds
    return len({one.interval for one in inside}) * _INTERVAL_S


def _whole_pool(flows: Mapping[Op, Flow]) -> tuple[str, ...]:
    return ("`zpool iostat` counts the whole pool, its other datasets as well",) if flows else ()


def _beside(leaves: Sequence[IostatRow]) -> tuple[str, ...]:
    """What else the pool has, and how much it did."""
    told = []
    for group in sorted({one.group for one in leaves} & _BESIDE):
        mine = [one for one in leaves if one.group == group]
        count = len({one.interval for one in mine}) * _INTERVAL_S
        moved = {
            word: sum(one.values.get(f"bandwidth_{op}") or 0.0 for one in mine) / count
            for op, word in (("read", "read"), ("write", "written"))
        }
        rates = ", ".join(f"{format_bandwidth(rate)} MiB/s {word}" for word, rate in moved.items())
        told.append(f"its {group} are not among its figures ({rates})")
    return tuple(told)


def _flow(op: Op, rows: Sequence[IostatRow], seconds: float, requests: RequestSizes | None) -> Flow:
    rate = _total(rows, f"operations_{op.value}", seconds)
    latency = _latency(op, rows)
    active = _active(op, rows, seconds)
    delay = Figure.of(latency, f"{SOURCE} -l", "this ZFS does not tell waits (-l)")
    measured = Figure.of(rate, SOURCE, "it tells no operations")
    sizes = _sizes(op, requests)
    return Flow(
        op=op,
        rate=measured,
        bandwidth=Figure.of(_total(rows, f"bandwidth_{op.value}", seconds), SOURCE, "not told"),
        merged=Figure(absent="aggregated requests are counted as one each, not by their parts"),
        latency=delay,
        # Queues are counted at one moment of each second: the waits of all requests tell more.
        in_flight=Figure(value=active, source=f"{SOURCE} -q")
        if active is not None and latency is None
        else by_little(measured, delay),
        sizes=sizes,
        sizes_absent="" if sizes else "this ZFS does not tell sizes (-r), or they were not kept",
    )


def _total(rows: Sequence[IostatRow], column: str, seconds: float) -> float | None:
    told = [value for row in rows if (value := row.values.get(column)) is not None]
    return sum(told) * _INTERVAL_S / seconds if told else None


def _latency(op: Op, rows: Sequence[IostatRow]) -> float | None:
    return _mean_wait(f"disk_wait_{op.value}", op.value, rows)


def _mean_wait(column: str, op: str, rows: Sequence[IostatRow]) -> float | None:
    """Of all requests of that direction; None where the column is not told."""
    pairs = [
        (rate, wait)
        for row in rows
        if (wait := row.values.get(column)) is not None
        and (rate := row.values.get(f"operations_{op}"))
    ]
    whole = sum(rate for rate, _ in pairs)
    return sum(rate * wait for rate, wait in pairs) / whole if whole else None


def _active(op: Op, rows: Sequence[IostatRow], seconds: float) -> float | None:
    """Requests at the devices, synchronous and asynchronous together, as counted at the end of
    each interval."""
    columns = [f"{queue}_{op.value}_activ" for queue in ("syncq", "asyncq")]
    told = [row.values[column] or 0.0 for row in rows for column in columns if column in row.values]
    return sum(told) * _INTERVAL_S / seconds if told else None


def _sizes(op: Op, requests: RequestSizes | None) -> Sizes | None:
    if requests is None:
        return None
    parts = [
        half
        for kind in _KINDS[op]
        if kind in requests.kinds
        for half in (requests.kinds[kind].individual, requests.kinds[kind].aggregated)
    ]
    counts = added(parts)
    if not any(counts.values()):
        return None
    return Sizes(counts=counts, exact=False, source="zpool iostat -r")


def _together(flows: Mapping[Op, Flow]) -> Figure:
    known = [one.in_flight.value for one in flows.values() if one.in_flight.value is not None]
    if not known or len(known) < len(flows):
        return Figure(absent="this ZFS does not tell its queues (-q)")
    return Figure(value=sum(known), source=next(iter(flows.values())).in_flight.source)
