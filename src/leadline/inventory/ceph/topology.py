"""Read pools, file systems, the CRUSH tree and OSDs from the dumps of a Ceph cluster."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leadline.inventory.ceph.autoscaler import Mode
from leadline.inventory.ceph.dumps import PGS, Dumps, Node, list_pgs, load
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
from leadline.inventory.host import Snapshot

# pg_pool_t's types (src/osd/osd_types.h).
_TYPES = {1: PoolType.REPLICATED, 3: PoolType.ERASURE}


def read_pools(
    osd_dump: Node, rules: Mapping[int, CrushRule] | None, df: Node | None
) -> tuple[Pool, ...]:
    """Read the pools, by id; their bytes from `df detail` since Nautilus."""
    profiles = osd_dump.get("erasure_code_profiles")
    stats = {node["id"].count: node["stats"] for node in df["pools"]} if df else {}
    pools = (
        _pool(node, rules, profiles, stats.get(node["pool"].count)) for node in osd_dump["pools"]
    )
    return tuple(sorted(pools, key=lambda pool: pool.id))


def _pool(
    node: Node, rules: Mapping[int, CrushRule] | None, profiles: Node | None, stats: Node | None
) -> Pool:
    kind = _TYPES.get(node["type"].integer)
    if kind is None:
        raise node["type"].wrong("a type of pool: 1 (replicated) or 3 (erasure)")
    flags = set(node["flags_names"].text.split(","))
    options, mode = node["options"], node.get("pg_autoscale_mode")
    rule_id = node["crush_rule"].integer
    role, filesystem = _cephfs(node["application_metadata"])
    return Pool(
        id=node["pool"].count,
        name=node["pool_name"].text,
        type=kind,
        size=node["size"].positive,
        min_size=node["min_size"].count,
        rule=rules.get(rule_id) if rules is not None else None,
        rule_id=rule_id,
        pg_num=node["pg_num"].positive,
        pgp_num=node["pg_placement_num"].count,
        pg_num_target=(node.get("pg_num_target") or node["pg_num"]).positive,
        # Before Nautilus there is no autoscaler.
        autoscale_mode=mode.choice(Mode, "an autoscale mode: on, warn or off") if mode else None,
        target_ratio=options.number_or("target_size_ratio", 0.0),
        target_bytes=options.count_or("target_size_bytes", 0),
        pg_num_min=options.count_or("pg_num_min", None),
        pg_num_max=options.count_or("pg_num_max", None),
        bias=options.number_or("pg_autoscale_bias", 1.0),
        bulk="bulk" in flags,
        erasure=_erasure(node, profiles) if kind is PoolType.ERASURE else None,
        overwrites=kind is PoolType.REPLICATED or "ec_overwrites" in flags,
        fast_erasure="ec_optimizations" in flags,
        compression=options.text_or("compression_mode", "none"),
        applications=tuple(name for name, _ in node["application_metadata"].items()),
        cephfs_role=role,
        filesystem=filesystem,
        stored_bytes=_statistic(stats["stored"]) if stats else None,
        used_bytes=_statistic(stats["bytes_used"]) if stats else None,
        objects=_statistic(stats["objects"]) if stats else None,
        full=bool(flags & {"full", "full_quota"}),
        near_full="nearfull" in flags,
        quota_bytes=node.count_or("quota_max_bytes", 0),
    )


def _statistic(node: Node) -> int | None:
    """Ceph adds up changes as OSDs report them. For a moment a sum may be below zero (-38 bytes
    were seen), and is unknown."""
    return node.integer if node.integer >= 0 else None


def _erasure(node: Node, profiles: Node | None) -> ErasureCode:
    name = node["erasure_code_profile"].text
    if profiles is None:
        raise node["erasure_code_profile"].wrong("a profile that the dump describes")
    profile = profiles[name]
    plugin = profile.text_or("plugin", "jerasure")
    # Old profiles of lrc and shec may omit k and m: an error, not a guess.
    return ErasureCode(
        profile=name, k=profile["k"].positive, m=profile["m"].positive, plugin=plugin
    )


def _cephfs(applications: Node) -> tuple[CephfsRole | None, str | None]:
    cephfs = applications.get("cephfs")
    for role in CephfsRole:
        named = cephfs.get(role.value) if cephfs else None
        if named:
            return role, named.text
    return None, None


class PlacementGroup(Snapshot):
    """A placement group of a pool by its number: the OSDs of its acting set (of erasure code in the
    order of shards; None: missing), and its primary."""

    number: str
    acting: tuple[int | None, ...]
    primary: int


# CRUSH_ITEM_NONE (src/crush/crush.h): a shard without an OSD.
_NO_OSD = 0x7FFFFFFF


def read_placement_groups(dumps: Dumps) -> dict[int, tuple[PlacementGroup, ...]]:
    """Read the acting sets by the id of the pool; empty without `pg dump`. Placement groups without
    a primary are left out.

    Raises:
        LeadlineError: `dumps-invalid`.
    """
    dump = load(dumps, PGS)
    found: dict[int, list[PlacementGroup]] = {}
    for node in list_pgs(dump) if dump is not None else ():
        pool, _, number = node["pgid"].text.partition(".")
        primary = node["acting_primary"].integer
        acting = tuple(osd.integer for osd in node["acting"])
        if not pool.isdecimal():
            raise node["pgid"].wrong("the id of a placement group, such as 1.0")
        if primary in acting and primary != _NO_OSD:
            group = PlacementGroup(
                number=number,
                acting=tuple(None if osd == _NO_OSD else osd for osd in acting),
                primary=primary,
            )
            found.setdefault(int(pool), []).append(group)
    return {pool: tuple(groups) for pool, groups in found.items()}


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
        data_pools=tuple(map(pool, mdsmap["data_pools"])),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OsdPlace:
    """An OSD in the tree: its location from the root down, class and CRUSH weight."""

    location: tuple[Place, ...]
    device_class: str | None
    weight: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """`osd tree`: names of `roots`, which have no parent, and `ranks` of levels (osd is 0)."""

    roots: tuple[str, ...]
    ranks: Mapping[str, int]
    osds: Mapping[int, OsdPlace]


def read_tree(tree: Node) -> Tree:
    """Read `osd tree`: OSDs have ids from 0, buckets negative ids."""
    nodes = {node["id"].integer: node for node in tree["nodes"]}
    children = {
        number: [child.integer for child in node.get("children") or ()]
        for number, node in nodes.items()
    }
    lower = {child for below in children.values() for child in below}
    roots = [number for number in nodes if number < 0 and number not in lower]
    osds: dict[int, OsdPlace] = {}

    def walk(number: int, above: tuple[Place, ...]) -> None:
        if number not in nodes:
            raise tree["nodes"].wrong(f"a tree: there is no node {number}")
        node = nodes[number]
        if number >= 0:
            osds.setdefault(number, _osd_place(node, above))
            return
        if len(above) > len(nodes):
            raise tree["nodes"].wrong("a tree: it has a circle")
        here = (*above, Place(level=node["type"].text, name=node["name"].text))
        for child in children[number]:
            walk(child, here)

    for root in roots:
        walk(root, ())
    for node in [*nodes.values(), *(tree.get("stray") or ())]:
        number = node["id"].integer
        if number >= 0:
            osds.setdefault(number, _osd_place(node, ()))
    return Tree(
        roots=tuple(nodes[root]["name"].text for root in roots),
        ranks={node["type"].text: node["type_id"].integer for node in nodes.values()},
        osds=osds,
    )


def _osd_place(node: Node, above: tuple[Place, ...]) -> OsdPlace:
    return OsdPlace(
        location=above,
        device_class=node.text_or("device_class", "") or None,
        weight=node.number_or("crush_weight", None),
    )


def crush_roots(tree: Tree) -> tuple[CrushRoot, ...]:
    """Return the roots with OSDs, their levels from the root down."""
    found = []
    for root in tree.roots:
        locations = [osd.location for osd in tree.osds.values() if osd.location]
        below = [location for location in locations if location[0].name == root]
        if not below:
            continue
        buckets: dict[str, set[str]] = {}
        for place in (place for location in below for place in location):
            buckets.setdefault(place.level, set()).add(place.name)
        order = sorted(buckets, key=lambda level: -tree.ranks[level])
        levels = [CrushLevel(level=level, count=len(buckets[level])) for level in order]
        levels.append(CrushLevel(level="osd", count=len(below)))
        found.append(CrushRoot(name=root, levels=tuple(levels)))
    return tuple(found)


def read_rules(crush: Node | None, rules: Node | None) -> dict[int, CrushRule] | None:
    """Read the rules by id from `osd crush dump` or `osd crush rule dump`; None without both."""
    listed = crush["rules"] if crush is not None else rules
    if listed is None:
        return None
    return {rule.id: rule for rule in map(_rule, listed)}


def _rule(node: Node) -> CrushRule:
    steps = [(step["op"].text, step) for step in node["steps"]]
    taken = [step["item_name"].text for operation, step in steps if operation == "take"]
    choosing = [
        (step["num"].integer, step["type"].text)
        for operation, step in steps
        if operation.startswith("choose")
    ]
    # `default~ssd`: the OSDs of class ssd below `default`.
    root, _, device_class = taken[0].partition("~") if taken else (None, "", "")
    return CrushRule(
        id=node["rule_id"].integer,
        name=node["rule_name"].text,
        root=root,
        device_class=device_class or None,
        failure_domain=_failure_domain(choosing) if len(taken) == 1 else None,
        takes=len(taken),
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
_NO_METADATA = Node("osd_metadata.json", "", {})
# Names of encrypted devices of ceph-volume and Rook.
_CRYPT_DEVICE = re.compile(r"(dmcrypt|dm-crypt|luks)", re.IGNORECASE)
_CRYPT_KEY = re.compile(r"dm-crypt/osd/([0-9a-fA-F-]{36})/luks")
_DEVICE_PATHS = ("bluestore_bdev_partition_path", "bluestore_bdev_path", "osd_data")


def read_osds(
    osd_dump: Node, tree: Tree, df: Node | None, metadata: Node | None, crypt_keys: Node | None
) -> tuple[Osd, ...]:
    """Read all OSDs of the map, by id."""
    # `osd df [tree]` also has buckets, and an OSD once per root.
    uses = {node["id"].integer: node for node in df["nodes"]} if df else {}
    media = {node["id"].count: node for node in metadata or ()}
    keys = (_CRYPT_KEY.fullmatch(key.text) for key in crypt_keys or ())
    encrypted = frozenset(found[1].lower() for found in keys if found)
    osds = []
    for node in osd_dump["osds"]:
        number = node["osd"].count
        medium = media.get(number, _NO_METADATA)
        place = tree.osds.get(number, _NOWHERE)
        osds.append(_osd(node, place, uses.get(number), medium, encrypted))
    return tuple(sorted(osds, key=lambda osd: osd.id))


def _osd(
    node: Node, place: OsdPlace, use: Node | None, medium: Node, encrypted: frozenset[str]
) -> Osd:
    """Read an OSD; `medium` of one that never started has only its id."""
    uuid = node["uuid"].text
    size = use["kb"].count * 1024 if use else None
    used = use["kb_used"].count * 1024 if use else None
    in_tree = next((bucket.name for bucket in place.location if bucket.level == "host"), None)
    on_crypt = any(_CRYPT_DEVICE.search(medium.text_or(key, "")) for key in _DEVICE_PATHS)
    return Osd(
        id=node["osd"].count,
        uuid=uuid,
        device_class=place.device_class,
        weight=place.weight,
        reweight=node["weight"].number,
        primary_affinity=node["primary_affinity"].number,
        up=node["up"].flag,
        is_in=node["in"].flag,
        location=place.location,
        host=in_tree or medium.text_or("hostname", "") or None,
        pgs=use["pgs"].count if use else None,
        size_bytes=size,
        used_bytes=used,
        utilisation=used / size if used is not None and size else None,
        rotational=medium.flag_or("rotational", None),
        store=medium.text_or("osd_objectstore", "") or None,
        dm_crypt=Crypt.YES if on_crypt or uuid.lower() in encrypted else Crypt.UNKNOWN,
    )


def compute_spread(osds: Iterable[Osd]) -> Spread | None:
    """Compute placement groups per OSD that is in and holds data; None: unknown."""
    counts = [osd.pgs for osd in osds if osd.is_in and osd.weight != 0 and osd.pgs is not None]
    if not counts:
        return None
    mean = sum(counts) / len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / len(counts)
    return Spread(lowest=min(counts), highest=max(counts), mean=mean, deviation=math.sqrt(variance))
