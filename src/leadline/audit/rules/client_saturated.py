"""client-saturated: the machine that made the load could not have made more."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.archive.records import Processor
from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import Rule, RuleFinding
from leadline.findings import Severity
from leadline.formats.zfs.stream import StreamReport

# All cores, or the one core that a job's thread can use, count as used up from here.
USED_UP = 0.95
# Time that the hypervisor gave to others; the guest was ready and did not run.
STOLEN = 0.10
# Time in which a control group's limit held the runner back. On the disk of a development machine a
# limit that told 10 % had taken 42 % of the IOPS (docs/rules/client-saturated.md).
HELD_BACK = 0.02
# In a latency cell one thread needs one core; methodology: idle < 40 %.
LATENCY_BUSY = 0.60
# Share of a stream's time in which the pipe that measures its stalls was what it waited for.
PIPE_HELD = 0.50
# Engines that poll burn their core by design.
_POLLING = ("hipri", "sqthread_poll", "hipri_percentage")

_LAB = (
    "Read a lab's figures beside those of another lab on the same machine, not by themselves; less "
    "depth leaves more of the processor idle."
)


def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    jobs = trial.jobs
    if not jobs:
        return
    for evidence in jobs:
        job = evidence.job
        used = job.core_share
        polling = any(job.options.flag(key) for key in _POLLING)
        if (
            used is not None
            and used >= USED_UP
            and (job.options.iodepth or 1) > 1
            and not polling
            and job.operations
        ):
            yield RuleFinding(
                severity=Severity.WARNING,
                workload=evidence.place.workload,
                evidence={"core_share": used},
                message=f"Each job of {job.name!r} used {used:.0%} of the one core that its thread "
                "can use: the load generator is what was measured, not the storage.",
                remedy="Spread the load over more jobs (numjobs) with less depth each, or over "
                "more machines.",
            )
    stream = trial.stream if isinstance(trial.stream, StreamReport) else None
    if stream is not None and (stream.relaying_share or 0.0) >= PIPE_HELD:
        yield _pipe(stream)
    processor = trial.record.processor if trial.record else None
    if processor is not None:
        # A depth that is not known is taken for more than one: the latency is then nobody's.
        deepest = max(evidence.requested_depth or 2 for evidence in jobs)
        wall_s = trial.record.wall_s if trial.record else 0.0
        yield from _machine(processor, wall_s, deepest, on_lab=trial.on_lab)


def _pipe(stream: StreamReport) -> RuleFinding:
    share = stream.relaying_share or 0.0
    return RuleFinding(
        severity=Severity.WARNING,
        evidence={"relaying_share": share, "bandwidth_bps": stream.bandwidth_bps},
        message=f"For {share:.0%} of the time the pipe between sender and receiver was at work and "
        "neither of the two was waited for: ZFS could have streamed faster.",
        remedy="Take the figure for the least that ZFS does; `zfs send | zfs receive` without a "
        "pipe between, timed by hand, tells how much more it is.",
    )


def _machine(
    processor: Processor, wall_s: float, depth: int, *, on_lab: bool
) -> Iterator[RuleFinding]:
    engine = processor.engine_cpu_s / (wall_s * processor.cores) if wall_s else 0.0
    numbers = {
        "busy_share": processor.busy_share,
        "steal_share": processor.steal_share,
        "engine_share": engine,
        "cores": processor.cores,
    }
    if processor.throttled_share is not None and processor.throttled_share > HELD_BACK:
        yield RuleFinding(
            severity=Severity.WARNING,
            evidence={**numbers, "throttled_share": processor.throttled_share},
            message=f"The processor limit of the runner's container held it back for "
            f"{processor.throttled_share:.0%} of the time: what was measured is the limit.",
            remedy="Give the runner more processors (--runner-cpu, or `cpu:` of the cluster in the "
            "plan) and measure again.",
        )
    elif processor.steal_share > STOLEN:
        yield RuleFinding(
            severity=Severity.WARNING,
            evidence=numbers,
            message=f"{processor.steal_share:.0%} of the processor time went to a neighbour: the "
            "hypervisor took it while this machine had work to do.",
            remedy="Measure again on a machine whose cores are its own, or at a quieter hour.",
        )
    elif processor.busy_share >= USED_UP:
        yield RuleFinding(
            severity=Severity.WARNING,
            evidence=numbers,
            message=f"All {processor.cores} cores were {processor.busy_share:.0%} busy"
            + (
                ", with the lab's daemons and the load together: the figure is of this processor."
                if on_lab
                else ", most of it with other work than the engine's: what ran beside the load is "
                "in the figure."
                if engine < processor.busy_share / 2
                else ": the load generator could not have done more, whatever the storage can do."
            ),
            remedy=_LAB
            if on_lab
            else "Use a machine with more cores or several of them, and stop other work on it.",
        )
    elif depth == 1 and processor.busy_share > LATENCY_BUSY and engine < processor.busy_share / 2:
        yield RuleFinding(
            severity=Severity.WARNING,
            latency_only=True,
            evidence=numbers,
            message=f"The cores were {processor.busy_share:.0%} busy, most of it with "
            + ("the lab's daemons" if on_lab else "other work than the engine's")
            + ", so that the latency holds time spent waiting for a core.",
            remedy=_LAB
            if on_lab
            else "Stop other work on this machine and measure the latency again.",
        )


RULE = Rule(
    code="client-saturated",
    summary="The load generator's processor was the bottleneck.",
    looks_at=TrialEvidence,
    check=check,
)
