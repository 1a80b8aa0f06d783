"""What a workload of `engine: zfs-stream` may ask for: a snapshot is sent whole by one program and
received by another, so that most of what describes I/O has no meaning for it."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.plan.models import Pattern, Workload


def stream_faults(workload: Workload) -> Iterator[str]:
    """What a stream cannot do of what a workload asks, each as the end of a sentence; nothing of
    a workload of another engine."""
    if not workload.streams:
        return
    patterns = [phase.pattern for phase in workload.phases]
    if patterns != [Pattern.WRITE]:
        yield "writes what it receives: it takes `pattern: write` and nothing else"
        return
    (phase,) = workload.phases
    if phase.rate_iops is not None or workload.clients or workload.neighbours:
        # An open loop has a depth of its own, of which nobody wrote anything.
        yield "has neither clients nor a rate"
        return
    if phase.iodepth > 1 or phase.numjobs > 1:
        yield "is one sender and one receiver: iodepth and numjobs have no meaning for it"
    if phase.fsync:
        yield "has no fsync: a stream is on disk when it has been received"
