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


Block = Paragraph | Bullets | KeyValues | Code | Table | FindingList | DotPlot


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
