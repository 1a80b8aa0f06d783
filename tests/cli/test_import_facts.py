"""`leadline import --facts` and `--inventory FILE`: configuration of imported studies."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from leadline.report.answers.schemas import SCHEMAS
from tests.cli.conftest import Leadline, refused
from tests.conftest import RECORDED

TABLES = RECORDED.parent / "imports" / "table"
STUDY = TABLES / "multizone-vs-singlezone.csv"
FACTS = RECORDED.parent / "facts" / "multizone-vs-singlezone.yaml"
MULTI = "study-multi-zone"
BOTH = ("study-single-zone", MULTI)


def place(name: str) -> Path:
    """A path in the test's own folder, in which `runs` is."""
    return Path(os.environ["LEADLINE_RUNS"]).parent / name


def given(leadline: Leadline, table: Path, facts: str, *more: object) -> Any:
    path = place("facts.yaml")
    path.write_text(facts, encoding="utf-8")
    return leadline("import", "table", table, "--run", "study", "--facts", path, *more)


def answer(leadline: Leadline, verb: str, *arguments: object) -> Any:
    said = leadline(verb, *arguments, "--format", "json")
    assert said.status in (0, 1), said.err  # 1: nothing can be recommended
    told = json.loads(said.out)
    jsonschema.validate(told, SCHEMAS[verb].model_json_schema(by_alias=True))
    return told


def protections(leadline: Leadline, run: str, *more: object) -> dict[str, Any]:
    told = answer(leadline, "recommend", run, "--for", "database", *more)
    return {one["target"]: one for one in told["candidates"]}


@pytest.fixture
def study(leadline: Leadline) -> None:
    said = leadline("import", "table", STUDY, "--run", "study", "--facts", FACTS)
    assert said.status == 0, said.err
    for run in BOTH:
        assert leadline("verify", run).status == 0


@pytest.mark.usefixtures("study")
def test_the_published_study_is_compared_with_its_configuration(leadline: Leadline) -> None:
    told = answer(leadline, "compare", *BOTH)
    assert {
        one["path"]: (one["baseline"], one["candidate"], bool(one["explains"]))
        for one in told["differences"]
    } == {
        "topology.zones": ("1 zone", "3 zones", True),
        "pools.*.failure_domain": ("rack", "zone", True),
    }
    assert "number of OSDs 24 OSDs" in told["identical"]
    assert "redundancy of all 7 targets" in told["identical"]
    page = " ".join(leadline("compare", *BOTH, "--details").out.split())
    assert "the only relevant difference among the given facts is failure domain" in page
    assert f"given by the user, not measured {FACTS.name}" in page
    assert "unknown for a system cores per node, memory per node, network" in page


@pytest.mark.usefixtures("study")
def test_requirements_apply_to_the_published_study(leadline: Leadline) -> None:
    found = protections(leadline, MULTI, "--require", "survive=zone,encrypted")
    rep3 = found["rep3"]["protection"]
    assert (rep3["copies"], rep3["failure_domain"], rep3["failures_survived"]) == (3, "zone", 2)
    assert rep3["failures_writable"] is None, "the study does not say min_size"
    assert found["ec-2-1"]["protection"]["raw_per_stored"] == 1.5
    assert all(not one["unmet"] for one in found.values())
    racks = protections(leadline, "study-single-zone", "--require", "survive=zone")
    assert all("zone" in one["unmet"]["survive=zone"] for one in racks.values())
    shared = protections(leadline, MULTI, "--require", "access=rwx")
    assert {name for name, one in shared.items() if not one["unmet"]} == {
        "cephfs-rep2",
        "cephfs-rep3",
    }


@pytest.mark.usefixtures("study")
def test_facts_are_shown_with_their_source(leadline: Leadline) -> None:
    told = answer(leadline, "show", MULTI)["facts"]
    assert [one["cluster"] for one in told] == ["multi-zone"]
    assert told[0]["facts"]["file"] == FACTS.name
    assert (told[0]["facts"]["nodes"], told[0]["facts"]["network"]) == (3, None)
    assert told[0]["targets"]["cephfs-rep2"]["access"] == ["rwo", "rwx"]
    page = leadline("show", MULTI).out
    assert f"Given by the user in {FACTS.name}, not measured." in page
    assert "Unknown, because not given: cores per node" in page


def test_without_facts_nothing_is_assumed(leadline: Leadline) -> None:
    assert leadline("import", "table", STUDY, "--run", "study").status == 0
    plan = place(f"runs/{MULTI}/plan.json").read_text("utf-8")
    assert '"facts"' not in plan, "earlier versions read archives without facts"
    found = protections(leadline, MULTI, "--require", "survive=zone")
    assert {one["protection"]["copies"] for one in found.values()} == {None}
    assert all("unknown" in one["unmet"]["survive=zone"] for one in found.values())
    assert "facts" not in answer(leadline, "show", MULTI), "as in pages of earlier versions"


def test_facts_state_what_is_not_so(leadline: Leadline) -> None:
    facts = "targets:\n  rep3: {copies: 1, encrypted: false, price: 90}\n  rep2: {copies: 2}\n"
    assert given(leadline, STUDY, facts).status == 0
    found = protections(leadline, MULTI, "--require", "encrypted,survive=host")
    assert found["rep3"]["unmet"] == {
        "encrypted": "it does not encrypt data at rest",
        "survive=host": "it keeps no second copy",
    }
    assert found["rep3"]["protection"]["price"] == 90
    assert "unknown" in found["rep2"]["unmet"]["encrypted"]


def test_the_cheaper_target_is_chosen_among_equals(leadline: Leadline) -> None:
    """rep3 and rep3-enc tie in speed and protection."""
    facts = (
        "clusters:\n  multi-zone: {failure_domain: zone}\n"
        "targets:\n  rep3: {copies: 3, price: 90}\n  rep3-enc: {copies: 3, price: 120}\n"
    )
    assert given(leadline, STUDY, facts).status == 0
    told = answer(leadline, "recommend", MULTI, "--for", "database", "--require", "survive=zone")
    assert (told["recommended"], told["trade_off"]) == ("rep3", "it costs less")


def test_cores_of_targets_divide_a_speed_up(leadline: Leadline) -> None:
    rows = ["cluster,target,workload,op,pattern,block_size,numjobs,iodepth,engine,iops"]
    for cluster, iops in (("small", 1000), ("large", 1500)):
        for depth in (1, 4, 16):
            level = f"{cluster},volume,rand{depth},read,randread,4k,1,{depth},libaio"
            rows.append(f"{level},{iops * depth}")
    path = place("rows.csv")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    facts = (
        "clusters:\n"
        "  small: {targets: {volume: {cores: 2}}}\n"
        "  large: {targets: {volume: {cores: 4}}}\n"
    )
    assert given(leadline, path, facts).status == 0
    told = answer(leadline, "compare", "study-small", "study-large")
    found = {one["path"]: (one["baseline"], one["candidate"]) for one in told["differences"]}
    assert found == {"pools.volume.cores": ("2", "4")}
    scaled = leadline("scale", "study-small", "study-large")
    assert "the user's facts" in scaled.out, scaled.err


# --- facts and inventories ----------------------------------------------------------------------


@pytest.fixture
def pools(tmp_path: Path) -> Path:
    """The multi-zone half of the study, with the names that the recorded cluster's pools have."""
    names = {"rep3": "rbd_r3", "rep2": "rbd_r2", "cephfs-rep2": "files"}
    with STUDY.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    path = tmp_path / "pools.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        for row in rows:
            if row["cluster"] == "multi-zone" and row["target"] in names:
                writer.writerow({**row, "target": names[row["target"]]})
    return path


@pytest.fixture
def inventory(leadline: Leadline, tmp_path: Path) -> Path:
    path = tmp_path / "inventory.json"
    said = leadline("inventory", "--from-dir", RECORDED.parent / "ceph-multi-az", "--format=json")
    path.write_text(said.out, encoding="utf-8")
    return path


def test_a_target_is_joined_to_its_pool_by_name_or_by_facts(
    leadline: Leadline, pools: Path, inventory: Path
) -> None:
    facts = "targets:\n  files: {pool: cephfs_r2, encrypted: true}\n"
    assert given(leadline, pools, facts, "--inventory", inventory).status == 0
    assert leadline("verify", "study").status == 0
    found = {name: one["protection"] for name, one in protections(leadline, "study").items()}
    assert found["rbd_r3"]["pool"] == "rbd_r3"
    assert (found["rbd_r3"]["failures_survived"], found["rbd_r3"]["failures_writable"]) == (2, 1)
    assert found["rbd_r3"]["encrypted_at_rest"] is None
    assert (found["files"]["pool"], found["files"]["copies"]) == ("cephfs_r2", 2)
    assert found["files"]["encrypted_at_rest"] is True, "only the user knows it"
    assert found["files"]["access"] == ["rwo", "rwx"]


def test_an_inventory_in_one_file_is_that_of_its_dumps(
    leadline: Leadline, pools: Path, inventory: Path
) -> None:
    for run, path in (("file", inventory), ("folder", RECORDED.parent / "ceph-multi-az")):
        said = leadline("import", "table", pools, "--run", run, "--inventory", path)
        assert said.status == 0, said.err
    told = answer(leadline, "compare", "file", "folder")
    assert told["differences"] == []
    assert "the same cluster" in told["identical"]
    by_pool = protections(leadline, "file"), protections(leadline, "folder")
    assert by_pool[0] == by_pool[1]


def test_facts_of_one_system_are_held_against_the_inventory_of_the_other(
    leadline: Leadline, pools: Path
) -> None:
    folder = RECORDED.parent / "ceph-multi-az"
    assert given(leadline, pools, "clusters: {multi-zone: {zones: 1}}").status == 0
    said = leadline("import", "table", pools, "--run", "b", "--inventory", folder)
    assert said.status == 0, said.err
    told = answer(leadline, "compare", "study", "b")
    found = {one["path"]: (one["baseline"], one["candidate"]) for one in told["differences"]}
    assert found == {"topology.zones": ("1 zone", "3 zones")}
    page = " ".join(leadline("compare", "study", "b", "--details").out.split())
    assert "unknown for a system number of hosts" in page


def test_a_fact_that_contradicts_the_inventory_names_both(
    leadline: Leadline, pools: Path, inventory: Path
) -> None:
    facts = (
        "clusters:\n  multi-zone: {nodes: 5, failure_domain: host}\n"
        "targets:\n  rbd_r3: {erasure_code: 2+1}\n  files: {pool: cephfs_r22}\n"
    )
    said = given(leadline, pools, facts, "--inventory", f"multi-zone={inventory}")
    err = refused(said, 2, "facts-invalid")
    assert "facts.yaml:2: clusters.multi-zone.nodes: given is 5, and the inventory reports 6" in err
    assert "clusters.multi-zone.failure_domain: given is host" in err
    assert "facts.yaml:4: targets.rbd_r3.erasure_code: given is EC 2+1" in err
    assert "reports 3 copies" in err
    assert "the inventory has no pool 'cephfs_r22'" in err
    assert not place("runs/study").exists()


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "fault"),
    [
        ("targets: {rep3: {copy: 3}}", "facts.yaml:1: targets.rep3.copy: unknown key 'copy' (did"),
        ("targets: {rep3: {copies: 0}}", "greater than or equal to 1, got 0"),
        ("targets: {rep3: {copies: '3'}}", "valid integer, got '3'"),
        ("targets: {rep3: {copies: 3, erasure_code: 2+1}}", "exclude each other"),
        ("targets: {rep3: {erasure_code: 2+0}}", "'2+0' is no erasure code; write K+M"),
        ("targets: {rep3: {copies: 2, min_size: 3}}", "min_size 3 is more than the 2 copies"),
        ("targets: {rep3: {failure_domain: hosts}}", "did you mean 'host'?"),
        ("targets: {rep3: {access: [rwxx]}}", "(did you mean 'rwx'?)"),
        ("targets: {rep3: {cores: .nan}}", "targets.rep3.cores"),
        ("targets: {rep3: 3}", "targets.rep3: is no mapping of keys, got 3"),
        ("clusters: {multi-zone: {memory_per_node: many}}", "'many' is not a size"),
        ("clusters: {multi-zon: {nodes: 3}}", "no file is of this cluster"),
        ("clusters: {multi-zone: {targets: {rep4: {copies: 4}}}}", "no file has a target 'rep4'"),
        ("targets: {rep3-vrt: {copies: 3}}", "(did you mean 'rep3-virt'?)"),
        (
            "targets: {t: {copies: 2}}\nclusters: {a: {targets: {t: {min_size: 3}}}}",
            "min_size 3 is more than the 2 copies (with `targets`)",
        ),
        ("targets: {rep3: {copies: 3}, rep3: {copies: 2}}", "the key 'rep3' is given twice"),
        ("targets: [", "not valid YAML"),
        ("", "a facts file is a mapping"),
    ],
)
def test_facts_that_are_refused(leadline: Leadline, facts: str, fault: str) -> None:
    assert fault in refused(given(leadline, STUDY, facts), 2, "facts-invalid")
    assert not place(f"runs/{MULTI}").exists()


def test_facts_of_both_clusters_serve_imports_of_each(leadline: Leadline, pools: Path) -> None:
    """One file for a study, and a command for each cluster."""
    facts = (
        "clusters:\n  multi-zone: {zones: 3}\n  single-zone: {zones: 1}\n"
        "targets:\n  rbd_r3: {copies: 3}\n  only-elsewhere: {copies: 2}\n"
    )
    said = given(leadline, pools, facts)
    assert said.status == 0, said.err
    assert "(did you mean 'rbd_r3'?)" in refused(
        given(leadline, pools, facts.replace("rbd_r3", "rbd-r3")), 2, "facts-invalid"
    )


def test_a_facts_file_that_cannot_be_read(leadline: Leadline, tmp_path: Path) -> None:
    said = leadline("import", "table", STUDY, "--facts", tmp_path / "none.yaml")
    assert "No such file" in refused(said, 2, "facts-invalid")


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"{}", "not an inventory of this version"),
        (b'{"schema": "leadline/inventory/1"}', "names no cluster"),
        (b'{"schema": "leadline/inventory/1", "cluster": {"fsid": 3}}', "cluster.fsid"),
        (b"[" * 100_000, "not an inventory of this version"),
        (b"\xff\xfe", "not an inventory of this version"),
    ],
)
def test_inventory_files_that_are_refused(
    leadline: Leadline, tmp_path: Path, content: bytes, fact: str
) -> None:
    path = tmp_path / "inventory.json"
    path.write_bytes(content)
    said = leadline("import", "table", STUDY, "--inventory", f"multi-zone={path}")
    assert fact in refused(said, 2, "dumps-invalid")
