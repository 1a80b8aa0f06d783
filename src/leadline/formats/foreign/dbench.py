"""The summary that dbench prints at the end of its log, alone or pasted into a document.

Each figure is cut by grep out of the text of a fio run of its own, so that each test becomes a
result. dbench gives fio `--gtod_reduce=1` in all but the two latency tests, which run at depth 4.
Its grep is why a latency may be empty (fio printed another unit than it looked for), and where the
unit is in the heading it is dbench's word, not fio's (docker-entrypoint.sh).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from leadline.formats.importer import Importer, Result
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
from leadline.formats.text import Figures, caption_above, distinct_targets, split_lines
from leadline.metrics import Op

TOOL: Final = "dbench"
_TITLE: Final = "= Dbench Summary ="
_QUOTED: Final = b'"fio version"'
_QUOTE = re.compile(r"[\s>|]*")
_FIGURE = r"([^/\s]*)"
_RATE = r"([^/\s]*(?:/s)?)"
_LATENCY = r"([^/\s(]*)(?:\((\w*)\))?"
_RANDOM = re.compile(
    rf"Random Read/Write IOPS:\s*+{_FIGURE}\s*+/\s*+{_FIGURE}\s*+BW:\s*+{_RATE}\s*+/\s*+{_RATE}"
)
# The unit stood in the heading first, behind each figure later.
_AVERAGE = re.compile(
    rf"Average Latency(?: \((\w+)\))? Read/Write:\s*+{_LATENCY}\s*+/\s*+{_LATENCY}"
)
_SEQUENTIAL = re.compile(rf"Sequential Read/Write:\s*+{_RATE}\s*+/\s*+{_RATE}")
_MIXED = re.compile(rf"Mixed Random Read/Write IOPS:\s*+{_FIGURE}\s*+/\s*+{_FIGURE}")
_SECONDS: Final = {"nsec": 1e-9, "usec": 1e-6, "msec": 1e-3, "sec": 1.0}
# fio counts I/Os by thousands.
_THOUSANDS: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_BYTES: Final = {
    "b/s": 1.0,
    "kib/s": float(1 << 10),
    "mib/s": float(1 << 20),
    "gib/s": float(1 << 30),
}
_SPLIT = re.compile(r"([\d.]*)(.*)", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    """One of dbench's fio runs, by its `--name`, and the options that its script always gives."""

    name: str
    rw: str
    bs: str
    iodepth: int
    numjobs: int = 1
    timed: bool = False

    @property
    def options(self) -> JobOptions:
        raw = {
            "rw": self.rw,
            "bs": self.bs,
            "iodepth": str(self.iodepth),
            "numjobs": str(self.numjobs),
            "ioengine": "libaio",
            "time_based": "1",
        }
        if not self.timed:
            raw["gtod_reduce"] = "1"
        if self.numjobs > 1:
            # Its figure is of the `READ:` line, which is the sum of the jobs.
            raw["group_reporting"] = "1"
        if self.rw == "randrw":
            raw["rwmixread"] = "75"
        # Size, runtime and direct I/O are settings of later versions, and are not printed.
        return JobOptions(raw=raw, whole=False)


_READ_IOPS = _Test(name="read_iops", rw="randread", bs="4k", iodepth=64)
_WRITE_IOPS = _Test(name="write_iops", rw="randwrite", bs="4k", iodepth=64)
_READ_BW = _Test(name="read_bw", rw="randread", bs="128k", iodepth=64)
_WRITE_BW = _Test(name="write_bw", rw="randwrite", bs="128k", iodepth=64)
_READ_LATENCY = _Test(name="read_latency", rw="randread", bs="4k", iodepth=4, timed=True)
_WRITE_LATENCY = _Test(name="write_latency", rw="randwrite", bs="4k", iodepth=4, timed=True)
_READ_SEQ = _Test(name="read_seq", rw="read", bs="1M", iodepth=16, numjobs=4)
_WRITE_SEQ = _Test(name="write_seq", rw="write", bs="1M", iodepth=16, numjobs=4)
_MIX = _Test(name="rw_mix", rw="randrw", bs="4k", iodepth=64)


def parse_dbench(content: bytes) -> tuple[Result, ...]:
    """Every test of every summary. Raises FormatError with condition `empty-result`,
    `truncated-result` or `unreadable-result`."""
    if not content.strip():
        raise FormatError.empty("the file is empty")
    lines = [_QUOTE.sub("", line, count=1).rstrip() for line in split_lines(content)]
    titles = [index for index, line in enumerate(lines) if line == _TITLE]
    if not titles:
        cut = any(line.startswith("Testing Read IOPS") for line in lines)
        raise FormatError.unreadable(
            "there is no summary of dbench's in the file"
            + (": the run did not come to its end" if cut else ""),
            cut=cut,
        )
    captions = [
        caption_above(lines, index, before)
        for index, before in zip(titles, [0, *titles], strict=False)
    ]
    targets = distinct_targets([""] * len(titles), captions)
    ends = [*titles[1:], len(lines)]
    return tuple(
        result
        for index, end, target in zip(titles, ends, targets, strict=True)
        for result in _summary(lines, index + 1, end, target)
    )


def _summary(lines: Sequence[str], start: int, end: int, target: str) -> list[Result]:
    found: list[Result] = []
    seen: dict[str, int] = {}
    for index in range(start, end):
        line, where = lines[index], f"line {index + 1}"
        if not line or set(line) == {"="}:
            if found and not line:
                break
            continue
        heading = line.partition(":")[0]
        results = _line(line, where)
        if results is None or heading in seen:
            if not found or heading in seen or "Read/Write" in line:
                raise FormatError.unreadable(
                    f"{line[:80]!r} is no line of dbench's summary"
                    if results is None
                    else f"{heading!r} is repeated in one summary",
                    where,
                )
            break
        seen[heading] = index
        found += results
    if not found:
        raise FormatError.truncated("dbench's summary has no figures", f"line {start}")
    return [
        Result(workload=entry.workload, output=entry.output, target=target, tool=TOOL)
        for entry in found
    ]


def _line(line: str, where: str) -> list[Result] | None:
    """The tests of a line; None for a line that is none of dbench's."""
    if match := _RANDOM.fullmatch(line):
        # The full stop ends the sentence, not the figure.
        read, write = match[1], match[2].removesuffix(".")
        return [
            _rated(_READ_IOPS, Op.READ, read, where),
            _rated(_WRITE_IOPS, Op.WRITE, write, where),
            _banded(_READ_BW, Op.READ, match[3], where),
            _banded(_WRITE_BW, Op.WRITE, match[4], where),
        ]
    if match := _AVERAGE.fullmatch(line):
        heading = match[1] or ""
        return [
            _late(_READ_LATENCY, Op.READ, match[2], match[3] or heading, where),
            _late(_WRITE_LATENCY, Op.WRITE, match[4], match[5] or heading, where),
        ]
    if match := _SEQUENTIAL.fullmatch(line):
        return [
            _banded(_READ_SEQ, Op.READ, match[1], where),
            _banded(_WRITE_SEQ, Op.WRITE, match[2], where),
        ]
    if match := _MIXED.fullmatch(line):
        figures = Figures()
        operations = tuple(
            Operation(op=op, iops=_iops(figures, _MIX, text, where))
            for op, text in ((Op.READ, match[1]), (Op.WRITE, match[2]))
        )
        return [_result(_MIX, operations, figures)]
    return None


def _rated(test: _Test, op: Op, text: str, where: str) -> Result:
    figures = Figures()
    return _result(test, (Operation(op=op, iops=_iops(figures, test, text, where)),), figures)


def _iops(figures: Figures, test: _Test, text: str, where: str) -> float | None:
    return _scaled(figures, test, text, _THOUSANDS, where)


def _banded(test: _Test, op: Op, text: str, where: str) -> Result:
    figures = Figures()
    if text.lower() in ("kb/s", "mb/s", "gb/s") or text.lower().endswith(("kb/s", "mb/s", "gb/s")):
        figures.note(
            NoteKind.LEFT_OUT,
            where,
            f"{test.name} is {text}, which is of 1024 in fio 2 and of 1000 in fio 3; dbench does "
            "not print the version of fio",
        )
        value = None
    else:
        value = _scaled(figures, test, text, _BYTES, where)
    return _result(test, (Operation(op=op, bandwidth_bps=value),), figures)


def _late(test: _Test, op: Op, text: str, unit: str, where: str) -> Result:
    figures = Figures()
    mean = _scaled(figures, test, text + (unit if text else ""), _SECONDS, where)
    latency = None if mean is None else Latency(mean_s=mean)
    return _result(test, (Operation(op=op, total=latency),), figures)


def _scaled(
    figures: Figures, test: _Test, text: str, units: Mapping[str, float], where: str
) -> float | None:
    """A figure with its unit behind it. An empty one is left out, with a note."""
    if not text:
        figures.note(NoteKind.LEFT_OUT, where, f"dbench printed nothing for {test.name}")
        return None
    split = _SPLIT.match(text)
    assert split is not None
    unit = split[2].lower()
    if not split[1] or unit not in units:
        raise FormatError.unreadable(
            f"{test.name} is {text[:40]!r}; expected a figure in {', '.join(filter(None, units))}",
            where,
        )
    return figures.number(split[1], where, test.name, units[unit])


def _result(test: _Test, operations: tuple[Operation, ...], figures: Figures) -> Result:
    job = JobResult(name=test.name, options=test.options, operations=operations)
    output = EngineOutput(version=TOOL, jobs=(job,), notes=tuple(figures.notes))
    return Result(workload=test.name, output=output, tool=TOOL)


def _read(contents: Mapping[str, bytes]) -> tuple[Result, ...]:
    results = []
    for content in contents.values():
        first, *others = parse_dbench(content)
        if _QUOTED in content and isinstance(first.output, EngineOutput):
            line = content.count(b"\n", 0, content.index(_QUOTED)) + 1
            note = Note(
                NoteKind.LEFT_OUT,
                f"line {line}",
                "output of fio next to the summary; import it from a file of its own",
            )
            output = replace(first.output, notes=(*first.output.notes, note))
            first = replace(first, output=output)
        results += [first, *others]
    return tuple(results)


def _recognises(name: str, head: bytes) -> bool:
    return _TITLE.encode() in head or (b"Testing Read IOPS..." in head and b"Working dir: " in head)


IMPORTER = Importer(
    kind=TOOL,
    summary="dbench: the summary at the end of its log, also inside documents",
    recognises=_recognises,
    read=_read,
)
