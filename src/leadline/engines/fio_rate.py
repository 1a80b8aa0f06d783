"""Whether an open loop keeps the rate that it offers: while it runs, and when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline import errors
from leadline.archive.records import Problem
from leadline.formats.fio_job_file import options_of
from leadline.formats.output import EngineOutput
from leadline.plan.offered import REACHED_SHARE, chance_iops
from leadline.runner.stop import StopRequest
from leadline.units import parse_duration

# While it runs: below this share of what was offered since the ramp, and in each of the last
# seconds. A target that stood still for a moment is above it again when fio catches up.
_CLEAR_SHARE = 0.8
_CLEAR_S = 5.0
_RECENT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A job section: what it offers per second over all of its jobs (None: closed loop), and how
    long it takes."""

    name: str
    offered_iops: float | None
    block_size: int
    ramp_s: float
    runtime_s: float


def sections_of(text: str) -> tuple[Section, ...]:
    """The sections of a generated job file; of a user's own nothing, as it may say it all in
    another way."""
    found: list[Section] = []
    shared: dict[str, str] = {}
    for name, options in options_of(text).items():
        options = shared | options
        if name == "global":
            shared = options
            continue
        try:
            rates = [float(rate) for rate in options.get("rate_iops", "").split(",") if rate]
            found.append(
                Section(
                    name=name,
                    offered_iops=sum(rates) * int(options.get("numjobs", "1")) if rates else None,
                    block_size=int(options["bs"]),
                    ramp_s=parse_duration(options.get("ramp_time", "0")),
                    runtime_s=parse_duration(options["runtime"]),
                )
            )
        except (KeyError, ValueError):
            return ()
    return tuple(found)


class Pace:
    """Sees the rates of an execution, and tells when they are clearly too low."""

    def __init__(self, sections: Sequence[Section], clients: int = 1) -> None:
        self._sections = sections
        self._clients = clients
        self._number = -1
        self._last_s = 0.0
        self._ios = 0.0
        self._seconds = 0.0
        self._recent: list[float] = []
        self.problem: Problem | None = None

    def at(self, elapsed_s: float) -> tuple[int, float]:
        """The number of the section that runs, and for how long it does behind its ramp."""
        begun = 0.0
        for number, section in enumerate(self._sections):
            takes = section.ramp_s + section.runtime_s
            if elapsed_s < begun + takes:
                return number, elapsed_s - begun - section.ramp_s
            begun += takes
        return len(self._sections), 0.0

    def see(self, iops: float, elapsed_s: float) -> None:
        """The rate over the time since it was seen before; the time counts from the first I/O."""
        number, behind_ramp_s = self.at(elapsed_s)
        since_s, self._last_s = elapsed_s - self._last_s, elapsed_s
        if number != self._number:
            self._number, self._ios, self._seconds, self._recent = number, 0.0, 0.0, []
            return
        if number >= len(self._sections) or behind_ramp_s < since_s:
            return
        offered = self._sections[number].offered_iops
        if offered is None:
            return
        offered *= self._clients
        self._ios += iops * since_s
        self._seconds += since_s
        self._recent = [*self._recent, iops][-_RECENT:]
        least = _CLEAR_SHARE * offered - chance_iops(offered, self._seconds)
        if (
            self._seconds >= _CLEAR_S
            and self._ios / self._seconds < least
            and max(self._recent) < _CLEAR_SHARE * offered
        ):
            self.problem = _short(
                offered, self._ios / self._seconds, f"over {self._seconds:.0f} s, and was stopped"
            )


def shortfall(
    sections: Sequence[Section], output: EngineOutput, clients: int = 1
) -> Problem | None:
    """What an open loop that ran to its end lacks of the rate that it offered."""
    for section in sections:
        if section.offered_iops is None:
            continue
        offered = section.offered_iops * clients
        operations = [
            one for job in output.jobs if job.name == section.name for one in job.operations
        ]
        reached = sum(one.iops or 0.0 for one in operations)
        # What lies between this and all but chance keeps its rate; the audit refuses its latency.
        if reached < REACHED_SHARE * offered - chance_iops(offered, section.runtime_s):
            return _short(offered, reached, f"over {section.runtime_s:g} s")
    return None


def _short(offered: float, reached: float, how: str) -> Problem:
    return Problem(
        code=errors.RATE_NOT_REACHED.code,
        fact=f"the open loop offered {offered:,.0f} IOPS and reached {reached:,.0f} {how}",
        hint="the target cannot take that rate: offer less, or more I/Os in flight (iodepth) if "
        "its latency is what holds it back",
    )


class Watched(StopRequest):
    """A request to stop by the user, or for a problem that is seen while an execution runs."""

    def __init__(self, user: StopRequest) -> None:
        self._user = user

    def problem(self) -> Problem | None:
        """What speaks against going on."""
        return None

    @property
    def count(self) -> int:
        return self._user.count + (self.problem() is not None)

    @count.setter
    def count(self, value: int) -> None:
        self._user.count = value

    @property
    def impatient(self) -> bool:
        return self._user.impatient


class Paced(Watched):
    """Stops what falls behind its pace."""

    def __init__(self, user: StopRequest, pace: Pace) -> None:
        super().__init__(user)
        self._pace = pace

    def problem(self) -> Problem | None:
        return self._pace.problem
