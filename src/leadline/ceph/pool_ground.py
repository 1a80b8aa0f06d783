"""Where pools of the study are placed on a cluster, and with how many placement groups. Pure.

One failure domain holds for all pools of a cluster: of the CRUSH levels below root and region, down
to host, the highest with three buckets that hold OSDs up and in; where no level has three, the
highest with two; on a single host the OSD.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from leadline.inventory.autoscaler import Mode, nearest_power_of_two
from leadline.inventory.ceph import CephInventory, Osd

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
    levels = next(one.levels for one in inventory.crush if one.name == root)
    wanted = [one.level for one in levels[1:] if one.level not in (*_ABOVE, OSD)]
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
        chosen = max(classes, key=lambda one: _size(osd for osd in here if osd.device_class == one))
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
    shown = [one for one in inventory.file_settings or () if one.name == name]
    shown.sort(key=lambda one: not one.daemon.startswith("mon"))
    stored = [one for one in inventory.configuration or () if one.name == name]
    stored.sort(key=lambda one: one.section == "global")
    values = [one.value for one in shown]
    values += [one.value for one in stored if one.section in ("mon", "global")]
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
