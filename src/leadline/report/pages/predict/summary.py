"""Forecasts in short: headline, sentences, and the blocks of the first screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from leadline.analysis.predict.facts import METRICS, Forecast
from leadline.analysis.predict.prediction import Prediction, count_within
from leadline.metrics import Metric, Op
from leadline.report.document import Block, Columns, Tile, Tiles
from leadline.report.pages.predict.charts import change_panels
from leadline.report.pages.predict.words import (
    LEFT_OUT,
    REFUSALS,
    change_of,
    error_text,
    limit_text,
    refusal_lines,
)
from leadline.report.words import (
    OP_NOUNS,
    count_text,
    listed,
    percent_text,
    short,
    span_text,
    title,
)

_NAME = 32


def predict_headline(prediction: Prediction) -> str:
    """State what is expected, in about 20 words without names."""
    total = len(prediction.forecasts)
    if not total:
        return f"Left out and forecast: {_error_line(prediction) or 'every cell was refused.'}"
    if not prediction.calibrated:
        reason = next(iter(prediction.refusals), None)
        why = f": {REFUSALS[reason]}" if reason else ""
        return f"Bounds only for {count_text(total, 'cell')}{why}."
    if prediction.against:
        held, compared = count_within(prediction.forecasts, Metric.IOPS)
        return (
            f"{short(prediction.against, _NAME)}: {held} of "
            f"{count_text(compared, 'measured rate')} within the expected 90 % interval."
        )
    if not prediction.changed:
        held, compared = _held_now(prediction.forecasts)
        return (
            f"The model holds {held} of {count_text(compared, 'measured rate')} "
            "within its 90 % interval."
        )
    parts = [f"{OP_NOUNS[op]} {text}" for op, text in _changes(prediction, Metric.IOPS).items()]
    return f"Expected with {listed(prediction.changes)}: {listed(parts)}."


def _held_now(forecasts: Sequence[Forecast]) -> tuple[int, int]:
    """Count measured rates within the interval of the model, and all of them."""
    pairs = [
        (one.measured[Metric.IOPS], one.modelled[Metric.IOPS])
        for one in forecasts
        if Metric.IOPS in one.measured and Metric.IOPS in one.modelled
    ]
    return sum(model.low <= value <= model.high for value, model in pairs), len(pairs)


def _changes(prediction: Prediction, metric: Metric) -> dict[Op, str]:
    """The range of expected changes of each operation: `12 to 27 % fewer IOPS`."""
    found: dict[Op, list[float]] = {}
    for one in prediction.calibrated:
        change = change_of(one, metric)
        if change is not None:
            found.setdefault(one.op, []).append(change.value)
    words = ("fewer IOPS", "more IOPS") if metric is Metric.IOPS else ("lower", "higher")
    return {op: span_text(ratios, *words) for op, ratios in found.items()}


def summary_sentences(prediction: Prediction) -> Iterator[str]:
    """Yield the other results, a sentence each of at most 20 words where names are short."""
    if prediction.against:
        held = [
            f"{title(metric)} {inside} of {compared}"
            for metric in METRICS
            if (pair := count_within(prediction.forecasts, metric))[1]
            for inside, compared in (pair,)
        ]
        if held:
            yield f"Within the expected interval: {listed(held)}."
    elif prediction.changed:
        for op, text in _changes(prediction, Metric.LATENCY_MEAN).items():
            yield f"Mean latency of {OP_NOUNS[op]}: {text}."
    limits = Counter(limit_text(one) for one in prediction.calibrated if limit_text(one))
    if limits:
        counted = (f"{name} ({number})" for name, number in limits.most_common(3))
        yield f"Limited by: {listed(counted)}."
    if prediction.curves:
        line = _error_line(prediction)
        yield f"Validated {line}" if line else "No validated error for such a change."
    for reason, cells in refusal_lines(prediction.forecasts)[:2]:
        yield f"{count_text(cells, 'cell')}, bounds only: {REFUSALS[reason]}."


def _error_line(prediction: Prediction) -> str:
    """Cite the validated error of the rates; empty where there is none."""
    error = prediction.validated(Metric.IOPS)
    if error is None or error.coverage is None:
        return ""
    return (
        f"error of IOPS ({LEFT_OUT[error.left_out]}): {error_text(error)}; "
        f"{percent_text(error.coverage)} within the interval."
    )


# --- the first screen ---------------------------------------------------------------------------


def front_blocks(prediction: Prediction) -> Iterator[Block]:
    if prediction.curves:
        yield Tiles(tiles=tuple(_tiles(prediction)))
    if prediction.changed and prediction.calibrated:
        panels = change_panels(prediction.calibrated, Metric.IOPS)
        if panels:
            yield Columns(parts=(("Expected change of IOPS", panels),))


def _tiles(prediction: Prediction) -> Iterator[Tile]:
    if prediction.changed:
        for op, text in list(_changes(prediction, Metric.IOPS).items())[:2]:
            latencies = _changes(prediction, Metric.LATENCY_MEAN).get(op, "unknown")
            yield Tile(
                title=OP_NOUNS[op].capitalize(),
                unit="expected IOPS",
                value=text.removesuffix(" IOPS"),
                verdict="",
                note=f"Mean latency {latencies}.",
            )
    held, compared = (
        count_within(prediction.forecasts, Metric.IOPS)
        if prediction.against
        else _held_now(prediction.forecasts)
    )
    if compared:
        model = "expected" if prediction.against else "model's"
        yield Tile(
            title="Measured rates",
            unit=f"within the {model} interval",
            value=f"{held} of {compared}",
            verdict="",
            note="Intervals of 90 %: one of ten is outside by chance.",
        )
    yield Tile(
        title="Forecasts",
        unit="by the calibrated model",
        value=f"{len(prediction.calibrated)} of {len(prediction.forecasts)}",
        verdict="" if prediction.calibrated else "warning",
        note="The other cells have bounds only, with the reason."
        if len(prediction.calibrated) < len(prediction.forecasts)
        else "No cell is refused.",
    )
    error = prediction.validated(Metric.IOPS)
    if error is not None:
        yield Tile(
            title="Validated error",
            unit=f"IOPS, {LEFT_OUT[error.left_out]}",
            value=f"median {percent_text(error.median or 0.0)}",
            verdict="",
            note=f"90 % within {percent_text(error.p90 or 0.0)}, worst "
            f"{percent_text(error.worst or 0.0)}; {percent_text(error.coverage or 0.0)} within the "
            "interval.",
        )
