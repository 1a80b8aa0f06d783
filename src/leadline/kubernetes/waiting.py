"""Waiting for a cluster within a bound, while somebody may ask to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

_PAUSE_S = 0.5


def polls(bound_s: float, go_on: Callable[[], None], pause_s: float = _PAUSE_S) -> Iterator[None]:
    """One step now, then one each pause until `bound_s` seconds have gone by. `go_on` raises
    where somebody asked to stop."""
    end = time.monotonic() + bound_s
    while True:
        go_on()
        yield
        if time.monotonic() > end:
            return
        time.sleep(pause_s)
