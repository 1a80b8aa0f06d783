"""The dumps of a dataset, asked of programs that stand in for those of ZFS."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.connect import programs as admin_programs
from leadline.inventory.layer import Layer, LayerKind
from leadline.probes import zfs
from leadline.probes.zfs import dumps_of, leaf_vdevs, zfs_dumps, zfs_layer

RECORDED = Path(__file__).parents[2] / "recorded" / "zfs"
# OpenZFS knows all options, zfs-fuse neither -p nor -P.
_OPENZFS = """#!/bin/sh
case "$*" in
"get -Hp all tank") cat {recorded}/zpool-get-all.txt ;;
"status -P tank") cat {recorded}/zpool-status.txt ;;
"get -Hp ashift tank all-vdevs") printf 'mirror-0\\tashift\\t12\\t-\\n' ;;
"list -v -p tank") cat {recorded}/zpool-list-v.txt ;;
"get -Hp all tank/r4M") cat {recorded}/zfs-get-Hp-all.txt ;;
*) echo "cannot open '$3'" >&2; exit 1 ;;
esac
"""
_FUSE = """#!/bin/sh
case "$*" in
"get all tank") cat {recorded}/fuse-zpool-get-all.txt ;;
"status tank") cat {recorded}/fuse-zpool-status.txt ;;
"list tank") cat {recorded}/fuse-zpool-list.txt ;;
"get -Hp all tank/r4M") cat {recorded}/fuse-zfs-get-Hp-all.txt ;;
*) echo "invalid option" >&2; exit 2 ;;
esac
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    folder = tmp_path / "module"
    (folder / "parameters").mkdir(parents=True)
    (folder / "version").write_text("2.3.2-2\n")
    (folder / "parameters/zfs_txg_timeout").write_text("5\n")
    (folder / "parameters/zfs_vdev_raidz_impl").write_text("cycle [fastest] scalar \n")
    return folder


def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("zpool", "zfs"):
        (folder / name).write_text(script.format(recorded=RECORDED))
        (folder / name).chmod(0o755)
    monkeypatch.setattr(admin_programs, "_SEARCHED", str(folder))


def test_all_dumps_of_openzfs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Path
) -> None:
    programs(tmp_path, monkeypatch, _OPENZFS)
    dumps = zfs_dumps("tank/r4M", module)
    assert set(dumps) == {
        "zpool-version.txt",
        "zpool-get.txt",
        "zpool-status.txt",
        "zpool-vdevs.txt",
        "zpool-list.txt",
        "zfs-get.txt",
        "zfs-parameters.txt",
    }
    assert dumps["zpool-version.txt"] == b"zfs-kmod-2.3.2-2\n"
    lines = dumps["zfs-parameters.txt"].splitlines()
    assert lines == [b"zfs_txg_timeout 5", b"zfs_vdev_raidz_impl cycle [fastest] scalar"]
    layer = zfs_layer("tank/r4M", dumps, ["vdd"])
    assert layer.facts["recordsize_bytes"] == str(4 << 20)
    assert layer.facts["version"] == "2.3.2-2"
    assert layer.facts["implementation"] == "kernel"
    assert layer.facts["ashift"] == "12"


def test_zfs_fuse_is_asked_the_old_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, monkeypatch, _FUSE)
    dumps = zfs_dumps("tank/r4M", tmp_path / "none")
    assert b"PROPERTY" in dumps["zpool-get.txt"]
    assert "zfs-parameters.txt.error" in dumps
    assert not any(name.startswith("zpool-vdevs") for name in dumps), "before OpenZFS 2.2"
    assert leaf_vdevs(dumps) == ("/tmp/w/B/z/disk",)
    layer = zfs_layer("tank/r4M", dumps, [])
    assert layer.facts["implementation"] == "fuse"
    assert layer.facts["pool_version"] == "23"
    assert "sync" not in layer.facts


def test_without_programs_the_reasons_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_programs, "_SEARCHED", str(tmp_path))
    dumps = zfs_dumps("tank", tmp_path / "none")
    assert all(name.endswith(".error") for name in dumps)
    assert dumps["zfs-get.txt.error"] == b"there is no 'zfs' on this machine"
    assert leaf_vdevs(dumps) == ()
    assert zfs_layer("tank", dumps, []).facts["pool"] == "tank"


def test_a_pool_that_does_not_answer_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path, monkeypatch, "#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(zfs, "_PATIENCE_S", 0.3)
    run, asked = admin_programs.run, []

    def counted(*command: str, bound_s: float) -> tuple[int | None, str, str]:
        asked.append(command)
        return run(*command, bound_s=bound_s)

    monkeypatch.setattr(admin_programs, "run", counted)
    dumps = zfs_dumps("tank", tmp_path / "none")
    assert len(asked) == 1
    assert b"gives no answer within 0.3 s" in dumps["zfs-get.txt.error"]


def test_only_layers_with_a_dataset_are_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(zfs, "zfs_dumps", lambda name: asked.append(name) or {})
    block = Layer(kind=LayerKind.BLOCK, name="vda", devices=("vda",))
    assert dumps_of([block]) == {}
    assert asked == []
    dumps_of([Layer(kind=LayerKind.ZFS, name="tank/x"), block])
    assert asked == ["tank/x"]
