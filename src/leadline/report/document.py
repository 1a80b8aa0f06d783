"""The report as data: sections and blocks without markup.

Texts are as they were found, untrusted ones too. Every renderer calls `printable` before it draws,
adds the escaping of its own medium, and decides on layout.
"""

from __future__ import annotations

from dataclasses import dataclass, field, is_dataclass, replace
from enum import StrEnum
from operator import is_
from typing import Any, TypeVar, cast

from leadline.findings import Severity
from leadline.text import visible, visible_lines
from leadline.units import round_significant


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


# Colours of the two systems of a comparison, baseline and candidate. Each hue has a shape, a dash
# and a hatch of its own.
SYSTEM_HUES = (8, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeriesChart(_Chart):
    """`series` are the legend. `hues` are their colours; without them, a series' number."""

    series: tuple[str, ...]
    hues: tuple[int, ...] = ()

    def hue(self, series: int) -> int:
        return self.hues[series] if self.hues else series


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
class BarChart(_SeriesChart):
    """Groups of bars from zero (horizontal), with intervals and dots."""

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
class StripEvent:
    """What happened from `begin_s` to `end_s` of a trial. `kind` is in the legend."""

    begin_s: float
    end_s: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """A trial over time: the mean rate in each span of (begin, end) seconds, in order of time.
    Seconds before `end_s` that are in no span have no sample. Events may overlap."""

    spans: tuple[tuple[float, float, float], ...]
    end_s: float
    text: str
    events: tuple[StripEvent, ...] = ()


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
class StripChart(_SeriesChart):
    """The rate over time of every trial as strips. `panel`: one of several charts next to each
    other."""

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
class Band:
    """An area between two lines, of (x, low, high) in order of x: the interval of a computed line.
    It has the colour `hue`."""

    hue: int
    points: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart(_SeriesChart):
    """Lines over x and y: a percentile ladder, a distribution, IOPS over time, a load curve.

    `looks` has one for each series; where it is empty, its hue picks colour, shape and dash. A
    series without a name is not in the legend. `drawn`: a terminal draws it, too. `panel`: one of
    several on the same scales, next to each other, with a `note` below its title. `scatter`: the
    name of a line is next to its last point. `bands` are below the lines.
    """

    x: Scale
    y: Scale
    lines: tuple[Line, ...]
    looks: tuple[Look, ...] = ()
    rules: tuple[Rule, ...] = ()
    pins: tuple[Pin, ...] = ()
    bands: tuple[Band, ...] = ()
    drawn: bool = False
    scatter: bool = False
    panel: bool = False
    note: str = ""

    def look(self, series: int) -> Look:
        hue = self.hue(series)
        return self.looks[series] if self.looks else Look(hue=hue, dash=hue % 4)


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
    where it is not green for better and orange for worse."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    higher_is_better: tuple[bool, ...]
    cells: tuple[tuple[HeatCell, ...], ...]
    baseline: int
    relative: bool = False
    key: str = ""
    row_title: str = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A node of a tree, with a note and its children; `strong` ones stand out. A box shows its
    `value` below the label, and where nothing is below it its `shade` as that of a heat map."""

    label: str
    note: str = ""
    below: tuple[Branch, ...] = ()
    strong: bool = False
    value: str = ""
    shade: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A hierarchy, such as that of CRUSH. `boxes`: a page draws it as boxes in boxes, strong ones
    in the colour `hue`."""

    caption: str
    roots: tuple[Branch, ...]
    boxes: bool = False
    hue: int = 0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A result at a glance: `value` with its verdict, and what it is a value of. A page draws the
    `changes` behind it in small, or a square for each cell with the worst severity of its findings.
    """

    title: str
    unit: str
    value: str
    verdict: str
    note: str
    changes: DeltaChart | None = None
    squares: tuple[Severity | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """Results next to each other."""

    tiles: tuple[Tile, ...]


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
    """A page folds `folded` sections, a terminal leaves them out. A page has the `result` of a
    section next to its heading: `Trials: 3 of 24 results vary by more than 10 %`."""

    heading: str
    id: str
    blocks: tuple[Block, ...] = ()
    sections: tuple[Section, ...] = ()
    folded: bool = False
    result: str = ""


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
    """Spell out the control characters in every text of a document or of a part of one, and round
    its numbers as they are written.

    Every renderer calls it first, so that no other code has to. Only `Code` has lines.
    """
    return cast(_Part, _printable(part))


def _printable(part: Any) -> Any:
    if type(part) is str:
        return visible(part)
    if isinstance(part, float):
        rounded = round_significant(part)
        return part if rounded == part else rounded
    if type(part) is tuple:
        items = tuple(map(_printable, part))
        return part if all(map(is_, part, items)) else items
    if not is_dataclass(part) or isinstance(part, type):
        return part
    changed = {}
    for name in part.__dataclass_fields__:
        value = getattr(part, name)
        lines = name == "text" and isinstance(part, Code)
        shown = visible_lines(value) if lines else _printable(value)
        if shown is not value:
            changed[name] = shown
    return replace(part, **changed) if changed else part
