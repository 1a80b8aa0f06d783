"""What is read of clusters of each kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leadline.errors import LeadlineError
from leadline.inventory.kubernetes.classes import pool_of_class, reads_near
from leadline.inventory.kubernetes.folder import read_folder
from leadline.inventory.kubernetes.kinds import GAPS, VERSION
from leadline.inventory.kubernetes.models import (
    CephVolumes,
    LocalVolumes,
    LonghornVolumes,
    MayastorVolumes,
    Mounter,
    ZfsVolumes,
)
from leadline.inventory.kubernetes.reading import kubernetes_inventory
from tests.conftest import RECORDED
from tests.unit.inventory.kubernetes.conftest import CLUSTERS, NAMES, inventory

CEPH = RECORDED.parent / "ceph-multi-az"


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_a_whole_cluster_is_a_gap(name: str) -> None:
    """But Ceph's own answers, which no folder here has."""
    gaps = inventory(name).gaps
    assert [one.what for one in gaps] in ([], ["Ceph"])
    assert inventory(name).nodes


def test_nodes() -> None:
    found = inventory("odf-multi-zone")
    assert found.zones == ("eu-central-1a", "eu-central-1b", "eu-central-1c")
    node = found.nodes[0]
    assert (node.name, node.zone, node.region) == ("worker-a", "eu-central-1a", "eu-central-1")
    assert (node.instance_type, node.roles) == ("m6i.4xlarge", ("worker",))
    assert (node.cpu, node.cpu_allocatable) == (16.0, 15.5)
    assert node.memory_bytes == 65009552 * 1024
    assert node.memory_allocatable_bytes == 63457 << 20
    assert node.kernel == "5.14.0-427.40.1.el9_4.x86_64"
    assert (node.kubelet, node.runtime) == ("v1.29.9", "cri-o://1.29.9")
    assert node.ready is True
    assert node.schedulable
    assert node.taints == ("node.ocs.openshift.io/storage=true:NoSchedule",)
    assert node.csi_drivers is None, "no CSINode was saved"
    assert found.openshift == "4.16.21"
    assert found.uid == "11111111-2222-3333-4444-555555555555"
    racks = inventory("odf-single-zone").nodes
    assert [one.places[0].value for one in racks] == ["rack0", "rack1", "rack2"]
    assert inventory("mayastor-1-core").nodes[0].hugepages_bytes == 2 << 30


@pytest.mark.parametrize(
    ("status", "ready"), [("True", True), ("False", False), ("Unknown", None), ("", None)]
)
def test_a_node_that_does_not_report_stays_in_the_inventory(
    status: str, ready: bool | None
) -> None:
    conditions = [{"type": "DiskPressure", "status": status}, {"type": "Ready", "status": status}]
    zone = {"topology.kubernetes.io/zone": "a"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": zone},
        "status": {"conditions": conditions},
    }
    found = kubernetes_inventory({"nodes.json": json.dumps({"items": [node]}).encode()})
    assert [(one.name, one.ready, one.zone) for one in found.nodes] == [("n", ready, "a")]
    assert not found.gaps


def test_ceph_classes() -> None:
    found = inventory("odf-multi-zone")
    plain = found.storage_class("ocs-storagecluster-ceph-rbd")
    assert plain is not None
    assert plain.default
    assert not plain.default_virt
    assert (plain.reclaim, plain.binding, plain.expansion) == ("Delete", "Immediate", True)
    volumes = plain.volumes
    assert isinstance(volumes, CephVolumes)
    assert (volumes.kind, volumes.pool) == ("ceph-rbd", "ocs-storagecluster-cephblockpool")
    assert volumes.mounter is Mounter.KRBD
    assert "object-map" in volumes.image_features
    assert not volumes.encrypted
    assert volumes.read_affinity is not None
    assert volumes.read_affinity.enabled
    assert "topology.kubernetes.io/zone" in volumes.read_affinity.labels
    virtual = found.storage_class("ocs-storagecluster-ceph-rbd-virtualization")
    assert virtual is not None
    assert virtual.default_virt
    assert isinstance(virtual.volumes, CephVolumes)
    assert virtual.volumes.map_options == "krbd:rxbounce"
    filesystem = found.storage_class("ocs-storagecluster-cephfs")
    assert filesystem is not None
    assert isinstance(filesystem.volumes, CephVolumes)
    assert filesystem.volumes.fs_name == "ocs-storagecluster-cephfilesystem"
    assert filesystem.volumes.mounter is Mounter.KERNEL


def test_rook_classes_with_erasure_code_nbd_and_fuse() -> None:
    found = inventory("rook")
    erasure = found.storage_class("rook-ceph-ec")
    assert erasure is not None
    volumes = erasure.volumes
    assert isinstance(volumes, CephVolumes)
    assert (volumes.pool, volumes.data_pool) == ("replicated-metadata", "ec-data")
    assert (volumes.mounter, volumes.map_options) == (Mounter.RBD_NBD, "nbd:try-netlink")
    assert (volumes.encrypted, volumes.kms_id) == (True, "user-vault")
    affinity = volumes.read_affinity
    assert affinity is not None
    assert affinity.told_by == "ConfigMap rook-ceph/rook-ceph-csi-config"
    fuse = found.storage_class("rook-cephfs")
    assert fuse is not None
    assert isinstance(fuse.volumes, CephVolumes)
    assert (fuse.volumes.mounter, fuse.volumes.map_options) == (Mounter.FUSE, "debug")
    block = found.storage_class("rook-ceph-block")
    assert block is not None
    assert block.mount_options == ("discard",)


def test_read_affinity_that_is_off_and_that_nobody_tells() -> None:
    single = inventory("odf-single-zone")
    assert not reads_near(single, "ocs-storagecluster-ceph-rbd")
    item = single.storage_class("ocs-storagecluster-ceph-rbd")
    assert item is not None
    assert isinstance(item.volumes, CephVolumes)
    assert item.volumes.read_affinity is not None
    assert not item.volumes.read_affinity.enabled
    assert reads_near(inventory("odf-multi-zone"), "ocs-storagecluster-cephfs")
    assert not reads_near(inventory("zfs-localpv"), "zfs-zvol")


def test_the_pool_behind_a_class() -> None:
    assert pool_of_class(inventory("rook"), "rook-ceph-ec") == "ec-data"
    assert pool_of_class(inventory("rook"), "rook-cephfs") == "myfs-replicated"
    data = "ocs-storagecluster-cephfilesystem-data0"
    assert pool_of_class(inventory("odf-multi-zone"), "ocs-storagecluster-cephfs") == data
    assert pool_of_class(inventory("longhorn"), "longhorn") == ""
    assert pool_of_class(inventory("rook"), "unheard") == ""


def test_storage_cluster_and_ceph_cluster() -> None:
    found = inventory("odf-multi-zone")
    (cluster,) = found.storage_clusters
    assert (cluster.failure_domain, cluster.failure_domain_key) == (
        "zone",
        "topology.kubernetes.io/zone",
    )
    assert cluster.failure_domain_values == ("eu-central-1a", "eu-central-1b", "eu-central-1c")
    assert (cluster.resource_profile, cluster.version) == ("performance", "4.16.3")
    assert cluster.encrypted
    (devices,) = cluster.device_sets
    assert (devices.count, devices.replica, devices.size_bytes) == (2, 3, 2 << 40)
    assert (devices.storage_class, devices.portable) == ("gp3-csi", True)
    (ceph,) = found.ceph_clusters
    assert (ceph.version, ceph.health, ceph.monitors) == ("18.2.1-229", "HEALTH_OK", 3)
    assert ceph.network.encrypted is True
    assert ceph.network.compressed is None
    assert ceph.encrypted is True
    assert ceph.kms == "vault"
    assert ceph.device_sets[0].device_class == "ssd"
    assert ceph.device_sets[0].osd is not None
    assert ceph.device_sets[0].osd.cpu_limit == 4
    manager = next(one for one in ceph.resources if one.daemon == "mgr")
    assert (manager.cpu_request, manager.cpu_limit) == (1.5, 3.0)
    assert (manager.memory_request_bytes, manager.memory_limit_bytes) == (3 << 30, 4 << 30)
    assert found.kubevirt is not None
    assert (found.kubevirt.version, found.kubevirt.gates) == (
        "v1.2.2",
        ("CPUManager", "HotplugVolumes"),
    )


def test_rooks_network_and_pools() -> None:
    found = inventory("rook")
    (ceph,) = found.ceph_clusters
    assert ceph.network.provider == "multus"
    assert ceph.network.selectors == (
        "cluster rook-ceph/cluster-net",
        "public rook-ceph/public-net",
    )
    assert (ceph.network.encrypted, ceph.network.compressed) == (True, True)
    assert ceph.encrypted is True, "by the configuration of its devices"
    pools = {one.name: one.spec for one in found.block_pools}
    assert set(pools) == {"replicapool", ".mgr", "ec-data"}
    assert (pools["ec-data"].size, pools["ec-data"].data_chunks) == (None, 2)
    assert pools["ec-data"].compression == "aggressive"
    assert (pools["replicapool"].size, pools["replicapool"].data_chunks) == (3, None)
    (filesystem,) = found.filesystems
    assert (filesystem.active_mds, filesystem.active_standby) == (2, False)
    assert filesystem.data_pools[0].name == "myfs-replicated"
    assert filesystem.data_pools[0].spec.size == 2
    odf = inventory("odf-multi-zone").block_pools[0].spec
    assert (odf.size, odf.data_chunks, odf.failure_domain) == (3, None, "zone")


@pytest.mark.parametrize(
    ("name", "cores"), [("mayastor-1-core", (1,)), ("mayastor-2-cores", (1, 2))]
)
def test_mayastor(name: str, cores: tuple[int, ...]) -> None:
    found = inventory(name)
    (engine,) = found.io_engines
    assert engine.cores == cores
    assert (engine.cpu_request, engine.cpu_limit) == (len(cores), len(cores))
    assert engine.hugepages_bytes == 2 << 30
    assert (engine.ready, engine.wanted) == (3, 3)
    pools = found.disk_pools
    assert [pool.node for pool in pools] == ["stor0", "stor1", "stor2"]
    assert (pools[0].capacity_bytes, pools[0].used_bytes) == (1 << 40, 1 << 38)
    item = found.storage_class("mayastor")
    assert item is not None
    assert isinstance(item.volumes, MayastorVolumes)
    assert item.volumes.replicas == (1 if len(cores) == 1 else 3)
    assert (item.volumes.protocol, item.volumes.thin) == ("nvmf", True)


def test_longhorn() -> None:
    found = inventory("longhorn")
    assert found.longhorn is not None
    assert (found.longhorn.version, found.longhorn.nodes, found.longhorn.disks) == ("v1.7.2", 3, 6)
    assert found.longhorn.kinds == ("block", "filesystem")
    settings = {one.name: one.value for one in found.longhorn.settings}
    assert settings["guaranteed-instance-manager-cpu"] == "12"
    assert "allow-collecting-longhorn-usage-metrics" not in settings
    first, second = found.storage_classes
    assert isinstance(first.volumes, LonghornVolumes)
    assert isinstance(second.volumes, LonghornVolumes)
    assert (first.volumes.data_engine, first.volumes.replicas) == ("v1", 3)
    assert (second.volumes.data_engine, second.volumes.data_locality) == ("v2", "best-effort")
    assert second.volumes.encrypted
    assert [(one.name, one.ready, one.wanted) for one in found.workloads] == [
        ("longhorn-manager", 2, 3)
    ]


def test_zfs_and_local_path() -> None:
    found = inventory("zfs-localpv")
    assert [(pool.node, pool.name, pool.free_bytes) for pool in found.zfs_pools] == [
        ("z0", "zfspv-pool", 800 << 30),
        ("z1", "zfspv-pool", 800 << 30),
    ]
    volumes = {one.name: one.volumes for one in found.storage_classes}
    dataset, zvol, local = (volumes[name] for name in ("zfs-dataset", "zfs-zvol", "local-path"))
    assert isinstance(dataset, ZfsVolumes)
    assert (dataset.layout, dataset.record_size, dataset.thin) == ("dataset", "16k", True)
    assert isinstance(zvol, ZfsVolumes)
    assert (zvol.layout, zvol.block_size, zvol.fs_type) == ("zvol", "16k", "xfs")
    assert isinstance(local, LocalVolumes)
    assert local.path == "/data"


# --- what is damaged or missing -----------------------------------------------------------------


def dumps_of(name: str) -> dict[str, bytes]:
    return read_folder(CLUSTERS / name).dumps


def test_an_object_that_is_not_as_its_schema_has_it_becomes_a_gap() -> None:
    dumps = dumps_of("mayastor-1-core")
    listed = json.loads(dumps["nodes.json"])
    listed["items"][1]["status"]["capacity"]["cpu"] = "many"
    dumps["nodes.json"] = json.dumps(listed).encode()
    found = kubernetes_inventory(dumps)
    assert [node.name for node in found.nodes] == ["stor0", "stor2"]
    assert [(gap.what, gap.reason) for gap in found.gaps] == [
        ("Node stor1", "status.capacity.cpu is not a quantity")
    ]


@pytest.mark.parametrize("wrong", [7, "text", [], [[]], {"a": 1}])
def test_any_part_may_be_anything(wrong: object) -> None:
    """No shape of an object ends the reading: what cannot be read is told, the rest is read."""
    for name in NAMES:
        dumps = dumps_of(name)
        for dump, content in dumps.items():
            if dump in (VERSION, GAPS):
                continue
            listed = json.loads(content)
            for key in ("metadata", "spec", "status", "parameters", "data", "provisioner", "pools"):
                changed = [one | {key: wrong} if key in one else one for one in listed["items"]]
                broken = {**dumps, dump: json.dumps({**listed, "items": changed}).encode()}
                assert kubernetes_inventory(broken).gaps is not None


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{", "line 1: not JSON"),
        (b"[]", "not a list of objects"),
        (b'{"items": 7}', "not a list of objects"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_damaged_dump_does_not_hide_the_others(content: bytes, told: str) -> None:
    found = kubernetes_inventory({**dumps_of("longhorn"), "storageclasses.json": content})
    assert found.storage_classes == ()
    assert len(found.nodes) == 3
    assert [(gap.what, gap.reason) for gap in found.gaps] == [("storageclasses.json", told)]


def test_gaps_of_the_capture_are_told() -> None:
    gap = {"what": "Rook's pools", "reason": "this user may not list cephblockpools"}
    found = kubernetes_inventory({**dumps_of("longhorn"), GAPS: json.dumps([gap]).encode()})
    assert [one.model_dump() for one in found.gaps] == [gap]


def test_nothing_at_all() -> None:
    with pytest.raises(LeadlineError) as caught:
        kubernetes_inventory({"nodes.json": b'{"items": []}'})
    assert caught.value.kind.code == "dumps-invalid"


def test_cephs_own_inventory_is_joined() -> None:
    answers = {path.name: path.read_bytes() for path in CEPH.glob("*.json")}
    found = kubernetes_inventory({**dumps_of("odf-multi-zone"), **answers})
    assert found.ceph is not None
    assert found.ceph.pool("rbd_r3") is not None
    assert found.gaps == ()
    damaged = {**dumps_of("odf-multi-zone"), **answers, "osd_dump.json": b"{"}
    found = kubernetes_inventory(damaged)
    assert found.ceph is None
    assert [one.what for one in found.gaps] == ["Ceph"]
    assert "osd_dump.json is not JSON" in found.gaps[0].reason


def test_the_version_of_the_server(tmp_path: Path) -> None:
    dumps = {**dumps_of("longhorn"), VERSION: b'{"gitVersion": "v1.34.4"}'}
    assert kubernetes_inventory(dumps).version == "v1.34.4"
    assert kubernetes_inventory({**dumps, VERSION: b"[]"}).version == ""
