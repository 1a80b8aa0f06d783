"""`leadline gate` on runs imported from tables: outcomes, formats, statuses and bad policies."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from leadline.report.answers.schemas import SCHEMAS
from tests.cli.conftest import Leadline, refused
from tests.conftest import Said

RATES = {"rep3": 4000.0, "rep2": 5000.0, "ec": 1500.0, "cephfs": 2500.0}


@pytest.fixture
def runs(leadline: Leadline, tmp_path: Path) -> None:
    """Runs of six trials with 2 % scatter: `old`, `new` and `again` lose 40 % on ec, `equal`
    nothing."""
    generator = random.Random(5)
    for run, loss in (("old", 1.0), ("equal", 1.0), ("new", 0.6), ("again", 0.6)):
        lines = ["target,workload,op,block_size,iops,trial"]
        for target, rate in RATES.items():
            level = rate * (loss if target == "ec" else 1.0)
            lines += [
                f"{target},randwrite,write,4k,{level * generator.gauss(1, 0.02):.1f},{trial}"
                for trial in range(6)
            ]
        path = tmp_path / f"{run}.csv"
        path.write_text("\n".join(lines) + "\n")
        said = leadline("import", "table", path, "--run", run)
        assert said.status in (0, 1), said.err


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "between_runs: 1%\nrules:\n  - name: small writes\n    limit: write iops < -10%\n"
    )
    return path


def gate(leadline: Leadline, policy: Path, *words: object) -> Said:
    return leadline("gate", *words, "--policy", policy)


def answer(said: Said, status: int) -> Any:
    assert said.status == status, said.err
    told = json.loads(said.out)
    jsonschema.validate(told, SCHEMAS["gate"].model_json_schema(by_alias=True))
    return told


@pytest.mark.usefixtures("runs")
def test_the_status_is_the_outcome(leadline: Leadline, policy: Path) -> None:
    told = answer(gate(leadline, policy, "old", "new", "--format", "json"), 1)
    assert told["outcome"] == "fail"
    failed = [one for one in told["results"] if one["outcome"] == "fail"]
    assert [one["target"] for one in failed] == ["ec"]
    low, high = failed[0]["interval"]
    assert low < failed[0]["ratio"] < high < 0.9
    assert (
        answer(gate(leadline, policy, "old", "equal", "--format", "json"), 0)["outcome"] == "pass"
    )


@pytest.mark.usefixtures("runs")
def test_a_failure_waits_for_its_confirmation(leadline: Leadline, policy: Path) -> None:
    policy.write_text(policy.read_text() + "confirm: true\n")
    said = gate(leadline, policy, "old", "new")
    assert said.status == 5
    assert "not confirmed by a second run" in said.out
    assert "--confirm" in said.out
    confirmed = gate(leadline, policy, "old", "new", "--confirm", "again")
    assert confirmed.status == 1
    assert "again confirms 1 of 1 exceeded limits" in confirmed.out
    assert gate(leadline, policy, "old", "new", "--confirm", "equal").status == 0


@pytest.mark.usefixtures("runs")
def test_the_same_answer_in_every_format(leadline: Leadline, policy: Path) -> None:
    def said(form: str) -> str:
        found = gate(leadline, policy, "old", "new", "--format", form)
        assert found.status == 1
        return found.out

    assert said("chat").splitlines()[0] == "new vs old: fail: of 4 limits, 1 exceeded"
    assert said("github").startswith("::error title=small writes::ec · randwrite")
    assert json.loads(said("gitlab"))[0]["location"]["path"] == str(policy)
    suite = ElementTree.fromstring(said("junit"))[0]
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("4", "1")
    assert "# Gate of new against old" in said("markdown")
    assert "Fail: of 4 limits, 1 exceeded." in said("text")


@pytest.mark.thorough
@pytest.mark.usefixtures("runs")
def test_the_self_test_has_its_own_status(leadline: Leadline, policy: Path) -> None:
    told = answer(gate(leadline, policy, "old", "new", "--self-test", "--format", "json"), 0)
    rates = told["self_test"]
    assert rates["sound"]
    assert sum(rates["unchanged"].values()) == rates["simulations"]
    policy.write_text("between_runs: 20%\nrules: [{limit: write iops < -10%}]\n")
    blind = gate(leadline, policy, "old", "equal", "--self-test")
    assert blind.status == 1
    assert "Self-test: not sound" in blind.out


@pytest.mark.usefixtures("runs")
def test_wrong_policies(leadline: Leadline, policy: Path, tmp_path: Path) -> None:
    policy.write_text("rules: [{limit: read p99 > +5%}, {limit: iops < -5%, targets: nothing*}]\n")
    told = refused(gate(leadline, policy, "old", "new"), 2, "usage")
    assert "'read p99 > +5%'; 'iops < -5%' of nothing* match no cell" in told
    policy.write_text("rule: []\n")
    assert "(did you mean 'rules'?)" in refused(
        gate(leadline, policy, "old", "new"), 2, "policy-invalid"
    )
    refused(gate(leadline, tmp_path / "none.yaml", "old", "new"), 2, "policy-invalid")


def test_nothing_in_common(leadline: Leadline, policy: Path, tmp_path: Path) -> None:
    for run, target in (("one", "a"), ("two", "b")):
        path = tmp_path / f"{run}.csv"
        rows = (f"{target}{n},w,write,4k,100,0" for n in range(2))
        path.write_text("\n".join(["target,workload,op,block_size,iops,trial", *rows]) + "\n")
        leadline("import", "table", path, "--run", run)
    said = gate(leadline, policy, "one", "two")
    assert said.status == 6
    assert "error[not-comparable]" in said.err
