"""fio's normal output for people: fio 2 and fio 3, one or several executions in a file.

An execution is header lines (the main options of the jobs), a block for each job or group of jobs,
a summary for each group, and the disk utilisation. All other text is kept as noise.

Numbers are rounded to three to six digits. Exact values are used where they are printed and agree:
IOPS = I/Os issued / runtime, bytes = I/Os of one size, bandwidth = bytes / runtime, as in
fio itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from leadline.formats.fio.histogram_logs import is_bound
from leadline.formats.fio.text_lines import (
    CPU,
    DEPTHS,
    DISK,
    HEADER,
    ISSUED,
    JOB,
    KNOWN,
    LATENCY,
    LEVEL,
    NEW_DIRECTION,
    OLD_DIRECTION,
    OPS,
    PERCENTILE_ROW,
    PERCENTILES,
    STARTING,
    VERSION,
    WORKERS,
    Header,
    Issued,
    parse_disk,
    parse_header,
    parse_issued,
    parse_latency,
    parse_percentiles,
    parse_scaled,
    parse_size,
)
from leadline.formats.importer import Importer, Result, each_file
from leadline.formats.result import (
    DiskUse,
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Latency,
    Note,
    NoteKind,
    Operation,
)
from leadline.metrics import Op

# fio's normal output, line by line: executions, and the blocks of figures of their jobs.

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
        head, job = HEADER.fullmatch(text), JOB.fullmatch(text)
        if (head and (run.blocks or run.summed_up)) or (job and _another_run(run, job)):
            yield run
            run = Execution()
        run.last_line = number
        if head:
            one = parse_header(head, number=len(run.headers))
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
    elif match := STARTING.fullmatch(bare):
        run.workers += sum(int(count) for count in WORKERS.findall(match.group(1)))
    elif match := VERSION.fullmatch(bare):
        run.version = match.group(1).replace(" ", "-")
    elif bare.startswith("Run status group"):
        run.summed_up = True
    elif match := DISK.fullmatch(text):
        run.disks.append(parse_disk(match))
    elif run.open and not run.summed_up:
        return _take_in_block(run.open, number, text) or bool(_PROGRESS.fullmatch(text))
    else:
        return bool(_PROGRESS.fullmatch(text) or _SUMMARY.fullmatch(text))
    return True


def _take_in_block(block: Block, number: int, text: str) -> bool:
    if match := NEW_DIRECTION.fullmatch(text) or OLD_DIRECTION.fullmatch(text):
        _direction(block, number, match, old=match.re is OLD_DIRECTION)
    elif match := LATENCY.fullmatch(text):
        block.percentiles_of = ""
        if match["kind"] == "sync":
            block.at = None
            block.note(NoteKind.LEFT_OUT, number, "latencies of fsync and the like")
        elif block.at:
            block.at.latencies[match["kind"]] = parse_latency(match)
    elif match := PERCENTILES.fullmatch(text):
        block.percentiles_of, block.percentile_unit = match["kind"], match["unit"]
    elif PERCENTILE_ROW.fullmatch(text):
        if block.at and block.percentiles_of:
            values = block.at.percentiles.setdefault(block.percentiles_of, {})
            values |= parse_percentiles(text, block.percentile_unit)
    elif match := CPU.fullmatch(text):
        block.cpu = float(match.group(1)) / 100, float(match.group(2)) / 100
    elif match := DEPTHS.fullmatch(text):
        levels = LEVEL.findall(match.group(1))
        block.levels = {level: float(share) / 100 for level, share in levels}
    elif match := ISSUED.fullmatch(text):
        block.issued = parse_issued(match)
    elif not KNOWN.fullmatch(text):
        if not text[0].isspace():
            return False
        block.percentiles_of = ""
        block.note(NoteKind.UNKNOWN_FIELD, number, f"not understood: {text.strip()[:60]!r}")
    return True


def _direction(block: Block, number: int, match: re.Match[str], *, old: bool) -> None:
    op = OPS[match["op"]]
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


_MARK = re.compile(rb": \(groupid=\d+, jobs=\d+\): err=|: \(g=\d+\): rw=\w+, [^\n]*ioengine=")
# The sum over all clients, in client mode.
_ALL = "All clients"
# What a rounded figure may be off: half of the last of three digits, and a whole one cut off.
_ROUNDED = 0.006
_EXACT_DIGITS = 4
# The position of each direction in lists of three.
_PLACES = {Op.READ: 0, Op.WRITE: 1, Op.TRIM: 2}


def _recognises(name: str, head: bytes) -> bool:
    return b'"fio version"' not in head and bool(_MARK.search(head))


def _read(content: bytes) -> list[Result]:
    if not content.strip():
        raise FormatError.empty("the file is empty", "line 1")
    found = [result for run in executions(content) for result in _results(run)]
    if not found:
        raise FormatError.unreadable("the file holds no job of fio's", "line 1")
    return found


def _results(run: Execution) -> Iterator[Result]:
    groups: dict[tuple[int, str], list[Block]] = {}
    for block in run.blocks.values():
        if block.name == _ALL:
            where = f"line {block.line}"
            run.notes.append(Note(NoteKind.LEFT_OUT, where, "the sum of clients"))
        else:
            groups.setdefault((block.group, block.name), []).append(block)
    headers = _Headers.from_run(run)
    made: dict[tuple[int, str], tuple[JobResult, ...]] = {}
    notes: dict[tuple[int, str], list[Note]] = {}
    for key, blocks in groups.items():
        if any(block.issued is None for block in blocks):
            continue
        notes[key] = [*run.notes, *(note for block in blocks for note in block.notes)]
        options = headers.options(blocks, notes[key])
        made[key] = tuple(_job(block, options, run.version, notes[key]) for block in blocks)
    every = tuple(job for jobs in made.values() for job in jobs)
    together = _output(run, every, ()) if len(made) > 1 else None
    for key, blocks in groups.items():
        whole = key in made
        yield Result(
            workload=key[1],
            output=_output(run, made[key], notes[key]) if whole else _cut(run, blocks),
            tool="fio",
            together=together if whole else None,
        )
    for header in headers.silent():
        yield Result(
            workload=header.name,
            output=FormatError(
                "empty-result" if run.summed_up else "truncated-result",
                "the job is named and has no figures"
                + ("" if run.summed_up else ": the output ends before them"),
                context=(f"line {run.last_line}",),
            ),
            tool="fio",
        )


def _output(run: Execution, jobs: tuple[JobResult, ...], notes: Sequence[Note]) -> EngineOutput:
    return EngineOutput(
        version=run.version,
        noise="\n".join(run.noise),
        jobs=jobs,
        disks=tuple(run.disks),
        notes=tuple(notes),
    )


def _cut(run: Execution, blocks: Sequence[Block]) -> FormatError:
    cut = next(block for block in blocks if block.issued is None)
    return FormatError.truncated(
        "the figures of the job are not whole: the line with the I/Os issued is missing",
        f"the job begins in line {cut.line}, the text ends in line {run.last_line}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """What `count` headers share; `number` is the header's if it is one."""

    options: Mapping[str, str]
    count: int
    number: int | None
    has_block_size: bool

    @classmethod
    def from_headers(cls, headers: Sequence[Header]) -> _Section:
        every = [header.options.items() for header in headers]
        return cls(
            options=dict(pair for pair in every[0] if all(pair in one for one in every))
            if every
            else {},
            count=len(headers),
            number=headers[0].number if len(headers) == 1 else None,
            has_block_size=all(header.has_block_size for header in headers),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Headers:
    """The headers of an execution, by group and name. `merged`: groups in which one block reports
    several sections, as group_reporting does for sections without a stonewall between them."""

    run: Execution
    headers: Mapping[int, Mapping[str, Sequence[Header]]]
    names: Mapping[int, frozenset[str]]
    merged: Mapping[int, _Section]

    @classmethod
    def from_run(cls, run: Execution) -> _Headers:
        headers: dict[int, dict[str, list[Header]]] = {}
        for header in run.headers.values():
            headers.setdefault(header.group, {}).setdefault(header.name, []).append(header)
        names: dict[int, set[str]] = {}
        for block in run.blocks.values():
            names.setdefault(block.group, set()).add(block.name)
        grouped = {block.group for block in run.blocks.values() if block.jobs > 1}
        return cls(
            run=run,
            headers=headers,
            names={group: frozenset(found) for group, found in names.items()},
            merged={
                group: _Section.from_headers(
                    [header for found in headers[group].values() for header in found]
                )
                for group in grouped & headers.keys()
                if not headers[group].keys() <= names[group]
            },
        )

    def silent(self) -> Iterator[Header]:
        """Yield the headers of jobs without a block."""
        for group, found in self.headers.items():
            reported = self.names.get(group, frozenset())
            for name, headers in found.items():
                if group not in self.merged and name not in reported:
                    yield from headers

    def options(self, blocks: Sequence[Block], notes: list[Note]) -> JobOptions:
        """Make the options of a job from its header. Sections that fio reports as one keep only
        shared options."""
        group, name, jobs = blocks[0].group, blocks[0].name, blocks[0].jobs
        section = self.merged.get(group)
        if section is None:
            section = _Section.from_headers(self.headers.get(group, {}).get(name, ()))
        where = f"line {blocks[0].line}"
        if section.count > 1:
            fact = f"{section.count} sections are reported as one: only shared options count"
            notes.append(Note(NoteKind.LEFT_OUT, where, fact))
        if not section.has_block_size:
            fact = "the block size, which is rounded or of a form not known"
            notes.append(Note(NoteKind.LEFT_OUT, where, fact))
        raw = dict(section.options)
        numjobs = self._numjobs(section.number, jobs)
        if numjobs:
            raw["numjobs"] = str(numjobs)
        if jobs > 1:
            # A block reports several jobs only with it.
            raw["group_reporting"] = "1"
        return JobOptions(raw=raw, whole=False)

    def _numjobs(self, header: int | None, jobs: int) -> int | None:
        """fio writes `...` behind the header of a job that it clones, and how many processes it
        starts in all: the clones' number is known if one job alone is cloned. Without that it is
        the number of jobs in a block of the group's only section."""
        if header is None:
            return None
        if header not in self.run.cloned:
            return 1
        if jobs > 1:
            return jobs
        others = len(self.run.headers) - 1
        alone = len(self.run.cloned) == 1 and self.run.workers > others
        return self.run.workers - others if alone else None


def _job(block: Block, options: JobOptions, version: str, notes: list[Note]) -> JobResult:
    return JobResult(
        name=block.name,
        group=block.group,
        error=block.error,
        options=options,
        job_runtime_s=max((direction.runtime_ms for direction in block.directions), default=0)
        / 1000,
        user_cpu=block.cpu[0] if block.cpu else None,
        system_cpu=block.cpu[1] if block.cpu else None,
        depth_levels=block.levels,
        operations=tuple(
            _operation(block, direction, options, version, notes) for direction in block.directions
        ),
    )


def _operation(
    block: Block, direction: Direction, options: JobOptions, version: str, notes: list[Note]
) -> Operation:
    assert block.issued is not None
    total, short, dropped = (
        _direction_count(counts, direction.op)
        for counts in (block.issued.total, block.issued.short, block.issued.dropped)
    )
    iops = direction.iops
    if total is not None and direction.runtime_ms:
        exact = total * 1000 / direction.runtime_ms
        if _agree(exact, iops):
            iops = exact
        else:
            fact = (
                f"{direction.op.value} IOPS are {iops:g}, and {total} in "
                f"{direction.runtime_ms} ms {exact:g}"
            )
            where = f"line {block.line}"
            notes.append(Note(NoteKind.IMPOSSIBLE_VALUE, where, fact))
    io_bytes = _io_bytes(direction, total, options)
    bandwidth_bps = direction.bandwidth_bps
    if io_bytes is not None and direction.runtime_ms:
        exact = io_bytes * 1000 / direction.runtime_ms
        bandwidth_bps = exact if _agree(exact, bandwidth_bps) else bandwidth_bps
    latencies: dict[str, Latency] = dict(direction.latencies)
    for kind, values in direction.percentiles.items():
        kept = {q: value for q, value in values.items() if not is_bound(value, version)}
        if len(kept) < len(values):
            q = min(set(values) - set(kept))
            fact = (
                f"{direction.op.value} {kind} percentiles from {q:.2%} on: above fio's last bucket"
            )
            notes.append(Note(NoteKind.LEFT_OUT, f"line {block.line}", fact))
        latencies[kind] = replace(latencies.get(kind, Latency()), percentiles=kept)
    return Operation(
        op=direction.op,
        iops=iops,
        bandwidth_bps=bandwidth_bps,
        total_ios=total,
        io_bytes=io_bytes,
        runtime_s=direction.runtime_ms / 1000,
        short_ios=short or 0,
        dropped_ios=dropped or 0,
        submission=latencies.get("slat"),
        completion=latencies.get("clat"),
        total=latencies.get("lat"),
    )


def _agree(exact: float, printed: float | None) -> bool:
    return printed is None or abs(exact - printed) <= 1 + _ROUNDED * printed


def _io_bytes(direction: Direction, total: int | None, options: JobOptions) -> int | None:
    """Exact where all I/Os have one size; as printed where rounding does not matter (1.00GiB is
    off by up to 0.5 %)."""
    sizes = options.text("bs").split(",")
    place = 0 if len(sizes) == 1 else _PLACES.get(direction.op, len(sizes))
    if total is not None and place < len(sizes) and sizes[place].isdigit():
        exact = total * int(sizes[place])
        if _agree(exact, direction.io_bytes):
            return exact
    return (
        None
        if direction.io_bytes is None or direction.io_digits < _EXACT_DIGITS
        else round(direction.io_bytes)
    )


def _direction_count(counts: tuple[int, ...], op: Op) -> int | None:
    if op is Op.TOTAL:
        return sum(counts[:3])
    place = _PLACES[op]
    return counts[place] if place < len(counts) else None


IMPORTER = Importer(
    kind="fio-text",
    summary="fio's normal output for people, fio 2 and 3",
    recognises=_recognises,
    read=each_file(_read),
)
