"""Targets are written as URLs: `dir:/path`, `device:/dev/x`, `rbd:POOL[/IMAGE]`, `rados:POOL`,
`cephfs:/mounted/path`, `storageclass:NAME`, `hosts:a,b:/path`; those on a cluster take options:
`rbd:POOL?data_pool=EC&read_policy=localize`, `storageclass:fast?size=20Gi&count=3`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from leadline.plan import volume_request
from leadline.units import parse_duration


class TargetKind(StrEnum):
    """Kinds of target that this version can drive."""

    DIR = "dir"
    DEVICE = "device"
    RBD = "rbd"
    RADOS = "rados"
    CEPHFS = "cephfs"
    STORAGE_CLASS = "storageclass"
    HOSTS = "hosts"

    @property
    def on_ceph(self) -> bool:
        return self in (TargetKind.RBD, TargetKind.RADOS, TargetKind.CEPHFS)

    @property
    def on_kubernetes(self) -> bool:
        return self is TargetKind.STORAGE_CLASS

    @property
    def in_files(self) -> bool:
        return self in (TargetKind.DIR, TargetKind.CEPHFS, TargetKind.HOSTS)

    @property
    def on_cluster(self) -> bool:
        return self.on_ceph or self.on_kubernetes


# A lab's delay is an option of the target, since it is a condition of each trial.
_OPTIONS: Mapping[TargetKind, tuple[str, ...]] = {
    TargetKind.RBD: ("data_pool", "read_policy", "crush_location", "features", "inter_zone_rtt"),
    TargetKind.RADOS: ("inter_zone_rtt",),
    TargetKind.CEPHFS: ("inter_zone_rtt",),
    TargetKind.STORAGE_CLASS: volume_request.OPTIONS,
}
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "read_policy": ("default", "balance", "localize"),
    "features": ("layering", "virtualization"),
    **volume_request.CHOICES,
}
# What Ceph and the command lines of its tools both take as a name.
_CEPH_NAME = re.compile(r"[^\s/@?&%#,=:-][^\s/@?&%#,=:]*")
# DNS names, as Kubernetes calls its objects.
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
# A name that ssh may be given: a leading dash would be an option, and what a shell takes for more
# than a name could come to one by the user's ProxyCommand.
_HOST = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.+-]*@)?"
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?\])"
)
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetUrl:
    """A target taken apart. `location` is a path, `POOL` or `POOL/IMAGE`, a StorageClass, or
    `HOST,HOST:/path`."""

    kind: TargetKind
    location: str
    options: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    def __str__(self) -> str:
        query = "&".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.kind.value}:{self.location}" + (f"?{query}" if query else "")

    @property
    def pool(self) -> str:
        return self.location.partition("/")[0]

    @property
    def image(self) -> str:
        """The image that the user named; empty where Leadline makes one of its own."""
        return self.location.partition("/")[2]

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts as they were written: `name`, `user@name`, `[IPv6]`; none of other kinds."""
        if self.kind is not TargetKind.HOSTS:
            return ()
        return tuple(self.location.partition(":/")[0].split(","))

    @property
    def path_on_hosts(self) -> str:
        return "/" + self.location.partition(":/")[2]

    @property
    def request(self) -> volume_request.VolumeRequest:
        """What is asked of a StorageClass."""
        return volume_request.volume_request(self.options)

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
    if kind.on_cluster:
        location, _, query = location.partition("?")
        options = _options(kind, query)
    if kind is TargetKind.RBD:
        _check_names(url, location, "rbd:POOL or rbd:POOL/IMAGE", most=2)
    elif kind is TargetKind.RADOS:
        _check_names(url, location, "rados:POOL", most=1)
    elif kind is TargetKind.STORAGE_CLASS:
        if not _OBJECT_NAME.fullmatch(location):
            raise ValueError(f"{url!r} is not storageclass:NAME")
        volume_request.volume_request(options)
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
    seen: set[str] = set()
    for host in hosts.split(","):
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
        choices = _CHOICES.get(key)
        if choices and value not in choices:
            raise ValueError(f"{key} is {', '.join(choices[:-1])} or {choices[-1]}, got {value!r}")
        if key == "inter_zone_rtt":
            parse_duration(value)
        if key == "data_pool" and not _CEPH_NAME.fullmatch(value):
            raise ValueError(f"{value!r} is no name of a pool")
        found[key] = value
    if "crush_location" in found and found.get("read_policy") != "localize":
        raise ValueError("crush_location has an effect with read_policy=localize only")
    return MappingProxyType(found)
