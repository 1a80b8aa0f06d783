"""From a trial's raw output to its derived numbers: the one place where this is done."""

from __future__ import annotations

import orjson

from leadline.archive.records import Derived
from leadline.formats.output import EngineOutput, Operation, by_name


def derive(output: EngineOutput) -> Derived:
    """Derived numbers of one output; same input, same bytes."""
    return Derived.model_validate_json(derived_json(output))


def derived_json(output: EngineOutput) -> bytes:
    """Derived numbers as they are stored: a `Derived` in JSON, not indented, since each number of
    a histogram would fill a line."""
    operations = []
    for name, operation in derived_operations(output):
        histogram = operation.histogram
        operations.append(
            {
                "job": name,
                "op": operation.op.value,
                "metrics": {key.value: value for key, value in operation.metrics().items()},
                "histogram_ns": histogram.values_ns if histogram else (),
                "histogram_counts": histogram.counts if histogram else (),
            }
        )
    document = {"schema": Derived.model_fields["schema_"].default, "operations": operations}
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)


def derived_operations(output: EngineOutput) -> list[tuple[str, Operation]]:
    """The operations that numbers are derived of, each with the name of its job."""
    return [
        (name, operation)
        for name, together in by_name(output.jobs).items()
        for operation in together
    ]
