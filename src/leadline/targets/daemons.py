"""Daemons of targets (zfs-fuse, rbd-fuse, qemu-nbd): found by a folder of the run, and ended.

Their command lines name the folder, also after a kill -9 of Leadline.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_END_S = 15.0


def command_lines(program: str) -> Iterator[tuple[int, list[bytes]]]:
    """The pid and the arguments of each process of a program."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if Path(os.fsdecode(words[0])).name == program:
            yield int(entry.name), words[1:]


def find_processes(program: str, folder: Path) -> tuple[int, ...]:
    """Pids of a program's processes whose command line names a path below `folder`."""
    below = os.fsencode(folder) + b"/"
    return tuple(
        pid
        for pid, words in command_lines(program)
        if any(word.startswith(below) for word in words)
    )


def end(
    program: str,
    folder: Path,
    signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGKILL),
) -> bool:
    """Send the processes each signal in turn until they have ended; whether they did."""
    for number in signals:
        for pid in find_processes(program, folder):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if await_end(program, folder):
            return True
    return False


def await_end(program: str, folder: Path, within_s: float = _END_S) -> bool:
    """Wait until the processes have ended; whether they did."""
    until = time.monotonic() + within_s
    while pids := find_processes(program, folder):
        for pid in pids:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
