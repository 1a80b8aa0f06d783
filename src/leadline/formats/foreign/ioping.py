"""ioping's results: its text, its raw statistics (`-B`) and its JSON (`-J`), of ioping 1.x.

ioping keeps one request in flight. The rate of "completed" requests is one over their mean latency
and counts neither the pauses between requests nor the ignored requests; the rate of "generated"
requests is that of the whole time. A result has a rate only where ioping did not pause: with the
default interval of 1 s the rate is that of the pauses. The text rounds to three digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from leadline.formats.importer import Importer, Result, each_file
from leadline.formats.json_lines import Count, Number, format_path, load_json
from leadline.formats.result import (
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Latency,
    NoteKind,
    Operation,
)
from leadline.formats.text import Figures, distinct_names, split_lines
from leadline.metrics import Op
from leadline.units import format_size

TOOL: Final = "ioping"
_NS: Final = 1e-9
# A run whose requests take most of its time did not pause between them.
_BUSY: Final = 0.5
# The text has three digits: the maximum may be that much less than a request of it.
_ROUNDED: Final = 1.01
_TIME: Final = r"[\d.]+ (?:ns|us|ms|s|min|hour|day)"
_SIZE: Final = r"[\d.]+ (?:B|[KMGTPE]iB)"
_REQUEST = re.compile(
    rf"(?:.{{1,40}} )?(?P<size>{_SIZE}) (?P<way><<<|>>>) .+: request=(?P<number>\d+) "
    rf"time=(?P<time>{_TIME})(?: \((?P<flag>[a-z ]+)\))?",
    re.ASCII,
)
_HEADING = re.compile(r"--- (?P<path>.+) \((?P<place>[^()]*)\) ioping statistics ---")
_COUNT: Final = r"[\d.]+(?: [kMGTPE])?"
_COMPLETED = re.compile(
    rf"(?P<count>{_COUNT}) requests completed in (?P<time>{_TIME}), "
    rf"(?P<size>{_SIZE})(?P<way> read| written|), (?P<iops>{_COUNT}) iops, (?P<bps>{_SIZE})/s",
    re.ASCII,
)
_GENERATED = re.compile(
    rf"(?:{_COUNT} too (?:fast|slow), ){{0,2}}generated (?P<count>{_COUNT}) requests in "
    rf"(?P<time>{_TIME}), (?P<size>{_SIZE}), (?P<iops>{_COUNT}) iops, (?P<bps>{_SIZE})/s",
    re.ASCII,
)
_LATENCY = re.compile(
    rf"min/avg/max/mdev = (?P<min>{_TIME}) / (?P<avg>{_TIME}) / (?P<max>{_TIME}) / "
    rf"(?P<mdev>{_TIME})",
    re.ASCII,
)
# Ten whole numbers: ioping.1, "raw statistics".
_RAW = re.compile(r"\d{1,18}(?: \d{1,18}){9}", re.ASCII)
_WAYS: Final = {"<<<": Op.READ, ">>>": Op.WRITE, " read": Op.READ, " written": Op.WRITE}
_UNITS: Final[Mapping[str, float]] = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "B": 1.0,
    **{f"{prefix}iB": 1024.0**power for power, prefix in enumerate("KMGTPE", start=1)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statistics:
    """One run in base units. `completed` requests are those of the latency, `elapsed_s` is of the
    whole run with its pauses. `busy_s` is the sum of the latencies. None where unknown."""

    op: Op
    where: str
    path: str = ""
    block_bytes: int | None
    latency: Latency
    completed: float | None
    busy_s: float | None
    elapsed_s: float | None
    iops: float | None
    bandwidth_bps: float | None


def parse_ioping(content: bytes) -> tuple[Result, ...]:
    """Every run of ioping in a file. Raises FormatError with condition `empty-result`,
    `truncated-result` or `unreadable-result`."""
    if not content.strip():
        raise FormatError.empty("the file is empty")
    figures = Figures()
    if content.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"[{"):
        runs = [_json_run(content)]
    else:
        lines = split_lines(content)
        runs = list(_text_runs(lines, figures)) or _raw_runs(lines)
    names = distinct_names([(_name(run), {"path": run.path}) for run in runs])
    results = []
    for name, run in zip(names, runs, strict=True):
        results.append(_result(name, run, figures))
        figures = Figures()
    return tuple(results)


def _name(run: _Statistics) -> str:
    op = "ping" if run.op is Op.TOTAL else run.op.value
    return f"{op} {format_size(run.block_bytes)}" if run.block_bytes else op


# The text.


def _amount(text: str, where: str, what: str, figures: Figures) -> float | None:
    number, _, unit = text.partition(" ")
    return figures.number(number, where, what, _UNITS[unit] if unit else 1.0)


def _text_runs(lines: Sequence[str], figures: Figures) -> Iterator[_Statistics]:
    """Yield the runs by their statistics. The requests above one are its own."""
    requests: list[tuple[int, re.Match[str]]] = []
    seen = False
    for index, line in enumerate(lines):
        bare = line.strip()
        if request := _REQUEST.fullmatch(bare):
            if request["number"] == "1":
                requests.clear()
            requests.append((index, request))
        elif heading := _HEADING.fullmatch(bare):
            yield _text_run(lines, index, heading["path"], requests, figures)
            requests.clear()
            seen = True
    if requests and not seen:
        raise FormatError.truncated(
            "ioping's text ends before its statistics", f"line {requests[-1][0] + 1}"
        )


def _text_run(
    lines: Sequence[str],
    index: int,
    path: str,
    requests: Sequence[tuple[int, re.Match[str]]],
    figures: Figures,
) -> _Statistics:
    found: list[re.Match[str]] = []
    for offset, pattern in enumerate((_COMPLETED, _GENERATED, _LATENCY), start=1):
        line = lines[index + offset].strip() if index + offset < len(lines) else ""
        match = pattern.fullmatch(line)
        if match is None:
            raise FormatError.unreadable(
                "the statistics of ioping are cut off"
                if not line
                else f"{line[:80]!r} is no line of ioping's statistics",
                f"line {min(index + offset, len(lines) - 1) + 1}",
                cut=not line or index + offset == len(lines) - 1,
            )
        found.append(match)
    completed, generated, summary = found
    where = f"line {index + 2}"

    def amount(match: re.Match[str], key: str) -> float | None:
        return _amount(match[key], where, key, figures)

    count, size = amount(completed, "count"), amount(completed, "size")
    latency = Latency(
        min_s=amount(summary, "min"),
        mean_s=amount(summary, "avg"),
        max_s=amount(summary, "max"),
        stddev_s=amount(summary, "mdev"),
        count=int(count) if count is not None and " " not in completed["count"] else None,
    )
    _check_requests(requests, latency, figures)
    return _Statistics(
        op=_WAYS.get(completed["way"], Op.TOTAL),
        where=where,
        path=path,
        block_bytes=_block(requests, figures) or _exact_block(completed, count, size),
        latency=latency,
        completed=count,
        busy_s=amount(completed, "time"),
        elapsed_s=amount(generated, "time"),
        iops=amount(generated, "iops"),
        bandwidth_bps=amount(generated, "bps"),
    )


def _check_requests(
    requests: Sequence[tuple[int, re.Match[str]]], latency: Latency, figures: Figures
) -> None:
    """Note requests that took longer than the maximum of the statistics: the text is not of one
    run. Ignored requests (warm-up, too fast, too slow) are in no statistics."""
    for index, request in requests:
        if request["flag"] and (request["flag"] == "warmup" or "too" in request["flag"]):
            continue
        where = f"line {index + 1}"
        time_s = _amount(request["time"], where, "time", figures)
        if time_s and latency.max_s is not None and time_s > latency.max_s * _ROUNDED:
            figures.note(
                NoteKind.IMPOSSIBLE_VALUE,
                where,
                f"request {request['number']} took {request['time']}, longer than the maximum of "
                "the statistics: the text is not of one run",
            )
            return


def _block(requests: Sequence[tuple[int, re.Match[str]]], figures: Figures) -> int | None:
    """Return the size of a request as it is printed, which is exact below 1000 of a unit."""
    for index, request in requests:
        if "." not in request["size"]:
            size = _amount(request["size"], f"line {index + 1}", "size", figures)
            return int(size) if size else None
    return None


def _exact_block(match: re.Match[str], count: float | None, size: float | None) -> int | None:
    """Return the mean size of a request, where neither number is rounded."""
    exact = "." not in match["size"] and " " not in match["count"]
    if not exact or not count or size is None or size % count:
        return None
    return int(size / count)


# Raw statistics and JSON: nanoseconds and bytes, not rounded.


def _raw_runs(lines: Sequence[str]) -> list[_Statistics]:
    """Read one run per line. Lines of periods (`-p`, `-P`) are followed by one of the whole run."""
    rows = []
    for number, line in enumerate(lines, start=1):
        if _RAW.fullmatch(line.strip()):
            rows.append((number, [int(word) for word in line.split()]))
        elif line.strip():
            raise FormatError.unreadable(
                f"{line.strip()[:80]!r} is no line of ioping's", f"line {number}"
            )
    if not rows:
        raise FormatError.empty("the file has no line of ioping's")
    *periods, last = rows
    if periods and sum(row[0] for _, row in periods) == last[1][0]:
        rows = [last]
    return [_raw_run(number, row) for number, row in rows]


def _raw_run(line: int, row: Sequence[int]) -> _Statistics:
    count, busy_ns, _, bps, shortest, mean, longest, deviation, requests, elapsed_ns = row
    return _exact_run(
        Op.TOTAL,
        f"line {line}",
        _Stat(
            count=count,
            size=round(bps * busy_ns * _NS),
            time=busy_ns,
            min=shortest,
            avg=mean,
            max=longest,
            mdev=deviation,
        ),
        _Load(count=requests, time=elapsed_ns),
        None,
    )


class _Stat(BaseModel):
    count: Count
    size: Count
    time: Count
    min: Number
    avg: Number
    max: Number
    mdev: Number


class _Load(BaseModel):
    count: Count
    time: Count


class _Io(BaseModel):
    operation: Annotated[str, Field(max_length=20)]
    size: Count


class _Entry(BaseModel):
    """An entry of ioping's list: a request, or statistics."""

    io: _Io | None = None
    stat: _Stat | None = None
    load: _Load | None = None


_ENTRIES: Final = TypeAdapter(list[_Entry])


def _json_run(content: bytes) -> _Statistics:
    start, end = content.index(b"["), content.rfind(b"]") + 1
    document = load_json(
        content, start, end if end > start else len(content), "ioping's JSON", open_end=end <= start
    )
    try:
        entries = _ENTRIES.validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise FormatError.unreadable(
            f"ioping's JSON is not understood: ${format_path(first['loc'])}: {first['msg']}"
        ) from error
    last = entries[-1] if entries else _Entry()
    if last.stat is None or last.load is None:
        raise FormatError.truncated("ioping's JSON ends before its statistics")
    kinds = {entry.io.operation for entry in entries if entry.io}
    sizes = {entry.io.size for entry in entries if entry.io}
    op = Op(kinds.pop()) if kinds in ({"read"}, {"write"}) else Op.TOTAL
    size = sizes.pop() if len(sizes) == 1 else None
    return _exact_run(op, f"$[{len(entries) - 1}]", last.stat, last.load, size)


def _exact_run(
    op: Op, where: str, stat: _Stat, load: _Load, block_bytes: int | None
) -> _Statistics:
    """`block_bytes`: of the requests that were printed; else the mean of all."""
    if block_bytes is None and stat.count:
        # The raw line has a rate of whole bytes, from which the size is off by less than one each.
        block_bytes = round(stat.size / stat.count) or None
    elapsed_s = load.time * _NS
    iops = load.count / elapsed_s if elapsed_s else None
    return _Statistics(
        op=op,
        where=where,
        block_bytes=block_bytes,
        latency=Latency(
            min_s=stat.min * _NS,
            mean_s=stat.avg * _NS,
            max_s=stat.max * _NS,
            stddev_s=stat.mdev * _NS,
            count=stat.count,
        ),
        completed=float(stat.count),
        busy_s=stat.time * _NS,
        elapsed_s=elapsed_s,
        iops=iops,
        bandwidth_bps=iops * block_bytes if iops is not None and block_bytes else None,
    )


def _result(name: str, run: _Statistics, figures: Figures) -> Result:
    if not run.completed:
        nothing = FormatError.empty("ioping completed no request", run.where)
        return Result(workload=name, output=nothing, tool=TOOL)
    paused = not run.elapsed_s or (run.busy_s or 0.0) < _BUSY * run.elapsed_s
    if run.op is Op.TOTAL:
        figures.note(
            NoteKind.LEFT_OUT,
            run.where,
            "ioping does not report whether these requests read or wrote",
        )
    raw = {"iodepth": "1", "numjobs": "1"}
    if run.block_bytes:
        raw["bs"] = str(run.block_bytes)
    job = JobResult(
        name=name,
        options=JobOptions(raw=raw, whole=False),
        job_runtime_s=run.elapsed_s or 0.0,
        operations=(
            Operation(
                op=run.op,
                iops=None if paused else run.iops,
                bandwidth_bps=None if paused else run.bandwidth_bps,
                runtime_s=run.elapsed_s,
                total=run.latency,
            ),
        ),
    )
    if paused:
        figures.note(
            NoteKind.LEFT_OUT,
            run.where,
            "the rates: ioping paused between requests, and its iops are one over the latency",
        )
    output = EngineOutput(version=TOOL, jobs=(job,), notes=tuple(figures.notes))
    return Result(workload=name, output=output, tool=TOOL)


def _recognises(name: str, head: bytes) -> bool:
    start = head.lstrip(b"\xef\xbb\xbf \r\n\t")
    if start.startswith(b"[{"):
        return b'"localtime"' in head and b'"target"' in head
    if b"ioping statistics ---" in head or b": request=1 time=" in head:
        return True
    line = start[:400].split(b"\n")[0].strip().decode("ascii", "replace")
    return _RAW.fullmatch(line) is not None and _is_raw([int(word) for word in line.split()])


def _is_raw(row: Sequence[int]) -> bool:
    """Test whether the numbers fit to each other: other tools write ten numbers in a line too."""
    count, busy, _, _, shortest, mean, longest, _, requests, elapsed = row
    mean_fits = count > 0 and abs(busy - mean * count) <= count
    return mean_fits and shortest <= mean <= longest and count <= requests and busy <= elapsed


IMPORTER = Importer(
    kind=TOOL,
    summary="ioping: its text, its raw statistics (-B) and its JSON (-J)",
    recognises=_recognises,
    read=each_file(parse_ioping),
)
