"""Single lines of fio's normal output: their patterns, and their numbers in base units.

fio 2 writes `K`, `M`, `G` before `B` for powers of 1024 (of 1000 only with kb_base=1000, which the
text does not show). fio 3 writes `Ki` ... for powers of 1024 and `k`, `M` ... for powers of 1000.
Numbers are rounded to four to six digits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from leadline.formats.result import (
    DiskUse,
    Latency,
)
from leadline.metrics import Op

_NUMBER = r"\d{1,18}(?:\.\d{1,9})?"
_SIZE = re.compile(rf"({_NUMBER})([KkMGTPE]?)(i?)(B|bit|)(?:/s)?")
_SCALED = re.compile(rf"({_NUMBER})([KkMGTPE]?)")
_POWERS: Final = {"": 0, "K": 1, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_SECONDS: Final = {"nsec": 1_000_000_000, "usec": 1_000_000, "msec": 1_000, "sec": 1}

HEADER = re.compile(
    r"(?:<[^>]{1,255}> )?(?P<name>.*): \(g=(?P<group>\d{1,9})\): rw=(?P<rw>\w+),"
    r"(?: odir=\d+,)? bs=(?P<bs>.+?),(?: rate=\d+,)? ioengine=(?P<engine>[\w.:/-]+), "
    r"iodepth=(?P<depth>\d{1,9})\s*"
)
STARTING = re.compile(r"(?:<[^>]{1,255}> )?Starting (.*)")
WORKERS = re.compile(r"(\d{1,9}) (?:process|thread)")
VERSION = re.compile(r"(?:<[^>]{1,255}> )?(fio[- ]\d[\w.+-]*)\s*")
JOB = re.compile(
    r"(?P<name>.*): \(groupid=(?P<group>\d{1,9}), jobs=(?P<jobs>\d{1,9})\): "
    r"err=\s*(?P<error>\d{1,9})(?: \((?P<what>.*)\))?: pid=(?P<pid>\d{1,19})\b.*"
)
NEW_DIRECTION = re.compile(
    r"\s*(?P<op>read|write|trim|mixed)\s*: IOPS=(?P<iops>\S+), BW=(?P<bw>\S+) \(\S+\)\s?"
    r"\((?P<io>[^\s/]+)/\s*(?P<runtime>\d{1,15})msec\).*"
)
OLD_DIRECTION = re.compile(
    r"\s*(?P<op>read|write|trim|mixed)\s*: io=(?P<io>\S+), bw=(?P<bw>\S+), "
    r"iops=(?P<iops>\d\S*)\s*, runt=\s*(?P<runtime>\d{1,15})msec\s*"
)
LATENCY = re.compile(
    r"\s*(?P<kind>slat|clat|lat|sync) \((?P<unit>[num]?sec)\)\s*: "
    rf"min=\s*(?P<min>{_NUMBER}[A-Za-z]?), max=\s*(?P<max>{_NUMBER}[A-Za-z]?), "
    rf"avg=\s*(?P<avg>{_NUMBER}), stdev=\s*(?P<stdev>{_NUMBER})\s*"
)
PERCENTILES = re.compile(
    r"\s*(?P<kind>slat|clat|lat|sync) percentiles \((?P<unit>[num]?sec)\)\s*:\s*"
)
PERCENTILE_ROW = re.compile(r"\s*\|.*")
PERCENTILE = re.compile(rf"({_NUMBER})th=\[\s*(>?=?\s*{_NUMBER}[A-Za-z]?)\s*\]")
CPU = re.compile(rf"\s*cpu\s*: usr=({_NUMBER})%, sys=({_NUMBER})%.*")
DEPTHS = re.compile(r"\s*IO depths\s*:(.*)")
LEVEL = re.compile(rf"(1|2|4|8|16|32|>=64)=({_NUMBER})%")
ISSUED = re.compile(
    r"\s*issued\s*(?:rwts?)?\s*: total=(\S+)(?:,? short=(\S+?))?(?:,? drop(?:ped)?=(\S+?))?\s*"
)
_ISSUED_PART = re.compile(r"(?:[rwd]=)?(\d{1,18})")
DISK = re.compile(
    r"\s*(?P<name>\S+): ios=(?P<ri>\d{1,18})/(?P<wi>\d{1,18}),"
    r"(?: sectors=(?P<rs>\d{1,18})/(?P<ws>\d{1,18}),)? merge=(?P<rm>\d{1,18})/(?P<wm>\d{1,18}), "
    rf"ticks=\S+ in_queue=\d+, util=(?P<util>{_NUMBER})%.*"
)
_BLOCK = re.compile(r"(?:\([RWT]\) )?([^\s,/-]+)-([^\s,/-]+)")
# Lines that say nothing of what is kept: samples, classes, targets, states of blocks.
KNOWN = re.compile(
    r"\s*(?:bw\s*\(|iops\s*:|lat \([num]?sec\)\s*:|submit\s*:|complete\s*:|latency\s*:|errors\s*:|"
    r"steadystate\s*:|states\s*:|block lifetime|Description\s*:|fsync/fdatasync/).*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header line of a job, the `number`th from 0. `has_block_size`: the options include it; it
    is neither rounded nor of an unknown form."""

    number: int
    name: str
    group: int
    options: Mapping[str, str]
    has_block_size: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """I/Os of reads, writes and trims of the line `issued`."""

    total: tuple[int, ...]
    short: tuple[int, ...]
    dropped: tuple[int, ...]


def parse_size(text: str, *, old: bool) -> float | None:
    """Bytes (or bytes per second) of a size, of bits an eighth; `old` as fio 2 writes it."""
    match = _SIZE.fullmatch(text.replace(",", "").rstrip(";"))
    if match is None:
        return None
    number, prefix, binary, unit = match.groups()
    value = float(number) * (1024.0 if binary or old else 1000.0) ** _POWERS[prefix]
    return value / 8 if unit == "bit" else value


def parse_scaled(text: str) -> float | None:
    """A count such as `12.3k`; powers of 1000 in every version."""
    match = _SCALED.fullmatch(text.rstrip(","))
    return float(match.group(1)) * 1000.0 ** _POWERS[match.group(2)] if match else None


def parse_header(match: re.Match[str], *, number: int) -> Header:
    options = {"rw": match["rw"], "ioengine": match["engine"], "iodepth": match["depth"]}
    sizes = _block_size(match["bs"], match["rw"])
    return Header(
        number=number,
        name=match["name"].strip(),
        group=int(match["group"]),
        options=options | sizes,
        has_block_size=bool(sizes),
    )


def _block_size(text: str, rw: str) -> dict[str, str]:
    """fio's `bs` or `bsrange` in bytes; empty where it is rounded."""
    ranges = []
    for ends in _BLOCK.findall(text):
        # fio 3 writes the unit, `4096B` or `64.0KiB`; fio 2 does not: `4096` or `64K`.
        low, high = (parse_size(end, old=not end.endswith("B")) for end in ends)
        if low is None or high is None or low != int(low) or high != int(high):
            return {}
        # A figure with a prefix is rounded: only whole sectors are believed to be exact.
        if any(
            not end.rstrip("B").isdigit() and value % 512
            for end, value in zip(ends, (low, high), strict=True)
        ):
            return {}
        ranges.append((int(low), int(high)))
    if not 1 <= len(ranges) <= 3:
        return {}
    used = [entry for entry, op in zip(ranges, ("read", "write", "trim"), strict=False) if op in rw]
    if rw in ("rw", "randrw"):
        used = ranges[:2]
    if len(set(used)) == 1:
        low, high = used[0]
        return {"bs": str(low)} if low == high else {"bsrange": f"{low}-{high}"}
    if all(low == high for low, high in ranges):
        return {"bs": ",".join(str(low) for low, _ in ranges)}
    return {"bsrange": ",".join(f"{low}-{high}" for low, high in ranges)}


def parse_latency(match: re.Match[str]) -> Latency:
    parts = _SECONDS[match["unit"]]
    least, most = parse_scaled(match["min"]), parse_scaled(match["max"])
    return Latency(
        min_s=None if least is None else least / parts,
        max_s=None if most is None else most / parts,
        mean_s=float(match["avg"]) / parts,
        stddev_s=float(match["stdev"]) / parts,
    )


def parse_percentiles(line: str, unit: str) -> dict[float, float]:
    """Seconds by quantile; a value that is only bounded (`>=`) is left out."""
    found: dict[float, float] = {}
    for percent, text in PERCENTILE.findall(line):
        value, q = parse_scaled(text), round(float(percent) / 100, 12)
        if value is not None and 0 < q < 1:
            found[q] = value / _SECONDS[unit]
    return found


def parse_issued(match: re.Match[str]) -> Issued | None:
    parts = []
    for text in match.groups():
        numbers = [
            _ISSUED_PART.fullmatch(part) for part in re.split(r"[,/]", (text or "").rstrip(","))
        ]
        parts.append(tuple(int(number.group(1)) for number in numbers if number))
    return Issued(total=parts[0], short=parts[1], dropped=parts[2]) if parts[0] else None


def parse_disk(match: re.Match[str]) -> DiskUse:
    sectors = (match["rs"], match["ws"])
    read_bytes, write_bytes = (512 * int(count) if count else None for count in sectors)
    return DiskUse(
        name=match["name"],
        read_ios=int(match["ri"]),
        write_ios=int(match["wi"]),
        read_merges=int(match["rm"]),
        write_merges=int(match["wm"]),
        read_bytes=read_bytes,
        write_bytes=write_bytes,
        busy_share=float(match["util"]) / 100,
    )


OPS: Final = {"read": Op.READ, "write": Op.WRITE, "trim": Op.TRIM, "mixed": Op.TOTAL}
