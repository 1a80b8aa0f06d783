"""Which of the study's pools Rook can make where: decisions without a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leadline.errors import LeadlineError
from leadline.inventory.kubernetes.classes import KEY_ROTATION
from leadline.inventory.kubernetes.objects import dump_of
from leadline.inventory.kubernetes.reading import kubernetes_inventory
from leadline.pools.options import PoolOptions
from leadline.pools.recipes import pool_name
from leadline.pools.rook import classes_on, volumes_of
from leadline.pools.rook_recipes import RookDecision, ceph_pools, decide
from leadline.pools.rook_resources import (
    Prerequisites,
    RookState,
    choose_cluster,
    find_prerequisites,
    require_usable,
)

Manifest = dict[str, Any]
SPACE = "rook-ceph"
CEPH = "ceph.rook.io/v1"


def item(api: str, kind: str, name: str, namespace: str = "", **fields: Any) -> Manifest:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


def node(name: str, **labels: str) -> Manifest:
    found = item("v1", "Node", name)
    found["metadata"]["labels"] = {key.replace("__", "/"): entry for key, entry in labels.items()}
    return found


def rbd_class(name: str, namespace: str = SPACE, **parameters: str) -> Manifest:
    given = {"clusterID": namespace, "pool": "replicapool", "imageFeatures": "layering"}
    return item(
        "storage.k8s.io/v1",
        "StorageClass",
        name,
        provisioner=f"{namespace}.rbd.csi.ceph.com",
        parameters=given | parameters,
    )


def zones(count: int, each: int = 2) -> list[Manifest]:
    label = "topology.kubernetes.io__zone"
    return [
        node(f"n{zone}{entry}", **{label: f"z{zone}"})
        for zone in range(count)
        for entry in range(each)
    ]


def seen(
    *,
    nodes: list[Manifest] | None = None,
    clusters: list[Manifest] | None = None,
    pools: list[Manifest] | None = None,
    classes: list[Manifest] | None = None,
    filesystems: list[Manifest] | None = None,
) -> RookState:
    cluster = item(CEPH, "CephCluster", "ceph", SPACE, spec={}, status={"phase": "Ready"})
    listed = {
        "nodes.json": zones(3) if nodes is None else nodes,
        "cephclusters.json": [cluster] if clusters is None else clusters,
        "cephblockpools.json": pools or [],
        "cephfilesystems.json": filesystems or [],
        "storageclasses.json": [rbd_class("rook-ceph-block")] if classes is None else classes,
    }
    inventory = kubernetes_inventory({name: dump_of(items) for name, items in listed.items()})
    return RookState(
        inventory=inventory,
        pools={
            (SPACE, entry["metadata"]["name"]): entry for entry in listed["cephblockpools.json"]
        },
        classes={entry["metadata"]["name"]: entry for entry in listed["storageclasses.json"]},
    )


def prerequisites(state: RookState, **given: str | None) -> Prerequisites:
    cluster = choose_cluster(state.inventory, None)
    asked: dict[str, str | None] = {"failure_domain": None, "device_class": None, **given}
    return find_prerequisites(state, cluster, **asked)


def decided(state: RookState, *names: str, **given: str | None) -> dict[str, RookDecision]:
    found = decide([pool_name(name) for name in names], state, prerequisites(state, **given))
    return {entry.name: entry for entry in found}


@pytest.mark.parametrize(
    ("nodes", "domain", "buckets"),
    [
        (zones(3), "zone", 3),
        (zones(2, each=2), "host", 4),
        (zones(2, each=1), "zone", 2),
        (zones(1, each=1), "host", 1),
        ([node(f"n{entry}", topology__none="x") for entry in range(3)], "host", 3),
        ([*zones(1, each=3), node("m", **{"node-role.kubernetes.io__master": ""})], "host", 3),
    ],
)
def test_the_failure_domain_is_the_highest_with_three_buckets(
    nodes: list[Manifest], domain: str, buckets: int
) -> None:
    found = prerequisites(seen(nodes=nodes))
    assert (found.domain, found.buckets) == (domain, buckets)
    assert "counted over the nodes" in found.notes[0]


def osds(places: list[str]) -> RookState:
    """OSDs as Rook labels their Deployments: `zone/host` each."""
    at = [dict(zip(("zone", "host"), place.split("/"), strict=True)) for place in places]
    return replace(seen(nodes=zones(1, each=1)), osds={SPACE: at})


def test_the_place_of_osds_goes_before_the_labels_of_nodes() -> None:
    found = prerequisites(osds(["a/n1", "b/n2", "c/n3", "d/n4"]))
    assert (found.domain, found.buckets) == ("zone", 4)
    assert "counted over 4 OSDs" in found.notes[0]
    assert prerequisites(osds(["a/n1", "a/n2", "b/n3"])).domain == "host"
    # A cluster in another namespace has no say, and an OSD without labels makes the others useless.
    apart = osds(["a/n1", "b/n2", "c/n3"])
    assert prerequisites(replace(apart, osds={"other": apart.osds[SPACE]})).domain == "host"
    mixed = replace(apart, osds={SPACE: [*apart.osds[SPACE], {}]})
    assert "counted over the nodes" in prerequisites(mixed).notes[0]


def test_a_node_that_cannot_be_read_gives_no_weaker_failure_domain() -> None:
    state = replace(seen(), unread=("Node n1: status.x is not text",))
    with pytest.raises(LeadlineError, match="the failure domain is unknown") as raised:
        prerequisites(state)
    assert raised.value.context == ("Node n1: status.x is not text",)
    assert prerequisites(state, failure_domain="zone").domain == "zone"
    known = replace(osds(["a/n1", "b/n2", "c/n3"]), unread=state.unread)
    assert prerequisites(known).domain == "zone"


def test_a_failure_domain_that_is_named_is_taken() -> None:
    found = prerequisites(seen(), failure_domain="host")
    assert (found.domain, found.buckets, found.notes) == ("host", 6, ())
    assert prerequisites(seen(), failure_domain="chassis").buckets is None


def test_what_needs_more_buckets_than_there_are_is_skipped_with_the_numbers() -> None:
    found = decided(seen(nodes=zones(2, each=1)), "rep3", "rep2", "rep3-virt")
    assert found["rep3"].reason == "rep3 needs 3 failure domains; the cluster has 2 zones"
    assert found["rep3-virt"].reason == found["rep3"].reason
    assert [make["kind"] for make in found["rep2"].makes] == ["CephBlockPool", "StorageClass"]


def test_images_on_erasure_code_have_their_metadata_in_a_pool_of_the_study_or_the_copied() -> None:
    alone = decided(seen(), "ec-2-1")["ec-2-1"].makes[1]["parameters"]
    assert (alone["pool"], alone["dataPool"]) == ("replicapool", "ec-2-1")
    found = decided(seen(), "ec-2-1", "rep2")
    assert list(found) == ["ec-2-1", "rep2"]
    assert found["ec-2-1"].makes[1]["parameters"]["pool"] == "rep2"


@pytest.mark.parametrize(
    ("name", "least"), [("rep2", 1), ("rep3", 2), ("rep4", 2), ("ec-2-1", 2), ("ec-4-2", 5)]
)
def test_min_size_is_cephs_own_default(name: str, least: int) -> None:
    found = decided(seen(), name, failure_domain="host")[name]
    assert found.makes[0]["spec"]["parameters"]["min_size"] == str(least)


def test_the_class_that_says_least_of_its_own_is_copied_without_what_it_says() -> None:
    plain = rbd_class("zz", mounter="rbd-nbd", topologyConstrainedPools="[]")
    others = [rbd_class("aa", encrypted="true"), rbd_class("bb", mapOptions="krbd:rxbounce")]
    state = seen(classes=[*others, plain, rbd_class("cc", namespace="other")])
    assert prerequisites(state).template.name == "zz"
    made = decided(state, "rep2")["rep2"].makes[1]["parameters"]
    assert made == {"clusterID": SPACE, "imageFeatures": "layering", "pool": "rep2"}


def test_without_a_class_to_copy_from_nothing_is_made() -> None:
    with pytest.raises(LeadlineError, match="no StorageClass creates RBD volumes"):
        prerequisites(seen(classes=[rbd_class("cc", namespace="other")]))


def test_the_device_class_of_other_pools_is_theirs_too() -> None:
    spec = {"failureDomain": "zone", "replicated": {"size": 3}, "deviceClass": "ssd"}
    state = seen(pools=[item(CEPH, "CephBlockPool", "replicapool", SPACE, spec=spec)])
    assert prerequisites(state).device_class == "ssd"
    assert decided(state, "rep2")["rep2"].makes[0]["spec"]["deviceClass"] == "ssd"


def test_of_several_device_classes_one_must_be_named() -> None:
    classes = [{"name": "hdd"}, {"name": "ssd"}]
    status = {"phase": "Ready", "storage": {"deviceClasses": classes}}
    state = seen(clusters=[item(CEPH, "CephCluster", "ceph", SPACE, spec={}, status=status)])
    with pytest.raises(LeadlineError, match="OSDs of 2 device classes"):
        prerequisites(state)
    assert prerequisites(state, device_class="ssd").device_class == "ssd"
    with pytest.raises(LeadlineError, match="no OSDs of the device class 'nvme'"):
        prerequisites(state, device_class="nvme")


@pytest.mark.parametrize(
    ("sets", "device_class"),
    [
        ([("a", True, ""), ("b", True, "")], ""),
        ([("a", True, "ssd"), ("b", False, "hdd")], "ssd"),
        ([("a", True, "ssd"), ("b", False, "ssd")], None),
        ([("a", True, ""), ("b", False, "")], None),
        ([], None),
    ],
)
def test_encrypted_copies_need_osds_that_a_rule_can_choose(
    sets: list[tuple[str, bool, str]], device_class: str | None
) -> None:
    written = [
        {
            "name": name,
            "count": 3,
            "encrypted": encrypted,
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data", "annotations": {"crushDeviceClass": entry}},
                    "spec": {},
                }
            ],
        }
        for name, encrypted, entry in sets
    ]
    spec = {"storage": {"storageClassDeviceSets": written}}
    cluster = item(CEPH, "CephCluster", "ceph", SPACE, spec=spec, status={"phase": "Ready"})
    found = decided(seen(clusters=[cluster]), "rep3-enc")["rep3-enc"]
    if device_class is None:
        assert (found.act.value, found.makes) == ("skipped", ())
    else:
        assert found.makes[0]["spec"].get("deviceClass", "") == device_class


def test_a_data_pool_that_the_filesystem_has_already_is_named() -> None:
    spec = {"metadataPool": {}, "dataPools": [{"replicated": {"size": 3}}], "metadataServer": {}}
    files = item(
        "storage.k8s.io/v1",
        "StorageClass",
        "cephfs",
        provisioner=f"{SPACE}.cephfs.csi.ceph.com",
        parameters={"clusterID": SPACE, "fsName": "myfs"},
    )
    state = seen(
        filesystems=[item(CEPH, "CephFilesystem", "myfs", SPACE, spec=spec)],
        classes=[rbd_class("rook-ceph-block"), files],
    )
    found = decided(state, "cephfs-rep3", "cephfs-rep2")
    assert found["cephfs-rep3"].reason == (
        "the data pool myfs-data0 exists: use storageclass:cephfs"
    )
    own = found["cephfs-rep2"]
    assert own.reason == (
        "its own CephFilesystem, replicated, size 2, over 3 zones; "
        "use it as storageclass:leadline-cephfs-rep2"
    )
    filesystem, storage_class = own.makes
    assert [pool["replicated"]["size"] for pool in filesystem["spec"]["dataPools"]] == [2]
    assert filesystem["spec"]["metadataPool"]["replicated"]["size"] == 2
    assert storage_class["provisioner"] == f"{SPACE}.cephfs.csi.ceph.com"
    assert storage_class["parameters"]["fsName"] == "cephfs-rep2"
    assert storage_class["parameters"]["pool"] == ceph_pools(filesystem)[1] == "cephfs-rep2-data"


def test_without_a_class_of_cephfs_the_secrets_are_named_as_rook_names_them() -> None:
    secret = "csi.storage.k8s.io/node-stage-secret"
    copied = {f"{secret}-name": "rook-csi-rbd-node", f"{secret}-namespace": SPACE}
    state = seen(classes=[rbd_class("rbd", **copied)])
    made = decided(state, "cephfs-rep2")["cephfs-rep2"].makes[1]
    assert made["provisioner"] == f"{SPACE}.cephfs.csi.ceph.com"
    assert made["parameters"] == {
        "clusterID": SPACE,
        "fsName": "cephfs-rep2",
        "pool": "cephfs-rep2-data",
        f"{secret}-name": "rook-csi-cephfs-node",
        f"{secret}-namespace": SPACE,
    }


def test_one_copy_needs_consent_and_holds_no_metadata_of_images() -> None:
    assert "--no-redundancy" in decided(seen(), "rep1")["rep1"].reason
    options = PoolOptions(no_redundancy=True)
    names = [pool_name(name) for name in ("rep1", "ec-2-1")]
    found = decide(names, seen(), prerequisites(seen()), options)
    single, erasure = (decision.makes for decision in found)
    assert single[0]["spec"]["replicated"] == {"size": 1, "requireSafeReplicaSize": False}
    assert erasure[1]["parameters"]["pool"] == "replicapool"


def test_the_users_sizes_and_profile_are_in_the_pools() -> None:
    names = [pool_name(name) for name in ("rep3", "ec-2-1")]

    def specs(options: PoolOptions) -> list[Any]:
        found = decide(names, seen(), prerequisites(seen()), options)
        return [decision.makes[0]["spec"] for decision in found]

    fixed = {"pg_num": "64", "pg_autoscale_mode": "off"}
    for spec in specs(PoolOptions(pg_num=64)):
        assert spec["parameters"].items() >= fixed.items()
    options = PoolOptions(target_ratio=0.49, erasure_profile={"plugin": "isa"})
    replicated, erasure = specs(options)
    assert replicated["replicated"]["targetSizeRatio"] == 0.49
    assert "target_size_ratio" not in replicated["parameters"]
    assert erasure["parameters"]["target_size_ratio"] == "0.49"
    assert erasure["erasureCoded"]["algorithm"] == "isa"


def luks(state: RookState, **given: Any) -> RookDecision:
    name = pool_name("rep3-luks")
    return decide([name], state, prerequisites(state), PoolOptions(**given))[1]


def test_volumes_are_encrypted_with_keys_of_a_known_service() -> None:
    state = replace(seen(), kms={"vault": "vaulttokens", "other": ""})
    found = luks(state, kms="vault", key_rotation="@weekly")
    assert found.reason == (
        "the pool rep3, each volume encrypted with LUKS, keys in vault (vaulttokens), rotated "
        "@weekly; use it as storageclass:leadline-rep3-luks"
    )
    (made,) = found.makes
    assert made["metadata"]["annotations"] == {KEY_ROTATION: "@weekly"}
    encrypted = {"encrypted": "true", "encryptionKMSID": "vault", "pool": "rep3"}
    assert made["parameters"].items() >= encrypted.items()
    assert "known: other, vault" in luks(state).reason
    assert "has no key management service 'valut'" in luks(state, kms="valut").reason


def test_the_service_of_other_encrypted_classes_is_theirs_too() -> None:
    others = rbd_class("enc", encrypted="true", encryptionKMSID="vault")
    found = luks(seen(classes=[rbd_class("plain"), others]))
    assert "keys in vault (provider unknown)" in found.reason
    assert luks(seen()).act.value == "skipped"


@pytest.mark.parametrize(
    ("spec", "status", "said"),
    [
        ({"external": {"enable": True}}, {"phase": "Connected"}, "is external"),
        ({}, {"phase": "Progressing"}, "is not Ready but Progressing"),
        ({}, {}, "is not Ready but without a phase"),
        ({}, {"phase": "Ready", "ceph": {"health": "HEALTH_ERR"}}, "is in HEALTH_ERR"),
    ],
)
def test_clusters_in_which_no_pool_can_be_made(spec: Any, status: Any, said: str) -> None:
    state = seen(clusters=[item(CEPH, "CephCluster", "ceph", SPACE, spec=spec, status=status)])
    with pytest.raises(LeadlineError, match=said):
        require_usable(choose_cluster(state.inventory, None))


def volume(name: str, cluster: str | None, pool: str, storage_class: str = "x") -> Manifest:
    attributes = {"pool": pool} | ({"clusterID": cluster} if cluster else {})
    csi = {"driver": f"{SPACE}.rbd.csi.ceph.com", "volumeAttributes": attributes}
    return item(
        "v1", "PersistentVolume", name, spec={"storageClassName": storage_class, "csi": csi}
    )


def test_volumes_count_by_their_class_and_by_their_pool_unless_they_are_elsewhere() -> None:
    volumes = [
        volume("by-class", "other", "q", "leadline-rep3"),
        volume("by-pool", SPACE, "rep3"),
        volume("newer-id", "a1b2c3", "rep3"),
        volume("unsaid", None, "rep3"),
        volume("elsewhere", "other", "rep3"),
        volume("another-pool", SPACE, "rep2"),
    ]
    found = volumes_of(volumes, {"other"}, {"leadline-rep3"}, {"rep3"})
    assert found == ["by-class", "by-pool", "newer-id", "unsaid"]


def test_classes_count_by_either_of_their_pools() -> None:
    classes = {
        "data": rbd_class("data", dataPool="ec-2-1", pool="rep3"),
        "other": rbd_class("other", namespace="elsewhere", pool="rep3"),
    }
    assert classes_on(classes, SPACE, "rep3") == ["data"]
    assert classes_on(classes, SPACE, "ec-2-1") == ["data"]
    assert classes_on(classes, SPACE, "rep2") == []
