"""fio's normal output, written for people: fio 2 and fio 3, one or several executions in a file.

An execution is header lines (the jobs' main options), a block for each job or group of jobs, a
summary for each group, and the disks' use. What stands between belongs to nobody and is kept as
noise. Figures are rounded to four to six digits, but for IOPS, which are computed as fio does
(I/Os issued / runtime) where both are printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from leadline.formats import fio_text_lines as lines
from leadline.formats.fio_histogram_log import is_bound
from leadline.formats.fio_text_lines import Header, Issued
from leadline.formats.importer import Importer, Result
from leadline.formats.output import (
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

_MARK = re.compile(rb": \(groupid=\d+, jobs=\d+\): err=|: \(g=\d+\): rw=\w+, [^\n]*ioengine=")
_PROGRESS = re.compile(
    r"\s*Jobs: \d+ \(f=.*|.*: Laying out IO file.*|\s*Disk stats \(read/write\):.*"
)
_SUMMARY = re.compile(r"\s*(?:READ|WRITE|TRIM|MIXED): .*")
_LONGEST_LINE = 4096
_MOST_NOISE = 1 << 16
_MOST_NOTES = 20
# The sum over all clients, in client mode.
_ALL = "All clients"
# What a rounded figure may be off: half of the last of three digits, and a whole one cut off.
_ROUNDED = 0.006


@dataclass(slots=True)
class _Direction:
    op: Op
    iops: float | None
    bandwidth_bps: float | None
    io_bytes: float | None
    runtime_ms: int
    latencies: dict[str, Latency] = field(default_factory=dict)
    percentiles: dict[str, dict[float, float]] = field(default_factory=dict)


@dataclass(slots=True)
class _Block:
    """A job's block while it is read."""

    line: int
    name: str
    group: int
    jobs: int
    error: int
    pid: str
    directions: list[_Direction] = field(default_factory=list)
    at: _Direction | None = None
    percentiles_of: str = ""
    percentile_unit: str = ""
    cpu: tuple[float, float] | None = None
    levels: dict[str, float] = field(default_factory=dict)
    issued: Issued | None = None
    notes: list[Note] = field(default_factory=list)

    def tell(self, kind: NoteKind, number: int, fact: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(Note(kind=kind, where=f"line {number}", fact=fact))

    @property
    def identity(self) -> tuple[str, int, str]:
        return self.name, self.group, self.pid


@dataclass(slots=True)
class _Execution:
    """One call of fio while it is read."""

    version: str = "fio"
    headers: list[Header] = field(default_factory=list)
    cloned: set[int] = field(default_factory=set)
    workers: int = 0
    blocks: list[_Block] = field(default_factory=list)
    summed_up: bool = False
    disks: list[DiskUse] = field(default_factory=list)
    noise: list[str] = field(default_factory=list)
    held: int = 0
    notes: list[Note] = field(default_factory=list)
    last_line: int = 1

    def keep(self, text: str) -> None:
        """Noise, which may tell why a run ended; never more than somebody would read."""
        if self.held < _MOST_NOISE:
            self.noise.append(text[:_LONGEST_LINE])
            self.held += len(self.noise[-1])


def _recognises(name: str, head: bytes) -> bool:
    return b'"fio version"' not in head and bool(_MARK.search(head))


def _read(contents: Mapping[str, bytes]) -> tuple[Result, ...]:
    results: list[Result] = []
    for content in contents.values():
        if not content.strip():
            raise FormatError("empty-result", "the file is empty", context=("line 1",))
        found = [result for run in _executions(content) for result in _results(run)]
        if not found:
            raise FormatError(
                "unreadable-result", "the file holds no job of fio's", context=("line 1",)
            )
        results += found
    return tuple(results)


def _executions(content: bytes) -> Iterator[_Execution]:
    run = _Execution()
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
            run = _Execution()
        run.last_line = number
        if header:
            one = lines.header(header)
            if one not in run.headers:
                run.headers.append(one)
        elif job:
            _open_block(run, number, job)
        elif not _take(run, number, text):
            run.keep(text)
    yield run


def _identity(job: re.Match[str]) -> tuple[str, int, str]:
    return job["name"].strip(), int(job["group"]), job["pid"]


def _another_run(run: _Execution, job: re.Match[str]) -> bool:
    """A job behind the summary is another execution's, unless fio has told of it before: it does
    so again and again under --status-interval."""
    return run.summed_up and _identity(job) not in {block.identity for block in run.blocks}


def _open_block(run: _Execution, number: int, job: re.Match[str]) -> None:
    name, group, pid = _identity(job)
    block = _Block(number, name, group, int(job["jobs"]), int(job["error"]), pid)
    earlier = [one for one in run.blocks if one.identity == block.identity]
    if earlier and pid != "0":
        block.tell(
            NoteKind.REPEATED_FIELD,
            number,
            f"the job stands in line {earlier[0].line}, too: the last one counts",
        )
        run.blocks.remove(earlier[0])
        run.summed_up = False
        run.disks.clear()
    run.blocks.append(block)


def _take(run: _Execution, number: int, text: str) -> bool:
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
    elif run.blocks and not run.summed_up:
        return _take_in_block(run.blocks[-1], number, text) or bool(_PROGRESS.fullmatch(text))
    else:
        return bool(_PROGRESS.fullmatch(text) or _SUMMARY.fullmatch(text))
    return True


def _take_in_block(block: _Block, number: int, text: str) -> bool:
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


def _direction(block: _Block, number: int, match: re.Match[str], *, old: bool) -> None:
    op = lines.OPS[match["op"]]
    block.percentiles_of = ""
    if op is Op.TOTAL and block.directions:
        # unified_rw_reporting=both: the sum of what stands above (and 0 in fio 3.33).
        block.at = None
        block.tell(NoteKind.LEFT_OUT, number, "the sum of reads and writes beside them")
        return
    block.at = _Direction(
        op=op,
        iops=lines.scaled(match["iops"]),
        bandwidth_bps=lines.size(match["bw"], old=old),
        io_bytes=lines.size(match["io"], old=old),
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


def _results(run: _Execution) -> Iterator[Result]:
    groups: dict[tuple[int, str], list[_Block]] = {}
    for block in run.blocks:
        if block.name == _ALL:
            where = f"line {block.line}"
            run.notes.append(Note(kind=NoteKind.LEFT_OUT, where=where, fact="the sum of clients"))
        else:
            groups.setdefault((block.group, block.name), []).append(block)
    made: dict[tuple[int, str], list[JobResult]] = {}
    notes: dict[tuple[int, str], list[Note]] = {}
    for key, blocks in groups.items():
        if any(block.issued is None for block in blocks):
            continue
        notes[key] = [*run.notes, *(note for block in blocks for note in block.notes)]
        options = _options(run, blocks, notes[key])
        made[key] = [_job(block, options, run.version, notes[key]) for block in blocks]
    every = tuple(job for jobs in made.values() for job in jobs)
    for key, blocks in groups.items():
        if key not in made:
            yield Result(workload=key[1], output=_cut(run, blocks), tool="fio")
            continue
        yield Result(
            workload=key[1],
            output=_output(run, tuple(made[key]), notes[key]),
            tool="fio",
            together=_output(run, every, ()) if len(made) > 1 else None,
        )
    for header in _silent(run, set(groups)):
        yield Result(
            workload=header.name.strip(),
            output=FormatError(
                "empty-result" if run.summed_up else "truncated-result",
                "the job is named and has no figures"
                + ("" if run.summed_up else ": the output ends before them"),
                context=(f"line {run.last_line}",),
            ),
            tool="fio",
        )


def _output(run: _Execution, jobs: tuple[JobResult, ...], notes: Sequence[Note]) -> EngineOutput:
    return EngineOutput(
        version=run.version,
        noise="\n".join(run.noise),
        jobs=jobs,
        disks=tuple(run.disks),
        notes=tuple(notes),
    )


def _cut(run: _Execution, blocks: Sequence[_Block]) -> FormatError:
    cut = next(block for block in blocks if block.issued is None)
    return FormatError(
        "truncated-result",
        "the figures of the job are not whole: the line with the I/Os issued is missing",
        context=(f"the job begins in line {cut.line}, the text ends in line {run.last_line}",),
    )


def _silent(run: _Execution, told: set[tuple[int, str]]) -> list[Header]:
    """Jobs that a header names and no block tells of. Under group_reporting a block stands for
    all jobs of its group."""
    grouped = {block.group for block in run.blocks if block.jobs > 1}
    return [
        header
        for header in run.headers
        if (header.group, header.name.strip()) not in told and header.group not in grouped
    ]


def _options(run: _Execution, blocks: Sequence[_Block], notes: list[Note]) -> JobOptions:
    """What the header tells. Sections that fio reports as one keep only what they share."""
    group, name, jobs = blocks[0].group, blocks[0].name, blocks[0].jobs
    mine = [header for header in run.headers if header.group == group]
    told = {block.name for block in run.blocks if block.group == group}
    if {header.name.strip() for header in mine} <= told:
        mine = [header for header in mine if header.name.strip() == name]
    if not mine:
        return JobOptions(raw={}, whole=False)
    where = f"line {blocks[0].line}"
    if len(mine) > 1:
        fact = f"{len(mine)} sections are reported as one: only the options that they share count"
        notes.append(Note(kind=NoteKind.LEFT_OUT, where=where, fact=fact))
    if not all(header.block_size_told for header in mine):
        fact = "the block size, which is rounded or of a form not known"
        notes.append(Note(kind=NoteKind.LEFT_OUT, where=where, fact=fact))
    raw = dict(mine[0].options)
    for header in mine[1:]:
        raw = {key: value for key, value in raw.items() if header.options.get(key) == value}
    if len(mine) == 1:
        numjobs = _numjobs(run, mine[0], jobs)
        if numjobs:
            raw["numjobs"] = str(numjobs)
    if jobs > 1:
        raw["group_reporting"] = "1"
    return JobOptions(raw=raw, whole=False)


def _numjobs(run: _Execution, header: Header, jobs: int) -> int | None:
    """fio writes `...` behind the header of a job that it clones, and how many processes it starts
    in all: the clones' number is known if one job alone is cloned. Without that it is the number
    of jobs in a block that stands for the group's one section."""
    if run.headers.index(header) not in run.cloned:
        return 1
    if jobs > 1:
        return jobs
    alone = len(run.cloned) == 1 and run.workers >= len(run.headers)
    return run.workers - len(run.headers) + 1 if alone else None


def _job(block: _Block, options: JobOptions, version: str, notes: list[Note]) -> JobResult:
    return JobResult(
        name=block.name,
        group=block.group,
        error=block.error,
        options=options,
        job_runtime_s=max((one.runtime_ms for one in block.directions), default=0) / 1000,
        user_cpu=block.cpu[0] if block.cpu else None,
        system_cpu=block.cpu[1] if block.cpu else None,
        depth_levels=block.levels,
        operations=tuple(_operation(block, one, version, notes) for one in block.directions),
    )


def _operation(block: _Block, one: _Direction, version: str, notes: list[Note]) -> Operation:
    assert block.issued is not None
    total, short, dropped = (
        _of(counts, one.op)
        for counts in (block.issued.total, block.issued.short, block.issued.dropped)
    )
    iops = one.iops
    if total is not None and one.runtime_ms:
        exact = total * 1000 / one.runtime_ms
        if iops is None or abs(exact - iops) <= 1 + _ROUNDED * iops:
            iops = exact
        else:
            fact = f"{one.op.value} IOPS are {iops:g}, and {total} in {one.runtime_ms} ms {exact:g}"
            where = f"line {block.line}"
            notes.append(Note(kind=NoteKind.IMPOSSIBLE_VALUE, where=where, fact=fact))
    latencies: dict[str, Latency] = dict(one.latencies)
    for kind, told in one.percentiles.items():
        kept = {q: value for q, value in told.items() if not is_bound(value, version)}
        if len(kept) < len(told):
            q = min(set(told) - set(kept))
            fact = f"{one.op.value} {kind} percentiles from {q:.2%} on: fio counts no longer ones"
            notes.append(Note(kind=NoteKind.LEFT_OUT, where=f"line {block.line}", fact=fact))
        latencies[kind] = replace(latencies.get(kind, Latency()), percentiles=kept)
    return Operation(
        op=one.op,
        iops=iops,
        bandwidth_bps=one.bandwidth_bps,
        total_ios=total,
        io_bytes=None if one.io_bytes is None else round(one.io_bytes),
        runtime_s=one.runtime_ms / 1000,
        short_ios=short or 0,
        dropped_ios=dropped or 0,
        submission=latencies.get("slat"),
        completion=latencies.get("clat"),
        total=latencies.get("lat"),
    )


def _of(counts: tuple[int, ...], op: Op) -> int | None:
    if op is Op.TOTAL:
        return sum(counts[:3])
    place = (Op.READ, Op.WRITE, Op.TRIM).index(op)
    return counts[place] if place < len(counts) else None


IMPORTER = Importer(
    kind="fio-text",
    summary="fio's normal output for people, fio 2 and 3",
    recognises=_recognises,
    read=_read,
)
