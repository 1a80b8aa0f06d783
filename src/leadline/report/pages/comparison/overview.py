"""The first screen of a comparison: tiles, changes of all cells, and the two systems drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from leadline.analysis.comparison import ComparedCell, Comparison, Side
from leadline.analysis.explain.facts import RoundTripCost
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.errors import LeadlineError
from leadline.findings import Severity
from leadline.metrics import STAGES, Metric, Op
from leadline.model.io_paths import IoPath
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

_OPS = (Op.TRANSACTION, Op.READ, Op.WRITE, Op.TRIM, Op.TOTAL, Op.SYNC, *STAGES)
# Rows of a panel; the table has all of them.
_MOST_ROWS = 14
# Configuration differences next to the pictures; the table has all of them.
_MOST_DIFFERENCES = 3
_NAME = 14
# Short names of I/O paths; the table of round trips has the paths.
_IO_OF_PATH = {
    IoPath.PRIMARY: "read",
    IoPath.NEAREST_COPY: "nearest read",
    IoPath.DATA_SHARDS: "EC read",
    IoPath.ONE_SHARD: "EC small read",
    IoPath.COPIES: "write",
    IoPath.SHARDS: "EC stripe write",
    IoPath.READ_MODIFY_WRITE: "EC write",
    IoPath.PARTIAL_WRITE: "EC small write",
}


def front_blocks(comparison: Comparison) -> tuple[Block, ...]:
    """Return the first screen; empty where nothing is compared."""
    panels = _panels(comparison)
    if not panels:
        return ()
    tiles = Tiles(tiles=tuple(_tiles(comparison, panels)))
    systems = tuple(_systems(comparison))
    if all(isinstance(block, KeyValues) for block in systems):
        # Words alone would leave most of a column empty.
        return (tiles, *panels, *(systems if comparison.differences else ()))
    base, _ = system_names(comparison)
    parts = ((f"Change against {base}", panels), ("The two systems", systems))
    return (tiles, Columns(parts=parts))


def shows_all(comparison: Comparison) -> bool:
    """Return whether a reader finds the rate and the p99 latency of every cell on the first screen:
    there are so few."""
    return bool(_panels(comparison)) and len(rates(comparison)) <= _MOST_ROWS


# --- tiles --------------------------------------------------------------------------------------


def _tiles(comparison: Comparison, panels: Sequence[DeltaChart]) -> Iterable[Tile]:
    """Yield the rates of two operations, the tail latency, and what the audit says of them, each
    with the changes of its panels in small."""
    cells = rates(comparison) or comparison.cells
    for op in [op for op in _OPS if any(cell.op is op for cell in rates(comparison))][:2]:
        own = [cell for cell in cells if cell.op is op]
        value, verdict = _value(own)
        shift = next(
            (part for part in comparison.overall if (part.op, part.blocks) == (op, None)), None
        )
        if not changed(own) and shift and not shift.interval[0] <= 1 <= shift.interval[1]:
            value, verdict = _span(shift.interval), shift.verdict.value
        tile = _tile(OP_NOUNS[op].capitalize(), _unit(own), value, verdict, own)
        if shift:
            overall = f"Overall {_span((shift.ratio, shift.ratio))} ({_span(shift.interval)})."
            tile = replace(tile, note=f"{tile.note} {overall}")
        yield replace(tile, changes=_small(panels, f"rate-{op.value}"))
    tails = [cell for cell in comparison.cells if cell.metric is Metric.LATENCY_P99]
    if tails:
        nouns = listed(OP_NOUNS[op] for op in _OPS if any(cell.op is op for cell in tails))
        tile = _tile("p99 latency", nouns, *_value(tails), tails)
        yield replace(tile, changes=_small(panels, "p99-"))
    yield _trust(cells)


def _small(panels: Sequence[DeltaChart], kind: str) -> DeltaChart | None:
    """The rows of the panels of a kind, which have one scale."""
    own = [panel for panel in panels if panel.id.startswith(f"front-{kind}")]
    rows = tuple(row for panel in own for row in panel.rows)
    return replace(own[0], rows=rows) if own else None


def _tile(heading: str, unit: str, value: str, verdict: str, cells: Sequence[ComparedCell]) -> Tile:
    note = f"{counts_text(cells).capitalize()}."
    return Tile(title=heading, unit=unit, value=value, verdict=verdict, note=note)


def _unit(cells: Sequence[ComparedCell]) -> str:
    """`IOPS`, or `IOPS and bandwidth` where some cells have large blocks."""
    return listed(dict.fromkeys(title(cell.metric, cell.op) for cell in cells))


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
        squares=tuple(
            Severity.INFO
            if severity is None and cell.judgement.evidence is not Evidence.TRIALS
            else severity
            for cell, severity in zip(known, worst, strict=True)
        ),
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
    found = {figure.severity for figure in figures}
    return next((worst for worst in (Severity.ERROR, Severity.WARNING) if worst in found), None)


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
    yield from _round_trips(comparison)
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


def _round_trips(comparison: Comparison) -> Iterable[BarChart]:
    """Chart the round trip between the places of copies on both systems, and how many an I/O of
    each kind takes, where they were measured."""
    costs = [found.cost for found in comparison.explanations if isinstance(found, RoundTripCost)]
    if not costs or not all((costs[0].base_rtt_s, costs[0].candidate_rtt_s)):
        return
    times = (costs[0].base_rtt_s, costs[0].candidate_rtt_s)
    names, hues = system_names(comparison), SYSTEM_HUES
    bars = tuple(
        Bar(series=number, value=value, text=format_latency(value))
        for number, value in enumerate(times)
    )
    yield BarChart(
        id="front-round-trip",
        title="Round trip between failure domains",
        series=names,
        hues=hues,
        scale=Scale(title="median", log=False, low=0.0, high=max(times), ticks=()),
        groups=(BarGroup(label="", bars=bars),),
    )
    trips = {
        _IO_OF_PATH[cost.candidate.path]: cost.candidate.expected
        for cost in costs
        if cost.candidate.path is not None and cost.candidate.expected is not None
    }
    if not trips:
        return
    yield BarChart(
        id="front-round-trips",
        title="Round trips of an I/O",
        series=names[1:],
        hues=hues[1:],
        scale=Scale(title="mean", log=False, low=0.0, high=max(trips.values()), ticks=()),
        groups=tuple(
            BarGroup(label=name, bars=(Bar(series=0, value=count, text=f"{count:.2f}"),))
            for name, count in trips.items()
        ),
    )
