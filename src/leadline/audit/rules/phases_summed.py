"""phases-summed: a total of reads and writes that did not run at the same time."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import TrialEvidence, rounding
from leadline.audit.physics import Split, read_share, read_write_split, share_is_impossible
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.result import Operation
from leadline.metrics import Op

SAME = 0.01
# fio reports elapsed time in whole seconds, rounded up or down by version.
ELAPSED_STEP_S = 1.0


@rule("phases-summed", "A total adds reads and writes that ran one after the other.", TrialEvidence)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    split = read_write_split(trial)
    if split is None or split.total is None or not _is_sum(split, split.total):
        return
    why = _apart(trial, split, split.total)
    if why is None:
        return
    share = read_share(split)
    yield RuleFinding(
        severity=Severity.ERROR,
        op=Op.TOTAL,
        evidence={
            "read_iops": split.read.iops,
            "write_iops": split.write.iops,
            "total_iops": split.total.iops,
            "read_bandwidth_bps": split.read.bandwidth_bps,
            "write_bandwidth_bps": split.write.bandwidth_bps,
            "total_bandwidth_bps": split.total.bandwidth_bps,
            "read_share": share[0] / 100 if share else None,
        },
        message=f"The total adds reads and writes that ran one after the other: {why}. The storage "
        "never had this rate.",
        remedy="Use the figures of reads and of writes. Measure a mix (rw=randrw) for both "
        "together.",
    )


def _is_sum(split: Split, total: Operation) -> bool:
    """Whether the total is the sum of its reported figures, at least one of them."""
    read, write = split.read, split.write
    found = [
        _same(read.iops, write.iops, total.iops, of_bytes=False),
        _same(read.bandwidth_bps, write.bandwidth_bps, total.bandwidth_bps, of_bytes=True),
    ]
    return False not in found and True in found


def _same(
    read: float | None, write: float | None, total: float | None, *, of_bytes: bool
) -> bool | None:
    if not read or not write or not total:
        return None
    return abs(total / (read + write) - 1) <= SAME + rounding(total, of_bytes=of_bytes)


def _apart(trial: TrialEvidence, split: Split, total: Operation) -> str | None:
    """Return why the two did not run together, as a clause; None if unknown."""
    read_s, write_s = split.read.runtime_s or 0.0, split.write.runtime_s or 0.0
    one_by_one = read_s + write_s
    took = total.runtime_s or 0.0
    if split.pure:
        took = max(took, split.read_of.job.elapsed_s, split.write_of.job.elapsed_s)
    if min(read_s, write_s) >= ELAPSED_STEP_S and took >= one_by_one - ELAPSED_STEP_S:
        return f"{read_s:.0f} s of reads and {write_s:.0f} s of writes took {took:.0f} s"
    if split.pure and not split.read_of.merged_sections:
        return f"the loads were {split.read_of.pattern} and {split.write_of.pattern}"
    if share_is_impossible(trial):
        share = read_share(split)
        assert share is not None
        return f"{share[0]:.1f} % of the I/Os were reads, which is not a setting of a mixed job"
    if trial.phases_apart:
        return "the workload has other shares of reads on other targets, unlike a mixed job"
    return None
