"""What load curves say, in sentences: growth, knee, limit, and what is used up there."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.analysis.scaling.density import DensityAnswer
from leadline.analysis.scaling.knee import KneeMethod, Shape
from leadline.analysis.scaling.limit import LimitAnswer
from leadline.metrics import Metric
from leadline.report.change_words import short
from leadline.report.scaling.wording import level_text, load_text
from leadline.report.wording import count_text, op_text, value_with_unit


def curve_sentence(
    shape: Shape, limits: Sequence[LimitAnswer] = (), full: str = "", run: str = ""
) -> str:
    """`randread-4k on rep3: throughput grows to 3 clients (9,800 IOPS), then stays; p99<20 ms up
    to 4 clients; the OSDs' processors are full there.` `limits` are those of closed and open loop,
    `full` is a clause on what is used up, `run` the name of the run where there are several."""
    curve = shape.curve
    op = "" if curve.op.value in curve.workload else f" ({op_text(curve.op)})"
    depth = f" at depth {curve.iodepth}" if curve.iodepth is not None else ""
    # A closed loop's percentiles are flattered: alone they would say what the open loop denies.
    loops = any(answer.open_loop for answer in limits)
    clauses = [_growth(shape), *(_limit(answer, loops=loops) for answer in limits), full]
    said = "; ".join(clause for clause in clauses if clause)
    return f"{short(curve.workload)}{op} on {_of(curve.target, run)}{depth}: {said}."


def _of(target: str, run: str) -> str:
    return short(target) + (f" of {short(run)}" if run else "")


def _growth(shape: Shape) -> str:
    peak = shape.peak
    if peak is None:
        return "no level has a throughput that may be used"
    curve = shape.curve
    knee = shape.knee(KneeMethod.GAIN)
    top = f"{value_with_unit(Metric.IOPS, peak.iops)}"
    if len([one for one in curve.closed if one.usable(Metric.IOPS) is not None]) < 2:
        return f"{top} at the only level, which tells no growth"
    at = load_text(curve, peak.load)
    if shape.saturated is None:
        return f"highest at {at} ({top}); whether it still grows there the trials leave open"
    if not shape.saturated:
        return f"throughput still grows at {at}, the most that was measured ({top})"
    if knee.load is None:
        return f"highest at {at} ({top}), where throughput no longer grows"
    point = next(one for one in curve.closed if one.level == knee.level)
    rate = point.usable(Metric.IOPS)
    there = f" ({value_with_unit(Metric.IOPS, rate)})" if rate is not None else ""
    if knee.load == curve.load_of(curve.closed[0]):
        return f"throughput does not grow beyond {load_text(curve, knee.load)}{there}"
    grows = f"throughput grows to {load_text(curve, knee.load)}{there}"
    return f"{grows}, then {_beyond(shape)}"


def _beyond(shape: Shape) -> str:
    curve, peak, last = shape.curve, shape.peak, shape.curve.closed[-1]
    rate = last.usable(Metric.IOPS)
    if peak is None or peak.last or rate is None or last.level in peak.ties:
        return "stays"
    at = load_text(curve, curve.load_of(last))
    return f"falls to {value_with_unit(Metric.IOPS, rate)} at {at}"


def _limit(answer: LimitAnswer, *, loops: bool) -> str:
    limit, kept, broken = answer.limit, answer.last_kept, answer.first_broken
    loop = f" in {'an open' if answer.open_loop else 'a closed'} loop" if loops else ""
    if kept and broken:
        iops = answer.iops
        rate = f" ({value_with_unit(Metric.IOPS, iops)})" if iops is not None else ""
        between = (
            f", and the trials disagree at {count_text(len(answer.between), 'level')} between"
            if answer.between
            else ""
        )
        return (
            f"{limit} is kept up to {level_text(kept.point)}{rate} and passed at "
            f"{level_text(broken.point)}{between}{loop}"
        )
    if kept and kept is answer.points[-1]:
        return f"{limit} is kept by every level{loop}"
    if kept:
        return (
            f"{limit} is kept up to {level_text(kept.point)}, and beyond it the trials leave it "
            f"open{loop}"
        )
    if broken:
        return f"no level keeps {limit}{loop}"
    return f"whether {limit} is kept is not known: no latency there may be used{loop}"


def density_sentence(answer: DensityAnswer, run: str = "") -> str:
    """`rep3 carries 12 to 13 clients at 500 IOPS each before p99 passes 5 ms.`"""
    each = value_with_unit(Metric.IOPS, answer.rate_iops)
    what = f"{short(answer.workload)} on {_of(answer.target, run)}, clients at {each} each"
    if answer.kept is None and answer.broken is None:
        return f"{what}: no number of clients tells whether {answer.limit} is kept."
    if answer.kept is None:
        fewest = count_text(answer.broken or 0, "client")
        return f"{what}: {fewest} already pass {answer.limit}."
    kept = count_text(answer.kept, "client")
    if answer.broken is None:
        return f"{what}: {answer.limit} is kept up to {kept}, the most that was tried."
    within = (
        f"; between them {count_text(len(answer.unsure), 'number')} of clients on which the trials "
        "disagree"
        if answer.unsure
        else ""
    )
    return f"{what}: {kept} keep {answer.limit}, {answer.broken:,} pass it{within}."
