"""The state of a Ceph cluster's pools, and the steps that create one.

The state is read again for every test: an effect counts once it is read back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from leadline.inventory.ceph.dumps import Node
from leadline.inventory.ceph.model import CrushRule
from leadline.inventory.ceph.topology import read_rules
from leadline.pools.recipes import (
    OWNER_KEY,
    PREFIX,
    RBD,
    Kind,
    Marks,
    PoolRecipe,
    owner_of,
    read_marks,
)


class Effect(StrEnum):
    PROFILE = "erasure-code profile"
    RULE = "CRUSH rule"
    POOL = "pool"
    SETTING = "setting of the pool"
    APPLICATION = "application of the pool"
    DATA_POOL = "data pool of the file system"
    LABEL = "label"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One monitor command. `name` is the object that it creates or changes."""

    effect: Effect
    name: str
    prefix: str
    arguments: Mapping[str, object]

    def __str__(self) -> str:
        """Return the command: its words, then its arguments by name."""
        words = [self.prefix]
        for key, value in self.arguments.items():
            words.append(f"{key}={','.join(value) if isinstance(value, list) else value}")
        return " ".join(words)


def steps(recipe: PoolRecipe, token: str) -> Iterator[Step]:
    """Yield the commands that create a pool, in order. The label with `token` comes last: a pool
    with it is finished."""
    name, mark, placement = recipe.name.text, recipe.mark, recipe.placement
    pool: dict[str, object] = {"pool": name}
    if recipe.pg_num is not None:
        pool |= {"pg_num": recipe.pg_num, "pgp_num": recipe.pg_num}
    settings = {"min_size": str(recipe.name.min_size)} | _sizing(recipe)
    if recipe.name.kind is Kind.ERASURE:
        profile = [
            *(f"{key}={value}" for key, value in recipe.options.profile().items()),
            *(f"k={recipe.name.k}", f"m={recipe.name.m}", f"crush-root={placement.root}"),
            f"crush-failure-domain={placement.domain}",
        ]
        if placement.device_class:
            profile.append(f"crush-device-class={placement.device_class}")
        prefix = "osd erasure-code-profile set"
        yield _step(Effect.PROFILE, mark, prefix, name=mark, profile=profile)
        yield _step(Effect.RULE, mark, "osd crush rule create-erasure", name=mark, profile=mark)
        pool |= {"pool_type": "erasure", "erasure_code_profile": mark, "rule": mark}
        settings["allow_ec_overwrites"] = "true"
    else:
        where = {"root": placement.root, "type": placement.domain}
        where |= {"class": placement.device_class} if placement.device_class else {}
        yield _step(Effect.RULE, mark, "osd crush rule create-replicated", name=mark, **where)
        pool |= {"pool_type": "replicated", "rule": mark, "size": recipe.name.size}
        if recipe.name.size == 1:
            pool["yes_i_really_mean_it"] = True
    yield _step(Effect.POOL, name, "osd pool create", **pool)
    for key, value in settings.items():
        yield _step(Effect.SETTING, name, "osd pool set", pool=name, var=key, val=value)
    if recipe.filesystem:
        prefix = "fs add_data_pool"
        yield _step(Effect.DATA_POOL, name, prefix, fs_name=recipe.filesystem, pool=name)
    else:
        prefix = "osd pool application enable"
        yield _step(Effect.APPLICATION, name, prefix, pool=name, app=RBD)
    label = {"app": recipe.application, "key": OWNER_KEY, "value": token}
    yield _step(Effect.LABEL, name, "osd pool application set", pool=name, **label)


def _sizing(recipe: PoolRecipe) -> dict[str, str]:
    """Return the settings by which the autoscaler sizes a pool, or leaves it alone."""
    ratio = recipe.options.target_ratio
    if ratio is not None:
        return {"pg_autoscale_mode": "on", "target_size_ratio": f"{ratio:g}"}
    return {} if recipe.options.pg_num is None else {"pg_autoscale_mode": "off"}


def _step(effect: Effect, what: str, prefix: str, /, **arguments: object) -> Step:
    return Step(effect=effect, name=what, prefix=prefix, arguments=arguments)


_ERASURE = 3  # pg_pool_t::TYPE_ERASURE


class Commands(Protocol):
    """The part of `leadline.connect.ceph.Connection` that pools need. A refused command raises
    CommandFailed."""

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes: ...

    def mgr(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPool:
    """A pool that Leadline created, with its own rule and profile (None: not Leadline's) and the
    file system that it belongs to. `finished`: it carries the label."""

    id: int
    name: str
    application: str
    pg_num: int
    rule: str | None
    profile: str | None
    filesystem: str | None
    finished: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """`osd dump`, `osd crush rule dump` and `fs ls` at one moment."""

    pools: Mapping[str, Mapping[str, Any]]
    rules: Mapping[str, Mapping[str, Any]]
    profiles: Mapping[str, Mapping[str, str]]
    filesystems: Mapping[str, tuple[str, ...]]

    @property
    def marks(self) -> Marks:
        return read_marks(self.pools.values(), self.rules.values())

    @property
    def owned(self) -> tuple[OwnedPool, ...]:
        """The pools that Leadline created, by name."""
        marks = self.marks
        found = marks.finished | marks.unfinished
        return tuple(self._owned_pool(name, name in marks.finished) for name in sorted(found))

    def _owned_pool(self, name: str, finished: bool) -> OwnedPool:
        pool = self.pools[name]
        rule = self.rule_of(name)
        profile = str(pool.get("erasure_code_profile", ""))
        held_by = (fs for fs, names in self.filesystems.items() if name in names)
        return OwnedPool(
            id=pool["pool"],
            name=name,
            application=", ".join(pool.get("application_metadata", {})),
            pg_num=pool["pg_num"],
            rule=rule if rule.startswith(PREFIX) else None,
            profile=profile if profile.startswith(PREFIX) else None,
            filesystem=next(held_by, None),
            finished=finished,
        )

    def rule_of(self, pool: str) -> str:
        """Return the name of a pool's rule; empty where the rule does not exist."""
        number = self.pools[pool]["crush_rule"]
        return next((name for name, rule in self.rules.items() if rule["rule_id"] == number), "")

    def is_erasure(self, pool: str) -> bool:
        return bool(self.pools[pool]["type"] == _ERASURE)

    def place_of(self, pool: str) -> CrushRule | None:
        rule = self.rules.get(self.rule_of(pool))
        return _place(rule) if rule else None

    def users_of_rule(self, rule: str) -> list[str]:
        return [name for name in self.pools if self.rule_of(name) == rule]

    def users_of_profile(self, profile: str) -> list[str]:
        return [
            name
            for name, pool in self.pools.items()
            if pool.get("erasure_code_profile", "") == profile
        ]

    @property
    def stray(self) -> tuple[str, ...]:
        """Names of Leadline's rules and profiles that no pool uses."""
        rules = {name for name in self.rules if not self.users_of_rule(name)}
        profiles = {name for name in self.profiles if not self.users_of_profile(name)}
        return tuple(sorted(name for name in rules | profiles if name.startswith(PREFIX)))

    def exists(self, step: Step) -> bool:
        """Return whether an object with the name of the step exists, with any properties."""
        match step.effect:
            case Effect.PROFILE:
                return step.name in self.profiles
            case Effect.RULE:
                return step.name in self.rules
            case Effect.DATA_POOL:
                return step.name in self.filesystems.get(str(step.arguments["fs_name"]), ())
            case _:
                return step.name in self.pools

    def shows(self, step: Step) -> bool:
        if not self.exists(step):
            return False
        given = step.arguments
        match step.effect:
            case Effect.PROFILE:
                profile = given["profile"]
                assert isinstance(profile, list)
                written = dict(str(pair).split("=", 1) for pair in profile)
                return written.items() <= self.profiles[step.name].items()
            case Effect.RULE:
                return self._places_as(step)
            case Effect.POOL:
                sized = given.get("size", self.pools[step.name]["size"])
                fits = self.pools[step.name]["size"] == sized
                return fits and self.rule_of(step.name) == given["rule"]
            case Effect.SETTING:
                if given["var"] == "allow_ec_overwrites":
                    flags = str(self.pools[step.name]["flags_names"]).split(",")
                    return "ec_overwrites" in flags
                pool = self.pools[step.name]
                if given["var"] == "target_size_ratio":
                    ratio = float(pool.get("options", {}).get("target_size_ratio", 0.0))
                    return math.isclose(ratio, float(str(given["val"])), rel_tol=1e-6)
                return str(pool[str(given["var"])]) == given["val"]
            case Effect.APPLICATION:
                return given["app"] in self.pools[step.name].get("application_metadata", {})
            case Effect.DATA_POOL:
                return True
            case Effect.LABEL:
                return owner_of(self.pools[step.name]) is not None

    def _places_as(self, step: Step) -> bool:
        """Return whether a rule selects what the step, or its profile, states."""
        given: Mapping[str, object] = step.arguments
        if "profile" in given:
            profile = self.profiles.get(str(given["profile"]), {})
            given = {
                "root": profile.get("crush-root"),
                "type": profile.get("crush-failure-domain"),
                "class": profile.get("crush-device-class") or None,
            }
        place = _place(self.rules[step.name])
        found = (place.root, place.failure_domain, place.device_class)
        return found == (given["root"], given["type"], given.get("class"))


def read_state(commands: Commands) -> PoolState:
    """Read the state. Raises LeadlineError: `ceph-failed`, `ceph-unreachable`."""
    dump = json.loads(commands.mon("osd dump", format="json"))
    rules = json.loads(commands.mon("osd crush rule dump", format="json"))
    filesystems = json.loads(commands.mon("fs ls", format="json"))
    return PoolState(
        pools={pool["pool_name"]: pool for pool in dump["pools"]},
        rules={rule["rule_name"]: rule for rule in rules},
        profiles=dump["erasure_code_profiles"],
        filesystems={
            filesystem["name"]: tuple(filesystem["data_pools"]) for filesystem in filesystems
        },
    )


def _place(rule: Mapping[str, Any]) -> CrushRule:
    listed = read_rules(None, Node("osd_crush_rule_dump.json", "", [dict(rule)]))
    assert listed is not None
    return listed[rule["rule_id"]]
