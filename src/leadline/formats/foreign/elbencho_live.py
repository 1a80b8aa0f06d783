"""elbencho's live statistics (`--livecsv`): the rates of a phase over time.

A row is of the interval since the row before it, `DoneBytes` since the phase began. The last row is
written before the phase ends, so that a phase's result is in the file of `--csvfile` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from leadline.formats.fio.logs import Window
from leadline.formats.result import FormatError
from leadline.formats.text import Figures

LIVE_HEADER: Final = "Label,Phase,RuntimeMS,"
_NEEDED: Final = ("Label", "Phase", "RuntimeMS", "Rank", "MixType", "DoneBytes", "IOPS")


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePhase:
    """The live statistics of all workers in one phase. `mix` is elbencho's name of a direction in a
    mixed phase. Seconds, bytes and I/Os per second."""

    label: str
    operation: str
    mix: str
    where: str
    elapsed_s: float
    done_bytes: int
    windows: tuple[Window, ...]

    @property
    def ios(self) -> float:
        """I/Os until the last row: the sum over the intervals."""
        starts = [0.0, *(window.end_s for window in self.windows)]
        return sum(
            window.value * (window.end_s - start)
            for window, start in zip(self.windows, starts, strict=False)
        )


def parse_live(lines: Sequence[str], figures: Figures) -> list[LivePhase]:
    """Parse the phases in their order. Raises FormatError with condition `unreadable-result` or
    `truncated-result` where the only row is cut off."""
    header = next(line for line in lines if line.strip()).split(",")
    missing = [name for name in _NEEDED if name not in header]
    if missing:
        raise FormatError.unreadable(f"elbencho's live statistics lack {', '.join(missing)}")
    phases: dict[tuple[str, str, str], list[tuple[int, dict[str, str]]]] = {}
    for number, line in enumerate(lines, start=1):
        cells = line.split(",")
        if not line.strip() or line.startswith(LIVE_HEADER):
            continue
        if len(cells) != len(header):
            if number == len(lines):
                break  # A killed elbencho leaves a part of a row.
            raise FormatError.unreadable(
                f"a row has {len(cells)} cells, its header {len(header)}", f"line {number}"
            )
        row = dict(zip(header, cells, strict=True))
        # Other ranks are single workers.
        if row["Rank"] == "Total":
            key = (row["Label"].strip(), row["Phase"].strip(), row["MixType"].strip())
            phases.setdefault(key, []).append((number, row))
    return [_phase(*key, rows, figures) for key, rows in phases.items()]


def _phase(
    label: str,
    operation: str,
    mix: str,
    rows: Sequence[tuple[int, dict[str, str]]],
    figures: Figures,
) -> LivePhase:
    windows: list[Window] = []
    done = 0
    for number, row in rows:
        where = f"line {number}"
        end_ms = figures.number(row["RuntimeMS"], where, "RuntimeMS")
        iops = figures.number(row["IOPS"], where, "IOPS")
        done = figures.whole(row["DoneBytes"], where, "DoneBytes") or done
        before_s = windows[-1].end_s if windows else 0.0
        if end_ms is None or iops is None or end_ms / 1000 <= before_s:
            raise FormatError.unreadable("the live statistics go back in time", where)
        windows.append(Window(end_ms / 1000, iops))
    return LivePhase(
        label=label,
        operation=operation,
        mix=mix,
        where=f"line {rows[0][0]}",
        elapsed_s=windows[-1].end_s,
        done_bytes=done,
        windows=tuple(windows),
    )
