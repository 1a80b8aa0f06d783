"""The report as data: sections and blocks without markup.

Texts are as they were found, untrusted ones too. Every renderer calls `printable` before it draws,
adds the escaping of its own medium, and decides on layout.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from enum import StrEnum
from operator import is_
from typing import Any, TypeVar, cast

from leadline.analysis.figures import FindingMark
from leadline.findings import Finding, Severity
from leadline.report.words import evidence_name, evidence_text, listed, place
from leadline.text import visible, visible_lines


class Kind(StrEnum):
    """What a column holds: `number` is right-aligned and sorted by value."""

    TEXT = "text"
    NUMBER = "number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A finding about a number: `label` (`E1`, `W2`, `I3`) refers to the list of findings."""

    label: str
    code: str
    severity: Severity

    @property
    def anchor(self) -> str:
        return f"finding-{self.label.lower()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An axis: `low` to `high` in the values' own unit; `ticks` are (value, text)."""

    title: str
    log: bool
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A drawing in a table's cell: a `value` on the scale of its column, as a bar from its low end
    (`bar`) or a point, with its `interval`. `boxes` are (filled, hollow) squares instead."""

    value: float | None = None
    interval: tuple[float, float] | None = None
    bar: bool = False
    boxes: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One table cell. `sort` orders the rows and is None where there is no value; `note` explains
    the text in a sentence; `missing` marks a text in place of an absent number. A page draws the
    `gauge` next to the text. `link` is a file next to the page; its name needs no escape."""

    text: str
    sort: float | str | None = None
    marks: tuple[Mark, ...] = ()
    note: str = ""
    missing: bool = False
    gauge: Gauge | None = None
    link: str = ""

    @property
    def severity(self) -> Severity | None:
        return max((mark.severity for mark in self.marks), key=lambda s: s.order, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A narrow table leaves out the columns of the highest `rank` first, those of rank 0 never.
    `scale` is that of the gauges in the cells."""

    title: str
    kind: Kind = Kind.TEXT
    unit: str = ""
    rank: int = 0
    scale: Scale | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`rows` have one cell per column. A reader can filter and sort a `filterable` table."""

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    filterable: bool = False
    choice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A result at a glance: `value` with its verdict, and what it is a value of."""

    title: str
    unit: str
    value: str
    verdict: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """Results next to each other."""

    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bullets:
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValues:
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Text to copy: commands, a plan, a job file."""

    text: str
    caption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingItem:
    """One finding: its place, its message, and its evidence as (name, number) texts."""

    where: str
    message: str
    evidence: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingGroup:
    """Findings of one code and severity, with what to do about the first."""

    mark: Mark
    items: tuple[FindingItem, ...]
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingList:
    """The most severe first."""

    groups: tuple[FindingGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A trial's value in the plot's unit, and as text."""

    trial: str
    value: float
    text: str
    outlier: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DotRow:
    """`value` is the figure that the table shows, None where it shows none; `text` is that figure
    as text, at the row's end. Rows of one `group` follow each other. `refused`: the figure has an
    error finding."""

    label: str
    dots: tuple[Dot, ...]
    value: float | None
    text: str
    marks: tuple[Mark, ...] = ()
    group: str = ""
    refused: bool = False

    @property
    def listing(self) -> str:
        """Every trial in words; empty without any."""
        return ", ".join(dot.text + (" (outlier)" if dot.outlier else "") for dot in self.dots)


@dataclass(frozen=True, slots=True, kw_only=True)
class DotPlot(Scale):
    """Trials as dots on an axis, and the figure of all trials as the mark that `mark` names.

    `panel`: one of several charts next to each other."""

    id: str
    unit: str
    mark: str
    rows: tuple[DotRow, ...]
    panel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chart:
    """`choice` names a chart in a selector, where a page has one for each metric; empty: always
    shown."""

    id: str
    title: str
    choice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A value with its interval and its trials; None where there is no number.

    `refused`: it has an error finding and is drawn as an outline.
    """

    series: int
    value: float | None
    text: str
    interval: tuple[float, float] | None = None
    dots: tuple[Dot, ...] = ()
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BarGroup:
    """Bars that belong together, one for each series."""

    label: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart(_Chart):
    """Groups of bars from zero (horizontal), with intervals and dots. `series` are the legend."""

    series: tuple[str, ...]
    scale: Scale
    groups: tuple[BarGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points in order of x; `texts` is one hover text for each. `series` picks colour and dash."""

    label: str
    series: int
    points: tuple[tuple[float, float], ...]
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """A trial over time: the mean rate in each span of (begin, end) seconds, in order of time.
    Seconds before `end_s` that are in no span have no sample."""

    spans: tuple[tuple[float, float, float], ...]
    end_s: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StripTrack:
    """The trials of one cell next to each other. `text` is at the end of the row."""

    series: int
    strips: tuple[Strip, ...]
    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StripRow:
    """The tracks of a row share their scale, from zero. Rows of one `group` follow each other."""

    label: str
    tracks: tuple[StripTrack, ...]
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StripChart(_Chart):
    """The rate over time of every trial as strips. `series` are the legend; `panel`: one of several
    charts next to each other."""

    series: tuple[str, ...]
    rows: tuple[StripRow, ...]
    panel: bool = False


class Stroke(StrEnum):
    """`marked`: a line with a mark at each point; `curve`: with marks only at points with a text;
    `dots`: small marks alone; `thin`: a fitted line without marks; `faint`: a line for
    reference."""

    MARKED = "marked"
    CURVE = "curve"
    DOTS = "dots"
    THIN = "thin"
    FAINT = "faint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """`hue` picks the colour and the shape of marks, `dash` one of four dashes (0: none); `hollow`
    marks are outlines."""

    hue: int
    dash: int = 0
    hollow: bool = False
    stroke: Stroke = Stroke.MARKED


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A line across the plot at `value` of the x axis (`upright`) or of the y axis."""

    value: float
    label: str
    upright: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A ring around a point, with a label and a tooltip."""

    x: float
    y: float
    hue: int
    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart(_Chart):
    """Lines over x and y: a percentile ladder, a distribution, IOPS over time, a load curve.

    `looks` has one for each series; where it is empty, a series' number picks its colour, shape and
    dash. A series without a name is not in the legend. `drawn`: a terminal draws it, too. `panel`:
    one of several on the same scales, next to each other, with a `note` below its title.
    `scatter`: the name of a line is next to its last point.
    """

    series: tuple[str, ...]
    x: Scale
    y: Scale
    lines: tuple[Line, ...]
    looks: tuple[Look, ...] = ()
    rules: tuple[Rule, ...] = ()
    pins: tuple[Pin, ...] = ()
    drawn: bool = False
    scatter: bool = False
    panel: bool = False
    note: str = ""

    def look(self, series: int) -> Look:
        return self.looks[series] if self.looks else Look(hue=series, dash=series % 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRow:
    """A change as a ratio (1 is none) with its interval; `verdict` selects the mark.
    `text` is at the end of the row. Rows of one `group` follow each other."""

    label: str
    ratio: float | None
    interval: tuple[float, float] | None
    verdict: str
    text: str
    band: float
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaChart(_Chart):
    """Changes around the line of no change, with the equivalence margin. The scale is of ratios.

    `panel`: one of several charts on the same scale, next to each other."""

    scale: Scale
    rows: tuple[DeltaRow, ...]
    panel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """`shade` from -1 (worst) over 0 (as the baseline) to 1 (best), None where there is no number;
    `value` is the figure itself, for a page that lets its reader choose another baseline.
    `refused`: the number has an error finding; it is struck out and has no shade."""

    text: str
    shade: float | None
    value: float | None = None
    note: str = ""
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap(_Chart):
    """Rows of targets, columns of workloads. `higher_is_better` says how a column is read;
    `baseline` is the row to which the shades refer. `relative`: the figures are changes
    already: without ratios and without a choice of the baseline. `key` then explains the shade,
    where it is not blue for better and orange for worse."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    higher_is_better: tuple[bool, ...]
    cells: tuple[tuple[HeatCell, ...], ...]
    baseline: int
    relative: bool = False
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A node of a tree, with a note and its children; `strong` ones stand out."""

    label: str
    note: str = ""
    below: tuple[Branch, ...] = ()
    strong: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A hierarchy, such as that of CRUSH. `boxes`: a page draws it as boxes in boxes."""

    caption: str
    roots: tuple[Branch, ...]
    boxes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Blocks next to each other, each part under its heading: the two systems."""

    parts: tuple[tuple[str, tuple[Block, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """A selector of (value, label): only blocks of the selected `choice` are shown."""

    id: str
    label: str
    options: tuple[tuple[str, str], ...]


Chart = BarChart | LineChart | DeltaChart | HeatMap | StripChart
Block = (
    Paragraph
    | Tiles
    | Bullets
    | KeyValues
    | Code
    | Table
    | FindingList
    | DotPlot
    | Chart
    | Tree
    | Columns
    | Choices
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A page folds `folded` sections, a terminal leaves them out."""

    heading: str
    id: str
    blocks: tuple[Block, ...] = ()
    sections: tuple[Section, ...] = ()
    folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """`summary` is the result in short, the most important first; `marked` holds all marks.

    `front` is the first screen of a page: its heading is then the first of the summary."""

    title: str
    subtitle: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]
    marked: tuple[Mark, ...] = field(default=())
    front: tuple[Block, ...] = ()


_Part = TypeVar("_Part")


def printable(part: _Part) -> _Part:
    """Spell out the control characters in every text of a document or of a part of one.

    Every renderer calls it first, so that no other code has to. Only `Code` has lines.
    """
    return cast(_Part, _with_texts(part, visible, visible_lines))


def _with_texts(part: Any, of_text: Callable[[str], str], of_code: Callable[[str], str]) -> Any:
    """Apply functions to every text of a part, and to that of `Code`."""
    if type(part) is str:
        return of_text(part)
    if type(part) is tuple:
        items = tuple(_with_texts(item, of_text, of_code) for item in part)
        return part if all(map(is_, part, items)) else items
    if not is_dataclass(part) or isinstance(part, type):
        return part
    changed = {}
    for name in part.__dataclass_fields__:
        value = getattr(part, name)
        lines = name == "text" and isinstance(part, Code)
        shown = of_code(value) if lines else _with_texts(value, of_text, of_code)
        if shown is not value:
            changed[name] = shown
    return replace(part, **changed) if changed else part


def shorten_levels(document: Document, levels: Iterable[str]) -> Document:
    """Leave out of the names of levels the settings (`key=value`) that all of them have; the
    subtitle lists these."""
    words = {level: level.split(" ") for level in levels}
    shared = [
        word
        for word in next(iter(words.values()), [])
        if "=" in word and all(word in other for other in words.values())
    ]
    short = {
        level: " ".join(word for word in mine if word not in shared)
        for level, mine in words.items()
    }
    if not shared or not all(short.values()) or len(set(short.values())) < len(short):
        return document
    names = "|".join(map(re.escape, sorted(short, key=len, reverse=True)))
    # A level is a whole text, or a part of a place.
    found = re.compile(rf"(^|· |@)({names})(?=$| ·|[,;.)]| read| write| total)")

    def of_text(text: str) -> str:
        return found.sub(lambda match: match[1] + short[match[2]], text) if "=" in text else text

    subtitle = f"{document.subtitle} · all levels: {' '.join(shared)}"
    shortened = cast(Document, _with_texts(document, of_text, str))
    return replace(shortened, subtitle=subtitle)


# How much a page may draw; what is left out is reported.

# A point is about 150 bytes of a page, and a chart with its axes as much as fifteen of them.
MOST_POINTS = 4000
_CHART_AS_POINTS = 15


class PageBudget:
    """The points that the charts of a page may have, per kind of chart.

    Otherwise series over time would leave no points for percentile ladders.
    """

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self._spent: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()

    def allows(self, kind: str, points: int) -> bool:
        """Reserve the points of a chart of `kind`; whether there are enough."""
        cost = points + _CHART_AS_POINTS
        if self._spent[kind] + cost > self._most:
            self._left_out[kind] += 1
            return False
        self._spent[kind] += cost
        return True

    @property
    def omission(self) -> str:
        """A sentence about the charts that are left out; empty where there are none."""
        if not self._left_out:
            return ""
        charts = listed(f"{count:,} of {kind}" for kind, count in self._left_out.items())
        return (
            f"Charts that are not drawn, to keep the page small: {charts}. The tables have every "
            "figure, and the downloads every trial."
        )


class Marks:
    """Labels of findings, one per code and severity: `E1`, `E2`, ... `W1` ... `I1`.

    `suffix` distinguishes the marks of two runs on one page.
    """

    def __init__(self, findings: Iterable[Finding], suffix: str = "") -> None:
        keys = sorted(
            {(finding.code, finding.severity) for finding in findings},
            key=lambda key: (-key[1].order, key[0]),
        )
        counts = dict.fromkeys(Severity, 0)
        self._marks: dict[tuple[str, Severity], Mark] = {}
        for code, severity in keys:
            counts[severity] += 1
            label = f"{severity.value[0].upper()}{counts[severity]}{suffix}"
            self._marks[code, severity] = Mark(label=label, code=code, severity=severity)

    @property
    def all(self) -> tuple[Mark, ...]:
        return tuple(self._marks.values())

    def mark_of(self, finding: Finding) -> Mark:
        return self._marks[finding.code, finding.severity]

    def for_number(self, findings: Sequence[FindingMark]) -> tuple[Mark, ...]:
        """Select the marks of one number: errors, and warnings that are not of the whole run."""
        return self._chosen(
            finding
            for finding in findings
            if finding.severity is Severity.ERROR
            or (finding.severity is Severity.WARNING and not finding.whole_run)
        )

    def for_row(self, findings: Iterable[FindingMark]) -> tuple[Mark, ...]:
        return self._chosen(
            finding
            for finding in findings
            if finding.severity is Severity.INFO and not finding.whole_run
        )

    def _chosen(self, findings: Iterable[FindingMark]) -> tuple[Mark, ...]:
        keys = dict.fromkeys((finding.code, finding.severity) for finding in findings)
        return tuple(self._marks[key] for key in keys if key in self._marks)


def finding_list(findings: Sequence[Finding], marks: Marks) -> FindingList:
    """Group findings by code and severity, the most severe first."""
    gathered: Mapping[Mark, list[Finding]] = {mark: [] for mark in marks.all}
    for finding in findings:
        gathered[marks.mark_of(finding)].append(finding)
    return FindingList(
        groups=tuple(
            FindingGroup(
                mark=mark,
                items=tuple(map(_finding_item, given)),
                remedy=given[0].remedy,
            )
            for mark, given in gathered.items()
            if given
        )
    )


def _finding_item(finding: Finding) -> FindingItem:
    op = finding.op.value if finding.op else ""
    trial = f"trial {finding.trial}" if finding.trial else ""
    return FindingItem(
        where=place(finding.target, finding.workload, finding.level, op, trial),
        message=finding.message,
        evidence=tuple(
            (evidence_name(name), evidence_text(name, value))
            for name, value in finding.evidence.items()
        ),
    )
