"""Results of `kubestr fio`: the text that it prints, and its `-o json`.

Both are fio's own JSON as kubestr's Go types hold it, so that what those lack is lost and every
zero is left out (pkg/fio/fio_types.go). IOPS are 32-bit floats. By default fio is given
`gtod_reduce=1`: there is no latency. All jobs of a run are sections of one fio job file, which in
kubestr's own has no `stonewall`: they ran at the same time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from leadline.formats.importer import Importer, Result, each_file
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

TOOL: Final = "kubestr"
_NS: Final = 1e-9


def parse_kubestr_json(content: bytes) -> tuple[Result, ...]:
    """Every job of every test in the file. Raises FormatError with condition `empty-result`,
    `truncated-result` or `unreadable-result`."""
    document = _document(content)
    in_list = isinstance(document, list)
    found: list[Result] = []
    for number, value in enumerate(document if in_list else [document]):
        test = _Object.checked(value, f"$[{number}]" if in_list else "$", [])
        if "fioConfig" in test.values:
            found += _json_results(test)
        elif "Raw" in test.values and "FIO" in str(test.values.get("TestName")):
            found += _json_results(test.inner("Raw"))
    if not found:
        raise FormatError.empty("there is no fio run of kubestr in this file")
    return tuple(found)


def _document(content: bytes) -> Any:
    """What begins with the first bracket: kubestr prints its progress before, in one stream."""
    starts = [start for start in (content.find(b"{"), content.find(b"[")) if start >= 0]
    if not starts:
        raise FormatError.truncated("there is no JSON in the file")
    end = max(content.rfind(b"}"), content.rfind(b"]")) + 1
    return load_json(content, min(starts), end, "kubestr's JSON")


@dataclass(frozen=True, slots=True)
class _Object:
    """A JSON object with its path and the notes on its file. A field that is zero is left out
    (`omitempty`, pkg/fio/fio_types.go), so that a missing one is 0 and not unknown."""

    values: Mapping[str, Any]
    where: str
    notes: list[Note]

    @classmethod
    def checked(cls, value: object, where: str, notes: list[Note]) -> _Object:
        if not isinstance(value, dict):
            raise FormatError.unreadable(f"{where} is no object")
        return cls(value, where, notes)

    def inner(self, key: str) -> _Object:
        where = f"{self.where}.{key}" if key.isidentifier() else f"{self.where}[{key!r}]"
        return self.checked(self.values.get(key, {}), where, self.notes)

    def text(self, key: str) -> str:
        return str(self.values.get(key, ""))

    def texts(self) -> dict[str, str]:
        return {key: value for key, value in self.values.items() if isinstance(value, str)}

    def number(self, key: str, unit: float = 1.0) -> float | None:
        """The value divided by `unit`; None, with a note, where it cannot be."""
        value = self.values.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise FormatError.unreadable(f"{self.where}[{key!r}] is no number")
        # Compared before it is a float, which long integers do not fit in; false for NaN, too.
        if 0 <= value < BEYOND:
            return float(value) / unit
        fact = f"{key} is {str(value)[:40]}, which cannot be"
        self.notes.append(Note(NoteKind.IMPOSSIBLE_VALUE, f"{self.where}[{key!r}]", fact))
        return None

    def count(self, key: str) -> int | None:
        value = self.number(key)
        return None if value is None else int(value)


def _json_results(run: _Object) -> list[Result]:
    notes: list[Note] = []
    run = replace(run, notes=notes)
    result = run.inner("result")
    entries = result.values.get("jobs", [])
    if not isinstance(entries, list) or not entries:
        raise FormatError.empty(f"{result.where} has no jobs: fio did not run")
    shared = result.inner("global options").texts()
    jobs = []
    for number, entry in enumerate(entries):
        fields = _Object.checked(entry, f"{result.where}.jobs[{number}]", notes)
        jobs.append(_json_job(fields, shared, number))
    metadata = run.inner("storageClass").inner("metadata")
    together = EngineOutput(
        version=result.text("fio version"),
        disks=_json_disks(result),
        timestamp_s=result.number("timestamp") or None,
        jobs=tuple(jobs),
        notes=tuple(notes),
    )
    found: list[Result] = []
    for number, job in enumerate(jobs):
        output: EngineOutput | FormatError = replace(
            together, jobs=(job,), notes=() if number else together.notes
        )
        if not job.operations:
            place = f"{result.where}.jobs[{number}]"
            output = FormatError.empty(f"the job {job.name!r} did no I/O", place)
        found.append(
            Result(
                workload=job.name,
                output=output,
                target=metadata.text("name"),
                tool=TOOL,
                together=together if len(jobs) > 1 else None,
            )
        )
    return found


def _json_job(job: _Object, shared: Mapping[str, str], number: int) -> JobResult:
    own = job.inner("job options").texts()
    options = JobOptions(raw={**shared, **own}, whole=False)
    elapsed_s, runtime_s = job.number("elapsed"), job.number("job_runtime", 1000)
    user_cpu, system_cpu = job.number("usr_cpu", 100), job.number("sys_cpu", 100)
    operations = [
        _json_operation(op, part, measured=not options.flag("gtod_reduce"))
        for op in (Op.READ, Op.WRITE, Op.TRIM)
        if (part := job.inner(op.value)).values.get("total_ios")
    ]
    return JobResult(
        name=job.text("jobname") or f"job {number + 1}",
        group=job.count("groupid") or 0,
        error=job.count("error") or 0,
        options=options,
        job_runtime_s=runtime_s or 0.0,
        elapsed_s=elapsed_s or 0.0,
        user_cpu=user_cpu,
        system_cpu=system_cpu,
        operations=tuple(operations),
    )


def _json_operation(op: Op, part: _Object, *, measured: bool) -> Operation:
    runtime_s = part.number("runtime", 1000)
    # `bw_bytes` is not in every fio that kubestr's images had; `bw` is KiB/s in all.
    exact = "bw_bytes" in part.values
    bandwidth_bps = part.number("bw_bytes") if exact else part.number("bw", 1 / _KIB)
    total_ios = part.count("total_ios")
    return Operation(
        op=op,
        iops=part.number("iops"),
        bandwidth_bps=bandwidth_bps,
        total_ios=total_ios,
        io_bytes=part.count("io_bytes"),
        runtime_s=runtime_s,
        short_ios=part.count("short_ios") or 0,
        dropped_ios=part.count("drop_ios") or 0,
        submission=_json_latency(part, "slat_ns", total_ios) if measured else None,
        completion=_json_latency(part, "clat_ns", total_ios) if measured else None,
        total=_json_latency(part, "lat_ns", total_ios) if measured else None,
    )


def _json_latency(part: _Object, key: str, count: int | None) -> Latency | None:
    """None for 0, which with I/O is what `gtod_reduce=1` leaves: not measured."""
    given = part.inner(key)
    if not given.values.get("mean"):
        return None

    def seconds(name: str) -> float | None:
        value = given.number(name)
        return None if value is None else value * _NS

    return Latency(
        min_s=seconds("min"),
        max_s=seconds("max"),
        mean_s=seconds("mean"),
        stddev_s=seconds("stddev"),
        count=count,
    )


def _json_disks(result: _Object) -> tuple[DiskUse, ...]:
    where = f"{result.where}.disk_util"
    entries = result.values.get("disk_util", [])
    if not isinstance(entries, list):
        raise FormatError.unreadable(f"{where} is no list")
    found = []
    for index, entry in enumerate(entries):
        disk = _Object.checked(entry, f"{where}[{index}]", result.notes)
        busy_share = disk.number("util", 100)
        found.append(
            DiskUse(
                name=disk.text("name"),
                read_ios=disk.count("read_ios") or 0,
                write_ios=disk.count("write_ios") or 0,
                read_merges=disk.count("read_merges") or 0,
                write_merges=disk.count("write_merges") or 0,
                busy_share=busy_share,
            )
        )
    return tuple(found)


# The text of `kubestr fio`.

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
# The last line of a run that succeeded; older texts have an arrow. kubestr colours the word.
_STATUS = re.compile(r"-(?:>|  ) ?OK")
_COLOUR = re.compile(r"\x1b\[[\d;]*m", re.ASCII)
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
        _COLOUR.sub("", _QUOTE.sub("", line, count=1) if line.startswith(">") else line)
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
    if bare == _RESULTS or _STATUS.match(bare):
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


def _read(content: bytes) -> tuple[Result, ...]:
    return parse_kubestr_json(content) if _is_json(content) else parse_kubestr(content)


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
    read=each_file(_read),
)
