"""Rules on the lifecycle of volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from leadline.audit.evidence import Place, TrialEvidence
from leadline.audit.registry import RULES
from leadline.audit.rule import RuleFinding
from leadline.audit.rules import (
    below_resolution,
    clock_offset,
    stage_failed,
    stage_unsupported,
    volume_straggles,
)
from leadline.findings import Severity
from leadline.formats.volume_lifecycle import lifecycle_output
from leadline.metrics import Op
from tests.unit import lifecycles
from tests.unit.lifecycles import Entry


def findings(
    rule: object, entries: Sequence[Entry] | None = None, **fields: object
) -> list[RuleFinding]:
    report = lifecycles.report(None if entries is None else list(entries), **fields)
    trial = TrialEvidence(place=Place(), windows={}, lifecycle=report)
    return list(rule.check.check(trial))  # type: ignore[attr-defined]


def slower(volume: int, stage: str, by_s: float, volumes: int = 8) -> list[Entry]:
    """All volumes take the same, but one takes longer in its last stage."""
    entries = lifecycles.lines(volumes, {})
    for entry in entries:
        if entry.get("volume") == volume and (entry.get("kind"), entry.get("change")) == (
            stage,
            "deleted",
        ):
            entry["at_s"] += by_s
    return entries


def test_stage_failed_fires_as_an_error_of_its_stage() -> None:
    failed = {"line": "failed", "at_s": 60.0, "role": "restored", "stage": "restore"}
    reasons = [{**failed, "volume": volume, "reason": f"lost {volume}"} for volume in (2, 3)]
    (finding,) = findings(stage_failed, [*lifecycles.lines(4), *reasons])
    assert (finding.op, finding.severity) == (Op.RESTORE, Severity.ERROR)
    assert finding.evidence == {"failed": 2, "passed": 2}
    assert "2 of 4 volumes" in finding.message
    assert "lost 2" in finding.message


def test_clock_offset_fires_for_a_boot_whose_end_is_known_coarsely() -> None:
    entries = lifecycles.lines(1, {"vm-boot": 4.0}, guests=True)
    assert not [one for one in findings(clock_offset, entries) if one.op is not None]
    for entry in entries:
        if entry["line"] == "first-io":
            entry["answered_s"] += 1.0
    (finding,) = [one for one in findings(clock_offset, entries) if one.op is Op.VM_BOOT]
    assert finding.severity is Severity.WARNING
    assert finding.evidence["uncertainty_s"] == pytest.approx(0.6)
    assert "the end of a boot" in finding.message.lower()


def test_stage_unsupported_fires_once_for_each_reason() -> None:
    unsupported = {"expand": "no", "snapshot": "no CSI driver", "clone": "no CSI driver"}
    found = findings(stage_unsupported, unsupported=unsupported)
    assert [(one.severity, one.evidence) for one in found] == [
        (Severity.INFO, {"stages": 1}),
        (Severity.INFO, {"stages": 2}),
    ]


@pytest.mark.parametrize(("by_s", "volumes", "fires"), [(6, 8, 1), (1.5, 8, 0), (6, 3, 0)])
def test_volume_straggles_fires_for_one_slow_volume(by_s: float, volumes: int, fires: int) -> None:
    found = findings(volume_straggles, slower(2, "volume", by_s, volumes))
    assert [finding.op for finding in found] == [Op.RECLAIM] * fires


def test_volume_straggles_is_silent_where_a_third_is_slow() -> None:
    entries = slower(2, "volume", 6)
    for volume in (3, 4):
        for entry in entries:
            if entry.get("volume") == volume and entry.get("change") == "deleted":
                entry["at_s"] += 6 if entry["kind"] == "volume" else 0
    assert findings(volume_straggles, entries) == []


def test_below_resolution_fires_below_two_round_trips() -> None:
    quick: Mapping[str, float] = {"bind": 0.006, "first-io": 0.001}
    (finding,) = findings(below_resolution, lifecycles.lines(1, quick, round_trip_s=0.004))
    assert (finding.op, finding.severity) == (Op.BIND, Severity.ERROR)
    assert finding.latency_only
    assert findings(below_resolution, lifecycles.lines(1, quick, round_trip_s=0.002)) == []


@pytest.mark.parametrize(("ahead_s", "way"), [(40.0, "ahead of"), (-40.0, "behind")])
def test_clock_offset_fires_for_a_server_of_another_time(ahead_s: float, way: str) -> None:
    entries = lifecycles.lines(2)
    for entry in entries:
        if "created_s" in entry:
            entry["created_s"] += ahead_s
    (finding,) = findings(clock_offset, entries)
    assert finding.severity is Severity.INFO
    assert way in finding.message


def test_clock_offset_fires_for_an_uncertain_end() -> None:
    entries = lifecycles.lines(1)
    answer = next(one for one in entries if one["line"] == "first-io")
    answer["answered_s"] = answer["at_s"] + 1.0
    (finding,) = findings(clock_offset, entries)
    assert (finding.op, finding.severity) == (Op.READY, Severity.WARNING)


def test_stage_failed_is_silent_where_all_volumes_pass() -> None:
    assert findings(stage_failed) == []


def test_stage_unsupported_is_silent_where_the_class_has_every_stage() -> None:
    assert findings(stage_unsupported) == []


def test_below_resolution_is_silent_on_long_stages() -> None:
    assert findings(below_resolution) == []


def test_clock_offset_is_silent_on_equal_clocks() -> None:
    assert findings(clock_offset) == []


def test_an_ordinary_storm_has_no_finding() -> None:
    report = lifecycles.report(lifecycles.lines(8))
    output = lifecycle_output(report)
    trial = TrialEvidence(place=Place(), windows={}, output=output, lifecycle=report)
    found = [
        finding.code
        for piece in (trial, *trial.jobs)
        for rule in RULES
        if rule.looks_at is type(piece)
        for finding in rule.findings(piece)
    ]
    assert found == []
