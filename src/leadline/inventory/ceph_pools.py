"""Reads pools, filesystems and what the autoscaler says from dumps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leadline.inventory.autoscaler import Mode
from leadline.inventory.ceph import (
    AutoscaleWord,
    CephfsRole,
    CrushRule,
    ErasureCode,
    Filesystem,
    MdsRank,
    Pool,
    PoolType,
)
from leadline.inventory.ceph_dumps import Node

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
    """Pools by id."""
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
    """None before Nautilus, which had no autoscaler."""
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
    # lrc and shec of old profiles may leave k and m to the plugin; then they are not guessed.
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
    """`df detail`. Before Nautilus `stored` was called bytes_used; such dumps are not read."""
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
    """(filesystems, names of the MDS standing by); (None, None) where there is no dump."""
    if fs is None:
        return None, None
    names = {pool.id: pool.name for pool in pools}
    standbys = tuple(node["name"].text for node in fs["standbys"])
    return tuple(_filesystem(node["mdsmap"], names) for node in fs["filesystems"]), standbys


def _filesystem(mdsmap: Node, names: Mapping[int, str]) -> Filesystem:
    def pool(node: Node) -> str:
        # A pool that was removed meanwhile: the dumps are not of one instant.
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
        ranks=tuple(sorted(ranks, key=lambda one: one.rank)),
        failed_ranks=tuple(node.integer for node in mdsmap["failed"]),
        standby_replay=replaying,
        standbys_wanted=mdsmap.count_or("standby_count_wanted", 0),
    )


def read_autoscale(autoscale: Node | None) -> tuple[AutoscaleWord, ...] | None:
    """`osd pool autoscale-status`. An ideal is below zero where others promised too much."""
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
