"""Read pools, file systems, the CRUSH tree and OSDs from the dumps of a Ceph cluster."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leadline.inventory.ceph.autoscaler import Mode
from leadline.inventory.ceph.dumps import Node
from leadline.inventory.ceph.model import (
    AutoscaleWord,
    CephfsRole,
    CrushLevel,
    CrushRoot,
    CrushRule,
    Crypt,
    ErasureCode,
    Filesystem,
    MdsRank,
    Osd,
    Place,
    Pool,
    PoolType,
    Spread,
)

# pg_pool_t's types (src/osd/osd_types.h).
_TYPES = {1: PoolType.REPLICATED, 3: PoolType.ERASURE}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    stored_bytes: int
    used_bytes: int
    objects: int


def read_pools(
    osd_dump: Node, rules: Mapping[int, CrushRule] | None, df: Node | None
) -> tuple[Pool, ...]:
    """Read the pools, by id."""
    profiles = osd_dump.get("erasure_code_profiles")
    stored = _stored(df)
    pools = (_pool(node, rules, profiles, stored) for node in osd_dump["pools"])
    return tuple(sorted(pools, key=lambda pool: pool.id))


def _pool(
    node: Node,
    rules: Mapping[int, CrushRule] | None,
    profiles: Node | None,
    stored: Mapping[int, _Stored],
) -> Pool:
    number = node["pool"].count
    kind = _TYPES.get(node["type"].integer)
    if kind is None:
        raise node["type"].wrong("a type of pool: 1 (replicated) or 3 (erasure)")
    flags = set(node["flags_names"].text.split(","))
    options = node["options"]
    minimum, maximum = options.get("pg_num_min"), options.get("pg_num_max")
    rule_id = node["crush_rule"].integer
    role, filesystem = _cephfs(node["application_metadata"])
    held = stored.get(number)
    return Pool(
        id=number,
        name=node["pool_name"].text,
        type=kind,
        size=_positive(node["size"]),
        min_size=node["min_size"].count,
        rule=rules.get(rule_id) if rules is not None else None,
        rule_id=rule_id,
        pg_num=_positive(node["pg_num"]),
        pgp_num=node["pg_placement_num"].count,
        pg_num_target=_positive(node.get("pg_num_target") or node["pg_num"]),
        autoscale_mode=_mode(node.get("pg_autoscale_mode")),
        target_ratio=options.number_or("target_size_ratio", 0.0),
        target_bytes=options.count_or("target_size_bytes", 0),
        pg_num_min=minimum.count if minimum else None,
        pg_num_max=maximum.count if maximum else None,
        bias=options.number_or("pg_autoscale_bias", 1.0),
        bulk="bulk" in flags,
        erasure=_erasure(node, kind, profiles),
        overwrites=kind is PoolType.REPLICATED or "ec_overwrites" in flags,
        compression=options.text_or("compression_mode", "none"),
        applications=tuple(name for name, _ in node["application_metadata"].items()),
        cephfs_role=role,
        filesystem=filesystem,
        stored_bytes=held.stored_bytes if held else None,
        used_bytes=held.used_bytes if held else None,
        objects=held.objects if held else None,
        full=bool(flags & {"full", "full_quota"}),
        near_full="nearfull" in flags,
        quota_bytes=node.count_or("quota_max_bytes", 0),
    )


def _positive(node: Node) -> int:
    if node.integer < 1:
        raise node.wrong("a number of one or more")
    return node.integer


def _mode(node: Node | None) -> Mode | None:
    """Return None before Nautilus, which has no autoscaler."""
    if node is None:
        return None
    try:
        return Mode(node.text)
    except ValueError as error:
        raise node.wrong("an autoscale mode: on, warn or off") from error


def _erasure(node: Node, kind: PoolType, profiles: Node | None) -> ErasureCode | None:
    if kind is not PoolType.ERASURE:
        return None
    name = node["erasure_code_profile"].text
    if profiles is None:
        raise node["erasure_code_profile"].wrong("a profile that the dump describes")
    profile = profiles[name]
    plugin = profile.text_or("plugin", "jerasure")
    # Old profiles of lrc and shec may omit k and m: an error, not a guess.
    return ErasureCode(
        profile=name, k=_positive(profile["k"]), m=_positive(profile["m"]), plugin=plugin
    )


def _cephfs(applications: Node) -> tuple[CephfsRole | None, str | None]:
    cephfs = applications.get("cephfs")
    for role in CephfsRole:
        named = cephfs.get(role.value) if cephfs else None
        if named:
            return role, named.text
    return None, None


def _stored(df: Node | None) -> dict[int, _Stored]:
    """Read `df detail` since Nautilus; before, `stored` was called bytes_used."""
    if df is None:
        return {}
    return {
        node["id"].count: _Stored(
            stored_bytes=node["stats"]["stored"].count,
            used_bytes=node["stats"]["bytes_used"].count,
            objects=node["stats"]["objects"].count,
        )
        for node in df["pools"]
    }


def read_filesystems(
    fs: Node | None, pools: tuple[Pool, ...]
) -> tuple[tuple[Filesystem, ...] | None, tuple[str, ...] | None]:
    """Return the file systems and the names of standby MDS; (None, None) without a dump."""
    if fs is None:
        return None, None
    names = {pool.id: pool.name for pool in pools}
    standbys = tuple(node["name"].text for node in fs["standbys"])
    return tuple(_filesystem(node["mdsmap"], names) for node in fs["filesystems"]), standbys


def _filesystem(mdsmap: Node, names: Mapping[int, str]) -> Filesystem:
    def pool(node: Node) -> str:
        # The dumps are not of one instant: the pool may be removed.
        return names.get(node.integer, f"pool {node.integer}")

    ranks, replaying = [], 0
    for _, info in mdsmap["info"].items():
        state = info["state"].text
        if state == "up:standby-replay":
            replaying += 1
        elif info["rank"].integer >= 0:
            name = info["name"].text
            ranks.append(MdsRank(rank=info["rank"].integer, name=name, state=state))
    return Filesystem(
        name=mdsmap["fs_name"].text,
        metadata_pool=pool(mdsmap["metadata_pool"]),
        data_pools=tuple(pool(node) for node in mdsmap["data_pools"]),
        max_mds=mdsmap["max_mds"].count,
        ranks=tuple(sorted(ranks, key=lambda item: item.rank)),
        failed_ranks=tuple(node.integer for node in mdsmap["failed"]),
        standby_replay=replaying,
        standbys_wanted=mdsmap.count_or("standby_count_wanted", 0),
    )


def read_autoscale(autoscale: Node | None) -> tuple[AutoscaleWord, ...] | None:
    """Read `osd pool autoscale-status`. An overcommitted root has ideals below zero."""
    if autoscale is None:
        return None
    return tuple(
        AutoscaleWord(
            pool_id=node["pool_id"].count,
            pool=node["pool_name"].text,
            ideal=node["pg_num_ideal"].integer,
            final=node["pg_num_final"].count,
            would_adjust=node["would_adjust"].flag,
            capacity_bytes=node["subtree_capacity"].count,
            raw_used_bytes=node["actual_raw_used"].number,
        )
        for node in autoscale
    )


# The CRUSH tree and its rules.

OSD_LEVEL = "osd"


@dataclass(frozen=True, slots=True, kw_only=True)
class OsdPlace:
    """An OSD in the tree: its location from the root down, class and CRUSH weight."""

    location: tuple[Place, ...]
    device_class: str | None
    weight: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The buckets of `osd tree`. `roots` have no parent; `ranks` order levels (osd is 0)."""

    roots: tuple[int, ...]
    names: Mapping[int, str]
    levels: Mapping[int, str]
    ranks: Mapping[str, int]
    children: Mapping[int, tuple[int, ...]]
    osds: Mapping[int, OsdPlace]


def read_tree(tree: Node) -> Tree:
    """Read `osd tree`: OSDs have ids from 0, buckets negative ids."""
    names, levels, ranks, children, nodes = {}, {}, {}, {}, {}
    for node in tree["nodes"]:
        number = node["id"].integer
        names[number] = node["name"].text
        levels[number] = node["type"].text
        ranks[levels[number]] = node["type_id"].integer
        below = node.get("children")
        children[number] = tuple(child.integer for child in below) if below else ()
        nodes[number] = node
    lower = {child for below in children.values() for child in below}
    roots = tuple(number for number in names if number < 0 and number not in lower)
    osds: dict[int, OsdPlace] = {}

    def walk(number: int, above: tuple[Place, ...]) -> None:
        if number not in names:
            raise tree["nodes"].wrong(f"a tree: there is no node {number}")
        if number >= 0:
            node = nodes[number]
            osds.setdefault(number, _osd_place(node, above))
            return
        if len(above) > len(names):
            raise tree["nodes"].wrong("a tree: it has a circle")
        here = (*above, Place(level=levels[number], name=names[number]))
        for child in children[number]:
            walk(child, here)

    for root in roots:
        walk(root, ())
    strays = tree.get("stray")
    for node in [*nodes.values(), *(strays or ())]:
        number = node["id"].integer
        if number >= 0:
            osds.setdefault(number, _osd_place(node, ()))
    return Tree(
        roots=roots,
        names=names,
        levels=levels,
        ranks=ranks,
        children=children,
        osds=osds,
    )


def _osd_place(node: Node, above: tuple[Place, ...]) -> OsdPlace:
    weight, device_class = node.get("crush_weight"), node.get("device_class")
    return OsdPlace(
        location=above,
        device_class=(device_class.text or None) if device_class else None,
        weight=weight.number if weight else None,
    )


def crush_roots(tree: Tree) -> tuple[CrushRoot, ...]:
    """Return the roots with OSDs, their levels from the root down."""
    found = []
    for root in tree.roots:
        name = tree.names[root]
        below = [
            placed.location
            for placed in tree.osds.values()
            if placed.location and placed.location[0].name == name
        ]
        if not below:
            continue
        buckets: dict[str, set[str]] = {}
        for location in below:
            for place in location:
                buckets.setdefault(place.level, set()).add(place.name)
        order = sorted(buckets, key=lambda level: -tree.ranks[level])
        levels = [CrushLevel(level=level, count=len(buckets[level])) for level in order]
        levels.append(CrushLevel(level=OSD_LEVEL, count=len(below)))
        found.append(CrushRoot(name=name, levels=tuple(levels)))
    return tuple(found)


def read_rules(crush: Node | None, rules: Node | None) -> dict[int, CrushRule] | None:
    """Read the rules by id from `osd crush dump` or `osd crush rule dump`; None without both."""
    listed = crush["rules"] if crush is not None else rules
    if listed is None:
        return None
    return {rule.id: rule for rule in map(_rule, listed)}


def _rule(node: Node) -> CrushRule:
    root, device_class, domain, takes = None, None, None, 0
    choosing: list[tuple[int, str]] = []
    for step in node["steps"]:
        operation = step["op"].text
        if operation == "take":
            takes += 1
            if takes == 1:
                # `default~ssd`: the OSDs of class ssd below `default`.
                root, _, named = step["item_name"].text.partition("~")
                device_class = named or None
        elif operation.startswith("choose"):
            choosing.append((step["num"].integer, step["type"].text))
    if takes == 1:
        domain = _failure_domain(choosing)
    return CrushRule(
        id=node["rule_id"].integer,
        name=node["rule_name"].text,
        root=root,
        device_class=device_class,
        failure_domain=domain,
        takes=takes,
    )


def _failure_domain(choosing: Sequence[tuple[int, str]]) -> str | None:
    """Return the level at which every copy has its own bucket: that of the last choice.

    `choose 2 zones`, then `chooseleaf 2 hosts` puts two copies into a zone: the level is host. A
    choice of one bucket inside each of several does not count.
    """
    for number, level in reversed(choosing):
        if number != 1:
            return level
    return choosing[0][1] if choosing else None


# OSDs.

_NOWHERE = OsdPlace(location=(), device_class=None, weight=None)
# Names of encrypted devices of ceph-volume and Rook.
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
    """Read all OSDs of the map, by id."""
    uses = _uses(df)
    media = _media(metadata)
    encrypted = _encrypted(crypt_keys)
    return tuple(
        sorted(
            (_osd(node, tree.osds, uses, media, encrypted) for node in osd_dump["osds"]),
            key=lambda osd: osd.id,
        )
    )


def _osd(
    node: Node,
    osds: Mapping[int, OsdPlace],
    uses: Mapping[int, _Use],
    media: Mapping[int, _Medium],
    encrypted: frozenset[str],
) -> Osd:
    number = node["osd"].count
    placed = osds.get(number, _NOWHERE)
    use = uses.get(number)
    medium = media.get(number, _NO_MEDIUM)
    uuid = node["uuid"].text
    named = next((place.name for place in placed.location if place.level == "host"), None)
    crypt = Crypt.YES if uuid.lower() in encrypted or medium.crypt_name else Crypt.UNKNOWN
    return Osd(
        id=number,
        uuid=uuid,
        device_class=placed.device_class,
        weight=placed.weight,
        reweight=node["weight"].number,
        primary_affinity=node["primary_affinity"].number,
        up=node["up"].flag,
        is_in=node["in"].flag,
        location=placed.location,
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
    """Read `osd df [tree]`, with sizes in KiB. An OSD appears once per root."""
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
    """Read `osd metadata`. An OSD that never started has only its id."""
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
    """Return the UUIDs of the OSDs whose dm-crypt key the monitors keep."""
    matches = (_CRYPT_KEY.fullmatch(key.text) for key in crypt_keys or ())
    return frozenset(found[1].lower() for found in matches if found)


def compute_spread(osds: Iterable[Osd]) -> Spread | None:
    """Compute placement groups per OSD that is in and holds data; None: unknown."""
    counts = [osd.pgs for osd in osds if osd.is_in and osd.weight != 0 and osd.pgs is not None]
    if not counts:
        return None
    mean = sum(counts) / len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / len(counts)
    return Spread(lowest=min(counts), highest=max(counts), mean=mean, deviation=math.sqrt(variance))
