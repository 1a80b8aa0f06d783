"""queue-depth-not-reached: fewer I/Os in flight, by Little's law, than were asked for."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import SYNCHRONOUS_ENGINES, JobEvidence
from leadline.audit.rule import Doubt, Rule
from leadline.findings import Severity

# 99.8 % of 4,000 published jobs reach more (methodology); the lowest own run measured had 0.903,
# its processor being used up by filling 1 MiB buffers.
ENOUGH = 0.9
# Below half, a synchronous engine with a queue asked for has ignored it.
IGNORED = 0.5
# What fio itself needs between two I/Os of a job: 0.15 to 2 us measured. At depth 1 it counts.
GAP_S = 5e-6
# Waiting for these lies outside the write latency; verifying reads are not counted as reads.
_UNCOUNTED_WAITS = ("fsync", "fdatasync", "sync_file_range", "fsync_on_close", "end_fsync")
_UNCOUNTED_READS = ("verify", "do_verify")


def check(evidence: JobEvidence) -> Iterator[Doubt]:
    reached, asked, options = evidence.in_flight, evidence.asked_depth, evidence.job.options
    if reached is None or reached >= ENOUGH * asked:
        return
    if evidence.throttled or evidence.merged_sections or evidence.edges_matter:
        return
    if any(options.flag(key) for key in (*_UNCOUNTED_WAITS, *_UNCOUNTED_READS)):
        return
    mean_s = sum(one.total.mean_s * one.iops for one in evidence.job.operations if one.total)
    mean_s /= sum(one.iops for one in evidence.job.operations)
    if options.iodepth == 1 and mean_s * (asked / reached - 1) < GAP_S:
        return
    ignored = (
        options.engine in SYNCHRONOUS_ENGINES and options.iodepth > 1 and reached < IGNORED * asked
    )
    shallow = evidence.job.depth_levels.get("1", 0.0)
    yield Doubt(
        severity=Severity.ERROR if ignored else Severity.WARNING,
        evidence={
            "in_flight": reached,
            "asked": asked,
            "ratio": reached / asked,
            "latency_mean_s": mean_s,
            "depth_1_share": shallow,
        },
        message=f"{asked} I/Os were asked to be in flight and {reached:.1f} were: "
        + (
            f"the engine {options.engine} is synchronous and ignored the queue depth"
            if ignored
            else _cause(evidence, shallow)
        )
        + ".",
        remedy="Use an asynchronous engine (io_uring, libaio), or ask for depth 1 and more jobs."
        if ignored
        else "Read the result as one of the depth reached, or take more jobs with less depth each.",
    )


def _cause(evidence: JobEvidence, shallow: float) -> str:
    if (evidence.job.core_share or 0.0) >= 0.95:
        return "each job used up its core before it could fill its queue"
    if shallow > 0.5:
        return f"{shallow:.0%} of the I/Os were submitted with nothing else in flight"
    return "the queue was not kept full"


RULE = Rule(
    code="queue-depth-not-reached",
    summary="Fewer I/Os were in flight than asked for (Little's law).",
    looks_at=JobEvidence,
    check=check,
)
