"""Recipes for the pools of the study, from their names and the inventory of a Ceph cluster.

A pool that needs more failure domains than the cluster has is skipped. It never gets a lower level:
pools with other failure domains survive other failures, so their cost cannot be compared.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.ceph.autoscaler import Mode, nearest_power_of_two
from leadline.inventory.ceph.model import CephInventory, Crypt, Osd, Pool, PoolType
from leadline.pools.options import DEFAULT_OPTIONS, NO_CONSENT, PoolOptions
from leadline.text import did_you_mean

# The pools of the published study, in its order. A name states the properties of its pool.
STUDY = ("rep3", "rep3-virt", "rep3-enc", "rep2", "cephfs-rep3", "cephfs-rep2", "ec-2-1")
FORMS = (
    "repN          N copies of everything, for RBD (N from 1 to 10; rep1: no redundancy)",
    "ec-K-M        K data and M coding chunks, for the data of RBD images",
    "cephfs-repN   N copies, a further data pool of the cluster's CephFS; --kube: its own CephFS",
    "repN-virt     repN, whose images have the features of virtual machines' disks",
    "repN-enc      repN on OSDs with dm-crypt",
    "repN-luks     --kube: repN, each of whose volumes the CSI driver encrypts",
)
_MOST_COPIES, _MOST_CHUNKS = 10, 32
_PATTERN = re.compile(
    r"(?P<cephfs>cephfs-)?rep(?P<size>[1-9]\d?)(?P<suffix>-virt|-enc|-luks)?|ec-(?P<k>[1-9]\d?)-(?P<m>[1-9]\d?)"
)


class Kind(StrEnum):
    REPLICATED = "replicated"
    ERASURE = "erasure"
    CEPHFS = "cephfs"
    VIRTUAL = "virtual"
    ENCRYPTED = "encrypted"
    LUKS = "encrypted volumes"

    @property
    def is_variant(self) -> bool:
        """Whether it is a replicated pool whose images or volumes differ."""
        return self in (Kind.VIRTUAL, Kind.LUKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolName:
    """A parsed pool name. `size` is k + m with erasure coding; `k` and `m` are 0 otherwise."""

    text: str
    kind: Kind
    size: int
    k: int = 0
    m: int = 0

    @property
    def base(self) -> str:
        """The replicated pool of which a `-virt`, `-enc` or `-luks` name is a variant."""
        return f"rep{self.size}"

    @property
    def min_size(self) -> int:
        """Ceph's own default, set explicitly since a cluster may have another: one of two copies,
        two of three, k of k + 1 chunks."""
        if self.kind is Kind.ERASURE:
            return self.k + min(1, self.m - 1)
        return self.size - self.size // 2

    @property
    def redundancy(self) -> str:
        if self.kind is Kind.ERASURE:
            return f"erasure-coded {self.k}+{self.m}"
        return f"replicated, size {self.size}"


def pool_name(text: str) -> PoolName:
    """Parse a pool name. Raises LeadlineError(`usage`) with the forms and the nearest name."""
    found = _parse_name(text)
    if found is not None:
        return found
    raise LeadlineError(
        errors.USAGE,
        f"{text!r} is not a pool name of a known form",
        context=FORMS,
        hint=did_you_mean(text, STUDY, f"the study's: {', '.join(STUDY)}"),
    )


def is_pool_name(text: str) -> bool:
    return _parse_name(text) is not None


def _parse_name(text: str) -> PoolName | None:
    found = _PATTERN.fullmatch(text)
    if found is None:
        return None
    if found["k"]:
        k, m = int(found["k"]), int(found["m"])
        if k < 2 or k + m > _MOST_CHUNKS:
            return None
        return PoolName(text=text, kind=Kind.ERASURE, size=k + m, k=k, m=m)
    size, suffix = int(found["size"]), found["suffix"]
    if size > _MOST_COPIES or (found["cephfs"] and suffix):
        return None
    if size == 1 and (found["cephfs"] or suffix):
        return None
    if found["cephfs"]:
        kind = Kind.CEPHFS
    else:
        kinds = {"-virt": Kind.VIRTUAL, "-enc": Kind.ENCRYPTED, "-luks": Kind.LUKS}
        kind = kinds.get(suffix, Kind.REPLICATED)
    return PoolName(text=text, kind=kind, size=size)


# All pools of a cluster get one failure domain: the highest CRUSH level below root and region, down
# to host, with three buckets that have OSDs up and in; else with two; on a single host the OSD.
OSD = "osd"
_ABOVE = ("root", "region")
# Fewer placement groups give uneven data; more make small clusters slow to peer.
_LEAST_PGS, _MOST_PGS = 16, 128
# The pools of the study: a single pool gets as many placement groups as it would get with them.
_POOLS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where pools are placed: below `root`, on OSDs of `device_class` (None: any), each copy in its
    own bucket of `domain`. `counts` has the buckets of each level, from the highest."""

    root: str
    device_class: str | None
    domain: str
    counts: Mapping[str, int]

    @property
    def buckets(self) -> int:
        return self.counts.get(self.domain, 0)

    def describe_buckets(self, *, osds: bool) -> str:
        """Return, for example, `3 zones, 6 hosts`, with the OSDs where asked."""
        shown = [(level, count) for level, count in self.counts.items() if osds or level != OSD]
        return ", ".join(counted(count, level) for level, count in shown) or "none"


def counted(count: int, level: str) -> str:
    """Format a number of buckets: `3 zones`."""
    word = "OSD" if level == OSD else level
    return f"{count} {word}{'' if count == 1 else 's'}"


def _is_below(osd: Osd, root: str) -> bool:
    return bool(osd.location) and osd.location[0].name == root


def _size(osds: Iterable[Osd]) -> float:
    return sum(osd.weight or 0.0 for osd in osds)


def _serving(osds: Iterable[Osd]) -> list[Osd]:
    return [osd for osd in osds if osd.up and osd.is_in and osd.weight]


def osds_on(inventory: CephInventory, placement: Placement) -> list[Osd]:
    here = [osd for osd in _serving(inventory.osds) if _is_below(osd, placement.root)]
    return [osd for osd in here if placement.device_class in (None, osd.device_class)]


def bucket_counts(inventory: CephInventory, root: str, osds: Collection[Osd]) -> dict[str, int]:
    """Count the buckets with OSDs up and in per level below root and region, highest first."""
    serving = _serving(osds)
    levels = next(tree.levels for tree in inventory.crush if tree.name == root)
    wanted = [level.level for level in levels[1:] if level.level not in (*_ABOVE, OSD)]
    found = {level: len({osd.at(level) for osd in serving} - {None}) for level in wanted}
    return {level: count for level, count in found.items() if count} | {OSD: len(serving)}


def highest_level(counts: Mapping[str, int], otherwise: str) -> str:
    """Return the first level of `counts` with three buckets, else with two."""
    for least in (3, 2):
        for level, count in counts.items():
            if level != OSD and count >= least:
                return level
    return otherwise


def choose_placement(inventory: CephInventory) -> tuple[Placement | None, tuple[str, ...]]:
    """Return the root and device class with the most capacity, with notes about the choice."""
    serving = _serving(inventory.osds)
    serving_roots = {osd.location[0].name for osd in serving if osd.location}
    roots = [root.name for root in inventory.crush if root.name in serving_roots]
    if not roots:
        return None, ()
    notes = []
    root = max(roots, key=lambda name: _size(osd for osd in serving if _is_below(osd, name)))
    if len(roots) > 1:
        notes.append(f"of the roots {', '.join(roots)} pools are made below {root}, the largest")
    here = [osd for osd in serving if _is_below(osd, root)]
    classes = sorted({osd.device_class for osd in here if osd.device_class})
    rules = [pool.rule for pool in inventory.pools if pool.rule and pool.rule.root == root]
    chosen: str | None = None
    if len(classes) > 1:
        chosen = max(
            classes, key=lambda name: _size(osd for osd in here if osd.device_class == name)
        )
        notes.append(
            f"of the device classes {', '.join(classes)} pools are made on {chosen}, which has "
            "the most capacity"
        )
    elif rules and classes and all(rule.device_class == classes[0] for rule in rules):
        # A rule for any class would overlap with these, and the autoscaler stops for both.
        chosen = classes[0]
    overlapping = sorted({rule.name for rule in rules if rule.device_class is None})
    if chosen is not None and overlapping:
        notes.append(
            f"rules for any device class overlap with those for {chosen} "
            f"({', '.join(overlapping)}): the autoscaler leaves pools of both alone"
        )
    kept = [osd for osd in here if chosen in (None, osd.device_class)]
    counts = bucket_counts(inventory, root, kept)
    domain = highest_level(counts, OSD)
    placement = Placement(root=root, device_class=chosen, domain=domain, counts=counts)
    return placement, tuple(notes)


def setting(inventory: CephInventory, name: str) -> str | None:
    """Return a setting of the monitors: their file has priority over the database."""
    in_files = [entry for entry in inventory.file_settings or () if entry.name == name]
    in_files.sort(key=lambda entry: not entry.daemon.startswith("mon"))
    stored = [entry for entry in inventory.configuration or () if entry.name == name]
    stored.sort(key=lambda entry: entry.section == "global")
    values = [entry.value for entry in in_files]
    values += [entry.value for entry in stored if entry.section in ("mon", "global")]
    return values[0] if values else None


def is_autoscaled(inventory: CephInventory) -> bool:
    """Return whether the autoscaler sizes a new pool; its default mode is `on` since Octopus."""
    if inventory.autoscaler.no_autoscale:
        return False
    mode = setting(inventory, "osd_pool_default_pg_autoscale_mode")
    if mode is None:
        return inventory.version_number >= (15,)
    return mode == Mode.ON.value


def compute_pg_num(inventory: CephInventory, placement: Placement, size: int, count: int) -> int:
    """Return the placement groups of each of `count` new pools: an even share, at most a fifth, of
    the autoscaler's budget that other pools leave. A power of two between 16 and 128."""
    budget = len(osds_on(inventory, placement)) * inventory.autoscaler.target_pg_per_osd
    taken = sum(
        pool.pg_num_target * pool.size
        for pool in inventory.pools
        if pool.rule is None
        or (
            pool.rule.root == placement.root
            and (None in (pool.rule.device_class, placement.device_class)
                 or pool.rule.device_class == placement.device_class)
        )
    )  # fmt: skip
    raw = max(0, budget - taken) / max(count, _POOLS) / size
    return min(_MOST_PGS, max(_LEAST_PGS, nearest_power_of_two(raw)))


PREFIX = "leadline-"
OWNER_KEY = "leadline.owner"
RBD = "rbd"
CEPHFS = "cephfs"


class Act(StrEnum):
    """What `leadline pools create` does with a name."""

    CREATE = "create"
    EXISTS = "exists"
    FOREIGN = "exists, not made by Leadline"
    SAME = "same as another"
    SKIP = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRecipe:
    """A pool to create. `pg_num` None: the autoscaler sizes it. `filesystem` is set for a CephFS
    data pool; `metadata_pool` holds the images whose data goes to an erasure-coded pool."""

    name: PoolName
    placement: Placement
    pg_num: int | None
    options: PoolOptions = DEFAULT_OPTIONS
    filesystem: str | None = None
    metadata_pool: str | None = None

    @property
    def mark(self) -> str:
        """The name of its CRUSH rule, and of its erasure-code profile."""
        return PREFIX + self.name.text

    @property
    def application(self) -> str:
        return CEPHFS if self.filesystem else RBD


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The act for a pool and its reason; `recipe` for Act.CREATE only."""

    name: str
    act: Act
    reason: str
    recipe: PoolRecipe | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Pools that Leadline created. `finished` pools carry the label. `unfinished` pools use the
    CRUSH rule created for them: the process was killed before it set the label."""

    finished: frozenset[str] = frozenset()
    unfinished: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Decisions in the order of the names, with notes about the cluster."""

    decisions: tuple[Decision, ...]
    notes: tuple[str, ...]

    @property
    def recipes(self) -> tuple[PoolRecipe, ...]:
        """The pools to create, replicated pools first: images on erasure-coded pools need one."""
        found = [decision.recipe for decision in self.decisions if decision.recipe is not None]
        return tuple(sorted(found, key=lambda recipe: recipe.name.kind is Kind.ERASURE))


def read_marks(pools: Iterable[Mapping[str, Any]], rules: Iterable[Mapping[str, Any]]) -> Marks:
    """Read the marks from the pools of `osd dump` and the rules of `osd crush rule dump`."""
    names = {rule["rule_id"]: rule["rule_name"] for rule in rules}
    finished, unfinished = set(), set()
    for pool in pools:
        name = pool["pool_name"]
        if owner_of(pool):
            finished.add(name)
        elif names.get(pool["crush_rule"]) == PREFIX + name:
            unfinished.add(name)
    return Marks(finished=frozenset(finished), unfinished=frozenset(unfinished))


def owner_of(pool: Mapping[str, Any]) -> str | None:
    labels = pool.get("application_metadata", {}).values()
    return next((str(keys[OWNER_KEY]) for keys in labels if OWNER_KEY in keys), None)


def decide(
    names: Sequence[PoolName],
    inventory: CephInventory,
    marks: Marks,
    *,
    filesystem: str | None = None,
    options: PoolOptions = DEFAULT_OPTIONS,
) -> Answer:
    """Decide what to do with each name on a cluster. Raises LeadlineError(`usage`) for a file
    system that the cluster does not have."""
    return _Decisions(inventory, marks, filesystem, options).answer(names)


class Impossible(Exception):
    """A pool cannot be created, for this reason."""


class _Decisions:
    def __init__(
        self, inventory: CephInventory, marks: Marks, filesystem: str | None, options: PoolOptions
    ) -> None:
        self._inventory = inventory
        self._marks = marks
        self._filesystem = filesystem
        self._options = options
        self._require_filesystem()
        self._placement, self._notes = choose_placement(inventory)

    def answer(self, names: Sequence[PoolName]) -> Answer:
        found: dict[str, Decision] = {}
        for name in {name.text: name for name in names}.values():
            found[name.text] = self._decision(name)
            if name.kind is Kind.VIRTUAL and name.base not in {name.text for name in names}:
                found[name.base] = self._decision(pool_name(name.base))
        self._add_metadata_pool(found)
        count = sum(decision.recipe is not None for decision in found.values())
        decisions = tuple(self._with_pgs(decision, count) for decision in found.values())
        return Answer(decisions=decisions, notes=self._notes)

    def _decision(self, name: PoolName) -> Decision:
        if name.kind is Kind.VIRTUAL:
            reason = (
                f"is the pool {name.base}: only the features of its images differ "
                f"(rbd:{name.base}?features=virtualization)"
            )
            return Decision(name=name.text, act=Act.SAME, reason=reason)
        if name.kind is Kind.LUKS:
            reason = "the CSI driver of Kubernetes encrypts volumes: --kube"
            return Decision(name=name.text, act=Act.SKIP, reason=reason)
        there = self._inventory.pool(name.text)
        if there is not None and name.text in self._marks.finished:
            return Decision(name=name.text, act=Act.EXISTS, reason=_describe(there))
        if there is not None and name.text not in self._marks.unfinished:
            return Decision(name=name.text, act=Act.FOREIGN, reason=_describe(there))
        try:
            made = self._recipe(name)
        except Impossible as impossible:
            return Decision(name=name.text, act=Act.SKIP, reason=str(impossible))
        where = (
            f"{made.name.redundancy}, over {counted(made.placement.buckets, made.placement.domain)}"
        )
        if made.filesystem:
            where += f", for the file system {made.filesystem}"
        return Decision(name=name.text, act=Act.CREATE, reason=where, recipe=made)

    def _recipe(self, name: PoolName) -> PoolRecipe:
        """Return the recipe of a pool. Raises Impossible."""
        placement = self._placement
        if placement is None:
            raise Impossible("the cluster has no OSD that is up, in and placed in CRUSH")
        if name.kind is Kind.ENCRYPTED:
            placement = self._encrypted(placement)
        filesystem = self._chosen_filesystem() if name.kind is Kind.CEPHFS else None
        erasure = name.kind is Kind.ERASURE
        if placement.buckets < name.size or (erasure and placement.domain == OSD):
            whose = "encrypted OSDs are in" if name.kind is Kind.ENCRYPTED else "the cluster has"
            buckets = placement.describe_buckets(osds=placement.domain == OSD and not erasure)
            raise Impossible(f"{name.text} needs {name.size} failure domains; {whose} {buckets}")
        if erasure:
            self._require_overwrites(placement)
        if name.size == 1:
            self._require_consent()
        if self._options.target_ratio is not None and self._inventory.autoscaler.no_autoscale:
            raise Impossible("a target ratio has no effect: the flag noautoscale is set")
        return PoolRecipe(
            name=name,
            placement=placement,
            pg_num=self._options.pg_num,
            options=self._options,
            filesystem=filesystem,
        )

    def _require_consent(self) -> None:
        """Require the user's consent and Ceph's own permission; Leadline does not change that."""
        if not self._options.no_redundancy:
            raise Impossible(NO_CONSENT)
        permitted = setting(self._inventory, "mon_allow_pool_size_one") or "false"
        if permitted.lower() not in ("true", "1", "yes"):
            raise Impossible(
                "the cluster forbids pools of size 1 (`ceph config set global "
                "mon_allow_pool_size_one true` permits them)"
            )

    def _require_filesystem(self) -> None:
        known = [filesystem.name for filesystem in self._inventory.filesystems or ()]
        if self._filesystem is not None and self._filesystem not in known:
            raise LeadlineError(
                errors.USAGE,
                f"the cluster has no file system {self._filesystem!r}",
                context=[f"its file systems: {', '.join(known) or 'none'}"],
            )

    def _chosen_filesystem(self) -> str:
        known = [filesystem.name for filesystem in self._inventory.filesystems or ()]
        if self._filesystem is not None:
            return self._filesystem
        if self._inventory.filesystems is None:
            raise Impossible("it is unknown whether the cluster has a CephFS")
        if not known:
            raise Impossible("the cluster has no CephFS")
        if len(known) > 1:
            several = f"{len(known)} file systems ({', '.join(known)})"
            raise Impossible(f"the cluster has {several}: --filesystem")
        return known[0]

    def _encrypted(self, main: Placement) -> Placement:
        """Return a placement whose OSDs, also those that are down, are all on dm-crypt. A CRUSH
        rule selects OSDs by root and class only."""
        osds = self._inventory.osds
        safe = [osd for osd in osds if osd.dm_crypt is Crypt.YES]
        if not safe:
            raise Impossible(
                "no OSD is known to be on dm-crypt: the monitors keep no such keys and no device "
                "has such a name (an operator such as Rook may keep keys elsewhere)"
            )
        others = [tree.name for tree in self._inventory.crush if tree.name != main.root]
        for root in [main.root, *others]:
            below = [osd for osd in osds if _is_below(osd, root)]
            classes = sorted({osd.device_class for osd in below if osd.device_class})
            wanted = [main.device_class, None, *classes] if root == main.root else [None, *classes]
            for device_class in wanted:
                here = [osd for osd in below if device_class in (None, osd.device_class)]
                if here and all(osd.dm_crypt is Crypt.YES for osd in here):
                    counts = bucket_counts(self._inventory, root, here)
                    return replace(main, root=root, device_class=device_class, counts=counts)
        raise Impossible(
            f"{len(safe)} of {len(osds)} OSDs are on dm-crypt, but no root and no device class has "
            "only these, so no CRUSH rule can select them"
        )

    def _require_overwrites(self, placement: Placement) -> None:
        on = osds_on(self._inventory, placement)
        other = [osd for osd in on if osd.store not in (None, "bluestore")]
        lifted = setting(self._inventory, "mon_debug_no_require_bluestore_for_ec_overwrites")
        if other and lifted != "true":
            first = other[0]
            raise Impossible(f"overwrites need BlueStore, and osd.{first.id} has {first.store}")

    def _add_metadata_pool(self, found: dict[str, Decision]) -> None:
        """Give erasure-coded pools a pool for the metadata of images: the first replicated RBD pool
        that exists or is planned, else a new one."""
        erasure = [
            planned for planned in found.values() if planned.recipe and planned.recipe.name.k
        ]
        if not erasure:
            return
        metadata = self._first_replicated(found)
        for name in ("rep3", "rep2"):
            if metadata is None and name not in found:
                extra = self._decision(pool_name(name))
                if extra.act is Act.CREATE:
                    reason = f"{extra.reason}; for the metadata of images on {erasure[0].name}"
                    found[name] = replace(extra, reason=reason)
                    metadata = name
        for planned in erasure:
            name = planned.name
            assert planned.recipe is not None
            if metadata is None:
                reason = "there is no replicated pool for the metadata of its images"
                found[name] = Decision(name=name, act=Act.SKIP, reason=reason)
                continue
            use = f"{planned.reason}; use it as rbd:{metadata}?data_pool={name}"
            recipe = replace(planned.recipe, metadata_pool=metadata)
            found[name] = replace(planned, reason=use, recipe=recipe)

    def _first_replicated(self, found: Mapping[str, Decision]) -> str | None:
        existing = [
            pool.name
            for pool in self._inventory.pools
            if pool.type is PoolType.REPLICATED and RBD in pool.applications and pool.size > 1
        ]
        planned = [
            decision.name
            for decision in found.values()
            if decision.recipe
            and decision.recipe.name.kind in (Kind.REPLICATED, Kind.ENCRYPTED)
            and decision.recipe.name.size > 1
        ]
        return next(iter([*existing, *planned]), None)

    def _with_pgs(self, decision: Decision, count: int) -> Decision:
        if decision.recipe is None or decision.recipe.pg_num is not None:
            return decision
        if self._options.target_ratio is not None or is_autoscaled(self._inventory):
            return decision
        pg_num = compute_pg_num(
            self._inventory, decision.recipe.placement, decision.recipe.name.size, count
        )
        return replace(decision, recipe=replace(decision.recipe, pg_num=pg_num))


def _describe(pool: Pool) -> str:
    if pool.erasure is not None:
        kind = f"erasure-coded {pool.erasure.k}+{pool.erasure.m}"
    else:
        kind = f"replicated, size {pool.size}"
    domain = pool.rule.failure_domain if pool.rule else None
    return f"{kind}, failure domain {domain or 'unknown'}"
