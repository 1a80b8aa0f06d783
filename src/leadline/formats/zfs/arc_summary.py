"""`arc_summary`: the cache's figures in sections, and the module's parameters.

    ARC status:
            Current size:                                  18.7 %  231.0 MiB

Sizes are powers of 1024 with one decimal, counts thousands (`9.4k`): for exact numbers take the
kstat `arcstats` itself (`leadline.formats.zfs.kstat`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from leadline.formats.zfs.lines import ends_early, is_cut, lines_of, refused

_TOOL: Final = "arc_summary"
_BANNER: Final = "ZFS Subsystem Report"
_PARAMETERS: Final = frozenset({"Solaris Porting Layer (SPL)", "Tunables", "VDEV cache"})
_SKIPPED: Final = re.compile(r"\S.{0,60} (?:not detected|disabled), skipping section", re.ASCII)
_HEADING: Final = re.compile(r"(?P<name>[A-Z][^:]{1,70}):(?:\s+(?P<figures>\S.*))?", re.ASCII)
_ROW: Final = re.compile(r"\s{2,8}(?P<name>[A-Z][^:]{1,60}?):?\s{2,}(?P<figures>\S.*)", re.ASCII)
_PARAMETER: Final = re.compile(r"\s{2,8}(?P<name>\w{1,80})\s+(?P<value>\S.*)", re.ASCII)
_FIGURES: Final = re.compile(
    r"(?:(?P<below>< )?(?P<share>\d{1,3}\.\d) %\s+)?"
    r"(?P<value>\d{1,20}(?:\.\d)?)(?:(?P<factor>[kMGTPEZY])| ?(?P<unit>Bytes|[KMGTPEZ]iB))?"
    r"(?:\s+(?P<count>\d{1,20}(?:\.\d)?)(?P<thousands>[kMGTPEZY])?)?",
    re.ASCII,
)
_BYTES: Final = {"Bytes": 1} | {
    f"{prefix}iB": 1 << 10 * power for power, prefix in enumerate("KMGTPEZ", start=1)
}
_THOUSANDS: Final = {None: 1} | {
    prefix: 1000**power for power, prefix in enumerate("kMGTPEZY", start=1)
}
_BEYOND: Final = 1e24
_LONGEST_LINE: Final = 1000


class ArcUnit(StrEnum):
    """Bytes where a figure has a unit, else a count of whatever the row names."""

    BYTES = "bytes"
    COUNT = "count"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArcFigure:
    """`share` is a fraction of what the section's heading or its first rows tell; None where there
    is none, and where it is told as `< 0.1 %`. `count` is the second figure of a row that has two
    (`Transactions to SLOG storage pool`: bytes and how many)."""

    value: float
    unit: ArcUnit
    share: float | None
    count: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArcSummary:
    """`versions` are the lines of the banner. `sections` are figures by the row's label, by the
    section's heading; a figure in the heading itself has the label ``. `parameters` are the
    modules' as printed; `skipped` tells which sections are not there."""

    versions: tuple[str, ...]
    sections: Mapping[str, Mapping[str, ArcFigure]]
    parameters: Mapping[str, str]
    skipped: tuple[str, ...]


def parse_arc_summary(text: str) -> ArcSummary:
    """Raises FormatError (`empty-result`, `truncated-result`, `unreadable-result`) with the
    line."""
    lines = lines_of(text, _TOOL)
    versions: list[str] = []
    sections: dict[str, dict[str, ArcFigure]] = {}
    parameters: dict[str, str] = {}
    skipped: list[str] = []
    heading = ""
    for number, line in enumerate(lines, start=1):
        cut = is_cut(text, number, lines)
        if len(line) > _LONGEST_LINE or (cut and line.strip()):
            raise refused(number, line, _TOOL, cut=cut)
        if not line.strip("- \t"):
            continue
        if line.startswith((_BANNER, "Linux ", "Machine: ", "FreeBSD ")) and not sections:
            versions.append(" ".join(line.split()))
            continue
        if _SKIPPED.fullmatch(line):
            skipped.append(line)
            heading = ""
            continue
        found = _HEADING.fullmatch(line)
        if found:
            heading = found["name"]
            if heading not in _PARAMETERS:
                section = sections.setdefault(heading, {})
                _put(section, "", found["figures"] or "", number, line)
            continue
        row = (_PARAMETER if heading in _PARAMETERS else _ROW).fullmatch(line) if heading else None
        if row is None:
            raise refused(number, line, _TOOL)
        if heading in _PARAMETERS:
            parameters[row["name"]] = row["value"]
        else:
            _put(sections[heading], row["name"], row["figures"], number, line)
    if not any(sections.values()):
        raise ends_early(_TOOL, "the first figure", lines[-1])
    return ArcSummary(
        versions=tuple(versions),
        sections=MappingProxyType(
            {name: MappingProxyType(section) for name, section in sections.items()}
        ),
        parameters=MappingProxyType(parameters),
        skipped=tuple(skipped),
    )


def _put(section: dict[str, ArcFigure], name: str, figures: str, number: int, line: str) -> None:
    if not figures:
        return
    found = _FIGURES.fullmatch(figures)
    if found is None or name in section:
        raise refused(number, line, _TOOL)
    unit = ArcUnit.BYTES if found["unit"] else ArcUnit.COUNT
    factor = _BYTES[found["unit"]] if found["unit"] else _THOUSANDS[found["factor"]]
    value = float(found["value"]) * factor
    count = found["count"] and float(found["count"]) * _THOUSANDS[found["thousands"]]
    if value >= _BEYOND or (count or 0.0) >= _BEYOND:
        raise refused(number, line, _TOOL)
    section[name] = ArcFigure(
        value=value,
        unit=unit,
        share=float(found["share"]) / 100 if found["share"] and not found["below"] else None,
        count=float(count) if count else None,
    )
