"""Differences of what lies below two targets, and what each can account for."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from leadline.analysis.explain.effects import find_effects
from leadline.formats.zfs.status import Property, VdevGroup, VdevStatus
from leadline.inventory.diff import Below, Differing, layer_differences, zfs_differences
from leadline.inventory.layer import Layer, LayerKind
from leadline.inventory.zfs import (
    ZfsDataset,
    ZfsInventory,
    ZfsPool,
    dataset_properties,
    zfs_parameters,
)
from leadline.metrics import Op


def _layer(kind: LayerKind, name: str = "x", **facts: str) -> Layer:
    return Layer(kind=kind, name=name, facts=facts)


def on_rbd(object_size: int = 4 << 20) -> tuple[Layer, ...]:
    return (
        _layer(LayerKind.ZFS, "p/d", implementation="fuse"),
        _layer(LayerKind.BLOCK, "loop1", type="loop", direct_io="no"),
        _layer(LayerKind.FUSE, "/lab/rbdf", program="rbd-fuse"),
        _layer(LayerKind.IMAGE, "rep2/a", client="rbd-fuse", object_size_bytes=str(object_size)),
        _layer(LayerKind.POOL, "rep2"),
    )


def zfs(**properties: str) -> ZfsInventory:
    told = {"recordsize": "131072", "compression": "off", "sync": "standard"} | properties
    return ZfsInventory(
        version="2.3.2",
        implementation="kernel",
        pool=ZfsPool(name="p", health="ONLINE", ashift=12, capacity_share=0.2),
        dataset=ZfsDataset(
            name="p/d",
            kind="filesystem",
            properties={key: Property(value=value, source="local") for key, value in told.items()},
        ),
        parameters=MappingProxyType({"zfs_txg_timeout": "5", "zfs_dirty_data_max": "1000000"}),
    )


def below(layers: tuple[Layer, ...] = (), inventory: ZfsInventory | None = None) -> Below:
    return Below(layers=layers or on_rbd(), zfs=inventory)


def told(found: Differing) -> dict[str, tuple[str, str]]:
    return {one.path: (one.baseline, one.candidate) for one in found.differences}


def test_the_same_layers_do_not_differ_whatever_they_are_called() -> None:
    other = tuple(layer.model_copy(update={"name": "other"}) for layer in on_rbd())
    found = layer_differences({"t": (below(), below(other))})
    assert found.differences == ()
    assert (
        "layers: zfs-fuse on loop on rbd-fuse on RBD image (rbd-fuse) on Ceph pool"
        in found.identical
    )
    assert "object size 4 MiB" in found.identical


def test_another_way_down_is_told_as_a_whole() -> None:
    disk = (
        _layer(LayerKind.FILESYSTEM, "ext4"),
        _layer(
            LayerKind.BLOCK, "nvme0n1", type="nvme", transport="tcp", queues="2", direct_io="no"
        ),
    )
    found = told(layer_differences({"t": (below(), below(disk))}))
    assert found == {
        "stacks.t.way": (
            "zfs-fuse on loop on rbd-fuse on RBD image (rbd-fuse) on Ceph pool",
            "ext4 on NVMe over tcp",
        )
    }


def test_an_image_with_other_objects() -> None:
    found = layer_differences({"t": (below(), below(on_rbd(1 << 20)))})
    assert told(found) == {"images.t.object_size": ("4 MiB", "1 MiB")}
    (effect,) = find_effects(found.differences[0])
    assert not effect.weak
    assert "object" in effect.mechanism


def test_nvme_by_transport_and_queues() -> None:
    def nvme(transport: str, queues: str) -> tuple[Layer, ...]:
        facts = {"type": "nvme", "transport": transport, "queues": queues}
        return (Layer(kind=LayerKind.BLOCK, name="nvme0n1", facts=facts),)

    found = layer_differences({"t": (below(nvme("pcie", "8")), below(nvme("tcp", "2")))})
    assert told(found) == {
        "stacks.t.way": ("NVMe", "NVMe over tcp"),
        "blocks.t.transport": ("pcie", "tcp"),
        "blocks.t.queues": ("8", "2"),
    }
    assert all(find_effects(one) for one in found.differences)


@pytest.mark.parametrize(
    ("name", "ours", "theirs", "shown"),
    [
        ("recordsize", "8192", "1048576", ("8 KiB", "1 MiB")),
        ("sync", "standard", "disabled", ("standard", "disabled")),
        ("compression", "off", "lz4", ("off", "lz4")),
        ("logbias", "latency", "throughput", ("latency", "throughput")),
        ("primarycache", "all", "metadata", ("all", "metadata")),
    ],
)
def test_a_property_of_the_dataset(
    name: str, ours: str, theirs: str, shown: tuple[str, str]
) -> None:
    pair = below(inventory=zfs(**{name: ours})), below(inventory=zfs(**{name: theirs}))
    found = zfs_differences({"t": pair})
    assert told(found) == {f"datasets.t.{name}": shown}
    (effect,) = find_effects(found.differences[0])
    assert not effect.weak
    assert (Op.READ in effect.ops) is (name not in ("sync", "logbias"))


def test_the_same_difference_of_all_targets_is_told_once() -> None:
    pair = below(inventory=zfs(recordsize="8192")), below(inventory=zfs(recordsize="131072"))
    found = zfs_differences({"one": pair, "two": pair})
    assert told(found) == {"datasets.*.recordsize": ("8 KiB", "128 KiB")}
    assert found.differences[0].target == ""
    assert find_effects(found.differences[0])


def test_targets_that_are_alike_do_not_hide_one_that_is_not() -> None:
    same = below(inventory=zfs()), below(inventory=zfs())
    other = below(inventory=zfs()), below(inventory=zfs(recordsize="8192"))
    found = zfs_differences({"same": same, "other": other})
    assert told(found) == {"datasets.other.recordsize": ("128 KiB", "8 KiB")}
    assert found.differences[0].target == "other"


def test_parameters_of_the_module() -> None:
    changed = replace(
        zfs(),
        parameters=MappingProxyType({"zfs_txg_timeout": "30", "zfs_dirty_data_max": "1010000"}),
    )
    found = zfs_differences({"t": (below(inventory=zfs()), below(inventory=changed))})
    # What is made of the memory is never quite the same.
    assert told(found) == {"zfs.parameters.zfs_txg_timeout": ("5 s", "30 s")}
    (effect,) = find_effects(found.differences[0])
    assert effect.label == "zfs_txg_timeout"
    assert effect.ops == frozenset({Op.WRITE, Op.TRIM, Op.TOTAL})


def test_a_pool_that_is_full_and_lacks_a_disk() -> None:
    full = replace(zfs(), pool=ZfsPool(name="q", health="DEGRADED", ashift=9, capacity_share=0.91))
    found = zfs_differences({"t": (below(inventory=zfs()), below(inventory=full))})
    assert told(found) == {
        "zpools.t.ashift": ("12", "9"),
        "zpools.t.health": ("ONLINE", "DEGRADED"),
        "zpools.t.fill": ("below 50 %", "from 90 % on"),
    }
    assert all(find_effects(one) for one in found.differences)


def vdevs(*groups: VdevGroup) -> tuple[VdevStatus, ...]:
    """A pool with a disk in each group."""
    rows = (("p", 0, VdevGroup.DATA), *((f"sd{group}", 1, group) for group in groups))
    return tuple(
        VdevStatus(name=name, state="ONLINE", depth=depth, group=group, note="")
        for name, depth, group in rows
    )


@pytest.mark.parametrize(
    ("group", "ops"),
    [
        (VdevGroup.LOG, {Op.WRITE, Op.TRIM, Op.TOTAL}),
        (VdevGroup.CACHE, {Op.READ, Op.TOTAL}),
        (VdevGroup.SPECIAL, set(Op)),
        (VdevGroup.DEDUP, {Op.WRITE, Op.TRIM, Op.TOTAL}),
    ],
)
def test_a_log_a_cache_and_special_vdevs_differ_by_themselves(
    group: VdevGroup, ops: set[Op]
) -> None:
    plain = replace(zfs(), pool=ZfsPool(name="p", vdevs=vdevs(VdevGroup.DATA)))
    more = replace(zfs(), pool=ZfsPool(name="p", vdevs=vdevs(VdevGroup.DATA, group)))
    found = zfs_differences({"t": (below(inventory=plain), below(inventory=more))})
    assert told(found) == {f"zpools.t.{group.value}": ("none", "1 x disk")}
    (effect,) = find_effects(found.differences[0])
    assert effect.ops == ops
    assert not effect.weak


def test_vdevs_with_other_blocks_than_the_pool_asks_for() -> None:
    mixed = replace(zfs(), pool=ZfsPool(name="p", ashift=12, vdev_ashifts=(9, 12)))
    found = zfs_differences({"t": (below(inventory=zfs()), below(inventory=mixed))})
    assert told(found)["zpools.t.ashift"] == ("12", "9, 12")


def test_without_zfs_on_one_side_its_properties_are_not_compared() -> None:
    assert zfs_differences({"t": (below(inventory=zfs()), below())}).differences == ()


def test_every_property_and_parameter_has_an_effect() -> None:
    from leadline.analysis.explain.effects import load_effects

    patterns = {one.pattern for one in load_effects()}
    assert {f"datasets.*.{one.name}" for one in dataset_properties()} <= patterns
    assert {f"zfs.parameters.{one.name}" for one in zfs_parameters()} <= patterns
