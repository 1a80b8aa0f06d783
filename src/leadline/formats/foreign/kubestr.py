"""Results of `kubestr fio`: the text that it prints, and its `-o json`.

Both are fio's own JSON as kubestr's Go types hold it, so that what those lack is lost and every
zero is left out (pkg/fio/fio_types.go). IOPS are 32-bit floats. By default fio is given
`gtod_reduce=1`: there is no latency. All jobs of a run are sections of one fio job file, which in
kubestr's own has no `stonewall`: they ran at the same time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from leadline.formats.importer import Importer, Result
from leadline.formats.json_lines import load_json
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
from leadline.formats.text import BEYOND, Figures, caption_above, distinct_targets, split_lines
from leadline.metrics import Op

# The JSON of `kubestr fio -o json`: fio's figures as kubestr's Go types hold them.
#  Every field that is zero is left out (`omitempty`, pkg/fio/fio_types.go), so that a missing one
# is 0 and not unknown; a latency of 0 with I/O is what `gtod_reduce=1` leaves, and is not
# measured.

_TOOL: Final = "kubestr"
_NS: Final = 1e-9


def parse_kubestr_json(content: bytes) -> tuple[Result, ...]:
    """Every job of every test in the file. Raises FormatError with condition `empty-result`,
    `truncated-result` or `unreadable-result`."""
    document = _document(content)
    tests = document if isinstance(document, list) else [document]
    found: list[Result] = []
    for number, test in enumerate(tests):
        where = f"$[{number}]" if isinstance(document, list) else "$"
        if "fioConfig" in _mapping(test, where):
            found += _run(test, where)
        elif "Raw" in test and "FIO" in str(test.get("TestName")):
            raw = _mapping(test["Raw"], f"{where}.Raw")
            found += _run(raw, f"{where}.Raw")
    if not found:
        raise FormatError.empty("there is no fio run of kubestr in this file")
    return tuple(found)


def _document(content: bytes) -> object:
    """What begins with the first bracket: kubestr prints its progress before, in one stream."""
    starts = [start for start in (content.find(b"{"), content.find(b"[")) if start >= 0]
    if not starts:
        raise FormatError.truncated("there is no JSON in the file")
    end = max(content.rfind(b"}"), content.rfind(b"]")) + 1
    return load_json(content, min(starts), end, "kubestr's JSON")


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FormatError.unreadable(f"{where} is no object")
    return value


class _Numbers:
    def __init__(self) -> None:
        self.notes: list[Note] = []

    def read(self, mapping: Mapping[str, Any], key: str, where: str) -> float | None:
        """0 where missing; None, with a note, where it cannot be."""
        value = mapping.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise FormatError.unreadable(f"{where}[{key!r}] is no number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not 0 <= number < BEYOND:  # true for NaN, too
            self.notes.append(
                Note(
                    NoteKind.IMPOSSIBLE_VALUE,
                    f"{where}[{key!r}]",
                    f"{key} is {str(value)[:40]}, which cannot be",
                )
            )
            return None
        return number

    def count(self, mapping: Mapping[str, Any], key: str, where: str) -> int | None:
        value = self.read(mapping, key, where)
        return None if value is None else int(value)


def _run(raw: Mapping[str, Any], where: str) -> list[Result]:
    result = _mapping(raw.get("result", {}), f"{where}.result")
    entries = result.get("jobs", [])
    if not isinstance(entries, list) or not entries:
        raise FormatError.empty(f"{where}.result has no jobs: fio did not run")
    numbers = _Numbers()
    shared = _texts(result.get("global options", {}), f"{where}.result['global options']")
    jobs = [
        _job(_mapping(entry, place), shared, numbers, place, number)
        for number, entry in enumerate(entries)
        for place in [f"{where}.result.jobs[{number}]"]
    ]
    storage_class = _mapping(raw.get("storageClass", {}), f"{where}.storageClass")
    metadata = _mapping(storage_class.get("metadata", {}), f"{where}.storageClass.metadata")
    disks = _disks(result.get("disk_util", []), numbers, f"{where}.result.disk_util")
    version = str(result.get("fio version", ""))
    timestamp = numbers.read(result, "timestamp", f"{where}.result") or None

    def output(some: tuple[JobResult, ...], notes: tuple[Note, ...]) -> EngineOutput:
        return EngineOutput(
            version=version, timestamp_s=timestamp, jobs=some, disks=disks, notes=notes
        )

    notes = tuple(numbers.notes)
    together = output(tuple(jobs), notes)
    found: list[Result] = []
    for number, job in enumerate(jobs):
        selected: EngineOutput | FormatError = output((job,), notes if number == 0 else ())
        if not job.operations:
            selected = FormatError.empty(
                f"the job {job.name!r} did no I/O", f"{where}.result.jobs[{number}]"
            )
        found.append(
            Result(
                workload=job.name,
                output=selected,
                target=str(metadata.get("name", "")),
                tool=_TOOL,
                together=together if len(jobs) > 1 else None,
            )
        )
    return found


def _texts(value: object, where: str) -> dict[str, str]:
    options = _mapping(value, where)
    return {key: text for key, text in options.items() if isinstance(text, str)}


def _job(
    entry: Mapping[str, Any], shared: Mapping[str, str], numbers: _Numbers, where: str, number: int
) -> JobResult:
    own = _texts(entry.get("job options", {}), f"{where}['job options']")
    options = JobOptions(raw={**shared, **own}, whole=False)
    elapsed = numbers.read(entry, "elapsed", where)
    runtime_ms = numbers.read(entry, "job_runtime", where)
    user, system = numbers.read(entry, "usr_cpu", where), numbers.read(entry, "sys_cpu", where)
    operations = [
        _operation(op, part, numbers, place, measured=not options.flag("gtod_reduce"))
        for op in (Op.READ, Op.WRITE, Op.TRIM)
        for place in [f"{where}.{op.value}"]
        for part in [_mapping(entry.get(op.value, {}), place)]
        if part.get("total_ios")
    ]
    return JobResult(
        name=str(entry.get("jobname", "")) or f"job {number + 1}",
        group=numbers.count(entry, "groupid", where) or 0,
        error=numbers.count(entry, "error", where) or 0,
        options=options,
        job_runtime_s=(runtime_ms or 0.0) / 1000,
        elapsed_s=elapsed or 0.0,
        user_cpu=None if user is None else user / 100,
        system_cpu=None if system is None else system / 100,
        operations=tuple(operations),
    )


def _operation(
    op: Op, part: Mapping[str, Any], numbers: _Numbers, where: str, *, measured: bool
) -> Operation:
    runtime_ms = numbers.read(part, "runtime", where)
    # `bw_bytes` is not in every fio that kubestr's images had; `bw` is KiB/s in all.
    exact = "bw_bytes" in part
    bandwidth = numbers.read(part, "bw_bytes" if exact else "bw", where)
    total_ios = numbers.count(part, "total_ios", where)
    return Operation(
        op=op,
        iops=numbers.read(part, "iops", where),
        bandwidth_bps=bandwidth if exact or bandwidth is None else bandwidth * 1024,
        total_ios=total_ios,
        io_bytes=numbers.count(part, "io_bytes", where),
        runtime_s=None if runtime_ms is None else runtime_ms / 1000,
        short_ios=numbers.count(part, "short_ios", where) or 0,
        dropped_ios=numbers.count(part, "drop_ios", where) or 0,
        submission=_latency(part, "slat_ns", numbers, where, total_ios) if measured else None,
        completion=_latency(part, "clat_ns", numbers, where, total_ios) if measured else None,
        total=_latency(part, "lat_ns", numbers, where, total_ios) if measured else None,
    )


def _latency(
    part: Mapping[str, Any], key: str, numbers: _Numbers, where: str, count: int | None
) -> Latency | None:
    given = _mapping(part.get(key, {}), f"{where}.{key}")
    if not given.get("mean"):
        return None

    def seconds(name: str) -> float | None:
        value = numbers.read(given, name, f"{where}.{key}")
        return None if value is None else value * _NS

    return Latency(
        min_s=seconds("min"),
        max_s=seconds("max"),
        mean_s=seconds("mean"),
        stddev_s=seconds("stddev"),
        count=count,
    )


def _disks(value: object, numbers: _Numbers, where: str) -> tuple[DiskUse, ...]:
    if not isinstance(value, list):
        raise FormatError.unreadable(f"{where} is no list")
    found = []
    for index, entry in enumerate(value):
        place = f"{where}[{index}]"
        disk = _mapping(entry, place)
        busy = numbers.read(disk, "util", place)
        found.append(
            DiskUse(
                name=str(disk.get("name", "")),
                read_ios=numbers.count(disk, "read_ios", place) or 0,
                write_ios=numbers.count(disk, "write_ios", place) or 0,
                read_merges=numbers.count(disk, "read_merges", place) or 0,
                write_merges=numbers.count(disk, "write_merges", place) or 0,
                busy_share=None if busy is None else busy / 100,
            )
        )
    return tuple(found)


TOOL: Final = "kubestr"
_KIB: Final = 1024.0
_QUOTE = re.compile(r"[>|]? ?")
_RUNNING = re.compile(r"Running FIO test \(.*\) on StorageClass \((?P<target>[^()]*)\).*")
_RESULTS: Final = "FIO test results:"
_VERSION = re.compile(r"FIO version - (?P<version>\S*)")
_GLOBAL = re.compile(r"Global options - (?P<options>.*)")
_JOB = re.compile(r"JobName: ?(?P<name>.*)")
_OPTIONS = re.compile(
    r"  blocksize=(?P<bs>\S*) filesize=(?P<size>\S*) iodepth=(?P<iodepth>\S*) rw=(?P<rw>\S*)"
)
_DIRECTION = re.compile(r"(?P<op>read|write):")
_RATES = re.compile(r"  IOPS=(?P<iops>\S*) BW\(KiB/s\)=(?P<bandwidth>\S*)")
# Of samples: their mean differs from the rate over the whole run, which is taken.
_SAMPLES = re.compile(r"  (?:iops|bw\(KiB/s\)): min=\S* max=\S* avg=\S*")
_DISKS: Final = "Disk stats (read/write):"
_DISK = re.compile(
    r"  (?P<name>\S+): ios=(?P<reads>\d+)/(?P<writes>\d+) "
    r"merge=(?P<read_merges>\d+)/(?P<write_merges>\d+) ticks=\d+/\d+ in_queue=\d+, "
    r"util=(?P<busy>[\d.]+)%",
    re.ASCII,
)
_STATUS: Final = "  -> OK"
# A count of I/Os has fewer digits than this; Python refuses to read very long ones.
_DIGITS: Final = 20


@dataclass(slots=True, kw_only=True)
class _Job:
    name: str
    line: int
    options: dict[str, str] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    direction: Op | None = None


@dataclass(slots=True, kw_only=True)
class _Run:
    """One run of kubestr's while it is read."""

    line: int
    target: str
    caption: str
    version: str = ""
    options: dict[str, str] = field(default_factory=dict)
    jobs: list[_Job] = field(default_factory=list)
    disks: list[DiskUse] = field(default_factory=list)
    in_disks: bool = False
    figures: Figures = field(default_factory=Figures)


def parse_kubestr(content: bytes) -> tuple[Result, ...]:
    """Every job of every run. Raises FormatError with condition `empty-result`,
    `truncated-result` or `unreadable-result`; text that was overwritten on its way is refused with
    the line."""
    if not content.strip():
        raise FormatError.empty("the file is empty")
    lines = [
        _QUOTE.sub("", line, count=1) if line.startswith(">") else line
        for line in split_lines(content)
    ]
    runs = _runs(lines)
    if not runs:
        raise FormatError.unreadable("there is no result of kubestr's in the file")
    targets = [run.target for run in runs]
    if not all(targets):
        targets = distinct_targets(targets, [run.caption for run in runs])
    return tuple(
        result
        for run, target in zip(runs, targets, strict=True)
        for result in _results(run, target)
    )


def _runs(lines: Sequence[str]) -> list[_Run]:
    runs: list[_Run] = []
    target, last, index = "", 0, 0
    while index < len(lines):
        line = lines[index].strip()
        if running := _RUNNING.fullmatch(line):
            target = running["target"]
        elif line.startswith(_RESULTS) or _VERSION.fullmatch(line):
            if line.startswith(_RESULTS) and line != _RESULTS:
                raise _garbled(line, index)
            run = _Run(line=index + 1, target=target, caption=caption_above(lines, index, last))
            index = last = _read_run(run, lines, index)
            runs.append(run)
            target = ""
            continue
        index += 1
    return runs


def _garbled(line: str, index: int) -> FormatError:
    return FormatError.unreadable(
        f"{line[:80]!r} is no line of kubestr's; the text was changed or overwritten",
        f"line {index + 1}",
    )


def _read_run(run: _Run, lines: Sequence[str], index: int) -> int:
    """Read from the heading on; returns the first line that is not of this run."""
    start, after_blank = index, False
    while index < len(lines):
        line = lines[index].rstrip()
        again = line.strip() == _RESULTS or (_VERSION.fullmatch(line.strip()) and run.version)
        if line.startswith("```") or (again and index > start):
            break
        if line and not _take(run, line, index):
            if after_blank and run.jobs:
                break
            raise _garbled(line, index)
        after_blank = not line
        index += 1
    return index


def _take(run: _Run, line: str, index: int) -> bool:
    """Take a line into the run; False for one that kubestr does not print there."""
    job = run.jobs[-1] if run.jobs else None
    bare = line.strip()
    if bare == _RESULTS or bare.startswith(_STATUS.strip()):
        return True
    if version := _VERSION.fullmatch(bare):
        run.version = version["version"]
    elif (options := _GLOBAL.fullmatch(line)) and not run.jobs:
        pairs = (pair.partition("=") for pair in options["options"].split())
        run.options = {key: value for key, _, value in pairs if value}
    elif name := _JOB.fullmatch(line):
        run.jobs.append(_Job(name=name["name"].strip(), line=index + 1))
    elif (options := _OPTIONS.fullmatch(line)) and job and not job.options:
        job.options = {key: value for key, value in options.groupdict().items() if value}
    elif (direction := _DIRECTION.fullmatch(line)) and job:
        job.direction = Op(direction["op"])
    elif (rates := _RATES.fullmatch(line)) and job and job.direction:
        where = f"line {index + 1}"
        job.operations.append(
            Operation(
                op=job.direction,
                iops=run.figures.number(rates["iops"], where, "IOPS"),
                bandwidth_bps=run.figures.number(rates["bandwidth"], where, "BW(KiB/s)", _KIB),
            )
        )
        job.direction = None
    elif line == _DISKS:
        run.in_disks = True
    elif run.in_disks and (disk := _DISK.fullmatch(line)):
        run.disks.append(_disk(disk, index))
    else:
        return bool(_SAMPLES.fullmatch(line) and job and job.operations)
    return True


def _disk(disk: re.Match[str], index: int) -> DiskUse:
    if any(len(disk[key]) > _DIGITS for key in ("reads", "writes", "read_merges", "write_merges")):
        raise _garbled(disk[0], index)
    busy = Figures().number(disk["busy"], f"line {index + 1}", "util", 0.01)
    return DiskUse(
        name=disk["name"],
        read_ios=int(disk["reads"]),
        write_ios=int(disk["writes"]),
        read_merges=int(disk["read_merges"]),
        write_merges=int(disk["write_merges"]),
        busy_share=busy,
    )


def _results(run: _Run, target: str) -> list[Result]:
    if not run.jobs:
        raise FormatError.truncated("kubestr printed no job", f"line {run.line}")
    names = [job.name or f"job {number}" for number, job in enumerate(run.jobs, start=1)]
    jobs = [
        JobResult(
            name=name,
            group=number,
            options=JobOptions(raw={**run.options, **job.options}, whole=False),
            operations=tuple(job.operations),
        )
        for number, (name, job) in enumerate(zip(names, run.jobs, strict=True))
    ]
    for job in run.jobs:
        if not job.options:
            run.figures.note(
                NoteKind.LEFT_OUT, f"line {job.line}", "kubestr printed no options of this job"
            )
    together = EngineOutput(
        version=run.version,
        jobs=tuple(jobs),
        disks=tuple(run.disks),
        notes=tuple(run.figures.notes),
    )
    return [
        Result(
            workload=job.name,
            output=_output(together, job, given, last=given is run.jobs[-1]),
            target=target,
            tool=TOOL,
            together=together if len(jobs) > 1 else None,
        )
        for job, given in zip(jobs, run.jobs, strict=True)
    ]


def _output(
    together: EngineOutput, job: JobResult, given: _Job, *, last: bool
) -> EngineOutput | FormatError:
    if job.operations:
        notes = together.notes if job is together.jobs[0] else ()
        return replace(together, jobs=(job,), notes=notes)
    return FormatError(
        "truncated-result" if last and not together.disks else "empty-result",
        f"kubestr printed no figures of the job {job.name!r}",
        context=(f"line {given.line}",),
    )


def _read(contents: Mapping[str, bytes]) -> tuple[Result, ...]:
    return tuple(
        result
        for content in contents.values()
        for result in (parse_kubestr_json if _is_json(content) else parse_kubestr)(content)
    )


def _is_json(content: bytes) -> bool:
    return b'"fioConfig"' in content or b'"TestName"' in content


def _recognises(name: str, head: bytes) -> bool:
    if _is_json(head):
        return b"FIO test results" in head or b'"fioConfig"' in head
    return _RESULTS.encode() in head or (b"FIO version - " in head and b"JobName:" in head)


IMPORTER = Importer(
    kind=TOOL,
    summary="kubestr fio: its text, also inside documents, and its JSON",
    recognises=_recognises,
    read=_read,
)
