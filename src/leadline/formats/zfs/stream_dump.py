"""`zstreamdump` (zfs-fuse, old ZFS) and `zstream dump`: what a send stream is made of.

The tool ends with status 0 and a summary whatever it was given: a stream that is cut off counts a
last record as if it were whole, so that its payload may exceed its length, and a file that is no
stream has no records at all. `StreamDump.whole` tells such from a stream that has come to its end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from leadline.formats.zfs.lines import ends_early, is_cut, lines_of, refused

_TOOL: Final = "zstream dump"
_FIELD: Final = re.compile(r"\t(?P<key>[a-z_]{2,20}) = (?P<value>.*)", re.ASCII)
_END: Final = re.compile(r"END checksum = [0-9a-f]{1,16}(?:/[0-9a-f]{1,16}){3}", re.ASCII)
_COUNT: Final = re.compile(
    r"\tTotal DRR_(?P<kind>[A-Z_]{3,20}) records = (?P<count>\d{1,20})"
    r"(?: \((?P<bytes>\d{1,20}) bytes\))?",
    re.ASCII,
)
_TOTAL: Final = re.compile(
    r"\tTotal (?P<key>records|write size|payload size|header overhead|stream length) = "
    r"(?P<value>\d{1,20})(?: \(0x[0-9a-f]{1,16}\))?",
    re.ASCII,
)
# What -v tells of each record, and the lists of names and properties of a package.
_RECORD: Final = re.compile(
    r"(?:WRITE|WRITE_BYREF|WRITE_EMBEDDED|OBJECT|OBJECT_RANGE|FREE|FREEOBJECTS|SPILL|REDACT)"
    r"(?: block for)? (?:object|firstobj) = .*|offset = .*|    checksum = .*",
    re.ASCII,
)
_NAMES: Final = re.compile(r"nvlist version: .*|\t+\S.*|\s*\(end .*\)", re.ASCII)
_BEYOND: Final = 1 << 64
_LONGEST_LINE: Final = 10_000
_MOST_PROBLEMS: Final = 20
# include/sys/zfs_ioctl.h, DMU_BACKUP_FEATURE_*
_FEATURES: Final = {
    0: "dedup", 1: "dedup-properties", 2: "spill-blocks", 16: "embedded-data", 17: "lz4",
    19: "large-blocks", 20: "resuming", 21: "redacted", 22: "compressed", 23: "large-dnode",
    24: "raw", 25: "zstd", 26: "holds", 27: "switch-to-large-blocks", 28: "blake3",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBegin:
    """A stream, or a package of several (`zfs send -R`), which has no snapshot of its own kind
    but that whose name it bears. Globally unique identifiers are whole numbers; `from_guid` is 0
    for a full stream. `features` are flags by their names, `bit-N` for one that is not known."""

    package: bool
    snapshot: str
    to_guid: int
    from_guid: int
    features: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCount:
    """Records of one kind and the bytes that follow their headers; None where the tool does not
    tell bytes by kind (zfs-fuse)."""

    records: int
    payload_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDump:
    """`records` by kind: `BEGIN`, `END`, `OBJECT`, `FREEOBJECTS`, `WRITE`, `FREE`, ...; OpenZFS
    counts OBJECT_RANGE and REDACT in `total_records` alone. `payload_bytes` is the data: of writes
    (zfs-fuse: `write size`) or of all records (`payload size`). `header_bytes` is None where it is
    not told. `problems` are lines that tell of a stream that is not sound."""

    begins: tuple[StreamBegin, ...]
    records: Mapping[str, RecordCount]
    total_records: int
    payload_bytes: int
    header_bytes: int | None
    stream_bytes: int
    problems: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether every stream in it has come to its end: a package has one end more."""
        ends = self.records.get("END", RecordCount(records=0, payload_bytes=None)).records
        return bool(self.begins) and ends >= len(self.begins) and not self.problems


@dataclass(slots=True, kw_only=True)
class _Reading:
    begins: list[StreamBegin] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)
    records: dict[str, RecordCount] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    summary: bool = False


def parse_stream_dump(text: str) -> StreamDump:
    """Raises FormatError (`empty-result`, `truncated-result` where there is no whole summary,
    `unreadable-result`) with the line."""
    lines = lines_of(text, _TOOL)
    reading = _Reading()
    for number, line in enumerate(lines, start=1):
        cut = is_cut(text, number, lines)
        if not line.strip():
            continue
        if len(line) > _LONGEST_LINE or cut or not _take(reading, line):
            raise refused(number, line, _TOOL, cut=cut)
    totals = reading.totals
    payload = totals.get("payload size", totals.get("write size"))
    if "records" not in totals or payload is None or "stream length" not in totals:
        raise ends_early(_TOOL, "its summary", lines[-1] or lines[-2] if len(lines) > 1 else "")
    return StreamDump(
        begins=tuple(reading.begins),
        records=MappingProxyType(reading.records),
        total_records=totals["records"],
        payload_bytes=payload,
        header_bytes=totals.get("header overhead"),
        stream_bytes=totals["stream length"],
        problems=tuple(reading.problems[:_MOST_PROBLEMS]),
    )


def _take(reading: _Reading, line: str) -> bool:
    """Whether the line was understood."""
    if reading.summary:
        return _take_total(reading, line)
    if line == "BEGIN record":
        reading.fields = {"": ""}
    elif line == "SUMMARY:":
        reading.summary = True
    elif reading.fields and (found := _FIELD.fullmatch(line)):
        reading.fields[found["key"]] = found["value"]
        if found["key"] == "toname":
            begin = _begin(reading.fields)
            if begin is None:
                return False
            reading.begins.append(begin)
            reading.fields = {}
    elif line.startswith(("Expected checksum", "INVALID record", "Invalid stream", "Aborting")):
        reading.problems.append(line)
    else:
        return bool(
            _END.fullmatch(line)
            or _RECORD.fullmatch(line)
            or (reading.begins and _NAMES.fullmatch(line))
        )
    return True


def _take_total(reading: _Reading, line: str) -> bool:
    count, total = _COUNT.fullmatch(line), _TOTAL.fullmatch(line)
    if count and count["kind"] not in reading.records:
        records, told = int(count["count"]), count["bytes"]
        reading.records[count["kind"]] = RecordCount(
            records=records, payload_bytes=None if told is None else int(told)
        )
        return records < _BEYOND and (told is None or int(told) < _BEYOND)
    if total and total["key"] not in reading.totals:
        reading.totals[total["key"]] = int(total["value"])
        return int(total["value"]) < _BEYOND
    return False


def _begin(fields: Mapping[str, str]) -> StreamBegin | None:
    numbers = {key: _hexadecimal(fields.get(key, "")) for key in ("features", "toguid", "fromguid")}
    features, to_guid, from_guid = numbers.values()
    if fields.get("hdrtype") not in ("1", "2") or None in (features, to_guid, from_guid):
        return None
    assert features is not None
    assert to_guid is not None
    assert from_guid is not None
    bits = [bit for bit in range(features.bit_length()) if features >> bit & 1]
    return StreamBegin(
        package=fields["hdrtype"] == "2",
        snapshot=fields["toname"],
        to_guid=to_guid,
        from_guid=from_guid,
        features=frozenset(_FEATURES.get(bit, f"bit-{bit}") for bit in bits),
    )


def _hexadecimal(text: str) -> int | None:
    digits = text.removeprefix("0x")
    return int(digits, 16) if re.fullmatch(r"[0-9a-f]{1,16}", digits, re.ASCII) else None
