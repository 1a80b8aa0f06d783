"""fio's terse output (`--output-format=terse`, `--minimal`), versions 2 to 5.

One line per job, fields between semicolons, laid out as `show_thread_status_terse_all` in fio's
stat.c: head, a block per direction, CPU, depths, latency classes, disks, errors, description.
KiB, KiB/s, milliseconds and microseconds in every version of fio. It has no options and no
number of I/Os.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from leadline.formats.fio.histogram_logs import is_bound
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

_START = re.compile(rb"(\d{1,3});(?:fio-|(?<=2;)[^;]*;\d+;\d+;\d+;)")
_PERCENTILE = re.compile(r"(\d{1,3}(?:\.\d{1,12})?)%=(\d{1,18})")
_NUMBER = re.compile(r"(\d{1,18}(?:\.\d{1,12})?)%?")
_WHOLE = re.compile(r"\d{1,18}")
_KIB = 1024
# Microseconds in a second.
_USEC = 1_000_000
_LEVELS = ("1", "2", "4", "8", "16", "32", ">=64")
_PERCENTILES = 20
_CLASSES = 22
_DISK = 9
# No line of fio's is longer: 20 disks and a description would be 4 KiB.
_LONGEST = 1 << 18
_MOST_NOISE = 1 << 16
# Directions by the number of blocks and whether version 3 leaves out trims. A fourth block (third
# in version 3) is the sum that `unified_rw_reporting=both` adds.
_BLOCKS: Final = {0: (), 1: (Op.TOTAL,), 2: (Op.READ, Op.WRITE), 3: (Op.READ, Op.WRITE, Op.TRIM)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    line: int
    version: str
    result: JobResult
    disks: tuple[DiskUse, ...]
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """One direction of a line."""

    kib: int | None
    kib_per_s: int | None
    iops: int | None
    runtime_ms: int | None
    submission: Latency | None
    completion: Latency | None
    total: Latency | None
    percentiles: Mapping[float, float]


_AddNote = Callable[[NoteKind, str], None]


class _Fields:
    """The fields of a line, taken one by one; a fault names the line and the field."""

    def __init__(self, line: int, fields: Sequence[str], *, last: bool) -> None:
        self.line, self._fields, self._next, self._last = line, fields, 0, last

    def error(self, what: str) -> FormatError:
        cut = self._last and self._next >= len(self._fields) - 1
        return FormatError.unreadable(
            "the terse output ends within a line" if cut else f"terse output: {what}",
            f"line {self.line}, field {self._next + 1}",
            cut=cut,
        )

    def peek(self, ahead: int = 0) -> str:
        position = self._next + ahead
        return self._fields[position] if position < len(self._fields) else ""

    def text(self) -> str:
        if self._next >= len(self._fields):
            raise self.error("the line ends too early")
        self._next += 1
        return self._fields[self._next - 1]

    def number(self) -> float | None:
        """None for what is written as a number and cannot be one (negative, nan, inf)."""
        found = self.text()
        match = _NUMBER.fullmatch(found)
        if match:
            return float(match.group(1))
        if found.rstrip("%").lower().lstrip("-") in ("nan", "inf") or _NUMBER.fullmatch(
            found.removeprefix("-")
        ):
            return None
        self._next -= 1
        raise self.error(f"{found[:40]!r} is no number")

    def count(self) -> int | None:
        value = self.number()
        return None if value is None else int(value)

    def rest(self) -> list[str]:
        return list(self._fields[self._next :])


def _recognises(name: str, head: bytes) -> bool:
    if b'"fio version"' in head or b"(groupid=" in head:
        return False
    return any(_START.match(line.strip()) for line in head.split(b"\n"))


def _results(content: bytes) -> list[Result]:
    jobs: list[_Job] = []
    noise: list[str] = []
    held = 0
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for number, raw in enumerate(lines, start=1):
        line = raw.rstrip(b"\r")
        if _START.match(line):
            jobs.append(_job(number, line, last=number == len(lines)))
        elif held < _MOST_NOISE and line.strip():
            noise.append(line[:_MOST_NOISE].decode("utf-8", "replace"))
            held += len(noise[-1])
    if not jobs:
        if not content.strip():
            raise FormatError.empty("the file is empty", "line 1")
        raise FormatError.unreadable("no line is of fio's terse output", "line 1")
    return _executions(jobs, "\n".join(noise))


def _executions(jobs: Sequence[_Job], noise: str) -> list[Result]:
    """A result for each job: lines that are processes of one job in one execution, together.

    Processes of a job have one line each without group_reporting; two runs in one file look the
    same. fio writes the disks' use of the whole execution into every line of it, so lines of one
    name and group are processes where that is the same; without it this is unknown.
    """
    runs: dict[object, list[_Job]] = {}
    alike = Counter(job.result.name for job in jobs if not job.disks)
    for job in jobs:
        runs.setdefault((job.version, job.disks) if job.disks else job.line, []).append(job)
    results: list[Result] = []
    for run in runs.values():
        groups: dict[tuple[str, int], list[_Job]] = {}
        for job in run:
            groups.setdefault((job.result.name, job.result.group), []).append(job)
        together = _output(run, noise, ()) if len(groups) > 1 else None
        for group in groups.values():
            notes = [note for job in group for note in job.notes]
            count = alike[group[0].result.name]
            if not group[0].disks and count > 1:
                fact = f"whether the {count:,} lines of this name are processes of one job or "
                fact += "runs one after the other; each is a result"
                where = f"line {group[0].line}"
                notes.append(Note(NoteKind.LEFT_OUT, where, fact))
            results.append(
                Result(
                    workload=group[0].result.name,
                    output=_output(group, noise, notes),
                    tool="fio",
                    together=together,
                )
            )
    return results


def _output(jobs: Sequence[_Job], noise: str, notes: Sequence[Note]) -> EngineOutput:
    return EngineOutput(
        version=jobs[0].version,
        noise=noise,
        jobs=tuple(job.result for job in jobs),
        disks=jobs[0].disks,
        notes=tuple(notes),
    )


def _job(number: int, raw: bytes, *, last: bool) -> _Job:
    if len(raw) > _LONGEST:
        raise FormatError.unreadable(
            "a line is too long for fio's terse output", f"line {number}: {len(raw):,} bytes"
        )
    fields = _Fields(number, raw.decode("utf-8", "replace").split(";"), last=last)
    notes: list[Note] = []

    def note(kind: NoteKind, fact: str) -> None:
        notes.append(Note(kind, f"line {number}", fact))

    terse = fields.text()
    if terse not in ("2", "3", "4", "5"):
        raise FormatError.unreadable(
            f"terse output of version {terse} is not known (2 to 5 are)", f"line {number}, field 1"
        )
    version = fields.text() if terse != "2" else "fio"
    name, group, error = fields.text(), fields.count(), fields.count()
    blocks: list[_Block] = []
    while not fields.peek().endswith("%"):
        if len(blocks) == 4:
            raise fields.error("more directions than there are")
        blocks.append(_block(fields, terse, note))
    known = _BLOCKS[min(len(blocks), 2 if terse == "3" else 3)]
    if len(blocks) > len(known):
        note(NoteKind.LEFT_OUT, "the sum of reads and writes, which fio writes in addition")
    user, system = fields.number(), fields.number()
    for _ in ("context switches", "major faults", "minor faults"):
        fields.number()
    levels = {level: fields.number() for level in _LEVELS}
    for _ in range(_CLASSES):
        fields.number()
    disks, rest = _disks(fields.rest())
    first_error = 0
    # Under continue_on_error: how many errors there were, and the number of the first.
    counted = len(rest) >= 2 and all(map(_WHOLE.fullmatch, rest[:2]))
    if counted and int(rest[0]):
        first_error = int(rest[1])
        note(NoteKind.LEFT_OUT, f"{int(rest[0]):,} errors, which the job went on from")
    operations = tuple(
        operation
        for op, block in zip(known, blocks, strict=False)
        if (operation := _operation(op, block, version, note))
    )
    return _Job(
        line=number,
        version=version,
        result=JobResult(
            name=name,
            group=group or 0,
            error=error or first_error,
            options=JobOptions(raw={}, whole=False),
            job_runtime_s=max((entry.runtime_s or 0.0 for entry in operations), default=0.0),
            user_cpu=_over(user, 100),
            system_cpu=_over(system, 100),
            depth_levels={
                level: share / 100 for level, share in levels.items() if share is not None
            }
            if operations
            else {},
            operations=operations,
        ),
        disks=disks,
        notes=tuple(notes),
    )


def _block(fields: _Fields, terse: str, note: _AddNote) -> _Block:
    kib, kib_per_s = fields.count(), fields.count()
    iops, runtime_ms = fields.count(), fields.count()
    submission, completion = _latency(fields, note), _latency(fields, note)
    percentiles: dict[float, float] = {}
    # The first releases wrote version 2 without percentiles.
    for _ in range(_PERCENTILES if terse != "2" or "%=" in fields.peek() else 0):
        match = _PERCENTILE.fullmatch(fields.peek())
        if match is None:
            raise fields.error(f"{fields.peek()[:40]!r} is no percentile")
        fields.text()
        # Unused places are 0%=0; a percentile of 0 is shorter than the microsecond it is cut to.
        q, usec = round(float(match.group(1)) / 100, 12), int(match.group(2))
        if 0 < q < 1 and usec:
            percentiles[q] = usec / _USEC
    total = _latency(fields, note)
    # Samples of the bandwidth, and from version 5 on of IOPS: not the figures of the whole job.
    for _ in range(11 if terse == "5" else 5):
        fields.number()
    return _Block(
        kib=kib,
        kib_per_s=kib_per_s,
        iops=iops,
        runtime_ms=runtime_ms,
        submission=submission,
        completion=completion,
        total=total,
        percentiles=percentiles,
    )


def _latency(fields: _Fields, note: _AddNote) -> Latency | None:
    """None where fio did not measure (gtod_reduce, disable_lat): it then writes zeros."""
    least, most, mean, stddev = (fields.number() for _ in range(4))
    if not mean and not most:
        if mean is None or most is None:
            note(NoteKind.IMPOSSIBLE_VALUE, "a latency is no number that can be")
        return None
    if most is not None and mean is not None and most <= mean < most + 1:
        # The largest is cut to whole microseconds, the mean is not.
        most = None
    return Latency(
        min_s=_over(least, _USEC),
        max_s=_over(most, _USEC),
        mean_s=_over(mean, _USEC),
        stddev_s=_over(stddev, _USEC),
    )


def _over(value: float | None, parts: int) -> float | None:
    return None if value is None else value / parts


def _operation(op: Op, block: _Block, version: str, note: _AddNote) -> Operation | None:
    if not block.kib and not block.iops and not block.completion:
        if block.kib is None or block.iops is None:
            note(NoteKind.IMPOSSIBLE_VALUE, f"the {op.value} figures cannot be")
        return None
    if None in (block.kib, block.kib_per_s, block.iops, block.runtime_ms):
        note(NoteKind.IMPOSSIBLE_VALUE, f"one of the {op.value} figures cannot be")
    # fio cuts IOPS to whole numbers and does not print the number of I/Os.
    iops = float(block.iops) if block.iops else None
    if block.iops is not None and block.iops < 100:
        note(NoteKind.LEFT_OUT, f"{op.value} IOPS are cut to whole ones: {block.iops} and a part")
    kept = {q: value for q, value in block.percentiles.items() if not is_bound(value, version)}
    if len(kept) < len(block.percentiles):
        q = min(set(block.percentiles) - set(kept))
        note(NoteKind.LEFT_OUT, f"{op.value} percentiles from {q:.2%} on: above fio's last bucket")
    completion = block.completion
    if completion or kept:
        # Of total latency under lat_percentiles=1, which is not printed, and rare.
        completion = replace(completion or Latency(), percentiles=kept)
    return Operation(
        op=op,
        iops=iops,
        bandwidth_bps=_bandwidth(op, block, note),
        io_bytes=block.kib * _KIB if block.kib else None,
        runtime_s=_over(block.runtime_ms, 1000),
        submission=block.submission,
        completion=completion,
        total=block.total,
    )


def _bandwidth(op: Op, block: _Block, note: _AddNote) -> float | None:
    """Bytes by runtime, fio's own definition: what is printed is that, cut to whole KiB/s."""
    if not block.kib or not block.runtime_ms or block.kib_per_s is None:
        return None if not block.kib_per_s else float(block.kib_per_s * _KIB)
    exact = block.kib * 1000 / block.runtime_ms
    if not block.kib_per_s - 1 <= exact <= block.kib_per_s + 1:
        note(
            NoteKind.IMPOSSIBLE_VALUE,
            f"{op.value} bandwidth is {block.kib_per_s} KiB/s, and {block.kib} KiB in "
            f"{block.runtime_ms} ms are {exact:.0f}",
        )
        return float(block.kib_per_s * _KIB)
    return exact * _KIB


def _disks(rest: list[str]) -> tuple[tuple[DiskUse, ...], list[str]]:
    """Parse the disk utilisation at the end of a line; return the rest behind it."""
    disks: list[DiskUse] = []
    start = 0
    while len(rest) - start >= _DISK:
        name, *counts, busy = rest[start : start + _DISK]
        share = _NUMBER.fullmatch(busy)
        if not share or not busy.endswith("%") or not all(map(_WHOLE.fullmatch, counts)):
            break
        start += _DISK
        # A volume's members follow it as their mean, under this word.
        if name != "slaves":
            read_ios, write_ios, read_merges, write_merges = map(int, counts[:4])
            disks.append(
                DiskUse(
                    name=name,
                    read_ios=read_ios,
                    write_ios=write_ios,
                    read_merges=read_merges,
                    write_merges=write_merges,
                    busy_share=float(share.group(1)) / 100,
                )
            )
    return tuple(disks), rest[start:]


IMPORTER = Importer(
    kind="fio-terse",
    summary="fio's terse output, versions 2 to 5 (--output-format=terse, --minimal)",
    recognises=_recognises,
    read=each_file(_results),
)
