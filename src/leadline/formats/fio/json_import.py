"""Importer `fio-json`: fio's JSON and json+ files, with the logs next to them.

Only logs of IOPS are read, for IOPS over time. The others are kept in the archive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from leadline.formats.fio.json_output import FioDocument, read_fio_text
from leadline.formats.fio.logs import Window, read_log, windows
from leadline.formats.importer import Importer, Result
from leadline.formats.result import EngineOutput, FormatError, JobOptions, JobResult, Note, NoteKind
from leadline.json_bins import COST
from leadline.metrics import Op

_TOOL: Final = "fio"
_BOM: Final = b"\xef\xbb\xbf"
_HEAD_BYTES: Final = 64 << 10
# X_iops.1.log of job 1, X_iops.log of all jobs (per_job_logs=0).
_LOG: Final = re.compile(r"(?P<stem>.+)_(?P<what>iops|bw|lat|clat|slat)(?:\.\d+)?\.log", re.DOTALL)
# Options that name the logs of a job: may have folders, is the job's name if empty.
_NAMED_LOG: Final = re.compile(rb'"write_(?:iops|bw|lat|hist)_log"\s*:\s*"([^"\\]{0,200})"')
_JOB_NAME: Final = re.compile(rb'"jobname"\s*:\s*"([^"\\]{1,200})"')
# Endings of the file X next to logs with the prefix X, the most likely first.
_OWNERS: Final = (".json", ".json+", "", ".txt", ".out")
# Where an object begins, its first key, and whether it is a member of another one.
_OBJECT: Final = re.compile(rb'(:\s*)?\{\s*"([^"\\]{1,40})"')
_FIRST_KEYS: Final = frozenset(
    {
        *(b"jobs", b"client_stats", b"disk_util", b"global options", b"cpu_idleness"),
        *(b"time", b"timestamp", b"timestamp_ms"),
    }
)
# Tools that leave fio's JSON in their own report, which their own importers read.
_OTHER_REPORT: Final = re.compile(rb"(?:FIO Benchmark|Dbench) Summary", re.IGNORECASE)
_FIO_SAYS: Final = re.compile(rb"^fio: ", re.MULTILINE)


def recognises(name: str, head: bytes) -> bool:
    """Test whether a file is fio's JSON, behind any text; or, for a name of a JSON file, the rest
    of a killed fio: nothing, the first bytes, or its messages on stderr."""
    # Looking through the whole head for words takes longer than all else here.
    if not head.lstrip().startswith(b"{") and _OTHER_REPORT.search(head):
        return False
    if any(_begins_document(found, head) for found in _OBJECT.finditer(head)):
        return True
    if not name.lower().endswith((".json", ".json+")):
        return False
    begun = b"".join(head[:64].removeprefix(_BOM).split())
    cut = not begun or (begun.startswith(b'{"fio') and b'{"fioversion":'.startswith(begun))
    return cut or _FIO_SAYS.search(head) is not None


def _begins_document(found: re.Match[bytes], head: bytes) -> bool:
    within, key = found.groups()
    if within:
        return False
    # Programs that pass fio's JSON on may sort its keys.
    return key == b"fio version" or (
        key in _FIRST_KEYS
        and (b'"fio version"' in head or (b'"jobname"' in head and b'"iodepth_level"' in head))
    )


def bundles(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Bundle each file by itself, and logs such as `X_iops.1.log` with the file X in their
    folder."""
    present = set(names)
    logs: dict[str, list[str]] = {}
    owned: set[str] = set()
    for name in names:
        log = _LOG.fullmatch(name)
        if log is None:
            continue
        owners = (log["stem"] + ending for ending in _OWNERS)
        owner = next(
            (file for file in owners if file in present and not _LOG.fullmatch(file)), None
        )
        if owner is not None:
            logs.setdefault(owner, []).append(name)
            owned.add(name)
    return tuple((name, *sorted(logs.get(name, ()))) for name in names if name not in owned)


def log_prefixes(head: bytes) -> tuple[str, ...]:
    """Return the prefixes of the logs that the options name, without their folders."""
    named = {found.rpartition(b"/")[2] for found in _NAMED_LOG.findall(head)}
    if b"" in named:
        named = (named - {b""}) | set(_JOB_NAME.findall(head))
    return tuple(sorted(name.decode("utf-8", "replace") for name in named))


def read(contents: Mapping[str, bytes]) -> tuple[Result, ...]:
    """Make one result per job name and execution in the file. Entries of one name are the processes
    or clients of one job. Raises FormatError."""
    owner = next((name for name in contents if not _LOG.fullmatch(name)), next(iter(contents)))
    content = contents[owner]
    try:
        text = read_fio_text(content)
    except FormatError as error:
        killed = error.condition != "unreadable-result"
        if killed and recognises(".json", content[:_HEAD_BYTES]):
            return (Result(workload="", output=error, tool=_TOOL),)
        raise
    if text.fault is not None and text.fault.condition != "truncated-result":
        raise text.fault
    logs = {name: log for name, log in contents.items() if name != owner}
    documents = tuple(_without_interim(text.documents))
    alone = len(documents) == 1 and text.fault is None
    results = [result for document in documents for result in _results(document, logs, alone=alone)]
    if text.fault is not None:
        results.append(Result(workload="", output=text.fault, tool=_TOOL))
    return tuple(results)


def _results(document: FioDocument, logs: Mapping[str, bytes], *, alone: bool) -> Iterator[Result]:
    whole = document.output
    names = list(dict.fromkeys(job.name for job in whole.jobs))
    if not names:
        lines = tuple(whole.noise.splitlines()[:4])
        nothing = FormatError.empty("fio's output has no job", *(lines))
        yield Result(workload="", output=nothing, tool=_TOOL)
        return
    if len(names) == 1:
        over_time, notes = _windows(logs, alone=alone)
        yield Result(
            workload=_workload(whole),
            output=replace(whole, notes=whole.notes + notes),
            tool=_TOOL,
            windows=over_time,
        )
        return
    for part in _parts(document):
        yield Result(workload=_workload(part), output=part, tool=_TOOL, together=whole)


def _parts(document: FioDocument) -> Iterator[EngineOutput]:
    """Yield the jobs of each name, with the notes on all and on them. Disk utilisation is known
    for all jobs together only."""
    whole = document.output
    jobs: dict[str, list[JobResult]] = {}
    of_place: dict[str, str] = {}
    for place, job in zip(document.places, whole.jobs, strict=True):
        jobs.setdefault(job.name, []).append(job)
        of_place[place] = job.name
    notes: dict[str | None, list[Note]] = {}
    for note in whole.notes:
        notes.setdefault(_job_at(note.where, of_place), []).append(note)
    for name, mine in jobs.items():
        about = (*notes.get(None, ()), *notes.get(name, ()))
        yield replace(whole, jobs=tuple(mine), disks=(), notes=about)


def _job_at(where: str, of_place: Mapping[str, str]) -> str | None:
    """Return the job whose JSON path `where` is, or lies in."""
    path = f"{where}."
    ends = (end for end, character in enumerate(path) if character in ".[")
    return next((of_place[path[:end]] for end in ends if path[:end] in of_place), None)


def _workload(output: EngineOutput) -> str:
    first = output.jobs[0]
    options: JobOptions = first.options
    parts = (options.text("rw"), options.text("bs"))
    return first.name or "-".join(part for part in parts if part)


def _windows(
    logs: Mapping[str, bytes], *, alone: bool
) -> tuple[Mapping[Op, tuple[Window, ...]], tuple[Note, ...]]:
    """Read IOPS over time from the logs of the only execution in a file; a note states why a log
    is not read."""
    given = {
        name: log
        for name, log in logs.items()
        if (found := _LOG.fullmatch(name)) and found["what"] == "iops"
    }
    if not alone:
        return {}, tuple(_left_out(name, "its execution is unknown") for name in given)
    read_logs = []
    for name, content in given.items():
        try:
            log = read_log(name, content)
        except FormatError as error:
            return {}, (_left_out(name, "; ".join((error.fact, *error.context))),)
        if log.impossible or log.backwards:
            place = f"{name}: line {log.impossible or log.backwards}"
            return {}, (_left_out(place, "a negative value, or time that goes back"),)
        read_logs.append(log)
    if not read_logs:
        return {}, ()
    found_windows = windows(read_logs)
    if found_windows:
        return {op: series for op, series in found_windows.items() if series}, ()
    return {}, tuple(_left_out(name, "its intervals make no common windows") for name in given)


def _left_out(name: str, fact: str) -> Note:
    return Note(NoteKind.LEFT_OUT, name, fact)


def _without_interim(documents: Sequence[FioDocument]) -> Iterator[FioDocument]:
    """Leave out the documents of an execution that was still running (--status-interval): the next
    document includes them."""
    interim = 0
    for number, document in enumerate(documents):
        if number + 1 < len(documents) and _goes_on(document.output, documents[number + 1].output):
            interim += 1
            continue
        if interim:
            note = _left_out("$", f"{interim} interim states of the same execution before it")
            document = replace(
                document, output=replace(document.output, notes=(*document.output.notes, note))
            )
            interim = 0
        yield document


def _goes_on(earlier: EngineOutput, later: EngineOutput) -> bool:
    """Test whether the later output is of the same execution: some job ran for most of the time
    between the two, and no job has fewer I/Os than before."""
    if earlier.timestamp_s is None or later.timestamp_s is None:
        return False
    passed_s = later.timestamp_s - earlier.timestamp_s
    before, after = _progress(earlier), _progress(later)
    if passed_s <= 0 or before.keys() != after.keys():
        return False
    steps = [(after[key][0] - before[key][0], after[key][1] - before[key][1]) for key in before]
    behind = any(ios < 0 or ran_s < 0 for ios, ran_s in steps)
    return not behind and max((ran_s for _, ran_s in steps), default=0.0) >= passed_s / 2


def _progress(output: EngineOutput) -> dict[tuple[int, str], tuple[int, float]]:
    """I/Os done and seconds run of each entry."""
    return {
        (number, job.name): (
            sum(operation.total_ios or 0 for operation in job.operations),
            max((operation.runtime_s or 0.0 for operation in job.operations), default=0.0),
        )
        for number, job in enumerate(output.jobs)
    }


IMPORTER = Importer(
    kind="fio-json",
    summary="fio's JSON or json+ output of any version, with its logs",
    recognises=recognises,
    read=read,
    cost=COST,
    bundles=bundles,
    log_prefixes=log_prefixes,
)
