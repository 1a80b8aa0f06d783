"""The pools of the study: from their names, and from what a cluster is, to recipes, or the reason
why a pool cannot be had. Pure.

A pool that needs more failure domains than the cluster has (leadline.pools.recipes) is skipped,
never placed at a lower level: pools with other failure domains survive other failures, and what
they cost cannot be compared.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.ceph.autoscaler import Mode, nearest_power_of_two
from leadline.inventory.ceph.model import CephInventory, Crypt, Osd, Pool, PoolType

# Names of pools that say what the pool is: `rep3`, `ec-2-1`, `cephfs-rep2`, `rep3-virt`. Pure.

# The pools of the published study, in its order.
STUDY = ("rep3", "rep3-virt", "rep3-enc", "rep2", "cephfs-rep3", "cephfs-rep2", "ec-2-1")
FORMS = (
    "repN          N copies of everything, for RBD (N from 2 to 10)",
    "ec-K-M        K data and M coding chunks, for the data of RBD images",
    "cephfs-repN   N copies, a further data pool of the cluster's CephFS",
    "repN-virt     repN, whose images have the features of virtual machines' disks",
    "repN-enc      repN on OSDs with dm-crypt",
)
_MOST_COPIES, _MOST_CHUNKS = 10, 32
_PATTERN = re.compile(
    r"(?P<cephfs>cephfs-)?rep(?P<size>[1-9]\d?)(?P<suffix>-virt|-enc)?|ec-(?P<k>[1-9]\d?)-(?P<m>[1-9]\d?)"
)


class Kind(StrEnum):
    REPLICATED = "replicated"
    ERASURE = "erasure"
    CEPHFS = "cephfs"
    VIRTUAL = "virtual"
    ENCRYPTED = "encrypted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolName:
    """A name taken apart. `size` is k + m of erasure coding; `k` and `m` are 0 otherwise."""

    text: str
    kind: Kind
    size: int
    k: int = 0
    m: int = 0

    @property
    def base(self) -> str:
        """The replicated pool of which a `-virt` or `-enc` name is a variant."""
        return f"rep{self.size}"

    @property
    def described(self) -> str:
        if self.kind is Kind.ERASURE:
            return f"erasure-coded {self.k}+{self.m}"
        return f"replicated, size {self.size}"


def pool_name(text: str) -> PoolName:
    """Raises LeadlineError(`usage`) with the forms that there are and the nearest name."""
    found = _parsed(text)
    if found is not None:
        return found
    near = difflib.get_close_matches(text, STUDY, n=1)
    raise LeadlineError(
        errors.USAGE,
        f"{text!r} is no name that says what the pool is",
        context=FORMS,
        hint=f"did you mean {near[0]!r}?" if near else f"the study's: {', '.join(STUDY)}",
    )


def is_pool_name(text: str) -> bool:
    return _parsed(text) is not None


def _parsed(text: str) -> PoolName | None:
    found = _PATTERN.fullmatch(text)
    if found is None:
        return None
    if found["k"]:
        k, m = int(found["k"]), int(found["m"])
        if k < 2 or k + m > _MOST_CHUNKS:
            return None
        return PoolName(text=text, kind=Kind.ERASURE, size=k + m, k=k, m=m)
    size, suffix = int(found["size"]), found["suffix"]
    if not 2 <= size <= _MOST_COPIES or (found["cephfs"] and suffix):
        return None
    if found["cephfs"]:
        kind = Kind.CEPHFS
    else:
        kind = {None: Kind.REPLICATED, "-virt": Kind.VIRTUAL, "-enc": Kind.ENCRYPTED}[suffix]
    return PoolName(text=text, kind=kind, size=size)


# Where pools of the study are placed on a cluster, and with how many placement groups. Pure.
#  One failure domain holds for all pools of a cluster: of the CRUSH levels below root and region,
# down to host, the highest with three buckets that hold OSDs up and in; where no level has three,
# the highest with two; on a single host the OSD.

OSD = "osd"
_ABOVE = ("root", "region")
# With fewer placement groups data lies unevenly; with more, small clusters are slow to peer.
_LEAST_PGS, _MOST_PGS = 16, 128
# Of the study: a pool gets as many alone as with the others, else they could not be compared.
_POOLS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where pools are placed: below `root`, on OSDs of `device_class` (None: of any), each copy in
    a bucket of `domain` of its own. `counts` has the buckets of each level, from the highest."""

    root: str
    device_class: str | None
    domain: str
    counts: Mapping[str, int]

    @property
    def buckets(self) -> int:
        return self.counts.get(self.domain, 0)

    def told(self, *, osds: bool) -> str:
        """`3 zones, 6 hosts`, and the OSDs."""
        shown = [(level, count) for level, count in self.counts.items() if osds or level != OSD]
        return ", ".join(counted(count, level) for level, count in shown) or "none"


def counted(count: int, level: str) -> str:
    word = "OSD" if level == OSD else level
    return f"{count} {word}{'' if count == 1 else 's'}"


def stands_below(osd: Osd, root: str) -> bool:
    """Below the root of a name."""
    return bool(osd.location) and osd.location[0].name == root


def _size(osds: Iterable[Osd]) -> float:
    """Capacity in TiB by custom: CRUSH's weight."""
    return sum(osd.weight or 0.0 for osd in osds)


def _serving(osds: Iterable[Osd]) -> list[Osd]:
    return [osd for osd in osds if osd.up and osd.is_in and osd.weight]


def osds_on(inventory: CephInventory, ground: Ground) -> list[Osd]:
    here = [osd for osd in _serving(inventory.osds) if stands_below(osd, ground.root)]
    return [osd for osd in here if ground.device_class in (None, osd.device_class)]


def bucket_counts(inventory: CephInventory, root: str, osds: Collection[Osd]) -> dict[str, int]:
    """Buckets with OSDs up and in, by level below root and region, from the highest."""
    serving = _serving(osds)
    levels = next(item.levels for item in inventory.crush if item.name == root)
    wanted = [level.level for level in levels[1:] if level.level not in (*_ABOVE, OSD)]
    found = {level: len({osd.at(level) for osd in serving} - {None}) for level in wanted}
    return {level: count for level, count in found.items() if count} | {OSD: len(serving)}


def _domain(counts: Mapping[str, int]) -> str:
    for least in (3, 2):
        for level, count in counts.items():
            if level != OSD and count >= least:
                return level
    return OSD


def main_ground(inventory: CephInventory) -> tuple[Ground | None, tuple[str, ...]]:
    """The root and device class of most capacity, with what is to be said of them."""
    serving = _serving(inventory.osds)
    serving_roots = {osd.location[0].name for osd in serving if osd.location}
    roots = [root.name for root in inventory.crush if root.name in serving_roots]
    if not roots:
        return None, ()
    notes = []
    root = max(roots, key=lambda name: _size(osd for osd in serving if stands_below(osd, name)))
    if len(roots) > 1:
        notes.append(f"of the roots {', '.join(roots)} pools are made below {root}, the largest")
    here = [osd for osd in serving if stands_below(osd, root)]
    classes = sorted({osd.device_class for osd in here if osd.device_class})
    rules = [pool.rule for pool in inventory.pools if pool.rule and pool.rule.root == root]
    chosen: str | None = None
    if len(classes) > 1:
        chosen = max(
            classes, key=lambda item: _size(osd for osd in here if osd.device_class == item)
        )
        notes.append(
            f"of the device classes {', '.join(classes)} pools are made on {chosen}, which has "
            "the most capacity"
        )
    elif rules and classes and all(rule.device_class == classes[0] for rule in rules):
        # A rule for any class would overlap theirs, and the autoscaler stops for both.
        chosen = classes[0]
    overlapping = sorted({rule.name for rule in rules if rule.device_class is None})
    if chosen is not None and overlapping:
        notes.append(
            f"rules for any device class overlap with those for {chosen} "
            f"({', '.join(overlapping)}): the autoscaler leaves pools of both alone"
        )
    kept = [osd for osd in here if chosen in (None, osd.device_class)]
    counts = bucket_counts(inventory, root, kept)
    ground = Ground(root=root, device_class=chosen, domain=_domain(counts), counts=counts)
    return ground, tuple(notes)


def setting(inventory: CephInventory, name: str) -> str | None:
    """What a monitor has it set to: its file goes before the database."""
    shown = [
        file_setting for file_setting in inventory.file_settings or () if file_setting.name == name
    ]
    shown.sort(key=lambda item: not item.daemon.startswith("mon"))
    stored = [item for item in inventory.configuration or () if item.name == name]
    stored.sort(key=lambda item: item.section == "global")
    values = [item.value for item in shown]
    values += [item.value for item in stored if item.section in ("mon", "global")]
    return values[0] if values else None


def autoscaled(inventory: CephInventory) -> bool:
    """Whether a new pool's placement groups are the autoscaler's business; its mode is `on` by
    default since Octopus."""
    if inventory.autoscaler.no_autoscale:
        return False
    mode = setting(inventory, "osd_pool_default_pg_autoscale_mode")
    if mode is None:
        return inventory.version_number >= (15,)
    return mode == Mode.ON.value


def pg_num_for(inventory: CephInventory, ground: Ground, size: int, made: int) -> int:
    """An even part for each of `made` pools, and no more than a fifth, of the PG replicas that
    other pools leave of the autoscaler's budget; rounded to a power of two as it rounds, and
    between 16 and 128."""
    budget = len(osds_on(inventory, ground)) * inventory.autoscaler.target_pg_per_osd
    taken = sum(
        pool.pg_num_target * pool.size
        for pool in inventory.pools
        if pool.rule is None
        or (
            pool.rule.root == ground.root
            and (None in (pool.rule.device_class, ground.device_class)
                 or pool.rule.device_class == ground.device_class)
        )
    )  # fmt: skip
    raw = max(0, budget - taken) / max(made, _POOLS) / size
    return min(_MOST_PGS, max(_LEAST_PGS, nearest_power_of_two(raw)))


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
        found = [decision.recipe for decision in self.decisions if decision.recipe is not None]
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
            if name.kind is Kind.VIRTUAL and name.base not in {name.text for name in names}:
                found[name.base] = self._decision(pool_name(name.base))
        self._add_metadata_pool(found)
        made = [item for item in found.values() if item.recipe is not None]
        decisions = tuple(self._with_pgs(item, len(made)) for item in found.values())
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
        known = [filesystem.name for filesystem in self._inventory.filesystems or ()]
        if self._filesystem is not None and self._filesystem not in known:
            raise LeadlineError(
                errors.USAGE,
                f"the cluster has no file system {self._filesystem!r}",
                context=[f"its file systems: {', '.join(known) or 'none'}"],
            )

    def _chosen_filesystem(self) -> tuple[bool, str]:
        """(True, its name) or (False, the reason)."""
        known = [filesystem.name for filesystem in self._inventory.filesystems or ()]
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
        others = [item.name for item in self._inventory.crush if item.name != main.root]
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
        erasure = [item for item in found.values() if item.recipe and item.recipe.name.k]
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
        for item in erasure:
            assert item.recipe is not None, "chosen so"
            if metadata is None:
                reason = "there is no replicated pool for the metadata of its images"
                found[item.name] = Decision(name=item.name, act=Act.SKIP, reason=reason)
                continue
            use = f"{item.reason}; use it as rbd:{metadata}?data_pool={item.name}"
            recipe = replace(item.recipe, metadata_pool=metadata)
            found[item.name] = replace(item, reason=use, recipe=recipe)

    def _first_replicated(self, found: Mapping[str, Decision]) -> str | None:
        there = [
            pool.name
            for pool in self._inventory.pools
            if pool.type is PoolType.REPLICATED and RBD in pool.applications
        ]
        coming = [
            item.name
            for item in found.values()
            if item.recipe and item.recipe.name.kind in (Kind.REPLICATED, Kind.ENCRYPTED)
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
