"""short-runtime: the job ran for less time than was asked."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import JobEvidence
from leadline.audit.rule import Doubt, Rule
from leadline.findings import Severity

# Defaults of the methodology.
ENOUGH = 0.95
HALF = 0.5
# Options that end a job early on purpose, or set its amount of I/O in another way than `size`.
_OTHER_ENDS = ("steadystate", "ss", "io_size", "io_limit", "number_ios", "fill_device", "filesize")


def check(evidence: JobEvidence) -> Iterator[Doubt]:
    asked = _asked_s(evidence)
    if not asked or any(key in evidence.job.options.raw for key in _OTHER_ENDS):
        return
    ran = max((one.runtime_s for one in evidence.job.operations), default=0.0)
    if ran >= ENOUGH * asked:
        return
    yield Doubt(
        severity=Severity.WARNING if ran >= HALF * asked else Severity.ERROR,
        evidence={"runtime_s": ran, "asked_s": asked, "share": ran / asked},
        message=f"The job ran for {ran:.3g} s of the {asked:.3g} s that were asked, and ended "
        "without an error.",
        remedy="Set time_based, and look for what ended the job: a signal, a full target, a size "
        "that was used up.",
    )


def _asked_s(evidence: JobEvidence) -> float | None:
    """Seconds that the job had to last; None where it may rightly end before."""
    cell, options = evidence.trial.cell, evidence.job.options
    if cell is not None and cell.workload.job_file is None:
        return cell.workload.runtime_s
    asked = options.seconds("runtime")
    if asked is None or options.flag("time_based"):
        return asked
    # Without time_based a job is over when its size is done; only one that had more to do is short.
    size = options.size("size")
    if size is None:
        return None
    done = sum(one.io_bytes for one in evidence.job.operations)
    to_do = size * evidence.processes * max(1, options.integer("loops", 1))
    return asked if done < ENOUGH * to_do else None


RULE = Rule(
    code="short-runtime",
    summary="The job ran for less time than was asked.",
    looks_at=JobEvidence,
    check=check,
)
