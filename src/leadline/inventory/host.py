"""The host inventory, captured at the start and the end of a run. Sizes in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from leadline.formats.nvme import Namespace, parse_nvme_list
from leadline.formats.result import FormatError


class Snapshot(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class BlockDevice(Snapshot):
    """A block device as lsblk shows it. `rotational` is the kernel's word, often wrong in VMs."""

    name: str
    kind: str
    size_bytes: int
    model: str = ""
    rotational: bool
    scheduler: str = ""
    logical_sector_bytes: int = 0
    parent: str = ""


class NvmeNamespace(Snapshot):
    """A namespace of NVMe as a block device. `max_transfer_bytes` is the most that one command may
    carry (MDTS and the kernel's own limit), with several paths the least of theirs. What is not
    told is 0."""

    name: str
    size_bytes: int = 0
    logical_block_bytes: int = 0
    max_transfer_bytes: int = 0
    used_bytes: int = 0

    @property
    def has_no_limit(self) -> bool:
        """Whether the kernel says so: its limit then is 2^32 - 1 sectors (block/blk-settings.c,
        blk_set_stacking_limits), in whole KiB."""
        return self.max_transfer_bytes >= ((1 << 31) - 1) * 1024


class NvmeController(Snapshot):
    """A controller, which is a way to its namespaces: in the machine (`transport` pcie) or over a
    network (tcp, rdma, fc, loop). `queues` counts the one for administration, too, `queue_depth`
    is the length of each; what is not told is 0 or empty. With native multipath several
    controllers of one subsystem lead to the same namespaces, by `multipath_policy`."""

    name: str
    model: str = ""
    firmware: str = ""
    transport: str = ""
    address: str = ""
    state: str = ""
    subsystem_nqn: str = ""
    queues: int = 0
    queue_depth: int = 0
    multipath_policy: str = ""
    namespaces: tuple[NvmeNamespace, ...] = ()


class Mount(Snapshot):
    """The filesystem under a target's path."""

    source: str
    mount_point: str
    filesystem: str
    options: str


class TargetInventory(Snapshot):
    """What a target stands on: a mount for a directory, a device for a block device."""

    target: str
    url: str
    mount: Mount | None = None
    device: str | None = None


class HostInventory(Snapshot):
    """The machine that generated the load, and on which local targets lie."""

    schema_: Literal["leadline/inventory/1"] = Field(default="leadline/inventory/1", alias="schema")
    taken_at: str
    hostname: str
    operating_system: str
    kernel: str
    architecture: str
    virtualization: str = ""
    cpu_model: str
    cores: int
    memory_bytes: int
    block_devices: tuple[BlockDevice, ...] = ()
    nvme: tuple[NvmeController, ...] = ()
    targets: tuple[TargetInventory, ...] = ()
    fio_version: str = ""


# What nvme-cli adds to what the kernel tells of NVMe.


def with_list(controllers: Sequence[NvmeController], listed: str) -> tuple[NvmeController, ...]:
    """Controllers with what `nvme list -o json` tells besides: bytes used, and models and sizes
    that the kernel did not tell. A text that is no such list adds nothing."""
    try:
        known = {one.name: one for one in parse_nvme_list(listed)}
    except FormatError:
        return tuple(controllers)
    return tuple(_completed(one, known) for one in controllers)


def _completed(controller: NvmeController, known: dict[str, Namespace]) -> NvmeController:
    models = (known[one.name].model for one in controller.namespaces if one.name in known)
    return controller.model_copy(
        update={
            "model": controller.model or next(filter(None, models), ""),
            "namespaces": tuple(
                _with(one, known[one.name]) if one.name in known else one
                for one in controller.namespaces
            ),
        }
    )


def _with(one: NvmeNamespace, told: Namespace) -> NvmeNamespace:
    return one.model_copy(
        update={
            "size_bytes": one.size_bytes or told.size_bytes,
            "logical_block_bytes": one.logical_block_bytes or told.sector_bytes,
            "used_bytes": told.used_bytes,
        }
    )
