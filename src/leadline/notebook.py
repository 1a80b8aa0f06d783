"""What the Python interface returns: a run, and the answers about it, as Arrow tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from leadline.archive.reader import Run
from leadline.judge import Judge
from leadline.metrics import COSTS

if TYPE_CHECKING:
    import pyarrow

    from leadline.analysis.comparison import ComparedCell, Comparison
    from leadline.analysis.layers.study import LayerStudy
    from leadline.analysis.ranking import Ranking, Standing
    from leadline.analysis.scaling.study import ScalingStudy
    from leadline.analysis.settings.facts import SettingsStudy
    from leadline.archive.verify import Verification
    from leadline.findings import Finding
    from leadline.report.answers.layers import LayersOutput
    from leadline.report.answers.scaling import ScaleOutput
    from leadline.report.answers.settings import SettingsOutput


class OpenRun:
    """An archive for notebooks; `archive` is the underlying reader."""

    def __init__(self, archive: Run) -> None:
        self.archive = archive

    @property
    def id(self) -> str:
        return self.archive.id

    def _repr_html_(self) -> str:
        """The beginning of the page of the run, as a notebook shows it."""
        from leadline.report.pages.run.page import run_document
        from leadline.report.render.html import render_fragment

        return render_fragment(run_document(self.archive, *Judge()(self.archive)))

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
        from leadline.judge import verified

        return verified(self.archive)


class OpenComparison:
    """Two sides, cell by cell; `comparison` is the object that the command line prints."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def __repr__(self) -> str:
        return f"<{self.headline}>"

    def _repr_html_(self) -> str:
        """The beginning of the page of the comparison, as a notebook shows it."""
        from leadline.report.pages.comparison.page import comparison_document
        from leadline.report.render.html import render_fragment

        return render_fragment(comparison_document(self.comparison))

    @property
    def headline(self) -> str:
        """The key finding, as the page begins with it."""
        from leadline.report.pages.comparison.page import comparison_summary

        return next(iter(comparison_summary(self.comparison).summary), "nothing can be compared")

    def counts(self) -> dict[str, int]:
        """How many cells have each of the five verdicts."""
        return {verdict.value: count for verdict, count in self.comparison.counts().items()}

    def cells(self) -> pyarrow.Table:
        """One row per target x workload x level x operation x metric.

        Columns target, workload, level, op, metric, unit; baseline and candidate in that base unit,
        null where missing; ratio = candidate / baseline with its interval low and high;
        p_adjusted, band (a share), verdict, evidence, reasons (a list, the most important first)
        and trials_needed (a side, to decide what is open).
        """
        import pyarrow as pa

        text, number = pa.string(), pa.float64()
        columns = {
            **dict.fromkeys(("target", "workload", "level", "op", "metric", "unit"), text),
            **dict.fromkeys(("baseline", "candidate", "ratio", "low", "high"), number),
            **dict.fromkeys(("p_adjusted", "band"), number),
            **dict.fromkeys(("verdict", "evidence"), text),
            "reasons": pa.list_(text),
            "trials_needed": pa.int64(),
        }
        return pa.Table.from_pylist(
            [_cell(cell) for cell in self.comparison.cells], schema=pa.schema(columns)
        )

    def differences(self) -> pyarrow.Table:
        """What differs in how the two are built: path (dotted), topic, baseline, candidate, and
        explains, a list of sentences on what it can account for."""
        import pyarrow as pa

        from leadline.report.pages.comparison.explanations import effect_texts

        columns = dict.fromkeys(("path", "topic", "baseline", "candidate"), pa.string())
        rows = [
            {
                "path": difference.path,
                "topic": difference.topic.value,
                "baseline": difference.baseline,
                "candidate": difference.candidate,
                "explains": effect_texts(difference),
            }
            for difference in self.comparison.differences
        ]
        return pa.Table.from_pylist(
            rows, schema=pa.schema({**columns, "explains": pa.list_(pa.string())})
        )


class OpenRanking:
    """The targets of a run in order; `ranking` is the object that the command line prints."""

    def __init__(self, ranking: Ranking, archive: Run) -> None:
        self.ranking = ranking
        self.archive = archive

    def _repr_html_(self) -> str:
        """The beginning of the page of the ranking, as a notebook shows it."""
        from leadline.analysis.requirements import protections
        from leadline.report.pages.ranking import ranking_document
        from leadline.report.render.html import render_fragment

        figures, _ = Judge()(self.archive)
        return render_fragment(
            ranking_document(self.archive, self.ranking, protections(self.archive), figures)
        )

    def __repr__(self) -> str:
        first = [standing.target for standing in self.ranking.complete if standing.rank == 1]
        return f"<Ranking by {self.ranking.question.name}: {', '.join(first) or 'no target'} first>"

    def targets(self) -> pyarrow.Table:
        """One row per target, by rank, then score; those that lack a number come last.

        Columns rank with rank_low and rank_high, the ranks that the evidence leaves open; target;
        score (1 = the baseline) with its 95 % interval score_low and score_high; missing, a list
        of what is lacking. What lacks a number has neither rank nor score.
        """
        import pyarrow as pa

        columns = {
            **dict.fromkeys(("rank", "rank_low", "rank_high"), pa.int64()),
            "target": pa.string(),
            **dict.fromkeys(("score", "score_low", "score_high"), pa.float64()),
            "missing": pa.list_(pa.string()),
        }
        return pa.Table.from_pylist(
            [_standing(standing) for standing in self.ranking.standings], schema=pa.schema(columns)
        )

    def figures(self) -> pyarrow.Table:
        """One row per target and number that counts: target, objective, weight (a share), value in
        its base unit, null where missing, and unit."""
        import pyarrow as pa

        columns = {
            **dict.fromkeys(("target", "objective"), pa.string()),
            **dict.fromkeys(("weight", "value"), pa.float64()),
            "unit": pa.string(),
        }
        rows = [
            {
                "target": standing.target,
                "objective": objective.name,
                "weight": objective.weight,
                "value": value,
                "unit": objective.metric.unit,
            }
            for standing in self.ranking.standings
            for objective, value in zip(
                self.ranking.question.objectives, standing.values, strict=True
            )
        ]
        return pa.Table.from_pylist(rows, schema=pa.schema(columns))


def _cell(cell: ComparedCell) -> dict[str, object]:
    judged = cell.judgement
    low, high = judged.interval or (None, None)
    return {
        "target": cell.target,
        "workload": cell.workload,
        "level": cell.level,
        "op": cell.op.value if cell.op else None,
        "metric": cell.metric.value,
        "unit": cell.metric.unit,
        "baseline": cell.baseline.value if cell.baseline else None,
        "candidate": cell.candidate.value if cell.candidate else None,
        "ratio": judged.ratio,
        "low": low,
        "high": high,
        "p_adjusted": judged.p_adjusted,
        "band": judged.band,
        "verdict": judged.verdict.value,
        "evidence": judged.evidence.value,
        "reasons": list(judged.reasons),
        "trials_needed": judged.trials_needed,
    }


def _standing(one: Standing) -> dict[str, object]:
    from leadline.report.pages.ranking import missing_lines

    lowest, highest = one.interval or (None, None)
    low, high = one.score_interval or (None, None)
    return {
        "rank": one.rank,
        "rank_low": lowest,
        "rank_high": highest,
        "target": one.target,
        "score": one.score,
        "score_low": low,
        "score_high": high,
        "missing": missing_lines(one),
    }


class OpenSettings:
    """What each state of a run changes; `study` is what the command line prints."""

    def __init__(self, study: SettingsStudy) -> None:
        self.study = study

    def __repr__(self) -> str:
        return f"<{self.answer.headline}>"

    def _repr_html_(self) -> str:
        """The beginning of the page of the study, as a notebook shows it."""
        from leadline.report.pages.settings.page import settings_document
        from leadline.report.render.html import render_fragment

        return render_fragment(settings_document(self.study))

    @cached_property
    def answer(self) -> SettingsOutput:
        """What `leadline settings --format json` prints, as an object."""
        from leadline.report.answers.settings import settings_output

        return settings_output(self.study)

    def states(self) -> pyarrow.Table:
        """One row per state: `recommended`, `front` (on the Pareto front), the lists gains and
        objections, and of `rate`, `p99` and each cost the mean change against the present state
        as `ratio`, `low`, `high` and `verdict` behind its name; null where no cell has it."""
        import pyarrow as pa

        names = ("rate", "p99", *(cost.value for cost in COSTS))
        columns = {"state": pa.string(), **dict.fromkeys(("recommended", "front"), pa.bool_())}
        columns |= dict.fromkeys(("gains", "objections"), pa.list_(pa.string()))
        for name in names:
            columns |= dict.fromkeys((f"{name}_{part}" for part in _ENDS), pa.float64())
            columns[f"{name}_verdict"] = pa.string()
        rows = []
        for state in self.answer.states:
            row: dict[str, object] = state.model_dump(include=set(columns))
            changes = {"rate": state.rate, "p99": state.p99, **state.costs}
            for name, change in changes.items():
                if change is not None:
                    ends = (change.ratio, *(change.interval or (None, None)))
                    row |= {f"{name}_{part}": end for part, end in zip(_ENDS, ends, strict=True)}
                    row[f"{name}_verdict"] = change.verdict
            rows.append(row)
        return pa.Table.from_pylist(rows, schema=pa.schema(columns))

    def cells(self) -> pyarrow.Table:
        """One row per state and number of both, with the columns of `leadline settings --format
        csv`: values in base units, ratio = value / present with its interval, null where missing.
        """
        import pyarrow as pa

        from leadline.report.answers.settings import SETTINGS_COLUMNS, settings_rows

        numbers = ("present", "value", "ratio", "interval_low", "interval_high", "p_adjusted")
        columns = [
            (name, pa.float64() if name in numbers else pa.string()) for name in SETTINGS_COLUMNS
        ]
        rows = [dict(zip(SETTINGS_COLUMNS, row, strict=True)) for row in settings_rows(self.answer)]
        return pa.Table.from_pylist(rows, schema=pa.schema(columns))


# The parts of a change.
_ENDS = ("ratio", "low", "high")


class OpenLayers:
    """The layers of a run; `study` is what the command line prints."""

    def __init__(self, study: LayerStudy) -> None:
        self.study = study

    def __repr__(self) -> str:
        return f"<Layers of {self.study.run.id}: {len(self.study.cells)} cells>"

    @cached_property
    def answer(self) -> LayersOutput:
        """What `leadline layers --format json` prints, as an object."""
        from leadline.report.answers.layers import layers_output

        return layers_output(self.study)

    def flows(self) -> pyarrow.Table:
        """One row per cell, layer and direction, with the columns of `leadline layers --format
        csv`: rates per second, sizes in bytes, latencies in seconds, null where unknown."""
        import pyarrow as pa

        from leadline.report.answers.layers import LAYER_COLUMNS, layer_rows

        texts = (
            *("target", "workload", "level", "trial", "kind", "name", "basis", "op"),
            *("shared", "unobserved"),
        )
        whole = ("layer", "p50_size", "p99_size")
        columns = [
            (name, pa.string() if name in texts else pa.int64() if name in whole else pa.float64())
            for name in LAYER_COLUMNS
        ]
        rows = [dict(zip(LAYER_COLUMNS, row, strict=True)) for row in layer_rows(self.answer)]
        return pa.Table.from_pylist(rows, schema=pa.schema(columns))

    def sweep(self) -> pyarrow.Table:
        """One row per cell that has partners of another record size: `throughput` is the
        median of the trials in bytes per second, size x in_flight / latency = product at the layer
        named, null where unknown."""
        import pyarrow as pa

        numbers = ("throughput", "block_size", "size", "in_flight", "latency", "product")
        columns = {
            **dict.fromkeys(("workload", "level", "target"), pa.string()),
            "record_bytes": pa.int64(),
            **dict.fromkeys(numbers, pa.float64()),
            "layer": pa.string(),
        }
        rows = [
            {
                "workload": sweep.workload,
                "level": sweep.level,
                **row.model_dump(include=set(columns)),
            }
            for sweep in self.answer.sweeps
            for row in sweep.rows
        ]
        return pa.Table.from_pylist(rows, schema=pa.schema(columns))


class OpenScaling:
    """Load curves and the comparison of systems; `study` is what the command line prints."""

    def __init__(self, study: ScalingStudy) -> None:
        self.study = study

    def __repr__(self) -> str:
        names = ", ".join(run.run.id for run in self.study.runs)
        return f"<Load curves of {names}: {len(self.study.curves)}>"

    @cached_property
    def answer(self) -> ScaleOutput:
        """What `leadline scale --format json` prints, as an object."""
        from leadline.report.answers.scaling import scale_output

        return scale_output(self.study)

    def levels(self) -> pyarrow.Table:
        """One row per curve and load level, with the columns of `leadline scale --format csv`:
        `load` as the curve counts it, `iops` with its 95 % interval, latencies in seconds, null
        where missing."""
        import pyarrow as pa

        from leadline.report.answers.scaling import SCALE_COLUMNS, scale_rows

        rows = [dict(zip(SCALE_COLUMNS, row, strict=True)) for row in scale_rows(self.answer)]
        return pa.Table.from_pylist(rows, schema=pa.schema(_level_columns(SCALE_COLUMNS)))

    def speedups(self) -> pyarrow.Table:
        """One row per curve and pair of levels of equal load: baseline and candidate in I/Os per
        second, ratio with its 95 % interval low and high, what was added (`resource`,
        `resource_ratio`) and efficiency = ratio / resource_ratio, null where unknown."""
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
        for speedup in self.answer.speedups:
            ratios = {part.name: part.ratio for part in speedup.resources}
            for level in speedup.levels:
                low, high = level.interval or (None, None)
                rows.append(
                    {
                        "system": speedup.candidate,
                        "against": speedup.baseline,
                        "subject": speedup.subject,
                        "workload": speedup.workload,
                        "op": speedup.op,
                        "level": level.candidate_level,
                        "baseline": level.baseline,
                        "candidate": level.candidate,
                        "ratio": level.ratio,
                        "low": low,
                        "high": high,
                        "resource": speedup.divisor,
                        "resource_ratio": ratios.get(speedup.divisor or ""),
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
