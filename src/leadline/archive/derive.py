"""From a trial's raw output to its derived numbers: the one place where this is done."""

from __future__ import annotations

from leadline.archive.records import Derived, DerivedOperation
from leadline.formats.output import EngineOutput, by_name


def derive(output: EngineOutput) -> Derived:
    """Derived numbers of one output; same input, same bytes."""
    operations = []
    for name, together in by_name(output.jobs).items():
        for operation in together:
            histogram = operation.histogram
            operations.append(
                DerivedOperation(
                    job=name,
                    op=operation.op,
                    metrics=operation.metrics(),
                    histogram_ns=tuple(histogram.values_ns.tolist()) if histogram else (),
                    histogram_counts=tuple(histogram.counts.tolist()) if histogram else (),
                )
            )
    return Derived(operations=tuple(operations))
