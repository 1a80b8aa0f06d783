"""What `leadline.compare` and `leadline.rank` give: answers as Arrow tables, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

    from leadline.analysis.comparison import ComparedCell, Comparison
    from leadline.analysis.ranking import Ranking, Standing


class OpenComparison:
    """Two sides, cell by cell; `comparison` is the object that the command line prints."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def __repr__(self) -> str:
        return f"<{self.headline}>"

    @property
    def headline(self) -> str:
        """The key finding, as the page begins with it."""
        from leadline.report.comparison.page import comparison_summary

        return next(iter(comparison_summary(self.comparison).summary), "nothing can be compared")

    def counts(self) -> dict[str, int]:
        """How many cells have each of the five verdicts."""
        return {verdict.value: count for verdict, count in self.comparison.counts().items()}

    def cells(self) -> pyarrow.Table:
        """One row per target x workload x level x operation x metric.

        Columns target, workload, level, op, metric, unit; baseline and candidate in that base unit,
        null where missing; ratio = candidate / baseline with its 95 % interval low and high;
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

        columns = dict.fromkeys(("path", "topic", "baseline", "candidate"), pa.string())
        rows = [
            {
                "path": one.path,
                "topic": one.topic.value,
                "baseline": one.baseline,
                "candidate": one.candidate,
                "explains": list(one.explains),
            }
            for one in self.comparison.differences
        ]
        return pa.Table.from_pylist(
            rows, schema=pa.schema({**columns, "explains": pa.list_(pa.string())})
        )


class OpenRanking:
    """The targets of a run in order; `ranking` is the object that the command line prints."""

    def __init__(self, ranking: Ranking) -> None:
        self.ranking = ranking

    def __repr__(self) -> str:
        first = [one.target for one in self.ranking.complete if one.rank == 1]
        return f"<Ranking by {self.ranking.question.name}: {', '.join(first) or 'nobody'} first>"

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
            [_standing(one) for one in self.ranking.standings], schema=pa.schema(columns)
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
                "target": one.target,
                "objective": objective.name,
                "weight": objective.weight,
                "value": value,
                "unit": objective.metric.unit,
            }
            for one in self.ranking.standings
            for objective, value in zip(self.ranking.question.objectives, one.values, strict=True)
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
        "missing": [f"{each.objective.name}: {each.reason}" for each in one.missing],
    }
