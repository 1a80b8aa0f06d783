"""Speed-up and efficiency of a larger system."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leadline.analysis.scaling.curves import LoadCurve
from leadline.analysis.scaling.speedup import Kind, Resource, partners
from leadline.analysis.verdicts import Verdict
from leadline.metrics import Op
from leadline.plan.workload import Pattern
from tests.unit.analysis.scaling.levels import Did, Level, closed, refusal, simulate
from tests.unit.analysis.scaling.systems import HOSTS, against

THREE = [100.0, 102.0, 98.0, 101.0, 99.0, 100.0]
FIVE = [150.0, 153.0, 147.0, 152.0, 149.0, 150.0]


def test_levels_of_equal_load_are_compared_with_each_other() -> None:
    small = simulate(closed(1, *THREE), closed(8, *[2 * one for one in THREE]), closed(64, 300.0))
    large = simulate(closed(1, *THREE), closed(8, *[3 * one for one in THREE]), closed(32, 400.0))
    found = against(small, large, HOSTS)
    assert [one.judgement.ratio for one in found.levels] == [1.0, pytest.approx(1.5)]
    assert (found.baseline_alone, found.candidate_alone) == (("qd64x1",), ("qd32x1",))
    low, high = found.levels[1].judgement.interval or (0, 0)
    # Two runs: +-14 % for the variation between runs alone.
    assert 1.25 < low < 1.5 < high < 1.8


def test_efficiency_is_the_speed_up_as_a_share_of_what_was_added() -> None:
    found = against(simulate(closed(8, *THREE)), simulate(closed(8, *FIVE)), HOSTS)
    (level,) = found.levels
    assert level.efficiency is not None
    assert level.efficiency.value == pytest.approx(1.5 / (5 / 3), rel=0.01)
    assert level.judgement.interval is not None
    assert level.efficiency.interval == pytest.approx(
        [one * 3 / 5 for one in level.judgement.interval]
    )


def test_the_resource_that_grew_most_divides_and_copies_never_do() -> None:
    osds = replace(HOSTS, name="OSDs", baseline=3, candidate=10)
    copies = Resource(
        name="copies", kind=Kind.COPIES, baseline=1, candidate=9, told_by="Ceph's inventory"
    )
    found = against(simulate(closed(8, 1.0)), simulate(closed(8, 2.0)), HOSTS, osds, copies)
    assert found.divisor is osds
    only_copies = against(simulate(closed(8, 1.0)), simulate(closed(8, 2.0)), copies)
    assert only_copies.divisor is None
    assert only_copies.levels[0].efficiency is None


def test_peaks_are_those_of_each_curve_whatever_their_load() -> None:
    small = simulate(closed(8, 800.0, 810.0), closed(64, 500.0, 510.0))
    large = simulate(closed(8, 900.0, 910.0), closed(64, 1600.0, 1620.0))
    found = against(small, large)
    assert found.peak is not None
    assert (found.peak.baseline.level, found.peak.candidate.level) == ("qd8x1", "qd64x1")
    assert found.peak.judgement.ratio == pytest.approx(1610 / 805)
    assert found.peaks_last == (False, True)
    assert found.peak.judgement.verdict is Verdict.BETTER, "another load is no other workload"


def test_refused_figures_give_no_ratio() -> None:
    small = simulate(closed(1, *THREE), closed(8, *THREE), findings=[refusal("qd8x1")])
    found = against(small, simulate(closed(1, *FIVE), closed(8, *FIVE)), HOSTS)
    first, refused = found.levels
    assert first.judgement.ratio == pytest.approx(1.5, rel=0.01)
    assert (refused.judgement.ratio, refused.judgement.interval) == (None, None)
    assert refused.efficiency is None
    assert "cache-served-reads" in refused.judgement.reasons
    assert found.peak is not None
    assert found.peak.baseline.level == "qd1x1"


def test_single_trials_give_a_ratio_without_an_interval() -> None:
    found = against(simulate(closed(8, 100.0)), simulate(closed(8, 160.0)), HOSTS)
    (level,) = found.levels
    assert level.judgement.ratio == pytest.approx(1.6)
    assert level.judgement.interval is None
    assert "single-trial" in level.judgement.reasons


def test_partners_are_of_one_workload_operation_and_depth() -> None:
    def swept(depth: int, *clients: int, op: Op = Op.READ, workload: str = "randread") -> LoadCurve:
        pattern = Pattern.RANDREAD if op is Op.READ else Pattern.RANDWRITE
        levels = [
            Level(
                trials=[[Did(100.0, op=op)]],
                clients=one,
                iodepth=depth,
                pattern=pattern,
                workload=workload,
            )
            for one in clients
        ]
        return simulate(*levels).curve

    base = swept(32, 1, 2)
    assert partners(base, swept(32, 4, 8)), "one depth, other numbers of clients"
    assert not partners(base, swept(64, 4, 8))
    assert not partners(base, swept(32, 1, 2, op=Op.WRITE))
    assert not partners(base, swept(32, 1, 2, workload="other"))
    single = simulate(Level(trials=[[Did(100.0)]], clients=2, iodepth=32)).curve
    assert partners(base, single), "one level that both have"
