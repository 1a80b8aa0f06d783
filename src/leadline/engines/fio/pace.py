"""Whether an open loop reaches the rate that it offers: while fio runs, and from its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline import errors
from leadline.archive.raw import read_output
from leadline.archive.records import Problem
from leadline.engines.process import LinkedStop
from leadline.formats.fio.job_file import options_of
from leadline.formats.result import EngineOutput, FormatError
from leadline.plan.models import REACHED_SHARE, chance_iops
from leadline.runner.events import StopRequest
from leadline.units import parse_duration

# A running trial is stopped below this share of the offered rate, on average since the ramp and in
# each of the last seconds. After a short stall fio catches up, and is above it again.
_CLEAR_SHARE = 0.8
_CLEAR_S = 5.0
_RECENT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A job section: the rate that all its jobs offer (None: closed loop), and its duration."""

    name: str
    offered_iops: float | None
    block_size: int
    ramp_s: float
    runtime_s: float


def sections_of(text: str) -> tuple[Section, ...]:
    """The sections of a generated job file; none of a user's own, which may use other options."""
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
    """Checks the rates of an execution; `problem` is set when they are clearly too low."""

    def __init__(self, sections: Sequence[Section], clients: int = 1) -> None:
        self._sections = sections
        self._clients = clients
        self._number = -1
        self._last_s = 0.0
        self._ios = 0.0
        self._seconds = 0.0
        self._recent: list[float] = []
        self.problem: Problem | None = None

    def section_at(self, elapsed_s: float) -> tuple[int, float]:
        """The number of the section that runs, and the seconds since the end of its ramp."""
        begun = 0.0
        for number, section in enumerate(self._sections):
            takes = section.ramp_s + section.runtime_s
            if elapsed_s < begun + takes:
                return number, elapsed_s - begun - section.ramp_s
            begun += takes
        return len(self._sections), 0.0

    def add(self, iops: float, elapsed_s: float) -> None:
        """Add the rate since the last call; `elapsed_s` counts from the first I/O."""
        number, after_ramp_s = self.section_at(elapsed_s)
        since_s, self._last_s = elapsed_s - self._last_s, elapsed_s
        if number != self._number:
            self._number, self._ios, self._seconds, self._recent = number, 0.0, 0.0, []
            return
        if number >= len(self._sections) or after_ramp_s < since_s:
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
            reached = self._ios / self._seconds
            period = f"over {self._seconds:.0f} s, and was stopped"
            self.problem = _rate_problem(offered, reached, period)


def shortfall(
    sections: Sequence[Section], output: EngineOutput, clients: int = 1
) -> Problem | None:
    """The problem of an open loop that ran to its end and did not reach its rate."""
    for section in sections:
        if section.offered_iops is None:
            continue
        offered = section.offered_iops * clients
        operations = [
            operation
            for job in output.jobs
            if job.name == section.name
            for operation in job.operations
        ]
        reached = sum(operation.iops or 0.0 for operation in operations)
        # A loop that is only a little slower keeps its result; the audit refuses its latency.
        if reached < REACHED_SHARE * offered - chance_iops(offered, section.runtime_s):
            return _rate_problem(offered, reached, f"over {section.runtime_s:g} s")
    return None


def _rate_problem(offered: float, reached: float, period: str) -> Problem:
    return Problem(
        code=errors.RATE_NOT_REACHED.code,
        fact=f"the open loop offered {offered:,.0f} IOPS and reached {reached:,.0f} {period}",
        hint="the target cannot serve that rate: offer less, or allow more I/Os in flight "
        "(iodepth) if its latency is the limit",
    )


class PacedStop(LinkedStop):
    """Stops an execution that falls behind its rate."""

    def __init__(self, user: StopRequest, pace: Pace) -> None:
        super().__init__(user)
        self._pace = pace

    def is_due(self) -> bool:
        return self._pace.problem is not None


def find_shortfall(
    folder: Path, engine: str, sections: Sequence[Section], clients: int = 1
) -> Problem | None:
    """The rate that an open loop did not reach, by its output in `folder`.

    None for a closed loop, and for output that cannot be read: its reader reports that.
    """
    if all(section.offered_iops is None for section in sections):
        return None
    try:
        return shortfall(sections, read_output(engine, folder), clients)
    except FormatError:
        return None
