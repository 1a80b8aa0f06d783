"""The matrix of a plan: its dimensions multiply targets by options, and workloads by settings.

A dimension is a list of values of one option (`size: [150Gi, 500Gi]`), or names for several
options together (`machine: {small: {cores: 2, memory: 4Gi}}`). Each combination becomes a target
of its own with the dimensions as labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator
from pydantic import RootModel as _RootModel

from leadline.plan.labels import LABEL_WORD

# Settings of a workload that a dimension can vary; all others are options of a target.
LEVEL_SETTINGS = ("iodepth", "numjobs", "clients")
WORKLOAD_SETTINGS = ("block_size", *LEVEL_SETTINGS)
# Dimensions whose values are compared with each other in the same moment: places of one system.
PLACES = ("node", "zone")
_MOST_VARIANTS = 10_000


def _text(value: object) -> object:
    """A value as an option has it; YAML makes truth values of yes and no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


_Value = Annotated[str, BeforeValidator(_text), Field(pattern=LABEL_WORD)]


def _listed(value: object) -> object:
    return value if isinstance(value, dict | list) else [value]


class Dimension(
    _RootModel[
        Annotated[tuple[_Value, ...] | dict[_Value, dict[str, _Value]], BeforeValidator(_listed)]
    ]
):
    """One dimension: values of the option of its name, or names with their options."""

    @model_validator(mode="after")
    def _not_empty(self) -> Dimension:
        values = list(self.root)
        if not values:
            raise ValueError("has no value")
        if len(set(values)) < len(values):
            raise ValueError("has a value twice")
        if isinstance(self.root, dict) and not all(self.root.values()):
            raise ValueError("has a value without an option")
        return self

    def settings(self, name: str) -> Mapping[str, Mapping[str, str]]:
        """The options of each value of the dimension called `name`."""
        if isinstance(self.root, dict):
            return self.root
        return {value: {name: value} for value in self.root}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One combination: `values` by dimension, and the `options` that they stand for."""

    values: Mapping[str, str]
    options: Mapping[str, str]

    @property
    def suffix(self) -> str:
        """`-small-150Gi-x5`, for names of targets and workloads."""
        parts = (f"x{value}" if name == "count" else value for name, value in self.values.items())
        return "".join(f"-{part.replace('/', '_')}" for part in parts)

    @property
    def condition(self) -> tuple[str, ...]:
        """What targets that are compared with each other have in common."""
        return tuple(value for name, value in self.values.items() if name not in PLACES)


Matrix = Mapping[str, Dimension]


def matrix_faults(matrix: Matrix) -> list[tuple[str, str]]:
    """What is wrong with the dimensions together: the dimension, and a sentence."""
    found, seen = [], dict[str, str]()
    for name, dimension in matrix.items():
        keys = {key for options in dimension.settings(name).values() for key in options}
        if keys & set(WORKLOAD_SETTINGS) and keys - set(WORKLOAD_SETTINGS):
            found.append((name, "mixes settings of workloads with options of targets"))
        for key in sorted(keys):
            if key in seen:
                found.append((name, f"sets {key}, as the dimension {seen[key]!r} does"))
            seen[key] = name
    size = math.prod(len(dimension.root) for dimension in matrix.values())
    if size > _MOST_VARIANTS:
        found.append(("", f"has {size:,} combinations; {_MOST_VARIANTS:,} are the most"))
    return found


def target_variants(matrix: Matrix) -> tuple[Variant, ...]:
    """Every combination of the dimensions of targets; one without options if there are none."""
    return _variants({name: item for name, item in matrix.items() if not _of_work(name, item)})


def workload_variants(matrix: Matrix) -> tuple[Variant, ...]:
    """Every combination of the dimensions of workloads."""
    return _variants({name: item for name, item in matrix.items() if _of_work(name, item)})


def _of_work(name: str, dimension: Dimension) -> bool:
    first: Sequence[str] = [*next(iter(dimension.settings(name).values()))]
    return first[0] in WORKLOAD_SETTINGS


def _variants(matrix: Matrix) -> tuple[Variant, ...]:
    choices = [list(dimension.settings(name).items()) for name, dimension in matrix.items()]
    return tuple(
        Variant(
            values=dict(zip(matrix, (value for value, _ in chosen), strict=True)),
            options={key: text for _, options in chosen for key, text in options.items()},
        )
        for chosen in product(*choices)
    )
