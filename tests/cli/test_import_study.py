"""`leadline import --layout`: studies in folders, as a user gives them."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from leadline.report.answers.schemas import SCHEMAS
from tests.cli.conftest import Leadline, refused
from tests.conftest import RECORDED, Said

TEMPLATE = "{pool}/{vm_size}/{concurrency}/{workload}/{client}-fio.json"
SOURCE = json.loads((RECORDED / "randread-4k-qd1" / "fio.json").read_bytes())


def fio(number: int, **options: str) -> str:
    """fio's output of its own moment, so that no two files are the same."""
    document: Any = json.loads(json.dumps(SOURCE))
    document["timestamp"] += number
    document["jobs"][0]["job options"] |= options
    return json.dumps(document)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two pools and two VM sizes with one and three clients."""
    root = tmp_path / "study"
    number = 0
    for pool in ("rep3", "rep2"):
        for size in ("small", "medium"):
            for clients in (1, 3):
                folder = root / pool / size / str(clients) / "random-read"
                folder.mkdir(parents=True)
                for client in range(1, clients + 1):
                    number += 1
                    (folder / f"vm-{client}-fio.json").write_text(fio(number))
    return root


def answer(said: Said, status: int = 0) -> Any:
    assert said.status == status, said.err
    told = json.loads(said.out)
    jsonschema.validate(told, SCHEMAS["import"].model_json_schema(by_alias=True))
    return told


def rates(leadline: Leadline, run: str) -> dict[tuple[str, str], float]:
    said = leadline("show", run, "--format", "json")
    assert said.status == 0, said.err
    return {
        (row["target"], row["level"]): row["value"]
        for row in json.loads(said.out)["measurements"]
        if row["metric"] == "iops"
    }


def test_a_template_names_targets_levels_and_merges_clients(
    leadline: Leadline, study: Path
) -> None:
    told = answer(leadline("import", study, "--layout", TEMPLATE, "--run", "s", "--format", "json"))
    assert told["runs"][0]["trials"] == 8
    assert not told["refused"]
    found = rates(leadline, "s")
    assert {target for target, _ in found} == {"rep3", "rep2"}
    one = found["rep3", "vm_size=small concurrency=1"]
    assert found["rep3", "vm_size=small concurrency=3"] == pytest.approx(3 * one)
    assert leadline("verify", "s").status == 0


def test_a_dry_run_prints_the_table_and_keeps_nothing(
    leadline: Leadline, study: Path, tmp_path: Path
) -> None:
    call = ("import", study, "--layout", "auto", "--dry-run")
    told = answer(leadline(*call, "--layout", TEMPLATE, "--format", "json"))
    assert told["runs"] == []
    assert len(told["files"]) == 16
    assert told["files"][0] == {
        "file": "rep2/medium/1/random-read/vm-1-fio.json",
        "cluster": "",
        "target": "rep2",
        "workload": "random-read",
        "level": "vm_size=medium concurrency=1",
        "repeat": 1,
        "client": "vm-1",
    }
    said = leadline("import", study, "--layout", TEMPLATE, "--dry-run")
    assert "rep3/small/3/random-read/vm-2-fio.json" in said.out
    assert json.loads(leadline("list", "--format", "json").out)["runs"] == []


def test_a_missing_client_is_an_error_finding(leadline: Leadline, study: Path) -> None:
    (study / "rep3/small/3/random-read/vm-2-fio.json").unlink()
    call = ("import", study, "--layout", TEMPLATE, "--format", "json")
    (run,) = answer(leadline(*call))["runs"]
    (finding,) = [one for one in run["findings"] if one["code"] == "client-missing"]
    assert finding["severity"] == "error"
    assert finding["evidence"] == {"clients": 2, "missing": 1}
    assert "1 of 3 clients have no result." in finding["message"]


def test_a_client_that_another_repeat_has_is_missing(leadline: Leadline, tmp_path: Path) -> None:
    for number, name in enumerate(("1/a", "1/b", "2/a", "2/b", "3/a"), start=1):
        path = tmp_path / "s" / "rep3" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fio(number))
    (tmp_path / "s" / "rep2" / "1").mkdir(parents=True)
    (tmp_path / "s" / "rep2" / "1" / "c.json").write_text(fio(9))
    layout = ("--layout", "{pool}/{repeat}/{client}.json")
    (run,) = answer(leadline("import", tmp_path / "s", *layout, "--format", "json"))["runs"]
    (finding,) = [one for one in run["findings"] if one["code"] == "client-missing"]
    assert (finding["target"], finding["trial"]) == ("rep3", "t0004")
    assert "1 of 2 clients have no result (b)." in finding["message"]


def test_clusters_of_the_path_are_runs_of_their_own(leadline: Leadline, study: Path) -> None:
    (study / "north").mkdir()
    for pool in ("rep3", "rep2"):
        (study / pool).rename(study / "north" / pool)
    call = ("import", study, "--layout", "{cluster}/" + TEMPLATE, "--format", "json")
    (run,) = answer(leadline(*call))["runs"]
    assert run["cluster"] == "north"


@pytest.mark.parametrize(
    ("layout", "fact"),
    [
        ("{pool}/{client}-fio.json", "matches none of 16 result files"),
        ("cbtt", "there is no layout 'cbtt'"),
        ("{pool}{vm}", "nothing separates"),
        ("{pool}/{vm_size}/{a}/{b}-{c}/{vm}-{d}.json", "matches 16 result files in two ways"),
    ],
)
def test_layouts_that_do_not_fit(leadline: Leadline, study: Path, layout: str, fact: str) -> None:
    assert fact in refused(leadline("import", study, "--layout", layout), 2, "usage")


def refusals(said: Said) -> dict[str, str]:
    return {one["file"]: one["reason"] for one in answer(said, 1)["refused"]}


def test_what_cannot_be_read_is_named_and_the_rest_imported(
    leadline: Leadline, study: Path
) -> None:
    here = study / "rep3/small/1/random-read"
    (here / "vm-1-fio.json").write_bytes(
        (study / "rep2/small/1/random-read/vm-1-fio.json").read_bytes()
    )
    other = study / "rep3/medium/3/random-read"
    (other / "vm-3-fio.json").write_text(fio(99, bs="64k"))
    (study / "rep3/medium/1/random-read/vm-1-fio.json").write_bytes(fio(98).encode("utf-16"))
    (study / "rep2/medium/1/random-read/vm-1-fio.json").write_bytes(fio(96).encode("utf-32"))
    (study / "README").write_bytes("no result".encode("utf-16"))
    (study / "rep3/stray.json").write_text(fio(97))
    said = leadline("import", study, "--layout", TEMPLATE, "--run", "s", "--format", "json")
    found = refusals(said)
    twice = found.pop("rep3/small/1/random-read/vm-1-fio.json")
    assert twice == "has the same content as rep2/small/1/random-read/vm-1-fio.json"
    differ = found.pop("rep3/medium/3/random-read/vm-1-fio.json")
    assert "vm-1 and vm-3 ran other work (bs: 4k, 64k)" in differ
    assert "UTF-16" in found.pop("rep3/medium/1/random-read/vm-1-fio.json")
    assert "UTF-32" in found.pop("rep2/medium/1/random-read/vm-1-fio.json")
    assert "UTF-16" in found.pop("README")
    assert found == {"rep3/stray.json": "does not match the layout"}
    assert len(rates(leadline, "s")) == 4


def test_a_result_in_another_encoding_ends_with_status_1(leadline: Leadline, study: Path) -> None:
    """No other file does, in a folder."""
    (study / "README").write_bytes("no result".encode("utf-16"))
    assert leadline("import", study, "--layout", TEMPLATE, "--run", "a").status == 0
    (study / "rep3/medium/1/random-read/vm-1-fio.json").write_bytes(fio(98).encode("utf-16"))
    assert leadline("import", study, "--layout", TEMPLATE, "--run", "b").status == 1


def test_a_path_that_matches_two_ways(leadline: Leadline, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a-b-c.json").write_text(fio(1))
    (tmp_path / "s" / "a-b.json").write_text(fio(2))
    layout = ("--layout", "{workload}-{pool}.json")
    found = refusals(leadline("import", tmp_path / "s", *layout, "--format", "json"))
    assert list(found) == ["a-b-c.json"]
    assert "two ways" in found["a-b-c.json"]


def test_a_study_in_a_tar_with_a_member_that_leads_out(
    leadline: Leadline, study: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "study.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(study, arcname="")
        evil = tarfile.TarInfo("../../evil.json")
        evil.size = 2
        archive.addfile(evil, io.BytesIO(b"{}"))
    layout = ("--layout", "study/" + TEMPLATE)
    said = leadline("import", packed, *layout, "--run", "s", "--format", "json")
    assert refusals(said) == {"study/../../evil.json": "has a path with '..'"}
    assert len(rates(leadline, "s")) == 8
    assert not list(tmp_path.rglob("evil.json"))


def test_one_packed_file_is_audited_and_imported(leadline: Leadline, tmp_path: Path) -> None:
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(fio(1).encode()))
    assert leadline("audit", packed).status == 0
    (tmp_path / "b.zip").write_bytes(b"PK\x03\x04nothing")
    said = leadline("import", packed, tmp_path / "b.zip", "--format", "json")
    assert "list of members is missing" in refusals(said)["b.zip"]


def test_logs_belong_to_the_result_that_names_them(leadline: Leadline, tmp_path: Path) -> None:
    for number, prefix in enumerate(("data", "data2", "both", "both"), start=1):
        (tmp_path / f"stats-{number}.txt").write_text(fio(number, write_iops_log=f"/tmp/{prefix}"))
    for prefix in ("data", "data2", "both", "alone"):
        lines = (f"{1000 * second}, 100, 0, 0\n" for second in range(1, 9))
        (tmp_path / f"{prefix}_iops.1.log").write_text("".join(lines))
    told = answer(leadline("import", tmp_path, "--dry-run", "--format", "json"))
    trials: dict[str, list[str]] = {}
    for file in told["files"]:
        trials.setdefault(file["target"], []).append(file["file"])
    assert trials["stats-1"] == ["stats-1.txt", "data_iops.1.log"]
    assert trials["stats-2"] == ["stats-2.txt", "data2_iops.1.log"]
    assert trials["alone_iops.1"] == ["alone_iops.1.log"]
    (shared,) = told["refused"]
    assert shared["file"] == "both_iops.1.log"
    assert "named as their log by 2 results, stats-3.txt among them" in shared["reason"]


def test_the_first_argument_may_be_a_path(leadline: Leadline, study: Path, tmp_path: Path) -> None:
    assert leadline("import", study / "rep3", "--dry-run").status == 0
    assert "no file or folder 'nowhere'" in refused(leadline("import", "nowhere"), 2, "usage")
    assert "is a kind" in refused(leadline("import", "fio"), 2, "usage")
    gone = tmp_path / "gone"
    assert str(gone) in refused(leadline("import", "fio", gone), 2, "usage")


def test_a_published_study_is_found_by_its_layout(leadline: Leadline, shared: Path) -> None:
    """wikimedia/cloud-storage-performance-tests: gzip, run_1 to run_3, logs that the JSON names."""
    folder = shared / "corpus" / "public2" / "wikimedia"
    call = ("import", folder, "--layout", "auto", "--run", "wm", "--format", "json")
    told = answer(leadline(*call))
    assert (told["layout"], told["layout_reason"]) == ("wikimedia", "12 of 12 results match")
    assert told["runs"][0]["trials"] == 12
    assert {file["target"] for file in told["files"]} == {"vm_disk"}
    assert {file["repeat"] for file in told["files"]} == {1, 2, 3}
    logs = [file for file in told["files"] if file["file"].endswith("data_iops.log")]
    assert len(logs) == 12
    rows = json.loads(leadline("show", "wm", "--format", "json").out)["measurements"]
    found = {
        (row["workload"], row["level"].split()[-1]): row["value"]
        for row in rows
        if row["metric"] == "iops"
    }
    assert len(found) == 4
    # A cap: the rate does not move from depth 1 to depth 128.
    assert found["randwrite 4k", "iodepth=1"] == pytest.approx(499, rel=0.01)
    assert found["randwrite 4k", "iodepth=128"] == pytest.approx(499, rel=0.01)


def test_a_zip_of_the_same(leadline: Leadline, shared: Path, tmp_path: Path) -> None:
    folder = shared / "corpus" / "public2" / "wikimedia"
    packed = tmp_path / "wikimedia.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(folder.rglob("*.gz")):
            archive.write(path, path.relative_to(folder))
    told = answer(leadline("import", packed, "--layout", "auto", "--dry-run", "--format", "json"))
    assert told["layout"] == "wikimedia"
    assert len(told["files"]) == 24


def inventories(leadline: Leadline, study: Path, *more: object) -> Said:
    return leadline("import", study, "--layout", TEMPLATE, *more)


def test_an_inventory_explains_the_differences_of_imported_clusters(
    leadline: Leadline, study: Path
) -> None:
    """Two clusters of one study, one command each: the comparison has their configuration."""
    for cluster in ("single", "multi"):
        given = f"{cluster}={RECORDED.parent}/ceph-{cluster}-az"
        call = ("--run", cluster, "--cluster", cluster, "--inventory", given)
        assert inventories(leadline, study, *call).status == 0
        assert leadline("verify", cluster).status == 0
    told = json.loads(leadline("compare", "single", "multi", "--format", "json").out)
    found = {one["path"]: (one["baseline"], one["candidate"]) for one in told["differences"]}
    assert found["topology.crush_levels"] == (
        *("1 region > 1 zone > 3 racks", "1 region > 3 zones"),
    )
    assert {cell["verdict"] for cell in told["cells"]} == {"same"}


@pytest.mark.parametrize(
    ("given", "code", "fact"),
    [
        ("other={az}", "usage", "names the cluster 'other'"),
        ("{az}/nowhere", "usage", "there is no folder or file"),
        ("{az}/../quick", "dumps-invalid", "no cluster data"),
    ],
)
def test_inventories_that_cannot_be_used(
    leadline: Leadline, study: Path, given: str, code: str, fact: str
) -> None:
    text = given.format(az=RECORDED.parent / "ceph-single-az")
    assert fact in refused(inventories(leadline, study, "--inventory", text), 2, code)
