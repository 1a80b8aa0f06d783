"""queue-depth-not-reached: fewer I/Os in flight, by Little's law, than were asked for."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import SYNCHRONOUS_ENGINES, JobEvidence
from leadline.audit.rule import Rule, RuleFinding
from leadline.findings import Severity

# 99.8 % of 4,000 published jobs reach more (methodology); the lowest own run measured had 0.903,
# its processor being used up by filling 1 MiB buffers.
ENOUGH = 0.9
# Below half, a synchronous engine with a queue asked for has ignored it.
IGNORED = 0.5
# I/Os in flight per job that look like an engine which knows only one; the 24 rows of the
# published table that this was made for have 0.75 to 1.02.
ABOUT_ONE = (0.5, 1.5)
# Share of I/Os submitted with nothing else in flight, from which on none was queued.
ALONE = 0.99
# Share of its time that a job may stand in submission before it counts as waiting there, and
# the share of a core up to which it waits and does not work.
SUBMITTING = 0.95
WAITING = 0.8
# What fio itself needs between two I/Os of a job: 0.15 to 2 us measured. At depth 1 it counts.
GAP_S = 5e-6
# Waiting for these lies outside the write latency; verifying reads are not counted as reads.
_UNCOUNTED_WAITS = ("fsync", "fdatasync", "sync_file_range", "fsync_on_close", "end_fsync")
_UNCOUNTED_READS = ("verify", "do_verify")


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
    reached, asked, depth = (
        evidence.in_flight,
        evidence.requested_depth,
        evidence.job.options.iodepth,
    )
    iops = sum(one.iops or 0.0 for one in evidence.parts)
    if reached is None or asked is None or depth is None or not iops:
        return None
    fair = ENOUGH * asked * _time_filled(evidence) * _time_inside(evidence, asked)
    if reached * (1 + evidence.in_flight_rounding) >= fair:
        return None
    mean_s = reached / iops
    if depth == 1 and mean_s * (asked / reached - 1) < GAP_S:
        return None
    ignored = depth > 1 and reached < IGNORED * asked and _one_per_job(evidence, reached)
    alone = _alone(evidence)
    numbers = {
        "in_flight": reached,
        "asked": asked,
        "ratio": reached / asked,
        "latency_mean_s": mean_s,
        "jobs": evidence.processes or 1,
    }
    if alone is not None:
        numbers["depth_1_share"] = alone
    return _finding(
        evidence,
        numbers,
        f"{asked} I/Os were asked to be in flight and {reached:.1f} were",
        ignored=ignored,
    )


def _by_depths_seen(evidence: JobEvidence) -> RuleFinding | None:
    """fio counts the depth at each submission: that tells where latencies or jobs do not."""
    depth, alone = evidence.job.options.iodepth, _alone(evidence)
    if depth is None or depth <= 1 or alone is None or alone < ALONE or evidence.edges_matter:
        return None
    return _finding(
        evidence,
        {"asked": depth, "depth_1_share": alone},
        f"{depth} I/Os of each job were asked to be in flight and one was",
        ignored=evidence.job.options.engine in (None, *SYNCHRONOUS_ENGINES),
    )


def _by_submission(evidence: JobEvidence) -> RuleFinding | None:
    """An asynchronous engine whose submission waits (buffered files, FUSE) does one I/O after the
    other, and what is queued behind counts as latency: Little's law says that the queue is full."""
    depth, processes, used = (
        evidence.job.options.iodepth,
        evidence.processes,
        evidence.job.core_share,
    )
    if depth is None or depth <= 1 or not processes or used is None or used > WAITING:
        return None
    whole = evidence.trial.whole
    if evidence.job.options.direct and (whole is None or whole.output.disks):
        return None  # direct I/O to a disk waits there for a place in the disk's own queue
    busy = 0.0
    for one in evidence.parts:
        if one.iops is None or one.submission is None or one.submission.mean_s is None:
            return None
        busy += one.iops * one.submission.mean_s
    share = busy / processes
    if evidence.job.options.engine in SYNCHRONOUS_ENGINES or not SUBMITTING <= share <= 1.05:
        return None
    return _finding(
        evidence,
        {"asked": depth, "submitting_share": share, "core_share": used},
        f"{depth} I/Os of each job were asked to be in flight, and the job stood {share:.0%} of "
        "its time in the submission of one",
        ignored=False,
        cause=f"submitting waits (it used {used:.0%} of a core), as on buffered files and FUSE, "
        "so that one I/O is under way at a time",
    )


def _finding(
    evidence: JobEvidence,
    numbers: dict[str, float],
    fact: str,
    *,
    ignored: bool,
    cause: str = "",
) -> RuleFinding:
    engine = evidence.job.options.engine
    if not ignored:
        cause = cause or _cause(evidence)
    elif engine is None:
        cause = "about one per job, as a synchronous engine does, so the queue depth was ignored"
        cause += "; the engine itself is not told"
    else:
        cause = f"the engine {engine} is synchronous and ignored the queue depth"
    return RuleFinding(
        severity=Severity.ERROR if ignored else Severity.WARNING,
        evidence=numbers,
        message=f"{fact}: {cause}.",
        remedy="Use an asynchronous engine (io_uring, libaio), or ask for depth 1 and more jobs."
        if ignored
        else "Read the result as one of the depth reached, or take more jobs with less depth each.",
    )


def _one_per_job(evidence: JobEvidence, reached: float) -> bool:
    engine = evidence.job.options.engine
    if engine in SYNCHRONOUS_ENGINES:
        return True
    low, high = ABOUT_ONE
    return engine is None and low <= reached / (evidence.processes or 1) <= high


def _alone(evidence: JobEvidence) -> float | None:
    """Share of I/Os submitted with nothing else in flight; None where it is not told.

    With a ramp fio's shares add up to more than 1 (1.94 seen), so that it is the part that tells.
    """
    levels = evidence.job.depth_levels
    total = sum(levels.values())
    return levels.get("1", 0.0) / total if total >= 0.5 else None


def _time_filled(evidence: JobEvidence) -> float:
    """Share of the run in which a job of the group was at work on average: those that ended
    before the others held their part of the queue for a part of the time only."""
    longest, processes = evidence.longest_s, evidence.processes
    if not longest or not processes or processes == 1 or not evidence.job.job_runtime_s:
        return 1.0
    return min(1.0, evidence.job.job_runtime_s / (processes * longest))


def _time_inside(evidence: JobEvidence, asked: int) -> float:
    """Share of the run between filling and draining the queue, which take up to one latency each:
    asked / I/Os of the run. With fewer I/Os than the queue holds it was never full."""
    done = evidence.total_ios
    if done is None or done < asked:
        return 1.0
    return max(0.0, 1 - 2 * asked / done)


def _cause(evidence: JobEvidence) -> str:
    done, asked = evidence.total_ios, evidence.requested_depth
    if done is not None and asked is not None and done < asked:
        return f"only {done:,} I/Os were done, fewer than the queues hold"
    if (evidence.job.core_share or 0.0) >= 0.95:
        return "each job used up its core before it could fill its queue"
    alone = _alone(evidence)
    if alone is not None and alone > 0.5:
        return f"{alone:.0%} of the I/Os were submitted with nothing else in flight"
    return "the queue was not kept full"


RULE = Rule(
    code="queue-depth-not-reached",
    summary="Fewer I/Os were in flight than asked for (Little's law).",
    looks_at=JobEvidence,
    check=check,
)
