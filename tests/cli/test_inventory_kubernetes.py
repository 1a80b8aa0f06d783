"""`leadline inventory` of Kubernetes clusters: what it shows of saved ones, and how it refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

from leadline.report.answers.schemas import SCHEMAS
from tests.cli.conftest import Leadline, refused
from tests.conftest import RECORDED
from tests.unit.inventory.kubernetes.conftest import CLUSTERS, NAMES

MULTI, SINGLE = CLUSTERS / "odf-multi-zone", CLUSTERS / "odf-single-zone"


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test here finds a cluster of this machine."""
    monkeypatch.delenv("CEPH_CONF", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("columns", [80, 110])
@pytest.mark.parametrize("name", NAMES)
def test_the_screen_fits(
    leadline: Leadline, monkeypatch: pytest.MonkeyPatch, name: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = leadline("inventory", "--from-dir", CLUSTERS / name)
    assert (said.status, said.err) == (0, "")
    lines = said.out.splitlines()
    assert max(len(line) for line in lines) <= columns
    assert all(line == line.rstrip() for line in lines)
    for heading in ("Topology", "StorageClasses", "Properties that affect I/O", "Nodes"):
        assert heading in lines
    assert "None" not in said.out
    assert "hunter2" not in said.out


def test_the_headline_and_what_matters(leadline: Leadline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out = leadline("inventory", "--from-dir", MULTI).out
    first = "Kubernetes with kubelets v1.29.9, OpenShift 4.16.21: 3 nodes in 3 zones, "
    assert f"- {first}3 StorageClasses of ceph-rbd and cephfs." in out.splitlines()
    assert "└─ worker-b  15.5 CPU, 62 GiB" in out.splitlines()
    assert "zone: eu-central-1a, eu-central-1b and eu-central-1c" in out
    assert "krbd:rxbounce; reads near copies; ext4; default for virtual machines" in out
    assert "6 x 2 TiB of gp3-csi, class ssd, portable" in out
    assert "on, keys in a KMS" in out
    assert "its own dumps are missing" in out
    mayastor = leadline("inventory", "--from-dir", CLUSTERS / "mayastor-2-cores").out
    assert "2 cores (1 and 2), polled without pause" in mayastor


@pytest.mark.parametrize("name", NAMES)
def test_json_is_what_its_schema_says(leadline: Leadline, name: str) -> None:
    validator = jsonschema.Draft202012Validator(
        SCHEMAS["inventory"].model_json_schema(by_alias=True)
    )
    answer = json.loads(
        leadline("inventory", "--from-dir", CLUSTERS / name, "--format", "json").out
    )
    validator.validate(answer)
    assert answer["schema"] == "leadline/inventory/1"
    assert answer["cluster"] is None
    assert answer["kubernetes"]["storage_classes"]
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(answer | {"unheard": 1})


def test_markdown(leadline: Leadline) -> None:
    out = leadline("inventory", "--from-dir", CLUSTERS / "rook", "--format", "markdown").out
    assert "- Kubernetes with kubelets v1.31.2" in out
    assert "| rook-ceph-ec | ceph-rbd | ec-data |" in out


def test_a_folder_with_both(leadline: Leadline, tmp_path: Path) -> None:
    saved = tmp_path / "both"
    assert leadline("inventory", "--from-dir", MULTI, "--save", saved).status == 0
    for path in (RECORDED.parent / "ceph-multi-az").glob("*.json"):
        (saved / path.name).write_bytes(path.read_bytes())
    out = leadline("inventory", "--from-dir", saved).out
    assert "Ceph 16.2.15 pacific, HEALTH_OK: 6 OSDs" in out
    assert "Placement groups" in out
    answer = json.loads(leadline("inventory", "--from-dir", saved, "--format", "json").out)
    assert answer["cluster"]["release"] == "pacific"
    assert answer["placement"]["disagreements"] == []
    assert answer["kubernetes"]["ceph"] is None, "it is told once"


def test_two_folders(leadline: Leadline) -> None:
    both = ("inventory", "--from-dir", MULTI, "--against", SINGLE)
    out = leadline(*both, "--format", "markdown").out
    assert out.startswith("# Configuration differences")
    assert "differences of" in out
    assert "odf.failure\\_domain" in out
    assert "take longer the farther apart the copies are" in out
    validator = jsonschema.Draft202012Validator(
        SCHEMAS["inventory"].model_json_schema(by_alias=True)
    )
    answer = json.loads(leadline(*both, "--format", "json").out)
    validator.validate(answer)
    differences = {item["path"]: item for item in answer["against"]["differences"]}
    assert differences["kubernetes.zones"]["baseline"] == "1 zone"
    assert differences["storage_classes.*.read_affinity"]["explains"]
    assert answer["against"]["baseline"] == str(SINGLE)


def test_two_folders_of_ceph(leadline: Leadline, tmp_path: Path) -> None:
    folders = [RECORDED.parent / f"ceph-{name}-az" for name in ("multi", "single")]
    both = ("inventory", "--from-dir", folders[0], "--against", folders[1])
    assert leadline(*both, "-o", tmp_path / "both.html").status == 0
    assert (tmp_path / "both.html").read_text().count('<div class="boxes') == 2
    answer = json.loads(leadline(*both, "--format", "json").out)
    told = {one["path"] for one in answer["against"]["differences"]}
    assert "topology.crush_levels" in told
    assert answer["kubernetes"] is None
    mixed = leadline("inventory", "--from-dir", folders[0], "--against", SINGLE)
    refused(mixed, 6, "not-comparable")


def test_one_cluster_is_named(leadline: Leadline, tmp_path: Path) -> None:
    kubernetes = ("inventory", "--kubernetes")
    told = refused(leadline(*kubernetes, "--from-dir", tmp_path), 2, "usage")
    assert "--from-dir and --kubernetes name two clusters" in told
    refused(leadline(*kubernetes, "--lab", "x"), 2, "usage")
    refused(leadline("inventory", "--context", "x", "--ceph-conf", "y"), 2, "usage")


def test_no_configuration_and_one_that_is_none(leadline: Leadline, tmp_path: Path) -> None:
    refused(leadline("inventory", "--kubernetes"), 2, "cluster-unknown")
    missing = tmp_path / "config"
    told = refused(leadline("inventory", "--kubeconfig", missing), 2, "cluster-unknown")
    assert str(missing) in told
    missing.write_text("not: [a kubeconfig")
    refused(leadline("inventory", "--kubeconfig", missing), 2, "cluster-unknown")


def test_a_folder_with_nothing(leadline: Leadline, tmp_path: Path) -> None:
    (tmp_path / "notes.yaml").write_text("kind: Pod\n")
    told = refused(leadline("inventory", "--from-dir", tmp_path), 2, "dumps-invalid")
    assert "kubectl get storageclasses,nodes -o yaml" in told
    told = refused(
        leadline("inventory", "--from-dir", MULTI, "--against", tmp_path), 2, "dumps-invalid"
    )
    assert str(tmp_path) in told


def test_damage_is_told_beside_what_is_read(leadline: Leadline, tmp_path: Path) -> None:
    (tmp_path / "good.json").write_bytes((CLUSTERS / "longhorn" / "all.yaml").read_bytes())
    (tmp_path / "good.json").rename(tmp_path / "good.yaml")
    (tmp_path / "bad\x1b[31m.yaml").write_text("kind: StorageClass\nmetadata: [\n")
    said = leadline("inventory", "--from-dir", tmp_path)
    assert said.status == 0
    assert "Not seen" in said.out
    assert "bad\\x1b[31m.yaml:3" in said.out
    assert "\x1b" not in said.out


def test_a_damaged_file_beside_dumps_of_ceph(leadline: Leadline, tmp_path: Path) -> None:
    for path in (RECORDED.parent / "ceph-multi-az").glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "cut.yaml").write_text("kind: StorageClass\nmetadata: [\n")
    said = leadline("inventory", "--from-dir", tmp_path)
    assert said.status == 0
    assert said.err.startswith("warning: cut.yaml:3: not YAML")


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_half_characters_of_strangers(leadline: Leadline, tmp_path: Path, form: str) -> None:
    """Escapes of JSON, and bytes of a file's name that are no UTF-8."""
    half = "\ud800"
    item = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": f"a{half}"},
        "provisioner": "p",
        "parameters": {half: half},
    }
    (tmp_path / "class.json").write_text(json.dumps(item))
    (tmp_path / "version.json").write_text(json.dumps({"gitVersion": f"v1{half}"}))
    (tmp_path / os.fsdecode(b"cut-\xff.yaml")).write_text("kind: StorageClass\nmetadata: [\n")
    said = leadline("inventory", "--from-dir", tmp_path, "--format", form)
    assert said.status == 0
    assert "a?" in said.out
    assert "cut-?.yaml:3" in said.out
