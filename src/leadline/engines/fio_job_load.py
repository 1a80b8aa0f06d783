"""What a load level adds to a job file: variables that each client of a fleet fills in for itself,
and the rate of an open loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leadline.formats import fio_job_file
from leadline.plan.models import Pattern, Phase

# In one job the next I/O waits for those in flight before it sleeps until its time
# (docs/internals/fleet.md), so an open loop is shared by several jobs, each of which rarely has
# one in flight when its next is due.
_MOST_JOBS = 16
# fio takes whole I/Os per second for each job; what the plan offers is met this well.
_ROUNDING = 0.005
_SEQUENTIAL = (Pattern.READ, Pattern.WRITE, Pattern.RW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A value of each client's own. fio itself would take it from the environment: with the
    variables set, the archived text is a job file for one client."""

    name: str
    told: str = ""

    @property
    def place(self) -> str:
        return f"${{{self.name}}}"

    def of(self, client: int, value: int) -> str:
        """The line that tells the value of one client."""
        return f"# {self.name} of client {client} = {value}"


FILES = Variable(
    name=fio_job_file.FILES,
    told=f"# {fio_job_file.FILES} of client k = ck. (nothing for client 1)",
)


def _growing(name: str, first: int, step: int) -> Variable:
    return Variable(name=name, told=f"# {name} of client k = {first} + {step} x (k - 1)")


def seed_of(seed: int) -> Variable:
    """Clients do not read the same offsets at the same time."""
    return _growing("LEADLINE_SEED", seed, 1)


def offset(number: int, phase: Phase) -> Variable:
    """Where a client's stretch of a device begins in the phase of that number."""
    return _growing(f"LEADLINE_OFFSET_{number}", 0, phase.numjobs * phase.size)


def open_loop(phase: Phase, *, splits: bool) -> Mapping[str, object]:
    """fio's options for Poisson arrivals at the phase's rate. Of random I/O that `splits` the jobs
    are as many as may be in flight, up to 16; together they never have more in flight than the
    phase says. A sequence stays in its own jobs."""
    assert phase.rate_iops is not None
    read_share = 1.0 if phase.pattern.reads else 0.0
    if len(phase.pattern.ops) == 2:
        read_share = (50 if phase.read_share is None else phase.read_share) / 100
    rates = (phase.rate_iops * read_share, phase.rate_iops * (1 - read_share))
    jobs, iodepth = phase.numjobs, phase.iodepth
    if splits and phase.pattern not in _SEQUENTIAL:
        jobs = _jobs(rates, phase.iodepth * phase.numjobs)
        iodepth = phase.iodepth * phase.numjobs // jobs
    per_job = [max(1, round(rate / jobs)) if rate else 0 for rate in rates]
    return {
        "iodepth": iodepth,
        "numjobs": jobs,
        "rate_iops": ",".join(str(rate) if rate else "" for rate in per_job).rstrip(","),
        "rate_process": "poisson",
    }


def _jobs(rates: tuple[float, float], in_flight: int) -> int:
    """The largest number of jobs whose whole rates add up to the rates that are offered."""

    def error(jobs: int) -> float:
        return max(abs(round(rate / jobs) * jobs - rate) / rate for rate in rates if rate)

    most = max(1, min(_MOST_JOBS, in_flight))
    fitting = [jobs for jobs in range(most, 0, -1) if error(jobs) <= _ROUNDING]
    return fitting[0] if fitting else min(range(most, 0, -1), key=error)
