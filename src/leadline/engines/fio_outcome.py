"""What fio's own words and numbers mean to a user, wherever it ran."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import Problem, TrialStatus
from leadline.engines.fio_choice import NO_DIRECT
from leadline.errors import ErrorKind
from leadline.formats.fio_json import parse_fio_json
from leadline.formats.output import FormatError
from leadline.runner.ports import Progress

# What an errno of fio's means to a user.
_MEANING: dict[int, ErrorKind] = {
    errno.ENOSPC: errors.TARGET_FULL,
    errno.EDQUOT: errors.TARGET_FULL,
    errno.EROFS: errors.TARGET_READ_ONLY,
    errno.EACCES: errors.TARGET_READ_ONLY,
    errno.EPERM: errors.TARGET_READ_ONLY,
    errno.ENOENT: errors.TARGET_GONE,
    errno.ENXIO: errors.TARGET_GONE,
    errno.ENODEV: errors.TARGET_GONE,
    errno.ESTALE: errors.TARGET_GONE,
    errno.EINVAL: errors.TARGET_UNSUITABLE,
}
_HINTS: dict[str, str] = {
    errors.TARGET_FULL.code: "make room on the target, then `leadline run --resume --retry-failed`",
    errors.TARGET_GONE.code: "bring the target back, then `leadline run --resume --retry-failed`",
    errors.TARGET_READ_ONLY.code: "check the mount options and the permissions of the target",
    errors.TARGET_UNSUITABLE.code: NO_DIRECT,
}
_RATES = re.compile(rb"\[((?:[rwt]=[\d.]+[kMG]?,?)+) IOPS\]")
_FACTORS = {"k": 1e3, "M": 1e6, "G": 1e9}


class Talk:
    """fio's ETA lines, as rates."""

    def __init__(self, progress: Callable[[Progress], None]) -> None:
        self.progress = progress
        self.rest = b""

    def take(self, chunk: bytes) -> None:
        *lines, self.rest = re.split(rb"[\r\n]", self.rest + chunk)
        self.rest = self.rest[-4096:]
        for line in lines:
            match = _RATES.search(line)
            if match:
                self.progress(Progress(iops=_rate(match[1].decode())))


def _rate(text: str) -> float:
    """IOPS in `r=60.8k,w=12`, reads and writes added."""
    total = 0.0
    for part in text.split(","):
        number = part.partition("=")[2]
        if number:
            factor = _FACTORS.get(number[-1], 1.0)
            total += float(number.rstrip("kMG")) * factor
    return total


def outcome_of(
    folder: Path, exit_status: int | None, prefix: str = ""
) -> tuple[TrialStatus, Problem | None]:
    """How a fio that ended by itself fared, by what it left in `folder`, in files that begin with
    `prefix`."""
    number = _told(folder, prefix)
    if exit_status == 0 and not number:
        return TrialStatus.COMPLETED, None
    # The words of a fio that went well may be warnings.
    number = number or _worded(folder, prefix)
    kind = _MEANING.get(number, errors.ENGINE_FAILED)
    why = os.strerror(number) if number else f"exit status {exit_status}"
    return TrialStatus.FAILED, Problem(
        code=kind.code,
        fact=f"fio failed: {why}",
        context=last_words(folder, prefix),
        hint=_HINTS.get(kind.code, "fio's own words are in the trial's stderr.txt"),
    )


def _told(folder: Path, prefix: str) -> int:
    """The first error that fio's JSON tells of, else 0."""
    try:
        output = parse_fio_json((folder / f"{prefix}{layout.FIO_OUTPUT}").read_bytes())
    except (OSError, FormatError):
        return 0
    return next((job.error for job in output.jobs if job.error), 0)


def _worded(folder: Path, prefix: str) -> int:
    """The error that fio's words end with, else 0."""
    names = {os.strerror(number).lower(): number for number in _MEANING}
    for line in last_words(folder, prefix):
        for words, number in names.items():
            if words in line.lower():
                return number
    return 0


def last_words(folder: Path, prefix: str = "", count: int = 4) -> tuple[str, ...]:
    """The last lines that fio wrote to stderr, or before its JSON."""
    lines: list[str] = []
    for name in (layout.STDERR, layout.FIO_OUTPUT):
        try:
            text = (folder / f"{prefix}{name}").read_bytes()[:65536].decode("utf-8", "replace")
        except OSError:
            continue
        lines += [line.strip() for line in text.split("{", 1)[0].splitlines() if line.strip()]
    return tuple(dict.fromkeys(lines[-count:]))
