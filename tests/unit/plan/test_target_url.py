from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.plan.target_url import TargetKind, Transport, Vdev, parse_target_url


@pytest.mark.parametrize(
    ("url", "kind", "pool", "image"),
    [
        ("rbd:rep3", TargetKind.RBD, "rep3", ""),
        ("rbd:rep3/disk-1", TargetKind.RBD, "rep3", "disk-1"),
        ("rados:.rgw.root", TargetKind.RADOS, ".rgw.root", ""),
    ],
)
def test_a_pool_and_an_image_are_told_apart(
    url: str, kind: TargetKind, pool: str, image: str
) -> None:
    parsed = parse_target_url(url)
    assert (parsed.kind, parsed.pool, parsed.image) == (kind, pool, image)


def test_an_encrypted_image_is_reached_by_nbd() -> None:
    encrypted = parse_target_url("rbd:rep3?encryption=luks2")
    assert (encrypted.by_nbd, encrypted.encryption) == (True, "luks2")
    partner = parse_target_url("rbd:rep3?path=nbd")
    assert (partner.by_nbd, partner.encryption) == (True, "")
    assert not parse_target_url("rbd:rep3?path=librbd").by_nbd


def test_options_are_kept_and_written_again_as_they_were() -> None:
    url = "rbd:rep3?data_pool=ec-2-1&inter_zone_rtt=500us"
    parsed = parse_target_url(url)
    assert parsed.options == {"data_pool": "ec-2-1", "inter_zone_rtt": "500us"}
    assert parsed.inter_zone_rtt_s == pytest.approx(500e-6)
    assert str(parsed) == url


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("rbd:", "is not rbd:POOL or rbd:POOL/IMAGE"),
        ("rbd:a/b/c", "is not rbd:POOL or rbd:POOL/IMAGE"),
        ("rbd:-p", "is not rbd:POOL"),
        ("rbd:pool@snap", "is not rbd:POOL"),
        ("rados:a/b", "is not rados:POOL"),
        ("cephfs:", "is not cephfs:/mounted/path"),
        ("rbd:p?date_pool=x", "did you mean 'data_pool'?"),
        ("rados:p?data_pool=x", "'rados' targets have no option 'data_pool'"),
        ("rbd:p?data_pool", "needs one value"),
        ("rbd:p?data_pool=", "needs one value"),
        ("rbd:p?data_pool=a&data_pool=b", "needs one value"),
        ("rbd:p?data_pool=-x", "is no name of a pool"),
        ("rbd:p?read_policy=nearest", "default, balance or localize"),
        ("rbd:p?crush_location=zone:a", "with read_policy=localize only"),
        ("rbd:p?read_policy=localize&crush_location=a", "crush_location is TYPE:NAME"),
        ("rbd:p?read_policy=localize&crush_location=a:b;c", "crush_location is TYPE:NAME"),
        ("rbd:p?read_policy=localize&crush_location=a:" + "b" * 8191, "is TYPE:NAME"),
        ("rbd:p?inter_zone_rtt=fast", "duration"),
        ("rbd:p?hosts=a,,b", "'' is no name of a host"),
        ("rbd:p?engine=fio", "'rbd' targets have no option 'engine'"),
        ("rados:p?engine=librados", "engine is rados-bench or fio, got 'librados'"),
        ("rados:p?engine=rados-bench&hosts=a", "omit engine or hosts"),
        ("rbd:p?hosts=a,a", "the host 'a' is named twice"),
        ("rbd:p?hosts=-oProxyCommand", "is no name of a host"),
        ("rbd:p?hosts=a&shared=yes", "omit hosts or shared"),
        ("rbd:p?hosts=a&read_policy=localize", "for one client"),
        ("rbd:p?encryption=aes", "encryption is luks1 or luks2"),
        ("rbd:p?encryption=luks2&path=librbd", "omit path=librbd"),
        ("rbd:p?encryption=luks2&hosts=a", "omit shared, hosts"),
        ("rbd:p?path=nbd&shared=yes", "omit shared, hosts"),
        ("rbd:p/mine?encryption=luks2", "for a new image"),
    ],
)
def test_what_is_no_target_is_refused_with_a_sentence(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_target_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "rbd:-p",
        "rbd:p/-image",
        "rbd:p/a\x01b",
        "rbd:..",
        "rados:-p",
        "rados:.",
        "zfs:-tank",
        "zfs:tank/../x",
        "zvol:-tank",
        "zfs+rbd:-p",
        "zfs+rbd:p?log=-q/64M",
        "ext4+rbd:p?data_pool=..",
        "cephfs:-folder",
        "cephfs:folder/../../etc",
        "cephfs:..",
        "storageclass:-fast",
        "storageclass:fast?node=-n",
        "zfs:tank?receive_on=h:-tank",
    ],
)
def test_no_name_is_an_option_or_leads_out_of_its_folder(url: str) -> None:
    with pytest.raises(ValueError, match=r"is not|is no name|is SIZE or"):
        parse_target_url(url)


@pytest.mark.parametrize("name", [".rgw.root", ".mgr", "a..b", "...x"])
def test_names_may_begin_with_a_dot(name: str) -> None:
    assert parse_target_url(f"rados:{name}").pool == name


def test_a_path_may_hold_a_question_mark_where_there_are_no_options() -> None:
    assert parse_target_url("dir:/what?/now").location == "/what?/now"
    assert parse_target_url("cephfs:/mnt/x?inter_zone_rtt=1ms").location == "/mnt/x"


@given(st.text(max_size=40))
def test_any_text_gives_a_target_that_is_written_as_it_is_read_or_a_sentence(text: str) -> None:
    for scheme in TargetKind:
        with suppress(ValueError):
            parsed = parse_target_url(f"{scheme.value}:{text}")
            assert parse_target_url(str(parsed)) == parsed


def test_hosts_and_their_path_are_told_apart() -> None:
    parsed = parse_target_url("hosts:a,me@b.lan,[fd00::1],root@[fe80::1%eth0]:/mnt/x y:/z?")
    assert parsed.kind is TargetKind.HOSTS
    assert parsed.hosts == ("a", "me@b.lan", "[fd00::1]", "root@[fe80::1%eth0]")
    assert parsed.path_on_hosts == "/mnt/x y:/z?"
    assert parse_target_url("rbd:p?hosts=a,me@[fd00::1]").hosts == ("a", "me@[fd00::1]")
    assert parse_target_url("rbd:p").hosts == ()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("hosts:a,b", "is not hosts:NAME,NAME:/path"),
        ("hosts:a,b:data", "is not hosts:NAME,NAME:/path"),
        ("hosts::/data", "'' is no name of a host"),
        ("hosts:a,,b:/data", "'' is no name of a host"),
        ("hosts:-oProxyCommand=x:/data", "is no name of a host"),
        ("hosts:-a@b:/data", "is no name of a host"),
        ("hosts:a@-b:/data", "is no name of a host"),
        ("hosts:$(x):/data", "is no name of a host"),
        ("hosts:a b:/data", "is no name of a host"),
        ("hosts:a\\ä:/data", "is no name of a host"),
        ("hosts:fd00::1:/data", "is no name of a host"),
        ("hosts:a:22:/data", "is no name of a host"),
        ("hosts:a,b,A:/data", "the host 'a' is named twice"),
        ("hosts:a,me@a:/data", "the host 'a' is named twice"),
    ],
)
def test_what_ssh_could_misread_is_no_host(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_target_url(url)


def test_a_volume_has_blocks_and_the_options_of_a_dataset() -> None:
    url = parse_target_url("zvol:tank/vms?volblocksize=16K&sync=always&compression=lz4")
    assert (url.kind, url.pool, url.location) == (TargetKind.ZVOL, "tank", "tank/vms")
    assert not url.kind.in_files
    assert url.record_bytes == 16384
    assert url.dataset_properties == {
        "volblocksize": "16384",
        "sync": "always",
        "compression": "lz4",
    }


def test_a_pool_on_an_image_has_a_block_size_and_further_vdevs() -> None:
    url = parse_target_url("zfs+rbd:slow?ashift=9&log=fast/1G&cache=64M&recordsize=8K")
    assert url.zpool_options == {"ashift": "9", "log": "fast/1G", "cache": "64M"}
    assert url.vdevs == (
        Vdev(vdev_class="log", pool="fast", size=1 << 30),
        Vdev(vdev_class="cache", pool="slow", size=64 << 20),
    )
    assert url.dataset_properties == {"recordsize": "8192"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("ashift=8", "ashift is a number from 9 to 16, got '8'"),
        ("ashift=big", "ashift is a number from 9 to 16"),
        ("log=1M", "log needs 64M at least"),
        ("log=a/b/1G", "log is SIZE or POOL/SIZE"),
        ("special=fast", "'fast' is not a size"),
        ("dedup=1G", "have no option 'dedup'"),
    ],
)
def test_what_a_pool_on_an_image_cannot_have_is_refused(options: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_target_url(f"zfs+rbd:rep3?{options}")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("zvol:", "is not zvol:POOL or zvol:POOL/DATASET"),
        ("zvol:tank?volblocksize=12K", "volblocksize is a power of two"),
        ("zvol:tank?recordsize=8K", "have no option 'recordsize'"),
        ("zfs:tank?volblocksize=8K", "have no option 'volblocksize'"),
    ],
)
def test_what_is_no_volume_is_refused(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_target_url(url)


def test_streams_are_received_on_another_host() -> None:
    url = parse_target_url(
        "zfs:tank?recordsize=1M&receive_on=me@[fd00::1]:backup/a:b&via=tcp&port=9090&buffer=128M"
    )
    wanted = url.receive_on
    assert wanted is not None
    assert (wanted.host, wanted.dataset) == ("me@[fd00::1]", "backup/a:b")
    assert (wanted.via, wanted.port, wanted.buffer_bytes) == (Transport.TCP, 9090, 128 << 20)
    assert str(wanted) == "me@[fd00::1]:backup/a:b"
    assert url.dataset_properties == {"recordsize": "1048576"}
    plain = parse_target_url("zfs:tank?receive_on=b:pool").receive_on
    assert plain is not None
    assert (plain.via, plain.port, plain.buffer_bytes) == (Transport.SSH, 0, 16 << 20)
    assert parse_target_url("zfs:tank").receive_on is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("receive_on=b", "is not HOST:POOL"),
        ("receive_on=b:", "is not HOST:POOL"),
        ("receive_on=b:/path", "is not HOST:POOL"),
        ("receive_on=b:po ol", "is not HOST:POOL"),
        ("receive_on=-oProxyCommand=x:pool", "is no name of a host"),
        ("receive_on=:pool", "is no name of a host"),
        ("via=tcp", "add receive_on=HOST:POOL"),
        ("buffer=1M", "add receive_on=HOST:POOL"),
        ("receive_on=b:pool&via=rsh", "via is ssh or tcp"),
        ("receive_on=b:pool&port=9090", "with via=tcp only"),
        ("receive_on=b:pool&via=tcp&port=70000", "port is a number from 1 to 65535"),
        ("receive_on=b:pool&via=tcp&port=0", "port is a number from 1 to 65535"),
        ("receive_on=b:pool&buffer=1K", "buffer is a size from 64K to 4G"),
        ("receive_on=b:pool&buffer=8G", "buffer is a size from 64K to 4G"),
    ],
)
def test_what_cannot_receive_streams_is_refused(options: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_target_url(f"zfs:tank?{options}")


@pytest.mark.parametrize(
    ("url", "by_fio"),
    [
        ("rados:p", False),
        ("rados:p?engine=rados-bench", False),
        ("rados:p?engine=fio", True),
        ("rados:p?hosts=a,b", True),
        ("rbd:p?hosts=a,b", False),
        ("hosts:a,b:/x", False),
    ],
)
def test_fio_does_the_io_on_objects_where_the_target_asks_for_it(url: str, by_fio: bool) -> None:
    assert parse_target_url(url).fio_objects is by_fio
