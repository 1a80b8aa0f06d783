"""The commands that make a pool of the study, in an order in which each has what it needs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from leadline.ceph.pool_names import Kind
from leadline.ceph.pool_recipes import OWNER_KEY, RBD, PoolRecipe


class Effect(StrEnum):
    """What a step changes in the cluster."""

    PROFILE = "erasure-code profile"
    RULE = "CRUSH rule"
    POOL = "pool"
    SETTING = "setting of the pool"
    APPLICATION = "application of the pool"
    DATA_POOL = "data pool of the file system"
    LABEL = "label"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One monitor command. `name` is what it makes or changes."""

    effect: Effect
    name: str
    prefix: str
    arguments: Mapping[str, object]

    def __str__(self) -> str:
        """The command as monitors take it: its words, then its arguments by name."""
        words = [self.prefix]
        for key, value in self.arguments.items():
            words.append(f"{key}={','.join(value) if isinstance(value, list) else value}")
        return " ".join(words)


def steps(recipe: PoolRecipe, token: str) -> tuple[Step, ...]:
    """`token` is the value of the label, which comes last: a pool with it is finished."""
    name, mark, ground = recipe.name.text, recipe.mark, recipe.ground
    found = []
    if recipe.name.kind is Kind.ERASURE:
        profile = [
            "plugin=jerasure",
            "technique=reed_sol_van",
            f"k={recipe.name.k}",
            f"m={recipe.name.m}",
            f"crush-root={ground.root}",
            f"crush-failure-domain={ground.domain}",
        ]
        if ground.device_class:
            profile.append(f"crush-device-class={ground.device_class}")
        found.append(
            _step(Effect.PROFILE, mark, "osd erasure-code-profile set", name=mark, profile=profile)
        )
        found.append(
            _step(Effect.RULE, mark, "osd crush rule create-erasure", name=mark, profile=mark)
        )
    else:
        found.append(
            _step(
                Effect.RULE,
                mark,
                "osd crush rule create-replicated",
                **{"name": mark, "root": ground.root, "type": ground.domain}
                | ({"class": ground.device_class} if ground.device_class else {}),
            )
        )
    found.append(_step(Effect.POOL, name, "osd pool create", **_pool(recipe)))
    settings = {"min_size": str(recipe.min_size)}
    if recipe.name.kind is Kind.ERASURE:
        settings["allow_ec_overwrites"] = "true"
    for key, value in settings.items():
        found.append(_step(Effect.SETTING, name, "osd pool set", pool=name, var=key, val=value))
    if recipe.filesystem:
        found.append(
            _step(
                Effect.DATA_POOL,
                name,
                "fs add_data_pool",
                fs_name=recipe.filesystem,
                pool=name,
            )
        )
    else:
        found.append(
            _step(Effect.APPLICATION, name, "osd pool application enable", pool=name, app=RBD)
        )
    found.append(
        _step(
            Effect.LABEL,
            name,
            "osd pool application set",
            pool=name,
            app=recipe.application,
            key=OWNER_KEY,
            value=token,
        )
    )
    return tuple(found)


def _pool(recipe: PoolRecipe) -> dict[str, object]:
    arguments: dict[str, object] = {"pool": recipe.name.text}
    if recipe.pg_num is not None:
        arguments |= {"pg_num": recipe.pg_num, "pgp_num": recipe.pg_num}
    if recipe.name.kind is Kind.ERASURE:
        return arguments | {
            "pool_type": "erasure",
            "erasure_code_profile": recipe.mark,
            "rule": recipe.mark,
        }
    return arguments | {"pool_type": "replicated", "rule": recipe.mark, "size": recipe.name.size}


def _step(effect: Effect, what: str, prefix: str, /, **arguments: object) -> Step:
    return Step(effect=effect, name=what, prefix=prefix, arguments=arguments)
