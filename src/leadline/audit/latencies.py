"""Latencies of an operation from submission to completion, whichever parts the engine measured."""

from __future__ import annotations

from leadline.formats.result import JobOptions, Latency, Operation

# Submission to these engines can take most of an I/O's time (on blocking file systems), so that a
# completion latency alone is not the latency of the I/O.
_SUBMITS_APART = frozenset({"libaio", "io_uring", "posixaio"})


def mean_s(operation: Operation, options: JobOptions) -> float | None:
    """Return the mean seconds from submission to completion; None if unknown."""
    if operation.total is not None and operation.total.mean_s is not None:
        return operation.total.mean_s
    submission = _submission_s(operation, options)
    completion = operation.completion.mean_s if operation.completion else None
    return None if submission is None or completion is None else completion + submission


def median_s(operation: Operation, options: JobOptions) -> float | None:
    """Return the median latency. If only completion has percentiles, the mean submission is added:
    at least its median if a few submissions are slow."""
    total = operation.total.quantile_s(0.5) if operation.total else None
    if total is not None:
        return total
    completion = operation.completion.quantile_s(0.5) if operation.completion else None
    submission = _submission_s(operation, options)
    return None if completion is None or submission is None else completion + submission


def latencies(operation: Operation) -> tuple[tuple[str, Latency], ...]:
    parts = (
        ("submission", operation.submission),
        ("completion", operation.completion),
        ("total", operation.total),
    )
    return tuple((name, latency) for name, latency in parts if latency is not None)


def _submission_s(operation: Operation, options: JobOptions) -> float | None:
    if operation.submission is not None:
        return operation.submission.mean_s
    return None if options.engine in _SUBMITS_APART else 0.0
