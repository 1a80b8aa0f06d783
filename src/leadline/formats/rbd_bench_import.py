"""Importer of `rbd bench` (before Kraken `rbd bench-write`): text, one or several in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from leadline.formats.importer import Importer, Result
from leadline.formats.output import EngineOutput, FormatError, Note, NoteKind
from leadline.formats.rbd_bench import (
    TOOL,
    is_header,
    is_summary,
    parse_bench,
    rbd_bench_output,
    rbd_bench_windows,
)

_BEGINS = re.compile(rb"^[ \t]*bench(?: {1,4}type |-write {1,4}io_size )", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The lines of one invocation: the first one's number, the noise before, what is behind."""

    first_line: int
    noise: str
    lines: Sequence[str]
    behind: tuple[int, ...]


def _recognises(_name: str, head: bytes) -> bool:
    return _BEGINS.search(head) is not None


def _read(files: Mapping[str, bytes]) -> tuple[Result, ...]:
    return tuple(result for content in files.values() for result in read_results(content))


def read_results(content: bytes) -> tuple[Result, ...]:
    """What a file holds, one result for each invocation of the tool. Raises FormatError."""
    text = content.decode("utf-8-sig", "replace")
    if not text.strip():
        error = FormatError("empty-result", f"the file is empty ({len(content)} bytes)")
        return (Result(workload="", output=error, tool=TOOL),)
    parts = _parts(text.splitlines(keepends=True))
    if not parts:
        first = text.strip().splitlines()[0][:160]
        raise FormatError(
            "unreadable-result",
            f"there is no output of {TOOL} in it",
            context=(f"line 1 says: {first!r}",),
        )
    return tuple(_result(part) for part in parts)


def _parts(lines: Sequence[str]) -> list[_Part]:
    starts = [number for number, line in enumerate(lines) if is_header(line)]
    parts: list[_Part] = []
    if not starts:
        return parts
    end = 0
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        noise = "".join(lines[end:start]).strip()
        summaries = [number for number in range(start, stop) if is_summary(lines[number])]
        # What stands between two invocations is told before the second.
        end = summaries[-1] + 1 if summaries else stop
        behind = tuple(number for number in range(end, stop) if lines[number].strip())
        last = stop == len(lines)
        parts.append(
            _Part(
                first_line=start + 1,
                noise=noise,
                lines=lines[start:end],
                behind=behind if last else (),
            )
        )
    return parts


def _result(part: _Part) -> Result:
    content = "".join(part.lines).encode()
    try:
        bench = parse_bench(content, first_line=part.first_line)
    except FormatError as error:
        if error.condition == "truncated-result":
            return Result(workload="", output=error, tool=TOOL)
        raise
    output = rbd_bench_output(bench)
    (job,) = output.jobs
    options = replace(job.options, whole=False)
    notes: list[Note] = []
    if part.behind:
        number = len(part.behind)
        fact = f"{number} line{'s are' if number > 1 else ' is'} not {TOOL}'s"
        where = f"line {part.behind[0] + 1}"
        notes.append(Note(kind=NoteKind.LEFT_OUT, where=where, fact=fact))
    return Result(
        workload="",
        output=EngineOutput(
            version=TOOL,
            noise=part.noise,
            jobs=(replace(job, options=options),),
            notes=tuple(notes),
        ),
        tool=TOOL,
        windows=rbd_bench_windows(bench),
    )


IMPORTER = Importer(
    kind="rbd-bench",
    summary="text output of `rbd bench` and `rbd bench-write`",
    recognises=_recognises,
    read=_read,
)
