"""Latencies of an operation as the rules need them: of the whole I/O, from submission on."""

from __future__ import annotations

from leadline.formats.output import JobOptions, Latency, Operation

# With these the submission can take most of an I/O's time (on filesystems that block in it), so
# that a completion latency alone says little.
_SUBMITS_APART = frozenset({"libaio", "io_uring", "posixaio"})


def mean_s(one: Operation, options: JobOptions) -> float | None:
    """Mean seconds from submission to completion; None where it is not told."""
    if one.total is not None and one.total.mean_s is not None:
        return one.total.mean_s
    submission = _submission_s(one, options)
    if submission is None or one.completion is None or one.completion.mean_s is None:
        return None
    return one.completion.mean_s + submission


def median_s(one: Operation, options: JobOptions) -> float | None:
    """Half of the I/Os took less. Where only completion is told by percentiles, the mean
    submission is added, which is at least its median where a few submissions are slow."""
    total = one.total.quantile_s(0.5) if one.total else None
    if total is not None:
        return total
    completion = one.completion.quantile_s(0.5) if one.completion else None
    submission = _submission_s(one, options)
    return None if completion is None or submission is None else completion + submission


def told(one: Operation) -> tuple[tuple[str, Latency], ...]:
    """The latencies that are there, by what they are of."""
    parts = (("submission", one.submission), ("completion", one.completion), ("total", one.total))
    return tuple((name, latency) for name, latency in parts if latency is not None)


def _submission_s(one: Operation, options: JobOptions) -> float | None:
    if one.submission is not None:
        return one.submission.mean_s
    return None if options.engine in _SUBMITS_APART else 0.0
