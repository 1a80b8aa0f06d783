"""`nvme discover` as text: what a discovery controller offers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from leadline.formats.nvme.text import ends_early, lines_of, pair, refused

_TOOL: Final = "nvme discover"
_TITLE: Final = re.compile(
    r"Discovery Log Number of Records (?P<records>\d{1,9}), Generation counter \d{1,20}", re.ASCII
)
_ENTRY: Final = re.compile(r"=====Discovery Log Entry (?P<number>\d{1,9})======", re.ASCII)
_NEEDED: Final = ("trtype", "subtype", "subnqn", "traddr")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredSubsystem:
    """One record. `subsystem` is whether it serves I/O; else it is a discovery controller, the
    one that was asked or another. `fields` are all as printed, by their names."""

    transport: str
    nqn: str
    address: str
    service: str
    subsystem: bool
    fields: Mapping[str, str]


def parse_discovery(text: str) -> tuple[DiscoveredSubsystem, ...]:
    """All records in order. Raises FormatError (`empty-result`, `truncated-result` where there are
    fewer than the first line says, `unreadable-result`) with the line."""
    expected: int | None = None
    entries: list[dict[str, str]] = []
    for line in lines_of(text, _TOOL):
        title, entry, told = (
            _TITLE.fullmatch(line.text),
            _ENTRY.fullmatch(line.text),
            pair(line.text),
        )
        if title and expected is None:
            expected = int(title["records"])
        elif expected is None or line.cut:
            raise refused(line, _TOOL)
        elif entry and int(entry["number"]) == len(entries):
            entries.append({})
        elif told and entries and told[0] not in entries[-1]:
            entries[-1][told[0]] = told[1]
        else:
            raise refused(line, _TOOL)
    if expected is None or len(entries) != expected:
        raise ends_early(_TOOL, f"all of its {expected or 0} records")
    return tuple(_record(one, number) for number, one in enumerate(entries))


def _record(fields: dict[str, str], number: int) -> DiscoveredSubsystem:
    missing = [key for key in _NEEDED if key not in fields]
    if missing:
        raise ends_early(_TOOL, f"`{missing[0]}` of record {number}")
    return DiscoveredSubsystem(
        transport=fields["trtype"],
        nqn=fields["subnqn"],
        address=fields["traddr"],
        service=fields.get("trsvcid", ""),
        subsystem="nvme subsystem" in fields["subtype"],
        fields=MappingProxyType(fields),
    )
