"""The pools of the study: from their names, and from what a cluster is, to recipes, or the reason
why a pool cannot be had. Pure.

A pool that needs more failure domains than the cluster has (leadline.ceph.pool_ground) is skipped,
never placed at a lower level: pools with other failure domains survive other failures, and what
they cost cannot be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from leadline import errors
from leadline.ceph.pool_ground import (
    OSD,
    Ground,
    autoscaled,
    bucket_counts,
    counted,
    main_ground,
    osds_on,
    pg_num_for,
    setting,
    stands_below,
)
from leadline.ceph.pool_names import Kind, PoolName, pool_name
from leadline.errors import LeadlineError
from leadline.inventory.ceph import CephInventory, Crypt, Pool, PoolType

PREFIX = "leadline-"
OWNER_KEY = "leadline.owner"
RBD = "rbd"
CEPHFS = "cephfs"


class Act(StrEnum):
    """What becomes of a name."""

    CREATE = "create"
    EXISTS = "exists"
    FOREIGN = "exists, not made by Leadline"
    SAME = "same as another"
    SKIP = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRecipe:
    """A pool to be made. `pg_num` None: the autoscaler's. `filesystem` of a CephFS data pool;
    `metadata_pool` holds the images whose data goes to an erasure-coded pool."""

    name: PoolName
    ground: Ground
    pg_num: int | None
    filesystem: str | None = None
    metadata_pool: str | None = None

    @property
    def mark(self) -> str:
        """The name of its CRUSH rule, and of its erasure-code profile."""
        return PREFIX + self.name.text

    @property
    def application(self) -> str:
        return CEPHFS if self.filesystem else RBD

    @property
    def min_size(self) -> int:
        """Ceph's own default, said aloud since a cluster may have configured another: of two
        copies one must do, of three two; of k + 1 chunks k."""
        if self.name.kind is Kind.ERASURE:
            return self.name.k + min(1, self.name.m - 1)
        return self.name.size - self.name.size // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of a pool and why; `recipe` for Act.CREATE only."""

    name: str
    act: Act
    reason: str
    recipe: PoolRecipe | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Pools that Leadline made: those that are `finished` carry the label; `unfinished` ones stand
    on the rule made for them, and whoever made them was killed before the label."""

    finished: frozenset[str] = frozenset()
    unfinished: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Decisions in the order of the names; `notes` are sentences about the cluster."""

    decisions: tuple[Decision, ...]
    notes: tuple[str, ...]

    @property
    def recipes(self) -> tuple[PoolRecipe, ...]:
        """What is to be made, replicated pools first: images on the others need one."""
        found = [one.recipe for one in self.decisions if one.recipe is not None]
        return tuple(sorted(found, key=lambda recipe: recipe.name.kind is Kind.ERASURE))


def marks_of(pools: Iterable[Mapping[str, Any]], rules: Iterable[Mapping[str, Any]]) -> Marks:
    """From the pools of `osd dump` and `osd crush rule dump`."""
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
    """The label of a pool of `osd dump`."""
    labels = pool.get("application_metadata", {}).values()
    return next((str(keys[OWNER_KEY]) for keys in labels if OWNER_KEY in keys), None)


def decide(
    names: Sequence[PoolName],
    inventory: CephInventory,
    marks: Marks,
    *,
    filesystem: str | None = None,
) -> Answer:
    """What to make of the names on a cluster.

    Raises LeadlineError(`usage`) for a filesystem that the cluster does not have.
    """
    return _Deciding(inventory, marks, filesystem).answer(names)


class _Deciding:
    def __init__(self, inventory: CephInventory, marks: Marks, filesystem: str | None) -> None:
        self._inventory = inventory
        self._marks = marks
        self._filesystem = filesystem
        self._require_filesystem()
        self._ground, self._notes = main_ground(inventory)

    def answer(self, names: Sequence[PoolName]) -> Answer:
        found: dict[str, Decision] = {}
        for name in _without_repeats(names):
            found[name.text] = self._decision(name)
            if name.kind is Kind.VIRTUAL and name.base not in {one.text for one in names}:
                found[name.base] = self._decision(pool_name(name.base))
        self._add_metadata_pool(found)
        made = [one for one in found.values() if one.recipe is not None]
        decisions = tuple(self._with_pgs(one, len(made)) for one in found.values())
        return Answer(decisions=decisions, notes=self._notes)

    def _decision(self, name: PoolName) -> Decision:
        if name.kind is Kind.VIRTUAL:
            reason = (
                f"is the pool {name.base}: only the features of its images differ "
                f"(rbd:{name.base}?features=virtualization)"
            )
            return Decision(name=name.text, act=Act.SAME, reason=reason)
        there = self._inventory.pool(name.text)
        if there is not None and name.text in self._marks.finished:
            return Decision(name=name.text, act=Act.EXISTS, reason=_told(there))
        if there is not None and name.text not in self._marks.unfinished:
            return Decision(name=name.text, act=Act.FOREIGN, reason=_told(there))
        made = self._recipe(name)
        if isinstance(made, str):
            return Decision(name=name.text, act=Act.SKIP, reason=made)
        where = f"{made.name.described}, over {counted(made.ground.buckets, made.ground.domain)}"
        if made.filesystem:
            where += f", for the file system {made.filesystem}"
        return Decision(name=name.text, act=Act.CREATE, reason=where, recipe=made)

    def _recipe(self, name: PoolName) -> PoolRecipe | str:
        """A pool to be made, or why it cannot be had."""
        ground, filesystem = self._ground, None
        if ground is None:
            return "the cluster has no OSD that is up, in and has a place in CRUSH"
        if name.kind is Kind.ENCRYPTED:
            encrypted = self._encrypted(ground)
            if isinstance(encrypted, str):
                return encrypted
            ground = encrypted
        if name.kind is Kind.CEPHFS:
            chosen = self._chosen_filesystem()
            if not chosen[0]:
                return chosen[1]
            filesystem = chosen[1]
        erasure = name.kind is Kind.ERASURE
        if ground.buckets < name.size or (erasure and ground.domain == OSD):
            whose = "encrypted OSDs are in" if name.kind is Kind.ENCRYPTED else "the cluster has"
            told = ground.told(osds=ground.domain == OSD and not erasure)
            return f"{name.text} needs {name.size} failure domains; {whose} {told}"
        if erasure:
            unfit = self._without_overwrites(ground)
            if unfit:
                return unfit
        return PoolRecipe(name=name, ground=ground, pg_num=None, filesystem=filesystem)

    def _require_filesystem(self) -> None:
        known = [one.name for one in self._inventory.filesystems or ()]
        if self._filesystem is not None and self._filesystem not in known:
            raise LeadlineError(
                errors.USAGE,
                f"the cluster has no file system {self._filesystem!r}",
                context=[f"its file systems: {', '.join(known) or 'none'}"],
            )

    def _chosen_filesystem(self) -> tuple[bool, str]:
        """(True, its name) or (False, the reason)."""
        known = [one.name for one in self._inventory.filesystems or ()]
        if self._filesystem is not None:
            return True, self._filesystem
        if self._inventory.filesystems is None:
            return False, "the cluster does not say whether it has a CephFS"
        if not known:
            return False, "the cluster has no CephFS"
        if len(known) > 1:
            several = ", ".join(known)
            return False, f"the cluster has {len(known)} file systems ({several}): --filesystem"
        return True, known[0]

    def _encrypted(self, main: Ground) -> Ground | str:
        """The ground all of whose OSDs, those that are down too, are on dm-crypt: a CRUSH rule
        can tell OSDs apart by root and class only."""
        osds = self._inventory.osds
        safe = [osd for osd in osds if osd.dm_crypt is Crypt.YES]
        if not safe:
            return (
                "no OSD is known to be on dm-crypt: the monitors keep no such keys and no device "
                "is named so (an operator such as Rook may keep keys elsewhere)"
            )
        others = [one.name for one in self._inventory.crush if one.name != main.root]
        for root in [main.root, *others]:
            below = [osd for osd in osds if stands_below(osd, root)]
            classes = sorted({osd.device_class for osd in below if osd.device_class})
            wanted = [main.device_class, None, *classes] if root == main.root else [None, *classes]
            for device_class in wanted:
                here = [osd for osd in below if device_class in (None, osd.device_class)]
                if here and all(osd.dm_crypt is Crypt.YES for osd in here):
                    counts = bucket_counts(self._inventory, root, here)
                    return replace(main, root=root, device_class=device_class, counts=counts)
        return (
            f"{len(safe)} of {len(osds)} OSDs are on dm-crypt, but no root and no device class has "
            "only such, so no CRUSH rule can choose them"
        )

    def _without_overwrites(self, ground: Ground) -> str | None:
        """Why erasure coding with overwrites is refused here."""
        on = osds_on(self._inventory, ground)
        other = [osd for osd in on if osd.store not in (None, "bluestore")]
        lifted = setting(self._inventory, "mon_debug_no_require_bluestore_for_ec_overwrites")
        if not other or lifted == "true":
            return None
        return f"overwrites need BlueStore, and osd.{other[0].id} has {other[0].store}"

    def _add_metadata_pool(self, found: dict[str, Decision]) -> None:
        """Give erasure-coded pools the pool for the metadata of images: the first replicated one
        for RBD that there is or will be, else one that is made with them."""
        erasure = [one for one in found.values() if one.recipe and one.recipe.name.k]
        if not erasure:
            return
        metadata = self._first_replicated(found)
        for name in ("rep3", "rep2"):
            if metadata is None and name not in found:
                with_it = self._decision(pool_name(name))
                if with_it.act is Act.CREATE:
                    told = f"{with_it.reason}; for the metadata of images on {erasure[0].name}"
                    found[name] = replace(with_it, reason=told)
                    metadata = name
        for one in erasure:
            assert one.recipe is not None, "chosen so"
            if metadata is None:
                reason = "there is no replicated pool for the metadata of its images"
                found[one.name] = Decision(name=one.name, act=Act.SKIP, reason=reason)
                continue
            use = f"{one.reason}; use it as rbd:{metadata}?data_pool={one.name}"
            recipe = replace(one.recipe, metadata_pool=metadata)
            found[one.name] = replace(one, reason=use, recipe=recipe)

    def _first_replicated(self, found: Mapping[str, Decision]) -> str | None:
        there = [
            pool.name
            for pool in self._inventory.pools
            if pool.type is PoolType.REPLICATED and RBD in pool.applications
        ]
        coming = [
            one.name
            for one in found.values()
            if one.recipe and one.recipe.name.kind in (Kind.REPLICATED, Kind.ENCRYPTED)
        ]
        return next(iter([*there, *coming]), None)

    def _with_pgs(self, decision: Decision, made: int) -> Decision:
        if decision.recipe is None or autoscaled(self._inventory):
            return decision
        pg_num = pg_num_for(
            self._inventory, decision.recipe.ground, decision.recipe.name.size, made
        )
        return replace(decision, recipe=replace(decision.recipe, pg_num=pg_num))


def _without_repeats(names: Sequence[PoolName]) -> list[PoolName]:
    return list({name.text: name for name in names}.values())


def _told(pool: Pool) -> str:
    """A pool that there is."""
    if pool.erasure is not None:
        kind = f"erasure-coded {pool.erasure.k}+{pool.erasure.m}"
    else:
        kind = f"replicated, size {pool.size}"
    domain = pool.rule.failure_domain if pool.rule else None
    return f"{kind}, failure domain {domain or 'unknown'}"
