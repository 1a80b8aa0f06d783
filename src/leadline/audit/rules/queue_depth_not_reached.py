"""queue-depth-not-reached: fewer I/Os in flight, by Little's law, than the queue depth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from leadline.audit.evidence import JobEvidence
from leadline.audit.execution import SYNCHRONOUS_ENGINES
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity

# 99.8 % of 4,000 published jobs reach more (methodology). The lowest measured run had 0.903, with a
# processor saturated by filling 1 MiB buffers.
ENOUGH = 0.9
# Below half, a synchronous engine has ignored the queue depth.
IGNORED = 0.5
# I/Os in flight per job of an engine without a queue; the 24 rows of a published table have 0.75 to
# 1.02.
ABOUT_ONE = (0.5, 1.5)
# Share of I/Os submitted with nothing else in flight that means no queue.
ALONE = 0.99
# A job waits in submission if it spends this share of its time there, and uses less than this
# share of a core.
SUBMITTING = 0.95
WAITING = 0.8
# A job of depth 1 cannot queue: less than one in flight is time between its I/Os. Below this share
# most of the time is not the storage's.
MOSTLY_BETWEEN = 0.5
# fio's own time between two I/Os of a job: 0.15 to 2 us measured.
GAP_S = 5e-6
# I/Os for each place of the queues below which filling and draining them took most of the run.
FEW_ROUNDS = 20
# Waits for these are outside the write latency; reads of a verification are not counted.
_UNCOUNTED_WAITS = ("fsync", "fdatasync", "sync_file_range", "fsync_on_close", "end_fsync")
_UNCOUNTED_READS = ("verify", "do_verify")


@rule(
    "queue-depth-not-reached",
    "Fewer I/Os were in flight than requested (Little's law).",
    JobEvidence,
)
def check(evidence: JobEvidence) -> Iterator[RuleFinding]:
    options = evidence.job.options
    if evidence.throttled or evidence.merged_sections:
        return
    if any(options.flag(key) for key in (*_UNCOUNTED_WAITS, *_UNCOUNTED_READS)):
        return
    finding = _by_littles_law(evidence) or _by_depths_seen(evidence) or _by_submission(evidence)
    if finding is not None:
        yield finding


def _by_littles_law(evidence: JobEvidence) -> RuleFinding | None:
    reached, asked = evidence.in_flight, evidence.requested_depth
    depth = evidence.job.options.iodepth
    iops = sum(operation.iops or 0.0 for operation in evidence.parts)
    if reached is None or asked is None or depth is None or not iops:
        return None
    # With few I/Os, jobs of a group end when their last I/Os do: that is the draining of a queue.
    filled = 1.0 if _has_few_ios(evidence, asked) else _time_filled(evidence)
    fair = ENOUGH * asked * filled
    if reached * (1 + evidence.in_flight_rounding) >= fair:
        return None
    mean_s = reached / iops
    gap_s = mean_s * (asked / reached - 1)
    # An engine for files opens, closes and chooses them between its operations, as it should: 10 us
    # around a stat() of 2 us.
    if depth == 1 and (
        reached >= MOSTLY_BETWEEN * asked or gap_s < GAP_S or evidence.job.options.file_op
    ):
        return None
    ignored = depth > 1 and reached < IGNORED * asked and _one_per_job(evidence, reached)
    numbers = {
        "in_flight": reached,
        "asked": asked,
        "ratio": reached / asked,
        "latency_mean_s": mean_s,
        "jobs": evidence.processes or 1,
        "depth_1_share": _alone(evidence),
    }
    return _finding(
        evidence,
        numbers,
        f"{reached:.1f} of {asked} requested I/Os were in flight",
        ignored=ignored,
        cause=f"Each job spent {gap_s * 1e6:.3g} us between two I/Os" if depth == 1 else "",
    )


def _by_depths_seen(evidence: JobEvidence) -> RuleFinding | None:
    """Use the depth that fio counts at each submission, without latencies or jobs."""
    depth, alone = evidence.job.options.iodepth, _alone(evidence)
    if depth is None or depth <= 1 or alone is None or alone < ALONE or evidence.edges_matter:
        return None
    return _finding(
        evidence,
        {"asked": depth, "depth_1_share": alone},
        f"One of {depth} requested I/Os of each job was in flight",
        ignored=evidence.job.options.engine in (None, *SYNCHRONOUS_ENGINES),
    )


def _by_submission(evidence: JobEvidence) -> RuleFinding | None:
    """Test for an asynchronous engine whose submission waits (buffered files, FUSE). It does one
    I/O after the other, and queued I/Os count as latency: by Little's law the queue is full."""
    depth, used = evidence.job.options.iodepth, evidence.job.core_share
    share = evidence.submitting_share
    if depth is None or depth <= 1 or share is None or used is None or used > WAITING:
        return None
    whole = evidence.trial.whole
    if evidence.job.options.direct and (whole is None or whole.output.disks):
        return None  # direct I/O waits for a place in the disk's own queue
    if evidence.job.options.engine in SYNCHRONOUS_ENGINES or not SUBMITTING <= share <= 1.05:
        return None
    return _finding(
        evidence,
        {"asked": depth, "submitting_share": share, "core_share": used},
        f"Each job with depth {depth} spent {share:.0%} of its time in the submission of one I/O",
        ignored=False,
        cause=f"Submission waits ({used:.0%} of a core used), as on buffered files and FUSE",
    )


def _finding(
    evidence: JobEvidence,
    numbers: Mapping[str, float | None],
    fact: str,
    *,
    ignored: bool,
    cause: str = "",
) -> RuleFinding:
    engine, asked = evidence.job.options.engine, evidence.requested_depth
    if not ignored:
        cause = cause or _cause(evidence)
    elif engine is None:
        cause = "About one per job, as with a synchronous engine that ignores the queue depth. The "
        cause += "engine is unknown"
    else:
        cause = f"The engine {engine} is synchronous and ignored the queue depth"
    return RuleFinding(
        severity=Severity.ERROR if ignored else Severity.WARNING,
        evidence=numbers,
        message=f"{fact}. {cause}.",
        remedy="Use an asynchronous engine (io_uring, libaio), or depth 1 and more jobs."
        if ignored
        else "Run longer, or with less depth."
        if asked is not None and _has_few_ios(evidence, asked)
        else "Use the result for the reached depth, or use more jobs with less depth each.",
    )


def _one_per_job(evidence: JobEvidence, reached: float) -> bool:
    engine = evidence.job.options.engine
    if engine in SYNCHRONOUS_ENGINES:
        return True
    low, high = ABOUT_ONE
    return engine is None and low <= reached / (evidence.processes or 1) <= high


def _alone(evidence: JobEvidence) -> float | None:
    """Return the share of I/Os submitted with nothing else in flight; None if unknown.

    With a ramp fio's shares add up to more than 1 (1.94 seen): the result is a part of their sum.
    """
    levels = evidence.job.depth_levels
    total = sum(levels.values())
    return levels.get("1", 0.0) / total if total >= 0.5 else None


def _time_filled(evidence: JobEvidence) -> float:
    """Return the mean share of the run in which a job of the group was active: a job that ended
    early held its part of the queue for a part of the time."""
    longest, processes = evidence.longest_s, evidence.processes
    if not longest or not processes or processes == 1 or not evidence.job.job_runtime_s:
        return 1.0
    return min(1.0, evidence.job.job_runtime_s / (processes * longest))


def _cause(evidence: JobEvidence) -> str:
    done, asked = evidence.total_ios, evidence.requested_depth
    if done is not None and asked is not None and done < asked:
        return f"The job did only {done:,} I/Os, fewer than its queues hold"
    if done is not None and asked is not None and _has_few_ios(evidence, asked):
        return (
            f"The job did {done:,} I/Os, {done / asked:.2g} for each place of its queues: filling "
            "and draining them took much of the run"
        )
    if (evidence.job.core_share or 0.0) >= 0.95:
        return "Each job saturated its core before it could fill its queue"
    alone = _alone(evidence)
    if alone is not None and alone > 0.5:
        return f"{alone:.0%} of the I/Os were submitted with nothing else in flight"
    return "The queue was not kept full"


def _has_few_ios(evidence: JobEvidence, asked: int) -> bool:
    done = evidence.total_ios
    return done is not None and done < FEW_ROUNDS * asked
