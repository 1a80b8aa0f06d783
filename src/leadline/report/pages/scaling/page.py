"""Load curves as sections: charts, levels, what the curves say, and systems beside each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from leadline.analysis.scaling.curves import Axis
from leadline.analysis.scaling.knee import KneeMethod, Shape
from leadline.analysis.scaling.limits import DensityAnswer, LimitAnswer
from leadline.analysis.scaling.study import CurveStudy, RunStudy, ScalingStudy
from leadline.findings import Finding, Severity
from leadline.metrics import Metric
from leadline.plan.models import LatencyLimit
from leadline.report.curves import MOST_SERIES
from leadline.report.document import (
    Block,
    Bullets,
    Choices,
    Document,
    LineChart,
    Marks,
    PageBudget,
    Paragraph,
    Section,
    Table,
    finding_list,
)
from leadline.report.pages.scaling.charts import (
    DrawnCurve,
    left_out_texts,
    load_chart,
    response_chart,
    tail_of,
    timeline_sections,
)
from leadline.report.pages.scaling.growth import (
    density_table,
    disturbance_table,
    fairness_table,
    growth_sections,
    growth_sentence,
    lab_sentences,
)
from leadline.report.pages.scaling.tables import (
    NamedCurve,
    at_peak_clause,
    bottleneck_table,
    law_table,
    level_text,
    levels_table,
    limits_table,
    load_text,
    named_curves,
    run_name,
    shapes_table,
    short_title,
    suspects_table,
)
from leadline.report.words import (
    chart_labels,
    count_text,
    listed,
    op_text,
    short,
    value_with_unit,
    visible,
)
from leadline.stats.usl import Unfitted

# What load curves say, in sentences: growth, knee, limit, and what is used up there.


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


# More sentences than these are a table's work.
_MOST_SENTENCES = 6
# A page repeats no more levels than these: the tables of its results have them all.
_MOST_LEVELS = 300
# Curves whose evidence is told in full, with what speaks against each bottleneck.
_MOST_EVIDENCE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Curves of one workload and operation that count their load alike."""

    heading: str
    members: tuple[NamedCurve, ...]


def scaling_sentences(study: ScalingStudy) -> tuple[str, ...]:
    """What the systems beside each other and the curves say, the most important first. Of very many
    curves only those are told whose reads and writes are not told by their total."""
    # Systems of one size are compared elsewhere.
    grown = [one for one in study.growths if any(row.speedup.divisor for row in one.rows)]
    said = [growth_sentence(one) for one in grown]
    # Systems beside the first all stand on the same machine.
    said += [text for one in grown[:1] if one.labs is not None for text in lab_sentences(one.labs)]
    said += [sentence for sentence, _ in _densities(study)]
    told = [one for one in named_curves(study) if not one.curve.part_of_mix]
    searched = {(one.target, one.workload) for run in study.runs for one in run.densities}
    curves = [
        one for one in told
        if one.curve.closed or (one.curve.target, one.curve.workload) not in searched
    ]  # fmt: skip
    said += [
        curve_sentence(
            one.study.shape,
            limits_of(one.study),
            at_peak_clause(one.study),
            run_name(study, one.study.run),
        )
        for one in curves[:_MOST_SENTENCES]
    ]
    if len(curves) > _MOST_SENTENCES:
        more = count_text(len(curves) - _MOST_SENTENCES, "further load curve")
        said.append(f"{more}: the table of what the curves say has them.")
    return tuple(said)


def limits_of(study: CurveStudy) -> tuple[LimitAnswer, ...]:
    """Of the closed loop, then of the open one, as far as there are."""
    return tuple(one for one in (study.limit, study.offered_limit) if one is not None)


# --- the curves ---------------------------------------------------------------------------------


def curve_groups(curves: Sequence[NamedCurve]) -> tuple[_Group, ...]:
    """By workload, operation and what the load is counted in, as the plan has them; the whole of a
    mix before its parts."""
    found: dict[tuple[str, str, Axis], list[NamedCurve]] = {}
    for one in sorted(curves, key=lambda one: one.curve.part_of_mix):
        key = (one.curve.workload, op_text(one.curve.op), one.curve.axis)
        found.setdefault(key, []).append(one)
    order = list(dict.fromkeys(one.curve.workload for one in curves))
    axes = {(workload, op): 0 for workload, op, _ in found}
    for workload, op, _ in found:
        axes[workload, op] += 1
    return tuple(
        _Group(
            heading=" · ".join(
                [visible(workload), op] + ([f"by {axis.value}"] if axes[workload, op] > 1 else [])
            ),
            members=tuple(members),
        )
        for (workload, op, axis), members in sorted(
            found.items(), key=lambda item: order.index(item[0][0])
        )
    )


def _drawn(group: _Group) -> tuple[list[DrawnCurve], int]:
    """The curves to draw, the fastest where there are many, and how many are not."""

    def highest(one: NamedCurve) -> float:
        peak = one.study.shape.peak
        return peak.iops if peak else 0.0

    chosen = sorted(group.members, key=lambda one: -highest(one))[:MOST_SERIES]
    labels = chart_labels(one.label for one in group.members)
    kept = [one for one in group.members if one in chosen]
    return (
        [DrawnCurve(label=labels[one.label], shape=one.study.shape) for one in kept],
        len(group.members) - len(kept),
    )


def group_blocks(
    group: _Group,
    anchor: str,
    limit: LatencyLimit | None,
    marks: Marks,
    *,
    choice: str = "",
    budget: PageBudget | None = None,
    levels: bool = True,
) -> tuple[Block, ...]:
    """The two charts of a group and its levels."""
    drawn, rest = _drawn(group)
    made = (
        load_chart(f"{anchor}-load", f"Throughput over load: {group.heading}", drawn, choice),
        response_chart(f"{anchor}-response", _response_title(group, drawn), drawn, limit, choice),
    )
    charts: list[LineChart] = [
        chart
        for chart in made
        if chart is not None and (budget is None or budget.allows("load curves", _points(chart)))
    ]
    table = levels_table(
        f"{anchor}-levels",
        _levels_caption(group, drawn, rest, limit),
        [(one.label, one.curve) for one in group.members],
        marks,
        tail=tail_of((one.curve for one in drawn), limit) or Metric.LATENCY_P99,
        choice=choice,
    )
    return (*charts, table) if levels else tuple(charts)


def _points(chart: LineChart) -> int:
    # A computed line is a path without marks, which takes a tenth of the room.
    return sum(len(line.points) if line.texts else len(line.points) // 10 for line in chart.lines)


def _response_title(group: _Group, drawn: Sequence[DrawnCurve]) -> str:
    """Whose percentiles they are: a closed loop asks a stalled target less."""
    closed = any(one.curve.closed for one in drawn)
    offered = any(one.curve.offered for one in drawn)
    loop = {(True, False): ", closed loop", (False, True): ", open loop"}.get((closed, offered), "")
    return f"Latency over throughput{loop}: {group.heading}"


def _levels_caption(
    group: _Group, drawn: Sequence[DrawnCurve], rest: int, limit: LatencyLimit | None
) -> str:
    tail = tail_of((one.curve for one in drawn), limit) or Metric.LATENCY_MEAN
    left_out = left_out_texts(drawn, tail)
    parts = [f"Levels of {group.heading}"]
    if rest:
        parts.append(f"{rest:,} slower ones are not drawn")
    if left_out:
        parts.append(f"no {short_title(tail)} drawn of {listed(left_out, limit=4)}")
    return "; ".join(parts)


def curve_section(
    study: ScalingStudy, marks: Marks, budget: PageBudget | None = None
) -> tuple[Section, ...]:
    """The section of a run's page: one workload's charts at a time, then what the curves say. None
    where no curve has two levels."""
    curves = named_curves(study)
    if not curves:
        return ()
    groups = curve_groups(curves)
    levels = sum(one.study.levels for one in curves) <= _MOST_LEVELS
    blocks: list[Block] = [Paragraph(text=READING)]
    chosen = [(f"load-{number}", group) for number, group in enumerate(groups, start=1)]
    made = {
        anchor: group_blocks(
            group, anchor, study.limit, marks, choice=anchor if len(groups) > 1 else "",
            budget=budget, levels=levels,
        )
        for anchor, group in chosen
    }  # fmt: skip
    drawn = [(anchor, group.heading) for anchor, group in chosen if made[anchor]]
    if len(drawn) > 1:
        blocks.append(Choices(id="load-curve", label="Workload", options=tuple(drawn)))
    # Charts stand beside each other where nothing is between them.
    every = [block for anchor, _ in drawn for block in made[anchor]]
    blocks += sorted(every, key=lambda block: isinstance(block, Table))
    if budget is not None and budget.omission:
        blocks.append(Paragraph(text=budget.omission))
    return (
        Section(
            heading="Load curves",
            id="load-curves",
            blocks=tuple(blocks),
            sections=(
                *saying_sections(study, curves),
                *growth_sections(study),
            ),
        ),
    )


READING = (
    "Closed loop: an I/O follows when one has come back, so that a stalled system is asked less "
    "and its percentiles are flattered. Open loop: I/Os are offered at a rate of their own; fio "
    "offers late what a standstill held up, so that of a target that stops and goes these "
    "percentiles are too good as well. Knee: the level from which on no "
    "doubling of the load brings a tenth more."
)


# --- what they say ------------------------------------------------------------------------------


def saying_sections(study: ScalingStudy, curves: Sequence[NamedCurve]) -> tuple[Section, ...]:
    """Peak and knee, the limit, the fitted law, density, fairness, neighbours, bottlenecks."""
    closed = [one for one in curves if one.curve.closed]
    shapes = [(one.name, one.study.shape) for one in closed]
    limits = [(one.name, answer) for one in curves for answer in limits_of(one.study)]
    parts: list[tuple[str, str, list[Block]]] = [
        (
            "Peak and knee",
            "load-peak",
            [
                shapes_table(
                    "load-shapes", [(one.name, one.study.shape, one.study.limit) for one in closed]
                )
            ]
            if closed
            else [],
        ),
        ("Latency limit", "load-limit", [limits_table("load-limits", limits)] if limits else []),
        ("Scalability fit", "load-law", _law(shapes)),
        ("Density", "load-density", _density(study)),
        ("Fairness among clients", "load-fairness", _fairness(curves)),
        ("Noisy neighbours", "load-neighbours", _neighbours(curves)),
        ("What held each level back", "load-bottlenecks", _bottlenecks(curves)),
    ]
    return tuple(
        Section(heading=heading, id=anchor, blocks=tuple(blocks))
        for heading, anchor, blocks in parts
        if blocks
    )


def _law(shapes: Sequence[tuple[str, Shape]]) -> list[Block]:
    """What was fitted, and a sentence for each reason that kept curves from it."""
    fitted = [(name, shape) for name, shape in shapes if not isinstance(shape.law, Unfitted)]
    laws = (shape.law for _, shape in shapes)
    reasons = Counter(law.reason for law in laws if isinstance(law, Unfitted))
    table: list[Block] = [law_table("load-laws", fitted)] if fitted else []
    return [
        *table,
        *(
            Paragraph(
                text=f"No Universal Scalability Law is fitted to {count_text(count, 'curve')}: "
                f"{visible(why)}."
            )
            for why, count in reasons.items()
        ),
    ]


def _densities(study: ScalingStudy) -> list[tuple[str, DensityAnswer]]:
    """Each answer as a sentence, with its run where there are several."""
    return [
        (density_sentence(one, run_name(study, run.run)), one)
        for run in study.runs
        for one in run.densities
    ]


def _density(study: ScalingStudy) -> list[Block]:
    found = _densities(study)
    if not found:
        return []
    return [
        Bullets(items=tuple(sentence for sentence, _ in found)),
        *(
            density_table(f"density-{number}", one)
            for number, (_, one) in enumerate(found, start=1)
        ),
    ]


def _fairness(curves: Sequence[NamedCurve]) -> list[Block]:
    rows = [(one.name, fair) for one in curves for fair in one.study.fairness]
    return [fairness_table("fairness", rows)] if rows else []


def _neighbours(curves: Sequence[NamedCurve]) -> list[Block]:
    rows = [(one.name, driven) for one in curves for driven in one.study.disturbances]
    return [disturbance_table("neighbours", rows)] if rows else []


def _bottlenecks(curves: Sequence[NamedCurve]) -> list[Block]:
    """Levels are those of a cell, whatever the operation: reads and writes that run together have
    one bottleneck."""
    whole = [
        (one.name, one.study)
        for one in curves
        if one.study.bottlenecks and not one.curve.part_of_mix
    ]
    return [bottleneck_table("bottlenecks", whole)] if whole else []


def evidence_section(curves: Sequence[NamedCurve]) -> tuple[Section, ...]:
    """Every bottleneck at each curve's highest level with its numbers, to be looked up. Reads and
    writes that run together have one evidence."""
    whole = [one for one in curves if not one.curve.part_of_mix]
    blocks: list[Block] = []
    for number, one in enumerate(whole[:_MOST_EVIDENCE], start=1):
        level = one.study.at_peak
        if level is None:
            continue
        blocks.append(suspects_table(f"suspects-{number}", one.name, level))
        if level.evidence.notes:
            blocks.append(Bullets(items=tuple(visible(note) for note in level.evidence.notes)))
    if not blocks:
        return ()
    return (
        Section(
            heading="Evidence at the highest level",
            id="load-evidence",
            blocks=tuple(blocks),
            folded=True,
        ),
    )


# `leadline scale` as a document for terminal and Markdown.


def scaling_document(study: ScalingStudy) -> Document:
    """Every curve with its charts and levels, what they say, and systems beside each other. A study
    without a curve of two levels says so, and what there is."""
    findings = tuple(one for run in study.runs for one in _touching(run, len(study.runs) > 1))
    marks = Marks(findings)
    curves = named_curves(study)
    named = [(one.name, one.study) for one in curves]
    sections = [
        Section(
            heading=group.heading,
            id=f"load-{number}",
            blocks=group_blocks(group, f"load-{number}", study.limit, marks),
        )
        for number, group in enumerate(curve_groups(curves), start=1)
    ]
    if sections:
        first = sections[0]
        reading: tuple[Block, ...] = (Paragraph(text=READING),)
        sections[0] = replace(first, blocks=(*first.blocks, *reading))
    sections += [*growth_sections(study), *saying_sections(study, curves)]
    if findings:
        sections.append(
            Section(
                heading="Findings about these levels",
                id="findings",
                blocks=(finding_list(findings, marks),),
            )
        )
    return Document(
        title=f"Load curves of {listed(visible(one.run.id) for one in study.runs)}",
        subtitle=_subtitle(study),
        summary=scaling_sentences(study) or _without(study),
        sections=(*sections, *evidence_section(curves), *timeline_sections(named)),
        marked=marks.all,
    )


def _subtitle(study: ScalingStudy) -> str:
    levels = sum(one.levels for one in study.curves)
    parts = [
        count_text(len(study.curves), "curve"),
        count_text(levels, "level"),
        f"limit {study.limit}" if study.limit else "",
    ]
    return " · ".join(part for part in parts if part)


def _without(study: ScalingStudy) -> tuple[str, ...]:
    """What is said where there is no curve: a level alone tells no growth."""
    lead = "No workload was measured at two load levels, so that there is no load curve."
    return (lead, *(curve_sentence(one.shape, limits_of(one)) for one in study.curves[:6]))


def _touching(run: RunStudy, several: bool) -> Iterable[Finding]:
    """The errors and warnings of which a level of the curves carries a mark, with the run in front
    of the target where there are several."""
    touched = {
        (doubt.code, doubt.severity)
        for curve in run.curves
        for point in (*curve.curve.closed, *curve.curve.offered, *curve.curve.disturbed)
        for metric in point.figure.metrics
        for doubt in metric.doubts
    }
    name = run.run.manifest.cluster_label or run.run.id
    for one in run.findings:
        if one.severity is not Severity.INFO and (one.code, one.severity) in touched:
            yield replace(one, target=f"{name}: {one.target}") if several else one
