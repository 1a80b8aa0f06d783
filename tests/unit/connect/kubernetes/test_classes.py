from __future__ import annotations

from pathlib import Path

import pytest
from lightkube.resources.storage_v1 import StorageClass

from leadline.connect.kubernetes.survey import FOLDERS_ONLY, find_class, keeps_volumes, mode_for
from leadline.errors import LeadlineError
from leadline.plan.target_url import VolumeMode
from tests.unit.connect.kubernetes.api_double import (
    Answer,
    ApiDouble,
    Asked,
    json_of,
    listing,
    refusal,
)


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


def test_a_class_that_is_not_there_is_told_with_the_nearest(api: ApiDouble, tmp_path: Path) -> None:
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
