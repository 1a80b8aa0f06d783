"""Words of scaling: one golden line for each template, with all and with no optional clauses.

UPDATE_GOLDEN=1 writes the golden file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest

from leadline.analysis.bottleneck.suspects import Bottleneck, Reason, Strength, Suspect
from leadline.analysis.explain.conditions import Conditions
from leadline.analysis.scaling.knee import NoKnee, NoKneeReason
from leadline.analysis.scaling.limits import (
    LatencyGap,
    LatencyGapReason,
    NoThroughput,
    NoThroughputReason,
)
from leadline.analysis.scaling.speedup import LimitOrigin, NoEqualLatency, SystemRole
from leadline.analysis.scaling.superlinear import (
    Cause,
    CauseCase,
    CauseCode,
    Stance,
    superlinear,
)
from leadline.findings import Finding, Severity
from leadline.inventory.diff import Difference, Topic
from leadline.metrics import Metric
from leadline.plan.models import parse_latency_limit
from leadline.report.pages.scaling.words import (
    CAUSES,
    NAMES,
    SUSPECTS,
    cause_text,
    peak_clause,
    superlinear_finding,
    suspect_text,
    text,
)
from leadline.stats.usl import NoFit, Unfitted
from tests.conftest import ROOT
from tests.kept_text import check_kept
from tests.unit.analysis.scaling.levels import closed, simulate
from tests.unit.analysis.scaling.systems import HOSTS, against, knowledge, known

GOLDEN = ROOT / "tests" / "golden" / "words" / "scaling.txt"
REQUIRED = {
    "asked": 32, "busy_share": 0.97, "groups": 3, "in_flight": 31.5, "iops": 1000.0,
    "iops_at_more_load": 1500.0, "job_core_share": 0.99, "latency_mean_s": 0.002,
    "latency_share": 1.2, "least_throttled_share": 0.1, "link_bps": 1.25e9, "link_share": 0.95,
    "offered_iops": 1200.0, "osds": 64, "quota_cores": 0.15, "queued_share": 0.7, "cores": 8,
    "round_trip_s": 0.00103, "round_trips": 2 / 3, "steal_share": 0.2, "throttled_share": 0.3,
    "utilisation": 0.99,
}  # fmt: skip
OPTIONAL = {
    "disk_latency_s": 0.01, "engine_cores": 2.0, "hosts_unread": 1, "medium_share": 0.8,
    "other_cores": 4.34, "quota_used_share": 0.99, "storage_cores": 1.5,
}  # fmt: skip


def suspect(reason: Reason, *, full: bool) -> Suspect:
    return Suspect(
        bottleneck=Bottleneck.CLIENT_CPU if full else Bottleneck.OSD_CPU,
        strength=Strength.NAMED,
        reason=reason,
        evidence=REQUIRED | (OPTIONAL if full else {}),
        machine="s1" if full or "disk" in reason else "",
        device="sda" if full or "disk" in reason else "",
        not_measured=(Bottleneck.TARGET_CORES,) if full else (),
    )


def cause(case: CauseCase, *, full: bool) -> Cause:
    difference = Difference(path="some.path", topic=Topic.MEDIA, baseline="a", candidate="b")
    numbers = {
        "baseline_here_and_peak_iops": (900.0, 1200.0),
        "cores_per_host": (0.15, 0.15),
        "data_per_osd_bytes": (float(1 << 30), float(1 << 29)),
        "fullest_osd": (1.5, 1.05),
        "hosts": (3.0, 5.0),
        "memory_per_osd_bytes": (float(700 << 20), float(700 << 20)),
        "monitors": (3.0, 3.0),
        "used_share": (0.8, 0.3),
    }
    return Cause(
        code=CauseCode.OTHERS,
        stance=Stance.OPEN,
        case=case,
        numbers=numbers | ({"pgs_per_osd": (128.0, 77.0)} if full else {}),
        differences=(difference,) * (4 if full else 1),
        unknown=("a", "b") if full else (),
        created=("2026-01-01", "2026-11-01") if full else None,
    )


FACTS = (
    Unfitted(reason=NoFit.TOO_FEW_LEVELS, levels=3),
    Unfitted(reason=NoFit.UNUSABLE_VALUES, levels=4),
    *(NoKnee(reason=reason, loads=2) for reason in NoKneeReason),
    *(
        LatencyGap(reason=reason, findings=("throttled",), behind=1, trials=3)
        for reason in LatencyGapReason
    ),
    LatencyGap(reason=LatencyGapReason.RATE_NOT_REACHED, trials=3),
    *(
        NoThroughput(reason=reason, findings=("a", "b"), limit=parse_latency_limit("p99<20ms"))
        for reason in NoThroughputReason
    ),
    NoEqualLatency(),
    NoEqualLatency(
        side=SystemRole.BASELINE, cause=NoThroughput(reason=NoThroughputReason.LATENCY_MISSING)
    ),
    LimitOrigin(),
    LimitOrigin(metric=Metric.LATENCY_P99, at_knee=True, level="qd8"),
    LimitOrigin(metric=Metric.LATENCY_MEAN),
)


def lines() -> Iterator[str]:
    for reason in SUSPECTS:
        for full in (True, False):
            yield f"{reason}: {suspect_text(suspect(reason, full=full))}"
    for case in CAUSES:
        for full in (True, False):
            yield f"{case}: {cause_text(cause(case, full=full))}"
    for fact in FACTS:
        yield f"{type(fact).__name__}: {text(fact)}"
    yield f"peak: {peak_clause([Bottleneck.CLIENT_CPU, Bottleneck.OSD_CPU], certain=True)}"
    yield f"peak: {peak_clause([Bottleneck.CLIENT_CPU], certain=False)}"


def written() -> str:
    return "\n".join(dict.fromkeys(lines())) + "\n"


def test_every_fact_has_a_template() -> None:
    assert set(SUSPECTS) == set(Reason)
    assert set(CAUSES) == set(CauseCase)
    assert set(NAMES) == set(Bottleneck)


def test_the_words_are_the_golden_ones() -> None:
    check_kept(GOLDEN, written())


def test_an_overruled_suspect_names_the_objection() -> None:
    idle = Suspect(
        bottleneck=Bottleneck.NOT_SATURATED,
        strength=Strength.NAMED,
        reason=Reason.MORE_LOAD_GAVE_MORE,
        evidence={"iops": 1000.0, "iops_at_more_load": 1500.0},
    )
    cores = Suspect(
        bottleneck=Bottleneck.CLIENT_CPU,
        strength=Strength.SUSPECTED,
        reason=Reason.CORES_BUSY,
        evidence={"busy_share": 0.97},
        overruled_by=idle,
    )
    assert suspect_text(cores) == (
        "The cores of the load generator were 97 % busy. But the level was not saturated. More "
        "load gave up to 1.50 times the throughput."
    )


def finding(small: Sequence[float], large: Sequence[float]) -> Finding:
    before, after = simulate(closed(8, *small)), simulate(closed(8, *large))
    known(before, name="small")
    known(after, name="large")
    nothing = Conditions(differences=(), identical=(), explanations=())
    sides = knowledge(before), knowledge(after)
    found = superlinear(against(before, after, HOSTS), *sides, nothing)
    assert found is not None
    return superlinear_finding(found)


def test_a_certain_superlinear_speed_up_is_a_warning() -> None:
    steady = [100.0, 102.0, 98.0, 101.0, 99.0, 100.0]
    found = finding(steady, [2.3 * iops for iops in steady])
    assert (found.code, found.severity) == ("superlinear-scaling", Severity.WARNING)
    assert re.fullmatch(
        r"Throughput grew by \+130 % \(\+10\d % to \+16\d %\), for \+67 % hosts \(3 to 5\), at "
        r"qd8x1: more than proportional, which more of the same hardware does not explain\.",
        found.message,
    )
    assert "change one at a time" in found.remedy


def test_other_objects_have_no_words() -> None:
    with pytest.raises(TypeError, match="no words for int"):
        text(1)
