"""Which of fio's I/O engines does a workload, wherever fio runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from leadline import errors
from leadline.errors import LeadlineError
from leadline.plan.models import EngineChoice, Workload
from leadline.runner.ports import Location

NO_DIRECT = (
    "direct I/O or the block size is not taken here; try `direct: false` in the workload (reads "
    "may then come from the page cache)"
)


def candidates(workload: Workload, engines: Collection[str]) -> list[EngineChoice]:
    """The engines to try, best first, of those that a fio was built with."""
    if workload.engine is not EngineChoice.AUTO:
        return [workload.engine]
    rings = (EngineChoice.IO_URING,) if workload.fits_rings else ()
    return [choice for choice in (*rings, EngineChoice.LIBAIO) if choice.value in engines]


def settled(
    workload: Workload,
    location: Location,
    choices: Sequence[EngineChoice],
    attempt: Callable[[EngineChoice], str | None],
) -> Workload:
    """The workload with the first engine that works: `attempt` says None, else what fio said.

    Raises LeadlineError: `target-unsuitable` without direct I/O, `engine-unknown`.
    """
    said: list[str] = []
    for choice in choices:
        told = attempt(choice)
        if told is None:
            return workload.model_copy(update={"engine": choice})
        said.append(f"{choice.value}: {told}")
    if workload.direct and any("Invalid argument" in line for line in said):
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"{location} does not take direct I/O",
            context=said,
            hint=NO_DIRECT,
        )
    raise LeadlineError(
        errors.ENGINE_UNKNOWN,
        f"no asynchronous I/O engine works on {location}"
        if workload.engine is EngineChoice.AUTO
        else f"the engine {workload.engine.value!r} does not work on {location}",
        context=said or ["this fio has neither io_uring nor libaio"],
        hint="a synchronous engine (`engine: psync`) never has more than one I/O in flight "
        "a job, so it needs `iodepth: 1`",
    )
