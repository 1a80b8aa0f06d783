"""Which differences can have caused what: the table of effects, applied to a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from leadline.analysis.explain.effects import (
    EFFECTS,
    NAMED_BY_PATH,
    REDUNDANCY,
    ZONES,
    Effect,
    effects_of,
)
from leadline.analysis.explain.facts import Facts
from leadline.analysis.explain.spots import Spot
from leadline.inventory.diff import Difference
from leadline.metrics import Op
from leadline.text import listed, visible

Found = tuple[tuple[Effect, Difference], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """Differences with what each can do. `by_target`: those of one subject, and under the empty
    name those of all, in the order of the table. `known` remembers what bears on a spot."""

    effects: Mapping[Difference, tuple[Effect, ...]]
    by_target: Mapping[str, Found]
    facts: Facts
    known: dict[tuple[str, str, str, Op], Found] = field(default_factory=dict)

    @classmethod
    def of(cls, differences: Iterable[Difference], facts: Facts) -> Causes:
        effects = {one: effects_of(one) for one in differences}
        by_target: dict[str, list[tuple[Effect, Difference]]] = {}
        for difference, found in effects.items():
            by_target.setdefault(difference.target, []).extend((one, difference) for one in found)
        return cls(
            effects=effects,
            by_target={
                target: tuple(sorted(found, key=lambda one: _rank(one[0])))
                for target, found in by_target.items()
            },
            facts=facts,
        )

    def effects_of(self, difference: Difference) -> tuple[Effect, ...]:
        return self.effects.get(difference, ())

    def bears(self, effect: Effect, difference: Difference, spot: Spot) -> bool:
        if effect.cephfs:
            pools = self.facts.pools.get(spot.target)
            if pools is None or not any(pool.cephfs for pool in pools):
                return False
        return effect.bears_on(spot, difference)

    def of_spot(self, spot: Spot) -> list[str]:
        """Names of the causes that bear on a spot, as the table orders them: the strong ones, else
        the weak."""
        found = self._found(spot)
        strong = [effect for effect, _ in found if effect.strong]
        return list(dict.fromkeys(one.cause for one in strong or [effect for effect, _ in found]))

    def others(self, spots: Iterable[Spot]) -> str:
        """What else than the way between zones bears on spots, in words; empty where nothing does.
        Copies and shards, which are part of it, are left out too."""
        given = list(spots)
        names = dict.fromkeys(
            effect.cause
            for spot in given
            for effect, _ in self._found(spot)
            if effect.strong and effect.cause not in (ZONES, REDUNDANCY)
        )
        return listed(self.text(name, given) for name in names) if names else ""

    def paths(self, names: Iterable[str], spots: Iterable[Spot]) -> tuple[str, ...]:
        """Paths of the differences behind causes, for spots."""
        wanted = set(names)
        return tuple(
            dict.fromkeys(
                difference.path
                for spot in spots
                for effect, difference in self._found(spot)
                if effect.cause in wanted
            )
        )

    def paths_of_way(self, spots: Iterable[Spot], *, others: bool = False) -> tuple[str, ...]:
        """Paths of what makes the way longer or shorter; with `others` also of what else bears on
        the spots."""
        given = list(spots)
        found = (effect for spot in given for effect, _ in self._found(spot) if effect.strong)
        return self.paths(
            {one.cause for one in found if others or one.cause in (ZONES, REDUNDANCY)}, given
        )

    def text(self, name: str, spots: Iterable[Spot]) -> str:
        """A cause with its values: `PG count (128 -> 512)`."""
        shown: dict[Difference, Effect] = {}
        for spot in spots:
            for effect, difference in self._found(spot):
                if effect.cause == name:
                    shown.setdefault(difference, effect)
        # One cause may show in several differences: the table's first tells it best.
        best = min((_rank(effect) for effect in shown.values()), default=0)
        chosen = {one: effect for one, effect in shown.items() if _rank(effect) == best}
        label = next((effect.label for effect in chosen.values()), name)
        values = {one: f"{one.baseline} -> {one.candidate}" for one in chosen}
        if label in NAMED_BY_PATH:
            told = (f"{'.'.join(one.path.split('.')[2:])} {values[one]}" for one in chosen)
            return f"{label} ({listed(told, 3)})"
        if len(set(values.values())) == 1:
            return f"{label} ({next(iter(values.values()))})"
        told = (f"{visible(one.target)} {values[one]}".strip() for one in chosen)
        return f"{label} ({listed(told, 3)})"

    def text_of(self, name: str, spots: Iterable[Spot]) -> str:
        """A cause with its values; empty where it does not bear on the spots."""
        given = list(spots)
        return self.text(name, given) if any(name in self.of_spot(one) for one in given) else ""

    def mechanism(self, name: str, spots: Iterable[Spot]) -> str:
        """How a cause works, as a sentence without full stop; what it does to reads and to writes
        where the spots are of both."""
        found = sorted(
            {effect for spot in spots for effect, _ in self._found(spot) if effect.cause == name},
            key=_rank,
        )
        alike = (one.mechanism for one in found if one.pattern == found[0].pattern)
        return "; ".join(dict.fromkeys(alike))

    def _found(self, spot: Spot) -> Found:
        """What bears on a spot, in the order of the table."""
        key = (spot.target, spot.workload, spot.level, spot.op)
        if key not in self.known:
            own = self.by_target.get(spot.target, ()) if spot.target else ()
            bearing = (
                (effect, difference)
                for effect, difference in (*self.by_target.get("", ()), *own)
                if self.bears(effect, difference, spot)
            )
            self.known[key] = tuple(sorted(bearing, key=lambda one: _rank(one[0])))
        return self.known[key]


_RANKS = {effect: rank for rank, effect in enumerate(EFFECTS)}


def _rank(effect: Effect) -> int:
    return _RANKS[effect]
