"""The first screen of a comparison: tiles, changes of all cells, and the two systems drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from leadline.analysis.comparison import ComparedCell, Comparison, Side
from leadline.analysis.explain.facts import RoundTripCost
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.errors import LeadlineError
from leadline.findings import Severity
from leadline.metrics import Metric, Op
from leadline.report.document import (
    SYSTEM_HUES,
    Bar,
    BarChart,
    BarGroup,
    Block,
    Columns,
    DeltaChart,
    DeltaRow,
    KeyValues,
    Paragraph,
    Scale,
    Tile,
    Tiles,
)
from leadline.report.pages.comparison.charts import leveled_cells, log_change, ratio_scale
from leadline.report.pages.comparison.headline import changed, having, rates, system_names
from leadline.report.pages.run.charts import keep_largest
from leadline.report.pages.topology import draw_cluster
from leadline.report.words import (
    MISSING,
    NOT_SHOWN,
    OP_NOUNS,
    absent,
    change_text,
    count_text,
    counts_text,
    judged,
    listed,
    place,
    ratios,
    short,
    title,
)
from leadline.units import format_latency

_OPS = (Op.READ, Op.WRITE, Op.TRIM, Op.TOTAL)
# Rows of a panel; the table has all of them.
_MOST_ROWS = 14
# Configuration differences next to the pictures; the table has all of them.
_MOST_DIFFERENCES = 3
_NAME = 14


def front_blocks(comparison: Comparison) -> tuple[Block, ...]:
    """Return the first screen; empty where nothing is compared."""
    panels = _panels(comparison)
    if not panels:
        return ()
    tiles = Tiles(tiles=tuple(_tiles(comparison)))
    systems = tuple(_systems(comparison))
    if not systems:
        return (tiles, *panels)
    base, _ = system_names(comparison)
    parts = ((f"Change against {base}", panels), ("The two systems", systems))
    return (tiles, Columns(parts=parts))


def shows_all(comparison: Comparison) -> bool:
    """Return whether a reader finds the rate and the p99 latency of every cell on the first screen:
    there are so few."""
    return bool(_panels(comparison)) and len(rates(comparison)) <= _MOST_ROWS


# --- tiles --------------------------------------------------------------------------------------


def _tiles(comparison: Comparison) -> Iterable[Tile]:
    """Yield the rates of two operations, the tail latency, and what the audit says of them."""
    cells = rates(comparison) or comparison.cells
    for op in [op for op in _OPS if any(cell.op is op for cell in rates(comparison))][:2]:
        own = [cell for cell in cells if cell.op is op]
        value, verdict = _value(own)
        shift = next(
            (part for part in comparison.overall if (part.op, part.blocks) == (op, None)), None
        )
        if not changed(own) and shift and not shift.interval[0] <= 1 <= shift.interval[1]:
            value, verdict = _span(shift.interval), shift.verdict.value
        yield _tile(OP_NOUNS[op].capitalize(), _unit(own), value, verdict, own)
    tails = [cell for cell in comparison.cells if cell.metric is Metric.LATENCY_P99]
    if tails:
        nouns = listed(OP_NOUNS[op] for op in _OPS if any(cell.op is op for cell in tails))
        yield _tile("p99 latency", nouns, *_value(tails), tails)
    yield _trust(cells)


def _tile(heading: str, unit: str, value: str, verdict: str, cells: Sequence[ComparedCell]) -> Tile:
    note = f"{counts_text(cells).capitalize()}."
    return Tile(title=heading, unit=unit, value=value, verdict=verdict, note=note)


def _unit(cells: Sequence[ComparedCell]) -> str:
    """`IOPS`, or `IOPS and bandwidth` where some cells have large blocks."""
    return listed(dict.fromkeys(title(cell.metric) for cell in cells))


def _value(cells: Sequence[ComparedCell]) -> tuple[str, str]:
    """The range of the significant changes with their common verdict; else a word."""
    found = changed(cells)
    if found:
        verdicts = {cell.verdict for cell in found}
        changes = ratios(found)
        return _span((min(changes), max(changes))), verdicts.pop() if len(verdicts) == 1 else ""
    if judged(cells):
        return Verdict.SAME.value, Verdict.SAME.value
    undecided = having(cells, Verdict.INCONCLUSIVE)
    verdict = Verdict.INCONCLUSIVE if undecided else Verdict.NOT_COMPARABLE
    return verdict.value, verdict.value


def _span(ends: tuple[float, float]) -> str:
    """`-76 to -40 %`, `x 3.3 to x 4.9`: a change of a tile has two digits."""
    if ends[0] >= 2:
        return " to ".join(dict.fromkeys(f"x {end:.2g}" for end in ends))
    if ends[1] >= 10:
        return " to ".join(dict.fromkeys(map(change_text, ends)))
    percents = [(end - 1) * 100 for end in ends]
    digits = 0 if max(map(abs, percents)) >= 10 else 1
    texts = dict.fromkeys(f"{percent:+.{digits}f}" for percent in percents)
    return f"{' to '.join(texts)} %"


def _trust(cells: Sequence[ComparedCell]) -> Tile:
    """Count the numbers that the audit accepts without a warning."""
    known = [cell for cell in cells if not absent(cell)]
    worst = [_severity(cell) for cell in known]
    counts = {
        "refused": worst.count(Severity.ERROR),
        "with warnings": worst.count(Severity.WARNING),
        "single trials": sum(
            severity is None and cell.judgement.evidence is not Evidence.TRIALS
            for cell, severity in zip(known, worst, strict=True)
        ),
    }
    texts = [f"{count:,} {word}" for word, count in counts.items() if count]
    codes = Counter(code for cell in known for code in _warnings(cell))
    frequent = listed((code for code, _ in codes.most_common()), 2)
    note = f"{listed(texts)}{f': {frequent}' if frequent else ''}." if texts else "No warnings."
    return Tile(
        title="Trust",
        unit="cells without a warning",
        value=f"{len(known) - sum(counts.values()):,} of {len(known):,}",
        verdict="warning" if texts else "",
        note=note,
    )


def _warnings(cell: ComparedCell) -> set[str]:
    """Return the codes of warnings and errors about either system's number."""
    return {
        mark.code
        for figure in (cell.baseline, cell.candidate)
        if figure
        for mark in figure.finding_marks
        if mark.severity is not Severity.INFO
    }


def _severity(cell: ComparedCell) -> Severity | None:
    figures = (figure for figure in (cell.baseline, cell.candidate) if figure)
    found = {figure.severity for figure in figures} - {None, Severity.INFO}
    return Severity.ERROR if Severity.ERROR in found else next(iter(found), None)


# --- changes ------------------------------------------------------------------------------------


def _panels(comparison: Comparison) -> tuple[DeltaChart, ...]:
    """Chart the rates of each operation, then its p99 latency, each kind on one scale."""
    kinds = {
        "rate": rates(comparison),
        "p99": [cell for cell in comparison.cells if cell.metric is Metric.LATENCY_P99],
    }
    panels = []
    for kind, cells in kinds.items():
        shown = {
            op: keep_largest(own, log_change, _MOST_ROWS)
            for op in _OPS
            if (own := [cell for cell in cells if cell.op is op])
        }
        rows = {op: _rows(own) for op, own in shown.items()}
        if not any(cell.judgement.ratio for cell in cells):
            continue
        scale = ratio_scale("change", [row for drawn in rows.values() for row in drawn])
        worse = "right is worse" if kind == "p99" else "left is worse"
        for op, drawn in rows.items():
            every = sum(cell.op is op for cell in cells)
            rest = f", {len(drawn)} of {every:,} cells" if len(drawn) < every else ""
            panels.append(
                DeltaChart(
                    id=f"front-{kind}-{op.value}",
                    title=f"{OP_NOUNS[op].capitalize()}, {_unit(shown[op])} ({worse}{rest})",
                    scale=scale,
                    rows=drawn,
                    panel=True,
                )
            )
    return tuple(panels)


def _rows(cells: Sequence[ComparedCell]) -> tuple[DeltaRow, ...]:
    several, leveled = len({cell.workload for cell in cells}) > 1, leveled_cells(cells)
    groups: dict[str, list[ComparedCell]] = {}
    for cell in cells:
        group = place(
            short(cell.workload, 2 * _NAME) if several else "", cell.level if leveled else ""
        )
        groups.setdefault(group if several or leveled else "", []).append(cell)
    return tuple(
        DeltaRow(
            label=short(cell.target, _NAME),
            ratio=cell.judgement.ratio,
            interval=cell.judgement.interval,
            verdict=cell.verdict.value,
            text=_change(cell),
            band=cell.judgement.band,
            group=group,
        )
        for group, own in groups.items()
        for cell in own
    )


def _change(cell: ComparedCell) -> str:
    if cell.judgement.ratio:
        return change_text(cell.judgement.ratio)
    return MISSING if absent(cell) else NOT_SHOWN


# --- the two systems ----------------------------------------------------------------------------


def _systems(comparison: Comparison) -> Iterable[Block]:
    sides = (comparison.baseline, comparison.candidate)
    drawn = [_drawn(side, hue) for side, hue in zip(sides, SYSTEM_HUES, strict=True)]
    if any(drawn):
        unknown = (Paragraph(text="No inventory."),)
        yield Columns(
            parts=tuple(
                (short(side.name), blocks or unknown)
                for side, blocks in zip(sides, drawn, strict=True)
            )
        )
    round_trips = _round_trips(comparison)
    if round_trips:
        yield round_trips
    differs = [
        f"{difference.path.rpartition('.')[2].replace('_', ' ')} {difference.baseline} -> "
        f"{difference.candidate}"
        for difference in comparison.differences
    ]
    pairs = {
        "Differs": listed(dict.fromkeys(differs), _MOST_DIFFERENCES),
        "Identical": count_text(len(comparison.identical), "setting")
        if comparison.identical
        else "",
        "Unknown": listed(comparison.unknown, _MOST_DIFFERENCES),
    }
    known = tuple((name, text) for name, text in pairs.items() if text)
    if known:
        yield KeyValues(pairs=known)


def _drawn(side: Side, hue: int) -> tuple[Block, ...]:
    """Draw the first Ceph cluster of a side: the CRUSH tree, failure domains marked."""
    for name in dict.fromkeys(
        side.run.plan.target(target).cluster for target in side.targets.values()
    ):
        try:
            inventory = side.run.cluster("start", name) if name else None
        except LeadlineError:
            inventory = None  # the section of the systems reports it
        if inventory is not None:
            return (draw_cluster(inventory, side.name, hue),)
    return ()


def _round_trips(comparison: Comparison) -> BarChart | None:
    """Chart the round trip between the places of copies on both systems, where it was measured."""
    costs = [found.cost for found in comparison.explanations if isinstance(found, RoundTripCost)]
    if not costs or not all((costs[0].base_rtt_s, costs[0].candidate_rtt_s)):
        return None
    times = (costs[0].base_rtt_s, costs[0].candidate_rtt_s)
    scale = Scale(title="from zero", log=False, low=0.0, high=max(times), ticks=())
    return BarChart(
        id="front-round-trip",
        title="Round trip between failure domains",
        series=system_names(comparison),
        hues=SYSTEM_HUES,
        scale=scale,
        groups=(
            BarGroup(
                label="median",
                bars=tuple(
                    Bar(series=number, value=value, text=format_latency(value))
                    for number, value in enumerate(times)
                ),
            ),
        ),
    )
