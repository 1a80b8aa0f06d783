"""clock-offset: the clocks of the coordinator, the API server and the nodes differ."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.volume_lifecycle import LifecycleReport, Role, uncertainty_s
from leadline.metrics import Op
from leadline.units import format_duration

LEAST_S = 1.0
UNCERTAIN = 0.1
# Stages that end on a node or in a guest, and what ends them.
_REPORTED = {Op.READY: "first I/O", Op.VM_BOOT: "boot"}


@rule(
    "clock-offset",
    "The clocks of the coordinator, the API server and the nodes differ, or are compared coarsely.",
    TrialEvidence,
)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    report = trial.lifecycle
    if not isinstance(report, LifecycleReport):
        return
    offset = report.server_offset_s
    if offset is not None and (offset[0] > LEAST_S or offset[1] < -LEAST_S):
        way = "ahead of" if offset[0] > 0 else "behind"
        least_s = min(map(abs, offset))
        yield RuleFinding(
            severity=Severity.INFO,
            evidence={"least_offset_s": offset[0], "most_offset_s": offset[1]},
            message=f"The API server's clock is at least {format_duration(least_s)} {way} this "
            "machine's. Durations are not affected: each comes from one clock.",
            remedy="Synchronise the clocks: events and logs of the cluster have other times.",
        )
    yield from _uncertain(report)


def _uncertain(report: LifecycleReport) -> Iterator[RuleFinding]:
    """Yield a finding for each stage whose end, reported by a pod or guest, is uncertain by a large
    share of the duration."""
    for stage, end in _REPORTED.items():
        shares = []
        for sample in report.stages.get(stage, ()):
            uncertain_s = uncertainty_s(report.timelines[Role.NEW, sample.volume])
            if sample.seconds > 0:
                shares.append((uncertain_s / sample.seconds, uncertain_s))
        worst = max(shares, default=(0.0, 0.0))
        if worst[0] > UNCERTAIN:
            yield RuleFinding(
                severity=Severity.WARNING,
                op=stage,
                latency_only=True,
                evidence={"uncertainty_s": worst[1], "uncertain_share": worst[0]},
                message=f"The end of a {end} is known within {format_duration(worst[1])}, which is "
                f"{worst[0]:.0%} of the time of the stage {stage.value}.",
                remedy="Run Leadline nearer to the cluster: the API server took long to answer.",
            )
