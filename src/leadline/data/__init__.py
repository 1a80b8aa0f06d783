"""Tables kept as YAML: profiles, effects of settings, ZFS parameters, Kubernetes kinds."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any, TypeVar, cast

import yaml
from pydantic import ConfigDict, TypeAdapter

_Table = TypeVar("_Table")
# libyaml's loader parses about ten times faster than PyYAML's own.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_table(name: str, model: type[_Table]) -> _Table:
    """Return the table `data/NAME.yaml`, validated. It is read once per process.

    Args:
        name: The file's name without its suffix.
        model: The type of the whole table: a pydantic model, a dataclass, or a type made of them
            such as `tuple[Parameter, ...]` or `dict[str, Parameter]`.

    Raises:
        pydantic.ValidationError: The table does not fit the model, which is a bug in the package.
    """
    return cast(_Table, _load(name, cast(Any, model)))


@functools.cache
def _load(name: str, model: Any) -> Any:
    text = (resources.files(__name__) / f"{name}.yaml").read_text("utf-8")
    # In a tuple, a dataclass takes the adapter's configuration: unknown keys are refused.
    adapter = TypeAdapter[Any](tuple[model], config=ConfigDict(extra="forbid"))
    return adapter.validate_python((yaml.load(text, _LOADER),))[0]
