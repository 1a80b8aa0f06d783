"""What a `storageclass:` target asks a cluster for: volumes, and what does the I/O on them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from leadline.units import parse_size

GIB = 1 << 30
# A volume each is a pod each; more than this is the fleet of another issue, or a slip.
MOST_VOLUMES = 100
_COUNT = re.compile(r"0*[1-9][0-9]{0,3}")
_NODE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class VolumeMode(StrEnum):
    """How a volume is given to its user: as a raw block device, or with a file system on it."""

    BLOCK = "block"
    FILESYSTEM = "filesystem"


class Access(StrEnum):
    """Who may write a volume: one node, or several at once."""

    RWO = "rwo"
    RWX = "rwx"

    @property
    def kubernetes(self) -> str:
        return {"rwo": "ReadWriteOnce", "rwx": "ReadWriteMany"}[self.value]


class RunnerKind(StrEnum):
    """What does the I/O: a pod, or a KubeVirt virtual machine."""

    POD = "pod"
    VM = "vm"


class Lifetime(StrEnum):
    """`same`: one volume for all trials of the target. `fresh`: a new one for each trial."""

    SAME = "same"
    FRESH = "fresh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The size of a virtual machine: virtual processors, and bytes of memory."""

    cores: int
    memory_bytes: int


# The sizes of the study that this project began with (issue 6).
PRESETS: Mapping[str, Preset] = {
    "small": Preset(cores=2, memory_bytes=4 * GIB),
    "medium": Preset(cores=4, memory_bytes=8 * GIB),
    "large": Preset(cores=8, memory_bytes=16 * GIB),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRequest:
    """The options of a `storageclass:` target. `size_bytes` None: what the workloads need;
    `mode` None: raw block where the class can; `node` and `zone` empty: wherever the scheduler
    puts it."""

    size_bytes: int | None = None
    mode: VolumeMode | None = None
    access: Access = Access.RWO
    runner: RunnerKind = RunnerKind.POD
    vm: str = "small"
    node: str = ""
    zone: str = ""
    count: int = 1
    lifetime: Lifetime = Lifetime.SAME

    @property
    def preset(self) -> Preset:
        return PRESETS[self.vm]


OPTIONS = ("size", "mode", "access", "runner", "vm", "node", "zone", "count", "volume")
CHOICES: Mapping[str, tuple[str, ...]] = {
    "mode": tuple(VolumeMode),
    "access": tuple(Access),
    "runner": tuple(RunnerKind),
    "vm": tuple(PRESETS),
    "volume": tuple(Lifetime),
}


def volume_request(options: Mapping[str, str]) -> VolumeRequest:
    """The options of a target as what they mean. Raises ValueError with a sentence."""
    count = options.get("count", "1")
    if not _COUNT.fullmatch(count) or int(count) > MOST_VOLUMES:
        raise ValueError(f"count is a number from 1 to {MOST_VOLUMES}, got {count[:20]!r}")
    runner = RunnerKind(options.get("runner", RunnerKind.POD))
    mode = VolumeMode(options["mode"]) if "mode" in options else None
    if runner is RunnerKind.VM and mode is VolumeMode.FILESYSTEM:
        raise ValueError("a virtual machine takes its volume as a block device: leave mode away")
    if "vm" in options and runner is not RunnerKind.VM:
        raise ValueError("vm has an effect with runner=vm only")
    for key, pattern in (("node", _NODE), ("zone", _LABEL)):
        if key in options and not pattern.fullmatch(options[key]):
            raise ValueError(f"{options[key]!r} is no name of a {key}")
    if "node" in options and "zone" in options:
        raise ValueError("a node lies in one zone: give node or zone, not both")
    size = parse_size(options["size"]) if "size" in options else None
    if size is not None and size <= 0:
        raise ValueError("size must be more than zero")
    return VolumeRequest(
        size_bytes=size,
        mode=mode,
        access=Access(options.get("access", Access.RWO)),
        runner=runner,
        vm=options.get("vm", "small"),
        node=options.get("node", ""),
        zone=options.get("zone", ""),
        count=int(count),
        lifetime=Lifetime(options.get("volume", Lifetime.SAME)),
    )
