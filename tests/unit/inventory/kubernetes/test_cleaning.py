"""What of an object is kept, and that no secret is among it."""

from __future__ import annotations

import json

import pytest

from leadline.inventory.kubernetes.cleaning import clean_object, is_kept
from leadline.inventory.kubernetes.folder import read_folder
from leadline.inventory.kubernetes.kinds import ObjectKind
from tests.unit.inventory.kubernetes.conftest import CLUSTERS, NAMES


@pytest.mark.parametrize("name", NAMES)
def test_no_secret_of_a_cluster_is_kept(name: str) -> None:
    """Each made-up secret of the fixtures is called hunter2; `aHVudGVyMg==` is that in base64."""
    dumps = read_folder(CLUSTERS / name).dumps
    text = b"".join(dumps.values())
    for secret in (b"hunter2", b"aHVudGVyMg", b"managedFields", b"last-applied"):
        assert secret not in text
    assert "secrets.json" not in dumps


def test_the_fixtures_do_have_secrets() -> None:
    files = [path for suffix in ("yaml", "json") for path in CLUSTERS.rglob(f"*.{suffix}")]
    texts = [path.read_text() for path in files if path.is_file()]
    assert sum("hunter2" in text for text in texts) >= 4


def test_what_stays_of_an_object() -> None:
    kept = clean_object(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": "n",
                "labels": {"topology.kubernetes.io/zone": "a"},
                "annotations": {"x": "y"},
                "managedFields": [{"manager": "m"}],
                "ownerReferences": [],
            },
            "spec": {"taints": [{"key": "node.example/storage", "effect": "NoSchedule"}]},
            "status": {"images": [{"names": ["i"]}], "capacity": {"cpu": "4"}},
        }
    )
    assert kept["metadata"] == {"name": "n", "labels": {"topology.kubernetes.io/zone": "a"}}
    assert kept["spec"]["taints"] == [{"key": "node.example/storage", "effect": "NoSchedule"}]
    assert kept["status"] == {"capacity": {"cpu": "4"}}


@pytest.mark.parametrize(
    "spec",
    [
        {"password": "hunter2"},
        {"connection": {"VAULT_TOKEN": "hunter2"}},
        {"secretRef": {"key": "hunter2", "name": "s"}},
        {"key": "hunter2"},
        {"key": "hunter2 is no label", "operator": "In", "values": []},
        {"url": "https://user:hunter2@example.com/"},
        {"args": ["--password=hunter2"]},
        {"list": [{"name": "API_KEY", "value": "hunter2"}]},
    ],
)
def test_secrets_in_a_custom_resource(spec: dict[str, object]) -> None:
    kept = clean_object({"kind": "CephCluster", "metadata": {"name": "c"}, "spec": spec})
    assert "hunter2" not in json.dumps(kept)


def test_a_selectors_key_is_no_secret() -> None:
    expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
    kept = clean_object({"kind": "DiskPool", "spec": {"topology": [expression]}})
    assert kept["spec"]["topology"] == [expression]


def test_files_in_a_config_map_stay_json() -> None:
    settings = [{"clusterID": "c", "readAffinity": {"enabled": True}, "password": "hunter2"}]
    kept = clean_object(
        {
            "kind": "ConfigMap",
            "metadata": {"name": "rook-ceph-csi-config"},
            "data": {"csi-cluster-config-json": json.dumps(settings), "text": "token = hunter2"},
        }
    )
    assert "hunter2" not in json.dumps(kept)
    (cluster,) = json.loads(kept["data"]["csi-cluster-config-json"])
    assert cluster["readAffinity"] == {"enabled": True}


def test_a_setting_of_longhorns_that_names_a_secret() -> None:
    item = {"kind": "Setting", "metadata": {"name": "backup-target-credential-secret"}}
    assert clean_object({**item, "value": "hunter2"})["value"] == "[redacted:secret-name]"


def test_environments_and_scripts_of_containers_are_not_kept() -> None:
    container = {
        "name": "c",
        "image": "registry/ceph/ceph:v18",
        "args": ["-l1"],
        "command": ["sh", "-c", "echo hunter2"],
        "env": [{"name": "INNOCENT", "value": "hunter2"}],
    }
    item = {"kind": "DaemonSet", "spec": {"template": {"spec": {"containers": [container]}}}}
    kept = clean_object(item)["spec"]["template"]["spec"]["containers"]
    assert kept == [{"name": "c", "image": "registry/ceph/ceph:v18", "args": ["-l1"]}]
    assert clean_object({"kind": "DaemonSet", "spec": 7})["spec"] == {}


def test_what_is_none_of_our_business() -> None:
    def workload(image: str) -> dict[str, object]:
        pod = {"containers": [{"name": "c", "image": image}]}
        return {"metadata": {"name": "d"}, "spec": {"template": {"spec": pod}}}

    assert is_kept(ObjectKind.DAEMON_SET, workload("registry/cephcsi/cephcsi:v3"))
    assert not is_kept(ObjectKind.DAEMON_SET, workload("registry/log-shipper:1"))
    assert is_kept(ObjectKind.CONFIG_MAP, {"metadata": {"name": "rook-ceph-csi-config"}})
    assert not is_kept(ObjectKind.CONFIG_MAP, {"metadata": {"name": "somebodys-own"}})
    assert not is_kept(ObjectKind.NAMESPACE, {"metadata": {"name": "default"}})
    assert not is_kept(ObjectKind.CONFIG_MAP, {"metadata": 7})
