"""`leadline rank` on the published study and on runs of recorded output."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from leadline.report.answers.ranking import RANK_COLUMNS, RankOutput
from tests.cli.conftest import Leadline, refused
from tests.conftest import RECORDED, Said

STUDY = RECORDED.parent / "imports" / "table" / "multizone-vs-singlezone.csv"


@pytest.fixture
def study(leadline: Leadline) -> None:
    assert leadline("import", "table", STUDY, "--run", "study").status == 0


def told(said: Said) -> Any:
    assert said.status == 0, said.err
    answer = json.loads(said.out)
    jsonschema.Draft202012Validator(RankOutput.model_json_schema(by_alias=True)).validate(answer)
    assert answer["schema"] == "leadline/rank/1"
    return answer


def test_the_study_is_ranked_and_what_it_lacks_is_listed_apart(
    study: None, leadline: Leadline
) -> None:
    for cluster in ("multi-zone", "single-zone"):
        answer = told(leadline("rank", f"study-{cluster}", "--format", "json"))
        *ranked, last = answer["tiers"]
        assert last["target"] == "rep3-virt"
        assert (last["rank"], last["rank_interval"], last["score"]) == (None, None, None)
        assert last["complete"] is False
        assert last["missing"] == [
            "random-rw-4k read iops: not measured on this target",
            "random-rw-4k write iops: not measured on this target",
        ]
        assert ranked[0]["target"] == "rep2"
        assert all(one["complete"] and one["missing"] == [] for one in ranked)
        assert [one["rank"] for one in ranked] == sorted(one["rank"] for one in ranked)
        assert {one["target"]: one["score"] for one in ranked}[answer["baseline"]] == 1.0


def test_the_score_is_that_of_the_studys_table(study: None, leadline: Leadline) -> None:
    """Recomputed from the file, with nothing of Leadline's."""
    rows = [
        one
        for one in csv.DictReader(STUDY.read_text().splitlines())
        if one["cluster"] == "multi-zone"
    ]
    figures: dict[str, list[float]] = {}
    for row in rows:
        value = float(row["iops"] or row["bw_mib_s"])
        figures.setdefault(row["target"], []).append(value)
    whole = {name: values for name, values in figures.items() if len(values) == 5}
    base = whole["rep3"]
    expected = {}
    for name, values in whole.items():
        product = 1.0
        for mine, its in zip(values, base, strict=True):
            product *= mine / its
        expected[name] = product ** (1 / 5)
    answer = told(leadline("rank", "study-multi-zone", "--baseline", "rep3", "--format", "json"))
    scores = {one["target"]: one["score"] for one in answer["tiers"] if one["complete"]}
    assert scores == {name: pytest.approx(value) for name, value in expected.items()}


def test_one_objective_of_the_study(study: None, leadline: Leadline) -> None:
    asked = ("rank", "study-multi-zone", "--objective", "write p99")
    answer = told(leadline(*asked, "--format", "json"))
    assert answer["objective"] == "write p99"
    (objective,) = answer["objectives"]
    assert (objective["workload"], objective["op"], objective["metric"]) == (
        "random-rw-4k", "write", "latency_p99",
    )  # fmt: skip
    # 308.3, 379.6, 388.0, 557.8, 1216, 1502 ms: rep3 and rep3-enc lie within 5 %.
    assert [(one["target"], one["rank"], one["rank_interval"]) for one in answer["tiers"]] == [
        ("rep2", 1, [1, 1]),
        ("rep3", 2, [2, 3]),
        ("rep3-enc", 2, [2, 3]),
        ("ec-2-1", 4, [4, 4]),
        ("cephfs-rep2", 5, [5, 5]),
        ("cephfs-rep3", 6, [6, 6]),
        ("rep3-virt", None, None),
    ]
    narrow = told(leadline(*asked, "--band", "1%", "--format", "json"))
    assert [one["rank"] for one in narrow["tiers"]] == [1, 2, 3, 4, 5, 6, None]
    assert answer["not_measured"] == ["sequential-rw-1m write p99: no target has it"]


def test_a_use_case_says_what_it_weighs_and_what_is_not_there(
    study: None, leadline: Leadline
) -> None:
    answer = told(leadline("rank", "study-multi-zone", "--for", "database", "--format", "json"))
    assert answer["objective"] == "database"
    assert sum(one["weight"] for one in answer["objectives"]) == pytest.approx(1)
    assert any("fsync" in one for one in answer["not_measured"])
    assert all(one["need"] for one in answer["objectives"])


def test_csv_holds_every_number_and_markdown_the_order(study: None, leadline: Leadline) -> None:
    text = leadline("rank", "study-multi-zone", "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(text), strict=True))
    assert tuple(rows[0])[: len(RANK_COLUMNS)] == RANK_COLUMNS
    assert len(rows) == 7
    by_name = {row["target"]: row for row in rows}
    assert float(by_name["rep2"]["random-rw-4k write iops [1/s]"]) == 8955.0
    assert by_name["rep3-virt"]["rank"] == by_name["rep3-virt"]["score"] == ""
    assert by_name["rep3-virt"]["complete"] == "no"
    assert "not measured" in by_name["rep3-virt"]["missing"]
    page = leadline("rank", "study-multi-zone", "--format", "markdown").out
    assert page.startswith("# Ranking of study-multi-zone")
    assert "Not ranked" in page


def test_text_fits_its_terminal(
    study: None, leadline: Leadline, monkeypatch: pytest.MonkeyPatch
) -> None:
    for width in (100, 80):
        monkeypatch.setenv("COLUMNS", str(width))
        said = leadline("rank", "study-multi-zone")
        assert said.status == 0
        assert max(map(len, said.out.splitlines())) <= width
        assert "rep2 and rep3 tie for first" in " ".join(said.out.split())


def test_all_targets_incomplete_is_exit_status_6_with_the_table(
    leadline: Leadline, tmp_path: Path
) -> None:
    table = tmp_path / "gaps.csv"
    table.write_text("target,workload,op,iops\na,w,read,5\nb,v,read,5\n")
    assert leadline("import", "table", table, "--run", "gaps").status == 0
    said = leadline("rank", "gaps")
    assert said.status == 6
    assert "error[nothing-to-rank]: nothing can be ranked" in said.err
    assert "w read iops: not measured on this target (1 of 2 targets)" in said.err
    assert "incomplete" in said.out
    said = leadline("rank", "gaps", "--format", "json")
    assert said.status == 6
    assert [one["rank"] for one in json.loads(said.out)["tiers"]] == [None, None]
    assert json.loads(said.out)["baseline"] is None
    assert leadline("rank", "gaps", "--objective", "w iops").status == 0, "the way out it names"


def test_what_the_audit_refuses_enters_no_ranking(
    leadline: Leadline, quick: Callable[..., Said], failing: Path, target: Path
) -> None:
    quick("--replay", failing)
    said = leadline("rank")
    assert said.status == 6
    assert "refused by the audit: engine-error" in said.out + said.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--objective", "randem-rw-4k iops"], "did you mean 'random-rw-4k'"),
        (["--objective", "trim iops"], "random-rw-4k read"),
        (["--objective", "fast"], "names no metric"),
        (["--baseline", "rep33"], "did you mean 'rep3'"),
        (["--baseline", "rep3-virt"], "cannot be the baseline"),
        (["--for", "databases"], "did you mean 'database'"),
        (["--for", "database", "--objective", "iops"], "two answers to one question"),
        (["--band", "0"], "between 0 % and 100 %"),
        (["--band", "much"], "between 0 % and 100 %"),
    ],
)
def test_wrong_requests(study: None, leadline: Leadline, options: list[str], told: str) -> None:
    assert told in refused(leadline("rank", "study-multi-zone", *options), 2, "usage")


def test_a_use_that_the_run_says_nothing_about_is_refused(
    leadline: Leadline, tmp_path: Path
) -> None:
    table = tmp_path / "small.csv"
    table.write_text("target,workload,op,pattern,block_size,iops\na,w,read,randread,4k,5\n")
    leadline("import", "table", table, "--run", "small")
    error = refused(leadline("rank", "small", "--for", "backup"), 6, "nothing-to-rank")
    assert "large sequential writes" in error


def test_one_target_long_names_and_hostile_ones(leadline: Leadline, tmp_path: Path) -> None:
    names = ["x" * 300, "<img src=x onerror=alert(1)>", "שלום-‮abc", "a|b`c`"]
    table = tmp_path / "names.csv"
    with table.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["target", "workload", "op", "iops"])
        writer.writerows([name, "w", "read", 100 * 2**number] for number, name in enumerate(names))
    assert leadline("import", "table", table, "--run", "names").status == 0
    said = leadline("rank", "names")
    assert said.status == 0
    assert "\u202e" not in said.out
    page = leadline("rank", "names", "--format", "markdown").out
    assert "<img" not in page
    answer = told(leadline("rank", "names", "--format", "json"))
    assert {one["target"] for one in answer["tiers"]} == set(names)
    alone = tmp_path / "one.csv"
    alone.write_text("target,workload,op,iops\nonly,w,read,5\n")
    leadline("import", "table", alone, "--run", "one")
    assert "only is the only target" in leadline("rank", "one").out
