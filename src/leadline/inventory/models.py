"""The host inventory, captured at the start and the end of a run. Sizes in bytes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


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
    targets: tuple[TargetInventory, ...] = ()
    fio_version: str = ""
