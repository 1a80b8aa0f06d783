"""fio's per-interval logs (`write_iops_log`, `write_lat_log` with `log_avg_msec`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leadline.formats.output import FormatError
from leadline.metrics import Op

_DIRECTIONS = {0: Op.READ, 1: Op.WRITE, 2: Op.TRIM}


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One interval of a log: its end in seconds since the job began, and the value in it."""

    end_s: float
    value: float


def parse_iops_log(text: str, window_s: float = 1.0) -> Mapping[Op, tuple[Window, ...]]:
    """IOPS per window and direction, the jobs of the log added up.

    Several jobs write into one file, one behind the other, so lines are gathered by window. A last
    window that is shorter than half of `window_s` is left out: its rate is of a few I/Os.
    Raises FormatError with the line.
    """
    sums: dict[Op, dict[int, float]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        fields = [field.strip() for field in line.split(",")]
        try:
            end_ms, value, direction = int(fields[0]), float(fields[1]), int(fields[2])
            op = _DIRECTIONS[direction]
        except (ValueError, IndexError, KeyError) as error:
            raise FormatError(
                "unreadable-result", f"line {number} of a fio log is not understood: {line[:80]!r}"
            ) from error
        window = round(end_ms / 1000 / window_s)
        if abs(end_ms / 1000 - window * window_s) < window_s / 2 and window > 0:
            slot = sums.setdefault(op, {})
            slot[window] = slot.get(window, 0.0) + value
    return {
        op: tuple(
            Window(end_s=window * window_s, value=value) for window, value in sorted(slots.items())
        )
        for op, slots in sums.items()
    }
