"""Reads OSDs from dumps: what they are, where they stand, what they hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leadline.inventory.ceph import Crypt, Osd, Spread
from leadline.inventory.ceph_crush import Standing, Tree
from leadline.inventory.ceph_dumps import Node

_NOWHERE = Standing(location=(), device_class=None, weight=None)
# How ceph-volume and Rook name the mapping of an encrypted device.
_CRYPT_DEVICE = re.compile(r"(dmcrypt|dm-crypt|luks)", re.IGNORECASE)
_CRYPT_KEY = re.compile(r"dm-crypt/osd/([0-9a-fA-F-]{36})/luks")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    pgs: int
    size_bytes: int
    used_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Medium:
    host: str | None
    rotational: bool | None
    store: str | None
    crypt_name: bool


_NO_MEDIUM = _Medium(host=None, rotational=None, store=None, crypt_name=False)


def read_osds(
    osd_dump: Node, tree: Tree, df: Node | None, metadata: Node | None, crypt_keys: Node | None
) -> tuple[Osd, ...]:
    """All OSDs of the map, by id."""
    uses = _uses(df)
    media = _media(metadata)
    encrypted = _encrypted(crypt_keys)
    return tuple(
        sorted(
            (_osd(node, tree.standings, uses, media, encrypted) for node in osd_dump["osds"]),
            key=lambda osd: osd.id,
        )
    )


def _osd(
    node: Node,
    standings: Mapping[int, Standing],
    uses: Mapping[int, _Use],
    media: Mapping[int, _Medium],
    encrypted: frozenset[str],
) -> Osd:
    number = node["osd"].count
    standing = standings.get(number, _NOWHERE)
    use = uses.get(number)
    medium = media.get(number, _NO_MEDIUM)
    uuid = node["uuid"].text
    named = next((place.name for place in standing.location if place.level == "host"), None)
    crypt = Crypt.YES if uuid.lower() in encrypted or medium.crypt_name else Crypt.UNKNOWN
    return Osd(
        id=number,
        uuid=uuid,
        device_class=standing.device_class,
        weight=standing.weight,
        reweight=node["weight"].number,
        primary_affinity=node["primary_affinity"].number,
        up=node["up"].flag,
        is_in=node["in"].flag,
        location=standing.location,
        host=named or medium.host,
        pgs=use.pgs if use else None,
        size_bytes=use.size_bytes if use else None,
        used_bytes=use.used_bytes if use else None,
        utilisation=use.used_bytes / use.size_bytes if use and use.size_bytes else None,
        rotational=medium.rotational,
        store=medium.store,
        dm_crypt=crypt,
    )


def _uses(df: Node | None) -> dict[int, _Use]:
    """`osd df [tree]`; sizes are in KiB there. An OSD stands in it once per root."""
    found: dict[int, _Use] = {}
    if df is None:
        return found
    for node in df["nodes"]:
        number = node["id"].integer
        if number >= 0:
            found[number] = _Use(
                pgs=node["pgs"].count,
                size_bytes=node["kb"].count * 1024,
                used_bytes=node["kb_used"].count * 1024,
            )
    return found


def _media(metadata: Node | None) -> dict[int, _Medium]:
    """`osd metadata`. An OSD that never started has nothing but its id there."""
    found = {}
    for node in metadata or ():
        rotational = node.get("rotational")
        devices = [
            node.text_or(key, "")
            for key in ("bluestore_bdev_partition_path", "bluestore_bdev_path", "osd_data")
        ]
        found[node["id"].count] = _Medium(
            host=node.text_or("hostname", "") or None,
            rotational=rotational.flag if rotational else None,
            store=node.text_or("osd_objectstore", "") or None,
            crypt_name=any(_CRYPT_DEVICE.search(device) for device in devices),
        )
    return found


def _encrypted(crypt_keys: Node | None) -> frozenset[str]:
    """UUIDs of the OSDs whose dm-crypt key the monitors keep, from the names of the keys."""
    matches = (_CRYPT_KEY.fullmatch(key.text) for key in crypt_keys or ())
    return frozenset(found[1].lower() for found in matches if found)


def spread(osds: Iterable[Osd]) -> Spread | None:
    """Placement groups per OSD that is in and takes data; None where the counts are unknown."""
    counts = [osd.pgs for osd in osds if osd.is_in and osd.weight != 0 and osd.pgs is not None]
    if not counts:
        return None
    mean = sum(counts) / len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / len(counts)
    return Spread(lowest=min(counts), highest=max(counts), mean=mean, deviation=math.sqrt(variance))
