"""The curves of one workload, of which a reader looks at one at a time."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.analysis.cells import CellFigure
from leadline.analysis.workload_differences import rate_told
from leadline.archive.reader import Run, StoredTrial
from leadline.archive.records import TrialStatus
from leadline.formats.fio_log import Window
from leadline.formats.output import FormatError
from leadline.metrics import Metric, Op
from leadline.report.budget import PageBudget
from leadline.report.curves import (
    MOST_POINTS,
    MOST_SERIES,
    RATE_UNITS,
    TimeRow,
    distribution_chart,
    ladder_chart,
    percentiles_of,
    rate_over_time_chart,
)
from leadline.report.document import Block, Choices, LineChart, Paragraph
from leadline.report.labels import chart_labels
from leadline.report.wording import count_text, listed, op_text, title, visible

# Of a larger run only what was not steady is drawn over time: that is where it matters, and every
# log is a file to read.
FEW_TRIALS = 100
_MOST_TIME_LINES = 24
_MOST_TIME_POINTS = 900
_Key = tuple[str, str, Op]


def workload_curves(
    run: Run, anchor: str, figures: Sequence[CellFigure], rate: Metric, budget: PageBudget
) -> tuple[Block, ...]:
    """Percentiles, distribution and IOPS over time of each level and operation of a workload, the
    targets as series, and what to choose them by. Totals are left out: their parts are there."""
    groups: dict[_Key, list[CellFigure]] = {}
    for figure in figures:
        if figure.op is not None and figure.op is not Op.TOTAL and not figure.missing:
            groups.setdefault((figure.workload, figure.level, figure.op), []).append(figure)
    targets, rest = shown_targets(figures, rate)
    named = _names(list(groups))
    charts: list[tuple[str, LineChart]] = []
    for number, (key, rows) in enumerate(groups.items(), start=1):
        drawn = [figure for figure in rows if figure.target in targets]
        name = f" · {named[key]}" if named[key] else ""
        for label, chart in _charts(run, f"curve-{anchor}-{number}", name, drawn, targets):
            if budget.allows(label, sum(len(line.points) for line in chart.lines)):
                charts.append((f"{label}{name}", chart))
    if not charts:
        return ()
    blocks: list[Block] = []
    if rest:
        of = count_text(len(targets) + len(rest), "target")
        text = (
            f"Drawn: the {len(targets)} fastest of {of} by {title(rate)}; not drawn: "
            f"{listed(map(visible, rest))}."
        )
        blocks.append(Paragraph(text=text))
    if len(charts) > 1:
        options = tuple((chart.choice, label) for label, chart in charts)
        blocks.append(Choices(id=f"curves-{anchor}", label="Curve", options=options))
    return (*blocks, *(chart for _, chart in charts))


def shown_targets(
    figures: Sequence[CellFigure], rate: Metric
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(drawn, left out): the fastest targets, at most `MOST_SERIES`, both in the plan's order.

    Fastest by the largest rate of any level and operation of the workload.
    """
    best: dict[str, float] = {}
    for figure in figures:
        value = figure.metric(rate).value
        if value is not None:
            best[figure.target] = max(value, best.get(figure.target, value))
    kept = set(sorted(best, key=lambda target: -best[target])[:MOST_SERIES])
    return (
        tuple(target for target in best if target in kept),
        tuple(target for target in best if target not in kept),
    )


def _names(keys: Sequence[_Key]) -> dict[_Key, str]:
    """What tells the charts of a workload apart: section, level and operation where they differ."""
    sections, levels, ops = ({key[part] for key in keys} for part in range(3))
    return {
        key: " · ".join(
            [visible(key[0])] * (len(sections) > 1)
            + [visible(key[1])] * (len(levels) > 1)
            + [op_text(key[2])] * (len(ops) > 1)
        )
        for key in keys
    }


def _charts(
    run: Run, anchor: str, name: str, figures: Sequence[CellFigure], targets: tuple[str, ...]
) -> list[tuple[str, LineChart]]:
    """(kind, chart) of one level and operation, as far as there is something to draw; the choice
    of each is its own id."""
    labels = chart_labels(targets)
    series = tuple(labels[target] for target in targets)
    told = [(labels[figure.target], targets.index(figure.target), figure) for figure in figures]
    ladder, spread, over = (f"{anchor}-{kind}" for kind in ("ladder", "distribution", "time"))
    found: list[tuple[str, LineChart | None]] = [
        (
            "percentiles",
            ladder_chart(
                ladder,
                f"Latency percentiles{name}",
                [(label, number, percentiles_of(figure)) for label, number, figure in told],
                series,
                ladder,
            ),
        ),
        (
            "distribution",
            distribution_chart(
                spread,
                f"Latency distribution{name}",
                [
                    (label, number, figure.histogram)
                    for label, number, figure in told
                    if figure.histogram is not None
                ],
                series,
                spread,
            ),
        ),
    ]
    rows = _time_rows(run, told)
    if rows:
        most = max(20, min(MOST_POINTS, _MOST_TIME_POINTS // len(rows)))
        rate = _rate(figures)
        heading = f"{RATE_UNITS[rate]} over time{name}{_thinning(rows, most)}"
        chart = rate_over_time_chart(over, heading, rows, series, over, most=most, rate=rate)
        found.append(("over time", chart))
    return [(kind, chart) for kind, chart in found if chart is not None]


def _thinning(rows: Sequence[TimeRow], most: int) -> str:
    longest = max(len(windows) for _, _, windows in rows)
    together = -(-longest // most)
    return f", means of {together} windows" if together > 1 else ""


def _time_rows(run: Run, told: Sequence[tuple[str, int, CellFigure]]) -> list[TimeRow]:
    """A row for each trial; of many trials of a target the extremes and some between them."""
    asked = [one for one in told if _over_time(run, one[2])]
    each = max(1, _MOST_TIME_LINES // len(asked)) if asked else 0
    trials = {trial.record.trial: trial for trial in run.trials}
    rows: list[TimeRow] = []
    for label, number, figure in asked:
        for trial in _chosen(figure, each):
            windows = _windows(trials.get(trial), figure)
            if windows:
                rows.append((f"{label} · {visible(trial)}", number, windows))
    return rows


def _over_time(run: Run, figure: CellFigure) -> bool:
    # The windows are those of the whole job file, whichever of its sections they are of.
    if figure.workload != figure.planned_workload:
        return False
    few = len(run.plan.trials) <= FEW_TRIALS
    return few or "not-steady" in figure.metric(Metric.IOPS).findings


def _rate(figures: Sequence[CellFigure]) -> Metric:
    """What is told over time: IOPS, or bytes/s of streams, which have no I/Os."""
    return rate_told(
        Metric.IOPS, lambda metric: any(one.metric(metric).value is not None for one in figures)
    )


def _chosen(figure: CellFigure, most: int) -> list[str]:
    """At most `most` of the trials, the slowest and the fastest among them; one is the middle."""
    values = [
        (one.value, one.trial)
        for one in figure.metric(_rate([figure])).trials
        if one.value is not None
    ]
    ordered = [trial for _, trial in sorted(values)]
    if len(ordered) <= most:
        return ordered
    if most == 1:
        return [ordered[len(ordered) // 2]]
    step = (len(ordered) - 1) / (most - 1)
    return [ordered[round(step * place)] for place in range(most)]


def _windows(trial: StoredTrial | None, figure: CellFigure) -> tuple[Window, ...]:
    if trial is None or figure.op is None or trial.record.status is not TrialStatus.COMPLETED:
        return ()
    try:
        if trial.zfs_stream is not None:
            return trial.zfs_stream.bandwidth_windows()
        return trial.iops_windows.get(figure.op, ())
    except FormatError:
        return ()  # the audit names the log and its line
