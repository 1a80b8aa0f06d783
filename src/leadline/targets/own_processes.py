"""Daemons that were started for a stand: found by their command lines, which name its folder, and
ended by their pids."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_END_S = 15.0


def found(program: str, folder: Path) -> tuple[int, ...]:
    """Pids of a program's processes whose command line names something below `folder`."""
    below = os.fsencode(folder) + b"/"
    pids = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        named = Path(os.fsdecode(words[0])).name == program
        if named and any(word.startswith(below) for word in words[1:]):
            pids.append(int(entry.name))
    return tuple(pids)


def end(program: str, folder: Path, *, by: signal.Signals = signal.SIGTERM) -> bool:
    """Ask the processes to end, and wait; whether they did."""
    for pid in found(program, folder):
        with suppress(ProcessLookupError):
            os.kill(pid, by)
    return gone(program, folder)


def gone(program: str, folder: Path, within_s: float = _END_S) -> bool:
    """Wait until there are none; whether that is so."""
    until = time.monotonic() + within_s
    while pids := found(program, folder):
        for pid in pids:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
