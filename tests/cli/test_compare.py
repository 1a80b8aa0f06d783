"""`leadline compare` as a user calls it, on the published study and on runs of recorded output."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from leadline.report.answers.schemas import SCHEMAS
from tests.cli.conftest import Leadline, refused
from tests.conftest import Said

TABLES = Path(__file__).parents[1] / "recorded" / "imports" / "table"
STUDY = ("study-single-zone", "study-multi-zone")


@pytest.fixture
def study(leadline: Leadline) -> None:
    said = leadline("import", "table", TABLES / "multizone-vs-singlezone.csv", "--run", "study")
    assert said.status in (0, 1), said.err


@pytest.fixture
def openebs(leadline: Leadline) -> str:
    said = leadline(
        "import", "table", TABLES / "openebs-and-rook-fio.csv", "--run", "o", "--format", "json"
    )
    run = json.loads(said.out)["runs"][0]["run"]
    assert isinstance(run, str)
    return run


def answer(said: Said, status: int = 0) -> Any:
    assert said.status == status, said.err
    told = json.loads(said.out)
    jsonschema.validate(told, SCHEMAS["compare"].model_json_schema(by_alias=True))
    return told


def published() -> dict[tuple[str, str, str, str], float]:
    """IOPS by cluster, target, workload and operation, as the table has them."""
    with (TABLES / "multizone-vs-singlezone.csv").open() as stream:
        rows = list(csv.DictReader(line for line in stream if not line.startswith("#")))
    return {
        (row["cluster"], row["target"], row["workload"], row["op"]): float(row["iops"])
        for row in rows
        if row["iops"]
    }


@pytest.mark.usefixtures("study")
def test_the_published_study_gives_the_ratios_of_its_own_tables(leadline: Leadline) -> None:
    told = answer(leadline("compare", *STUDY, "--metric", "iops", "--format", "json"))
    figures = published()
    checked = 0
    for cell in told["cells"]:
        key = (cell["target"], cell["workload"], cell["op"])
        ours, theirs = (figures.get((one, *key)) for one in ("single-zone", "multi-zone"))
        assert (cell["baseline"], cell["candidate"]) == (ours, theirs)
        if ours is None or theirs is None:
            assert cell["verdict"] == "not comparable"
            continue
        checked += 1
        ratio = theirs / ours
        assert cell["ratio"] == pytest.approx(ratio)
        same = 0.95 <= ratio <= 1.05
        assert cell["verdict"] == ("same" if same else "better" if ratio > 1 else "worse")
        assert "single-trial" in cell["reasons"]
        assert cell["interval"] is None
        assert cell["p_adjusted"] is None
    assert checked >= 13
    counts = told["summary"]
    assert sum(counts[one] for one in ("better", "worse", "same", "not_comparable")) == len(
        told["cells"]
    )


@pytest.mark.usefixtures("study")
def test_small_writes_fall_by_what_the_rows_say_not_by_the_published_headline(
    leadline: Leadline,
) -> None:
    told = answer(leadline("compare", *STUDY, "--metric", "iops", "--format", "json"))
    falls = [
        1 - cell["ratio"]
        for cell in told["cells"]
        if cell["op"] == "write" and cell["workload"] == "random-rw-4k" and cell["ratio"]
    ]
    assert (round(min(falls), 3), round(max(falls), 3)) == (0.137, 0.269)


@pytest.mark.usefixtures("study")
def test_the_missing_cell_is_missing_on_both_sides(leadline: Leadline) -> None:
    told = answer(leadline("compare", *STUDY, "--format", "json"))
    missing = [
        cell
        for cell in told["cells"]
        if cell["target"] == "rep3-virt" and cell["workload"] == "random-rw-4k"
    ]
    assert missing
    for cell in missing:
        assert cell["baseline"] is None
        assert cell["candidate"] is None
        assert cell["verdict"] == "not comparable"
        assert {"missing-baseline", "missing-candidate"} <= set(cell["reasons"])


@pytest.mark.usefixtures("study")
def test_csv_has_the_rows_of_json(leadline: Leadline) -> None:
    told = answer(leadline("compare", *STUDY, "--format", "json"))
    rows = list(csv.DictReader(io.StringIO(leadline("compare", *STUDY, "--format", "csv").out)))
    assert [row["verdict"] for row in rows] == [cell["verdict"] for cell in told["cells"]]
    assert [row["ratio"] for row in rows] == [
        "" if cell["ratio"] is None else str(cell["ratio"]) for cell in told["cells"]
    ]


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ("random-rw-4k write iops < -10%", 1),
        # The missing cell neither keeps a limit nor breaks it.
        ("random-rw-4k write iops < -50%", 5),
        ("random-rw-4k write p99 > +2000%", 0),
    ],
)
def test_a_limit_fails_where_the_numbers_exceed_it(
    leadline: Leadline, limit: str, status: int
) -> None:
    said = leadline("compare", *STUDY, "--fail-on", limit, "--format", "json")
    assert said.status == status, said.err
    outcomes = {one["outcome"] for one in json.loads(said.out)["limits"]}
    assert ("exceeded" in outcomes) is (status == 1)


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--fail-on", "write p99"), "not a limit"),
        (("--fail-on", "write p98 > 3%"), "no metric"),
        (("--fail-on", "no-such-workload p99 > 3%"), "no cell"),
        (("--metric", "iop"), "did you mean 'iops'"),
        (("--band", "many"), "band"),
        (("--band", "120%"), "band"),
    ],
)
def test_requests_that_mean_nothing(
    leadline: Leadline, arguments: tuple[str, ...], word: str
) -> None:
    assert word in refused(leadline("compare", *STUDY, *arguments), 2, "usage")


def test_one_core_against_two_in_one_run(leadline: Leadline, openebs: str) -> None:
    names = sorted(
        {
            row["target"]
            for row in json.loads(leadline("show", openebs, "--format", "json").out)["measurements"]
        }
    )
    first, second = (name for name in names if name.startswith("mayastor-1"))
    said = leadline(
        "compare", first, second, "--by", "target", "--run", openebs, "--format", "json"
    )
    # Every one of these rows ignored its queue depth, so that none can be compared.
    told = answer(said, 6)
    assert {cell["target"] for cell in told["cells"]} == {f"{second} vs {first}"}
    assert {cell["verdict"] for cell in told["cells"]} == {"not comparable"}
    assert all("queue-depth-not-reached" in cell["reasons"] for cell in told["cells"])
    assert "error[not-comparable]" in said.err


def test_runs_with_nothing_in_common(leadline: Leadline, openebs: str, study: None) -> None:
    said = leadline("compare", openebs, STUDY[0], "--format", "json")
    told = answer(said, 6)
    assert told["cells"] == []
    assert told["baseline_alone"]
    assert "in common" in said.err


@pytest.mark.usefixtures("study")
def test_names_that_a_run_does_not_have(leadline: Leadline) -> None:
    call = ("compare", "rep3", "rep22", "--by", "target", "--run", STUDY[0])
    assert "did you mean 'rep2'" in refused(leadline(*call), 2, "usage")
    call = ("compare", "cores=1", "cores=2", "--by", "label", "--run", STUDY[0])
    assert "no label" in refused(leadline(*call), 2, "usage")
    assert "alone is no comparison" in refused(leadline("compare", STUDY[0]), 2, "usage")


@pytest.mark.usefixtures("study")
def test_a_run_against_itself_is_the_same(leadline: Leadline) -> None:
    told = answer(leadline("compare", STUDY[0], STUDY[0], "--format", "json"))
    assert {cell["verdict"] for cell in told["cells"]} <= {"same", "not comparable"}
    assert told["differences"] == []


@pytest.mark.usefixtures("study")
def test_text_says_the_key_finding_first(leadline: Leadline) -> None:
    said = leadline("compare", *STUDY)
    assert said.status == 0, said.err
    head = "\n".join(said.out.splitlines()[:12])
    assert "13.7" in head
    assert "26.9" in head


def test_large_blocks_of_which_only_iops_are_told_have_a_row_all_the_same(
    leadline: Leadline, tmp_path: Path
) -> None:
    table = tmp_path / "large.csv"
    table.write_text(
        "cluster,target,workload,op,pattern,block_size,iops\n"
        "old,rep3,seq,write,write,1M,1000\nnew,rep3,seq,write,write,1M,800\n"
    )
    assert leadline("import", "table", table, "--run", "x").status in (0, 1)
    said = leadline("compare", "x-old", "x-new")
    assert said.status == 0, said.err
    assert "new vs old: writes 20.0 % fewer IOPS (worse in 1 of 1 cell)" in said.out
    (row,) = [line for line in said.out.splitlines() if line.startswith("rep3 ")]
    assert "-20.0 %" in row
