"""Archives verified by another process, while this one reads and judges them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from leadline.archive.reader import Run
from leadline.archive.verify import Verification, verify
from leadline.worker import begin_work

# Fewer are verified before another process is there.
_WORTH_A_PROCESS = 200

Verified = Callable[[], tuple[Verification, ...]]


@contextmanager
def verifying(runs: Sequence[Run]) -> Iterator[Verified]:
    """Begin to verify archives, and give what waits for the verification of each, in their order.

    Large archives are verified beside what is done in the `with` block, if there is a core for it;
    small ones when they are asked for. To be begun before there are threads. Raises
    LeadlineError(`archive-damaged`) for an archive that no verb opens.
    """
    cores = len(os.sched_getaffinity(0))
    trials = sum(len(run.trial_folders) for run in runs)
    if cores < 2 or trials < _WORTH_A_PROCESS:
        yield lambda: tuple(map(verify, runs))
        return
    import multiprocessing
    from concurrent.futures import BrokenExecutor, ProcessPoolExecutor

    # A fork has all modules loaded. The parent has the other core.
    context = multiprocessing.get_context("fork")
    workers = min(len(runs), cores - 1)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=begin_work)
    try:
        begun = [pool.submit(_verified, run.path) for run in runs]

        def ended() -> tuple[Verification, ...]:
            try:
                return tuple(one.result() for one in begun)
            except BrokenExecutor:  # somebody, or the kernel for want of memory, ended it
                return tuple(map(verify, runs))

        yield ended
    finally:
        pool.shutdown(cancel_futures=True)


def _verified(path: Path) -> Verification:
    return verify(Run(path))
