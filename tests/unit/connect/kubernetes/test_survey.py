"""StorageClasses, places, quotas and capacity of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightkube.resources.storage_v1 import StorageClass

from leadline.connect.kubernetes.client import Connection
from leadline.connect.kubernetes.survey import (
    FOLDERS_ONLY,
    ZONE,
    _decimal,
    find_class,
    keeps_volumes,
    mode_for,
    require_capacity,
    require_place,
    require_quota,
    require_resources,
)
from leadline.errors import LeadlineError
from leadline.plan.volume_request import VolumeMode, VolumeRequest
from tests.unit.connect.kubernetes.api_double import (
    Answer,
    ApiDouble,
    Asked,
    json_of,
    listing,
    refusal,
)

GIB = 1 << 30
DENIED = 'x is forbidden: User "bob" cannot list resource "x" in API group ""'


def node(name: str, zone: str = "", **labels: str) -> dict[str, object]:
    given = {**labels, **({ZONE: zone} if zone else {})}
    return {"metadata": {"name": name, "labels": given}}


def quota(hard: dict[str, str], used: dict[str, str]) -> dict[str, object]:
    return {"metadata": {"name": "q"}, "status": {"hard": hard, "used": used}}


def capacity(name: str, storage_class: str, **sizes: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "storageClassName": storage_class, **sizes}


def raised(call: Callable[[], object]) -> LeadlineError:
    with pytest.raises(LeadlineError) as caught:
        call()
    return caught.value


def test_a_place_that_is_there(api: ApiDouble, tmp_path: Path) -> None:
    api.say = lambda asked: listing(node("n1", "a", disk="ssd"), node("n2", "b"))
    with api.connection(tmp_path) as connection:
        require_place(connection, "n1", "", {}, [])
        require_place(connection, "", "b", {}, [])
        require_place(connection, "", "", {"disk": "ssd"}, [])


def test_no_user_is_asked_where_no_place_is_named(api: ApiDouble, tmp_path: Path) -> None:
    with api.connection(tmp_path) as connection:
        require_place(connection, "", "", {}, [])
    assert api.asked == []


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (("n9", "", {}), "no node 'n9'"),
        (("", "z", {}), "in a zone 'z'"),
        (("", "", {"disk": "hdd"}), "labels disk=hdd"),
    ],
)
def test_a_place_that_is_not_there_is_reported_with_those_that_are(
    api: ApiDouble, tmp_path: Path, place: tuple[str, str, dict[str, str]], said: str
) -> None:
    api.say = lambda asked: listing(node("n1", "a", disk="ssd"), node("n2", "b"))
    with api.connection(tmp_path) as connection:
        error = raised(lambda: require_place(connection, *place, ["target 't'"]))
    assert error.kind.code == "target-invalid"
    assert said in error.fact
    assert "target 't'" in error.context


@pytest.mark.parametrize(
    ("hard", "used", "needs", "said"),
    [
        (
            {"requests.storage": "100Gi"},
            {"requests.storage": "90Gi"},
            11 * GIB,
            "10 GiB of requests",
        ),
        ({"requests.storage": "1Ti"}, {}, 2000 * GIB, "requests.storage"),
    ],
)
def test_a_quota_that_leaves_too_little_is_reported(
    api: ApiDouble,
    tmp_path: Path,
    hard: dict[str, str],
    used: dict[str, str],
    needs: int,
    said: str,
) -> None:
    api.say = lambda asked: listing(quota(hard, used))
    with api.connection(tmp_path) as connection:
        error = raised(lambda: require_quota(connection, "ns", {"requests.storage": needs}, []))
    assert error.kind.code == "quota-exceeded"
    assert said in error.fact
    assert "'q'" in error.fact


def test_a_quota_that_is_just_enough_or_of_something_else_lets_pass(
    api: ApiDouble, tmp_path: Path
) -> None:
    api.say = lambda asked: listing(
        quota({"pods": "3", "requests.cpu": "1500m", "secrets": "0"}, {"pods": "1"})
    )
    with api.connection(tmp_path) as connection:
        require_quota(connection, "ns", {"pods": 2, "requests.cpu": 1, "requests.memory": 9}, [])
        error = raised(lambda: require_quota(connection, "ns", {"requests.cpu": 2}, []))
    assert "leaves 1.5 of requests.cpu; 2 are needed" in error.fact


def test_what_may_not_be_seen_is_no_obstacle(api: ApiDouble, tmp_path: Path) -> None:
    api.say = lambda asked: refusal(403, DENIED)
    with api.connection(tmp_path) as connection:
        require_quota(connection, "ns", {"pods": 2}, [])
        require_capacity(connection, "fast", GIB, [])


def test_a_driver_without_room_is_reported_with_what_it_has(api: ApiDouble, tmp_path: Path) -> None:
    api.say = lambda asked: listing(
        capacity("one", "fast", capacity="5Gi"),
        capacity("two", "fast", capacity="50Gi", maximumVolumeSize="8Gi"),
        capacity("three", "other", capacity="500Gi"),
    )
    with api.connection(tmp_path) as connection:
        require_capacity(connection, "fast", 8 * GIB, [])
        error = raised(lambda: require_capacity(connection, "fast", 9 * GIB, []))
        require_capacity(connection, "unpublished", 9 * GIB, [])
    assert error.kind.code == "target-no-space"
    assert "at most 8 GiB free; a volume is 9 GiB" in error.fact


@given(st.integers(0, 1 << 50))
def test_quantities_in_binary_units_are_bytes(number: int) -> None:
    assert _decimal(str(number)) == number
    assert _decimal(f"{number}Ki") == number * 1024
    assert _decimal(f"{number}m") * 1000 == number


def a_class(
    name: str = "fast", provisioner: str = "rbd.csi.ceph.com", **more: object
) -> StorageClass:
    return StorageClass.from_dict({"metadata": {"name": name}, "provisioner": provisioner, **more})


def test_raw_block_is_taken_where_the_class_can() -> None:
    assert mode_for(a_class(), None, []) is VolumeMode.BLOCK
    assert mode_for(a_class(), VolumeMode.FILESYSTEM, []) is VolumeMode.FILESYSTEM


@pytest.mark.parametrize("provisioner", [*FOLDERS_ONLY, "openshift-storage.cephfs.csi.ceph.com"])
def test_a_class_of_folders_gives_no_raw_block(provisioner: str) -> None:
    found = a_class("shared", provisioner)
    assert mode_for(found, None, []) is VolumeMode.FILESYSTEM
    with pytest.raises(LeadlineError) as caught:
        mode_for(found, VolumeMode.BLOCK, ["target 't'"])
    assert caught.value.kind.code == "class-unsuitable"
    assert "'shared' gives no raw block devices" in caught.value.fact
    assert provisioner in "\n".join(caught.value.context)


def test_a_name_that_only_ends_alike_is_not_the_same() -> None:
    assert mode_for(a_class(provisioner="notnfs.csi.k8s.io"), None, []) is VolumeMode.BLOCK


def test_a_class_that_keeps_volumes() -> None:
    assert keeps_volumes(a_class(reclaimPolicy="Retain"))
    assert not keeps_volumes(a_class(reclaimPolicy="Delete"))
    assert not keeps_volumes(a_class())


def test_a_class_that_is_not_there_is_reported_with_the_nearest(
    api: ApiDouble, tmp_path: Path
) -> None:
    def say(asked: Asked) -> Answer:
        if asked.path.endswith("/storageclasses"):
            items = [{"metadata": {"name": item}, "provisioner": "p"} for item in ("fast", "slow")]
            return listing(*items)
        if asked.path.endswith("/fast"):
            return json_of({"metadata": {"name": "fast"}, "provisioner": "p"})
        return refusal(404, "not found")

    api.say = say
    with api.connection(tmp_path) as connection:
        assert find_class(connection, "fast", []).provisioner == "p"
        with pytest.raises(LeadlineError) as caught:
            find_class(connection, "fats", ["target 't'"])
    assert caught.value.kind.code == "class-unsuitable"
    assert "has no StorageClass 'fats'" in caught.value.fact
    assert "StorageClasses: fast, slow" in caught.value.context
    assert caught.value.hint == "did you mean storageclass:fast?"


def sized(name: str, cpu: str, memory: str, **labels: str) -> dict[str, object]:
    return {**node(name, **labels), "status": {"allocatable": {"cpu": cpu, "memory": memory}}}


def test_a_runner_fits_on_one_node(api: ApiDouble, tmp_path: Path) -> None:
    small, large = sized("n1", "3500m", "8Gi", disk="ssd"), sized("n2", "16", "64Gi")
    unknown = node("n3")

    def refused(request: VolumeRequest, selector: dict[str, str], cores: float) -> LeadlineError:
        with api.connection(tmp_path) as connection:
            return raised(lambda: fits(connection, request, selector, cores))

    def fits(
        connection: Connection, request: VolumeRequest, selector: dict[str, str], cores: float
    ) -> None:
        require_resources(
            connection, request, selector, cores=cores, memory_bytes=4 * GIB, where=["target 'a'"]
        )

    api.say = lambda asked: listing(small, large, unknown)
    with api.connection(tmp_path) as connection:
        fits(connection, VolumeRequest(), {}, 16)
        fits(connection, VolumeRequest(node="n1"), {}, 3.5)
        fits(connection, VolumeRequest(node="n3"), {}, 400)  # nothing is known of it
    error = refused(VolumeRequest(), {}, 16.5)
    assert error.kind.code == "target-invalid"
    assert "the largest of 2 has 16 CPU and 64 GiB allocatable" in error.context
    assert "largest of 1 has 3.5 CPU" in str(refused(VolumeRequest(), {"disk": "ssd"}, 4))
    api.say = lambda asked: refusal(403, DENIED)
    with api.connection(tmp_path) as connection:
        fits(connection, VolumeRequest(), {}, 400)
