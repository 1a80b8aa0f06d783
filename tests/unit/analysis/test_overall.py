"""The overall effect of a comparison, by operation and block size."""

from __future__ import annotations

import pytest

from leadline.analysis.comparison import ComparedCell
from leadline.analysis.overall import overall_effects
from leadline.analysis.verdicts import Evidence, Judgement, Pair, Sample, Verdict, judge
from leadline.metrics import Metric, Op

STEADY = (99.0, 101.0, 100.0)


def cell(judgement: Judgement, op: Op = Op.WRITE, number: int = 0, **more: object) -> ComparedCell:
    fields = {"metric": Metric.IOPS, "streaming": False, "workload": "w", **more}
    return ComparedCell(
        target=f"t{number}",
        level="",
        op=op,
        baseline_cell=None,
        candidate_cell=None,
        judgement=judgement,
        depth=1,
        **fields,  # type: ignore[arg-type]
    )


def single(ratio: float, verdict: Verdict = Verdict.SAME) -> Judgement:
    return Judgement(verdict=verdict, evidence=Evidence.ONE_NUMBER, band=0.05, ratio=ratio)


def test_a_small_shift_that_no_cell_shows_is_shown_by_all() -> None:
    pairs = [
        Pair(
            metric=Metric.IOPS,
            baseline=Sample(value=100.0, trials=tuple(one * (1 + at / 500) for one in STEADY)),
            candidate=Sample(value=97.0, trials=tuple(0.97 * one for one in STEADY[::-1])),
        )
        for at in range(12)
    ]
    judged = judge(pairs)
    assert {one.verdict for one in judged} <= {Verdict.SAME, Verdict.INCONCLUSIVE}
    (every, writes) = overall_effects(
        [cell(one, number=at) for at, one in enumerate(judged)], 0.05, 0.0
    )
    assert (every.op, every.blocks, every.cells) == (None, None, 12)
    assert (writes.op, writes.ratio) == (Op.WRITE, every.ratio)
    assert writes.interval[1] < 1
    assert writes.verdict is Verdict.SAME


def test_groups_by_operation_and_block_size() -> None:
    cells = [
        *(cell(single(0.8), number=at) for at in range(3)),
        *(cell(single(1.2), number=at, streaming=True, metric=Metric.BANDWIDTH) for at in range(3)),
        *(cell(single(1.0), Op.READ, at) for at in range(2)),
    ]
    found = {(one.op, one.blocks): one for one in overall_effects(cells, 0.05, 0.0)}
    assert set(found) == {(None, None), (Op.WRITE, None), (Op.WRITE, "small"), (Op.WRITE, "large")}
    assert found[Op.WRITE, "small"].ratio == pytest.approx(0.8)
    assert found[Op.WRITE, "small"].verdict is Verdict.WORSE
    assert found[Op.WRITE, "large"].verdict is Verdict.BETTER
    assert found[Op.WRITE, None].verdict is Verdict.INCONCLUSIVE


def test_what_takes_part() -> None:
    """Neither refused cells, nor latencies, nor totals beside their parts."""
    cells = [
        *(cell(single(0.9), number=at) for at in range(3)),
        cell(single(0.1, Verdict.NOT_COMPARABLE), number=3),
        cell(single(0.1), number=4, metric=Metric.LATENCY_P99),
        *(cell(single(0.5), Op.TOTAL, at) for at in range(3)),
    ]
    found = {one.op: one for one in overall_effects(cells, 0.05, 0.0)}
    assert found[None].cells == 3
    assert found[None].ratio == pytest.approx(0.9)
    assert found[Op.TOTAL].ratio == pytest.approx(0.5)
    assert overall_effects(cells[:2], 0.05, 0.0) == ()


def test_two_runs_share_their_days() -> None:
    cells = [cell(single(0.9 + at / 1000), number=at) for at in range(30)]
    (within, _), (across, _) = (overall_effects(cells, 0.05, tau) for tau in (0.0, 0.05))
    assert within.interval[1] / within.interval[0] < 1.02
    assert across.interval[1] / across.interval[0] == pytest.approx(1.139**2, abs=0.04)
