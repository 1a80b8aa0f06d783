"""Which watches the layers of a stack call for."""

from __future__ import annotations

from pathlib import Path

from leadline.inventory.layer import Layer, LayerKind
from leadline.probes.watches.block import BlockWatch
from leadline.probes.watches.ceph import ImageWatch
from leadline.probes.watches.mounts import MountWatch
from leadline.probes.watches.selection import select_watches
from leadline.probes.watches.zfs import ZfsWatch


def kinds(folder: Path, *layers: Layer) -> list[type]:
    return [type(watch) for watch in select_watches(layers, folder)]


def test_zfs_on_an_image_that_is_a_file_of_fuse(tmp_path: Path) -> None:
    stack = (
        Layer(kind=LayerKind.ZFS, name="tank/a", devices=("loop1",), facts={"pool": "tank"}),
        Layer(kind=LayerKind.BLOCK, name="loop1", devices=("loop1",)),
        Layer(kind=LayerKind.FUSE, name="/images", facts={"connection": "44"}),
        Layer(kind=LayerKind.IMAGE, name="rbd/a", facts={"admin_socket": "/run/a.asok"}),
        Layer(kind=LayerKind.POOL, name="rbd"),
    )
    assert kinds(tmp_path, *stack) == [BlockWatch, MountWatch, ZfsWatch, ImageWatch]


def test_what_cannot_be_seen_has_no_watch(tmp_path: Path) -> None:
    assert kinds(tmp_path) == []
    assert kinds(tmp_path, Layer(kind=LayerKind.FILESYSTEM, name="tmpfs")) == []
    assert (
        kinds(
            tmp_path,
            Layer(kind=LayerKind.IMAGE, name="rbd/a"),
            Layer(kind=LayerKind.POOL, name="rbd"),
        )
        == []
    )
    assert kinds(tmp_path, Layer(kind=LayerKind.FUSE, name="/m", facts={"connection": "x"})) == []


def test_nothing_is_begun(tmp_path: Path) -> None:
    select_watches([Layer(kind=LayerKind.NFS, name="/mnt")], tmp_path)
    assert not list(tmp_path.iterdir())
