"""The index of a site: every run of a folder with its figures, and the change from run to run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leadline.analysis.verdicts import Verdict
from leadline.archive.records import RunStatus
from leadline.metrics import Metric, Op
from leadline.report.answers.site import (
    SiteComparison,
    SiteEffect,
    SiteOutput,
    SiteRun,
)
from leadline.report.cells import absent, count, number_column, records_table, section
from leadline.report.document import (
    Block,
    Cell,
    DeltaChart,
    DeltaRow,
    Document,
    Gauge,
    Paragraph,
    Scale,
    Section,
    Table,
    Tile,
    Tiles,
)
from leadline.report.pages.comparison.charts import ratio_scale
from leadline.report.pages.run.charts import plot_scale
from leadline.report.words import (
    OP_NOUNS,
    band_text,
    change_text,
    count_text,
    interval_text,
    listed,
    short,
    value_text,
)

_OPS = (Op.READ, Op.WRITE)
# Rows of a panel; the table has every comparison.
MOST_ROWS = 14
_NAME = 22
# Names in a cell, by which a reader filters.
_MOST_NAMES = 40


def site_document(site: SiteOutput) -> Document:
    """Build the index; the same answer gives the same document."""
    read = [run for run in site.runs if not run.error]
    return Document(
        title="Benchmark runs",
        subtitle=_dates(read) or "no run can be read",
        summary=(_headline(site), *_problems(site)),
        front=_front(site, read),
        sections=(
            *([_runs(read)] if read else ()),
            *([_comparisons(site)] if site.comparisons else ()),
            *([_unread(site)] if len(read) < len(site.runs) else ()),
            _method(site),
        ),
    )


def _headline(site: SiteOutput) -> str:
    runs = count_text(len(site.runs), "run")
    made = [one for one in site.comparisons if not one.error]
    if not made:
        return f"{runs}; no two of them have a cell in common."
    having = {
        verdict: sum(bool(one.verdicts.get(verdict.value)) for one in made)
        for verdict in (Verdict.WORSE, Verdict.BETTER)
    }
    changes = listed(
        f"{verdict.value} rates in {number:,}" for verdict, number in having.items() if number
    )
    return f"{runs}, {count_text(len(made), 'comparison')}: {changes or 'no significant change'}."


def _problems(site: SiteOutput) -> Iterable[str]:
    unread = sum(bool(run.error) for run in site.runs)
    if unread:
        yield f"{count_text(unread, 'archive')} cannot be read: see Archives without a page."
    broken = [run.run for run in site.runs if not run.error and not run.intact]
    if broken:
        names = listed(map(short, broken), 3)
        yield f"{count_text(len(broken), 'archive')} not as sealed, by checksum or number: {names}."


def _dates(runs: Sequence[SiteRun]) -> str:
    days = [run.created_at[:10] for run in runs]
    return " to ".join(dict.fromkeys((min(days), max(days)))) if days else ""


def _time(created_at: str) -> str:
    """`2026-11-23 22:56` of an ISO time."""
    return created_at[:16].replace("T", " ")


# --- first screen -------------------------------------------------------------------------------


def _front(site: SiteOutput, read: Sequence[SiteRun]) -> tuple[Block, ...]:
    if not any(run.ranges for run in read):
        return ()
    panels = tuple(_panels(site.comparisons))
    drawn = max((len(panel.rows) for panel in panels), default=0)
    every = sum(bool(one.overall) for one in site.comparisons)
    text = f"Drawn: the last {drawn} of {every:,} comparisons; the table has all."
    rest = (Paragraph(text=text),) if drawn < every and panels else ()
    return (Tiles(tiles=tuple(_tiles(site, read))), *panels, *rest)


def _tiles(site: SiteOutput, read: Sequence[SiteRun]) -> Iterable[Tile]:
    unread = len(site.runs) - len(read)
    targets = len({target for run in read for target in run.targets})
    workloads = len({workload for run in read for workload in run.workloads})
    yield Tile(
        title="Runs",
        unit="cannot be read: " + str(unread) if unread else "",
        value=f"{len(read):,}",
        verdict="warning" if unread else "",
        note=f"{count_text(targets, 'target')}, {count_text(workloads, 'workload')}.",
    )
    for op in _OPS:
        latest = next(
            (
                (one, effect)
                for one in reversed(site.comparisons)
                for effect in one.overall
                if effect.op == op
            ),
            None,
        )
        if latest:
            yield _latest(op, *latest)
    results, refused = sum(run.results for run in read), sum(run.refused for run in read)
    warned = sum(run.warned for run in read)
    texts = {"refused": refused, "with warnings": warned}
    note = listed(f"{number:,} {what}" for what, number in texts.items() if number)
    yield Tile(
        title="Trust",
        unit="results without a warning",
        value=f"{results - refused - warned:,} of {results:,}",
        verdict="warning" if note else "",
        note=f"{note or 'No warnings'}.",
    )


def _latest(op: Op, one: SiteComparison, effect: SiteEffect) -> Tile:
    names = f"{short(one.candidate, _NAME)} vs {short(one.baseline, _NAME)}"
    return Tile(
        title=f"Last change of {OP_NOUNS[op]}",
        unit="all cells",
        value=change_text(effect.ratio),
        verdict=effect.verdict,
        note=f"{interval_text(effect.interval)}; {names}.",
    )


def _panels(comparisons: Sequence[SiteComparison]) -> Iterable[DeltaChart]:
    """Chart the overall effect of each comparison, the newest last, on one scale."""
    shown = [one for one in comparisons if one.overall][-MOST_ROWS:]
    rows = {
        op: tuple(
            _row(one, effect)
            for one in shown
            for effect in one.overall
            if effect.op == op and effect.ratio > 0
        )
        for op in _OPS
    }
    every = [row for own in rows.values() for row in own]
    if not every:
        return
    scale = ratio_scale("change", every)
    for op, own in rows.items():
        if own:
            yield DeltaChart(
                id=f"front-{op.value}",
                title=f"{OP_NOUNS[op].capitalize()} against the run before (left is worse)",
                scale=scale,
                rows=own,
                panel=True,
            )


def _row(one: SiteComparison, effect: SiteEffect) -> DeltaRow:
    return DeltaRow(
        label=short(one.candidate, _NAME),
        ratio=effect.ratio,
        interval=effect.interval,
        verdict=effect.verdict,
        text=change_text(effect.ratio),
        band=0.0,
    )


# --- tables -------------------------------------------------------------------------------------


def _runs(runs: Sequence[SiteRun]) -> Section:
    shown = (
        ("read IOPS", Metric.IOPS, [Op.READ]),
        ("write IOPS", Metric.IOPS, [Op.WRITE]),
        ("p99 latency", Metric.LATENCY_P99, list(Op)),
    )
    ranges = {name: [_find(run, metric, ops) for run in runs] for name, metric, ops in shown}
    whole = Scale(title="", log=False, low=0.0, high=1.0, ticks=())
    made: Table = records_table(
        "runs",
        runs[::-1],
        ("run", lambda run: Cell(text=run.run, sort=run.run, link=run.page or "")),
        ("date", lambda run: Cell(text=_time(run.created_at), sort=run.created_at)),
        *(
            (
                number_column(name, scale=_scale(metric, ranges[name])),
                lambda run, metric=metric, ops=ops: _range(run, metric, ops),
            )
            for name, metric, ops in shown
            if any(ranges[name])
        ),
        (number_column("without warning", scale=whole), _trust),
        ("trials", _trials),
        ("targets", lambda run: _names(run.targets)),
        ("workloads", lambda run: _names(run.workloads)),
        caption="Newest first; drawn from the lowest to the highest cell, the highest as number",
        filterable=True,
    )
    intact = sum(run.intact and run.status == RunStatus.COMPLETE for run in runs)
    result = f"{intact:,} of {len(runs):,} complete and intact"
    return section("Runs", "runs-section", made, result=result)


def _find(run: SiteRun, metric: Metric, ops: Sequence[Op]) -> tuple[float, float] | None:
    """The lowest and the highest figure of a metric."""
    found = [one for one in run.ranges if one.metric == metric and one.op in ops]
    if not found:
        return None
    return min(one.lowest for one in found), max(one.highest for one in found)


def _scale(metric: Metric, ranges: Sequence[tuple[float, float] | None]) -> Scale:
    ends = [end for one in ranges if one for end in one]
    log, low, high, ticks = plot_scale(metric, ends)
    return Scale(title="", log=log, low=low, high=high, ticks=ticks)


def _range(run: SiteRun, metric: Metric, ops: Sequence[Op]) -> Cell:
    found = _find(run, metric, ops)
    if found is None:
        large = metric is Metric.IOPS and _find(run, Metric.BANDWIDTH, ops)
        return absent("large blocks alone" if large else "no number that the audit accepts")
    lowest, highest = (value_text(metric, end) for end in found)
    one = found[0] == found[1]
    return Cell(
        text=highest,
        sort=found[1],
        note="" if one else f"{lowest} to {highest}",
        gauge=Gauge(value=found[1] if one else None, interval=None if one else found),
    )


def _trust(run: SiteRun) -> Cell:
    if not run.results:
        return absent("no result")
    share = (run.results - run.refused - run.warned) / run.results
    return Cell(
        text=f"{share:.0%}".replace("%", " %"),
        sort=share,
        note=f"of {run.results:,} results {run.refused:,} refused, {run.warned:,} with warnings",
        gauge=Gauge(value=share, bar=True),
    )


def _trials(run: SiteRun) -> Cell:
    parts = (
        f"{run.trials:,} of {run.trials_planned:,}",
        "" if run.status == RunStatus.COMPLETE else run.status,
        "" if run.intact else "not as sealed",
    )
    return Cell(text=", ".join(filter(None, parts)), sort=f"{run.trials:012}")


def _names(names: Sequence[str]) -> Cell:
    more = f", {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    text = ", ".join(names[:_MOST_NAMES]) + more
    return Cell(text=text, sort=text)


def _comparisons(site: SiteOutput) -> Section:
    words = {word for one in site.comparisons for word, number in one.verdicts.items() if number}
    effects = [effect for one in site.comparisons for effect in one.overall]
    ops = [op for op in _OPS if any(effect.op == op for effect in effects)]
    rows = [_row(one, effect) for one in site.comparisons for effect in one.overall]
    scale = ratio_scale("", rows) if rows else None
    made = records_table(
        "comparisons",
        site.comparisons[::-1],
        ("comparison", _comparison),
        ("date", lambda one: Cell(text=_time(one.created_at), sort=one.created_at)),
        *(
            (number_column(OP_NOUNS[op], scale=scale), lambda one, op=op: _overall(one, op, scale))
            for op in ops
        ),
        *(
            (number_column(verdict.value), lambda one, verdict=verdict: _counted(one, verdict))
            for verdict in Verdict
            if verdict in words
        ),
        caption="Each run against the last one before it that has cells in common; counts of rates",
        filterable=True,
    )
    changed = (Verdict.WORSE.value, Verdict.BETTER.value)
    significant = sum(any(map(one.verdicts.get, changed)) for one in site.comparisons)
    result = f"{significant:,} of {len(site.comparisons):,} with a significant change"
    return section("Comparisons", "comparisons-section", made, result=result)


def _comparison(one: SiteComparison) -> Cell:
    text = f"{one.candidate} vs {one.baseline}"
    note = one.error or one.headline
    return Cell(text=text, sort=text, note=note, link=one.page or "")


def _counted(one: SiteComparison, verdict: Verdict) -> Cell:
    return absent(one.error) if one.error else count(one.verdicts.get(verdict.value, 0))


def _overall(one: SiteComparison, op: Op, scale: Scale | None) -> Cell:
    found = next((effect for effect in one.overall if effect.op == op), None)
    if found is None or scale is None:
        return absent(one.error or "fewer than three cells with a rate")
    low, high = found.interval
    return Cell(
        text=change_text(found.ratio),
        sort=found.ratio,
        note=f"{found.verdict}, {interval_text(found.interval)}",
        gauge=Gauge(value=found.ratio, interval=(max(low, scale.low), min(high, scale.high))),
    )


def _unread(site: SiteOutput) -> Section:
    made = records_table(
        "unread",
        [run for run in site.runs if run.error],
        ("folder", lambda run: run.folder),
        ("error", lambda run: run.error),
    )
    result = f"{len(made.rows):,}"
    return section("Archives without a page", "unread-section", made, result=result)


def _method(site: SiteOutput) -> Section:
    rows = (
        ("Runs", "one page for each archive of the folder, as `leadline report` writes it"),
        ("Comparisons", "each run with the last one before it that has cells in common"),
        ("Clusters", "the two clusters of a run are compared too"),
        ("Changes", "geometric mean of the ratios of all rates, with its 95 % interval"),
        ("Equivalence margin", band_text(site.band)),
        ("Deviation between runs", band_text(site.between_runs)),
        ("Check", "`leadline verify PAGE.html --runs FOLDER`, of this page too"),
    )
    made = records_table(
        "method", rows, ("", lambda row: row[0]), ("", lambda row: row[1]), caption="Method"
    )
    return section("Method", "methods", made, folded=True)
