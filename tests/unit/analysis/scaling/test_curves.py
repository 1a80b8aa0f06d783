"""Which points are on which curve, and what may be used of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leadline.analysis.figures import TrialValue, summarise
from leadline.analysis.scaling.curves import Axis, load_curves
from leadline.archive.records import Problem
from leadline.metrics import Metric, Op
from leadline.plan.workload import Pattern
from tests.unit.analysis.scaling.levels import OVERLOADED, Did, Level, closed, refusal, simulate

P99 = Metric.LATENCY_P99


def test_depth_and_jobs_are_one_curve_by_what_is_in_flight() -> None:
    made = simulate(
        closed(16, 900.0, iodepth=8, numjobs=2), closed(1, 100.0), closed(64, 1000.0, iodepth=64)
    )
    curve = made.curve
    assert [one.load.in_flight for one in curve.closed] == [1, 16, 64]
    assert [curve.load_of(one) for one in curve.closed] == [1, 16, 64]
    assert curve.axis is Axis.IN_FLIGHT
    assert curve.iodepth is None


def test_clients_are_a_curve_for_each_depth() -> None:
    levels = [
        Level(trials=[[Did(100.0 * clients * depth)]], clients=clients, iodepth=depth)
        for depth in (32, 64)
        for clients in (4, 1, 2)
    ]
    first, second = simulate(*levels).curves
    assert (first.axis, first.iodepth, second.iodepth) == (Axis.CLIENTS, 32, 64)
    assert [first.load_of(one) for one in first.closed] == [1, 2, 4]
    assert [one.load.in_flight for one in second.closed] == [64, 128, 256]
    assert "depth 64" in second.label


def test_open_points_never_stand_among_closed_ones() -> None:
    made = simulate(
        closed(32, 1000.0, clients=1, iodepth=32),
        closed(64, 1900.0, clients=2, iodepth=32),
        closed(64, 1700.0, clients=1, iodepth=64),
        closed(128, 1500.0, clients=2, iodepth=64),
        *(
            Level(
                trials=[[Did(2 * rate)]], clients=2, iodepth=256, rate_iops=rate, label=f"r{rate}"
            )
            for rate in (855.0, 475.0)
        ),
    )
    by_depth = {curve.iodepth: curve for curve in made.curves}
    assert set(by_depth) == {32, 64}
    # They are shares of the highest level, which has depth 32.
    assert [one.load.offered_iops for one in by_depth[32].offered] == [950, 1710]
    assert not by_depth[64].offered
    assert not any(one.open_loop for curve in made.curves for one in curve.closed)


def test_a_run_of_open_points_alone_is_a_curve_without_closed_ones() -> None:
    made = simulate(*(Level(trials=[[Did(one)]], rate_iops=one) for one in (500.0, 250.0)))
    assert not made.curve.closed
    assert [one.load.offered_per_client for one in made.curve.offered] == [250, 500]


def test_reads_writes_and_their_total_are_curves_of_their_own() -> None:
    trial = [Did(70.0, op=Op.READ), Did(30.0, op=Op.WRITE)]
    made = simulate(
        Level(trials=[trial], pattern=Pattern.RANDRW, read_share=70),
        Level(trials=[trial], pattern=Pattern.RANDRW, read_share=70, rate_iops=100, label="open"),
    )
    found = {curve.op: curve for curve in made.curves}
    assert {op for op, curve in found.items() if curve.part_of_mix} == {Op.READ, Op.WRITE}
    assert found[Op.TOTAL].closed[0].usable(Metric.IOPS) == 100
    assert [found[op].offered[0].load.op_share for op in (Op.READ, Op.WRITE, Op.TOTAL)] == [
        0.7,
        0.3,
        1,
    ]


def test_imported_results_are_distinguished_by_block_size() -> None:
    levels = [
        Level(
            trials=[[Did(100.0)]],
            recorded={"rw": "randread", "bs": bs, "iodepth": depth, "numjobs": "2"},
            label=f"{bs} {depth}",
        )
        for bs in ("4k", "1M")
        for depth in ("1", "8")
    ]
    small, large = simulate(*levels).curves
    assert [one.load.in_flight for one in small.closed] == [2, 16]
    assert "4k" in small.workload
    assert "1M" in large.workload


def test_an_imported_open_loop_adds_processes_and_directions() -> None:
    options = {"rw": "randrw", "bs": "4k", "iodepth": "64", "numjobs": "2"}
    poisson = {"rate_iops": "300,100", "rate_process": "poisson"}
    trial = [Did(600.0, op=Op.READ), Did(200.0, op=Op.WRITE)]
    made = simulate(
        Level(trials=[trial], recorded=options | poisson, label="open"),
        Level(trials=[trial], recorded=options | {"rate_iops": "300,100"}, label="a lid"),
    )
    found = {curve.op: curve for curve in made.curves}
    (point,) = found[Op.READ].offered
    assert point.load.offered_iops == 800
    assert point.load.op_share == pytest.approx(0.75)
    assert [one.level for one in found[Op.READ].closed] == ["a lid"]


def test_without_a_depth_there_is_no_load_but_where_fio_s_default_is_known() -> None:
    def shown(tool: str, **options: str) -> list[int]:
        made = simulate(Level(trials=[[Did(1.0)]], tool=tool, recorded=options, label="x"))
        return [point.load.in_flight for curve in made.curves for point in curve.closed]

    assert shown("fio", rw="read", numjobs="4") == [4]
    assert shown("fio", bs="4k") == []
    assert shown("kbench", rw="read") == []


def test_refused_and_missing_values_are_not_used() -> None:
    made = simulate(
        closed(1, 100.0, 110.0),
        closed(2, 200.0, 210.0),
        Level(trials=[Problem(code="engine-failed", fact="it died")], iodepth=4),
        closed(8, 300.0),
        findings=[refusal("qd1x1"), refusal("qd2x1", latency_only=True)],
    )
    by_load = {one.load.in_flight: one for one in made.curve.closed}
    assert by_load[1].usable(Metric.IOPS) is None
    assert by_load[1].throughput.value == 105
    assert by_load[1].trials(Metric.IOPS) == ()
    assert by_load[2].usable(Metric.IOPS) == 205
    assert by_load[2].usable(P99) is None
    assert by_load[4].missing
    assert not by_load[4].beyond_capacity
    assert by_load[4].usable(Metric.IOPS) is None
    assert by_load[8].usable(P99) == pytest.approx(8 / 300, rel=1e-6)


def test_a_rate_that_was_not_reached_leaves_no_latency() -> None:
    made = simulate(
        Level(trials=[[Did(500.0)], OVERLOADED, OVERLOADED], rate_iops=500),
        Level(trials=[[Did(600.0)], [Did(990.0)]], rate_iops=1000),
        findings=[refusal("qd1x1-rate1000", latency_only=True, code="rate-not-reached")],
    )
    stopped, behind = made.curve.offered
    assert stopped.beyond_capacity
    assert (stopped.stopped, stopped.behind) == (2, 2)
    assert stopped.usable(P99) is None
    assert stopped.usable(Metric.IOPS) == 500
    assert behind.beyond_capacity
    assert behind.behind == 1


def test_neighbours_are_points_of_their_own() -> None:
    made = simulate(
        *(
            Level(trials=[[Did(100.0)]], clients=1, neighbours=neighbours)
            for neighbours in (3, 0, 1)
        )
    )
    assert [one.load.neighbours for one in made.curve.closed] == [0]
    assert [one.load.neighbours for one in made.curve.disturbed] == [1, 3]


def test_a_curve_given_as_bandwidth_with_a_known_block_size_is_a_curve() -> None:
    def level(depth: int, mib_s: float, block: str) -> Level:
        options = {"rw": "read", "iodepth": str(depth), **({"bs": block} if block else {})}
        return Level(trials=[[Did(0.0)]], recorded=options, tool="table", iodepth=depth)

    for block, expected in (("1M", [100.0, 180.0]), ("", [None, None])):
        made = simulate(level(1, 100, block), level(2, 180, block))
        given = tuple(
            replace(
                one,
                metrics=tuple(
                    summarise(
                        metric.metric,
                        [TrialValue(trial="t", value=value)]
                        if metric.metric is Metric.BANDWIDTH
                        else [],
                        None,
                    )
                    for metric in one.metrics
                ),
            )
            for one, value in zip(made.figures, (100 * 2.0**20, 180 * 2.0**20), strict=True)
        )
        (curve,) = load_curves(made.run, given)
        assert [point.usable(Metric.IOPS) for point in curve.closed] == expected
        assert curve.from_bandwidth is bool(block)
