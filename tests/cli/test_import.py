"""`leadline import` and `leadline audit FILE...`: other people's files as a user gives them."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from leadline.audit import registry
from leadline.importing import read
from leadline.parallel import in_workers
from leadline.report.answers.schemas import SCHEMAS
from tests.cli.conftest import Leadline, refused
from tests.conftest import RECORDED, Said

HEADER = (
    "cluster,target,workload,op,pattern,block_size,numjobs,iodepth,runtime_s,engine,"
    "file_size,iops,bw_mib_s,lat_mean_ms,lat_p50_ms,lat_p99_ms\n"
)
TWO_CLUSTERS = (
    HEADER
    + "a,rep3,random,read,randread,4k,1,16,60,libaio,10G,16000,62.5,1,0.9,4\n"
    + "a,rep3,random,write,randwrite,4k,1,16,60,libaio,10G,4000,15.625,4,3.9,9\n"
    + "b,rep3,random,read,randread,4k,1,16,60,libaio,10G,8000,31.25,2,1.9,8\n"
)
IMPORTS = RECORDED.parent / "imports"
RANDREAD = RECORDED / "randread-4k-qd1" / "fio.json"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "published.csv"
    path.write_text(TWO_CLUSTERS)
    return path


def answer(said: Said, verb: str, status: int = 0) -> Any:
    assert said.status == status, said.err
    told = json.loads(said.out)
    jsonschema.validate(told, SCHEMAS[verb].model_json_schema(by_alias=True))
    return told


def figures(leadline: Leadline, run: str) -> dict[tuple[str, str, str, str], float | None]:
    rows = answer(leadline("show", run, "--format", "json"), "show")["measurements"]
    return {
        (row["target"], row["workload"], row["op"], row["metric"]): row["value"] for row in rows
    }


def test_a_table_of_two_clusters_makes_a_run_of_each(
    leadline: Leadline, table: Path, runs: Path
) -> None:
    said = leadline("import", "table", table, "--run", "study", "--format", "json")
    told = answer(said, "import")
    assert [run["run"] for run in told["runs"]] == ["study-a", "study-b"]
    assert [run["path"] for run in told["runs"]] == [str(runs / "study-a"), str(runs / "study-b")]
    assert [run["trials"] for run in told["runs"]] == [1, 1]
    assert [run["cluster"] for run in told["runs"]] == ["a", "b"]
    shown = figures(leadline, "study-a")
    assert shown["rep3", "random", "read", "iops"] == 16000
    assert shown["rep3", "random", "read", "bandwidth"] == 62.5 * 2**20
    assert shown["rep3", "random", "write", "latency_mean"] == pytest.approx(0.004)
    assert shown["rep3", "random", "write", "latency_p99"] == pytest.approx(0.009)
    assert shown["rep3", "random", "read", "latency_p999"] is None
    assert figures(leadline, "study-b")["rep3", "random", "read", "iops"] == 8000


def test_the_results_of_one_cluster_have_the_name_that_was_given(
    leadline: Leadline, tmp_path: Path
) -> None:
    path = tmp_path / "one.csv"
    path.write_text(HEADER + "a,rep3,random,read,randread,4k,1,16,60,libaio,10G,16000,62.5,1,,\n")
    told = answer(leadline("import", "table", path, "--run", "x", "--format", "json"), "import")
    assert [run["run"] for run in told["runs"]] == ["x"]
    again = leadline("import", "table", path, "--run", "x")
    assert "'x'" in refused(again, 2, "run-exists")


def test_the_files_are_kept_byte_for_byte_and_verified(
    leadline: Leadline, tmp_path: Path, runs: Path
) -> None:
    told = answer(leadline("import", "fio", RANDREAD, "--run", "r", "--format", "json"), "import")
    kept = runs / "r" / "imported" / "0001-fio.json"
    assert kept.read_bytes() == RANDREAD.read_bytes()
    assert told["runs"][0]["trials"] == 1
    assert leadline("verify", "r").status == 0
    content = bytearray(kept.read_bytes())
    place = content.index(b'"total_ios" : ') + len('"total_ios" : ')
    content[place] = ord("9") if content[place] != ord("9") else ord("8")
    kept.write_bytes(content)
    assert "SHA-256" in leadline("verify", "r").out


def test_targets_are_what_the_user_says_or_each_file_by_its_name(
    leadline: Leadline, tmp_path: Path
) -> None:
    folder = tmp_path / "results" / "rep3"
    folder.mkdir(parents=True)
    for number in (1, 2):
        shutil.copy(RANDREAD, folder / f"run-{number}.json")
    leadline("import", "auto", tmp_path / "results", "--run", "apart")
    assert {key[0] for key in figures(leadline, "apart")} == {"rep3/run-1", "rep3/run-2"}
    leadline("import", "auto", tmp_path / "results", "--run", "joined", "--target", "rep3")
    shown = answer(leadline("show", "joined", "--format", "json"), "show")["measurements"]
    assert {row["target"] for row in shown} == {"rep3"}
    assert {row["trials"] for row in shown} == {2}, "two trials of one cell"


def test_clusters_whose_names_have_no_latin_letter_get_a_run_each(
    leadline: Leadline, tmp_path: Path
) -> None:
    path = tmp_path / "letters.csv"
    path.write_text(
        "cluster,target,workload,op,iops\nצפון,rep3,w,read,100\nדרום,rep3,w,read,90\n", "utf-8"
    )
    told = answer(leadline("import", "table", path, "--run", "x", "--format", "json"), "import")
    assert [one["run"] for one in told["runs"]] == ["x-_", "x-_-2"]
    assert {one["cluster"] for one in told["runs"]} == {"צפון", "דרום"}


def test_what_would_make_one_of_several_is_refused(leadline: Leadline, table: Path) -> None:
    said = leadline("import", "table", table, "--cluster", "c")
    assert "a, b" in refused(said, 2, "usage")


@pytest.mark.parametrize("content", [b"", b"\n", None], ids=["empty", "blank", "cut"])
def test_a_result_that_is_empty_or_cut_is_missing_in_sight(
    content: bytes | None, leadline: Leadline, tmp_path: Path
) -> None:
    whole = RANDREAD.read_bytes()
    (tmp_path / "good.json").write_bytes(whole)
    (tmp_path / "bad.json").write_bytes(whole[: len(whole) // 2] if content is None else content)
    said = leadline(
        "import", "fio", tmp_path / "good.json", tmp_path / "bad.json", "--run", "r",
        "--format", "json",
    )  # fmt: skip
    told = answer(said, "import")
    assert told["runs"][0]["trials"] == 1
    codes = {one["code"] for one in told["runs"][0]["findings"] if one["target"] == "bad"}
    assert codes == {"truncated-result" if content is None else "empty-result"}
    assert leadline("verify", "r").status == 0
    shown = leadline("show", "r").out
    assert "bad" in shown
    assert "no result" in shown or "without a result" in shown.lower()


def test_what_is_no_result_is_refused_with_a_reason(
    leadline: Leadline, tmp_path: Path, runs: Path
) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear fio,\n")
    told = refused(leadline("import", "auto", letter), 2, "import-refused")
    assert "letter.txt" in told
    assert "Dear fio" in told
    packed = tmp_path / "fio.json.gz"
    packed.write_bytes(gzip.compress(RANDREAD.read_bytes())[:100])
    assert "cannot be unpacked" in refused(leadline("import", "auto", packed), 2, "import-refused")
    assert list(runs.iterdir()) == [], "nothing was left behind"


def test_a_folder_may_hold_other_things(leadline: Leadline, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    shutil.copy(RANDREAD, folder / "a.json")
    (folder / "README").write_text("what this is\n")
    (folder / "link.json").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.json")
    said = leadline("import", "auto", folder, "--run", "r", "--format", "json")
    told = answer(said, "import", status=1)
    assert {one["file"] for one in told["refused"]} == {"README", "link.json", "pipe.json"}
    assert told["runs"][0]["trials"] == 1


def test_the_nearest_kind_is_named(leadline: Leadline, table: Path) -> None:
    told = refused(leadline("import", "fioo", table), 2, "import-kind-unknown")
    assert "did you mean 'fio'?" in told


def test_bad_names_are_refused_before_anything_is_read(
    leadline: Leadline, table: Path, runs: Path
) -> None:
    for name in ("../x", "a/b", "", ".hidden", "-x"):
        assert leadline("import", "table", table, f"--run={name}").status == 2, name
    assert not runs.exists()
    assert leadline("import", "table", table.with_name("gone.csv")).status == 2


def test_what_a_killed_import_left_goes_with_the_next(
    leadline: Leadline, table: Path, runs: Path
) -> None:
    left = runs / ".new-4194305-abc"
    (left / "run-1" / "trials").mkdir(parents=True)
    (left / ".lock").touch()
    assert leadline("import", "table", table, "--run", "r").status == 0
    assert sorted(path.name for path in runs.iterdir()) == ["r-a", "r-b"]


@pytest.mark.parametrize(
    "change",
    [{"files": ["../../secret"]}, {"files": []}, {"part": 7}, {"files": ["/etc/passwd"]}],
    ids=["file", "nothing", "part", "absolute"],
)
def test_an_archive_of_a_stranger_does_not_lead_out_of_itself(
    change: dict[str, Any], leadline: Leadline, runs: Path
) -> None:
    leadline("import", "fio", RANDREAD, "--run", "r")
    (runs.parent / "secret").write_text("secret")
    path = next((runs / "r" / "trials").iterdir()) / "trial.json"
    record = json.loads(path.read_text())
    record["source"] |= change
    path.write_text(json.dumps(record))
    told = refused(leadline("audit", "r"), 1, "archive-damaged")
    assert "secret" not in told.replace("../../secret", "")


def test_names_from_strangers_do_no_harm(leadline: Leadline, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\u001b[31m/../x"
    document = json.loads(RANDREAD.read_text())
    document["jobs"][0]["jobname"] = evil
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    assert leadline("import", "fio", path, "--run", "r").status == 0
    shown = leadline("show", "r").out
    assert "\u001b" not in shown
    page = tmp_path / "page.html"
    assert leadline("report", "r", "-o", page).status == 0
    assert "<script>alert(1)" not in page.read_text()
    tests = leadline("audit", "r", "--format", "junit").out
    ElementTree.fromstring(tests)


def test_files_are_audited_as_they_are_and_nothing_is_kept(
    leadline: Leadline, table: Path, runs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    digest = hashlib.sha256(table.read_bytes()).digest()
    told = answer(leadline("audit", table, RANDREAD, "--format", "json"), "audit")
    assert told["run"] == ""
    assert told["trusted"]
    assert {finding["code"] for finding in told["findings"]} <= {"single-trial", "too-few-samples"}
    assert not runs.exists()
    assert not list(place.iterdir())
    assert hashlib.sha256(table.read_bytes()).digest() == digest


def test_the_audit_of_a_bad_file_ends_with_1_in_every_form(
    leadline: Leadline, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text(HEADER + "a,rep3,random,read,randread,4k,16,32,60,psync,10G,16000,62.5,1,,\n")
    for form in ("text", "json", "markdown", "junit"):
        said = leadline("audit", bad, "--format", form)
        assert said.status == 1
        assert "queue-depth-not-reached" in said.out
    suites = ElementTree.fromstring(said.out)
    (failure,) = suites.iter("failure")
    assert failure.attrib["type"] == "queue-depth-not-reached"
    (suite,) = suites
    assert (suite.attrib["failures"], suite.attrib["tests"]) == ("1", "2")


def test_audit_tells_a_run_from_a_file(
    leadline: Leadline, quick: Callable[..., Said], tmp_path: Path
) -> None:
    quick("--name", "mine")
    by_id = leadline("audit", "--format", "json")
    path = json.loads(leadline("list", "--format", "json").out)["runs"][0]["path"]
    assert leadline("audit", path, "--format", "json").out == by_id.out
    assert refused(leadline("audit", "nowhere.json"), 2, "run-not-found")
    assert refused(leadline("audit", RANDREAD, tmp_path / "gone.json"), 2, "run-not-found")


def test_the_bandwidth_test_ranks_sequential_throughput(leadline: Leadline, runs: Path) -> None:
    """The published kbench table: ZFS has 19,712 IOPS in one test and 86 MiB/s in another."""
    path = IMPORTS / "table" / "kbench.csv"
    assert leadline("import", "auto", path, "--run", "kb").status == 0
    asked = ("rank", "kb", "--objective", "seq-write write bandwidth", "--format", "json")
    tiers = answer(leadline(*asked), "rank")["tiers"]
    assert tiers[0]["target"] == "ceph-rbd"
    assert tiers[-1]["target"] == "zfs-localpv"
    assert answer(leadline("rank", "kb", "--format", "json"), "rank")["tiers"][0]["complete"]


@pytest.mark.parametrize("form", ["json", "text"])
def test_any_number_of_processes_finds_the_same(
    leadline: Leadline,
    monkeypatch: pytest.MonkeyPatch,
    use_cores: Callable[[int], None],
    form: str,
) -> None:
    monkeypatch.setattr(read, "_WORTH_PROCESSES", 1)
    monkeypatch.setattr(registry, "_WORTH_WORKERS", 1)
    forked: list[int] = []
    monkeypatch.setattr(registry, "in_workers", _counting(in_workers, forked))
    answers = []
    for cores in (1, 2, 5):
        use_cores(cores)
        answers.append(leadline("audit", IMPORTS / "fio-json", RECORDED, "--format", form))
    assert forked == [1, 4], "calls in workers"
    # The time of the audit is in its title.
    first, *others = [re.sub(r"imported \S+ \S+ UTC", "", said.out) for said in answers]
    assert "engine-error" in first
    assert "merged-sections" in first
    assert others == [first, first]
    assert {said.err for said in answers} == {answers[0].err}


def _counting(work: Callable[..., Any], forked: list[int]) -> Callable[..., Any]:
    def counted(calls: Sequence[Callable[[], Any]]) -> Any:
        forked.append(len(calls))
        return work(calls)

    return counted
