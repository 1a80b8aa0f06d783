"""Text output of `rbd bench`: a header line, one line per second, and a summary.

    bench  type write io_size 4096 io_threads 8 bytes 12582912 pattern random
      SEC       OPS   OPS/SEC   BYTES/SEC
        1       392   396.825   1.6 MiB/s
    elapsed: 6   ops: 3072   ops/sec: 503.607   bytes/sec: 2.0 MiB/s

The tool measures no latency, and none is made up of its rates here. OPS of the lines counts from
the start, OPS/SEC is a mean over the last five lines: only the first is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from leadline.files import DOCUMENT, ReadingCost
from leadline.formats.ceph.bench_request import (
    BUFFERS,
    BenchRequest,
    read_bench_request,
    read_output_file,
)
from leadline.formats.fio.logs import Window
from leadline.formats.importer import Importer, Result, each_file
from leadline.formats.result import (
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Note,
    NoteKind,
    Operation,
)
from leadline.formats.text import line_refused
from leadline.metrics import Op
from leadline.plan.workload import Phase

TOOL: Final = "rbd bench"
# Of each invocation by its phase, counted from 1.
OUTPUT_FILE = "rbd-bench-{phase}.txt"
_HEADER = re.compile(
    # Before Kraken the command was bench-write, and it could not read.
    r"(?:bench +type (?P<type>read|write|readwrite)|bench-write +)"
    r"(?: read:write=(?P<read>\d{1,3}):(?P<write>\d{1,3}))?"
    r" ?io_size (?P<size>\d{1,12}) io_threads (?P<depth>\d{1,9}) bytes (?P<bytes>\d{1,20})"
    r" pattern (?P<pattern>random|rand|sequential|seq|full sequential)"
)
_RATE = r"(?P<rate>\d{1,18}(?:\.\d{1,18})?(?:e[+-]?\d{1,2})?)"
# Older releases print bytes/s as a bare number, later ones with a binary unit.
_BYTES = r"(?P<bytes>\d{1,18}(?:\.\d{1,18})?(?:e[+-]?\d{1,2})?)(?: (?P<unit>[KMGTPE]i)?B/s)?"
_SECOND = re.compile(rf" *(?P<second>\d{{1,9}}) +(?P<ops>\d{{1,15}}) +{_RATE} +{_BYTES}")
_SUMMARY = re.compile(
    rf"elapsed: +(?P<elapsed>\d{{1,9}}) +ops: +(?P<ops>\d{{1,15}}) +ops/sec: +{_RATE}"
    rf" +bytes/sec: +{_BYTES}"
)
_PART = re.compile(
    rf"(?P<op>read|write)_ops: +(?P<ops>\d{{1,15}}) +(?P=op)_ops/sec: +{_RATE}"
    rf" +(?P=op)_bytes/sec: +{_BYTES}"
)
_LONGEST_LINE = 300
_UNITS = {None: 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50}
_UNITS |= {"Ei": 1 << 60}
_COLUMNS = "SEC       OPS   OPS/SEC   BYTES/SEC"
_OPS = {"read": (Op.READ,), "write": (Op.WRITE,), "readwrite": (Op.READ, Op.WRITE)}
_RW = {
    ("read", True): "randread",
    ("write", True): "randwrite",
    ("readwrite", True): "randrw",
    ("read", False): "read",
    ("write", False): "write",
    ("readwrite", False): "rw",
}
# A limit beyond any real run, to bound memory.
_LONGEST_S = 30 * 86400
# Bytes/s have two digits (1.0 to 9.9) or are whole units, cut or rounded by release.
_BYTES_AGREE = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One invocation. `seconds` pairs the second with the I/Os done by then, all together;
    `done` gives I/Os and IOPS of each operation."""

    rw: str
    io_size: int
    depth: int
    io_total: int
    read_share: int | None
    ran_s: float
    ops: int
    done: Mapping[Op, tuple[int, float]]
    seconds: tuple[tuple[int, int], ...]


def is_header(line: str) -> bool:
    """Test whether an invocation begins with this line."""
    return len(line) < _LONGEST_LINE and _HEADER.fullmatch(line.strip()) is not None


def is_summary(line: str) -> bool:
    """Test whether a line belongs to the summary at the end of an invocation."""
    text = line.strip() if len(line) < _LONGEST_LINE else ""
    return _SUMMARY.fullmatch(text) is not None or _PART.fullmatch(text) is not None


def rbd_bench_output(bench: Bench) -> EngineOutput:
    """Make the result of one invocation from its output alone."""
    raw = {
        "rw": bench.rw,
        "bs": str(bench.io_size),
        "iodepth": str(bench.depth),
        "numjobs": "1",
        "ioengine": "rbd-bench",
        "io_size": str(bench.io_total),
    }
    if bench.read_share is not None:
        raw["rwmixread"] = str(bench.read_share)
    if Op.WRITE in bench.done:
        raw["buffer_pattern"] = BUFFERS[TOOL]
    job = _job(bench, TOOL, JobOptions(raw=raw), before_s=0.0, group=0)
    return EngineOutput(version=TOOL, jobs=(job,))


def read_rbd_bench(folder: Path) -> EngineOutput:
    """Read the output of `rbd bench` in the folder of a trial. Raises FormatError."""
    request = read_bench_request(folder, TOOL)
    jobs: list[JobResult] = []
    before_s = 0.0
    for group, (phase, bench) in enumerate(_phases(folder, request)):
        jobs.append(_job(bench, phase.name, request.options(phase), before_s=before_s, group=group))
        before_s = jobs[-1].elapsed_s
    return EngineOutput(version=TOOL, jobs=tuple(jobs))


def read_rbd_bench_windows(folder: Path) -> Mapping[Op, tuple[Window, ...]]:
    """Read IOPS of each second and operation; empty for a mix, in which the tool counts reads and
    writes together. Raises FormatError."""
    series: dict[Op, tuple[Window, ...]] = {}
    for _, bench in _phases(folder, read_bench_request(folder, TOOL)):
        series.update(rbd_bench_windows(bench))
    return series


def rbd_bench_windows(bench: Bench) -> Mapping[Op, tuple[Window, ...]]:
    """Compute IOPS of each second of one invocation. The tool prints a line only when it starts
    I/Os, so a line after several seconds gives each of them the same rate."""
    if len(bench.done) != 1:
        return {}
    windows: list[Window] = []
    last_s, last_ops = 0, 0
    for second, ops in bench.seconds:
        rate = (ops - last_ops) / (second - last_s)
        windows += [Window(end_s=float(end), value=rate) for end in range(last_s + 1, second + 1)]
        last_s, last_ops = second, ops
    return {next(iter(bench.done)): tuple(windows)}


def _phases(folder: Path, request: BenchRequest) -> list[tuple[Phase, Bench]]:
    found = []
    for number, phase in enumerate(request.phases, start=1):
        path = folder / OUTPUT_FILE.format(phase=number)
        bench = parse_bench(read_output_file(path, TOOL))
        asked = (phase.pattern.value, phase.block_size, phase.iodepth)
        if (bench.rw, bench.io_size, bench.depth) != asked:
            raise FormatError.unreadable(
                f"{path.name} is of {bench.rw}, {bench.io_size} bytes, depth {bench.depth}; "
                f"{asked[0]}, {asked[1]} bytes, depth {asked[2]} were asked"
            )
        found.append((phase, bench))
    return found


def parse_bench(content: bytes, *, first_line: int = 1) -> Bench:
    """Parse the output of one invocation, which begins in that line of its file. Raises FormatError
    with the line."""
    if not content.strip():
        raise FormatError.empty(f"the output of {TOOL} is empty")
    # The tool's own words end with a line break; without one the last line may be a part.
    cut = not content.endswith(b"\n")
    lines = content.decode("utf-8", "replace").splitlines()
    header = _HEADER.fullmatch(lines[0].strip())
    if header is None:
        raise line_refused(first_line, lines[0], TOOL, cut=cut and len(lines) == 1)
    seconds: list[tuple[int, int]] = []
    summary: re.Match[str] | None = None
    parts: dict[Op, tuple[int, float]] = {}
    io_size = int(header["size"])
    for number, line in enumerate(lines[1:], start=first_line + 1):
        text = line.strip()
        if not text or text == _COLUMNS:
            continue
        last = cut and number == first_line + len(lines) - 1
        if summary is not None and (part := _PART.fullmatch(text)):
            op = Op(part["op"])
            if op in parts:
                raise line_refused(number, line, TOOL)
            parts[op] = _figures(part, io_size, number)
        elif summary is None and (found := _SUMMARY.fullmatch(text)):
            summary = found
            _figures(found, io_size, number)
        elif summary is None and (found := _SECOND.fullmatch(line)):
            _append(seconds, found, number)
        else:
            raise line_refused(number, line, TOOL, cut=last)
    if summary is None:
        raise FormatError.truncated(
            f"{TOOL} printed no summary: it did not come to its end",
            f"line {first_line + len(lines) - 1}: {lines[-1][:120]!r}",
        )
    return _bench(header, summary, parts, tuple(seconds))


def _bench(
    header: re.Match[str],
    summary: re.Match[str],
    parts: dict[Op, tuple[int, float]],
    seconds: tuple[tuple[int, int], ...],
) -> Bench:
    kind = header["type"] or "write"
    ops, rate = int(summary["ops"]), float(summary["rate"])
    wanted = _OPS[kind]
    done = parts
    if len(wanted) == 1 and not parts:
        done = {wanted[0]: (ops, rate)}
    if set(done) != set(wanted):
        missing = [op.value for op in wanted if op not in done]
        raise FormatError.unreadable(
            f"the summary of a {kind} bench lacks its {' and '.join(missing)}s"
            if missing
            else f"the summary of a {kind} bench has other operations",
            cut=bool(missing),
        )
    if sum(count for count, _ in done.values()) != ops:
        raise FormatError.unreadable(f"the operations of the summary do not add up to {ops}")
    elapsed_s = int(summary["elapsed"])
    if elapsed_s > _LONGEST_S or (seconds and seconds[-1][0] > elapsed_s + 2):
        last = f", with a line of second {seconds[-1][0]}" if seconds else ""
        raise FormatError.unreadable(f"{elapsed_s} s elapsed{last}: that cannot be")
    if (ops and not rate) or (seconds and seconds[-1][1] > ops):
        raise FormatError.unreadable(f"the summary's {ops} I/Os at {rate:g} per second cannot be")
    # Whole seconds are printed; the rates were made of the exact time.
    ran_s = ops / rate if ops else float(elapsed_s)
    if ops and not elapsed_s - 0.01 <= ran_s <= elapsed_s + 1.01:
        raise FormatError.unreadable(
            f"{ops} I/Os at {rate:g} per second take {ran_s:.3f} s, but the output "
            f"reports {elapsed_s} s"
        )
    return Bench(
        rw=_RW[kind, header["pattern"].startswith("rand")],
        io_size=int(header["size"]),
        depth=int(header["depth"]),
        io_total=int(header["bytes"]),
        read_share=int(header["read"]) if header["read"] else None,
        ran_s=ran_s,
        ops=ops,
        done=done,
        seconds=seconds,
    )


def _figures(found: re.Match[str], io_size: int, number: int) -> tuple[int, float]:
    """Parse I/Os and IOPS of a line of the summary, and check its bytes against them."""
    ops, rate = int(found["ops"]), float(found["rate"])
    reported = float(found["bytes"]) * _UNITS[found["unit"]]
    step = _UNITS[found["unit"]] * (0.05 if "." in found["bytes"] else 1.0)
    moved = rate * io_size
    if abs(reported - moved) > max(step, _BYTES_AGREE * moved):
        raise FormatError.unreadable(
            f"line {number}: {rate:g} I/Os of {io_size} bytes per second are {moved:.0f} bytes "
            f"per second, not {reported:.0f}"
        )
    return ops, rate


def _append(seconds: list[tuple[int, int]], found: re.Match[str], number: int) -> None:
    second, ops = int(found["second"]), int(found["ops"])
    last_s, last_ops = seconds[-1] if seconds else (0, 0)
    if second == last_s and not seconds:
        return  # a line of second 0 comes from releases that print at once
    if second <= last_s or ops < last_ops:
        raise FormatError.unreadable(
            f"line {number}: second {second} with {ops} I/Os cannot follow second {last_s} with "
            f"{last_ops}"
        )
    seconds.append((second, ops))


def _job(bench: Bench, name: str, options: JobOptions, *, before_s: float, group: int) -> JobResult:
    return JobResult(
        name=name,
        group=group,
        options=options,
        job_runtime_s=bench.ran_s,
        elapsed_s=before_s + bench.ran_s,
        operations=tuple(
            Operation(
                op=op,
                iops=rate,
                # The tool's own figure has two digits; it is the same product.
                bandwidth_bps=rate * bench.io_size,
                total_ios=ops,
                io_bytes=ops * bench.io_size,
                runtime_s=bench.ran_s,
            )
            for op, (ops, rate) in bench.done.items()
            if ops
        ),
    )


# Importer of `rbd bench` (before Kraken `rbd bench-write`): text, one or several in a file.

_BEGINS = re.compile(rb"^[ \t]*bench(?: {1,4}type |-write {1,4}io_size )", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The lines of one invocation, with the noise before it and the line numbers behind it."""

    first_line: int
    noise: str
    lines: Sequence[str]
    behind: tuple[int, ...]


def _recognises(_name: str, head: bytes) -> bool:
    return _BEGINS.search(head) is not None


def read_results(content: bytes) -> tuple[Result, ...]:
    """Read a file: one result per invocation of the tool. Raises FormatError."""
    text = content.decode("utf-8-sig", "replace")
    if not text.strip():
        error = FormatError.empty(f"the file is empty ({len(content)} bytes)")
        return (Result(workload="", output=error, tool=TOOL),)
    parts = _parts(text.splitlines(keepends=True))
    if not parts:
        first = text.strip().splitlines()[0][:160]
        raise FormatError.unreadable(
            f"there is no output of {TOOL} in it", f"line 1 says: {first!r}"
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
        # Lines between two invocations are noise before the second.
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
        notes.append(Note(NoteKind.LEFT_OUT, where, fact))
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
    read=each_file(read_results),
    # A short line can be a result.
    cost=ReadingCost(each={**DOCUMENT.each, b"\n": 400}),
)
