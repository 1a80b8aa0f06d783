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
from dataclasses import dataclass, replace

from leadline.formats.fio.histogram_logs import is_bound
from leadline.formats.fio.text_lines import Block, Direction, Execution, Header, executions
from leadline.formats.importer import Importer, Result, each_file
from leadline.formats.result import (
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
                    [header for found in jobs.values() for header in found]
                )
                for group, jobs in headers.items()
                if group in grouped and not jobs.keys() <= names[group]
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
