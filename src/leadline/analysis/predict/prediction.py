"""The forecasts of a run: what is expected of each cell, as it is or after a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline.analysis.predict.expected import ExpectedRate
from leadline.analysis.predict.facts import (
    Forecast,
    ForecastError,
    Layer,
    LeftOut,
    Refusal,
)
from leadline.data import load_table
from leadline.metrics import Metric, Op


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveForecast:
    """One target, workload and operation: its `levels`, and `between` them forecasts for drawing,
    without measured figures."""

    target: str
    workload: str
    op: Op
    levels: tuple[Forecast, ...]
    between: tuple[Forecast, ...] = ()

    @property
    def calibrated(self) -> bool:
        return any(forecast.layer is Layer.CALIBRATED for forecast in self.levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """`runs` are those of the measurements, the calibrated one first, empty for an inventory;
    `system` names what was measured. `changes` are as they were requested; `against` is the system
    whose measurements are compared with the forecast, empty for none. `errors` are those of
    validated forecasts of the same kind; the first of a metric is cited. `rates` are what
    the inventory of the first run lets expect of its cells before they are measured."""

    runs: tuple[str, ...]
    system: str
    curves: tuple[CurveForecast, ...]
    changes: tuple[str, ...] = ()
    against: str = ""
    errors: tuple[ForecastError, ...] = ()
    rates: tuple[ExpectedRate, ...] = ()

    @property
    def forecasts(self) -> tuple[Forecast, ...]:
        return tuple(forecast for curve in self.curves for forecast in curve.levels)

    @property
    def calibrated(self) -> tuple[Forecast, ...]:
        return tuple(one for one in self.forecasts if one.layer is Layer.CALIBRATED)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Every reason once, the most frequent first."""
        found = [reason for forecast in self.forecasts for reason in forecast.refusals]
        return tuple(sorted(dict.fromkeys(found), key=lambda one: -found.count(one)))

    @property
    def answered(self) -> bool:
        """Whether there is a forecast or a bound."""
        bounds = [one.bound for one in self.forecasts if one.bound is not None]
        return bool(self.calibrated) or any(
            bound.capacity_iops is not None or bound.floor_s is not None for bound in bounds
        )

    def validated(self, metric: Metric) -> ForecastError | None:
        """The errors of the validated forecasts of a metric; None where there are none."""
        return next((one for one in self.errors if one.metric is metric and one.cells), None)

    @property
    def changed(self) -> bool:
        """Whether the forecast is of another system than the measured one."""
        return bool(self.changes or self.against)


def within(forecast: Forecast, metric: Metric) -> bool | None:
    """Return whether what was measured on the changed system is within the interval; None where one
    of the two is unknown."""
    expected, observed = forecast.expected.get(metric), forecast.observed.get(metric)
    if expected is None or observed is None:
        return None
    return expected.low <= observed <= expected.high


def validated_errors(left_out: LeftOut, *, worst: bool = False) -> tuple[ForecastError, ...]:
    """Return the errors of the latest validation, from data/forecast_errors.yaml: those of the
    largest run first, or the `worst` ones."""
    table = load_table("forecast_errors", tuple[ForecastError, ...])
    found = (error for error in table if error.left_out is left_out and error.median is not None)
    return tuple(
        sorted(found, key=lambda one: -(one.median or 0.0) if worst else -float(one.cells))
    )


def count_within(forecasts: Sequence[Forecast], metric: Metric) -> tuple[int, int]:
    """Return how many measurements are within the interval, and how many are compared."""
    found = [result for one in forecasts if (result := within(one, metric)) is not None]
    return sum(found), len(found)
