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
        (["--for", "database", "--require", "p99<10"], "needs its unit: p99<10ms"),
        (["--for", "database", "--require", "p42<10ms"], "'p42' is none of mean, p50"),
        (["--for", "database", "--require", "nothing write p99<1s"], "no I/O that counts for"),
        (["--for", "database", "--prefer", "cheapest"], "the price of rep2"),
        (["--for", "gone.yaml"], "cannot be read: No such file or directory"),
        ([], "--for"),
    ],
)
def test_wrong_requests(study: None, leadline: Leadline, options: list[str], expected: str) -> None:
    assert expected in refused(leadline("recommend", "study-multi-zone", *options), 2, "usage")


def test_a_latency_limit_leaves_out_what_exceeds_it(study: None, leadline: Leadline) -> None:
    asked = ("recommend", "study-multi-zone", "--for", "database", "--format", "json")
    free = told(leadline(*asked))
    assert free["recommended"] == "rep2"
    kept = told(leadline(*asked, "--require", "write p99<10s"))
    assert kept["recommended"] == "rep2"
    assert kept["requirements"] == ["write p99<10 s"]
    refusing = leadline(*asked, "--require", "write p99<1ms")
    assert refusing.status == 1
    unmet = [one["unmet"] for one in told(refusing)["candidates"] if one["unmet"]]
    assert any("a trial took 308 ms" in reason["write p99<1 ms"] for reason in unmet)


USE = """
title: mail servers
needs:
  - name: small writes
    op: write
    random: true
    largest: 16k
    weights: {p99: 3, iops: 1}
"""


def test_a_use_of_one_s_own(study: None, leadline: Leadline, tmp_path: Path) -> None:
    (tmp_path / "mail.yaml").write_text(USE)
    asked = ("recommend", "study-multi-zone", "--for", tmp_path / "mail.yaml")
    answer = told(leadline(*asked, "--format", "json"))
    assert answer["use_case"] == "mail"
    assert "for mail servers" in answer["answer"]
    assert {one["metric"]: round(one["weight"], 6) for one in answer["objectives"]} == {
        "latency_p99": 0.75,
        "iops": 0.25,
    }
    ranked = leadline("rank", "study-multi-zone", "--for", tmp_path / "mail.yaml")
    assert ranked.status == 0


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ("needs: [", ["is not valid YAML"]),
        ("title: x", ["has no list of needs"]),
        ("needs: [5]", ["need 1: not a mapping"]),
        (
            USE.replace("p99: 3", "p98: 3").replace("iops: 1", "iops: -1").replace("16k", "much"),
            [
                "need 1: largest 'much' is no size such as 16k",
                "need 1: there is no metric 'p98'",
                "need 1: the weight -1 of iops is no number above 0",
            ],
        ),
        (USE.replace("op: write", "op: append"), ["needs.0.op: Input should be"]),
        (USE.replace("random: true", "randm: true"), ["needs.0.randm: ", "needs.0.random: "]),
        (USE.replace("    weights: {p99: 3, iops: 1}", ""), ["need 1: no weights"]),
    ],
)
def test_faults_of_a_use_file_are_named_together(
    study: None, leadline: Leadline, tmp_path: Path, content: str, facts: list[str]
) -> None:
    (tmp_path / "mine.yaml").write_text(content)
    said = refused(
        leadline("recommend", "study-multi-zone", "--for", tmp_path / "mine.yaml"), 2, "usage"
    )
    for fact in facts:
        assert fact in said


def test_the_cheapest_that_meets_the_requirements(leadline: Leadline, tmp_path: Path) -> None:
    table = tmp_path / "prices.csv"
    rows = ["fast,9000,2", "cheap,6000,5", "slow,3000,50"]
    table.write_text(
        "target,workload,op,pattern,block_size,iops,lat_p99_ms\n"
        + "".join(
            f"{name},w,write,randwrite,4k,{rest}\n"
            for name, rest in (r.split(",", 1) for r in rows)
        )
    )
    facts = tmp_path / "facts.yaml"
    facts.write_text("targets:\n  fast: {price: 90}\n  cheap: {price: 40}\n  slow: {price: 10}\n")
    assert leadline("import", "table", table, "--run", "p", "--facts", facts).status == 0
    asked = ("recommend", "p", "--for", "database", "--prefer", "cheapest", "--format", "json")
    assert told(leadline(*asked))["recommended"] == "slow"
    answer = told(leadline(*asked, "--require", "p99<10ms"))
    assert (answer["recommended"], answer["basis"]) == ("cheap", "cost")
    assert "the cheapest target that has every number and meets p99<10 ms" in answer["answer"]
    assert "price per TiB 40 vs 90 of fast" in answer["answer"]
    assert "It gives 0." in answer["answer"]


def test_every_trial_of_an_import_can_keep_a_latency_limit(
    leadline: Leadline, tmp_path: Path
) -> None:
    """Percentiles of imported trials cannot be merged; the limit is one of each trial."""
    table = tmp_path / "trials.csv"
    rows = ["kept,9000,2,1", "kept,9100,3,2", "once,9900,2,1", "once,9950,12,2", "lacks,9000,2,1"]
    table.write_text(
        "target,iops,lat_p99_ms,trial,workload,op,pattern,block_size\n"
        + "".join(f"{row},w,write,randwrite,4k\n" for row in [*rows, "lacks,9000,,2"])
    )
    assert leadline("import", "table", table, "--run", "p").status == 0
    asked = ("recommend", "p", "--for", "database", "--format", "json")
    answer = told(leadline(*asked, "--require", "p99<10ms"))
    assert answer["recommended"] == "kept"
    unmet = {one["target"]: str(one["unmet"]) for one in answer["candidates"] if one["unmet"]}
    assert "a trial took 12 ms" in unmet["once"]
    assert "unknown or refused" in unmet["lacks"]


def test_objectives_have_weights(study: None, leadline: Leadline) -> None:
    said = leadline(
        *("rank", "study-multi-zone", "--objective", "write p99=3", "--objective", "write iops"),
        *("--format", "json"),
    )
    weights: dict[str, float] = {}
    for one in json.loads(said.out)["objectives"]:
        weights[one["metric"]] = weights.get(one["metric"], 0.0) + one["weight"]
    assert weights == pytest.approx({"latency_p99": 0.75, "iops": 0.25})
    wrong = leadline("rank", "study-multi-zone", "--objective", "write p99=much")
    assert "is no number above 0" in refused(wrong, 2, "usage")
