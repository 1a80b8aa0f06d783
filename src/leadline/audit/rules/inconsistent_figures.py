"""inconsistent-figures: numbers of one result that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import JobEvidence
from leadline.audit.rule import Doubt, Rule
from leadline.findings import Severity
from leadline.formats.output import Latency, Operation

# Real fio 3.x results agree to 0.1 % (methodology, 11,500 files); the rest is a margin.
TOLERANCE = 0.005
# fio before 3.6 gives bandwidth in whole KiB/s only.
BANDWIDTH_STEP_BPS = 1024.0
# fio gives runtimes in whole milliseconds.
RUNTIME_STEP_S = 0.001


def check(evidence: JobEvidence) -> Iterator[Doubt]:
    # I/Os in flight when a ramp ends count for latency or bytes, not for IOPS: up to the depth.
    slack = evidence.asked_depth + 1
    for one in evidence.job.operations:
        faults = [*_rates(one, slack, _block_size(evidence)), *_latencies(one, slack)]
        if faults:
            yield Doubt(
                severity=Severity.ERROR,
                op=one.op,
                evidence={
                    "iops": one.iops,
                    "runtime_s": one.runtime_s,
                    "total_ios": one.total_ios,
                    "bandwidth_bps": one.bandwidth_bps,
                    "io_bytes": one.io_bytes,
                },
                message=f"The figures contradict each other: {'; '.join(faults)}.",
                remedy="Take the result from the raw output of the tool again; do not use it "
                "while its origin (edited, added up, other units) is not known.",
            )


def _rates(one: Operation, slack: int, block_size: int | None) -> Iterator[str]:
    if not one.runtime_s:
        return
    relative = TOLERANCE + RUNTIME_STEP_S / one.runtime_s
    ios = one.iops * one.runtime_s
    if abs(ios - one.total_ios) > relative * one.total_ios + 1:
        yield f"{one.iops:.1f} IOPS for {one.runtime_s:.3f} s are {ios:.0f} I/Os, not " + str(
            one.total_ios
        )
    moved = one.bandwidth_bps * one.runtime_s
    if abs(moved - one.io_bytes) > relative * one.io_bytes + BANDWIDTH_STEP_BPS * one.runtime_s:
        yield f"the bandwidth times the runtime is {moved:.0f} bytes, not {one.io_bytes}"
    if block_size is not None:
        sized = one.total_ios * block_size
        if abs(sized - one.io_bytes) > TOLERANCE * one.io_bytes + slack * block_size:
            yield (
                f"{one.total_ios} I/Os of {block_size} bytes are {sized} bytes, not {one.io_bytes}"
            )


def _latencies(one: Operation, slack: int) -> Iterator[str]:
    parts = (("submission", one.submission), ("completion", one.completion), ("total", one.total))
    for name, latency in parts:
        if latency is not None:
            yield from _latency(name, latency, one, slack)


def _latency(name: str, latency: Latency, one: Operation, slack: int) -> Iterator[str]:
    # fio keeps the mean as a float and the extremes as whole nanoseconds.
    if not latency.min_s - 1e-9 <= latency.mean_s <= latency.max_s + 1e-9:
        yield (
            f"the mean {name} latency {latency.mean_s * 1e6:.3f} us lies outside its extremes "
            f"{latency.min_s * 1e6:.3f} to {latency.max_s * 1e6:.3f} us"
        )
    if abs(latency.count - one.total_ios) > TOLERANCE * one.total_ios + slack:
        yield f"{latency.count} {name} latencies of {one.total_ios} I/Os"
    counted = latency.histogram.count if latency.histogram else latency.count
    if abs(counted - latency.count) > TOLERANCE * latency.count + 1:
        yield f"the {name} histogram holds {counted} of {latency.count} latencies"


def _block_size(evidence: JobEvidence) -> int | None:
    """The one block size of the entry; None where there are several or nobody knows."""
    raw = evidence.job.options.raw
    mixed = {"bsrange", "blocksize_range", "bssplit", "bs_unaligned", "kb_base"} & raw.keys()
    text = raw.get("bs", raw.get("blocksize", ""))
    # `4kb` is 4096 bytes to fio and 4000 to others: no ground for an accusation.
    if mixed or "," in text or text.lower().endswith("b") or evidence.merged_sections:
        return None
    return evidence.job.options.size("bs" if "bs" in raw else "blocksize")


RULE = Rule(
    code="inconsistent-figures",
    summary="Rates, counts, bytes and latencies of one result contradict each other.",
    looks_at=JobEvidence,
    check=check,
)
