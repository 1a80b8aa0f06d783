"""`leadline recommend` on the published study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from leadline.report.answers.ranking import RecommendOutput
from tests.cli.conftest import Leadline, refused
from tests.cli.test_rank import STUDY
from tests.conftest import Said


@pytest.fixture
def study(leadline: Leadline) -> None:
    assert leadline("import", "table", STUDY, "--run", "study").status == 0


def told(said: Said) -> Any:
    answer = json.loads(said.out)
    schema = RecommendOutput.model_json_schema(by_alias=True)
    jsonschema.Draft202012Validator(schema).validate(answer)
    assert answer["schema"] == "leadline/recommend/1"
    return answer


def test_the_answer_is_a_paragraph_with_its_numbers(study: None, leadline: Leadline) -> None:
    said = leadline("recommend", "study-multi-zone", "--for", "database")
    assert said.status == 0
    text = " ".join(said.out.split())
    assert "Use rep2 for a database" in text
    assert "308 ms" in text, "the study's p99 of small writes"
    assert "how it protects its data is unknown" in text
    assert "log writes (sequential, with fsync): no workload does them" in text
    assert "The missing numbers of rep3-virt" in text
    assert max(map(len, said.out.splitlines())) <= 100


def test_a_tie_is_said_to_be_one(study: None, leadline: Leadline) -> None:
    answer = told(
        leadline("recommend", "study-multi-zone", "--for", "streaming", "--format", "json")
    )
    assert answer["tied"] == ["rep2", "rep3", "rep3-virt"]
    assert answer["basis"] == "figure"
    assert answer["recommended"] == "rep2"
    assert "tie in speed for streaming" in answer["answer"]


def test_what_is_required_and_not_known_is_not_met(study: None, leadline: Leadline) -> None:
    asked = ("recommend", "study-multi-zone", "--for", "database", "--require", "survive=zone")
    said = leadline(*asked, "--format", "json")
    assert said.status == 1, "answered, and the answer is that there is none"
    answer = told(said)
    assert answer["recommended"] is None
    assert answer["basis"] == "none"
    for one in answer["candidates"]:
        assert one["eligible"] is False
        assert one["unmet"] == {"survive=zone": "how it protects its data is unknown"}
        assert one["protection"]["failures_survived"] is None
    page = leadline(*asked, "--format", "markdown")
    assert page.status == 1
    assert "no target can be recommended" in page.out


def test_a_wider_band_makes_more_targets_equal(study: None, leadline: Leadline) -> None:
    asked = ("recommend", "study-multi-zone", "--for", "database", "--format", "json")
    narrow, wide = told(leadline(*asked)), told(leadline(*asked, "--band", "50%"))
    assert (narrow["band"], wide["band"]) == (0.05, 0.5)
    assert narrow["basis"] == "speed"
    assert len(wide["tied"]) > len(narrow["tied"])


def test_every_target_incomplete(leadline: Leadline, tmp_path: Path) -> None:
    table = tmp_path / "gaps.csv"
    table.write_text(
        "target,workload,op,pattern,block_size,iops\n"
        "a,w,write,randwrite,4k,5\nb,v,write,randwrite,4k,5\n"
    )
    assert leadline("import", "table", table, "--run", "gaps").status == 0
    said = leadline("recommend", "gaps", "--for", "database")
    assert said.status == 6
    assert "No target can be recommended" in said.out
    assert "error[nothing-to-rank]" in said.err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--for", "datbase"], "did you mean 'database'"),
        (["--for", "database", "--require", "survive=galaxy"], "osd, host, rack, zone"),
        (["--for", "database", "--require", "encrypt"], "did you mean 'encrypted'"),
        (["--for", "database", "--band", "wide"], "write it as 5% or 0.05"),
        ([], "--for"),
    ],
)
def test_wrong_requests(study: None, leadline: Leadline, options: list[str], expected: str) -> None:
    assert expected in refused(leadline("recommend", "study-multi-zone", *options), 2, "usage")
