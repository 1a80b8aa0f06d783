"""Queues of the vdevs: what is put together, how many are in flight, how many vdevs there are.

Each leaf vdev has a queue for each class of I/O with bounds of its own (module/zfs/vdev_queue.c,
zfs(4)): synchronous are reads that somebody waits for and writes of the intent log, since 2.3
direct I/O as well; asynchronous are reads ahead and writes of transaction groups. Of the latter
between the least and the greatest number are in flight, by how much is dirty; of other classes a
request waits only once the greatest number is.
"""

from __future__ import annotations

from enum import Enum

from leadline.analysis.layers.relevance.given import Given, of_fuse
from leadline.analysis.layers.relevance.model import Setting, can, cannot, not_known
from leadline.analysis.layers.words import percent
from leadline.analysis.layers.zfs import Queue
from leadline.archive.records import LayerKind
from leadline.metrics import Op
from leadline.units import format_latency, format_size

# Queues that are looked at less often tell nothing of a load that comes in bursts.
_SAMPLES = 5
# Requests that wait for that share of the time that the device then takes do queue.
_WAITED = 0.5
_ASYNC_WRITE = "async_write"


class _Crowd(Enum):
    FULL = "full"
    WAITING = "waiting"
    FREE = "free"
    NOT_KNOWN = "not known"


def aggregation(given: Given) -> Setting:
    name = "zfs_vdev_aggregation_limit"
    if given.fuse:
        return of_fuse(name)
    turning = given.devices is not None and given.devices.facts.get("rotational") == "yes"
    name = name if turning else f"{name}_non_rotating"
    limit, record, value = given.limit(name), given.record_bytes, given.told(name)
    if not limit:
        return can(name, value, "It is 0: no requests are put together.")
    # Vdevs that cut blocks into columns get smaller pieces than a record.
    if record and record * 2 > limit and not given.striped:
        return _too_large(given, name, record, limit)
    kinds = given.found.seen.zfs.requests
    ends = given.op.value
    counted = [kinds.kinds[one] for one in kinds.kinds if one.endswith(ends)] if kinds else []
    alone = sum(sum(one.individual.values()) for one in counted)
    joined = [size for one in counted for size, count in one.aggregated.items() if count]
    together = sum(sum(one.aggregated.values()) for one in counted)
    if not alone and not together:
        return not_known(name, value, "sizes of requests (`zpool iostat -r`) were not kept")
    share = together / (alone + together)
    largest = max(joined, default=0)
    numbers = {"aggregated_share": share, "largest_bytes": largest, "limit_bytes": limit}
    # As many whole records as fit, of which a bucket tells the size to within a factor of two.
    most = limit // record * record if record and not given.striped else limit // 2
    if largest * 2 > most:
        text = (
            f"{percent(share)} of the requests are put together of several, and the largest of "
            f"them reach the limit of {format_size(limit)}."
        )
        return can(name, value, text, **numbers)
    reach = f"none has {format_size(largest * 2)} or more" if largest else "there is none"
    text = (
        f"{percent(share)} of the requests are put together of several; {reach}, so that the limit "
        f"of {format_size(limit)} cuts none."
    )
    return cannot(name, value, text, **numbers)


def _too_large(given: Given, name: str, record: int, limit: int) -> Setting:
    """Two records are more than the limit: it matters if there is a neighbour in the queue."""
    value = given.told(name)
    numbers = {"record_bytes": float(record), "limit_bytes": float(limit)}
    said = (
        f"two records of {format_size(record)} are larger than the limit of {format_size(limit)}, "
        "so that none are put together"
    )
    queue, most, _ = _busiest(given)
    crowd = _crowd(queue, most)
    if crowd is _Crowd.FREE:
        text = f"{said[:1].upper()}{said[1:]}; but no request waits beside which another could go."
        return cannot(name, value, text, **numbers)
    if crowd is _Crowd.NOT_KNOWN:
        fact = f"{said}; whether neighbours wait in the queue was not recorded"
        return not_known(name, value, fact, **numbers)
    text = (
        f"{said[:1].upper()}{said[1:]}, and requests wait: with a limit of several records "
        "neighbours among them would go as one."
    )
    return can(name, value, text, **numbers)


def in_flight(given: Given) -> Setting:
    """Is the queue that the vdev works on as full as it may be?"""
    queue, limit, kind = _busiest(given)
    name = f"zfs_vdev_{kind}_max_active"
    if given.fuse:
        return of_fuse(name)
    value = given.told(name)
    if queue is None:
        return not_known(name, value, "the queues (`zpool iostat -q`) were not recorded")
    numbers = {
        "active_mean": queue.active_mean,
        "active_most": queue.active_most,
        "pending_mean": queue.pending_mean,
        "limit": float(limit),
    }
    said = (
        f"{queue.active_mean:.3g} requests are in flight at the vdev on average, "
        f"{queue.active_most:.0f} at most, of {limit} allowed, and {queue.pending_mean:.3g} wait"
    )
    if queue.waited_s is not None and queue.served_s is not None:
        numbers |= {"waited_s": queue.waited_s, "served_s": queue.served_s}
        said += (
            f"; a request waits {format_latency(queue.waited_s)} and then takes "
            f"{format_latency(queue.served_s)}"
        )
    crowd = _crowd(queue, limit)
    if crowd is _Crowd.FULL:
        return can(name, value, f"The queue gets full: {said}.", **numbers)
    if crowd is _Crowd.FREE:
        return cannot(name, value, f"The limit is not reached: {said}.", **numbers)
    if crowd is _Crowd.NOT_KNOWN:
        fact = f"{said}, by {queue.samples} looks, one a second"
        return not_known(name, value, fact, **numbers)
    if kind == _ASYNC_WRITE:
        low = name.replace("max", "min")
        text = (
            f"Requests wait while fewer than allowed are in flight: {said}. By how much is dirty, "
            f"between {low} and it are let out."
        )
        return can(name, value, text, **numbers)
    fact = f"requests wait, though the queue was not seen full: {said}"
    return not_known(name, value, fact, **numbers)


def vdevs(given: Given) -> Setting:
    name = "number of vdevs"
    value = given.layout or str(len(given.zfs.devices) or 1)
    queue, limit, _ = _busiest(given)
    crowd = _crowd(queue, limit)
    if queue is not None and crowd in (_Crowd.FULL, _Crowd.WAITING):
        text = (
            f"Requests wait for the vdev ({queue.pending_mean:.3g} on average): each further one "
            "has a queue of its own."
        )
        return can(name, value, text, pending_mean=queue.pending_mean)
    if queue is not None and crowd is _Crowd.FREE:
        text = f"No request waits for the vdev ({queue.pending_mean:.3g} on average)."
        return cannot(name, value, text, pending_mean=queue.pending_mean)
    above = given.at_devices
    below = next((one for one in given.found.layers if one.kind is LayerKind.IMAGE), None)
    flow = below.flows.get(given.op) if below else None
    waiting = above.in_flight.value if above else None
    served = flow.in_flight.value if flow else None
    if waiting is not None and served is not None and waiting >= 2 and served < waiting / 2:
        text = (
            f"{waiting:.3g} requests are in flight at the device and {served:.3g} at the image: "
            "what lies between serves few at once, and each further vdev brings its own."
        )
        return can(name, value, text, device_in_flight=waiting, image_in_flight=served)
    if queue is not None:
        return not_known(name, value, f"its queues were looked at {queue.samples} times only")
    return not_known(name, value, "the queues of the vdevs (`zpool iostat -q`) were not recorded")


def _busiest(given: Given) -> tuple[Queue | None, int, str]:
    """Of the trial's direction the queue in which most is, what it may have in flight, and its
    class (`async_write`)."""
    write = given.op is Op.WRITE
    usual, other = ("async", "sync") if write else ("sync", "async")
    every = given.queues
    told = {
        kind: every[f"{kind}q_{given.op.value}"]
        for kind in (usual, other)
        if f"{kind}q_{given.op.value}" in every
    }
    # Of two that are alike the usual one, which stands first.
    kind = max(told, key=lambda one: told[one].length, default=usual)
    name = f"{kind}_{given.op.value}"
    return told.get(kind), given.limit(f"zfs_vdev_{name}_max_active"), name


def _crowd(queue: Queue | None, limit: int) -> _Crowd:
    if queue is None:
        return _Crowd.NOT_KNOWN
    if queue.active_most >= limit:
        return _Crowd.FULL
    known = queue.waited_s is not None and bool(queue.served_s)
    if queue.pending_mean >= 1:
        return _Crowd.WAITING
    if known and (queue.waited_s or 0.0) > _WAITED * (queue.served_s or 0.0):
        return _Crowd.WAITING
    # Waits are of all requests; a queue is looked at for a moment of each second.
    return _Crowd.FREE if known or queue.samples >= _SAMPLES else _Crowd.NOT_KNOWN
