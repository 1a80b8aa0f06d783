"""Waiting for what a watch's thread does, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

BOUND_S = 60.0


def until(there: Callable[[], object]) -> None:
    """Wait for something to be so; AssertionError where it never is."""
    deadline = time.monotonic() + BOUND_S
    while not there():
        assert time.monotonic() < deadline, f"not within {BOUND_S:g} s"
        time.sleep(0.02)


def lines_in(path: Path) -> int:
    """How many whole lines a file has; none where it is not there yet."""
    return path.read_bytes().count(b"\n") if path.exists() else 0
