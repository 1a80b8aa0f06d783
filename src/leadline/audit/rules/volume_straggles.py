"""volume-straggles: one volume of a storm took much longer in a stage than the others."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.volume_lifecycle import LifecycleReport
from leadline.units import format_duration

# With fewer volumes it is unknown which one is the outlier.
FEWEST_VOLUMES = 4
SLOW = 3.0
# Controllers poll and back off in steps of about a second.
APART_S = 2.0


@rule(
    "volume-straggles",
    "One volume took much longer in a stage than the others of its storm.",
    TrialEvidence,
)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    report = trial.lifecycle
    if not isinstance(report, LifecycleReport):
        return
    for stage, samples in report.stages.items():
        if len(samples) < FEWEST_VOLUMES:
            continue
        middle = median(sample.seconds for sample in samples)
        slow = [
            sample for sample in samples if sample.seconds > max(SLOW * middle, middle + APART_S)
        ]
        # Where a third is slow, that is how the storage behaves.
        if not slow or len(slow) * 3 > len(samples):
            continue
        worst = max(slow, key=lambda sample: sample.seconds)
        more = f" ({len(slow) - 1} more differ as much)" if len(slow) > 1 else ""
        yield RuleFinding(
            severity=Severity.WARNING,
            op=stage,
            evidence={
                "seconds_s": worst.seconds,
                "median_s": middle,
                "volumes": len(samples),
                "stragglers": len(slow),
            },
            message=f"Volume {worst.volume} took {format_duration(worst.seconds)} for the stage "
            f"{stage.value}, the median of {len(samples)} volumes {format_duration(middle)}{more}. "
            "Mean and rate depend on it.",
            remedy="Compare the median. The events of the volume are in the trial's "
            "volume-lifecycle.jsonl.",
        )
