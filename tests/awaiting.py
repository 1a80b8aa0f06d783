"""Waiting for what other processes and threads do, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

BOUND_S = 60.0


def wait_for(what: Callable[[], object], timeout_s: float = BOUND_S) -> None:
    """Until it is so; AssertionError where it never is."""
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s"
        time.sleep(0.05)


def lines_in(path: Path) -> int:
    """How many whole lines a file has; none where it is not there yet."""
    return path.read_bytes().count(b"\n") if path.exists() else 0
