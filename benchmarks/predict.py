"""What forecasts cost: ten load curves calibrated, and 40 cells forecast with intervals.

    uv run --frozen python benchmarks/predict.py

Each curve has three trials at 1, 4, 16 and 64 in flight; each of its cells is forecast after a
change of the round trip and of the capacity. `first` includes the table of networks at these loads,
which a process computes once. Processor time; the ratio is that to solving the network that made
the curves once for each cell.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from leadline.analysis.explain.accounts import Estimate
from leadline.analysis.figures import METRICS, CellFigure, MetricFigure, TrialValue
from leadline.analysis.predict.calibrate import calibrate, forecast
from leadline.analysis.predict.facts import Refusal, Shift
from leadline.analysis.scaling.curves import Axis, LoadCurve, LoadPoint, PointLoad
from leadline.metrics import Metric, Op
from leadline.model.networks import Network, throughput

LOADS, CURVES, AROUND, REPEATS = (1, 4, 16, 64), 10, (0.98, 1.0, 1.02), 9
SHIFT = Shift(
    added_s=Estimate(value=1e-3, low=0.9e-3, high=1.1e-3),
    capacity=Estimate(value=0.8, low=0.7, high=0.9),
)


def network(servers: float) -> Network:
    given = (0.002, 8000.0, servers, 0.0, 0.0, np.inf)
    delay_s, capacity, many, exponent, onset, until = (np.array([value]) for value in given)
    return Network(
        delay_s=delay_s,
        capacity=capacity,
        servers=many,
        shared=np.array([False]),
        exponent=exponent,
        onset=onset,
        until=until,
    )


def rate(servers: float, load: int) -> float:
    return float(throughput(network(servers), load)[0])


def point(servers: float, load: int) -> LoadPoint:
    iops = rate(servers, load)
    values = {Metric.IOPS: iops, Metric.LATENCY_MEAN: load / iops, Metric.LATENCY_P99: 5 / iops}
    metrics = tuple(
        MetricFigure(
            metric=metric,
            value=values.get(metric),
            trials=tuple(
                TrialValue(trial=f"{number}", value=share * values[metric])
                for number, share in enumerate(AROUND)
                if metric in values
            ),
        )
        for metric in METRICS
    )
    figure = CellFigure(
        target="pool",
        workload="randread",
        planned_workload="randread",
        level=f"qd{load}",
        op=Op.READ,
        completed=len(AROUND),
        planned=len(AROUND),
        metrics=metrics,
    )
    return LoadPoint(
        level=figure.level, cell=0, load=PointLoad(numjobs=1, iodepth=load), figure=figure
    )


def forecast_all(curves: list[LoadCurve]) -> int:
    """Return the number of cells with a forecast."""
    found = 0
    for curve in curves:
        known = calibrate(curve)
        if isinstance(known, Refusal):
            continue
        found += sum(bool(forecast(known, SHIFT, load).expected) for load in LOADS)
    return found


def timed(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def main() -> None:
    curves = [
        LoadCurve(
            target="pool",
            workload="randread",
            op=Op.READ,
            axis=Axis.IN_FLIGHT,
            closed=tuple(point(2.0 + number, load) for load in LOADS),
        )
        for number in range(CURVES)
    ]
    first = timed(lambda: forecast_all(curves))
    later = min(timed(lambda: forecast_all(curves)) for _ in range(REPEATS))
    once = min(
        timed(lambda: [rate(2.0 + number, load) for number in range(CURVES) for load in LOADS])
        for _ in range(REPEATS)
    )
    cells = forecast_all(curves)
    print(
        f"{cells} cells: first {first:.2f} s, later {later:.2f} s, {later / once:.0f} x a network"
    )


if __name__ == "__main__":
    main()
