"""A user's own fio job file, used byte for byte.

Leadline reads its duration (to bound a trial) and its size (to check free space), and refuses one
that names its own files: the target decides where I/O goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leadline import errors
from leadline.errors import LeadlineError
from leadline.files import read_small_text
from leadline.plan.workload import JobFile
from leadline.units import parse_duration, parse_fio_size

# Options that take I/O, or other files, away from the target.
_ELSEWHERE = ("filename", "directory", "opendir", "include", "read_iolog", "write_iolog")
_LOG_OPTIONS = ("write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log")


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    line: int
    options: dict[str, str]


def read_job_file(path: Path) -> JobFile:
    """Raises LeadlineError(`job-file-invalid`) naming every fault with its line."""
    try:
        text = read_small_text(path)
    except (OSError, ValueError) as error:
        raise LeadlineError(
            errors.JOB_FILE_INVALID, f"the job file {str(path)!r} cannot be read: {error}"
        ) from error
    return parse_job_file(str(path), text)


def parse_job_file(path: str, text: str) -> JobFile:
    """Like read_job_file, for text already read; `path` is for messages and the record."""
    shared, sections, faults = _sections(text)
    jobs = [_Section(job.name, job.line, shared | job.options) for job in sections]
    if not jobs:
        faults.append("1: there is no job section")
    durations: list[float] = []
    ramps: list[float] = []
    footprint = 0
    writes = False
    for number, job in enumerate(jobs):
        options = job.options
        try:
            count = int(options.get("numjobs", "1"))
            timed = options.get("time_based", "0") not in ("0", "false")
            runtime = parse_duration(options.get("runtime", "0"))
            ramp = parse_duration(options.get("ramp_time", "0")) if timed else 0.0
            size = options.get("size", "0")
            footprint += 0 if "%" in size else parse_fio_size(size) * count
        except ValueError as error:
            faults.append(f"{job.line}: [{job.name}]: {error}")
            continue
        if not runtime:
            faults.append(
                f"{job.line}: [{job.name}] has no runtime, so that a trial could not be bounded"
            )
        writes = writes or options.get("rw", options.get("readwrite", "read")).split(":")[
            0
        ] not in (
            "read",
            "randread",
        )
        alone = number == 0 or "stonewall" in options or "wait_for_previous" in options
        if alone or not durations:
            durations.append(runtime)
            ramps.append(ramp)
        else:
            durations[-1] = max(durations[-1], runtime)
            ramps[-1] = max(ramps[-1], ramp)
    if faults:
        raise LeadlineError(
            errors.JOB_FILE_INVALID,
            f"the job file {path!r} cannot be used",
            context=[f"{path}:{fault}" for fault in faults],
            hint="leave out where the I/O goes: Leadline gives the job its target",
        )
    return JobFile(
        path=path,
        text=text,
        runtime_s=sum(durations),
        ramp_s=sum(ramps),
        footprint_bytes=footprint,
        writes=writes,
    )


def _sections(text: str) -> tuple[dict[str, str], list[_Section], list[str]]:
    """([global] options, job sections, faults as `line: message`)."""
    shared: dict[str, str] = {}
    sections: list[_Section] = []
    faults: list[str] = []
    current: dict[str, str] | None = None
    for number, written in enumerate(text.splitlines(), start=1):
        line = written.split(";")[0].split("#")[0].strip()
        if not line:
            continue
        if line.startswith("[") and "]" in line:
            name = line[1 : line.index("]")]
            if name == "global":
                current = shared
            else:
                sections.append(_Section(name, number, {}))
                current = sections[-1].options
            continue
        key, _, value = (part.strip() for part in line.partition("="))
        if current is None:
            faults.append(f"{number}: {key!r} comes before any [section]")
            continue
        if key.startswith("include ") or key in _ELSEWHERE:
            faults.append(f"{number}: {key.split()[0]!r} takes the I/O away from the target")
        if (key in _LOG_OPTIONS or key == "filename_format") and ("/" in value or ".." in value):
            faults.append(f"{number}: {key!r} must not hold a path")
        current[key] = value
    return shared, sections, faults
