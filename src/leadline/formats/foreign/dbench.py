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
from enum import StrEnum
from typing import Final

from leadline.files import DOCUMENT, ReadingCost
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
_SPLIT = re.compile(r"([\d.]*)(.*)", re.ASCII | re.DOTALL)


class _Figure(StrEnum):
    IOPS = "iops"
    BANDWIDTH = "bandwidth"
    LATENCY = "latency"


_UNITS: Final[Mapping[_Figure, Mapping[str, float]]] = {
    # fio counts I/Os by thousands.
    _Figure.IOPS: {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9},
    _Figure.BANDWIDTH: {"b/s": 1, "kib/s": 1 << 10, "mib/s": 1 << 20, "gib/s": 1 << 30},
    _Figure.LATENCY: {"nsec": 1e-9, "usec": 1e-6, "msec": 1e-3, "sec": 1.0},
}


@dataclass(frozen=True, slots=True)
class _Test:
    """One of dbench's fio runs, by its `--name`, and the options that its script always gives."""

    name: str
    figure: _Figure
    rw: str
    bs: str
    iodepth: int
    numjobs: int = 1

    @property
    def ops(self) -> tuple[Op, ...]:
        if self.rw == "randrw":
            return (Op.READ, Op.WRITE)
        return (Op(self.rw.removeprefix("rand")),)

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
        if self.figure is not _Figure.LATENCY:
            raw["gtod_reduce"] = "1"
        if self.numjobs > 1:
            # Its figure is of the `READ:` line, which is the sum of the jobs.
            raw["group_reporting"] = "1"
        if self.rw == "randrw":
            raw["rwmixread"] = "75"
        # Size, runtime and direct I/O are settings of later versions, and are not printed.
        return JobOptions(raw=raw, whole=False)


# The tests of each line, in the order of its figures.
_LINES: Final = {
    _RANDOM: (
        _Test("read_iops", _Figure.IOPS, "randread", "4k", 64),
        _Test("write_iops", _Figure.IOPS, "randwrite", "4k", 64),
        _Test("read_bw", _Figure.BANDWIDTH, "randread", "128k", 64),
        _Test("write_bw", _Figure.BANDWIDTH, "randwrite", "128k", 64),
    ),
    _AVERAGE: (
        _Test("read_latency", _Figure.LATENCY, "randread", "4k", 4),
        _Test("write_latency", _Figure.LATENCY, "randwrite", "4k", 4),
    ),
    _SEQUENTIAL: (
        _Test("read_seq", _Figure.BANDWIDTH, "read", "1M", 16, numjobs=4),
        _Test("write_seq", _Figure.BANDWIDTH, "write", "1M", 16, numjobs=4),
    ),
    _MIXED: (_Test("rw_mix", _Figure.IOPS, "randrw", "4k", 64),),
}


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
    return [replace(result, target=target) for result in found]


def _line(line: str, where: str) -> list[Result] | None:
    """The tests of a line; None for a line that is none of dbench's."""
    for pattern, tests in _LINES.items():
        if match := pattern.fullmatch(line):
            texts = iter(_texts(match))
            return [_result(test, [next(texts) for _ in test.ops], where) for test in tests]
    return None


def _texts(match: re.Match[str]) -> list[str]:
    """The figures of a line with their units."""
    if match.re is _AVERAGE:
        heading, *pairs = (group or "" for group in match.groups())
        units = (unit or heading for unit in pairs[1::2])
        return [text + unit if text else "" for text, unit in zip(pairs[::2], units, strict=True)]
    texts = list(match.groups())
    if match.re is _RANDOM:
        # The full stop ends the sentence, not the figure.
        texts[1] = texts[1].removesuffix(".")
    return texts


def _result(test: _Test, texts: Sequence[str], where: str) -> Result:
    figures = Figures()
    operations = []
    for op, text in zip(test.ops, texts, strict=True):
        value = _value(figures, test, text, where)
        is_latency = test.figure is _Figure.LATENCY and value is not None
        operations.append(
            Operation(
                op=op,
                iops=value if test.figure is _Figure.IOPS else None,
                bandwidth_bps=value if test.figure is _Figure.BANDWIDTH else None,
                total=Latency(mean_s=value) if is_latency else None,
            )
        )
    job = JobResult(name=test.name, options=test.options, operations=tuple(operations))
    output = EngineOutput(version=TOOL, jobs=(job,), notes=tuple(figures.notes))
    return Result(workload=test.name, output=output, tool=TOOL)


def _value(figures: Figures, test: _Test, text: str, where: str) -> float | None:
    """A figure with its unit behind it. An empty one is left out, with a note."""
    if test.figure is _Figure.BANDWIDTH and text.lower().endswith(("kb/s", "mb/s", "gb/s")):
        figures.note(
            NoteKind.LEFT_OUT,
            where,
            f"{test.name} is {text}, which is of 1024 in fio 2 and of 1000 in fio 3; dbench does "
            "not print the version of fio",
        )
        return None
    if not text:
        figures.note(NoteKind.LEFT_OUT, where, f"dbench printed nothing for {test.name}")
        return None
    split = _SPLIT.match(text)
    assert split is not None
    unit, units = split[2].lower(), _UNITS[test.figure]
    if not split[1] or unit not in units:
        raise FormatError.unreadable(
            f"{test.name} is {text[:40]!r}; expected a figure in {', '.join(filter(None, units))}",
            where,
        )
    return figures.number(split[1], where, test.name, units[unit])


def _read(content: bytes) -> list[Result]:
    first, *others = parse_dbench(content)
    if _QUOTED in content and isinstance(first.output, EngineOutput):
        line = content.count(b"\n", 0, content.index(_QUOTED)) + 1
        fact = "output of fio next to the summary; import it from a file of its own"
        note = Note(NoteKind.LEFT_OUT, f"line {line}", fact)
        output = replace(first.output, notes=(*first.output.notes, note))
        first = replace(first, output=output)
    return [first, *others]


def _recognises(name: str, head: bytes) -> bool:
    return _TITLE.encode() in head or (b"Testing Read IOPS..." in head and b"Working dir: " in head)


IMPORTER = Importer(
    kind=TOOL,
    summary="dbench: the summary at the end of its log, also inside documents",
    recognises=_recognises,
    read=each_file(_read),
    # A short line can be a result.
    cost=ReadingCost(each={**DOCUMENT.each, b"\n": 200}),
)
