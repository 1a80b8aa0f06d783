"""A process of ours that works for another one of ours, by fork."""

from __future__ import annotations

import ctypes
import gc
import signal

_PR_SET_PDEATHSIG = 1


def begin_work() -> None:
    """To be called first in a worker. Signals are for the parent, which ends us; if it is killed,
    nothing of us stays."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # What a file leaves behind has no cycles; looking for some would copy the parent's memory.
    gc.disable()
