"""Systems beside each other: what was added, and what it brings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from leadline.analysis.scaling.curves import LoadPoint
from leadline.analysis.scaling.growth import Growth, LabBounds
from leadline.analysis.scaling.limits import (
    METRICS,
    DensityAnswer,
    DensityStep,
    Disturbance,
    Effect,
    Fairness,
    LimitPoint,
)
from leadline.analysis.scaling.speedup import (
    Efficiency,
    EqualLatency,
    LevelSpeedup,
    Resource,
    Speedup,
)
from leadline.analysis.scaling.speedup import Kind as ResourceKind
from leadline.analysis.scaling.study import ScalingStudy
from leadline.analysis.verdicts import Judgement
from leadline.metrics import Metric
from leadline.plan.lab import LabDescription, Store
from leadline.report.document import (
    Block,
    Bullets,
    Cell,
    Column,
    Kind,
    Marks,
    Paragraph,
    Section,
    Table,
    finding_list,
)
from leadline.report.pages.scaling.tables import (
    absent,
    level_text,
    number,
    number_text,
    short_title,
    word,
)
from leadline.report.words import (
    count_text,
    listed,
    op_text,
    reason_text,
    share_text,
    short,
    value_text,
    value_with_unit,
    visible,
)

# Clients beside each other as tables: how many fit, how evenly they fared, how neighbours disturb
# one another.

NUMBER = Kind.NUMBER
# With what may be left out where there is no room.
_SHOWN = ((Metric.IOPS, 0), (Metric.LATENCY_MEAN, 3), (Metric.LATENCY_P99, 0))


def density_table(anchor: str, answer: DensityAnswer) -> Table:
    """A row for each number of clients that was tried."""
    metric = answer.limit.metric
    several = len(answer.ops) > 1
    columns = (
        Column(title="clients", kind=NUMBER),
        Column(title=f"{answer.limit}"),
        *(
            Column(
                title=f"{op.value} {short_title(metric)}" if several else short_title(metric),
                kind=NUMBER,
            )
            for op in answer.ops
        ),
        Column(title="trials within", kind=NUMBER, rank=2),
        Column(title="slowest client", kind=NUMBER, unit="of the median's rate", rank=1),
        Column(title="worst p99", kind=NUMBER, unit="of the median's", rank=3),
    )
    rate = value_text(Metric.IOPS, answer.rate_iops)
    return Table(
        id=anchor,
        caption=f"{visible(answer.workload)} on {visible(answer.target)}, {rate} IOPS each",
        columns=columns,
        rows=tuple(_step(answer, step) for step in answer.steps),
    )


def _step(answer: DensityAnswer, step: DensityStep) -> tuple[Cell, ...]:
    latencies = [_limit_value(answer, one) for one in step.parts]
    latencies += [absent("not measured")] * (len(answer.ops) - len(latencies))
    kept = min((one.kept for one in step.parts), default=0)
    trials = max((one.trials for one in step.parts), default=0)
    shares = [one.iops_share for one in step.fairness if one.iops_share is not None]
    ratios = [one.p99_ratio for one in step.fairness if one.p99_ratio is not None]
    share, ratio = min(shares, default=None), max(ratios, default=None)
    return (
        number(step.clients, f"{step.clients:,}"),
        word(step.standing.value),
        *latencies,
        Cell(text=f"{kept} of {trials}", sort=float(kept)),
        number(share, share_text(share or 0.0), _UNTOLD),
        number(ratio, f"× {ratio or 0.0:.2f}", _UNTOLD),
    )


_UNTOLD = "not every client's figures are told, or there is one"


def _limit_value(answer: DensityAnswer, point: LimitPoint) -> Cell:
    value = point.value
    return number(value, value_text(answer.limit.metric, value or 0.0), point.why)


def fairness_table(anchor: str, rows: Sequence[tuple[str, Fairness]]) -> Table:
    """How evenly the clients of each level fared, the slowest against the one in the middle."""
    columns = (
        Column(title="curve"),
        Column(title="level"),
        Column(title="clients", kind=NUMBER),
        Column(title="slowest", kind=NUMBER, unit="of the median's rate"),
        Column(title="in single trials", kind=NUMBER, rank=2),
        Column(title="worst p99", kind=NUMBER, unit="of the median's"),
        Column(title="slowest client", rank=1),
        Column(title="without figures", kind=NUMBER, rank=3),
    )
    return Table(
        id=anchor,
        caption="",
        columns=columns,
        rows=tuple((word(name), *_fairness(one)) for name, one in rows),
    )


def _fairness(one: Fairness) -> tuple[Cell, ...]:
    share, ratio, slowest = one.iops_share, one.p99_ratio, one.slowest
    return (
        word(one.level),
        number(len(one.clients), f"{len(one.clients):,}"),
        number(share, share_text(share or 0.0), _UNTOLD),
        _shares(one.iops_shares),
        number(ratio, f"× {ratio or 0.0:.2f}", _UNTOLD),
        word(slowest.client) if slowest else absent(_UNTOLD),
        number(one.lost, f"{one.lost:,}"),
    )


def _shares(shares: Sequence[float]) -> Cell:
    if len(shares) < 2:
        return absent("fewer than two trials tell it")
    low, high = share_text(min(shares)), share_text(max(shares))
    return Cell(text=low if low == high else f"{low} to {high}", sort=min(shares))


def disturbance_table(anchor: str, rows: Sequence[tuple[str, Disturbance]]) -> Table:
    """A level alone, and what becomes of it beside neighbours, as ratios with intervals."""
    several = len({name for name, _ in rows}) > 1
    columns = (
        *([Column(title="curve")] if several else []),
        Column(title="level"),
        Column(title="neighbours", kind=NUMBER),
        *(
            column
            for metric, rank in _SHOWN
            for column in (
                Column(title=short_title(metric), kind=NUMBER, rank=rank),
                Column(title="against alone", kind=NUMBER, rank=rank),
            )
        ),
    )
    return Table(
        id=anchor,
        caption="",
        columns=columns,
        rows=tuple(
            (word(name), *cells) if several else cells
            for name, one in rows
            for cells in _disturbed(one)
        ),
    )


def _disturbed(one: Disturbance) -> Iterator[tuple[Cell, ...]]:
    alone: list[Cell] = []
    for metric, _ in _SHOWN:
        value = one.alone.usable(metric)
        alone += [number(value, value_text(metric, value or 0.0)), absent("the level alone")]
    yield (word(level_text(one.alone)), number(0, "none"), *alone)
    for row in one.rows:
        cells: list[Cell] = []
        for metric, _ in _SHOWN:
            effect = row.effects[METRICS.index(metric)]
            cells += [
                number(effect.value, value_text(metric, effect.value or 0.0)),
                _clients_ratio(effect),
            ]
        level = word(level_text(row.point))
        yield (level, number(row.neighbours, f"{row.neighbours:,}"), *cells)


def _clients_ratio(effect: Effect) -> Cell:
    judged = effect.judgement
    why = listed(reason_text(one) for one in judged.reasons)
    if judged.ratio is None:
        return absent(why)
    return Cell(
        text=f"× {times(judged.ratio, judged.interval)}",
        sort=judged.ratio,
        note="; ".join(part for part in (judged.verdict.value, why) if part),
    )


def times(ratio: float, interval: tuple[float, float] | None) -> str:
    """`1.94 (1.70 to 2.20)`."""
    said = f"{ratio:.2f}"
    if interval is None:
        return said
    return f"{said} ({interval[0]:.2f} to {interval[1]:.2f})"


# What labs on one machine can and cannot show, in sentences.


def lab_sentences(bounds: LabBounds) -> tuple[str, ...]:
    """What can be compared first, then what cannot."""
    machine = "one machine"
    if bounds.cores is not None:
        machine += f" of {count_text(bounds.cores, 'core')}"
    return (
        f"Both systems are labs: {machine} plays all their hosts. {_budgets(bounds)}",
        "It cannot show: "
        + "; ".join([_latency(bounds), _media(bounds), _machine(bounds), "nor networks"])
        + ".",
    )


def _hosts(lab: LabDescription) -> int:
    return lab.domains * lab.hosts_per_domain


def _budgets(bounds: LabBounds) -> str:
    ours, theirs = bounds.baseline, bounds.candidate
    if ours.cpu_per_host is None or theirs.cpu_per_host is None:
        return (
            "Their hosts have no processor budget (cpu_per_host), so that more of them share the "
            "same cores: what grows or shrinks here says nothing of hosts."
        )
    each = f"{number_text(ours.cpu_per_host)} of a core"
    if theirs.cpu_per_host != ours.cpu_per_host:
        each += f", in the second {number_text(theirs.cpu_per_host)}"
    both = [
        f"{number_text(_hosts(one) * budget)} for {count_text(_hosts(one), 'host')}"
        for one, budget in ((ours, ours.cpu_per_host), (theirs, theirs.cpu_per_host))
    ]
    return (
        f"Each host may use {each}: {both[0]} and {both[1]}. So it can show throughput that the "
        "processors of OSDs bound."
    )


def _latency(bounds: LabBounds) -> str:
    told = f" (refused at {bounds.throttled} of {bounds.levels} levels)" if bounds.throttled else ""
    if bounds.baseline.cpu_per_host is None and bounds.candidate.cpu_per_host is None:
        return f"latency of hosts that do not share their processors{told}"
    return (
        f"latency, since a host that has used up its budget stands still as no real one does{told}"
    )


def _media(bounds: LabBounds) -> str:
    on_disk = Store.BLUESTORE in (bounds.baseline.store, bounds.candidate.store)
    return "disks of their own" + ("" if on_disk else ", all data being in memory")


def _machine(bounds: LabBounds) -> str:
    whole = "what the machine itself bounds, where load generator, monitor and manager run as well"
    return f"{whole} (its cores were used up at {bounds.saturated} of {bounds.levels} levels)"


def added_text(one: Resource) -> str:
    """`hosts 3 to 5 (× 1.67)`."""
    ends = f"{number_text(one.baseline)} to {number_text(one.candidate)}"
    return f"{visible(one.name)} {ends} (× {one.ratio:.2f})"


def resources_table(anchor: str, rows: Sequence[Resource]) -> Table:
    """What stands behind both sides; copies make work, so that nothing is divided by them."""
    return Table(
        id=anchor,
        caption="What was added",
        columns=(
            Column(title="resource"),
            Column(title="baseline", kind=NUMBER),
            Column(title="candidate", kind=NUMBER),
            Column(title="ratio", kind=NUMBER),
            Column(title="counts as", rank=2),
            Column(title="told by", rank=1),
        ),
        rows=tuple(
            (
                word(one.name),
                number(one.baseline, number_text(one.baseline)),
                number(one.candidate, number_text(one.candidate)),
                number(one.ratio, f"× {one.ratio:.2f}"),
                word("more work" if one.kind is ResourceKind.COPIES else "capacity"),
                word(one.told_by),
            )
            for one in rows
        ),
    )


def speedup_table(anchor: str, speedups: Sequence[Speedup], caption: str = "") -> Table:
    """A row for each level of equal load, then the two peaks, then the same latency. What was added
    is in the caption where it is the same for all."""
    added = {one.divisor for one in speedups}
    alike = len(added) == 1
    names = [
        (one.subject, one.baseline.workload, op_text(one.baseline.op), one.baseline.iodepth)
        for one in speedups
    ]
    told = [len({one[place] for one in names}) > 1 for place in range(4)]
    # An operation that its workload tells already would take the room of what sets it apart.
    told[2] = len({one[1:3] for one in names}) > len({one[1] for one in names})
    columns = (
        *([Column(title="curve")] if any(told) else []),
        Column(title="level"),
        Column(title="baseline", kind=NUMBER, unit="IOPS"),
        Column(title="candidate", kind=NUMBER, unit="IOPS"),
        Column(title="speed-up", kind=NUMBER),
        *([] if alike else [Column(title="added", rank=1)]),
        Column(title="efficiency", kind=NUMBER),
        Column(title="verdict", rank=2),
    )
    rows = []
    for one, parts in zip(speedups, names, strict=True):
        shown = [f"{part}" for part, wanted in zip(parts, told, strict=True) if wanted and part]
        name = [word(" · ".join(shown))] if any(told) else []
        rows += [(*name, *cells) for cells in _speedup(one, told_above=alike)]
    if alike and speedups[0].divisor is not None:
        caption = ". ".join(
            [*([caption] if caption else []), f"Added: {added_text(speedups[0].divisor)}"]
        )
    return Table(id=anchor, caption=caption, columns=columns, rows=tuple(rows))


def _speedup(one: Speedup, *, told_above: bool) -> Iterator[tuple[Cell, ...]]:
    nothing = absent("nothing is known to have been added")
    cell = word(added_text(one.divisor)) if one.divisor else nothing
    added = () if told_above else (cell,)
    for level in one.levels:
        yield (word(level_text(level.baseline)), *_pair(level, added))
    if one.peak is not None:
        ours, theirs = level_text(one.peak.baseline), level_text(one.peak.candidate)
        both = ours if ours == theirs else f"{ours}, {theirs}"
        yield (word(f"highest: {both}"), *_pair(one.peak, added))
    if one.equal_latency.limit is not None:
        yield _equal(added, one.equal_latency)


def _pair(level: LevelSpeedup, added: tuple[Cell, ...]) -> tuple[Cell, ...]:
    return (
        _rate(level.baseline),
        _rate(level.candidate),
        _ratio(level.judgement),
        *added,
        _efficiency(level.efficiency),
        word(level.judgement.verdict.value),
    )


def _equal(added: tuple[Cell, ...], one: EqualLatency) -> tuple[Cell, ...]:
    ours, theirs = one.baseline.iops, one.candidate.iops
    said = f"within {one.limit}"
    return (
        Cell(text=said, sort=said, note=one.chosen),
        number(ours, value_text(Metric.IOPS, ours or 0.0), one.baseline.absence),
        number(theirs, value_text(Metric.IOPS, theirs or 0.0), one.candidate.absence),
        _ratio(one.judgement, one.absence, one.bound),
        *added,
        _efficiency(one.efficiency),
        absent(one.absence) if one.absence else word(one.judgement.verdict.value),
    )


def _rate(point: LoadPoint) -> Cell:
    rate = point.usable(Metric.IOPS)
    why = ", ".join(point.throughput.findings) or point.throughput.absence
    return number(rate, value_text(Metric.IOPS, rate or 0.0), why)


def _ratio(judged: Judgement, why: str = "", bound: str = "") -> Cell:
    reasons = listed(reason_text(one) for one in judged.reasons)
    if judged.ratio is None:
        return absent(why or reasons)
    said = f"× {times(judged.ratio, judged.interval)}"
    return Cell(text=f"{bound} {said}".strip(), sort=judged.ratio, note=reasons)


def _efficiency(one: Efficiency | None) -> Cell:
    if one is None:
        return absent("nothing to divide by")
    ends = one.interval
    # Its interval is that of the speed-up beside it, divided by one number.
    between = f"{share_text(ends[0])} to {share_text(ends[1])}" if ends else ""
    return Cell(text=share_text(one.value), sort=one.value, note=between)


def growth_sentence(growth: Growth) -> str:
    """`five-hosts against three-hosts, randread-4k on rep3 (read): highest throughput × 1.90 (1.70
    to 2.10), 9,800 IOPS; added: hosts 3 to 5 (× 1.67)`. Of several curves the first with a ratio.
    """
    sides = f"{short(growth.candidate.name)} against {short(growth.baseline.name)}"
    for row in growth.rows:
        one = row.speedup
        if one.peak is None or one.peak.judgement.ratio is None:
            continue
        judged, rate = one.peak.judgement, one.peak.candidate.usable(Metric.IOPS)
        what = (
            f"{short(one.baseline.workload)} on {short(one.subject)} ({op_text(one.baseline.op)})"
        )
        said = f"highest throughput × {times(one.peak.judgement.ratio, judged.interval)}"
        to = f", {value_with_unit(Metric.IOPS, rate)}" if rate is not None else ""
        added = f"; added: {added_text(one.divisor)}" if one.divisor else ""
        share = (
            f", so that each unit gives {share_text(one.peak.efficiency.value)} of what it gave"
            if one.peak.efficiency
            else ""
        )
        more = len(growth.rows) - 1
        others = f" ({count_text(more, 'further curve')} in the table)" if more else ""
        return f"{sides}, {what}: {said}{to}{added}{share}{others}."
    return f"{sides}: no curve of both has a ratio."


def growth_sections(study: ScalingStudy) -> tuple[Section, ...]:
    """What was added and what it brings, a section for each system beside the first."""
    found = [one for one in study.growths if one.rows]
    return tuple(
        Section(
            heading=f"Speed-up: {visible(one.candidate.name)} against {visible(one.baseline.name)}",
            id=f"speedup-{number}",
            blocks=tuple(_growth(one, number)),
        )
        for number, one in enumerate(found, start=1)
    )


def _growth(growth: Growth, number: int) -> Iterable[Block]:
    # The directions of a mix ran together: their total tells what the two systems do.
    speedups = [row.speedup for row in growth.rows if not row.speedup.baseline.part_of_mix]
    yield Paragraph(text=growth_sentence(growth))
    if growth.labs is not None:
        yield Bullets(items=lab_sentences(growth.labs))
    resources = {(one.name, one.told_by): one for speedup in speedups for one in speedup.resources}
    if resources:
        yield resources_table(f"resources-of-{number}", tuple(resources.values()))
    yield speedup_table(f"speedups-{number}", speedups)
    why = {one.equal_latency.absence for one in speedups if one.equal_latency.limit is None}
    if why - {""}:
        yield Paragraph(text=f"At the same latency: {listed(sorted(why - {''}))}.")
    findings = [row.superlinear.finding for row in growth.rows if row.superlinear]
    if findings:
        yield finding_list(findings, Marks(findings, suffix="s" * number))
        yield _causes(growth, number)


def _causes(growth: Growth, number: int) -> Table:
    """Candidates for what grew by more than was added."""
    rows = [
        (
            Cell(text=f"{short(row.speedup.subject)} · {short(row.speedup.baseline.workload)}"),
            Cell(text=cause.stance.value),
            Cell(text=visible(cause.text)),
        )
        for row in growth.rows
        if row.superlinear
        for cause in row.superlinear.causes
    ]
    return Table(
        id=f"causes-{number}",
        caption="What may be behind more than proportional growth",
        columns=(Column(title="curve"), Column(title="evidence"), Column(title="candidate")),
        rows=tuple(rows),
    )
