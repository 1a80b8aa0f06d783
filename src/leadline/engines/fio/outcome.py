"""How a fio that ended fared, by its JSON and its error lines; its rate while it runs."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import Problem, TrialStatus
from leadline.engines.fio.choice import NO_DIRECT
from leadline.engines.outcome import (
    COMMON_KINDS,
    INTERRUPTED,
    Causes,
    failed_problem,
    hung_problem,
    last_lines,
    with_suspension,
)
from leadline.engines.process import Ended
from leadline.files import read_content
from leadline.formats.fio.json_output import parse_fio_json
from leadline.formats.result import FormatError
from leadline.json_bins import COST
from leadline.runner.ports import Job

_CAUSES = Causes(
    kinds={
        **COMMON_KINDS,
        errno.EACCES: errors.TARGET_READ_ONLY,
        errno.EPERM: errors.TARGET_READ_ONLY,
        errno.ENXIO: errors.TARGET_GONE,
        errno.ENODEV: errors.TARGET_GONE,
        errno.ESTALE: errors.TARGET_GONE,
        errno.EINVAL: errors.TARGET_UNSUITABLE,
    },
    hints={
        errors.TARGET_FULL: "free space on the target, then `leadline run --resume --retry-failed`",
        errors.TARGET_GONE: "bring the target back, then `leadline run --resume --retry-failed`",
        errors.TARGET_READ_ONLY: "check the mount options and the permissions of the target",
        errors.TARGET_UNSUITABLE: NO_DIRECT,
    },
)
_RATES = re.compile(rb"\[((?:[rwt]=[\d.]+[kMG]?,?)+) IOPS\]")
_FACTORS = {"k": 1e3, "M": 1e6, "G": 1e9}


def parse_rate(line: bytes) -> float | None:
    """IOPS in one of fio's ETA lines (`[r=60.8k,w=12 IOPS]`), reads and writes added."""
    match = _RATES.search(line)
    if not match:
        return None
    total = 0.0
    for part in match[1].decode().split(","):
        number = part.partition("=")[2]
        if number:
            total += float(number.rstrip("kMG")) * _FACTORS.get(number[-1], 1.0)
    return total


def local_outcome(ended: Ended, folder: Path, job: Job) -> tuple[TrialStatus, Problem | None]:
    """The outcome of a fio, or a client of fio servers, on this machine."""
    if ended.past_bound:
        problem = hung_problem("fio", ended, job.bound_s, error_lines(folder), "target")
        return TrialStatus.HUNG, with_suspension(problem, job.location)
    if ended.stopped:
        return TrialStatus.INTERRUPTED, INTERRUPTED
    status, found = finished_outcome(folder, ended.exit_status)
    return status, with_suspension(found, job.location) if found else None


def finished_outcome(
    folder: Path, exit_status: int | None, prefix: str = ""
) -> tuple[TrialStatus, Problem | None]:
    """The outcome of a fio that ended by itself, from its files in `folder` with `prefix`."""
    number = _json_errno(folder, prefix)
    if exit_status == 0 and not number:
        return TrialStatus.COMPLETED, None
    # Error lines of a fio that succeeded may be warnings.
    number = number or _text_errno(folder, prefix)
    context = error_lines(folder, prefix)
    return TrialStatus.FAILED, failed_problem("fio", number, exit_status, _CAUSES, context)


def _json_errno(folder: Path, prefix: str) -> int:
    try:
        path = folder / f"{prefix}{layout.FIO_OUTPUT}"
        output = parse_fio_json(read_content(path, cost=COST))
    except (OSError, FormatError):
        return 0
    return next((job.error for job in output.jobs if job.error), 0)


def _text_errno(folder: Path, prefix: str) -> int:
    """The error that fio's last lines name, else 0."""
    names = {os.strerror(number).lower(): number for number in _CAUSES.kinds}
    for line in error_lines(folder, prefix):
        for words, number in names.items():
            if words in line.lower():
                return number
    return 0


def error_lines(folder: Path, prefix: str = "") -> tuple[str, ...]:
    """The last lines that fio wrote to stderr, or before its JSON."""
    lines: list[str] = []
    for name in (layout.STDERR, layout.FIO_OUTPUT):
        try:
            text = (folder / f"{prefix}{name}").read_bytes()[:65536]
        except OSError:
            continue
        lines += last_lines(text.split(b"{", 1)[0])
    return tuple(dict.fromkeys(lines[-4:]))
