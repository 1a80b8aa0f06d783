"""The load curve of a sweep as it grows: levels in order, numbers of what is over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from leadline.archive.records import Derived, DerivedOperation, TrialStatus
from leadline.cli.progress import Sweeps
from leadline.metrics import Metric, Op
from leadline.plan.expand import with_repeats
from leadline.plan.models import Cell, Plan, Target, Trial
from leadline.plan.workload import Pattern, Phase, Workload

REPEATS = 2
COMPLETED: Any = SimpleNamespace(status=TrialStatus.COMPLETED)
FAILED: Any = SimpleNamespace(status=TrialStatus.FAILED)


def cell(depth: int, *, pattern: Pattern = Pattern.RANDREAD, **more: Any) -> Cell:
    phase = Phase(
        name="p", pattern=pattern, block_size=4096, iodepth=depth, numjobs=1, size=1 << 20,
        rate_iops=more.get("rate"),
    )  # fmt: skip
    workload = Workload(name=more.get("workload", "randread-4k"), phases=(phase,), runtime_s=3.0)
    return Cell(target="disk", workload=workload, level=more.get("level", f"qd{depth}"))


def plan(*cells: Cell) -> Plan:
    return Plan(
        targets=(Target(name="disk", url="dir:/srv"),),
        cells=cells,
        trials=tuple(
            Trial(id=f"t{at}", position=at, block=at // len(cells), cell=at % len(cells), seed=1)
            for at in range(REPEATS * len(cells))
        ),
        repeats=REPEATS,
        seed=1,
    )


def result(iops: float, p99_s: float | None = 0.002, op: Op = Op.READ) -> Derived:
    metrics = {Metric.IOPS: iops, Metric.LATENCY_MEAN: 0.001, Metric.LATENCY_P99: p99_s}
    return Derived(operations=(DerivedOperation(job="p", op=op, metrics=metrics),))


def done(sweeps: Sweeps, one: Cell, *rates: float) -> None:
    for rate in rates:
        sweeps.started(one)
        sweeps.ended(one, COMPLETED, result(rate))


def test_levels_are_in_order_of_load_and_those_to_come_have_a_dot() -> None:
    levels = [cell(depth) for depth in (16, 1, 4)]
    sweeps = Sweeps(plan(*levels))
    done(sweeps, levels[2], 4_000.0)
    lines = sweeps.curve(levels[2], 80)
    assert [line[2:].split()[0] for line in lines] == ["qd1", "qd4", "qd16"]
    assert lines[0].split()[-1] == lines[2].split()[-1] == "…"
    assert lines[1].startswith("▸ qd4")
    assert lines[1].endswith("4,000 IOPS  p99 2 ms  1 of 2")


def test_bars_are_as_long_as_throughput() -> None:
    levels = [cell(depth) for depth in (1, 2, 4)]
    sweeps = Sweeps(plan(*levels))
    for one, rate in zip(levels, (1_000.0, 2_000.0, 4_000.0), strict=True):
        done(sweeps, one, rate, rate)
    bars = [line.count("█") for line in sweeps.curve(levels[0], 100)]
    assert bars[2] == 30
    assert bars[:2] == [pytest.approx(7.5, abs=0.5), 15]


def test_a_level_is_the_median_of_its_trials() -> None:
    levels = [cell(1), cell(2)]
    sweeps = Sweeps(plan(*levels))
    done(sweeps, levels[0], 1_000.0)
    assert sweeps.line(levels[0], block=0) == "", "a repeat is to come"
    done(sweeps, levels[0], 3_000.0)
    assert sweeps.line(levels[0], block=1) == (
        "level qd1, 1 of 2: 2,000 IOPS, p99 2 ms, median of 2 trials"
    )


def test_levels_with_different_repeats_end_with_their_own() -> None:
    levels = [cell(1), cell(2)]
    sweeps = Sweeps(with_repeats(plan(*levels), [1, 3]))
    done(sweeps, levels[0], 1_000.0)
    assert sweeps.line(levels[0], block=0) == "level qd1, 1 of 2: 1,000 IOPS, p99 2 ms"
    done(sweeps, levels[1], 1_000.0)
    assert sweeps.line(levels[1], block=0) == ""
    assert sweeps.curve(levels[1], 80)[1].endswith("1 of 3")


def test_without_p99_in_every_trial_the_mean_is_told() -> None:
    levels = [cell(1), cell(2)]
    sweeps = Sweeps(plan(*levels))
    sweeps.ended(levels[0], COMPLETED, result(10.0, None))
    sweeps.ended(levels[0], COMPLETED, result(10.0))
    assert "mean 1 ms" in sweeps.line(levels[0], block=1)


def test_one_level_is_no_sweep() -> None:
    alone = [cell(1), cell(1, workload="other")]
    sweeps = Sweeps(plan(*alone))
    done(sweeps, alone[0], 1.0, 1.0)
    assert sweeps.line(alone[0], block=1) == ""
    assert sweeps.curve(alone[0], 80) == ()


def test_what_the_run_adds_becomes_a_level_when_it_starts() -> None:
    levels = [cell(1), cell(8)]
    sweeps = Sweeps(plan(*levels))
    added = [cell(64, rate=rate, level=name) for rate, name in ((800.0, "peak80"), (500, "peak50"))]
    for one in added:
        sweeps.started(one)
        sweeps.started(one)
    names = [line[2:].split()[0] for line in sweeps.curve(added[0], 80)]
    assert names == ["qd1", "qd8", "peak50", "peak80"], "an open loop stands by its rate"
    done(sweeps, added[0], 790.0, 800.0)
    assert sweeps.line(added[0], block=1).startswith("level peak80, 4 of 4: 795 IOPS")


def test_a_failed_trial_is_no_number() -> None:
    levels = [cell(1), cell(2)]
    sweeps = Sweeps(plan(*levels))
    sweeps.ended(levels[0], FAILED, None)
    sweeps.ended(levels[0], FAILED, result(5.0))
    assert sweeps.line(levels[0], block=1) == "level qd1, 1 of 2: no trial has a result"
    assert "no result" in sweeps.curve(levels[0], 80)[0]


def test_reads_and_writes_of_a_mix_are_added_and_the_worse_latency_told() -> None:
    levels = [cell(depth, pattern=Pattern.RANDRW) for depth in (1, 2)]
    sweeps = Sweeps(plan(*levels))
    mixed = Derived(
        operations=(
            *result(700.0, 0.002, Op.READ).operations,
            *result(300.0, 0.009, Op.WRITE).operations,
            *result(1_000.0, 0.004, Op.TOTAL).operations,
        )
    )
    sweeps.ended(levels[0], COMPLETED, mixed)
    assert "1,000 IOPS  p99 9 ms" in sweeps.curve(levels[0], 80)[0]


@pytest.mark.parametrize("width", [30, 70, 90])
def test_no_line_is_wider_than_it_may_be(width: int) -> None:
    levels = [cell(depth, level=f"c1-qd{depth}-rate12345.6") for depth in range(1, 30)]
    sweeps = Sweeps(plan(*levels))
    done(sweeps, levels[20], 123_456.0)
    lines = sweeps.curve(levels[20], width)
    assert max(map(len, lines)) <= width
    assert any(line.startswith("▸") for line in lines), "where the run is stays in sight"
    assert len(lines) == 13
    assert lines[-1] == "  17 further levels"


def test_names_are_harmless() -> None:
    levels = [cell(1, level="a\x1b[31m"), cell(2)]
    sweeps = Sweeps(plan(*levels))
    done(sweeps, levels[0], 1.0, 1.0)
    assert "\x1b" not in "".join((*sweeps.curve(levels[0], 80), sweeps.line(levels[0], 1)))
