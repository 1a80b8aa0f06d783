"""What differs between two Kubernetes clusters, and what that can account for."""

from __future__ import annotations

import pytest

from leadline.analysis.explain.conditions import differing
from leadline.errors import LeadlineError
from leadline.inventory.diff import Difference, kubernetes_differences, shared_classes
from leadline.inventory.kubernetes.folder import read_folder
from leadline.inventory.system import System, system_of
from tests.conftest import RECORDED
from tests.unit.inventory.kubernetes.conftest import CLUSTERS, NAMES, inventory


def found(base: str, candidate: str) -> dict[str, Difference]:
    sides = [System(ceph=None, kubernetes=inventory(name)) for name in (base, candidate)]
    return {one.path: one for one in differing(sides[0], sides[1]).differences}


@pytest.mark.parametrize("name", NAMES)
def test_a_cluster_does_not_differ_from_itself(name: str) -> None:
    one = inventory(name)
    answer = kubernetes_differences(one, one, shared_classes(one, one))
    assert answer.differences == ()
    assert "the same Kubernetes cluster" in answer.identical


def test_one_zone_and_three() -> None:
    told = found("odf-single-zone", "odf-multi-zone")
    zones = told["odf.failure_domain"]
    assert zones.baseline == "rack: rack0, rack1 and rack2"
    assert zones.candidate == "zone: eu-central-1a, eu-central-1b and eu-central-1c"
    assert "farthest copy" in zones.explains[0].mechanism
    domain = told["pools.*.failure_domain"]
    assert (domain.baseline, domain.candidate) == ("rack", "zone")
    assert domain.explains
    affinity = told["storage_classes.*.read_affinity"]
    assert affinity.baseline == "off"
    assert affinity.candidate == "on (hostname, region and zone)"
    assert "copy in their own zone" in affinity.explains[0].mechanism
    assert told["kubernetes.zones"].candidate == "3 zones"
    assert told["encryption.at_rest"].candidate == "on"
    assert "4k" in told["encryption.at_rest"].explains[0].mechanism
    assert told["odf.resource_profile"].candidate == "performance"
    osd = told["rook.resources.osd"]
    assert osd.candidate == "processors 4, memory 8 GiB"
    assert osd.explains
    assert "kubernetes.kernel" not in told
    assert "rook.device_sets" not in told
    assert not any("imageFormat" in path for path in told)


def test_one_core_of_io_engine_and_two() -> None:
    told = found("mayastor-1-core", "mayastor-2-cores")
    assert set(told) == {
        "mayastor.cores",
        "mayastor.cpu",
        "storage_classes.mayastor.replicas",
    }
    cores = told["mayastor.cores"]
    assert (cores.baseline, cores.candidate) == ("1 core", "2 cores")
    assert "polls its cores" in cores.explains[0].mechanism
    replicas = told["storage_classes.mayastor.replicas"]
    assert (replicas.baseline, replicas.candidate) == ("1 copy", "3 copies")
    assert replicas.target == "mayastor"
    assert len(replicas.explains) == 2, "what it does to writes and what to reads"


def test_classes_of_one_cluster() -> None:
    """As where two StorageClasses of a cluster are compared with each other."""
    rook = inventory("rook")
    pair = {"volume": ("rook-ceph-block", "rook-ceph-ec")}
    answer = kubernetes_differences(rook, rook, pair)
    told = {one.path: (one.baseline, one.candidate) for one in answer.differences}
    assert told["storage_classes.volume.mounter"] == ("krbd", "rbd-nbd")
    assert told["storage_classes.volume.encryption"] == ("off", "block, KMS user-vault")
    assert told["storage_classes.volume.map_options"] == ("not set", "nbd:try-netlink")
    assert told["pools.volume.redundancy"] == ("3 copies", "EC 2+1")
    assert told["pools.volume.compression"] == ("none", "aggressive")
    assert "storage_classes.others" not in told
    longhorn = inventory("longhorn")
    answer = kubernetes_differences(longhorn, longhorn, {"v": ("longhorn", "longhorn-v2")})
    told = {one.path: (one.baseline, one.candidate) for one in answer.differences}
    assert told["storage_classes.v.data_engine"] == ("v1", "v2")
    assert told["storage_classes.v.data_locality"] == ("disabled", "best-effort")
    zfs = inventory("zfs-localpv")
    answer = kubernetes_differences(zfs, zfs, {"v": ("zfs-dataset", "zfs-zvol")})
    told = {one.path: (one.baseline, one.candidate) for one in answer.differences}
    assert told["storage_classes.v.layout"] == ("dataset", "zvol")
    assert told["storage_classes.v.record_size"] == ("16k", "not set")


def test_classes_of_different_systems() -> None:
    answer = kubernetes_differences(
        inventory("rook"), inventory("longhorn"), {"v": ("rook-ceph-block", "longhorn")}
    )
    told = {one.path: one for one in answer.differences}
    driver = told["storage_classes.v.driver"]
    assert driver.baseline == "ceph-rbd (rook-ceph.rbd.csi.ceph.com)"
    assert driver.candidate == "longhorn (driver.longhorn.io)"
    assert "storage_classes.v.mounter" not in told, "Longhorn has no word for it"
    assert told["kubernetes.kernel"].candidate == "6.1.0-26-amd64"


def test_every_difference_of_physics_is_explained() -> None:
    """Facts that bear on I/O have an effect in the table."""
    for pair in (
        ("odf-single-zone", "odf-multi-zone"),
        ("mayastor-1-core", "mayastor-2-cores"),
        ("rook", "longhorn"),
        ("rook", "odf-multi-zone"),
    ):
        for path, difference in found(*pair).items():
            quiet = (
                "parameters.", "others", "version", "openshift", "os_image", "kubelet", "runtime",
                "odf.", "resources.mds", "resources.mgr", "disks", "migratable", "stripe",
            )  # fmt: skip
            if not any(word in path for word in quiet):
                assert difference.explains, path


def test_gaps_are_unknown_of_both() -> None:
    one, other = inventory("odf-multi-zone"), inventory("odf-single-zone")
    answer = kubernetes_differences(one, other, shared_classes(one, other))
    assert any(text.startswith("Ceph (candidate: ") for text in answer.unknown)


def test_where_ceph_tells_itself_rooks_words_are_left_out() -> None:
    def with_ceph(name: str, dumps: str) -> System:
        answers = {p.name: p.read_bytes() for p in (RECORDED.parent / dumps).glob("*.json")}
        return system_of({**read_folder(CLUSTERS / name).dumps, **answers})

    base = with_ceph("odf-single-zone", "ceph-single-az")
    candidate = with_ceph("odf-multi-zone", "ceph-multi-az")
    told = {one.path for one in differing(base, candidate).differences}
    assert "topology.crush_levels" in told
    assert "odf.failure_domain" in told
    assert not any(path.startswith("pools.*.") for path in told)


def test_two_of_different_kinds() -> None:
    ceph = {p.name: p.read_bytes() for p in (RECORDED.parent / "ceph-multi-az").glob("*.json")}
    with pytest.raises(LeadlineError) as caught:
        differing(system_of(ceph), System(ceph=None, kubernetes=inventory("longhorn")))
    assert caught.value.kind.code == "not-comparable"
