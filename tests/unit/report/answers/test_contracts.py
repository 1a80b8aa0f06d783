"""JSON outputs against their own schemas, and the contract's field names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from archive_builder import make_run, some_findings
from compared_cells import RTT, Row, cells, zones_apart
from pydantic import BaseModel

from leadline.analysis.compare import compare
from leadline.analysis.comparison import By, two_runs
from leadline.analysis.explain.explain import explain
from leadline.analysis.figures import figures
from leadline.analysis.gate import Policy, decide
from leadline.analysis.history import build_history
from leadline.analysis.history_rows import HistoryRun
from leadline.analysis.layers.study import layer_study
from leadline.analysis.objectives import every_rate, find_use_case
from leadline.analysis.ranking import rank
from leadline.analysis.recommend import recommend
from leadline.analysis.requirements import protections
from leadline.analysis.scaling.study import study
from leadline.archive.reader import Run
from leadline.archive.verify import verify
from leadline.formats.importer import Refused
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.metrics import Op
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import parse_latency_limit
from leadline.plan.volume_request import VolumeMode
from leadline.planning.draft import Draft, DraftTarget, LeftOut, Load
from leadline.report.answers import run as contracts
from leadline.report.answers.comparison import compare_output
from leadline.report.answers.drill import drill_output
from leadline.report.answers.gate import gate_output
from leadline.report.answers.history import HistoryAskedOutput, history_output
from leadline.report.answers.layers import layers_output
from leadline.report.answers.placement import pools_placement_output
from leadline.report.answers.predict import predict_output
from leadline.report.answers.ranking import rank_output, recommend_output
from leadline.report.answers.scaling import scale_output
from leadline.report.answers.schemas import SCHEMAS
from leadline.report.answers.settings import settings_output
from leadline.report.answers.site import SiteOutput, site_comparison, site_run
from leadline.report.answers.systems import (
    LabOutput,
    OnePoolOutput,
    PoolsOutput,
    inventory_output,
    plan_output,
)
from leadline.run_index import read_archive
from tests.unit.analysis.drilled import drilled_cell
from tests.unit.analysis.layers.streams import stack, stream_run
from tests.unit.analysis.settings_runs import some_study
from tests.unit.inventory.conftest import dumps_of
from tests.unit.recorded_placements import erasure_placements
from tests.unit.report.pages.predictions import against


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Streams on ZFS on an image: every kind of figure of `leadline layers` is there."""
    slow = {"throughput_bps": 1e7, "size": 1e4, "latency_s": 1e-3}
    cells = {f"zfs-{size}": (stack(size), [slow]) for size in (8192, 131072)}
    return stream_run(tmp_path_factory.mktemp("layers") / "r", cells)


def _indexed(run: Run) -> HistoryRun:
    indexed = read_archive(run.path)
    assert isinstance(indexed, HistoryRun)
    return indexed


@pytest.fixture(scope="module")
def outputs(
    run: Run, layers: Run, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, BaseModel]:
    findings = some_findings()
    cells = figures(run, findings)
    ranking = rank(run, cells, every_rate(run, cells))
    sides = two_runs(run, run, lambda one: (cells, findings))
    return {
        "audit": contracts.audit_output(run, findings),
        "check": contracts.check_output(run.plan),
        "compare": compare_output(compare(*sides, by=By.RUN), "the same"),
        "drill": drill_output("r", [drilled_cell()]),
        "gate": gate_output(
            decide(
                Policy.model_validate({"rules": [{"limit": "iops < -10%"}]}),
                compare(*sides, by=By.RUN),
            ),
            "pass",
        ),
        "history": history_output(
            build_history([run.path.parent], [_indexed(run)], (), now_s=1e10),
            "no change",
            HistoryAskedOutput(folders=["runs"], selection=[], metrics=["iops"], since_s=None),
        ),
        "import": contracts.import_output(
            [(run, findings)],
            [Refused(file="README", reason="is no result", context=("line 1",))],
            [run],
        ),
        "inventory": inventory_output(cluster_inventory(dumps_of("ceph-multi-az")), "dumps"),
        "lab": LabOutput(labs=[]),
        "layers": layers_output(layer_study(layers)),
        "list": contracts.list_output([run]),
        "plan": plan_output(
            Draft(
                targets=(
                    DraftTarget(
                        name="fast",
                        url="storageclass:fast?size=20Gi",
                        storage_class="fast",
                        mode=VolumeMode.BLOCK,
                        size_bytes=20 << 30,
                        count=1,
                        vm=None,
                        cpu=2.0,
                        memory_bytes=1 << 30,
                        unproven="",
                        labels={},
                        why="the default class",
                    ),
                ),
                left_out=(LeftOut(name="slow", reason="no room"),),
                notes=("quotas could not be seen",),
                cpu=None,
            ),
            Load(trials=12, io_s=90.0, span_bytes=1 << 30, files_bytes=1 << 30, prefill=True),
            context="lab",
            path=None,
            text="leadline: 1",
        ),
        "pools": PoolsOutput(
            action="create",
            cluster="lab mine",
            dry_run=True,
            pools=[OnePoolOutput(name="rep2", outcome="would make", reason="")],
            notes=[],
        ),
        "predict": predict_output(against()),
        "pools-placement": pools_placement_output(erasure_placements(), "map osdmap"),
        "rank": rank_output(run, ranking),
        "recommend": recommend_output(
            run, recommend(ranking, find_use_case("virtual-machines"), protections(run), ())
        ),
        "run": contracts.run_output(run, findings),
        "scale": scale_output(
            study([run], lambda one: (cells, findings), limit=parse_latency_limit("p99<5ms"))
        ),
        "settings": settings_output(some_study(tmp_path_factory.mktemp("settings"))),
        "show": contracts.show_output(run, cells, findings, trials=True),
        "site": SiteOutput(
            band=0.05,
            between_runs=0.05,
            runs=[site_run(run, "run-r.html", cells, verify(run))],
            comparisons=[site_comparison(compare(*sides, by=By.RUN), "compare-r.html")],
        ),
        "verify": contracts.verify_output(verify(run)),
    }


@pytest.mark.parametrize("verb", sorted(SCHEMAS))
def test_outputs_fit_their_schemas(outputs: dict[str, BaseModel], verb: str) -> None:
    schema = SCHEMAS[verb].model_json_schema(by_alias=True)
    output = json.loads(outputs[verb].model_dump_json(by_alias=True))
    assert output["schema"] == f"leadline/{verb}/1"
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(output, schema)


def test_show_has_the_contracts_fields(run: Run) -> None:
    row = contracts.show_output(run, figures(run, ())).model_dump(by_alias=True)["measurements"][0]
    names = "target workload level op metric value unit trials interval findings"
    assert " ".join(row) == f"{names} values"
    assert row["trials"] == 3
    assert row["unit"] == "1/s"


def test_findings_and_trust(run: Run) -> None:
    output = contracts.audit_output(run, some_findings())
    assert output.trusted is False
    fields = "code severity target workload level op trial evidence message remedy"
    assert " ".join(output.findings[0].model_dump()) == fields
    warnings = [one for one in some_findings() if one.severity.value != "error"]
    assert contracts.audit_output(run, warnings).trusted is True


def test_a_damaged_archive_does_not_hide_the_others(run: Run, tmp_path: Path) -> None:
    damaged = tmp_path / "perf-broken"
    damaged.mkdir()
    (damaged / "manifest.json").write_text("{")
    listed = contracts.list_output([Run(damaged), run]).runs
    assert [one.status for one in listed] == ["damaged", "complete"]
    assert listed[1].trials == listed[1].trials_planned == 24


def test_check_says_what_a_device_loses() -> None:
    plan = load_plan(None, Overrides(targets=["device:/dev/x", "dir:/y"], profiles=["quick"]))
    output = contracts.check_output(plan)
    assert [write.destroys for write in output.writes] == [True, False]
    assert output.prefill_bytes == sum(write.bytes for write in output.writes) > 0


def test_the_numbers_of_an_explanation(run: Run) -> None:
    findings = some_findings()
    sides = two_runs(run, run, lambda one: (figures(one, findings), findings))
    rows = (
        Row(op=Op.WRITE, base_s=1e-3, candidate_s=4.3e-3),
        Row(op=Op.READ, base_s=1e-3, candidate_s=2e-3, scatter=2.0),
    )
    _, explanations = explain(cells(*rows), [RTT], zones_apart())
    found = replace(compare(*sides, by=By.RUN), explanations=explanations)
    answer = json.loads(compare_output(found, "the same").to_json())["explanations"]
    tests = [test for explanation in answer for test in explanation["tests"]]
    assert [test["share"]["account"] for test in tests] == ["accounts for", "inconclusive"]
    assert tests[0]["expected"]["value"] == pytest.approx(10e-3 / 3)
    assert tests[0]["measured"]["low"] < 3.3e-3 < tests[0]["measured"]["high"]
    assert tests[1]["share"]["high"] is None, "infinite: nothing may have changed"
    assert answer[-1]["tests"] == []
