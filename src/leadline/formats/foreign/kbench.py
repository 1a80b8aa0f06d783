"""Summary and comparison tables of Longhorn's kbench, as printed or pasted into a document.

Every figure of a table is of a fio run of its own, with its own block size and depth, so that each
becomes a result of its own with that one figure, named as the tests of the profile `kbench` are.
IOPS and bandwidth are means of fio's samples (`iops_mean`, `bw_mean`), cut to whole numbers;
latency is the mean of fio's total latency (fio/func.sh). CPU idleness, being of the whole machine
and of read and write together, has no place in a result and is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
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
    NoteKind,
    Operation,
)
from leadline.formats.text import Figures, caption_above, distinct_targets, split_lines
from leadline.metrics import Op

TOOL: Final = "kbench"
_KIB: Final = 1024.0
_NS: Final = 1e-9
_TITLE = re.compile(
    r"=?\s*FIO Benchmark (?P<compared>Compar\w* )?(?P<p99>P99 Latency )?Summary\s*=?"
)
_GROUP = re.compile(
    r"(?P<kind>IOPS|Bandwidth|Latency)(?: in (?P<unit>[\w/]+))?"
    r"(?: with CPU idleness in percent)?(?: \(Read/Write\))?"
)
# `Rread` is kbench's own word, in comparisons of August 2021.
_ROW = re.compile(r"(?P<order>Random|Sequential)(?: (?P<op>R?[Rr]ead|Write))?:(?P<cells>.*)")
_OLD_GROUP = re.compile(r"(?P<order>Random|Sequential) Read/Write")
_OLD_ROW = re.compile(r"(?P<kind>IOPS|Bandwidth|Average Latency):(?P<cells>.*)")
_CONTEXT = re.compile(r"(?:CPU Idleness|IOPS CPU\(USR/SYS\)):.*")
_HEADER = re.compile(
    r"(?P<key>For|SIZE|Size|QUICK MODE|Quick Mode|Mode|CPU Idleness Profiling):?\s*(?P<value>.*)"
)
_COLUMNS = re.compile(r"\S+ +vs +\S+ +: +Change")
_UNIT = r"(?:KiB/sec|ns)?"
_PAIR = re.compile(rf"(?P<read>[^\s/]*)\s*{_UNIT}\s*/\s*(?P<write>[^\s/]*)\s*{_UNIT}")
_IN_BRACKETS = re.compile(r"\([^()]*\)")
# The start of a quoted or indented line.
_QUOTE = re.compile(r"[\s>|]*")
# kbench's name for its output if none is given: it says nothing of what was measured.
_NAMELESS: Final = frozenset({"test_device", "./test_device"})


class TestKind(StrEnum):
    """What a test is for; each has its block size and depth (fio/*-include.fio)."""

    IOPS = "iops"
    BANDWIDTH = "bandwidth"
    LATENCY = "latency"


LATENCY_DEPTH_UNKNOWN: Final = (
    "the table does not show the depth of its latency test: 4 until 14 December 2021, 1 since"
)


def fixed_options(kind: TestKind) -> dict[str, str]:
    """Return the options that every version of kbench has for a test; the depth of the latency test
    is not among them."""
    options = {
        "bs": "128k" if kind is TestKind.BANDWIDTH else "4k",
        "numjobs": "1",
        "ioengine": "libaio",
        "direct": "1",
    }
    return options if kind is TestKind.LATENCY else {**options, "iodepth": "64"}


_KINDS: Final = {
    "IOPS": TestKind.IOPS,
    "Bandwidth": TestKind.BANDWIDTH,
    "Latency": TestKind.LATENCY,
    "Average Latency": TestKind.LATENCY,
}
_UNITS: Final = {
    TestKind.IOPS: frozenset({None, "ops"}),
    TestKind.BANDWIDTH: frozenset({"KiB/sec"}),
    TestKind.LATENCY: frozenset({"ns"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """One figure: `column` is 0, or 1 for the second volume of a comparison."""

    kind: TestKind
    random: bool
    op: Op
    column: int
    text: str
    line: int

    @property
    def test(self) -> str:
        return f"{'rand' if self.random else 'seq'}-{self.op.value}-{self.kind.value}"


@dataclass(slots=True, kw_only=True)
class _Table:
    """One summary while it is read. `latency_depth` is None where the layout leaves it open."""

    line: int
    compared: bool
    percentile: bool
    caption: str
    subject: str = ""
    size: str = ""
    quick: bool = False
    latency_depth: int | None = None
    cells: list[_Cell] = field(default_factory=list)
    bare_groups: dict[str, int] = field(default_factory=dict)
    figures: Figures = field(default_factory=Figures)

    @property
    def targets(self) -> tuple[str, ...]:
        """The volumes by column, empty where not named."""
        if not self.compared:
            return ("" if self.subject in _NAMELESS else self.subject,)
        first, vs, second = self.subject.partition(" vs ")
        if not vs or not first.strip() or not second.strip() or " vs " in second:
            raise FormatError.unreadable(
                f"a comparison does not say which two volumes it compares: {self.subject[:80]!r}",
                f"line {self.line}",
            )
        return first.strip(), second.strip()


def parse_kbench(content: bytes) -> tuple[Result, ...]:
    """Every test of every table, in their order. Raises FormatError with condition
    `empty-result`, `truncated-result` or `unreadable-result`."""
    if not content.strip():
        raise FormatError.empty("the file is empty")
    tables = _tables(split_lines(content))
    if not tables:
        raise FormatError.unreadable("there is no summary of kbench's in the file")
    return tuple(
        result
        for table, targets in zip(tables, _targets(tables), strict=True)
        for result in _results(table, targets)
    )


def _tables(lines: Sequence[str]) -> list[_Table]:
    found: list[_Table] = []
    index = 0
    while index < len(lines):
        title = _TITLE.fullmatch(_bare(lines[index]))
        if title is None:
            index += 1
            continue
        table = _Table(
            line=index + 1,
            compared=bool(title["compared"]),
            percentile=bool(title["p99"]),
            caption=caption_above(lines, index, found[-1].line if found else 0),
        )
        index = _read_table(table, lines, index + 1)
        found.append(table)
    return found


def _bare(line: str) -> str:
    return _QUOTE.sub("", line, count=1).rstrip()


def _read_table(table: _Table, lines: Sequence[str], index: int) -> int:
    """Fill the table from the line behind its title; returns the first line that is not its own.

    The table ends with a fence, another title, or a block that is none of kbench's.
    """
    kind: TestKind | None = None
    random: bool | None = None
    after_blank = False
    while index < len(lines):
        line, where = _bare(lines[index]), index + 1
        if not line:
            after_blank = True
        elif line.startswith("```") or _TITLE.fullmatch(line):
            return index
        elif group := _GROUP.fullmatch(line):
            kind, random = _kind(table, group, where), None
            table.bare_groups[kind.value] = where
        elif group := _OLD_GROUP.fullmatch(line):
            kind, random = None, group["order"] == "Random"
            # This layout is of July 2021; kbench measured latency at depth 4 until December.
            table.latency_depth = 4
            table.bare_groups[line] = where
        elif (row := _ROW.fullmatch(line)) and kind is not None:
            table.bare_groups.pop(kind.value, None)
            _take(table, row["cells"], kind, row["order"] == "Random", row["op"], where)
        elif (row := _OLD_ROW.fullmatch(line)) and random is not None:
            table.bare_groups.clear()
            _take(table, row["cells"], _KINDS[row["kind"]], random, None, where)
        elif header := _HEADER.fullmatch(line):
            _take_header(table, header["key"], header["value"])
        elif not (set(line) == {"="} or _CONTEXT.fullmatch(line) or _COLUMNS.fullmatch(line)):
            if after_blank:
                return index
            table.figures.note(
                NoteKind.UNKNOWN_FIELD, f"line {where}", f"{line[:80]!r} is no line of kbench's"
            )
        after_blank = not line
        index += 1
    return index


def _kind(table: _Table, group: re.Match[str], where: int) -> TestKind:
    kind, unit = _KINDS[group["kind"]], group["unit"]
    if unit == "KiB/sec" and kind is not TestKind.BANDWIDTH and table.compared:
        # fio/cmp_parse.sh of 2025 prints this unit behind every metric.
        table.figures.note(
            NoteKind.UNKNOWN_FIELD,
            f"line {where}",
            f"{group['kind']} is not in KiB/sec; kbench prints that unit behind all metrics of a "
            "comparison, and the figures are in their usual one",
        )
    elif unit not in _UNITS[kind]:
        raise FormatError.unreadable(
            f"{group['kind']} is in {unit or 'no unit'}, which kbench does not print",
            f"line {where}",
        )
    return kind


def _take_header(table: _Table, key: str, value: str) -> None:
    if key == "For":
        table.subject = value.strip()
    elif key in ("SIZE", "Size"):
        table.size = value.strip()
    elif key == "CPU Idleness Profiling":
        # This line came on 27 January 2022, after the depth of 1 (14 December 2021).
        table.latency_depth = 1
    else:
        table.quick = value.strip().lower() in ("enabled", "quick")


def _take(
    table: _Table, cells: str, kind: TestKind, random: bool, op: str | None, line: int
) -> None:
    """The figures of a row: of both operations, or of the one that it names."""
    plain = _IN_BRACKETS.sub("", cells)
    columns = [plain]
    if table.compared:
        first, _, rest = plain.partition(" vs ")
        columns = [first, rest.partition(" :")[0]]
    for column, cell in enumerate(columns):
        if op is not None:
            taken = [(Op.WRITE if op == "Write" else Op.READ, cell.strip())]
        else:
            pair = _PAIR.fullmatch(cell.strip())
            if pair is None:
                raise FormatError.unreadable(
                    f"{cell.strip()[:80]!r} is no pair of figures for read and write",
                    f"line {line}",
                    cut="/" not in cell,
                )
            taken = [(Op.READ, pair["read"]), (Op.WRITE, pair["write"])]
        for operation, text in taken:
            one = _Cell(kind=kind, random=random, op=operation, column=column, text=text, line=line)
            if any(other.test == one.test and other.column == column for other in table.cells):
                table.figures.note(
                    NoteKind.REPEATED_FIELD,
                    f"line {line}",
                    f"{one.test} is repeated; the first value is used",
                )
            else:
                table.cells.append(one)


def _targets(tables: Sequence[_Table]) -> list[tuple[str, ...]]:
    """The names by table and column. Tables that name nothing, or the same, get names of their
    own, so that their figures do not pass for repeats of one test."""
    named = [table.targets for table in tables]
    for percentile in (False, True):
        mine = [
            number
            for number, table in enumerate(tables)
            if not table.compared and table.percentile is percentile
        ]
        if mine:
            distinct = distinct_targets(
                [named[number][0] for number in mine], [tables[number].caption for number in mine]
            )
            for number, target in zip(mine, distinct, strict=True):
                named[number] = (target,)
    return named


def _results(table: _Table, targets: tuple[str, ...]) -> list[Result]:
    if not table.cells:
        error = FormatError.truncated("a summary of kbench's has no figures", _at(table.line))
        return [Result(workload=TOOL, output=error, target=target, tool=TOOL) for target in targets]
    found = [
        Result(
            workload=cell.test,
            output=_output(table, cell, with_notes=number == 0),
            target=targets[cell.column],
            tool=TOOL,
        )
        for number, cell in enumerate(table.cells)
    ]
    for group, line in table.bare_groups.items():
        error = FormatError.truncated(f"no figures follow {group!r}", _at(line))
        found += [Result(workload=group, output=error, target=name, tool=TOOL) for name in targets]
    return found


def _at(line: int) -> str:
    return f"line {line}"


def _output(table: _Table, cell: _Cell, *, with_notes: bool) -> EngineOutput:
    figures = Figures()
    value = figures.number(
        cell.text,
        _at(cell.line),
        cell.test,
        {TestKind.IOPS: 1.0, TestKind.BANDWIDTH: _KIB, TestKind.LATENCY: _NS}[cell.kind],
    )
    if not cell.text:
        figures.note(NoteKind.LEFT_OUT, _at(cell.line), f"kbench printed nothing for {cell.test}")
    elif value == 0:
        value = None
        figures.note(
            NoteKind.LEFT_OUT,
            _at(cell.line),
            f"{cell.test} is 0, which kbench prints for a test that it did not run",
        )
    latency = cell.kind is TestKind.LATENCY
    if latency and table.latency_depth is None:
        figures.note(NoteKind.LEFT_OUT, _at(cell.line), LATENCY_DEPTH_UNKNOWN)
    operation = Operation(
        op=cell.op,
        iops=value if cell.kind is TestKind.IOPS else None,
        bandwidth_bps=value if cell.kind is TestKind.BANDWIDTH else None,
        # The p99 is of fio's completion latency, the mean of its total latency.
        total=Latency(mean_s=value) if latency and value and not table.percentile else None,
        completion=Latency(percentiles={0.99: value})
        if latency and value and table.percentile
        else None,
    )
    return EngineOutput(
        version=TOOL,
        jobs=(JobResult(name=cell.test, options=_options(table, cell), operations=(operation,)),),
        notes=(*(table.figures.notes if with_notes else ()), *figures.notes),
    )


def _options(table: _Table, cell: _Cell) -> JobOptions:
    """What kbench's job files always say (fio/common-include.fio, fio/quick-include.fio), and the
    size of the table."""
    raw = {
        "rw": ("rand" if cell.random else "") + cell.op.value,
        **fixed_options(cell.kind),
        "time_based": "1",
        "runtime": "5s" if table.quick else "20s",
        "ramp_time": "1s" if table.quick else "5s",
    }
    if cell.kind is TestKind.LATENCY and table.latency_depth is not None:
        raw["iodepth"] = str(table.latency_depth)
    if table.size:
        raw["size"] = table.size
    return JobOptions(raw=raw, whole=False)


def _recognises(name: str, head: bytes) -> bool:
    return any(_TITLE.fullmatch(_bare(line)) for line in split_lines(head))


IMPORTER = Importer(
    kind=TOOL,
    summary="Longhorn kbench: summaries and comparisons, also inside documents",
    recognises=_recognises,
    read=each_file(parse_kbench),
    # A short line can be a result.
    cost=ReadingCost(each={**DOCUMENT.each, b"\n": 600}),
)
