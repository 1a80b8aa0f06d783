"""The Python interface, for notebooks: the same objects as the command line.

import leadline
run = leadline.open_run("leadline-runs/perf-20261121-120000")
table = run.measurements()          # pyarrow.Table; .to_pandas() for a DataFrame
findings = run.audit()
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leadline.archive.reader import Run
from leadline.archive.runs import find_run, runs_folder

if TYPE_CHECKING:
    import pyarrow

    from leadline.archive.verify import Verification
    from leadline.findings import Finding


class OpenRun:
    """An archive for notebooks; `archive` is the underlying reader."""

    def __init__(self, archive: Run) -> None:
        self.archive = archive

    @property
    def id(self) -> str:
        return self.archive.id

    def measurements(self) -> pyarrow.Table:
        """The measurements table: one row per trial x operation x metric.

        Columns trial, target, workload, level, block, op, metric, value (base units, null where
        not measured), unit, and on the row `latency_mean` the histogram as two lists,
        histogram_ns and histogram_counts.
        """
        import pyarrow as pa

        schema = pa.schema(
            [
                ("trial", pa.string()),
                ("target", pa.string()),
                ("workload", pa.string()),
                ("level", pa.string()),
                ("block", pa.int64()),
                ("op", pa.string()),
                ("metric", pa.string()),
                ("value", pa.float64()),
                ("unit", pa.string()),
                ("histogram_ns", pa.list_(pa.int64())),
                ("histogram_counts", pa.list_(pa.int64())),
            ]
        )
        rows = [
            {
                "trial": row.trial,
                "target": row.target,
                "workload": row.workload,
                "level": row.level,
                "block": row.block,
                "op": row.op.value,
                "metric": row.metric.value,
                "value": row.value,
                "unit": row.metric.unit,
                "histogram_ns": row.histogram.values_ns.tolist() if row.histogram else None,
                "histogram_counts": row.histogram.counts.tolist() if row.histogram else None,
            }
            for row in self.archive.measurements()
        ]
        return pa.Table.from_pylist(rows, schema=schema)

    def audit(self) -> tuple[Finding, ...]:
        """Every finding, the gravest first."""
        from leadline.audit.registry import audit

        return audit(self.archive)

    def verify(self) -> Verification:
        """Checksums and derived numbers, recomputed from raw."""
        from leadline.archive.verify import verify

        return verify(self.archive)


def open_run(path: str | os.PathLike[str]) -> OpenRun:
    """A run by path, id, unique prefix, @latest or @previous.

    Raises LeadlineError(`run-not-found`).
    """
    return OpenRun(find_run(os.fspath(path), runs_folder(None)))
