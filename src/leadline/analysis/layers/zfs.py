"""ZFS: what it gave its leaf vdevs, by `zpool iostat`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leadline.analysis.layers.model import DIRECTIONS, Basis, Figure, Flow, LayerFlow, by_little
from leadline.analysis.layers.sizes import Sizes, added
from leadline.analysis.layers.windows import Window
from leadline.archive.records import Layer
from leadline.formats.zfs.iostat import IostatReport, IostatRow
from leadline.formats.zfs.iostat_sizes import RequestSizes
from leadline.formats.zfs.kstat import Txg
from leadline.metrics import Op

SOURCE = "zpool iostat -v"
_KINDS = {Op.READ: ("sync_read", "async_read"), Op.WRITE: ("sync_write", "async_write")}
_INTERVAL_S = 1.0
_LEAST_COVERED = 0.5
_Values = Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Requests of one kind at one leaf vdev, of the ends of the intervals measured: mean and most
    in flight (`active`), and mean waiting for it (`pending`)."""

    active_mean: float
    active_most: float
    pending_mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsSeen:
    """What was kept of ZFS in a trial. `requests` are those between its start and its end,
    `counters` the growth of kstats by name of the kstat and counter, `groups` the transaction
    groups that were committed in between. `missed` says what did not come."""

    report: IostatReport | None = None
    requests: RequestSizes | None = None
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    groups: tuple[Txg, ...] = ()
    missed: tuple[str, ...] = ()


def zfs_flow(layer: Layer, seen: ZfsSeen, windows: Mapping[Op, Window]) -> LayerFlow:
    """All leaf vdevs together: of a mirror each side counts."""
    leaves = _leaves(seen.report) if seen.report else ()
    flows = {}
    basis = Basis.TOTALS
    covered = False
    for op in DIRECTIONS:
        window = windows.get(op)
        inside = _inside(leaves, window) if window else ()
        if not window or not inside:
            continue
        covered, basis = True, window.basis
        flow = _flow(op, inside, _seconds(inside, window), seen.requests)
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
        notes=seen.missed,
    )


def queues(report: IostatReport, windows: Mapping[Op, Window]) -> Mapping[str, Queue]:
    """By queue (`asyncq_write`), of the leaf vdev where it was longest; empty without -q."""
    window = windows.get(Op.WRITE) or windows.get(Op.READ)
    if window is None:
        return {}
    inside = _inside(_leaves(report), window)
    found: dict[str, Queue] = {}
    for row in {one.name for one in inside}:
        mine = [one for one in inside if one.name == row]
        for column in mine[0].values:
            if not column.endswith("_activ"):
                continue
            name = column.removesuffix("_activ")
            active = [one.values.get(column) or 0.0 for one in mine]
            pending = [one.values.get(f"{name}_pend") or 0.0 for one in mine]
            queue = Queue(
                active_mean=sum(active) / len(active),
                active_most=max(active),
                pending_mean=sum(pending) / len(pending),
            )
            if name not in found or queue.active_mean > found[name].active_mean:
                found[name] = queue
    return found


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


def _inside(leaves: Sequence[IostatRow], window: Window) -> tuple[IostatRow, ...]:
    """Rows of intervals, which begin with the watch, of which the middle lies in a window."""
    if window.basis is Basis.TOTALS:
        return tuple(leaves)
    first = min((one.interval for one in leaves), default=0)
    inside = tuple(
        one for one in leaves if window.holds((one.interval - first + 0.5) * _INTERVAL_S)
    )
    covered = len({one.interval for one in inside}) * _INTERVAL_S
    return inside if covered >= _LEAST_COVERED * window.seconds else ()


def _seconds(inside: Sequence[IostatRow], window: Window) -> float:
    if window.basis is Basis.TOTALS:
        return window.seconds
    return len({one.interval for one in inside}) * _INTERVAL_S


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
    pairs = [
        (rate, wait)
        for row in rows
        if (wait := row.values.get(f"disk_wait_{op.value}")) is not None
        and (rate := row.values.get(f"operations_{op.value}"))
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
