"""below-resolution: a stage that took less time than the watches of the API can resolve."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.volume_lifecycle import LifecycleReport
from leadline.units import format_latency

# Each end of a duration arrives up to one round trip late.
ROUND_TRIPS = 2.0


@rule(
    "below-resolution",
    "A stage took less time than the watches of the API can resolve.",
    TrialEvidence,
)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    report = trial.lifecycle
    if not isinstance(report, LifecycleReport) or report.resolution_s is None:
        return
    least_s = ROUND_TRIPS * report.resolution_s
    for stage, samples in report.stages.items():
        mean_s = fmean(sample.seconds for sample in samples)
        # A node's own clock, which times the first I/O, is finer.
        if samples[0].end_s is None or mean_s >= least_s:
            continue
        yield RuleFinding(
            severity=Severity.ERROR,
            op=stage,
            latency_only=True,
            evidence={"mean_s": mean_s, "round_trip_s": report.resolution_s},
            message=f"The stage {stage.value} took {format_latency(mean_s)} on average, and a "
            f"round trip of the API takes {format_latency(report.resolution_s)}: the duration is "
            "not claimed.",
            remedy="Run Leadline nearer to the API server, or judge the stages that contain this "
            "one.",
        )
