"""Properties of the dataset: record size, compression, sync, cache (zfsprops(7))."""

from __future__ import annotations

from math import comb

from leadline.analysis.layers.relevance.given import SOME, Given
from leadline.analysis.layers.relevance.model import Setting, can, cannot, not_known
from leadline.analysis.layers.sweep import RecordSweep, apart
from leadline.analysis.layers.words import percent
from leadline.metrics import Op
from leadline.units import format_bandwidth, format_size

# Sizes that grow by a quarter with the record size follow it.
_FOLLOWS = 1.25
# Medians of throughput that are taken for equal, as a ratio.
_NEAR = 1.1
# Two trials of each lie apart by chance one time in three.
_LEAST_TRIALS = 3
# Vdevs that move so many times what was asked of them do it for the sake of whole records.
_AMPLIFIED = 2.0
# They give up early on what does not compress: lz4, which `on` is, and those that only look once
# (module/zfs/lz4_zfs.c, zle.c). gzip and zstd up to 2.1 do all of the work first; zstd of 2.2 gives
# up early from level 3 on, of records of 128 KiB and more (module/zstd/zfs_zstd.c).
_CHEAP = frozenset({"off", "on", "lz4", "lzjb", "zle", ""})


def record_size(given: Given) -> Setting:
    name = "volblocksize" if given.volume else "recordsize"
    value = given.zfs.facts.get("recordsize_bytes", "")
    sweep = given.sweep
    if sweep is not None and sweep.record_sizes > 1:
        return _by_sweep(sweep, name, value)
    record = given.record_bytes
    amplified = _amplified(given)
    if record and amplified is not None and amplified > _AMPLIFIED:
        block = given.found.evidence.block_bytes or 0
        verb = "write" if given.op is Op.WRITE else "read"
        text = (
            f"A request of {format_size(block)} touches a record of {format_size(record)}, and the "
            f"vdevs {verb} {amplified:.3g} times the bytes that are asked for."
        )
        return can(name, value, text, amplification=amplified, record_bytes=record)
    flow = given.at_vdevs or given.at_devices
    size = flow.mean_size_bytes if flow else None
    if not record or not size:
        return not_known(name, value, "no size of requests below ZFS was counted")
    share = size / record
    said = f"requests at the devices have {format_size(size)} on average, {share:.2g} records"
    numbers = {"mean_size_bytes": size, "record_bytes": float(record)}
    if 0.5 <= share <= 2:
        return can(name, value, f"The size of requests follows it: {said}.", **numbers)
    return not_known(name, value, f"{said}; only cells of other record sizes can tell", **numbers)


def _amplified(given: Given) -> float | None:
    """Bytes at the vdevs for each that the engine asked for, where it asks for parts of records."""
    record, block = given.record_bytes, given.found.evidence.block_bytes
    asked, done = given.found.engine.flows.get(given.op), given.at_vdevs
    if given.found.evidence.stream or not record or not block or block >= record:
        return None
    if asked is None or done is None or not asked.bandwidth.value or not done.bandwidth.value:
        return None
    return done.bandwidth.value / asked.bandwidth.value / given.written_times


def _by_sweep(sweep: RecordSweep, name: str, value: str) -> Setting:
    rows = sweep.usable
    if len({one.record_bytes for one in rows}) < 2:
        refusing = sorted({code for one in sweep.rows for code in one.refused})
        fact = f"the audit refuses what the record sizes were measured with ({', '.join(refusing)})"
        return not_known(name, value, fact)
    least, most = rows[0], rows[-1]
    ratio = most.throughput_bps / least.throughput_bps
    between = (
        f"from {format_size(least.record_bytes)} to {format_size(most.record_bytes)} "
        f"throughput goes from {format_bandwidth(least.throughput_bps)} to "
        f"{format_bandwidth(most.throughput_bps)} MiB/s"
    )
    numbers = {
        "least_record_bytes": float(least.record_bytes),
        "most_record_bytes": float(most.record_bytes),
        "throughput_ratio": ratio,
    }
    sizes = ""
    if least.block_bytes and most.block_bytes:
        numbers["size_ratio"] = most.block_bytes / least.block_bytes
        sizes = (
            f", requests to the devices from {format_size(least.block_bytes)} to "
            f"{format_size(most.block_bytes)}"
        )
    trials = min(len(least.throughputs_bps), len(most.throughputs_bps))
    if trials < _LEAST_TRIALS:
        each = "one trial" if trials == 1 else f"{trials} trials"
        return not_known(name, value, f"{between}{sizes}, of {each} each", **numbers)
    if apart(least.throughputs_bps, most.throughputs_bps):
        once_in = comb(len(least.throughputs_bps) + len(most.throughputs_bps), trials) // 2
        numbers["chance"] = 1 / once_in
        text = (
            f"In this run {between}{sizes}, and no trial of one lies among those of the other, "
            f"as by chance one time in {once_in}."
        )
        return can(name, value, text, **numbers)
    grows = numbers.get("size_ratio", _FOLLOWS) >= _FOLLOWS
    fact = f"{between}{sizes}, and their trials overlap"
    # A few trials that overlap do not show that nothing changes: their medians must be near, too.
    if grows or not 1 / _NEAR <= ratio <= _NEAR:
        return not_known(name, value, fact, **numbers)
    return cannot(name, value, f"In this run {fact}.", **numbers)


def compression(given: Given) -> Setting:
    name, value = "compression", given.zfs.facts.get("compression", "")
    if not given.found.evidence.block_bytes:
        return not_known(name, value, "how well the job file's data compresses")
    if given.writes and value not in _CHEAP:
        fact = f"what Leadline writes does not compress, but {value} spends processor time on it"
        return not_known(name, value, fact)
    text = (
        "What Leadline writes does not compress; of other data as many bytes are saved as it does."
    )
    return cannot(name, value, text)


def sync(given: Given) -> Setting:
    facts, evidence = given.zfs.facts, given.found.evidence
    name = "sync, logbias"
    value = ", ".join(f"{key}={facts[key]}" for key in ("sync", "logbias") if key in facts)
    how = facts.get("sync", "")
    if not given.writes:
        return cannot(name, value, "The trial reads; both are about writes.")
    if how == "always":
        return can(name, value, "Writes are synchronous (sync=always): they go to the intent log.")
    if evidence.fsyncs and how == "disabled":
        text = "The workload's fsync is answered before anything is on disk (sync=disabled)."
        return can(name, value, text)
    if evidence.fsyncs:
        text = "Writes are synchronous (the workload's fsync): they go to the intent log."
        return can(name, value, text)
    if not evidence.stream and not evidence.block_bytes:
        return not_known(name, value, "what the job file asks for is not known")
    what = "A receive" if evidence.stream else "The workload"
    return cannot(name, value, f"{what} asks for no synchronous write, and none is forced.")


def cache(given: Given) -> Setting:
    name, value = "primarycache", given.zfs.facts.get("primarycache", "")
    evidence, zfs = given.found.evidence, given.zfs
    if given.op is Op.READ and evidence.arc_hit_share is not None:
        share = evidence.arc_hit_share
        text = f"The cache answered {percent(share)} of the accesses."
        if share > SOME:
            return can(name, value, text, arc_hit_share=share)
        if value == "all":
            return cannot(name, value, text, arc_hit_share=share)
        fact = f"the cache, which is to keep no data ({value or 'not told'}), answered none"
        return not_known(name, value, fact, arc_hit_share=share)
    if given.op is Op.WRITE and zfs.observed:
        moved = {op: flow.bandwidth.value or 0.0 for op, flow in zfs.flows.items()}
        whole = sum(moved.values())
        share = moved.get(Op.READ, 0.0) / whole if whole else 0.0
        text = f"{percent(share)} of what the devices move is read"
        if share <= SOME:
            return cannot(name, value, f"{text}: there is nothing to keep.", read_share=share)
        text += ", which a cache might have answered."
        if evidence.stream:
            text += " It is what is sent, and what the comparison between streams reads."
        return can(name, value, text, read_share=share)
    return not_known(name, value, "neither the cache's counters nor reads below it")
