"""The last level within a latency limit."""

from __future__ import annotations

from leadline.analysis.scaling.limits import (
    LatencyGap,
    LatencyGapReason,
    LimitAnswer,
    Standing,
    check_limit,
)
from leadline.metrics import Metric
from leadline.plan.models import LatencyLimit, parse_latency_limit
from tests.unit.analysis.scaling.levels import OVERLOADED, Did, Level, refusal, simulate

LIMIT = parse_latency_limit("p99<20ms")


def answered(
    *p99_ms: tuple[float, ...], limit: LatencyLimit = LIMIT, **more: object
) -> LimitAnswer:
    """Levels of depth 1, 2, 4 ..., each with the p99 of its trials."""
    levels = [
        Level(trials=[[Did(1000.0 * 2**k, 0.001, ms / 1000)] for ms in trials], iodepth=2**k)
        for k, trials in enumerate(p99_ms)
    ]
    return check_limit(simulate(*levels, **more).curve, limit)  # type: ignore[arg-type]


def depth(found: LimitAnswer, name: str) -> int | None:
    point = getattr(found, name)
    return point.point.load.in_flight if point else None


def test_between_the_last_that_keeps_it_and_the_first_that_breaks_it() -> None:
    found = answered((5, 6, 7), (9, 8, 9), (15, 19, 21), (30, 31, 32), (60, 60, 60))
    assert depth(found, "last_kept") == 2
    assert depth(found, "first_broken") == 8
    assert found.between == ("qd4x1",)
    assert found.iops == 2000
    assert (found.levels[2].kept, found.levels[2].trials) == (2, 3)
    assert found.levels[2].standing is Standing.SOME


def test_all_keep_it_or_none_does() -> None:
    kept = answered((5,), (6,))
    assert (depth(kept, "last_kept"), depth(kept, "first_broken")) == (2, None)
    broken = answered((50,), (60,))
    assert (depth(broken, "last_kept"), depth(broken, "first_broken")) == (None, 1)
    assert broken.iops is None


def test_a_level_behind_the_limit_that_keeps_it_again_is_reported() -> None:
    found = answered((5,), (30,), (6,), (60,))
    assert depth(found, "last_kept") == 1
    assert found.again == ("qd4x1",)


def test_a_level_behind_one_in_finding_is_not_the_last_that_keeps_it() -> None:
    found = answered((5, 5), (15, 25), (6, 6), (60, 60))
    assert depth(found, "last_kept") == 1
    assert found.between == ("qd2x1", "qd4x1")


def test_refused_latencies_are_not_used_and_listed() -> None:
    found = answered((5,), (6,), (7,), (30,), findings=[refusal("qd4x1", latency_only=True)])
    assert depth(found, "last_kept") == 2
    assert found.unknown == ("qd4x1",)
    assert found.between == ()
    assert found.levels[2].why is not None
    assert found.levels[2].why.findings == ("cache-served-reads",)


def test_the_limit_itself_is_not_below_it() -> None:
    """Depth 1, exactly 20 ms as a bucket holds it."""
    assert depth(answered((20,)), "first_broken") == 1


def test_other_metrics_have_their_own_limit() -> None:
    found = answered((30,), limit=LatencyLimit(metric=Metric.LATENCY_P50, below_s=0.002))
    assert depth(found, "last_kept") == 1


def test_an_open_loop_that_falls_behind_breaks_every_limit() -> None:
    levels = [
        Level(trials=[[Did(100.0, 0.001)]] * 2, rate_iops=100),
        Level(trials=[[Did(200.0, 0.001)], OVERLOADED], rate_iops=200),
        Level(trials=[OVERLOADED, OVERLOADED], rate_iops=400),
    ]
    found = check_limit(simulate(*levels).curve, LIMIT, open_loop=True)
    assert [one.standing for one in found.levels] == [
        Standing.KEPT,
        Standing.SOME,
        Standing.BROKEN,
    ]
    assert (found.levels[1].kept, found.levels[1].trials) == (1, 2)
    assert found.last_kept is found.levels[0]
    assert found.first_broken is found.levels[2]
    assert found.levels[2].why == LatencyGap(reason=LatencyGapReason.RATE_NOT_REACHED, trials=2)


def test_a_finished_open_loop_below_its_rate_breaks_the_limit_however_quick() -> None:
    made = simulate(
        Level(trials=[[Did(300.0, 0.001)], [Did(310.0, 0.001)]], rate_iops=400),
        findings=[refusal("qd1x1-rate400", latency_only=True, code="rate-not-reached")],
    )
    (point,) = check_limit(made.curve, LIMIT, open_loop=True).levels
    assert point.standing is Standing.BROKEN


def test_closed_points_do_not_answer_for_open_ones() -> None:
    made = simulate(
        Level(trials=[[Did(100.0, 0.001)]]), Level(trials=[[Did(50.0, 0.05)]], rate_iops=50)
    )
    assert check_limit(made.curve, LIMIT).first_broken is None
    assert check_limit(made.curve, LIMIT, open_loop=True).last_kept is None
