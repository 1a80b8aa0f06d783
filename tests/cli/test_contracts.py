"""What other programs rely on: the JSON of every verb, and its names (design.md, Contracts)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from leadline.report.answers.schemas import SCHEMAS
from leadline.report.page_check import read_page
from tests.cli.conftest import QUICK, Leadline
from tests.conftest import RECORDED, Said
from tests.golden.archive_builder import make_run, plan_with_settings

# The fields of the contract, then those that this version adds to it.
TOP = {
    "run": ({"schema", "run", "path", "trials", "findings"}, {"status"}),
    "show": ({"schema", "measurements"}, {"run", "costs"}),
    "audit": ({"schema", "findings", "trusted"}, {"run", "refused", "aggregated"}),
    "import": ({"schema", "runs"}, {"refused", "layout", "layout_reason", "files"}),
    "verify": ({"schema", "ok", "checked", "problems"}, set()),
}
FINDING = {
    "code", "severity", "target", "workload", "level", "op", "trial", "evidence", "message",
    "remedy",
}  # fmt: skip
MEASUREMENT = {
    "target", "workload", "level", "op", "metric", "value", "unit", "trials", "interval",
    "findings",
}  # fmt: skip
UNITS = {
    "iops": "1/s",
    "bandwidth": "bytes/s",
    "latency_mean": "s",
    "latency_p50": "s",
    "latency_p95": "s",
    "latency_p99": "s",
    "latency_p999": "s",
    "latency_p9999": "s",
}


@pytest.fixture(scope="module")
def made() -> dict[str, list[Any]]:
    """The answers, empty before the first test of this file."""
    return {}


@pytest.fixture
def answers(
    made: dict[str, list[Any]],
    leadline: Leadline,
    stopped: Callable[[], Said],
    quick: Callable[..., Said],
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, list[Any]]:
    """The JSON of every verb: of a run that was stopped, and of one that is complete."""
    if made:
        return made
    stopped()
    ran = quick("--format", "json")
    told: dict[str, list[Any]] = {"run": [json.loads(ran.out)]}
    for verb in ("show", "audit", "verify"):
        for run in ("@previous", "@latest"):
            told.setdefault(verb, []).append(one(leadline(verb, run, "--format", "json")))
    told["show"].append(one(leadline("show", "--trials", "--format", "json")))
    told["lab"] = [one(leadline("lab", "list", "--labs", target / "labs", "--format", "json"))]
    told["list"] = [one(leadline("list", "--format", "json"))]
    targets = ("--target", f"dir:{target}", "--target", "device:/dev/leadline-nowhere")
    told["inventory"] = [
        one(leadline("inventory", "--from-dir", RECORDED.parent / name, "--format", "json"))
        for name in ("ceph-multi-az", "ceph-single-az", "ceph-autoscaler-on")
    ]
    table = RECORDED.parent / "imports" / "table" / "openebs-and-rook-fio.csv"
    told["compare"] = [one(leadline("compare", "@previous", "@latest", "--format", "json"))]
    policy = target / "policy.yaml"
    policy.write_text("rules: [{limit: iops < -10%}]\n")
    gated = leadline(
        "gate", "@previous", "@latest", "--policy", policy, "--self-test", "--format", "json"
    )
    told["gate"] = [json.loads(gated.out)]
    monkeypatch.setenv("XDG_CACHE_HOME", str(target / "cache"))
    told["history"] = [one(leadline("history", "--format", "json"))]
    told["drill"] = [one(leadline("drill", "@latest", "--format", "json"))]
    told["layers"] = [one(leadline("layers", "@latest", "--format", "json"))]
    inventory = RECORDED.parent / "ceph-multi-az"
    told["predict"] = [one(leadline("predict", "--from-inventory", inventory, "--format", "json"))]
    told["scale"] = [one(leadline("scale", "@previous", "@latest", "--format", "json"))]
    # A run whose numbers the audit refuses ranks nothing, and says so beside its answer.
    told["rank"] = [json.loads(leadline("rank", "--format", "json").out)]
    recommend = ("recommend", "--for", "database", "--format", "json")
    told["recommend"] = [json.loads(leadline(*recommend).out)]
    told["import"] = [one(leadline("import", "table", table, "--runs", target, "--format", "json"))]
    told["check"] = [one(leadline("check", *targets, *QUICK, "--format", "json"))]
    make_run(target, plan_with_settings(), run_id="tried")
    tried = ("settings", "tried", "--runs", target, "--format", "json")
    told["settings"] = [one(leadline(*tried))]
    leadline("site", "-o", target / "public")
    index = (target / "public" / "index.html").read_text("utf-8")
    told["site"] = [read_page("index.html", index).answer]
    made |= told
    return made


def one(said: Said) -> Any:
    assert said.err == ""
    return json.loads(said.out)


def test_every_answer_is_what_its_schema_says(
    answers: dict[str, list[Any]], leadline: Leadline
) -> None:
    # Pools and plans from a cluster are told of by a cluster alone: tests/real/test_pools.py,
    # tests/kubernetes/test_plan.py and test_rook_pools.py hold those answers.
    # tests/real/test_placement.py that of a placement, which needs Ceph's tools.
    assert (
        {*answers, "plan", "pools", "pools-placement"}
        == set(SCHEMAS)
        == set(leadline("schema").out.split())
    )
    for verb, told in answers.items():
        schema = json.loads(leadline("schema", verb).out)
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        for answer in told:
            validator.validate(answer)
            assert answer["schema"] == f"leadline/{verb}/1"
            with pytest.raises(jsonschema.ValidationError):
                validator.validate(answer | {"unheard": 1})


def test_the_fields_have_the_names_of_the_contract(answers: dict[str, list[Any]]) -> None:
    for verb, (fields, added) in TOP.items():
        for answer in answers[verb]:
            assert set(answer) == fields | added, verb
    for verb in ("run", "audit"):
        for answer in answers[verb]:
            assert answer["findings"], "there is something to look at"
            for finding in answer["findings"]:
                assert set(finding) == FINDING
                assert all(isinstance(n, int | float) for n in finding["evidence"].values())
    for answer in answers["show"]:
        for row in answer["measurements"]:
            assert set(row) == MEASUREMENT | {"values"}
            assert row["unit"] == UNITS[row["metric"]]
        assert {row["metric"] for row in answer["measurements"]} == set(UNITS)


def test_a_run_says_its_id_its_path_and_how_many_trials_were_completed(
    answers: dict[str, list[Any]],
) -> None:
    (ran,) = answers["run"]
    assert Path(ran["path"]).name == ran["run"]
    assert ran["trials"] == 4
    stopped, complete = answers["list"][0]["runs"]
    assert (stopped["trials"], stopped["trials_planned"], stopped["status"]) == (
        2,
        4,
        "interrupted",
    )
    assert (complete["run"], complete["status"]) == (ran["run"], "complete")


def test_values_are_in_base_units(answers: dict[str, list[Any]]) -> None:
    rows = {
        (row["workload"], row["op"], row["metric"]): row["value"]
        for row in answers["show"][1]["measurements"]
    }
    rate = rows["randread-4k", "read", "iops"]
    assert rows["randread-4k", "read", "bandwidth"] == pytest.approx(rate * 4096, rel=0.001)
    latency = rows["randread-4k", "read", "latency_mean"]
    assert latency * rate == pytest.approx(1, rel=0.05), "one I/O in flight, latency in seconds"


def test_trials_are_there_on_request_only(answers: dict[str, list[Any]]) -> None:
    _, without, with_trials = answers["show"]
    assert all(row["values"] is None for row in without["measurements"])
    for row in with_trials["measurements"]:
        (value,) = row["values"]
        assert set(value) == {"trial", "value"}
        if row["metric"] == "iops":
            assert value["value"] == row["value"], "the median of one trial"


def test_a_missing_cell_is_there_without_a_value(answers: dict[str, list[Any]]) -> None:
    stopped, complete, _ = answers["show"]
    keys = [
        {(row["workload"], row["op"], row["metric"]) for row in answer["measurements"]}
        for answer in (stopped, complete)
    ]
    assert keys[0] == keys[1], "no row is left out because there is no number for it"
    missing = [row for row in stopped["measurements"] if row["trials"] == 0]
    assert len({row["workload"] for row in missing}) == 2
    assert all(row["value"] is None and row["interval"] is None for row in missing)


def test_verify_counts_what_it_checked(answers: dict[str, list[Any]]) -> None:
    stopped, complete = answers["verify"]
    assert complete["ok"] is True
    assert complete["problems"] == []
    assert complete["checked"] > 40
    assert stopped["ok"] is False, "an unfinished run is not what was asked for"
    assert [problem["path"] for problem in stopped["problems"]] == ["manifest.json"]


def test_check_tells_what_would_be_written_and_destroyed(answers: dict[str, list[Any]]) -> None:
    (checked,) = answers["check"]
    assert checked["trials"] == 24
    directory, device = checked["writes"]
    assert (directory["destroys"], device["destroys"]) == (False, True)
    assert checked["faults"] == []
