"""OpenEBS Mayastor, ZFS LocalPV and Longhorn."""

from __future__ import annotations

import re
from collections.abc import Iterable

from leadline.inventory.kubernetes import kinds
from leadline.inventory.kubernetes.models import (
    DiskPool,
    IoEngine,
    Longhorn,
    LonghornSetting,
    ZfsPool,
)
from leadline.inventory.kubernetes.objects import Objects, Part

# The settings that bear on I/O.
_LONGHORN_SETTINGS = re.compile(
    r"default-replica-count|default-data-locality|default-data-engine|v[12]-data-engine"
    r"|(v2-)?data-engine-.*|v2-data-engine-.*|guaranteed-.*cpu|storage-network.*"
    r"|replica-.*anti-affinity|replica-auto-balance|storage-over-provisioning-percentage"
    r"|fast-replica-rebuild-enabled|instance-manager-.*|engine-replica-timeout"
)
_LONGHORN_VERSION = "current-longhorn-version"


def read_io_engine(item: Part) -> IoEngine | None:
    """The DaemonSet of Mayastor's data path; None of any other."""
    for container in item.at("spec", "template", "spec", "containers").elements():
        if container.at("name").text != "io-engine":
            continue
        resources = container.at("resources")
        limits = dict(resources.at("limits").members())
        pages = [one.size_bytes or 0 for key, one in limits.items() if key.startswith("hugepages-")]
        return IoEngine(
            namespace=item.at("metadata", "namespace").word,
            image=container.at("image").word,
            cores=polled_cores(container.at("args").texts()),
            cpu_request=resources.at("requests", "cpu").quantity,
            cpu_limit=resources.at("limits", "cpu").quantity,
            hugepages_bytes=sum(pages) if pages else None,
            ready=item.at("status", "numberReady").integer,
            wanted=item.at("status", "desiredNumberScheduled").integer,
        )
    return None


def polled_cores(arguments: Iterable[str]) -> tuple[int, ...]:
    """The cores of `-l1,2`, `-l 1-3` or `-m 0x6`; none where the arguments do not say."""
    words = [word for one in arguments for word in one.split()]
    for number, word in enumerate(words):
        following = words[number + 1] if number + 1 < len(words) else ""
        for flag, read in _CORE_FLAGS:
            if word == flag:
                return read(following)
            if word.startswith(flag):
                return read(word[len(flag) :].lstrip("="))
    return ()


def _listed(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in text.strip("[]()").split(","):
        low, _, high = part.partition("-")
        if not low.isdecimal() or (high and not high.isdecimal()):
            return ()
        first, last = int(low), int(high or low)
        if last - first > 4096:
            return ()
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _masked(text: str) -> tuple[int, ...]:
    try:
        mask = int(text[:64], 16)
    except ValueError:
        return ()
    return tuple(number for number in range(mask.bit_length()) if mask >> number & 1)


_CORE_FLAGS = (
    ("--core-list", _listed),
    ("--reactor-mask", _masked),
    ("-l", _listed),
    ("-m", _masked),
)


def read_disk_pool(item: Part) -> DiskPool:
    spec, status = item.at("spec"), item.at("status")
    return DiskPool(
        name=item.at("metadata", "name").word,
        node=spec.at("node").word,
        disks=spec.at("disks").texts(),
        capacity_bytes=status.at("capacity").size_bytes,
        used_bytes=status.at("used").size_bytes,
        status=status.at("pool_status").text or status.at("cr_state").word,
        encrypted=status.at("encrypted").on or spec.at("encryptionConfig").there,
    )


def read_zfs_node(item: Part) -> tuple[ZfsPool, ...]:
    """The pools of one node, the name of which is the object's."""
    return tuple(
        ZfsPool(
            node=item.at("metadata", "name").word,
            name=one.at("name").word,
            free_bytes=one.at("free").size_bytes,
        )
        for one in item.at("pools").elements()
    )


def read_longhorn(objects: Objects) -> Longhorn | None:
    """None where there are neither settings nor nodes of Longhorn's."""
    if not {kinds.LONGHORN_SETTING, kinds.LONGHORN_NODE} & objects.by_kind.keys():
        return None

    def setting(item: Part) -> tuple[str, str]:
        return item.at("metadata", "name").word, item.at("value").word

    def disks(item: Part) -> tuple[str, ...]:
        return tuple(
            one.at("diskType").text or "filesystem" for _, one in item.at("spec", "disks").members()
        )

    settings = dict(objects.read(kinds.LONGHORN_SETTING, setting))
    nodes = objects.read(kinds.LONGHORN_NODE, disks)
    return Longhorn(
        version=settings.get(_LONGHORN_VERSION, ""),
        nodes=len(nodes),
        disks=sum(len(one) for one in nodes),
        kinds=tuple(sorted({kind for one in nodes for kind in one})),
        settings=tuple(
            LonghornSetting(name=name, value=settings[name])
            for name in sorted(settings)
            if _LONGHORN_SETTINGS.fullmatch(name)
        ),
    )
