"""The errors of forecasts that the program cites are those of the docs, and can be made again."""

from __future__ import annotations

import pytest

from leadline.analysis.predict.facts import METRICS, LeftOut
from leadline.analysis.predict.prediction import validated_errors
from scripts import forecast_errors


def test_the_page_has_the_errors_that_the_program_cites() -> None:
    cited = [error for left_out in LeftOut for error in validated_errors(left_out)]
    assert {(one.left_out, one.metric) for one in cited} == {
        (left_out, metric) for left_out in LeftOut for metric in METRICS
    }
    by_source = sorted(cited, key=lambda one: one.source)
    assert forecast_errors.page(by_source) == forecast_errors.PAGE.read_text("utf-8")


@pytest.mark.slow
def test_the_errors_are_made_again_from_the_recorded_runs() -> None:
    cited = {
        (one.source, one.left_out, one.metric): one
        for left_out in LeftOut
        for one in validated_errors(left_out)
    }
    found = forecast_errors.recorded()
    assert len(found) == len(cited)
    for one in found:
        kept = cited[one.source, one.left_out, one.metric]
        assert (one.cells, one.refused) == (kept.cells, kept.refused)
        for share, known in ((one.median, kept.median), (one.coverage, kept.coverage)):
            assert share == pytest.approx(known, abs=0.01)
