"""Charts in a terminal: changes round a centre line, bars of blocks, trees of lines."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from leadline.report.charts.axis import fitting, share
from leadline.report.charts.shapes import SYMBOLS
from leadline.report.charts.words import line_texts, tree_lines
from leadline.report.document import Bar, BarChart, DeltaChart, DeltaRow, LineChart, Scale, Tree
from leadline.report.fitting import filled, shortened

_GAP = "  "
_WIDEST_NAME, _WIDEST_END = 40, 46
_NARROWEST_TRACK, _WIDEST_TRACK = 11, 61
# Pixels of a character, by which `fitting` measures.
_CHARACTER = 6.3
_EIGHTHS = " ▏▎▍▌▋▊▉"
_STYLES = {"better": "blue", "worse": "yellow"}


def delta_lines(chart: DeltaChart, width: int) -> Iterator[Text]:
    """A row for each change: its name, the mark in its interval between the chart's ends, and its
    text. `░` is the band, `│` no change."""
    names, track, ends = _widths(
        [row.label for row in chart.rows], [row.text for row in chart.rows], width
    )
    for row in chart.rows:
        line = Text(f"{filled(row.label, names)}{_GAP}")
        line.append_text(_delta(chart.scale, row, track))
        line.append(f"{_GAP}{shortened(row.text, ends)}", style=_STYLES.get(row.verdict, ""))
        yield line
    yield Text(" " * (names + len(_GAP)) + _ticks(chart.scale, track), style="dim")


def _delta(scale: Scale, row: DeltaRow, width: int) -> Text:
    cells = [" "] * width
    for index in _span(scale, 1 - row.band, 1 + row.band, width):
        cells[index] = "░"
    cells[_place(scale, 1.0, width)] = "│"
    if row.ratio is not None and row.interval is not None:
        span = _span(scale, *row.interval, width)
        for index in span:
            cells[index] = "─"
        if len(span) > 1:
            cells[span[0]], cells[span[-1]] = "├", "┤"
    drawn = Text("".join(cells))
    if row.ratio is None:
        return drawn
    at = _place(scale, row.ratio, width)
    symbol = SYMBOLS.get(row.verdict, "○")
    return Text.assemble(drawn[:at], (symbol, _STYLES.get(row.verdict, "")), drawn[at + 1 :])


def bar_lines(chart: BarChart, width: int) -> Iterator[Text]:
    """Each group's name and below it a bar for each series; `░` where the figure is refused."""
    bars = [bar for group in chart.groups for bar in group.bars]
    names, track, ends = _widths(
        [f"  {_series(chart, bar)}" for bar in bars], [bar.text for bar in bars], width
    )
    for group in chart.groups:
        alone = len(chart.series) < 2 and len(group.bars) == 1
        if not alone:
            yield Text(shortened(group.label, width))
        for bar in group.bars:
            name = group.label if alone else f"  {_series(chart, bar)}"
            drawn = filled(_blocks(chart.scale, bar, track), track)
            end = shortened(bar.text, ends)
            yield Text(f"{filled(name, names)}{_GAP}{drawn}{_GAP}{end}".rstrip())


def _series(chart: BarChart, bar: Bar) -> str:
    return chart.series[bar.series] if bar.series < len(chart.series) else ""


def _blocks(scale: Scale, bar: Bar, width: int) -> str:
    if bar.value is None:
        return ""
    eighths = round(share(scale, bar.value) * width * 8)
    if bar.refused:
        return "░" * round(eighths / 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def chart_lines(chart: LineChart) -> Iterator[Text]:
    """Each line's points in words, where there are few."""
    for label, points in line_texts(chart):
        yield Text(f"{label}: {points or 'too many points to be told; a page draws them'}")


def drawn_tree(tree: Tree) -> Iterator[Text]:
    for lead, label, note in tree_lines(tree):
        yield Text.assemble((lead, "dim"), label, (f"  {note}" if note else "", "dim"))


def _widths(names: list[str], ends: list[str], width: int) -> tuple[int, int, int]:
    """(name, track, end) in terminal cells: what is left between the texts is drawn in."""
    most = max(8, (width - _NARROWEST_TRACK - 2 * len(_GAP)) // 2)
    end = min(_WIDEST_END, max(map(cell_len, ends), default=0), most)
    name = min(_WIDEST_NAME, max(map(cell_len, names), default=0), most, max(8, width // 3))
    room = width - name - end - 2 * len(_GAP)
    track = min(max(room, _NARROWEST_TRACK), _WIDEST_TRACK)
    return name, track, end


def _place(scale: Scale, value: float, width: int) -> int:
    return round(share(scale, value) * (width - 1))


def _span(scale: Scale, low: float, high: float, width: int) -> range:
    return range(_place(scale, low, width), _place(scale, high, width) + 1)


def _ticks(scale: Scale, width: int) -> str:
    """The axis's texts below their places."""
    line = ""
    for part, text in fitting(scale, width * _CHARACTER):
        start = round(part * (width - 1)) - len(text) // 2
        start = max(min(start, width - len(text)), len(line) + bool(line), 0)
        line = line.ljust(start) + text
    return line.rstrip()
