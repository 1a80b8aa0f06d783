"""host-cache: reads a hundred times as slow as writes at depth 1, or the reverse."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from leadline.audit.evidence import JobEvidence, RunEvidence
from leadline.audit.latencies import mean_s
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.metrics import Op
from leadline.units import format_latency, format_size

# Seeks, caches of drives and the round trips of copies make reads and writes of one medium differ,
# by less than this.
RATIO = 100.0
# Fewer I/Os than this are no mean.
FEWEST_IOS = 20
_WAITS = (
    *("fsync", "fdatasync", "sync_file_range", "fsync_on_close", "end_fsync", "sync"),
    *("verify", "do_verify"),
)
_Key = tuple[str, int, bool]


@rule(
    "host-cache", "At depth 1 reads are a hundred times as slow as writes, or the reverse.",
    RunEvidence,
)  # fmt: skip
def check(run: RunEvidence) -> Iterator[RuleFinding]:
    seen: dict[_Key, dict[Op, list[float]]] = {}
    for cell in run.cells:
        for trial in cell.sound:
            for job in trial.jobs:
                _collect(job, cell.place.target, seen)
    for (target, block, _), means in seen.items():
        if not means.keys() >= {Op.READ, Op.WRITE}:
            continue
        read, write = statistics.median(means[Op.READ]), statistics.median(means[Op.WRITE])
        slow, fast = (Op.READ, Op.WRITE) if read > write else (Op.WRITE, Op.READ)
        ratio = max(read, write) / min(read, write)
        if ratio < RATIO:
            continue
        yield RuleFinding(
            severity=Severity.WARNING,
            target=target,
            op=fast,
            evidence={
                "read_latency_mean_s": read,
                "write_latency_mean_s": write,
                "ratio": ratio,
                "block_bytes": block,
            },
            message=f"At depth 1 a {slow.value} of {format_size(block)} takes "
            f"{format_latency(max(read, write))} and a {fast.value} "
            f"{format_latency(min(read, write))}, {ratio:,.0f} times as fast. A cache above the "
            f"storage took the {fast.value}s (page cache of the host, controller, write-back cache)"
            + (", or the blocks were never written." if fast is Op.READ else "."),
            remedy="Turn the cache off or make writes wait for the storage (fsync), or name the "
            f"cache next to the {fast.value} figures. Use a span larger than the cache.",
        )


def _collect(job: JobEvidence, target: str, seen: dict[_Key, dict[Op, list[float]]]) -> None:
    options = job.job.options
    if job.requested_depth != 1 or options.direct is False or job.merged_sections:
        return
    block = job.block_size
    if not block or job.throttled or any(_is_set(job, key) for key in _WAITS):
        return
    for part in job.parts:
        mean = mean_s(part, options)
        few = part.total_ios is not None and part.total_ios < FEWEST_IOS
        if mean and not few and part.op in (Op.READ, Op.WRITE):
            key = (target, block, job.sequential)
            seen.setdefault(key, {}).setdefault(part.op, []).append(mean)


def _is_set(job: JobEvidence, key: str) -> bool:
    return job.job.options.flag(key) and job.job.options.text(key) != "none"
