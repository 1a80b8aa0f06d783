"""ZFS inventories from recorded output of OpenZFS 2.3 and zfs-fuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.inventory.zfs import (
    dataset_properties,
    version_key,
    zfs_inventory,
    zfs_parameters,
)

RECORDED = Path(__file__).parents[2] / "recorded" / "zfs"


def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


def test_openzfs() -> None:
    found = zfs_inventory(
        {
            "zpool-version.txt": b"zfs-2.3.2-2~bpo12+2\nzfs-kmod-2.3.1-1\n",
            "zpool-get.txt": recorded("zpool-get-all.txt"),
            "zpool-status.txt": recorded("zpool-status.txt"),
            "zfs-get.txt": recorded("zfs-get-Hp-all.txt"),
            "zfs-parameters.txt": b"zfs_txg_timeout 5\nzio_taskq_read fixed,1,8 null\nempty\n",
        }
    )
    assert found is not None
    assert found.unread == ()
    # What runs is the module, which need not be of the programs' version.
    assert (found.version, found.implementation) == ("2.3.1-1", "kernel")
    assert found.parameters == {
        "zfs_txg_timeout": "5",
        "zio_taskq_read": "fixed,1,8 null",
        "empty": "",
    }
    pool, dataset = found.pool, found.dataset
    assert pool is not None
    assert dataset is not None
    assert (pool.name, pool.version, pool.health, pool.ashift) == ("tank", "", "ONLINE", 12)
    assert pool.capacity_share == 0.47
    assert pool.fragmentation_share == 0.30
    assert pool.autotrim == "off"
    assert pool.layout == "2 x mirror of 2"
    assert pool.data_leaves == ("vdd", "vde", "vdf", "vdg")
    assert (dataset.name, dataset.kind, dataset.record_bytes) == ("tank/r4M", "filesystem", 4 << 20)
    assert dataset.value("sync") == "standard"
    assert dataset.value("no-such-property") == ""


def test_zfs_fuse_has_no_module_version() -> None:
    found = zfs_inventory(
        {
            "zpool-version.txt.error": b"/sys/module/zfs: No such file or directory",
            "zpool-get.txt": recorded("fuse-zpool-get-all.txt"),
            "zpool-status.txt": recorded("fuse-zpool-status.txt"),
            "zfs-get.txt": recorded("fuse-zfs-get-Hp-all.txt"),
        }
    )
    assert found is not None
    assert (found.version, found.implementation) == ("", "fuse")
    assert found.unread == ("zpool-version.txt: /sys/module/zfs: No such file or directory",)
    assert found.pool is not None
    assert found.pool.version == "23"
    assert found.pool.layout == "1 x disk, log: 1 x disk, spare: 1 x disk"
    assert found.dataset is not None
    assert found.dataset.record_bytes is not None
    assert found.dataset.value("sync") == ""


def test_vdevs_of_logs_caches_and_spares_hold_no_data() -> None:
    text = """\
  pool: tank
 state: ONLINE
config:

\tNAME          STATE     READ WRITE CKSUM
\ttank          ONLINE       0     0     0
\t  raidz2-0    ONLINE       0     0     0
\t    /dev/sda  ONLINE       0     0     0
\t    /dev/sdb  ONLINE       0     0     0
\t    /dev/sdc  ONLINE       0     0     0
\t  /dev/sdd    ONLINE       0     0     0
\tspecial
\t  mirror-2    ONLINE       0     0     0
\t    /dev/sde  ONLINE       0     0     0
\t    /dev/sdf  ONLINE       0     0     0
\tlogs
\t  /dev/sdg    ONLINE       0     0     0
\tcache
\t  /dev/sdh    ONLINE       0     0     0
\tspares
\t  /dev/sdi    AVAIL

errors: No known data errors
"""
    # As `zpool get -Hp ashift tank all-vdevs` of OpenZFS 2.2 prints it; the pool's own ashift is 0.
    of_vdevs = {
        "root-0": "0",
        "raidz2-0": "12",
        "sda": "12",
        "sdb": "12",
        "sdc": "12",
        "sdd": "9",
        "mirror-2": "12",
        "sde": "12",
        "sdf": "12",
        "sdg": "13",
        "sdi": "-",
        "sdh": "14",
    }
    rows = "".join(f"{name}\tashift\t{value}\t-\n" for name, value in of_vdevs.items())
    found = zfs_inventory({"zpool-status.txt": text.encode(), "zpool-vdevs.txt": rows.encode()})
    assert found is not None
    assert found.pool is not None
    assert found.unread == ()
    assert found.pool.ashift is None
    assert found.pool.ashifts == (9, 12, 13), "of data, special and log, not of cache and spare"
    assert found.pool.layout == (
        "1 x raidz2 of 3, 1 x disk, special: 1 x mirror of 2, log: 1 x disk, cache: 1 x disk, "
        "spare: 1 x disk"
    )
    assert found.pool.data_leaves == tuple(f"/dev/sd{letter}" for letter in "abcdef")


def test_dumps_without_zfs_have_no_inventory() -> None:
    assert zfs_inventory({}) is None
    assert zfs_inventory({"lab.json": b"{}"}) is None


def test_a_dump_that_cannot_be_parsed_is_named() -> None:
    found = zfs_inventory({"zpool-get.txt": b"nonsense", "zfs-get.txt": b""})
    assert found is not None
    assert found.pool is None
    assert found.dataset is None
    assert [one.partition(":")[0] for one in found.unread] == ["zpool-get.txt", "zfs-get.txt"]


def test_an_ashift_that_no_pool_has_is_unknown() -> None:
    rows = b"tank\tashift\t99999999999\tlocal\n"
    found = zfs_inventory({"zpool-get.txt": rows})
    assert found is not None
    assert found.pool is not None
    assert found.pool.ashifts == ()


_FILES = st.sampled_from(
    [
        "zpool-vdevs.txt",
        "zpool-version.txt",
        "zpool-get.txt",
        "zpool-status.txt",
        "zfs-get.txt",
        "zfs-parameters.txt",
    ]
)


@given(st.dictionaries(_FILES, st.binary(max_size=200), min_size=1))
def test_no_content_breaks_the_reading(dumps: dict[str, bytes]) -> None:
    assert zfs_inventory(dumps) is not None


PARAMETERS = {parameter.name: parameter for parameter in zfs_parameters()}

# --- the table of parameters ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version", "default"),
    [
        ("zfs_max_recordsize", "2.3.2-2~bpo12+2", 16 << 20),
        ("zfs_max_recordsize", "2.1.11-1", 1 << 20),
        ("zfs_max_recordsize", "", 16 << 20),
        ("zfs_vdev_aggregation_limit", "0.7.12", 128 << 10),
        ("zfs_vdev_aggregation_limit", "0.8.0", 1 << 20),
        ("zfs_vdev_aggregation_limit_non_rotating", "0.7.12", None),
        ("zfs_vdev_scrub_max_active", "2.0.3", 2),
        ("zfs_vdev_async_write_max_active", "2.2.0-rc1", 10),
        ("zfs_dirty_data_max", "2.3.2", None),
        ("zil_slog_bulk", "2.10.0", 64 << 20),
    ],
)
def test_a_default_is_that_of_its_version(name: str, version: str, default: int | None) -> None:
    assert PARAMETERS[name].default(version) == default


def test_only_a_known_default_can_be_changed() -> None:
    assert PARAMETERS["zfs_txg_timeout"].changed("30", "2.3.2")
    assert not PARAMETERS["zfs_txg_timeout"].changed("5", "2.3.2")
    assert not PARAMETERS["zfs_dirty_data_max"].changed("1", "2.3.2")
    assert not PARAMETERS["zfs_dio_enabled"].changed("0", "2.2.0")


def test_a_version_ends_before_its_packaging() -> None:
    assert version_key("2.3.2-2~bpo12+2") == (2, 3, 2)
    assert version_key("0.8.6") < version_key("2.0") < version_key("2.10.1")
    assert version_key("") == version_key("unknown") == ()


def test_each_parameter_has_a_default_or_a_formula() -> None:
    assert len({parameter.name for parameter in zfs_parameters()}) == len(zfs_parameters())
    for parameter in zfs_parameters():
        assert bool(parameter.defaults) != bool(parameter.computed), parameter.name
        assert not parameter.does.endswith("."), parameter.name
        assert parameter.evidence, parameter.name
        keys = [version_key(first) for first in parameter.defaults]
        assert keys == sorted(keys), parameter.name
        assert all(keys), parameter.name


def test_each_dataset_property_has_one_row() -> None:
    names = [item.name for item in dataset_properties()]
    assert len(set(names)) == len(names)
    assert not any(item.does.endswith(".") for item in dataset_properties())
