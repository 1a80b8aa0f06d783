"""Target URLs of a plan.

Targets are `dir:/path`, `device:/dev/x`, `rbd:POOL[/IMAGE]`, `rados:POOL`, `cephfs:/mounted/path`,
`zfs:POOL[/DATASET]`, `zvol:POOL[/DATASET]`, `storageclass:NAME`, `hosts:a,b:/path`, and
`zfs+rbd:POOL` and `ext4+rbd:POOL` for new file systems on an RBD image. ZFS and targets on a
cluster have options:
`zfs:tank?recordsize=1M`, `zfs:tank?receive_on=HOST:POOL`, `rbd:POOL?data_pool=EC`,
`rbd:POOL?hosts=a,b`, `rados:POOL?engine=fio`, `storageclass:fast?size=20Gi&count=3`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from leadline.plan.volume_request import (
    CHOICES,
    OBJECT_NAME,
    OPTIONS,
    VolumeRequest,
    volume_request,
)
from leadline.units import parse_duration, parse_size


class Transport(StrEnum):
    """What carries a ZFS stream to another host: a connection of ssh, or one of TCP."""

    SSH = "ssh"
    TCP = "tcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveOn:
    """Where and how streams are received on another host: in `dataset` there, a pool or a dataset.
    `port` is the first of those that TCP uses, 0 for free ones; `buffer_bytes` the size of the
    buffer on each side."""

    host: str
    dataset: str
    via: Transport
    port: int
    buffer_bytes: int

    def __str__(self) -> str:
        return f"{self.host}:{self.dataset}"


class TargetKind(StrEnum):
    """Kinds of target that this version can drive."""

    DIR = "dir"
    DEVICE = "device"
    RBD = "rbd"
    RADOS = "rados"
    CEPHFS = "cephfs"
    ZFS = "zfs"
    ZVOL = "zvol"
    ZFS_ON_RBD = "zfs+rbd"
    EXT4_ON_RBD = "ext4+rbd"
    STORAGE_CLASS = "storageclass"
    HOSTS = "hosts"

    @property
    def on_ceph(self) -> bool:
        of_ceph = (TargetKind.RBD, TargetKind.RADOS, TargetKind.CEPHFS)
        return self in of_ceph or self.on_shared_image

    @property
    def on_shared_image(self) -> bool:
        """On a stretch of the shared image of a Ceph pool."""
        return self in (TargetKind.ZFS_ON_RBD, TargetKind.EXT4_ON_RBD)

    @property
    def on_zfs(self) -> bool:
        return self in (TargetKind.ZFS, TargetKind.ZVOL, TargetKind.ZFS_ON_RBD)

    @property
    def on_kubernetes(self) -> bool:
        return self is TargetKind.STORAGE_CLASS

    @property
    def in_files(self) -> bool:
        own = (TargetKind.DIR, TargetKind.CEPHFS, TargetKind.HOSTS, TargetKind.ZFS)
        return self in own or self.on_shared_image

    @property
    def on_cluster(self) -> bool:
        return self.on_ceph or self.on_kubernetes


# The layout of a new RBD image; `stripe` is COUNTxUNIT: the objects of a stripe, and its unit.
IMAGE_LAYOUT = ("object_size", "stripe", "features")
# Between fio and a new image: librbd in fio, or a server of NBD (qemu-nbd) with librbd, which can
# load an encrypted image.
_BY_NBD = "nbd"
_IMAGE_PATH = ("path", "encryption")
# Properties of a dataset and of a volume that a target may set; it inherits all others.
_OF_BOTH = ("compression", "sync", "logbias", "primarycache")
VOLUME_BLOCK = "volblocksize"
DATASET_PROPERTIES = ("recordsize", *_OF_BOTH)
VOLUME_PROPERTIES = (VOLUME_BLOCK, *_OF_BOTH)
# How a pool on an image is made: the exponent of its block size, and vdevs on further images, as
# `zpool create` names their classes.
VDEV_CLASSES = ("log", "cache", "special")
ZPOOL_OPTIONS = ("ashift", *VDEV_CLASSES)
# zpoolprops(7), and SPA_MINDEVSIZE of the source.
_ASHIFT = range(9, 17)
_LEAST_VDEV = 64 << 20
RECEIVE_ON = "receive_on"
# The options of a stream to another host.
_OF_STREAMS = (RECEIVE_ON, "via", "port", "buffer")
# The buffer between a sender and a receiver, on each side.
BUFFER_BYTES = 16 << 20
_LEAST_BUFFER, _MOST_BUFFER = 64 << 10, 4 << 30
# A lab's delay is an option of the target, since it is a condition of each trial.
_OPTIONS: Mapping[TargetKind, tuple[str, ...]] = {
    TargetKind.RBD: (
        *("data_pool", "read_policy", "crush_location", *IMAGE_LAYOUT, *_IMAGE_PATH),
        *("shared", "hosts", "inter_zone_rtt"),
    ),
    TargetKind.ZFS: (*DATASET_PROPERTIES, *_OF_STREAMS),
    TargetKind.ZVOL: VOLUME_PROPERTIES,
    TargetKind.ZFS_ON_RBD: (
        *(*DATASET_PROPERTIES, *ZPOOL_OPTIONS),
        *("data_pool", "inter_zone_rtt"),
    ),
    TargetKind.EXT4_ON_RBD: ("data_pool", "inter_zone_rtt"),
    TargetKind.RADOS: ("engine", "hosts", "inter_zone_rtt"),
    TargetKind.CEPHFS: ("inter_zone_rtt",),
    TargetKind.STORAGE_CLASS: OPTIONS,
}
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "read_policy": ("default", "balance", "localize"),
    "features": ("layering", "virtualization"),
    "shared": ("yes", "no"),
    "engine": ("rados-bench", "fio"),
    "path": ("librbd", _BY_NBD),
    "encryption": ("luks1", "luks2"),
    "sync": ("standard", "always", "disabled"),
    "logbias": ("latency", "throughput"),
    "primarycache": ("all", "metadata", "none"),
    "via": tuple(Transport),
    **CHOICES,
}
_COUNT = re.compile(r"0*[1-9][0-9]{0,3}")
# What Ceph and the command lines of its tools both take as a name; `.` and `..` are folders.
_CEPH_NAME = re.compile(
    r"(?!\.{1,2}(?:/|$))[^\s/@?&%#,=:\x00-\x1f\x7f-][^\s/@?&%#,=:\x00-\x1f\x7f]*"
)
# Levels of a CRUSH map, `zone:a|rack:b`. They become a line of a configuration and of a job file.
_CRUSH_LEVEL = r"[A-Za-z0-9_.-]{1,60}[:=][A-Za-z0-9_.-]{1,60}"
_CRUSH_LOCATION = re.compile(rf"{_CRUSH_LEVEL}(?:[|,]{_CRUSH_LEVEL}){{0,9}}")
# zfs(8) and zpool(8), without the blanks that they would take; a pool begins with a letter.
_DATASET_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*(?:/[A-Za-z0-9_.:-]+)*")
_LONGEST_DATASET = 150
_PORT, _MOST_PORT = re.compile(r"[1-9][0-9]{0,4}"), 65_535
# zfsprops(7); the pool itself decides which of them it supports.
_COMPRESSION = re.compile(
    r"on|off|lzjb|zle|lz4|gzip(-[1-9])?|zstd(-([1-9]|1[0-9]))?|zstd-fast(-[1-9]\d{0,3})?"
)
# A name that ssh may be given: a leading dash would be an option, and what a shell takes for more
# than a name could come to one by the user's ProxyCommand.
_HOST = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.+-]*@)?"
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?\])"
)
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Vdev:
    """A vdev of a class of its own: the Ceph pool of its image and its bytes."""

    vdev_class: str
    pool: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetUrl:
    """The parts of a target. `location` is a path, `POOL` or `POOL/IMAGE`, a StorageClass, or
    `HOST,HOST:/path`."""

    kind: TargetKind
    location: str
    options: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    def __str__(self) -> str:
        query = "&".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.kind.value}:{self.location}" + (f"?{query}" if query else "")

    def with_options(self, more: Mapping[str, str]) -> TargetUrl:
        """The same with more options. Raises ValueError for one that the kind does not have, that
        the target has already, or that has another fault."""
        for key in more:
            if key in self.options:
                raise ValueError(f"the target has the option {key!r} of its own")
        if more and self.kind not in _OPTIONS:
            raise ValueError(f"{self.kind.value!r} targets have no option {next(iter(more))!r}")
        options = {**self.options, **more}
        return parse_target_url(str(replace(self, options=options)))

    @property
    def pool(self) -> str:
        return self.location.partition("/")[0]

    @property
    def image(self) -> str:
        """The image that the user named; empty where Leadline makes a new one."""
        return self.location.partition("/")[2]

    @property
    def by_nbd(self) -> bool:
        """Whether fio reaches the image by NBD; an encrypted image always."""
        return self.options.get("path") == _BY_NBD or bool(self.encryption)

    @property
    def encryption(self) -> str:
        """The encryption of a new image, `luks1` or `luks2`; empty without."""
        return self.options.get("encryption", "")

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts as they were written: `name`, `user@name`, `[IPv6]`; none where this machine
        makes the load."""
        if self.kind is TargetKind.HOSTS:
            return tuple(self.location.partition(":/")[0].split(","))
        return tuple(self.options["hosts"].split(",")) if "hosts" in self.options else ()

    @property
    def fio_objects(self) -> bool:
        """Whether fio's rados engine does the I/O of a `rados:` target, and not `rados bench`, one
        process on this machine."""
        on_hosts = bool(self.hosts) and self.kind is TargetKind.RADOS
        return self.options.get("engine") == "fio" or on_hosts

    @property
    def path_on_hosts(self) -> str:
        return "/" + self.location.partition(":/")[2]

    @property
    def request(self) -> VolumeRequest:
        """What is asked of a StorageClass."""
        return volume_request(self.options)

    @property
    def record_bytes(self) -> int | None:
        """The record size that a ZFS target asks for, or the block size of its volume; None where
        it gets the default."""
        given = self.options.get("recordsize") or self.options.get(VOLUME_BLOCK)
        return None if given is None else parse_size(given)

    @property
    def dataset_properties(self) -> Mapping[str, str]:
        """What is to be set on the target's dataset or volume, as `zfs create -o` takes it."""
        known = VOLUME_PROPERTIES if self.kind is TargetKind.ZVOL else DATASET_PROPERTIES
        set_ = {key: self.options[key] for key in known if key in self.options}
        if self.record_bytes is not None:
            set_[known[0]] = str(self.record_bytes)
        return set_

    @property
    def zpool_options(self) -> Mapping[str, str]:
        """How the pool on an image is to be made, as written."""
        return {key: self.options[key] for key in ZPOOL_OPTIONS if key in self.options}

    @property
    def vdevs(self) -> tuple[Vdev, ...]:
        """The vdevs on images of their own, by default in the Ceph pool of the image."""
        return tuple(
            _parse_vdev(key, text, self.pool)
            for key, text in self.zpool_options.items()
            if key in VDEV_CLASSES
        )

    @property
    def receive_on(self) -> ReceiveOn | None:
        """The other host that receives streams; None where they stay in the pool."""
        if RECEIVE_ON not in self.options:
            return None
        host, dataset = split_host(self.options[RECEIVE_ON])
        return ReceiveOn(
            host=host,
            dataset=dataset,
            via=Transport(self.options.get("via", Transport.SSH)),
            port=int(self.options.get("port", "0")),
            buffer_bytes=parse_size(self.options.get("buffer", str(BUFFER_BYTES))),
        )

    @property
    def image_layout(self) -> Mapping[str, str]:
        """The layout of a new image, as options of `rbd create` in bytes."""
        found: dict[str, str] = {}
        if "object_size" in self.options:
            found["--object-size"] = f"{parse_size(self.options['object_size'])}B"
        if "stripe" in self.options:
            count, _, unit = self.options["stripe"].partition("x")
            found |= {"--stripe-count": count, "--stripe-unit": f"{parse_size(unit)}B"}
        return found

    @property
    def inter_zone_rtt_s(self) -> float | None:
        given = self.options.get("inter_zone_rtt")
        return None if given is None else parse_duration(given)


def parse_target_url(url: str) -> TargetUrl:
    """The parts of a target URL. Raises ValueError with a sentence for the user."""
    scheme, colon, location = url.partition(":")
    known = [kind.value for kind in TargetKind]
    if not colon:
        guess = "device:" if url.startswith("/dev/") else "dir:"
        raise ValueError(f"{url!r} is not a target; did you mean {guess + url!r}?")
    if scheme not in known:
        near = difflib.get_close_matches(scheme, known, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown kind of target {scheme!r} (known: {', '.join(known)}){meant}")
    kind = TargetKind(scheme)
    if "\0" in location or "\n" in location:
        raise ValueError("a path cannot hold a NUL or a line break")
    try:
        location.encode()
    except UnicodeEncodeError as error:
        raise ValueError("a path that is not UTF-8 cannot be written in an archive") from error
    options: Mapping[str, str] = _NOTHING
    if kind in _OPTIONS:
        location, _, query = location.partition("?")
        options = _options(kind, query)
    if kind is TargetKind.RBD:
        _check_names(url, location, "rbd:POOL or rbd:POOL/IMAGE", most=2)
        if options.get("shared") == "yes" and "/" in location:
            raise ValueError("the shared image is one of Leadline's own: name the pool alone")
        if "/" in location and options.keys() & set(_IMAGE_PATH):
            raise ValueError("path and encryption are for a new image: name the pool alone")
    elif kind is TargetKind.RADOS or kind.on_shared_image:
        _check_names(url, location, f"{kind.value}:POOL", most=1)
    elif kind.on_zfs:
        if not is_dataset(location):
            raise ValueError(f"{url!r} is not {kind.value}:POOL or {kind.value}:POOL/DATASET")
    elif kind is TargetKind.STORAGE_CLASS:
        if not OBJECT_NAME.fullmatch(location):
            raise ValueError(f"{url!r} is not storageclass:NAME")
        volume_request(options)
    elif kind is TargetKind.HOSTS:
        _check_hosts(url, location)
    elif kind is TargetKind.CEPHFS and not location.startswith("/"):
        _check_names(url, location, "cephfs:/mounted/path or a folder of a lab's mount", most=9)
    elif not location.startswith("/"):
        raise ValueError(f"{url!r} needs an absolute path after {scheme!r}:")
    if "?" in location and kind is TargetKind.DEVICE:
        raise ValueError(f"{scheme!r} targets have no options")
    return TargetUrl(kind=kind, location=location, options=options)


def _check_names(url: str, location: str, form: str, *, most: int) -> None:
    names = location.split("/")
    if len(names) > most or not all(_CEPH_NAME.fullmatch(name) for name in names):
        raise ValueError(f"{url!r} is not {form}")


def _check_hosts(url: str, location: str) -> None:
    hosts, colon, _ = location.partition(":/")
    if not colon:
        raise ValueError(f"{url!r} is not hosts:NAME,NAME:/path")
    check_hosts(hosts.split(","))


def check_hosts(hosts: Sequence[str]) -> None:
    """Raise ValueError for a text that is no name of a host, and for a host that is named twice."""
    seen: set[str] = set()
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise ValueError(
                f"{host!r} is no name of a host: NAME, USER@NAME or [IPv6]; "
                "all else belongs in ~/.ssh/config under a name"
            )
        name = host.rpartition("@")[2].lower()
        if name in seen:
            raise ValueError(f"the host {name!r} is named twice")
        seen.add(name)


def _options(kind: TargetKind, query: str) -> Mapping[str, str]:
    """`KEY=VALUE&...` as a mapping. Raises ValueError for what the kind does not have."""
    found: dict[str, str] = {}
    known = _OPTIONS[kind]
    for part in query.split("&") if query else ():
        key, equals, value = part.partition("=")
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"{kind.value!r} targets have no option {key!r} (known: {', '.join(known)}){meant}"
            )
        if not equals or not value or key in found:
            raise ValueError(f"the option {key!r} needs one value: {key}=VALUE")
        # Virtual machines have an option `cache` too.
        is_vdev = kind is TargetKind.ZFS_ON_RBD and key in VDEV_CLASSES
        choices = None if is_vdev else _CHOICES.get(key)
        if choices and value not in choices:
            raise ValueError(f"{key} is {', '.join(choices[:-1])} or {choices[-1]}, got {value!r}")
        if key == "inter_zone_rtt":
            parse_duration(value)
        if key in ("recordsize", VOLUME_BLOCK):
            _check_record(key, value)
        if key == "ashift" and not (value.isdecimal() and int(value) in _ASHIFT):
            raise ValueError(f"ashift is a number from 9 to 16, got {value[:20]!r}")
        if is_vdev:
            _parse_vdev(key, value, "")
        if key == "compression" and not _COMPRESSION.fullmatch(value):
            raise ValueError(f"{value!r} is no compression of ZFS")
        if key == "data_pool" and not _CEPH_NAME.fullmatch(value):
            raise ValueError(f"{value!r} is no name of a pool")
        if key == "crush_location" and not _CRUSH_LOCATION.fullmatch(value):
            raise ValueError(f"crush_location is TYPE:NAME, more with |, got {value[:40]!r}")
        if key == "hosts":
            check_hosts(value.split(","))
        found[key] = value
    if "crush_location" in found and found.get("read_policy") != "localize":
        raise ValueError("crush_location has an effect with read_policy=localize only")
    if found.get("shared") == "yes" and "features" in found:
        raise ValueError("the shared image has the features layering only")
    if found.get("shared") == "yes" and found.keys() & {"object_size", "stripe"}:
        raise ValueError("the shared image has the default layout of its objects")
    _check_layout(found)
    if "encryption" in found and found.get("path", _BY_NBD) != _BY_NBD:
        raise ValueError("fio's rbd engine cannot load an encrypted image: omit path=librbd")
    if found.keys() & set(_IMAGE_PATH) and (found.get("shared") == "yes" or "hosts" in found):
        raise ValueError("path and encryption are for an image of this machine: omit shared, hosts")
    _check_receiver(found)
    if "hosts" in found:
        if found.get("engine") == "rados-bench":
            raise ValueError("rados bench is one process on this machine: omit engine or hosts")
        if found.get("shared") == "yes":
            raise ValueError("the shared image is for this machine alone: omit hosts or shared")
        if found.get("read_policy") == "localize":
            raise ValueError("read_policy=localize is for one client: the hosts have no location")
    return MappingProxyType(found)


def _parse_vdev(vdev_class: str, text: str, pool: str) -> Vdev:
    """Parse `[POOL/]SIZE`. Raises ValueError."""
    named, slash, size_text = text.rpartition("/")
    if slash and not _CEPH_NAME.fullmatch(named):
        raise ValueError(f"{vdev_class} is SIZE or POOL/SIZE, got {text[:40]!r}")
    size = parse_size(size_text)
    if size < _LEAST_VDEV:
        raise ValueError(f"{vdev_class} needs 64M at least, got {text[:40]!r}")
    return Vdev(vdev_class=vdev_class, pool=named or pool, size=size)


def split_host(text: str) -> tuple[str, str]:
    """Host and dataset of `[USER@]HOST:POOL[/DATASET]`. Raises ValueError for another form."""
    # An IPv6 address has colons of its own, and so may a dataset.
    host, _, dataset = text.partition("]:") if "[" in text else text.partition(":")
    host += "]" if "[" in text else ""
    check_hosts([host])
    if not is_dataset(dataset):
        raise ValueError(f"{text!r} is not HOST:POOL or HOST:POOL/DATASET")
    return host, dataset


def is_dataset(name: str) -> bool:
    """Whether a text is a name of a pool or dataset, short enough for the names below it."""
    fits = len(name) <= _LONGEST_DATASET and ".." not in name
    return fits and _DATASET_NAME.fullmatch(name) is not None


def _check_receiver(options: Mapping[str, str]) -> None:
    """Raise ValueError for a receiver of streams that cannot be."""
    for key in _OF_STREAMS:
        if key in options and RECEIVE_ON not in options:
            raise ValueError(f"{key} is of streams to another host: add {RECEIVE_ON}=HOST:POOL")
    if RECEIVE_ON in options:
        split_host(options[RECEIVE_ON])
    if "port" in options:
        if options.get("via") != Transport.TCP:
            raise ValueError("port has an effect with via=tcp only")
        if not _PORT.fullmatch(options["port"]) or int(options["port"]) > _MOST_PORT:
            raise ValueError(f"port is a number from 1 to {_MOST_PORT}, got {options['port']!r}")
    buffer = parse_size(options.get("buffer", str(BUFFER_BYTES)))
    if not _LEAST_BUFFER <= buffer <= _MOST_BUFFER:
        raise ValueError(f"buffer is a size from 64K to 4G, got {options['buffer']!r}")


def _check_layout(options: Mapping[str, str]) -> None:
    """Raise ValueError for a layout of objects that no image can have (librbd's
    `create` in src/librbd/image/CreateRequest.cc)."""
    size = parse_size(options.get("object_size", "4M"))
    if size & (size - 1) or not 4 << 10 <= size <= 32 << 20:
        raise ValueError(
            f"object_size is a power of two from 4K to 32M, got {options['object_size']!r}"
        )
    if "stripe" not in options:
        return
    count, _, unit = options["stripe"].partition("x")
    if not _COUNT.fullmatch(count) or not unit:
        raise ValueError(f"stripe is COUNTxUNIT, for instance 8x64K, got {options['stripe']!r}")
    if not 512 <= parse_size(unit) <= size or size % parse_size(unit):
        raise ValueError(f"the stripe unit {unit!r} does not divide an object of {size} bytes")


def _check_record(key: str, value: str) -> None:
    size = parse_size(value)
    # 16 MiB are the largest record of OpenZFS 2.2 and later.
    if size & (size - 1) or not 512 <= size <= 16 << 20:
        raise ValueError(f"{key} is a power of two from 512 to 16M, got {value!r}")
