"""JSON answer of `leadline predict` (contract `leadline/predict/1`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import Field

from leadline.analysis.explain.accounts import Estimate
from leadline.analysis.predict.facts import COVERAGE, Forecast, ForecastError
from leadline.analysis.predict.prediction import Prediction, within
from leadline.metrics import Metric
from leadline.report.answers.base import CellOutput, FindingOutput, Output
from leadline.report.pages.predict.summary import predict_headline
from leadline.report.pages.predict.words import REFUSALS, unexpected_findings


class EstimateOutput(Output):
    """A value with its interval, in the metric's base unit."""

    value: float
    low: float
    high: float


class BoundOutput(Output):
    """What no result can pass: `capacity_iops` of the station `capacity_of`, `capacity_bps` for
    operations of `io_bytes`, and the least mean latency `floor_s`; null where it is unknown."""

    capacity_iops: float | None
    capacity_bps: float | None
    io_bytes: float | None
    capacity_of: str | None
    floor_s: float | None
    floor_of: str | None


class SensitivityOutput(Output):
    """`elasticity`: relative change of the expected rate per relative change of the assumption."""

    assumption: str
    station: str
    elasticity: float


class RefusalOutput(Output):
    code: str
    message: str


class ForecastOutput(CellOutput):
    """One cell. `layer` is `bounds` or `calibrated`; of `bounds` there are no estimates, and
    `refusals` say why. Metrics are `iops`, `latency_mean`, `latency_p99`, and `bandwidth` of a
    stream, whose bound counts records. `observed` was measured on the changed system; `within` says
    whether it is in the interval."""

    op: str
    in_flight: int | None
    layer: str
    measured: dict[str, float]
    modelled: dict[str, EstimateOutput]
    expected: dict[str, EstimateOutput]
    observed: dict[str, float]
    within: dict[str, bool]
    bound_now: BoundOutput | None
    bound: BoundOutput | None
    limit_before: str | None
    limit_after: str | None
    sensitivity: SensitivityOutput | None
    refusals: list[RefusalOutput]


class ForecastErrorOutput(Output):
    """Errors of forecasts of cells that the model did not see: |expected - measured| / measured,
    null where all were refused. `coverage` is the share of them within the interval, `by_repeats`
    the mean error that the scatter of repeats leaves to a perfect forecast."""

    source: str
    left_out: str
    metric: str
    cells: int
    refused: int
    mean: float | None
    median: float | None
    p90: float | None
    worst: float | None
    coverage: float | None
    by_repeats: float | None


class ExpectedRateOutput(CellOutput):
    """The rate that the inventory lets expect of a cell before it is measured, I/Os per second.
    `direction` is `above` or `below`, null for a rate inside; `station` would explain it."""

    op: str
    in_flight: int
    iops: float
    low: float
    high: float
    direction: str | None
    station: str | None


class PredictAskedOutput(Output):
    """The request: `set` are the changes, `against` the system that is compared with the forecast,
    `cluster` the one that is calibrated. `inventory` is the folder of --from-inventory, `leave`
    what --validate leaves out; null without the option."""

    set: list[str]
    cluster: str | None
    against: str | None
    inventory: str | None
    leave: str | None


class PredictOutput(Output):
    """Forecasts in base units with intervals of the probability `coverage`. `runs` is empty for the
    bounds of an inventory. `between` are forecasts between the levels. With --validate there are
    `errors` alone, those of the runs; else those of the latest validation. `rates` are expected
    before measuring, `findings` those outside their interval. `asked` is null where no page is
    made."""

    schema_: Literal["leadline/predict/1"] = Field(default="leadline/predict/1", alias="schema")
    runs: list[str]
    system: str
    changes: list[str]
    against: str
    coverage: float = COVERAGE
    headline: str
    forecasts: list[ForecastOutput]
    between: list[ForecastOutput]
    errors: list[ForecastErrorOutput]
    rates: list[ExpectedRateOutput]
    findings: list[FindingOutput]
    asked: PredictAskedOutput | None = None


def predict_output(
    prediction: Prediction, asked: PredictAskedOutput | None = None
) -> PredictOutput:
    return PredictOutput.from_records(
        prediction,
        headline=predict_headline(prediction),
        forecasts=[_forecast(one) for one in prediction.forecasts],
        between=[_forecast(one) for curve in prediction.curves for one in curve.between],
        errors=error_outputs(prediction.errors),
        rates=[
            ExpectedRateOutput.from_records(one, low=one.expected.low, high=one.expected.high)
            for one in prediction.rates
        ],
        findings=[FindingOutput.from_records(one) for one in unexpected_findings(prediction.rates)],
        asked=asked,
    )


def error_outputs(errors: Iterable[ForecastError]) -> list[ForecastErrorOutput]:
    return [ForecastErrorOutput.from_records(error) for error in errors]


def _forecast(one: Forecast) -> ForecastOutput:
    held = {metric.value: within(one, metric) for metric in one.observed}
    return ForecastOutput.from_records(
        one,
        measured=_by_name(one.measured),
        observed=_by_name(one.observed),
        modelled=_estimates(one.modelled),
        expected=_estimates(one.expected),
        within={name: result for name, result in held.items() if result is not None},
        refusals=[RefusalOutput(code=code.value, message=REFUSALS[code]) for code in one.refusals],
    )


def _by_name(values: Mapping[Metric, float]) -> dict[str, float]:
    return {metric.value: value for metric, value in values.items()}


def _estimates(estimates: Mapping[Metric, Estimate]) -> dict[str, EstimateOutput]:
    return {
        metric.value: EstimateOutput.from_records(estimate)
        for metric, estimate in estimates.items()
    }
