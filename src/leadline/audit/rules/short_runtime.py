"""short-runtime: the job ran for less than its runtime."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import JobEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity

# Defaults of the methodology.
ENOUGH = 0.95
HALF = 0.5
# The rate of a ramp is unknown: its bytes count up to this multiple of the mean rate.
RAMP_RATE = 2.0
# Options that end a job early on purpose, or set its amount of I/O other than by `size`. In a
# search for a latency fio reports only the last window.
_OTHER_ENDS = (
    *("steadystate", "ss", "io_size", "io_limit", "number_ios", "fill_device", "filesize"),
    "latency_target",
)


@rule("short-runtime", "The job ran for less than its runtime.", JobEvidence)
def check(evidence: JobEvidence) -> Iterator[RuleFinding]:
    if evidence.trial.lifecycle is not None:
        return  # it ends when its volumes are gone
    asked, ran = _asked_s(evidence), evidence.longest_s
    ramp_s = _only_ramped_s(evidence)
    if ramp_s is not None:
        yield _in_the_ramp(evidence, ramp_s)
        return
    if not asked or ran is None or evidence.job.steady:
        return
    if any(key in evidence.job.options.raw for key in _OTHER_ENDS) or ran >= ENOUGH * asked:
        return
    yield RuleFinding(
        severity=Severity.WARNING if ran >= HALF * asked else Severity.ERROR,
        evidence={"runtime_s": ran, "asked_s": asked, "share": ran / asked},
        message=f"The job ran for {ran:.3g} s of {asked:.3g} s and ended without an error.",
        remedy="Set time_based, and find what ended the job: a signal, a full target, or its size.",
    )


def _only_ramped_s(evidence: JobEvidence) -> float | None:
    """Return the ramp if the job ended in it; None otherwise. fio resets its counters after the
    ramp: such a job has I/Os and no latencies."""
    options, ran, parts = evidence.job.options, evidence.longest_s, evidence.parts
    asked, ramp_s = options.seconds("runtime"), options.seconds("ramp_time")
    if not asked or not ramp_s or ran is None or ran >= HALF * min(asked, ramp_s) or not parts:
        return None
    measured = any(
        latency for operation in parts for latency in (operation.total, operation.completion)
    )
    return None if measured or not options.whole or options.flag("gtod_reduce") else ramp_s


def _in_the_ramp(evidence: JobEvidence, ramp_s: float) -> RuleFinding:
    ran = evidence.longest_s or 0.0
    return RuleFinding(
        severity=Severity.ERROR,
        evidence={"runtime_s": ran, "ramp_s": ramp_s},
        message=f"The job ended after {ran:.3g} s, within its ramp of {ramp_s:.3g} s. No latency "
        "was measured.",
        remedy="Set time_based, or a size that lasts longer than the ramp.",
    )


def _asked_s(evidence: JobEvidence) -> float | None:
    """Return the seconds that the job should last; None if it may end before."""
    trial, options = evidence.trial, evidence.job.options
    if trial.generated and trial.cell is not None:
        return trial.cell.workload.runtime_s
    asked = options.seconds("runtime")
    if asked is None or options.flag("time_based"):
        return asked
    # Without time_based a job ends after its size; only a job with more to do is short.
    size, processes = _usable_bytes(evidence), evidence.processes
    moved = [operation.io_bytes for operation in evidence.parts if operation.io_bytes is not None]
    if size is None or processes is None or len(moved) < len(evidence.parts):
        return None
    to_do = size * processes * max(1, options.integer("loops", 1))
    return asked if sum(moved) * _with_ramp(evidence) < ENOUGH * to_do else None


def _usable_bytes(evidence: JobEvidence) -> float | None:
    """Return the bytes of a job's `size` that hold data; None if unknown. A zone holds less than
    its size (1,077 of 2,048 MiB on a ZN540), and each job does whole zones."""
    options = evidence.job.options
    size = options.size("size")
    if size is None or options.text("zonemode") != "zbd":
        return size
    zone, capacity = options.size("zonesize"), options.size("zonecapacity")
    return size / zone * capacity if zone and capacity else None


def _with_ramp(evidence: JobEvidence) -> float:
    """Return the most that a job may have moved, as a multiple of the reported bytes: those of the
    ramp count to its size, and are not reported."""
    ramp_s, ran = evidence.job.options.seconds("ramp_time"), evidence.longest_s
    return 1 + RAMP_RATE * ramp_s / ran if ramp_s and ran else 1.0
