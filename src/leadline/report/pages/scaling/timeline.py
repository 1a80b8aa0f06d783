"""Charts of machine resources over time, for one trial of each load level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from leadline.analysis.scaling.study import CurveStudy
from leadline.archive.reader import Run
from leadline.formats.fio.logs import Window
from leadline.formats.host_rates import MachineRates, rate_series
from leadline.formats.result import FormatError
from leadline.report.cells import section
from leadline.report.curves import MOST_SERIES, PageBudget, linear_scale, thinned
from leadline.report.document import Choices, Line, LineChart, Section
from leadline.report.pages.scaling.words import level_text
from leadline.report.words import chart_labels, share_text
from leadline.units import format_bandwidth

_MOST_POINTS = 40
_Values = Callable[[MachineRates], Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """One chart: `values` returns the value of each line of a machine at a moment."""

    id: str
    title: str
    unit: str
    values: _Values
    share: bool = True


def timeline_sections(
    studies: Sequence[tuple[str, CurveStudy]], budget: PageBudget | None = None
) -> tuple[Section, ...]:
    """Build one folded section with small charts for each level with sampled machines."""
    levels = [
        (name, study, level)
        for name, study in studies
        for level in study.bottlenecks
        if level.evidence.trial
    ]
    made: dict[str, tuple[str, list[LineChart]]] = {}
    # Peaks first: the page budget may not allow all levels.
    for name, study, level in sorted(levels, key=lambda row: row[2] is not row[1].at_peak):
        trial = level.evidence.trial
        if trial in made:
            continue
        charts = _charts(study.run, trial, f"resources-{len(made) + 1}")
        points = sum(len(line.points) for chart in charts for line in chart.lines)
        if charts and (budget is None or budget.allows("resources over time", points)):
            made[trial] = (f"{name} · {level_text(level.point)} · trial {trial}", charts)
    if not made:
        return ()
    trials = dict.fromkeys(level.evidence.trial for _, _, level in levels)
    ordered = [made[trial] for trial in trials if trial in made]
    options = tuple((charts[0].choice, heading) for heading, charts in ordered)
    return (
        section(
            "Resources under each level",
            "resources-over-time",
            Choices(id="resources-level", label="Level", options=options) if options[1:] else None,
            *(chart for _, charts in ordered for chart in charts),
            folded=True,
        ),
    )


def _charts(run: Run, trial: str, anchor: str) -> list[LineChart]:
    stored = next((candidate for candidate in run.trials if candidate.record.label == trial), None)
    if stored is None:
        return []
    try:
        series = rate_series(stored.resources)
    except FormatError:
        return []  # the audit reports the unreadable file
    charts = (_chart(f"{anchor}-{kind.id}", kind, series, anchor) for kind in _KINDS)
    return [chart for chart in charts if chart is not None]


def _chart(
    anchor: str, kind: _Kind, series: Mapping[str, Sequence[MachineRates]], choice: str
) -> LineChart | None:
    lines: dict[str, list[Window]] = {}
    begins: dict[str, float] = {}
    for machine, moments in series.items():
        for moment in moments:
            for part, value in kind.values(moment).items():
                name = f"{machine} {part}".strip()
                begins.setdefault(name, moment.begin_s)
                lines.setdefault(name, []).append(Window(end_s=moment.end_s, value=value))
    # Of many lines the highest: a used-up resource is among them.
    chosen = sorted(lines, key=lambda name: -max(line.value for line in lines[name]))[:MOST_SERIES]
    kept = [name for name in lines if name in chosen]
    if not kept:
        return None
    labels = chart_labels(kept)
    most = max(window.value for name in kept for window in lines[name])
    begin = min(begins[name] for name in kept)
    end = max(lines[name][-1].end_s for name in kept)
    seconds = linear_scale("seconds", end - begin, lambda second: f"{second:g} s")
    left_out = len(lines) - len(kept)
    return LineChart(
        id=anchor,
        title=kind.title + (f", the {len(kept)} highest of {len(lines)}" if left_out else ""),
        series=tuple(labels[name] for name in kept),
        x=replace(seconds, high=end - begin),
        y=linear_scale(
            kind.unit,
            1.0 if kind.share else most,
            lambda tick: _text(kind, tick) if tick else "0",
        ),
        lines=tuple(
            _line(kind, labels[name], number, lines[name], begin)
            for number, name in enumerate(kept)
        ),
        choice=choice,
    )


def _line(kind: _Kind, label: str, number: int, windows: Sequence[Window], begin: float) -> Line:
    shifted = [Window(end_s=window.end_s - begin, value=window.value) for window in windows]
    spans = thinned(shifted, _MOST_POINTS)
    return Line(
        label=label,
        series=number,
        points=tuple(((first + last) / 2, value) for first, last, value in spans),
        texts=tuple(
            f"{first:.0f} to {last:.0f} s: {_text(kind, value)}" for first, last, value in spans
        ),
    )


def _text(kind: _Kind, value: float) -> str:
    return share_text(value) if kind.share else f"{format_bandwidth(value)} MiB/s"


def _throttled(moment: MachineRates) -> Mapping[str, float]:
    return {
        name: group.throttled_share
        for name, group in moment.groups.items()
        if group.throttled_share is not None
    }


_KINDS = (
    _Kind(
        id="cpu",
        title="Processors",
        unit="share busy",
        values=lambda moment: {"": moment.cpu.busy_share} if moment.cpu else {},
    ),
    _Kind(
        id="disks",
        title="Disks",
        unit="share of time with I/O",
        values=lambda moment: {name: disk.utilisation for name, disk in moment.disks.items()},
    ),
    _Kind(
        id="network",
        title="Network",
        unit="busier direction",
        values=lambda moment: {
            name: max(interface.received_bps, interface.sent_bps)
            for name, interface in moment.interfaces.items()
        },
        share=False,
    ),
    _Kind(
        id="throttled",
        title="Processor quota",
        unit="share of periods that used it up",
        values=_throttled,
    ),
)
