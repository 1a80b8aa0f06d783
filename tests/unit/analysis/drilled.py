"""Synthetic logs of drills whose times are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from leadline.analysis.drill import DrilledCell, DrilledTrial, MissingTrial, drill_of
from leadline.archive.records import TrialStatus
from leadline.formats.ceph.status import ClusterSample
from leadline.formats.drill import Mark
from leadline.formats.fio.histogram_logs import ROW_S, LatencyRow
from leadline.metrics import Op
from leadline.plan.drill import Drill, DrillEvent
from leadline.stats.histogram import LatencyHistogram

BEGIN_S = 1.8e9


def rows(iops: Callable[[float], float], first: int, last: int) -> Iterator[LatencyRow]:
    """A row each ROW_S from `first` to `last` seconds from the event, where there was I/O; all
    latencies are 1 ms, and 9 ms while the rate is below 1000."""
    for step in range(round(first / ROW_S), round(last / ROW_S)):
        at_s = (step + 1) * ROW_S
        rate = iops(at_s - ROW_S / 2)
        count = round(rate * ROW_S)
        if count:
            latency_ns = 1_000_000 if rate >= 1000 else 9_000_000
            histogram = LatencyHistogram.from_bins({latency_ns: count})
            yield LatencyRow(at_s=BEGIN_S + at_s, op=Op.READ, histogram=histogram)


def marks(**times_s: float) -> dict[Mark, float]:
    return {Mark.BEGIN: BEGIN_S} | {Mark[key]: BEGIN_S + at for key, at in times_s.items()}


def drilled(
    iops: Callable[[float], float],
    *samples: Any,
    first: int = -10,
    last: int = 60,
    **times_s: float,
) -> DrilledTrial:
    found = drill_of("t0001", tuple(rows(iops, first, last)), marks(**times_s), samples)
    assert found is not None
    return found


def iso(at_s: float) -> str:
    """The time `at_s` seconds from the event, as records have it."""
    return datetime.fromtimestamp(BEGIN_S + at_s, UTC).isoformat(timespec="milliseconds")


def sample(at_s: float, bps: float) -> ClusterSample:
    status: Any = SimpleNamespace(recovering_bps=bps)
    return ClusterSample(at=iso(at_s), elapsed_s=at_s, status=status)


def drilled_cell() -> DrilledCell:
    """Two trials of a lost zone: no I/O for 12 and 14 s, then a slow recovery until 28 s; and one
    trial that hung."""

    def after(outage_s: int) -> DrilledTrial:
        return drilled(
            lambda at_s: 4000 if at_s < 0 or at_s >= 28 else 0 if at_s < outage_s else 2000,
            sample(14, 0),
            sample(20, 3e6),
            sample(24, 0),
            ENDED=20.0,
            WHOLE=28.0,
        )

    hung = MissingTrial(trial="t0003", status=TrialStatus.HUNG, fact="fio did not end")
    return DrilledCell(
        target="rep3",
        workload="w",
        level="qd4",
        drill=Drill(after=15.0, lasts=20.0, event=DrillEvent(stop_zone="az2")),
        trials=(after(12), after(14)),
        missing=(hung,),
    )
