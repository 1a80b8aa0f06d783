"""fio's normal output, line by line: executions, and the blocks of figures of their jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from leadline.formats import fio_text_lines as lines
from leadline.formats.fio_text_lines import Header, Issued
from leadline.formats.output import DiskUse, Latency, Note, NoteKind
from leadline.metrics import Op

_PROGRESS = re.compile(
    r"\s*Jobs: \d+ \(f=.*|.*: Laying out IO file.*|\s*Disk stats \(read/write\):.*"
)
_SUMMARY = re.compile(r"\s*(?:READ|WRITE|TRIM|MIXED): .*")
_LONGEST_LINE = 4096
_MOST_NOISE = 1 << 16
_MOST_NOTES = 20


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

    def tell(self, kind: NoteKind, number: int, fact: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(Note(kind=kind, where=f"line {number}", fact=fact))


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
        """Noise, never more than somebody would read; what fio says of itself (why the run ended)
        finds room behind that of others."""
        if self.held < _MOST_NOISE * (2 if "fio: " in text else 1):
            self.noise.append(text[:_LONGEST_LINE])
            self.held += len(self.noise[-1])


def executions(content: bytes) -> Iterator[Execution]:
    run = Execution()
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        # A progress line is overwritten: what counts stands behind the last carriage return.
        text = raw.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")
        if not text.strip():
            continue
        if len(text) > _LONGEST_LINE:
            run.keep(text)
            continue
        header, job = lines.HEADER.fullmatch(text), lines.JOB.fullmatch(text)
        if (header and (run.blocks or run.summed_up)) or (job and _another_run(run, job)):
            yield run
            run = Execution()
        run.last_line = number
        if header:
            one = lines.header(header, number=len(run.headers))
            run.headers.setdefault((one.name, one.group, tuple(one.options.items())), one)
        elif job:
            _open_block(run, number, job)
        elif not _take(run, number, text):
            run.keep(text)
    yield run


def _identity(job: re.Match[str]) -> tuple[str, int, str]:
    return job["name"].strip(), int(job["group"]), job["pid"]


def _another_run(run: Execution, job: re.Match[str]) -> bool:
    """A job behind the summary is another execution's, unless fio has told of it before: it does
    so again and again under --status-interval."""
    return run.summed_up and _identity(job) not in run.blocks


def _open_block(run: Execution, number: int, job: re.Match[str]) -> None:
    name, group, pid = _identity(job)
    block = Block(number, name, group, int(job["jobs"]), int(job["error"]), pid)
    earlier = run.blocks.pop((name, group, pid), None)
    if earlier:
        fact = f"the job stands in line {earlier.line}, too: the last one counts"
        block.tell(NoteKind.LEFT_OUT, number, fact)
        run.summed_up = False
        run.disks.clear()
    run.blocks[name, group, pid] = run.open = block


def _take(run: Execution, number: int, text: str) -> bool:
    """Whether a line is understood, as part of a block or of what surrounds blocks."""
    bare = text.strip()
    if bare == "...":
        run.cloned.add(len(run.headers) - 1)
    elif match := lines.STARTING.fullmatch(bare):
        run.workers += sum(int(count) for count in lines.WORKERS.findall(match.group(1)))
    elif match := lines.VERSION.fullmatch(bare):
        run.version = match.group(1).replace(" ", "-")
    elif bare.startswith("Run status group"):
        run.summed_up = True
    elif match := lines.DISK.fullmatch(text):
        run.disks.append(lines.disk(match))
    elif run.open and not run.summed_up:
        return _take_in_block(run.open, number, text) or bool(_PROGRESS.fullmatch(text))
    else:
        return bool(_PROGRESS.fullmatch(text) or _SUMMARY.fullmatch(text))
    return True


def _take_in_block(block: Block, number: int, text: str) -> bool:
    if match := lines.NEW_DIRECTION.fullmatch(text) or lines.OLD_DIRECTION.fullmatch(text):
        _direction(block, number, match, old=match.re is lines.OLD_DIRECTION)
    elif match := lines.LATENCY.fullmatch(text):
        block.percentiles_of = ""
        if match["kind"] == "sync":
            block.at = None
            block.tell(NoteKind.LEFT_OUT, number, "latencies of fsync and the like")
        elif block.at:
            block.at.latencies[match["kind"]] = lines.latency(match)
    elif match := lines.PERCENTILES.fullmatch(text):
        block.percentiles_of, block.percentile_unit = match["kind"], match["unit"]
    elif lines.PERCENTILE_ROW.fullmatch(text):
        if block.at and block.percentiles_of:
            told = block.at.percentiles.setdefault(block.percentiles_of, {})
            told |= lines.percentiles(text, block.percentile_unit)
    elif match := lines.CPU.fullmatch(text):
        block.cpu = float(match.group(1)) / 100, float(match.group(2)) / 100
    elif match := lines.DEPTHS.fullmatch(text):
        levels = lines.LEVEL.findall(match.group(1))
        block.levels = {level: float(share) / 100 for level, share in levels}
    elif match := lines.ISSUED.fullmatch(text):
        block.issued = lines.issued(match)
    elif not lines.KNOWN.fullmatch(text):
        if not text[0].isspace():
            return False
        block.percentiles_of = ""
        block.tell(NoteKind.UNKNOWN_FIELD, number, f"not understood: {text.strip()[:60]!r}")
    return True


def _direction(block: Block, number: int, match: re.Match[str], *, old: bool) -> None:
    op = lines.OPS[match["op"]]
    block.percentiles_of = ""
    if op is Op.TOTAL and block.directions:
        # unified_rw_reporting=both: the sum of what stands above (and 0 in fio 3.33).
        block.at = None
        block.tell(NoteKind.LEFT_OUT, number, "the sum of reads and writes beside them")
        return
    block.at = Direction(
        op=op,
        iops=lines.scaled(match["iops"]),
        bandwidth_bps=lines.size(match["bw"], old=old),
        io_bytes=lines.size(match["io"], old=old),
        io_digits=sum(character.isdigit() for character in match["io"]),
        runtime_ms=int(match["runtime"]),
    )
    if None in (block.at.iops, block.at.bandwidth_bps, block.at.io_bytes):
        block.tell(
            NoteKind.UNKNOWN_FIELD, number, f"not understood: {match.group().strip()[:80]!r}"
        )
    if any(one.op is op for one in block.directions):
        block.tell(NoteKind.REPEATED_FIELD, number, f"{op.value} a second time: the last counts")
        block.directions = [one for one in block.directions if one.op is not op]
    block.directions.append(block.at)
