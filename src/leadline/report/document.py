"""The report as data: sections and blocks, with no markup of any medium.

Every text is as it shall be read; renderers escape it for their medium and decide on layout.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from leadline.findings import Severity


class Kind(StrEnum):
    """What a column holds: `number` is right-aligned and sorted by value."""

    TEXT = "text"
    NUMBER = "number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A doubt beside a number: `label` (`E1`, `W2`, `I3`) is resolved in the list of findings."""

    label: str
    code: str
    severity: Severity

    @property
    def anchor(self) -> str:
        return f"finding-{self.label.lower()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One table cell. `sort` orders the rows and is None where there is no value; `note` explains
    the text in a sentence; `missing` marks a text that stands for an absent number."""

    text: str
    sort: float | str | None = None
    marks: tuple[Mark, ...] = ()
    note: str = ""
    missing: bool = False

    @property
    def severity(self) -> Severity | None:
        """The most severe doubt."""
        return max((mark.severity for mark in self.marks), key=lambda s: s.order, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """`rank` says what may be left out where there is no room: 0 never, the highest first."""

    title: str
    kind: Kind = Kind.TEXT
    unit: str = ""
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`rows` have one cell per column. `filterable` tables are looked up, the others read."""

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
    """One finding: where it was made, what it says, and its evidence as (name, number) texts."""

    where: str
    message: str
    evidence: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingGroup:
    """Findings of one code and severity, with the remedies that they name."""

    mark: Mark
    items: tuple[FindingItem, ...]
    remedies: tuple[str, ...] = ()


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
    as text, at the row's end."""

    label: str
    dots: tuple[Dot, ...]
    value: float | None
    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DotPlot:
    """Every trial as a dot, and a mark at the figure of all trials, which `mark` names. The axis
    runs from `low` to `high`; `ticks` are (value, text)."""

    id: str
    title: str
    unit: str
    mark: str
    log: bool
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    rows: tuple[DotRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An axis: `low` to `high` in the values' own unit; `ticks` are (value, text)."""

    title: str
    log: bool
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A value with its interval and every trial, `text` as read. None where there is no number;
    `refused`: an error stands beside it, so that it is drawn as an outline only."""

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
class BarChart:
    """Groups of bars from zero (horizontal), with intervals and dots. `series` are the legend.
    `choice` is what a reader picks it by where a page has one for each metric; empty if always
    shown."""

    id: str
    title: str
    series: tuple[str, ...]
    scale: Scale
    groups: tuple[BarGroup, ...]
    choice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points in order of x; `texts` is one hover text for each. `series` picks colour and dash."""

    label: str
    series: int
    points: tuple[tuple[float, float], ...]
    texts: tuple[str, ...] = ()


class Stroke(StrEnum):
    """`marked`: a line with a mark at each point; `dots`: small marks alone; `thin`: a line without
    marks, for what was fitted; `faint`: one to hold the others against."""

    MARKED = "marked"
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
    """A ring round a point that stands out, with a word beside it and a hover text."""

    x: float
    y: float
    hue: int
    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart:
    """Lines over x and y: a percentile ladder, a distribution, IOPS over time, a load curve.

    `looks` has one for each series; where it is empty, a series' number picks its colour, shape and
    dash. A series without a name is not in the legend. `drawn`: so few points tell a shape that a
    terminal draws it, too.
    """

    id: str
    title: str
    series: tuple[str, ...]
    x: Scale
    y: Scale
    lines: tuple[Line, ...]
    choice: str = ""
    looks: tuple[Look, ...] = ()
    rules: tuple[Rule, ...] = ()
    pins: tuple[Pin, ...] = ()
    drawn: bool = False

    def look(self, series: int) -> Look:
        return self.looks[series] if self.looks else Look(hue=series, dash=series % 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRow:
    """A change as a ratio (1 is none) with its interval; `verdict` in words picks the mark.
    `text` is what stands at the row's end."""

    label: str
    ratio: float | None
    interval: tuple[float, float] | None
    verdict: str
    text: str
    band: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaChart:
    """Changes round the line of no change, the band drawn behind. The scale is of ratios, log."""

    id: str
    title: str
    scale: Scale
    rows: tuple[DeltaRow, ...]
    choice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """`shade` from -1 (worst) over 0 (as the baseline) to 1 (best), None where there is no number;
    `value` is the figure itself, for a page that lets its reader choose another baseline.
    `refused`: an error stands beside the number, so that it is struck out and has no shade."""

    text: str
    shade: float | None
    value: float | None = None
    note: str = ""
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """Rows of targets, columns of workloads. `higher_is_better` says how a column is read;
    `baseline` is the row to which the shades refer. `relative`: the figures are changes already, so
    that no ratio stands beside them and no other baseline can be chosen."""

    id: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    higher_is_better: tuple[bool, ...]
    cells: tuple[tuple[HeatCell, ...], ...]
    baseline: int
    choice: str = ""
    relative: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A place in a tree, what is said of it, and what is below."""

    label: str
    note: str = ""
    below: tuple[Branch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A hierarchy such as CRUSH's, drawn."""

    caption: str
    roots: tuple[Branch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Two things to be seen beside each other, each under its heading: the two systems."""

    parts: tuple[tuple[str, tuple[Block, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """A selector: blocks with one of these as `choice` are shown one at a time, the first at
    first. Each is (value, label)."""

    id: str
    label: str
    options: tuple[tuple[str, str], ...]


Chart = BarChart | LineChart | DeltaChart | HeatMap
Block = (
    Paragraph
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
    """`folded` sections are for looking up: a page folds them, a terminal leaves them out."""

    heading: str
    id: str
    blocks: tuple[Block, ...] = ()
    sections: tuple[Section, ...] = ()
    folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """`summary` is what the run says in short, the most important first; `marked` holds every
    mark that stands beside a number."""

    title: str
    subtitle: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]
    marked: tuple[Mark, ...] = field(default=())
