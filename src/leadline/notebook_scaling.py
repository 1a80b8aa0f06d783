"""What `leadline.scale` gives: load curves and speed-ups as Arrow tables, for notebooks."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

    from leadline.analysis.scaling.study import ScalingStudy
    from leadline.report.scaling.output import ScaleOutput


class OpenScaling:
    """Load curves, and systems beside each other; `study` is what the command line prints."""

    def __init__(self, study: ScalingStudy) -> None:
        self.study = study

    def __repr__(self) -> str:
        names = ", ".join(one.run.id for one in self.study.runs)
        return f"<Load curves of {names}: {len(self.study.curves)}>"

    @cached_property
    def answer(self) -> ScaleOutput:
        """What `leadline scale --format json` prints, as an object."""
        from leadline.report.scaling.output_making import scale_output

        return scale_output(self.study)

    def levels(self) -> pyarrow.Table:
        """One row per curve and load level, with the columns of `leadline scale --format csv`:
        `load` as the curve counts it, `iops` with its 95 % interval, latencies in seconds, null
        where missing."""
        import pyarrow as pa

        from leadline.report.scaling.output_making import SCALE_COLUMNS, scale_rows

        rows = [dict(zip(SCALE_COLUMNS, row, strict=True)) for row in scale_rows(self.answer)]
        return pa.Table.from_pylist(rows, schema=pa.schema(_level_columns(SCALE_COLUMNS)))

    def speedups(self) -> pyarrow.Table:
        """One row per curve and pair of levels of equal load: baseline and candidate in I/Os per
        second, ratio with its 95 % interval low and high, what was added (`resource`,
        `resource_ratio`) and efficiency = ratio / resource_ratio, null where nobody tells."""
        import pyarrow as pa

        text, number = pa.string(), pa.float64()
        columns = {
            **dict.fromkeys(("system", "against", "subject", "workload", "op", "level"), text),
            **dict.fromkeys(("baseline", "candidate", "ratio", "low", "high"), number),
            "resource": text,
            **dict.fromkeys(("resource_ratio", "efficiency"), number),
            "evidence": text,
        }
        rows = []
        for one in self.answer.speedups:
            ratios = {part.name: part.ratio for part in one.resources}
            for level in one.levels:
                low, high = level.interval or (None, None)
                rows.append(
                    {
                        "system": one.candidate,
                        "against": one.baseline,
                        "subject": one.subject,
                        "workload": one.workload,
                        "op": one.op,
                        "level": level.candidate_level,
                        "baseline": level.baseline,
                        "candidate": level.candidate,
                        "ratio": level.ratio,
                        "low": low,
                        "high": high,
                        "resource": one.divisor,
                        "resource_ratio": ratios.get(one.divisor or ""),
                        "efficiency": level.efficiency,
                        "evidence": level.evidence,
                    }
                )
        return pa.Table.from_pylist(rows, schema=pa.schema(columns))


def _level_columns(names: tuple[str, ...]) -> dict[str, pyarrow.DataType]:
    import pyarrow as pa

    texts = (
        *("run", "target", "workload", "op", "axis", "level", "loop", "rate_not_reached"),
        *("iops_refused", "latency_refused", "findings", "bottleneck"),
    )
    counts = ("clients", "numjobs", "iodepth", "in_flight", "neighbours", "trials")
    return {
        name: pa.string() if name in texts else pa.int64() if name in counts else pa.float64()
        for name in names
    }
