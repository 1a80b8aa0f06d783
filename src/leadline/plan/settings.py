"""Settings that a plan varies: the kinds of setting, their values, and the states that they make.

A state is a value for some settings; without one it is the present state of the system. A setting
is applied to a running system (`ceph_config`, `pool`, `zfs_parameter`, `host_file`, `kubernetes`,
`command`) or made with the target (`image`, `dataset`, `zpool`).
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import product
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    field_validator,
    model_validator,
)

from leadline.plan.labels import LABEL_WORD
from leadline.plan.target_url import (
    DATASET_PROPERTIES,
    IMAGE_LAYOUT,
    ZPOOL_OPTIONS,
    TargetKind,
    TargetUrl,
)

MOST_STATES = 1000
# Names of options and of what has them: one word, which is no option of a command line.
_OPTION = re.compile(r"[A-Za-z_][A-Za-z0-9_./:-]*")
_PLACEHOLDER = re.compile(r"\{[a-z]*\}")


class _Kind(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _is_unset(value: object) -> bool:
    """Fields that earlier versions of Leadline do not know are not written where unset."""
    return not value


def _as_text(value: object) -> object:
    """A value as the system reads it; YAML makes truth values of yes and no."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _listed(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


def _each_once(values: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"has the value {twice[0]!r} twice")
    return values


# A value is also a label of its targets, so it holds neither `=` nor a comma.
Value = Annotated[str, BeforeValidator(_as_text), Field(pattern=LABEL_WORD)]
Values = Annotated[tuple[Value, ...], BeforeValidator(_listed), Field(min_length=1, max_length=100)]


class _Applied(_Kind):
    """A setting of a running system."""

    values: Values

    @field_validator("values")
    @classmethod
    def _once(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        return _each_once(values)


def _option(text: str) -> str:
    if not _OPTION.fullmatch(text):
        raise ValueError(f"{text!r} is no name of an option")
    return text


class CephConfig(_Applied):
    """An option in the configuration database of a Ceph cluster. `who`: the section, as in `ceph
    config set` (`osd`, `osd.3`, `osd/class:ssd`, `global`). `cluster` empty: that of each target.
    """

    who: str
    name: str
    cluster: str = Field(default="", exclude_if=_is_unset)

    _names = field_validator("who", "name")(_option)


class PoolOption(_Applied):
    """An option of pools of a Ceph cluster, as in `ceph osd pool set`. `pools` empty: the pools of
    the plan's targets on the cluster."""

    name: str
    pools: tuple[str, ...] = Field(default=(), exclude_if=_is_unset)
    cluster: str = Field(default="", exclude_if=_is_unset)

    _names = field_validator("name")(_option)


class ZfsParameter(_Applied):
    """A parameter of the ZFS kernel module of this machine."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class HostFile(_Applied):
    """A file that holds one value, as those of sysctl(8) and of block queues. `hosts`: machines
    reached by ssh; empty: this machine."""

    path: Annotated[str, Field(pattern=r"^/[^\x00-\x1f\x7f]+$")]
    hosts: tuple[str, ...] = Field(default=(), exclude_if=_is_unset)

    @field_validator("path")
    @classmethod
    def _no_parent(cls, path: str) -> str:
        if ".." in path.split("/"):
            raise ValueError("is a path without `..`")
        return path


class KubernetesField(_Applied):
    """A field of a Kubernetes resource. `path`: keys with dots (`spec.resources.limits.cpu`), or a
    JSON pointer. Its operator may restart what it runs, unless `restarts` is false."""

    kind: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    api: str
    name: str
    namespace: str = Field(default="", exclude_if=_is_unset)
    path: str
    restarts: bool = True
    cluster: str = Field(default="", exclude_if=_is_unset)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the path, from the top."""
        if self.path.startswith("/"):
            parts = self.path[1:].split("/")
            return tuple(part.replace("~1", "/").replace("~0", "~") for part in parts)
        return tuple(self.path.split("."))

    @field_validator("path")
    @classmethod
    def _has_keys(cls, path: str) -> str:
        if not all(path.removeprefix("/").split("/" if path.startswith("/") else ".")):
            raise ValueError(f"{path!r} is no path of a field")
        return path


class Command(_Applied):
    """A setting of any system, by commands: `read` prints the present value, `apply` sets
    `{value}`, `restore` sets `{before}`, what `read` printed before the run. No shell is involved
    unless a command is one."""

    apply: str
    read: str
    restore: str
    restarts: bool = False

    @field_validator("apply", "read", "restore")
    @classmethod
    def _words(cls, text: str) -> str:
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise ValueError(f"cannot be split into words: {error}") from error
        if not words:
            raise ValueError("is empty")
        return text

    @model_validator(mode="after")
    def _placeholders(self) -> Self:
        for key, known in (("apply", ["{value}"]), ("read", []), ("restore", ["{before}"])):
            found = set(_PLACEHOLDER.findall(getattr(self, key)))
            if found != set(known):
                wanted = known[0] if known else "no placeholder"
                raise ValueError(f"{key} has {wanted}, and nothing else in braces")
        return self

    def argv(self, text: str, value: str = "") -> tuple[str, ...]:
        """The words of a command, with the value in the place of its placeholder."""
        return tuple(_PLACEHOLDER.sub(lambda _: value, word) for word in shlex.split(text))


class TargetOption(RootModel[dict[str, Values]]):
    """One option that a target is made with, and its values: `recordsize: [16K, 128K]`."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.root) != 1:
            raise ValueError("has one option: make each option a setting of its own")
        _each_once(self.values)
        return self

    @property
    def option(self) -> str:
        return next(iter(self.root))

    @property
    def values(self) -> tuple[str, ...]:
        return self.root[self.option]


class Setting(_Kind):
    """A setting of a plan: its name, which is also a label of targets, and exactly one kind with
    its values as written."""

    name: Annotated[str, Field(pattern=LABEL_WORD)]
    ceph_config: CephConfig | None = Field(default=None, exclude_if=_is_unset)
    pool: PoolOption | None = Field(default=None, exclude_if=_is_unset)
    zfs_parameter: ZfsParameter | None = Field(default=None, exclude_if=_is_unset)
    host_file: HostFile | None = Field(default=None, exclude_if=_is_unset)
    kubernetes: KubernetesField | None = Field(default=None, exclude_if=_is_unset)
    command: Command | None = Field(default=None, exclude_if=_is_unset)
    image: TargetOption | None = Field(default=None, exclude_if=_is_unset)
    dataset: TargetOption | None = Field(default=None, exclude_if=_is_unset)
    zpool: TargetOption | None = Field(default=None, exclude_if=_is_unset)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            found = "none of them" if not given else " and ".join(given)
            raise ValueError(f"needs exactly one of {', '.join(KINDS)}; has {found}")
        made = {"image": IMAGE_LAYOUT, "dataset": DATASET_PROPERTIES, "zpool": ZPOOL_OPTIONS}
        for kind, known in made.items():
            option = getattr(self, kind)
            if option is not None and option.option not in known:
                raise ValueError(f"{kind} has no option {option.option!r}: {', '.join(known)}")
        return self

    @property
    def kind(self) -> str:
        """The key of its kind: `ceph_config`, `pool`, ..."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def change(self) -> Change:
        """What its kind needs to know."""
        found: Change = getattr(self, self.kind)
        return found

    @property
    def values(self) -> tuple[str, ...]:
        return self.change.values

    @property
    def option(self) -> str:
        """The option of the target that it is; empty for a setting of a running system."""
        return self.change.option if isinstance(self.change, TargetOption) else ""

    @property
    def cluster(self) -> str:
        """The cluster that the plan names for it."""
        return str(getattr(self.change, "cluster", ""))

    @property
    def restarts(self) -> bool:
        """Whether applying it may restart daemons."""
        return bool(getattr(self.change, "restarts", False))

    def fits(self, url: TargetUrl) -> bool:
        """Whether a target has the setting."""
        if self.image is not None:
            return url.kind is TargetKind.RBD and not url.image and "shared" not in url.options
        if self.dataset is not None:
            return url.kind.on_zfs
        if self.zpool is not None:
            return url.kind is TargetKind.ZFS_ON_RBD
        if self.cluster:
            return True
        if self.ceph_config is not None or self.pool is not None:
            return url.kind.on_ceph
        if self.kubernetes is not None:
            return url.kind.on_kubernetes
        return True


Change = (
    CephConfig | PoolOption | ZfsParameter | HostFile | KubernetesField | Command | TargetOption
)
KINDS = tuple(name for name in Setting.model_fields if name != "name")
# The kinds of a running system, by their keys.
APPLIED_KINDS: Mapping[str, type[BaseModel]] = {
    "ceph_config": CephConfig,
    "pool": PoolOption,
    "zfs_parameter": ZfsParameter,
    "host_file": HostFile,
    "kubernetes": KubernetesField,
    "command": Command,
}
# A value for some of the settings, by their names.
State = Mapping[str, str]


class Design(StrEnum):
    """Which states a plan has: each value of each setting alone, or all combinations."""

    ONE_AT_A_TIME = "one-at-a-time"
    FULL = "full"


def count_states(settings: Sequence[Setting], design: Design) -> int:
    """Count the states next to the present one."""
    sizes = [len(setting.values) for setting in settings]
    if not sizes:
        return 0
    return sum(sizes) if design is Design.ONE_AT_A_TIME else math.prod(sizes)


def states(settings: Sequence[Setting], design: Design) -> Iterator[State]:
    """The states that settings make, without the present one."""
    if design is Design.ONE_AT_A_TIME:
        for setting in settings:
            yield from ({setting.name: value} for value in setting.values)
    elif settings:
        for values in product(*(setting.values for setting in settings)):
            yield {setting.name: value for setting, value in zip(settings, values, strict=True)}


def state_text(state: State) -> str:
    """`mclock=high_client_ops osd-memory=4G`, for names of targets."""
    return " ".join(f"{name}={value}" for name, value in state.items())
