"""`leadline scale --format json` and `csv`: what is in them, and that they fit their schema."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from archive_builder import make_run, small_plan, some_findings

from leadline.analysis.comparison import Judged
from leadline.analysis.figures import figures
from leadline.analysis.scaling.clients import disturbances
from leadline.analysis.scaling.curves import LoadCurve
from leadline.analysis.scaling.knee import shape_of
from leadline.analysis.scaling.limits import check_limit
from leadline.analysis.scaling.study import CurveStudy, RunStudy, ScalingStudy, study
from leadline.archive.reader import Run
from leadline.plan.models import LatencyLimit, parse_latency_limit
from leadline.report.answers.scaling import SCALE_COLUMNS, ScaleOutput, scale_output, scale_rows
from tests.unit.analysis.scaling.levels import Did, Level, Simulated, closed, refusal, simulate
from tests.unit.analysis.scaling.systems import HOSTS


def fitting(answer: ScaleOutput) -> Any:
    """The answer as a program reads it, checked against its schema."""
    shown = json.loads(answer.model_dump_json(by_alias=True))
    jsonschema.validate(shown, ScaleOutput.model_json_schema(by_alias=True))
    return shown


def answer_of(made: Simulated, limit: str | None = None) -> Any:
    """A study of simulated levels, without an archive."""
    below = parse_latency_limit(limit) if limit else None
    curves = tuple(_studied(made, curve, below) for curve in made.curves)
    run = RunStudy(run=made.run, figures=made.figures, curves=curves, densities=(), findings=())
    return fitting(
        scale_output(
            ScalingStudy(limit=below, band=0.05, between_runs=0.0, runs=(run,), growths=())
        )
    )


def _studied(made: Simulated, curve: LoadCurve, limit: LatencyLimit | None) -> CurveStudy:
    return CurveStudy(
        run=made.run,
        shape=shape_of(curve, made.samples),
        limit=check_limit(curve, limit) if limit else None,
        offered_limit=check_limit(curve, limit, open_loop=True) if limit else None,
        bottlenecks=(),
        fairness=(),
        disturbances=disturbances(curve, made.samples),
    )


def test_levels_closed_open_and_disturbed_are_distinguished() -> None:
    clients = {"clients": 1, "iodepth": 8}
    made = simulate(
        Level(trials=[[Did(800.0, 0.01)]], **clients),
        Level(trials=[[Did(400.0, 0.002)]], rate_iops=400.0, **clients),
        Level(trials=[[Did(500.0, 0.016)]], neighbours=3, **clients),
    )
    shown = answer_of(made, "mean<5ms")
    (curve,) = shown["curves"]
    found = [(one["loop"], one["neighbours"], one["offered_iops"]) for one in curve["points"]]
    assert found == [("closed", 0, None), ("open", 0, 400.0), ("closed", 3, None)]
    assert (curve["limit"]["loop"], curve["limit"]["last_kept"]) == ("closed", None)
    assert (curve["open_limit"]["loop"], curve["open_limit"]["last_kept"]) == (
        "open",
        "c1-qd8x1-rate400",
    )
    (row,) = shown["neighbours"]
    assert (row["alone"], row["neighbours"]) == ("c1-qd8x1", 3)
    effects = {one["metric"]: one for one in row["effects"]}
    assert effects["iops"]["ratio"] == pytest.approx(500 / 800)
    assert effects["latency_mean"]["ratio"] == pytest.approx(1.6, rel=0.01)


def test_refused_numbers_say_so_and_are_in_nothing_that_is_made_of_them() -> None:
    levels = [closed(load, iops) for load, iops in ((1, 100.0), (2, 190.0), (4, 9999.0))]
    shown = answer_of(simulate(*levels, findings=[refusal("qd4x1")]))
    (curve,) = shown["curves"]
    assert [one["iops_refused"] for one in curve["points"]] == [False, False, True]
    assert curve["points"][2]["findings"] == ["cache-served-reads"]
    assert curve["peak"]["iops"] == 190.0
    assert curve["left_out"] == ["qd4x1"]
    alone = answer_of(simulate(*levels, findings=[refusal("qd4x1", latency_only=True)]))
    point = alone["curves"][0]["points"][2]
    assert (point["iops_refused"], point["latency_refused"]) == (False, True)


def test_an_end_without_bound_is_null() -> None:
    """Levels that are all but a straight line leave the law's peak open: JSON has no infinity."""
    loads = (1, 2, 4, 8, 16)
    shown = answer_of(simulate(*(closed(load, 100.0 * load, 101.0 * load) for load in loads)))
    usl = shown["curves"][0]["usl"]
    assert usl["rate"] == pytest.approx(100.5, rel=0.05)
    assert usl["peak_load"] is None
    assert usl["peak_load_interval"][1] <= 16
    assert shown["curves"][0]["knee"]["absence"]


def test_too_few_levels_have_no_law_and_say_why() -> None:
    shown = answer_of(simulate(closed(1, 100.0), closed(2, 190.0)))
    usl = shown["curves"][0]["usl"]
    assert usl["rate"] is None
    assert "three parameters need 4" in usl["absence"]


def test_missing_is_null_and_never_zero() -> None:
    made = simulate(closed(1, 100.0), closed(8, 300.0, 310.0))
    point = answer_of(made)["curves"][0]["points"][0]
    assert point["latency_p999"] is None or point["latency_p999"] > 0
    assert point["iops_interval"] is None
    assert point["trials"] == 1


def test_csv_is_the_levels_of_the_json() -> None:
    made = simulate(closed(1, 100.0), closed(8, 300.0, 310.0))
    below = ScalingStudy(
        limit=None,
        band=0.05,
        between_runs=0.0,
        runs=(
            RunStudy(
                run=made.run,
                figures=made.figures,
                curves=(_studied(made, made.curve, None),),
                densities=(),
                findings=(),
            ),
        ),
        growths=(),
    )
    answer = scale_output(below)
    rows = [dict(zip(SCALE_COLUMNS, row, strict=True)) for row in scale_rows(answer)]
    assert [(one["load"], one["iops"], one["trials"]) for one in rows] == [
        (1.0, 100.0, 1),
        (8.0, 305.0, 2),
    ]
    assert [one["iops_refused"] for one in rows] == ["no", "no"]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """Two archives whose target has three and five hosts, by its labels."""
    folder = tmp_path_factory.mktemp("runs")
    return (_labelled(folder, "three", "3"), _labelled(folder, "five", "5"))


def _labelled(folder: Path, run_id: str, hosts: str) -> Run:
    plan = small_plan(["disk"], repeats=2)
    target = plan.targets[0].model_copy(update={"labels": {"hosts": hosts}})
    return make_run(folder, plan.model_copy(update={"targets": (target,)}), run_id=run_id)


def judged() -> Judged:
    findings = some_findings("disk", "disk")
    return lambda run: (figures(run, findings), findings)


def test_systems_are_compared_with_what_was_added(archive: tuple[Run, Run]) -> None:
    shown = fitting(scale_output(study(archive, judged())))
    assert shown["runs"] == ["three", "five"]
    assert shown["speedups"]
    for one in shown["speedups"]:
        (resource,) = one["resources"]
        assert (resource["name"], resource["baseline"], resource["candidate"]) == ("hosts", 3, 5)
        assert resource["ratio"] == pytest.approx(HOSTS.ratio)
        assert one["divisor"] == "hosts"
        for level in one["levels"]:
            if level["ratio"] is not None:
                assert level["efficiency"] == pytest.approx(level["ratio"] * 3 / 5)
    refused = [one for one in shown["speedups"] if one["workload"] == "randread-4k-qd1"]
    assert [one["levels"][0]["ratio"] for one in refused] == [None]
    assert [one["peak"] for one in refused] == [None]
    assert shown["findings"] == [], "five hosts that give what three gave"


def test_a_superlinear_finding_has_its_candidate_causes(archive: tuple[Run, Run]) -> None:
    """The trials of one archive, three times as fast."""
    slow, fast = archive

    def faster(run: Run) -> Any:
        rows, findings = judged()(run)
        if run is slow:
            return rows, findings
        return tuple(
            replace(row, metrics=tuple(_times(metric, 3.0) for metric in row.metrics))
            for row in rows
        ), findings

    shown = fitting(scale_output(study([slow, fast], faster)))
    assert shown["findings"]
    for one in shown["findings"]:
        assert one["code"] == "superlinear-scaling"
        assert one["evidence"]["resource_ratio"] == pytest.approx(5 / 3)
        assert {cause["stance"] for cause in one["causes"]} <= {
            "supported",
            "open",
            "contradicted",
        }
        assert len(one["causes"]) == 7


def _times(metric: Any, factor: float) -> Any:
    if metric.metric.value != "iops" or metric.value is None:
        return metric
    trials = tuple(
        replace(one, value=None if one.value is None else factor * one.value)
        for one in metric.trials
    )
    return replace(metric, value=factor * metric.value, trials=trials)
