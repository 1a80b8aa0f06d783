"""The host inventory, captured at the start and the end of a run. Sizes in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from leadline.formats.nvme import Namespace, parse_nvme_list
from leadline.formats.result import FormatError


class Snapshot(BaseModel):
    # Deferred: there are many, and a command reads few of them.
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)


class BlockDevice(Snapshot):
    """A block device as lsblk shows it. `rotational` is from the kernel, often wrong in VMs."""

    name: str
    kind: str
    size_bytes: int
    model: str = ""
    rotational: bool
    scheduler: str = ""
    logical_sector_bytes: int = 0
    parent: str = ""


class NvmeNamespace(Snapshot):
    """An NVMe namespace as a block device. Unknown values are 0.

    `max_transfer_bytes` is the maximum of one command (MDTS and the kernel's limit), the minimum
    over several paths.
    """

    name: str
    size_bytes: int = 0
    logical_block_bytes: int = 0
    max_transfer_bytes: int = 0
    used_bytes: int = 0

    @property
    def has_no_limit(self) -> bool:
        """Whether there is no limit: the kernel then reports 2^32 - 1 sectors in whole KiB
        (block/blk-settings.c, blk_set_stacking_limits)."""
        return self.max_transfer_bytes >= ((1 << 31) - 1) * 1024


class NvmeController(Snapshot):
    """An NVMe controller: local (`transport` pcie) or over a network (tcp, rdma, fc, loop).

    `queues` includes the admin queue, `queue_depth` is the length of each. Unknown values are 0 or
    empty. With native multipath, several controllers of a subsystem serve the same namespaces, by
    `multipath_policy`.
    """

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
    """The mount of a directory target, the device of a block device target."""

    target: str
    url: str
    mount: Mount | None = None
    device: str | None = None


class HostInventory(Snapshot):
    """The load generator, which also holds local targets."""

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


def add_nvme_list(controllers: Sequence[NvmeController], listed: str) -> tuple[NvmeController, ...]:
    """Add used bytes, models and sizes of `nvme list -o json` to what the kernel reports.

    Other text adds nothing.
    """
    try:
        known = {namespace.name: namespace for namespace in parse_nvme_list(listed)}
    except FormatError:
        return tuple(controllers)
    return tuple(_complete(controller, known) for controller in controllers)


def _complete(controller: NvmeController, known: dict[str, Namespace]) -> NvmeController:
    models = (known[item.name].model for item in controller.namespaces if item.name in known)
    return controller.model_copy(
        update={
            "model": controller.model or next(filter(None, models), ""),
            "namespaces": tuple(
                _complete_namespace(item, known[item.name]) if item.name in known else item
                for item in controller.namespaces
            ),
        }
    )


def _complete_namespace(item: NvmeNamespace, listed: Namespace) -> NvmeNamespace:
    return item.model_copy(
        update={
            "size_bytes": item.size_bytes or listed.size_bytes,
            "logical_block_bytes": item.logical_block_bytes or listed.sector_bytes,
            "used_bytes": listed.used_bytes,
        }
    )
