"""A document with every kind of block and with hostile names."""

from __future__ import annotations

import math
from dataclasses import replace

from leadline.findings import Severity
from leadline.report.document import (
    Band,
    Bar,
    BarChart,
    BarGroup,
    Block,
    Branch,
    Bullets,
    Cell,
    Choices,
    Code,
    Column,
    Columns,
    DeltaChart,
    DeltaRow,
    Document,
    Dot,
    DotPlot,
    DotRow,
    FindingGroup,
    FindingItem,
    FindingList,
    HeatCell,
    HeatMap,
    KeyValues,
    Kind,
    Line,
    LineChart,
    Look,
    Mark,
    Paragraph,
    Pin,
    Rule,
    Scale,
    Section,
    Strip,
    StripChart,
    StripEvent,
    StripRow,
    StripTrack,
    Stroke,
    Table,
    Tile,
    Tiles,
    Tree,
)

HOSTILE = "<img src=x onerror=alert(1)>"
LONG = "pool-" + "x" * 295
RIGHT_TO_LEFT = "אחסון-מהיר"
NAMES = ("rep3-virt", "rep2-fast", "ec-4-2-bulk", HOSTILE, RIGHT_TO_LEFT, LONG)
WORKLOADS = ("randread-4k-qd1", "randwrite-4k-qd32", "sequential-1m")
SERIES = ("multi-zone-2026-03", "single-zone-2026-03")
VERDICTS = ("worse", "better", "same", "inconclusive", "not comparable", "better")
METRICS = (("iops", "IOPS"), ("p99", "p99 latency"))
RATIOS = (0.731, 1.42, 1.01, 0.93, None, 1.08)
MARK = Mark(label="W1", code="not-steady", severity=Severity.WARNING)
ERROR = Mark(label="E1", code="cache-served-reads", severity=Severity.ERROR)


EVENTS = (
    StripEvent(begin_s=1.0, end_s=2.0, kind="cluster", text=f"1 to 2 s: OSD_DOWN {HOSTILE}"),
    StripEvent(begin_s=0.0, end_s=4.0, kind="client", text=f"client {LONG} straggles"),
)


def change_text(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def bar_chart(metric: str, title: str) -> BarChart:
    def bar(index: int, series: int) -> Bar:
        if index == 2 and series:
            return Bar(series=series, value=None, text="missing")
        value = 4_000.0 * (index + 2) * (RATIOS[index] or 1.6 if series else 1.0)
        values = [value * factor for factor in (0.95, 1.0, 1.03)]
        return Bar(
            series=series,
            value=value,
            text=f"{value:,.0f}" + (" E1: refused" if index == 3 and series else ""),
            interval=(values[0], values[2]) if index != 1 else None,
            dots=tuple(
                Dot(trial=f"{number + 1}", value=one, text=f"{one:,.0f}", outlier=number == 0)
                for number, one in enumerate(values)
            ),
            refused=index == 3 and series == 1,
        )

    return BarChart(
        id=f"bars-{metric}",
        title=f"randwrite-4k-qd32 · write · {title}",
        series=SERIES,
        scale=Scale(
            title=f"{title}, axis from zero",
            log=False,
            low=0.0,
            high=52_000.0,
            ticks=tuple((tick * 10_000.0, f"{tick * 10_000:,}") for tick in range(6)),
        ),
        groups=tuple(
            BarGroup(label=name, bars=(bar(index, 0), bar(index, 1)))
            for index, name in enumerate(NAMES)
        ),
        choice=metric,
    )


def delta_chart(metric: str, title: str) -> DeltaChart:
    return DeltaChart(
        id=f"deltas-{metric}",
        title=f"Change of {title}",
        scale=Scale(
            title="candidate against baseline",
            log=True,
            low=0.5,
            high=2.0,
            ticks=(
                (0.5, "-50 %"), (0.71, "-29 %"), (1.0, "0 %"), (1.41, "+41 %"), (2.0, "+100 %"),
            ),
        ),
        rows=tuple(
            DeltaRow(
                label=f"{name} · {WORKLOADS[index % 3]} · write",
                ratio=ratio,
                interval=(ratio / 1.2, ratio * (1.9 if index == 1 else 1.2)) if ratio else None,
                verdict=VERDICTS[index],
                text=f"{change_text(ratio)} {VERDICTS[index]}" if ratio else "not comparable",
                band=0.05,
            )
            for index, (name, ratio) in enumerate(zip(NAMES, RATIOS, strict=True))
        ),
        choice=metric,
    )  # fmt: skip


def verdict_table(metric: str, title: str) -> Table:
    return Table(
        id=f"compared-{metric}",
        caption=f"Compared: {title}",
        columns=(
            Column(title="target"),
            Column(title="workload"),
            Column(title="baseline", kind=Kind.NUMBER, unit=title),
            Column(title="change", kind=Kind.NUMBER),
            Column(title="verdict"),
        ),
        rows=tuple(
            (
                Cell(text=name, sort=name),
                Cell(text=WORKLOADS[index % 3], sort=WORKLOADS[index % 3]),
                Cell(text=f"{4_000 * (index + 2):,}", sort=4_000.0 * (index + 2), marks=(MARK,)),
                Cell(text=change_text(ratio), sort=ratio)
                if ratio
                else Cell(text="missing", missing=True, marks=(ERROR,)),
                Cell(text=VERDICTS[index], sort=VERDICTS[index], note="because of its interval"),
            )
            for index, (name, ratio) in enumerate(zip(NAMES, RATIOS, strict=True))
        ),
        filterable=True,
        choice=metric,
    )


def ladder(*, named: bool = False) -> LineChart:
    rungs = ((0.3, "p50"), (1.3, "p95"), (2.0, "p99"), (3.0, "p99.9"), (4.0, "p99.99"))
    names = ("rep3-virt", HOSTILE, LONG) if named else SERIES
    return LineChart(
        id="ladder-named" if named else "ladder",
        title="Latency ladder, randread-4k-qd1",
        series=SERIES[:1] if named else SERIES,
        x=Scale(title="percentile", log=False, low=0.15, high=4.15, ticks=rungs),
        y=Scale(
            title="latency",
            log=True,
            low=2e-4,
            high=0.1,
            ticks=((0.001, "1 ms"), (0.01, "10 ms"), (0.1, "100 ms")),
        ),
        lines=tuple(
            Line(
                label=name,
                series=0 if named else index,
                points=tuple((x, 0.0004 * (1 + index / 3) * 2.6**x) for x, _ in rungs),
                texts=tuple(f"{text}: {0.4 * 2.6**x:.1f} ms" for x, text in rungs),
            )
            for index, name in enumerate(names)
        ),
    )


def over_time() -> LineChart:
    return LineChart(
        id="over-time",
        title="IOPS over time, randwrite-4k-qd32",
        series=("trial 1", "trial 2", "trial 3"),
        x=Scale(
            title="seconds", log=False, low=0.0, high=60.0,
            ticks=tuple((tick, f"{tick:.0f} s") for tick in (0.0, 10.0, 20.0, 30.0, 40.0, 50.0)),
        ),
        y=Scale(
            title="IOPS", log=False, low=0.0, high=14_000.0,
            ticks=((0.0, "0"), (5_000.0, "5,000"), (10_000.0, "10,000")),
        ),
        lines=tuple(
            Line(
                label=f"trial {number + 1}",
                series=number,
                points=tuple(
                    (second + 0.5, 9_000.0 + 900 * number + 1_500 * math.sin(second / (3 + number)))
                    for second in range(60)
                ),
                texts=tuple(f"{second} to {second + 1} s" for second in range(60)),
            )
            for number in range(3)
        ),
    )  # fmt: skip


def load_curve() -> LineChart:
    """Every kind of line, an outline, rules both ways and a ring with a word."""
    loads = (1.0, 2.0, 4.0, 8.0)
    rates = (1_000.0, 1_900.0, 2_600.0, 2_700.0)

    def line(series: int, points: tuple[tuple[float, float], ...]) -> Line:
        return Line(
            label=f"line {series}",
            series=series,
            points=points,
            texts=tuple(f"{x:g} clients: {y:,.0f} IOPS" for x, y in points),
        )

    return LineChart(
        id="load-curve",
        title="Throughput over load",
        series=("measured", f"open loop of {HOSTILE}", "each trial", "fitted", "ideal", ""),
        x=Scale(
            title="clients", log=True, low=0.8, high=10.0,
            ticks=tuple((load, f"{load:g}") for load in loads),
        ),
        y=Scale(
            title="IOPS", log=False, low=0.0, high=4_000.0,
            ticks=tuple((1_000.0 * tick, f"{1_000 * tick:,}") for tick in range(5)),
        ),
        lines=(
            line(4, ((1.0, 1_000.0), (4.0, 4_000.0))),
            line(3, tuple((load, 1.02 * rate) for load, rate in zip(loads, rates, strict=True))),
            line(2, tuple((load, 0.9 * rate) for load, rate in zip(loads, rates, strict=True))),
            line(5, ((2.0, 1_700.0), (4.0, 2_200.0))),
            line(1, ((2.0, 1_200.0), (8.0, 1_500.0))),
            line(0, tuple(zip(loads, rates, strict=True))),
        ),
        looks=(
            Look(hue=0),
            Look(hue=1, dash=2, hollow=True),
            Look(hue=0, stroke=Stroke.DOTS),
            Look(hue=0, dash=1, stroke=Stroke.THIN),
            Look(hue=0, dash=2, stroke=Stroke.FAINT),
            Look(hue=2, dash=3),
        ),
        rules=(
            Rule(value=3_000.0, label=f"limit {HOSTILE}"),
            Rule(value=2.0, label="2 clients", upright=True),
        ),
        pins=(Pin(x=4.0, y=2_600.0, hue=0, label="knee", text="knee at 4 clients"),),
        bands=(Band(hue=1, points=((1.0, 800.0, 1_200.0), (8.0, 2_200.0, 3_400.0))),),
        drawn=True,
    )  # fmt: skip


def strip_chart(anchor: str = "strips", *, panel: bool = False) -> StripChart:
    """Of the second trial one second has no sample."""
    whole = tuple((float(second), second + 1.0, 900.0 + 100 * second) for second in range(4))
    return StripChart(
        id=anchor,
        title="Writes, IOPS of each trial",
        series=SERIES,
        rows=tuple(
            StripRow(
                label=name,
                group=HOSTILE,
                tracks=tuple(
                    StripTrack(
                        series=series,
                        strips=tuple(
                            Strip(spans=spans, end_s=4.0, text=f"trial {name}", events=EVENTS)
                            for spans in (whole, (*whole[:1], *whole[2:]))
                        ),
                        text="▲ CV 16 %" if series else "CV 4 %",
                    )
                    for series in (0, 1)
                ),
            )
            for name in NAMES
        ),
        panel=panel,
    )


def heat_map() -> HeatMap:
    factors = (1.0, 0.25, 4.2, 1.3, 0.8, 2.0)
    return HeatMap(
        id="heat",
        title="Pools and workloads",
        rows=NAMES,
        columns=("4k read IOPS", "4k write IOPS", "read p99"),
        higher_is_better=(True, True, False),
        cells=tuple(
            (
                HeatCell(text=f"{8_000 * factor:,.0f}", shade=_shade(factor), value=8_000 * factor),
                HeatCell(text="missing", shade=None, note="no trial completed")
                if index == 2
                else HeatCell(
                    text=f"{900 * factor:,.0f}", shade=_shade(factor), value=900 * factor
                ),
                HeatCell(text=f"{1.2 * factor:.2f} ms", shade=-_shade(factor), value=1.2 * factor),
            )
            for index, factor in enumerate(factors)
        ),
        baseline=0,
    )


def _shade(factor: float) -> float:
    return max(-1.0, min(1.0, math.log(factor, 4)))


def tree() -> Tree:
    def zone(name: str) -> Branch:
        hosts = tuple(
            Branch(
                label=f"host {name}{number}",
                below=(Branch(label=f"osd.{number}", note="ssd, 1.8 TiB"),),
            )
            for number in (1, 2)
        )
        return Branch(label=f"zone {name}", note="2 hosts", below=hosts)

    return Tree(
        caption="CRUSH as it was at the start",
        roots=(Branch(label="root default", below=(zone("a"), zone("b"), zone(HOSTILE))),),
    )


def dot_plot() -> DotPlot:
    return DotPlot(
        id="dots",
        title="read · IOPS",
        unit="IOPS",
        mark="median",
        log=False,
        low=0.0,
        high=22_000.0,
        ticks=tuple((tick * 5_000.0, f"{tick * 5_000:,}") for tick in range(5)),
        rows=tuple(
            DotRow(
                label=name,
                dots=tuple(
                    Dot(
                        trial=f"{one}",
                        value=3_000.0 * index + 400 * one,
                        text="x",
                        outlier=one == 3,
                    )
                    for one in (1, 2, 3)
                ),
                value=3_000.0 * index + 800,
                text=f"{3_000 * index + 800:,}",
                marks=(MARK,) if index == 1 else (),
            )
            for index, name in enumerate(NAMES)
        ),
    )


def front() -> tuple[Block, ...]:
    """The first screen: tiles, panels and boxes."""
    tiles = tuple(
        Tile(title=title, unit=HOSTILE, value=value, verdict=verdict, note=f"Worse on {HOSTILE}.")
        for title, value, verdict in (
            ("Writes", "-27 to -13 %", "worse"),
            ("Reads", "inconclusive", "inconclusive"),
            (RIGHT_TO_LEFT, "0 of 33", "warning"),
        )
    )
    drawn = delta_chart("front", "Writes, IOPS")
    rows = tuple(
        replace(row, group=HOSTILE if index < 2 else "qd16", text=row.text.partition(" (")[0])
        for index, row in enumerate(drawn.rows)
    )
    panels = tuple(
        replace(drawn, id=f"front-{number}", rows=rows, choice="", panel=True) for number in (1, 2)
    )
    strips = strip_chart("front-strips", panel=True)
    boxes = Tree(
        caption=f"CRUSH tree of {HOSTILE}",
        roots=(
            Branch(
                label="zone z1",
                strong=True,
                below=tuple(Branch(label=name, note=HOSTILE) for name in NAMES),
            ),
        ),
        boxes=True,
    )
    return (
        Tiles(tiles=tiles),
        Columns(parts=(("Change", (*panels, strips)), ("The two systems", (boxes,)))),
    )


def _side(name: str) -> tuple[str, tuple[Block, ...]]:
    pairs = (("Ceph", "19.2.1"), ("failure domain", "zone" if "multi" in name else "host"))
    return name, (KeyValues(pairs=(*pairs, ("pool", LONG))), tree())


def document() -> Document:
    compared: list[Block] = [Choices(id="metric", label="Metric", options=METRICS)]
    for metric, title in METRICS:
        compared += [
            delta_chart(metric, title), verdict_table(metric, title), bar_chart(metric, title),
        ]  # fmt: skip
    findings = FindingList(
        groups=tuple(
            FindingGroup(
                mark=mark,
                items=(
                    FindingItem(
                        where=HOSTILE, message=f"About {HOSTILE}.", evidence=(("asked", "32"),)
                    ),
                ),
                remedy="Run it for longer.",
            )
            for mark in (ERROR, MARK)
        )
    )
    return Document(
        title=f"{SERIES[1]} against {SERIES[0]}",
        subtitle="compared by run · band 5 % · 3 workloads, 6 targets",
        summary=(
            "Writes are 27 % slower in the multi-zone cluster; reads are the same.",
            "worse in 1, same in 1, better in 2 and inconclusive in 1 of 6 cells",
            f"Not comparable: {RIGHT_TO_LEFT}",
        ),
        sections=(
            Section(heading="Comparison", id="comparison", blocks=tuple(compared)),
            Section(
                heading="Results",
                id="results",
                sections=(
                    Section(
                        heading=HOSTILE,
                        id="workload-hostile",
                        blocks=(
                            Paragraph(text="What it is for."),
                            dot_plot(),
                            ladder(),
                            load_curve(),
                        ),
                    ),
                    Section(
                        heading="randwrite-4k-qd32",
                        id="workload-write",
                        blocks=(over_time(), ladder(named=True), strip_chart()),
                    ),
                ),
            ),
            Section(heading="Pools and workloads", id="heat-section", blocks=(heat_map(),)),
            Section(
                heading="The two systems",
                id="systems",
                blocks=(Columns(parts=(_side(SERIES[0]), _side(SERIES[1]))),),
            ),
            Section(heading="Findings", id="findings", blocks=(findings,)),
            Section(
                heading="Methods",
                id="methods",
                blocks=(
                    Bullets(items=("Every trial is drawn.", HOSTILE)),
                    Code(text=f"leadline compare A B --metric '{HOSTILE}'", caption="Again"),
                ),
                folded=True,
            ),
        ),
        marked=(ERROR, MARK),
        front=front(),
    )
