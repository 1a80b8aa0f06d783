"""`nvme id-ctrl` and `nvme id-ns` as text: what a controller and a namespace can do.

The names are those of the NVMe base specification (Identify Controller and Identify Namespace
data structures): figures stand in decimals or, bit fields and some numbers, as `0x...`. With -H the
bits of a field stand below it, which are left out here, and block formats are told in words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from leadline.formats.nvme.text import (
    Line,
    ends_early,
    lines_of,
    pair,
    refused,
    told_number,
)
from leadline.formats.output import FormatError

_CONTROLLER: Final = "nvme id-ctrl"
_NAMESPACE: Final = "nvme id-ns"
_POWER_STATE: Final = re.compile(r"ps\s+(?P<number>\d{1,2}) : (?P<told>.*)", re.ASCII)
_BLOCK_FORMAT: Final = re.compile(
    r"lbaf\s+(?P<number>\d{1,2}) : ms:(?P<metadata>\d{1,5})\s+lbads:(?P<shift>\d{1,2})\s+"
    r"rp:(?:0x)?(?P<performance>[0-9a-f]{1,2})(?P<used> \(in use\))?",
    re.ASCII,
)
_TITLE: Final = re.compile(
    r"NVME Identify (?P<what>Controller|Namespace)(?: (?P<nsid>\d{1,10}))?:", re.ASCII
)
_NUMBERS: Final = ("mdts", "cntlid", "nn", "sqes", "cqes", "maxcmd", "ioccsz")
# What -H prints: `LBA Format  0 : Metadata Size: 0   bytes - Data Size: 512 bytes - ...`
_SPELLED_FORMAT: Final = re.compile(
    r"LBA Format\s+(?P<number>\d{1,2}) : Metadata Size: (?P<metadata>\d{1,5})\s+bytes - "
    r"Data Size: (?P<data>\d{1,10})\s+bytes - "
    r"Relative Performance: (?:0x)?(?P<performance>[0-9a-f]{1,2})(?: [A-Z][a-z]+)*"
    r"(?P<used> \(in use\))?",
    re.ASCII,
)
_BITS: Final = re.compile(r"\s*\[\d{1,3}:\d{1,3}\]\s?:.*")
_LARGEST_SHIFT: Final = 63
_MOST_FIELDS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentifiedController:
    """`fields` are all of them as printed, by their names; power states are `ps 0`, ... Numbers
    are None where the output lacks them.

    - `max_transfer_shift` (mdts): the largest request is 2^mdts pages of the controller's smallest
      page size (`max_transfer_bytes`); 0 is no limit.
    - `controller_id` (cntlid), `namespaces` (nn): how many it may have, not how many there are.
    - `submission_entry_bytes`, `completion_entry_bytes`: the sizes of queue entries that it
      requires (sqes, cqes: the lower four bits are a power of two).
    - `max_commands` (maxcmd): how many it takes in all of a queue; 0 where it does not tell.
    - `in_capsule_bytes`: what a write to a fabrics controller may carry with it, without a round
      trip to be asked for it (ioccsz is in 16 bytes and holds the 64 of the command, too); 0 for
      one that is none.
    """

    model: str
    serial: str
    firmware: str
    nqn: str
    max_transfer_shift: int | None
    controller_id: int | None
    namespaces: int | None
    submission_entry_bytes: int | None
    completion_entry_bytes: int | None
    max_commands: int | None
    in_capsule_bytes: int | None
    fields: Mapping[str, str]

    def max_transfer_bytes(self, page_bytes: int = 4096) -> int | None:
        """The largest request; None where there is no limit or none is told. `page_bytes` is 2^(12
        + CAP.MPSMIN), which `nvme show-regs` tells and this output does not."""
        return page_bytes << self.max_transfer_shift if self.max_transfer_shift else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFormat:
    """Bytes of data and of metadata that a block has; `in_use` for the one that it is formatted
    with. `performance` from 0, best, to 3."""

    data_bytes: int
    metadata_bytes: int
    performance: int
    in_use: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentifiedNamespace:
    """Sizes are in blocks, whose bytes only the format in use tells: `size` (nsze), `capacity`
    (ncap) of which may be allocated, `used` (nuse). `nsid` is 0 where the output does not tell.
    `fields` are all as printed, by their names."""

    nsid: int
    size: int
    capacity: int
    used: int
    formats: tuple[BlockFormat, ...]
    fields: Mapping[str, str]

    @property
    def block_bytes(self) -> int | None:
        """None where the format in use is not told."""
        return next((one.data_bytes for one in self.formats if one.in_use), None)


def parse_id_ctrl(text: str) -> IdentifiedController:
    """Raises FormatError (`empty-result`, `truncated-result`, `unreadable-result`) with the
    line."""
    fields: dict[str, str] = {}
    last = ""
    for line in lines_of(text, _CONTROLLER):
        title = _TITLE.fullmatch(line.text)
        if title:
            if title["what"] != "Controller" or "vid" in fields:
                raise refused(line, _CONTROLLER)
            continue
        if fields and not line.cut and _BITS.fullmatch(line.text):
            continue
        told = pair(line.text)
        state = _POWER_STATE.fullmatch(line.text)
        if line.cut or len(fields) > _MOST_FIELDS:
            raise refused(line, _CONTROLLER)
        if state:
            last = f"ps {state['number']}"
            fields[last] = state["told"].strip()
        elif line.text[0].isspace() and last.startswith("ps "):
            fields[last] += f" {line.text.strip()}"
        elif told and told[0] not in fields:
            last = told[0]
            fields[last] = told[1]
        else:
            raise refused(line, _CONTROLLER)
    missing = [key for key in ("vid", "sn", "mn", "mdts") if key not in fields]
    if missing:
        raise ends_early(_CONTROLLER, f"`{missing[0]}`")
    numbers = {key: told_number(fields, key, _CONTROLLER) for key in _NUMBERS}
    capsule = numbers["ioccsz"]
    return IdentifiedController(
        model=fields["mn"].strip(),
        serial=fields["sn"].strip(),
        firmware=fields.get("fr", "").strip(),
        nqn=fields.get("subnqn", "").strip(),
        max_transfer_shift=_shift(numbers["mdts"]),
        controller_id=numbers["cntlid"],
        namespaces=numbers["nn"],
        submission_entry_bytes=_entry_bytes(numbers["sqes"]),
        completion_entry_bytes=_entry_bytes(numbers["cqes"]),
        max_commands=numbers["maxcmd"],
        in_capsule_bytes=None if capsule is None else max(0, capsule * 16 - 64),
        fields=MappingProxyType(fields),
    )


def _shift(value: int | None) -> int | None:
    """Raises FormatError for more than a request can have."""
    if value is not None and value > _LARGEST_SHIFT:
        raise FormatError("unreadable-result", f"`mdts` of {_CONTROLLER} cannot be {value}")
    return value


def _entry_bytes(value: int | None) -> int | None:
    return None if value is None else 1 << (value & 0xF)


def parse_id_ns(text: str) -> IdentifiedNamespace:
    """Raises FormatError (`empty-result`, `truncated-result`, `unreadable-result`) with the
    line."""
    fields: dict[str, str] = {}
    formats: list[BlockFormat] = []
    nsid = 0
    for line in lines_of(text, _NAMESPACE):
        title = _TITLE.fullmatch(line.text)
        if title:
            if title["what"] != "Namespace" or fields:
                raise refused(line, _NAMESPACE)
            nsid = int(title["nsid"] or 0)
            continue
        if fields and not line.cut and _BITS.fullmatch(line.text):
            continue
        found = _BLOCK_FORMAT.fullmatch(line.text)
        spelled = _SPELLED_FORMAT.fullmatch(line.text)
        told = pair(line.text)
        if line.cut or len(fields) > _MOST_FIELDS:
            raise refused(line, _NAMESPACE)
        if found:
            formats.append(_format(found, line))
        elif spelled:
            formats.append(
                BlockFormat(
                    data_bytes=int(spelled["data"]),
                    metadata_bytes=int(spelled["metadata"]),
                    performance=int(spelled["performance"], 16) & 3,
                    in_use=bool(spelled["used"]),
                )
            )
        elif told and told[0] not in fields and not told[0].startswith(("lbaf", "LBA Format")):
            fields[told[0]] = told[1]
        else:
            raise refused(line, _NAMESPACE)
    size, capacity, used = (
        told_number(fields, key, _NAMESPACE) for key in ("nsze", "ncap", "nuse")
    )
    if size is None or capacity is None or used is None:
        raise ends_early(_NAMESPACE, "the namespace's size (nsze, ncap, nuse)")
    return IdentifiedNamespace(
        nsid=nsid,
        size=size,
        capacity=capacity,
        used=used,
        formats=tuple(formats),
        fields=MappingProxyType(fields),
    )


def _format(found: re.Match[str], line: Line) -> BlockFormat:
    shift = int(found["shift"])
    if shift > _LARGEST_SHIFT:
        raise refused(line, _NAMESPACE)
    return BlockFormat(
        # 0 where the format is not there to be used.
        data_bytes=1 << shift if shift else 0,
        metadata_bytes=int(found["metadata"]),
        performance=int(found["performance"], 16) & 3,
        in_use=bool(found["used"]),
    )
