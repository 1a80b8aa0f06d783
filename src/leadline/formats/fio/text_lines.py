"""Lines of fio's normal output, and the executions and blocks of jobs that they make.

fio 2 writes `K`, `M`, `G` before `B` for powers of 1024 (of 1000 only with kb_base=1000, which the
text does not show). fio 3 writes `Ki` ... for powers of 1024 and `k`, `M` ... for powers of 1000.
Numbers are rounded to four to six digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from leadline.formats.result import DiskUse, Latency, Note, NoteKind
from leadline.metrics import Op

_NUMBER = r"\d{1,18}(?:\.\d{1,9})?"
_SIZE = re.compile(rf"({_NUMBER})([KkMGTPE]?)(i?)(B|bit|)(?:/s)?")
_SCALED = re.compile(rf"({_NUMBER})([KkMGTPE]?)")
_POWERS: Final = {"": 0, "K": 1, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_SECONDS: Final = {"nsec": 1_000_000_000, "usec": 1_000_000, "msec": 1_000, "sec": 1}

_HEADER = re.compile(
    r"(?:<[^>]{1,255}> )?(?P<name>.*): \(g=(?P<group>\d{1,9})\): rw=(?P<rw>\w+),"
    r"(?: odir=\d+,)? bs=(?P<bs>.+?),(?: rate=\d+,)? ioengine=(?P<engine>[\w.:/-]+), "
    r"iodepth=(?P<depth>\d{1,9})\s*"
)
_STARTING = re.compile(r"(?:<[^>]{1,255}> )?Starting (.*)")
_WORKERS = re.compile(r"(\d{1,9}) (?:process|thread)")
_VERSION = re.compile(r"(?:<[^>]{1,255}> )?(fio[- ]\d[\w.+-]*)\s*")
_JOB = re.compile(
    r"(?P<name>.*): \(groupid=(?P<group>\d{1,9}), jobs=(?P<jobs>\d{1,9})\): "
    r"err=\s*(?P<error>\d{1,9})(?: \((?P<what>.*)\))?: pid=(?P<pid>\d{1,19})\b.*"
)
_NEW_DIRECTION = re.compile(
    r"\s*(?P<op>read|write|trim|mixed)\s*: IOPS=(?P<iops>\S+), BW=(?P<bw>\S+) \(\S+\)\s?"
    r"\((?P<io>[^\s/]+)/\s*(?P<runtime>\d{1,15})msec\).*"
)
_OLD_DIRECTION = re.compile(
    r"\s*(?P<op>read|write|trim|mixed)\s*: io=(?P<io>\S+), bw=(?P<bw>\S+), "
    r"iops=(?P<iops>\d\S*)\s*, runt=\s*(?P<runtime>\d{1,15})msec\s*"
)
_LATENCY = re.compile(
    r"\s*(?P<kind>slat|clat|lat|sync) \((?P<unit>[num]?sec)\)\s*: "
    rf"min=\s*(?P<min>{_NUMBER}[A-Za-z]?), max=\s*(?P<max>{_NUMBER}[A-Za-z]?), "
    rf"avg=\s*(?P<avg>{_NUMBER}), stdev=\s*(?P<stdev>{_NUMBER})\s*"
)
_PERCENTILES = re.compile(
    r"\s*(?P<kind>slat|clat|lat|sync) percentiles \((?P<unit>[num]?sec)\)\s*:\s*"
)
_PERCENTILE_ROW = re.compile(r"\s*\|.*")
_PERCENTILE = re.compile(rf"({_NUMBER})th=\[\s*(>?=?\s*{_NUMBER}[A-Za-z]?)\s*\]")
_CPU = re.compile(rf"\s*cpu\s*: usr=({_NUMBER})%, sys=({_NUMBER})%.*")
_DEPTHS = re.compile(r"\s*IO depths\s*:(.*)")
_LEVEL = re.compile(rf"(1|2|4|8|16|32|>=64)=({_NUMBER})%")
_ISSUED = re.compile(
    r"\s*issued\s*(?:rwts?)?\s*: total=(\S+)(?:,? short=(\S+?))?(?:,? drop(?:ped)?=(\S+?))?\s*"
)
_ISSUED_PART = re.compile(r"(?:[rwd]=)?(\d{1,18})")
_DISK = re.compile(
    r"\s*(?P<name>\S+): ios=(?P<ri>\d{1,18})/(?P<wi>\d{1,18}),"
    r"(?: sectors=(?P<rs>\d{1,18})/(?P<ws>\d{1,18}),)? merge=(?P<rm>\d{1,18})/(?P<wm>\d{1,18}), "
    rf"ticks=\S+ in_queue=\d+, util=(?P<util>{_NUMBER})%.*"
)
_BLOCK = re.compile(r"(?:\([RWT]\) )?([^\s,/-]+)-([^\s,/-]+)")
# Lines that say nothing of what is kept: samples, classes, targets, states of blocks.
_KNOWN = re.compile(
    r"\s*(?:bw\s*\(|iops\s*:|lat \([num]?sec\)\s*:|submit\s*:|complete\s*:|latency\s*:|errors\s*:|"
    r"steadystate\s*:|states\s*:|block lifetime|Description\s*:|fsync/fdatasync/).*"
)

_OPS: Final = {"read": Op.READ, "write": Op.WRITE, "trim": Op.TRIM, "mixed": Op.TOTAL}
_PROGRESS = re.compile(
    r"\s*Jobs: \d+ \(f=.*|.*: Laying out IO file.*|\s*Disk stats \(read/write\):.*"
)
_SUMMARY = re.compile(r"\s*(?:READ|WRITE|TRIM|MIXED): .*")
_LONGEST_LINE = 4096
_MOST_NOISE = 1 << 16
_MOST_NOTES = 20


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


def _parse_header(match: re.Match[str], *, number: int) -> Header:
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


def _parse_latency(match: re.Match[str]) -> Latency:
    parts = _SECONDS[match["unit"]]
    least, most = parse_scaled(match["min"]), parse_scaled(match["max"])
    return Latency(
        min_s=None if least is None else least / parts,
        max_s=None if most is None else most / parts,
        mean_s=float(match["avg"]) / parts,
        stddev_s=float(match["stdev"]) / parts,
    )


def _parse_percentiles(line: str, unit: str) -> dict[float, float]:
    """Seconds by quantile; a value that is only bounded (`>=`) is left out."""
    found: dict[float, float] = {}
    for percent, text in _PERCENTILE.findall(line):
        value, q = parse_scaled(text), round(float(percent) / 100, 12)
        if value is not None and 0 < q < 1:
            found[q] = value / _SECONDS[unit]
    return found


def _parse_issued(match: re.Match[str]) -> Issued | None:
    parts = []
    for text in match.groups():
        numbers = [
            _ISSUED_PART.fullmatch(part) for part in re.split(r"[,/]", (text or "").rstrip(","))
        ]
        parts.append(tuple(int(number.group(1)) for number in numbers if number))
    return Issued(total=parts[0], short=parts[1], dropped=parts[2]) if parts[0] else None


def _parse_disk(match: re.Match[str]) -> DiskUse:
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


@dataclass(slots=True)
class Direction:
    op: Op
    iops: float | None
    bandwidth_bps: float | None
    io_bytes: float | None
    io_digits: int
    runtime_ms: int
    latencies: dict[str, Latency] = field(default_factory=dict)
    percentiles: dict[str, dict[float, float]] = field(default_factory=dict)


@dataclass(slots=True)
class Block:
    """A job's block while it is read."""

    line: int
    name: str
    group: int
    jobs: int
    error: int
    pid: str
    directions: list[Direction] = field(default_factory=list)
    at: Direction | None = None
    percentiles_of: str = ""
    percentile_unit: str = ""
    cpu: tuple[float, float] | None = None
    levels: dict[str, float] = field(default_factory=dict)
    issued: Issued | None = None
    notes: list[Note] = field(default_factory=list)

    def note(self, kind: NoteKind, number: int, fact: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(Note(kind, f"line {number}", fact))


@dataclass(slots=True)
class Execution:
    """One call of fio while it is read."""

    version: str = "fio"
    headers: dict[object, Header] = field(default_factory=dict)
    cloned: set[int] = field(default_factory=set)
    workers: int = 0
    blocks: dict[tuple[str, int, str], Block] = field(default_factory=dict)
    open: Block | None = None
    summed_up: bool = False
    disks: list[DiskUse] = field(default_factory=list)
    noise: list[str] = field(default_factory=list)
    held: int = 0
    notes: list[Note] = field(default_factory=list)
    last_line: int = 1

    def keep(self, text: str) -> None:
        """Keep a line as noise, up to a limit, which is higher for messages of fio (why the run
        ended)."""
        if self.held < _MOST_NOISE * (2 if "fio: " in text else 1):
            self.noise.append(text[:_LONGEST_LINE])
            self.held += len(self.noise[-1])


def executions(content: bytes) -> Iterator[Execution]:
    run = Execution()
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        # A progress line is overwritten: only the text behind the last carriage return counts.
        text = raw.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")
        if not text.strip():
            continue
        if len(text) > _LONGEST_LINE:
            run.keep(text)
            continue
        head, job = _HEADER.fullmatch(text), _JOB.fullmatch(text)
        if (head and (run.blocks or run.summed_up)) or (job and _another_run(run, job)):
            yield run
            run = Execution()
        run.last_line = number
        if head:
            one = _parse_header(head, number=len(run.headers))
            run.headers.setdefault((one.name, one.group, tuple(one.options.items())), one)
        elif job:
            _open_block(run, number, job)
        elif not _take(run, number, text):
            run.keep(text)
    yield run


def _identity(job: re.Match[str]) -> tuple[str, int, str]:
    return job["name"].strip(), int(job["group"]), job["pid"]


def _another_run(run: Execution, job: re.Match[str]) -> bool:
    """Test whether a job begins another execution: it follows the summary, and is new. Under
    --status-interval fio prints the same jobs again."""
    return run.summed_up and _identity(job) not in run.blocks


def _open_block(run: Execution, number: int, job: re.Match[str]) -> None:
    name, group, pid = _identity(job)
    block = Block(number, name, group, int(job["jobs"]), int(job["error"]), pid)
    earlier = run.blocks.pop((name, group, pid), None)
    if earlier:
        fact = f"the job is also in line {earlier.line}; the last one is used"
        block.note(NoteKind.LEFT_OUT, number, fact)
        run.summed_up = False
        run.disks.clear()
    run.blocks[name, group, pid] = run.open = block


def _take(run: Execution, number: int, text: str) -> bool:
    """Test whether a line is understood, as part of a block or of what surrounds blocks."""
    bare = text.strip()
    if bare == "...":
        run.cloned.add(len(run.headers) - 1)
    elif match := _STARTING.fullmatch(bare):
        run.workers += sum(int(count) for count in _WORKERS.findall(match.group(1)))
    elif match := _VERSION.fullmatch(bare):
        run.version = match.group(1).replace(" ", "-")
    elif bare.startswith("Run status group"):
        run.summed_up = True
    elif match := _DISK.fullmatch(text):
        run.disks.append(_parse_disk(match))
    elif run.open and not run.summed_up:
        return _take_in_block(run.open, number, text) or bool(_PROGRESS.fullmatch(text))
    else:
        return bool(_PROGRESS.fullmatch(text) or _SUMMARY.fullmatch(text))
    return True


def _take_in_block(block: Block, number: int, text: str) -> bool:
    if match := _NEW_DIRECTION.fullmatch(text) or _OLD_DIRECTION.fullmatch(text):
        _direction(block, number, match, old=match.re is _OLD_DIRECTION)
    elif match := _LATENCY.fullmatch(text):
        block.percentiles_of = ""
        if match["kind"] == "sync":
            block.at = None
            block.note(NoteKind.LEFT_OUT, number, "latencies of fsync and the like")
        elif block.at:
            block.at.latencies[match["kind"]] = _parse_latency(match)
    elif match := _PERCENTILES.fullmatch(text):
        block.percentiles_of, block.percentile_unit = match["kind"], match["unit"]
    elif _PERCENTILE_ROW.fullmatch(text):
        if block.at and block.percentiles_of:
            values = block.at.percentiles.setdefault(block.percentiles_of, {})
            values |= _parse_percentiles(text, block.percentile_unit)
    elif match := _CPU.fullmatch(text):
        block.cpu = float(match.group(1)) / 100, float(match.group(2)) / 100
    elif match := _DEPTHS.fullmatch(text):
        levels = _LEVEL.findall(match.group(1))
        block.levels = {level: float(share) / 100 for level, share in levels}
    elif match := _ISSUED.fullmatch(text):
        block.issued = _parse_issued(match)
    elif not _KNOWN.fullmatch(text):
        if not text[0].isspace():
            return False
        block.percentiles_of = ""
        block.note(NoteKind.UNKNOWN_FIELD, number, f"not understood: {text.strip()[:60]!r}")
    return True


def _direction(block: Block, number: int, match: re.Match[str], *, old: bool) -> None:
    op = _OPS[match["op"]]
    block.percentiles_of = ""
    if op is Op.TOTAL and block.directions:
        # unified_rw_reporting=both: the sum of the above (and 0 in fio 3.33).
        block.at = None
        block.note(NoteKind.LEFT_OUT, number, "the sum of reads and writes, which are read")
        return
    block.at = Direction(
        op=op,
        iops=parse_scaled(match["iops"]),
        bandwidth_bps=parse_size(match["bw"], old=old),
        io_bytes=parse_size(match["io"], old=old),
        io_digits=sum(character.isdigit() for character in match["io"]),
        runtime_ms=int(match["runtime"]),
    )
    if None in (block.at.iops, block.at.bandwidth_bps, block.at.io_bytes):
        block.note(
            NoteKind.UNKNOWN_FIELD, number, f"not understood: {match.group().strip()[:80]!r}"
        )
    if any(direction.op is op for direction in block.directions):
        block.note(NoteKind.REPEATED_FIELD, number, f"{op.value} a second time; the last is used")
        block.directions = [direction for direction in block.directions if direction.op is not op]
    block.directions.append(block.at)
