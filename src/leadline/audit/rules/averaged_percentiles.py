"""averaged-percentiles: a percentile that is the mean of percentiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from leadline.audit.evidence import TrialEvidence, rounding
from leadline.audit.physics import Split, read_write_split
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.result import Operation
from leadline.metrics import Op
from leadline.units import format_latency

# The parts must be this many steps of rounding apart for their mean to be distinct.
APART = 10.0
# The publisher may have used unrounded figures.
MARGIN = 0.001


@rule(
    "averaged-percentiles",
    "An imported total's percentile is the mean of its parts' percentiles.",
    TrialEvidence,
)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    split = read_write_split(trial)
    if split is None or split.total is None:
        return
    read, write, total = _printed(split.read), _printed(split.write), _printed(split.total)
    found = {}
    how = ""
    for q in sorted(read.keys() & write.keys() & total.keys()):
        which = _mean_of(split, read[q], write[q], total[q])
        if which:
            found[q], how = total[q], which
    if not found:
        return
    worst = max(found)
    numbers = {f"latency_p{_digits(q)}_s": value for q, value in found.items()}
    yield RuleFinding(
        severity=Severity.ERROR,
        op=Op.TOTAL,
        latency_only=True,
        evidence=numbers
        | {
            f"read_p{_digits(worst)}_s": read[worst],
            f"write_p{_digits(worst)}_s": write[worst],
        },
        message=f"{' and '.join(f'p{q * 100:.6g}' for q in found)} of the total "
        f"{'is' if len(found) == 1 else 'are'} the {how} of reads and writes: "
        f"{format_latency(total[worst])} of {format_latency(read[worst])} and "
        f"{format_latency(write[worst])}. A mean of percentiles is not a percentile.",
        remedy="Use the percentiles of reads and of writes. Only merged histograms give those of a "
        "total.",
    )


def _mean_of(split: Split, read_s: float, write_s: float, total_s: float) -> str:
    """Return the mean of the parts that the total is; empty if none."""
    if not min(read_s, write_s, total_s):
        return ""
    # The finest digits of the three are the table's; the total may have one less.
    steps = [value * rounding(value) for value in (read_s, write_s, total_s)]
    allowed = min(steps[-1], 10 * min(steps)) + MARGIN * total_s
    if abs(read_s - write_s) < APART * allowed:
        return ""
    if abs(total_s - (read_s + write_s) / 2) <= allowed:
        return "plain mean"
    reads, writes = split.read.iops, split.write.iops
    if reads and writes:
        weighted = (reads * read_s + writes * write_s) / (reads + writes)
        both = min(abs(total_s - read_s), abs(total_s - write_s))
        if abs(total_s - weighted) <= allowed and both > 2 * allowed:
            return "mean weighted by IOPS"
    return ""


def _printed(operation: Operation) -> Mapping[float, float]:
    """Printed percentiles of an operation; those of a histogram are not a mean."""
    for latency in (operation.total, operation.completion):
        if latency is not None and latency.percentiles and latency.histogram is None:
            return latency.percentiles
    return {}


def _digits(q: float) -> str:
    return f"{q * 100:.6g}".replace(".", "")
