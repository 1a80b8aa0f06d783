"""`leadline import --columns`: tables with other names, means with a scatter, up to verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Leadline, refused

TABLE = """cluster,pool,test,rw,bs,jobs,qd,clients,iops mean,iops_std,Avg latency (us),repeats
a,rep3,rand,randwrite,4k,1,16,2,10000,200,3200,5
b,rep3,rand,randwrite,4k,1,16,2,8000,160,4000,5
"""


def test_a_table_with_other_names_up_to_the_verdict(leadline: Leadline, tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    table.write_text(TABLE)
    said = leadline("import", table, "--run", "own")
    assert said.status == 0
    shown = " ".join(said.err.split())
    assert "columns of own.csv: target=pool, workload=test, pattern=rw" in shown
    assert "iops_sd=iops_std, lat_mean_us=avg latency (us)" in shown
    findings = json.loads(leadline("audit", "own-a", "--format", "json").out)["findings"]
    assert not findings, "32 I/Os in flight of two clients, and five trials behind the mean"
    compared = json.loads(leadline("compare", "own-a", "own-b", "--format", "json").out)
    (iops,) = [cell for cell in compared["cells"] if cell["metric"] == "iops"]
    assert iops["verdict"] == "worse"
    low, high = iops["interval"]
    assert low < 0.8 < high < 0.95
    assert leadline("verify", "own-a").status == 0


def test_rates_at_a_requested_limit_are_no_tie(leadline: Leadline, tmp_path: Path) -> None:
    """Both give the 5,000 IOPS that they were limited to: more of either is unknown."""
    table = tmp_path / "own.csv"
    table.write_text(
        "target,workload,op,pattern,block_size,iodepth,numjobs,iops limit,iops,iops_sd,runs\n"
        "a,limited,write,randwrite,4k,16,4,5000,4999,5,5\n"
        "b,limited,write,randwrite,4k,16,4,5000,5000,5,5\n"
        "a,short,write,randwrite,4k,16,4,9000,7000,7,5\n"
        "b,short,write,randwrite,4k,16,4,9000,7010,7,5\n"
    )
    assert leadline("import", "table", table, "--run", "own").status == 0
    told = leadline("compare", "a", "b", "--by", "target", "--run", "own", "--format", "json")
    found = {
        cell["workload"]: (cell["verdict"], cell["reasons"][0])
        for cell in json.loads(told.out)["cells"]
    }
    assert found["limited"] == ("inconclusive", "capped")
    assert found["short"][0] == "same", "the limit was not reached"


def test_names_with_spaces_and_signs_are_guessed(leadline: Leadline, tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    table.write_text(
        "Storage Class,Test,RW,Block Size,Read %,IO Depth,Avg IOPS\nx,mix,randrw,8k,70,4,900\n"
    )
    said = leadline("import", "table", table, "--run", "own")
    assert said.status == 0
    shown = " ".join(said.err.split())
    assert "block_size=block size, iodepth=io depth, read_share=read %, iops=avg iops" in shown


def test_given_columns_are_used_and_kept(leadline: Leadline, tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    table.write_text("system,note,rw,bs,iops\nx,plain,randread,4k,900\nx,luks,randread,4k,700\n")
    said = leadline("import", table, "--run", "own", "--columns", "target=system+note")
    assert said.status == 0
    answer = json.loads(leadline("show", "own", "--format", "json").out)
    found = {(row["target"], row["workload"]) for row in answer["measurements"]}
    assert found == {("x plain", "randread-4k"), ("x luks", "randread-4k")}
    assert leadline("verify", "own").status == 0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("target", "'target' is not COLUMN=NAME"),
        ("targt=system", "did you mean 'target'?"),
        ("target=a,target=b", "names 'target' twice"),
    ],
)
def test_wrong_columns(leadline: Leadline, tmp_path: Path, given: str, expected: str) -> None:
    table = tmp_path / "own.csv"
    table.write_text("system,rw,bs,iops\nx,randread,4k,900\n")
    said = leadline("import", "table", table, "--columns", given)
    assert expected in refused(said, 2, "usage")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--columns", "target=sytem"], "the nearest column is 'system'"),
        ([], "if a column has another name: --columns 'target=NAME'"),
    ],
)
def test_columns_that_the_table_lacks(
    leadline: Leadline, tmp_path: Path, options: list[str], expected: str
) -> None:
    table = tmp_path / "own.csv"
    table.write_text("system,rw,bs,iops\nx,randread,4k,900\n")
    said = leadline("import", "table", table, *options)
    assert said.status
    assert "error[import-refused]" in said.err
    assert expected in said.err


def test_columns_are_for_tables(leadline: Leadline, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("{}")
    said = leadline("import", "fio-json", path, "--columns", "target=pool")
    assert "--columns is for tables" in refused(said, 2, "usage")
