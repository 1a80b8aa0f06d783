"""Work in forked processes, for runs that are large enough."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_PR_SET_PDEATHSIG = 1


def begin_work() -> None:
    """To be called first in a worker. Signals are for the parent, which ends us; if it is killed,
    nothing of us stays."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # What a file leaves behind has no cycles; looking for some would copy the parent's memory.
    gc.disable()


@contextmanager
def without_collection() -> Iterator[None]:
    """Inside the block nothing looks for cycles, which took a sixth of the time: what is read stays
    to the end."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def spare_cores() -> int:
    """Return how many cores this process may use in addition to its own; none in a worker, whose
    parent uses them, and none for a process with threads."""
    import multiprocessing

    # The fork of a process with threads may keep their locks for ever.
    alone = multiprocessing.parent_process() is None and threading.active_count() == 1
    return len(os.sched_getaffinity(0)) - 1 if alone else 0


# What workers are to do: a fork has it, so that nothing of it is sent.
_calls: Sequence[Callable[[], Any]] = ()


def _answer(number: int) -> Any:
    return _calls[number]()


@contextmanager
def in_workers(calls: Sequence[Callable[[], Any]]) -> Iterator[list[Callable[[], Any]]]:
    """Begin calls in workers, in their order, and give for each what waits for its answer.

    Only answers are sent from process to process. To be used with cores to spare, and before there
    are threads. What a call raises is raised by what waits for it; a call whose worker died is done
    here.
    """
    import multiprocessing
    from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor

    global _calls
    before, _calls = _calls, tuple(calls)
    # A fork has all modules loaded.
    context = multiprocessing.get_context("fork")
    workers = max(1, min(len(calls), spare_cores()))
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=begin_work)

    def waits(call: Callable[[], Any], begun: Future[Any]) -> Callable[[], Any]:
        def ended() -> Any:
            try:
                return begun.result()
            except BrokenExecutor:  # killed by a user, or by the kernel for lack of memory
                return call()

        return ended

    try:
        # The first of them forks all workers.
        begun = [pool.submit(_answer, number) for number in range(len(calls))]
        yield [waits(call, one) for call, one in zip(calls, begun, strict=True)]
    finally:
        pool.shutdown(cancel_futures=True)
        _calls = before
