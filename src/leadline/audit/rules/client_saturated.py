"""client-saturated: the load generator could not have made more load."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.archive.records import Processor
from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.result import JobOptions
from leadline.formats.zfs.stream import StreamReport

# All cores, or the one core of a job's thread, are saturated from here.
USED_UP = 0.95
# Time that the hypervisor gave to other guests while this one was ready.
STOLEN = 0.10
# Time in which a control group throttled the runner. On the disk of a development machine 10 %
# throttling cost 42 % of the IOPS (docs/rules/client-saturated.md).
HELD_BACK = 0.02
# In a latency cell one thread needs one core; methodology: idle < 40 %.
LATENCY_BUSY = 0.60
# Share of a stream's time in which the pipe itself was the bottleneck.
PIPE_HELD = 0.50
# Options and engines that poll: they use a whole core by design, with any load.
_POLLING = ("hipri", "sqthread_poll", "hipri_percentage", "spdk_core_mask")
_POLLING_ENGINES = ("spdk", "dpdk")

_LAB = (
    "Compare a lab's figures only with another lab on the same machine. Less depth leaves more of "
    "the processor idle."
)


@rule("client-saturated", "The load generator's processor was the bottleneck.", TrialEvidence)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    jobs = trial.jobs
    if not jobs:
        return
    for evidence in jobs:
        job = evidence.job
        used = job.core_share
        polling = _polls(job.options)
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
                message=f"Each job of {job.name!r} used {used:.0%} of its one core. The load "
                f"generator was measured, not the storage.",
                remedy="Use more jobs (numjobs) with less depth each, or more machines.",
            )
    stream = trial.stream if isinstance(trial.stream, StreamReport) else None
    if stream is not None and (stream.relaying_share or 0.0) >= PIPE_HELD:
        yield _pipe(stream)
    processor = trial.record.processor if trial.record else None
    if processor is not None:
        # An unknown depth counts as more than one: such a latency is not tested.
        deepest = max(evidence.requested_depth or 2 for evidence in jobs)
        wall_s = trial.record.wall_s if trial.record else 0.0
        # Where polling uses the cores, busy cores say nothing of the load.
        polling = any(_polls(evidence.job.options) for evidence in jobs)
        yield from _machine(processor, wall_s, deepest, on_lab=trial.on_lab, polling=polling)


def _polls(options: JobOptions) -> bool:
    engine = (options.engine or "").lower()
    # `external:/usr/lib/spdk_nvme` and a preloaded `spdk` are the same plugin.
    return any(options.flag(key) for key in _POLLING) or any(
        name in engine for name in _POLLING_ENGINES
    )


def _pipe(stream: StreamReport) -> RuleFinding:
    share = stream.relaying_share or 0.0
    return RuleFinding(
        severity=Severity.WARNING,
        evidence={"relaying_share": share, "bandwidth_bps": stream.bandwidth_bps},
        message=f"The pipe between sender and receiver was the bottleneck for {share:.0%} of the "
        "time. ZFS could have streamed faster.",
        remedy="Read the figure as a lower bound. Time `zfs send | zfs receive` without the pipe "
        "by hand for the difference.",
    )


def _machine(
    processor: Processor, wall_s: float, depth: int, *, on_lab: bool, polling: bool
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
            message=f"The processor limit of the runner's container throttled it for "
            f"{processor.throttled_share:.0%} of the time. The limit was measured.",
            remedy="Give the runner more processors (--runner-cpu, or `cpu:` of the cluster in the "
            "plan) and measure again.",
        )
    elif processor.steal_share > STOLEN:
        yield RuleFinding(
            severity=Severity.WARNING,
            evidence=numbers,
            message=f"The hypervisor gave {processor.steal_share:.0%} of the processor time to "
            f"other machines while this one had work.",
            remedy="Measure again on a machine with dedicated cores, or at a quieter time.",
        )
    elif processor.busy_share >= USED_UP and not polling:
        yield RuleFinding(
            severity=Severity.WARNING,
            evidence=numbers,
            message=f"All {processor.cores} cores were {processor.busy_share:.0%} busy"
            + (
                " with the lab's daemons and the load. The figure is of this processor."
                if on_lab
                else ", most of it with work outside the engine. Other work is in the figure."
                if engine < processor.busy_share / 2
                else ". The load generator could not have done more."
            ),
            remedy=_LAB
            if on_lab
            else "Use a machine with more cores, or several machines. Stop other work on it.",
        )
    elif depth == 1 and processor.busy_share > LATENCY_BUSY and engine < processor.busy_share / 2:
        yield RuleFinding(
            severity=Severity.WARNING,
            latency_only=True,
            evidence=numbers,
            message=f"The cores were {processor.busy_share:.0%} busy, most of it with "
            + ("the lab's daemons" if on_lab else "work outside the engine")
            + ". The latency includes waiting for a core.",
            remedy=_LAB
            if on_lab
            else "Stop other work on this machine and measure the latency again.",
        )
