"""Transaction groups: how much may be dirty, and how long a group stays open.

`zfs_dirty_data_max` has three thresholds below it (zfs(4); module/zfs/dsl_pool.c, vdev_queue.c): a
group is closed once it holds zfs_dirty_data_sync_percent of it (20), from 30 % more async writes
are let out, from 60 % each writer is delayed. A writer that has to wait is counted as
dmu_tx_dirty_throttle, and then as dmu_tx_dirty_over_max if it stood still, as dmu_tx_dirty_delay if
it was delayed (module/zfs/dmu_tx.c): they are the same writers, not to be added up.
"""

from __future__ import annotations

from collections.abc import Sequence

from leadline.analysis.layers.relevance.given import SOME, Given, of_fuse
from leadline.analysis.layers.relevance.model import Setting, can, cannot, not_known
from leadline.analysis.layers.words import percent
from leadline.formats.zfs.kstat import Txg
from leadline.units import format_latency, format_size

# A group that was open for that share of the timeout ended by it.
_BY_TIMEOUT = 0.9
_READS = "The trial reads: no group holds data of it."
_WAITS = ("dmu_tx_dirty_throttle", "dmu_tx_dirty_delay", "dmu_tx_dirty_over_max")


def dirty_data(given: Given) -> Setting:
    name = "zfs_dirty_data_max"
    if given.fuse:
        return of_fuse(name)
    value = given.told(name)
    if not given.writes:
        return cannot(name, value, _READS)
    counters = given.found.seen.zfs.counters.get("dmu_tx")
    if not counters:
        return not_known(name, value, "the counters of delayed writers (dmu_tx) were not kept")
    waits = {key: float(counters[key]) for key in _WAITS if key in counters}
    if any(waits.values()):
        times = max(waits.values())
        stopped = waits.get("dmu_tx_dirty_over_max", 0.0)
        text = f"Writers had to wait {times:,.0f} times for too much dirty data"
        text += f", {stopped:,.0f} of them until some was written." if stopped else "."
        return can(name, value, text, **waits)
    groups = given.found.seen.zfs.groups
    limit = int(value) if value.isascii() and value.isdecimal() else 0
    if not groups or not limit:
        fact = "no writer was delayed (dmu_tx), but how much of it was dirty was not kept"
        return not_known(name, value, fact, **waits)
    most = max(one.dirty_bytes for one in groups)
    close = given.limit("zfs_dirty_data_sync_percent")
    share = most / limit
    numbers = {**waits, "most_dirty_bytes": float(most), "dirty_share": share}
    said = (
        f"no writer was delayed, and the largest group held {format_size(most)}, {percent(share)}"
    )
    if share < close / 100:
        text = f"{said[:1].upper()}{said[1:]} of it; groups are closed at {close} %."
        return cannot(name, value, text, **numbers)
    text = f"Groups are closed at {close} % of it: {said}."
    return can(name, value, text, **numbers)


def timeout(given: Given) -> Setting:
    name = "zfs_txg_timeout"
    if given.fuse:
        return of_fuse(name)
    value, limit = given.told(name), given.limit(name)
    if not given.writes:
        return cannot(name, value, _READS)
    groups = given.found.seen.zfs.groups
    if not groups:
        return not_known(name, value, "no transaction group of the trial was kept (kstat txgs)")
    weights = _weights(groups)
    open_s = sum(one.open_s * weight for one, weight in zip(groups, weights, strict=True))
    sync_s = sum(one.sync_s * weight for one, weight in zip(groups, weights, strict=True))
    late = sum(
        weight
        for one, weight in zip(groups, weights, strict=True)
        if one.open_s >= _BY_TIMEOUT * limit
    )
    numbers = {"groups": float(len(groups)), "open_s": open_s, "sync_s": sync_s}
    numbers["by_timeout_share"] = late
    said = (
        f"a group with data is open for {format_latency(open_s)} and written in "
        f"{format_latency(sync_s)} on average, by {len(groups)} of them"
    )
    if late > SOME:
        text = f"{percent(late)} of the data is of groups that end by the timeout: {said}."
        return can(name, value, text, **numbers)
    text = f"Groups end before the timeout of {limit} s: {said}. Only a shorter one would end them."
    return cannot(name, value, text, **numbers)


def _weights(groups: Sequence[Txg]) -> list[float]:
    """Shares of the data: a pool at rest has a group each five seconds that holds nothing."""
    whole = sum(one.dirty_bytes for one in groups)
    return [one.dirty_bytes / whole if whole else 1 / len(groups) for one in groups]
