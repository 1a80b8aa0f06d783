"""Namespaces in the JSON of `nvme list -o json`.

Up to nvme-cli 2.10 the JSON is flat, one object per device. From 2.11 on, and before with -v, it is
a tree of hosts, subsystems, controllers and namespaces (its issue 2749). A namespace is below its
controller or, with multipath, below its subsystem. With -v nvme-cli 1 has no level of hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from leadline.formats.json_lines import Count, format_path
from leadline.formats.result import FormatError


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A namespace. `name` is its name in /proc/diskstats; `model` is empty if it is not listed."""

    name: str
    model: str
    used_bytes: int
    size_bytes: int
    sector_bytes: int


class _Sizes(BaseModel):
    used_bytes: Count = Field(alias="UsedBytes")
    size_bytes: Count = Field(alias="PhysicalSize")
    sector_bytes: Count = Field(alias="SectorSize")


class _Nested(_Sizes):
    name: str = Field(alias="NameSpace")


class _Flat(_Sizes):
    path: str = Field(alias="DevicePath")
    model: str | None = Field(None, alias="ModelNumber")


class _Controller(BaseModel):
    model: str | None = Field(None, alias="ModelNumber")
    namespaces: list[_Nested] = Field([], alias="Namespaces")


class _Subsystem(BaseModel):
    controllers: list[_Controller] = Field([], alias="Controllers")
    namespaces: list[_Nested] = Field([], alias="Namespaces")


class _Host(BaseModel):
    subsystems: list[_Subsystem] = Field(alias="Subsystems")


class _List(BaseModel):
    devices: list[dict[str, object]] = Field(alias="Devices")


_LIST: Final = TypeAdapter(_List)


def parse_nvme_list(content: str) -> tuple[Namespace, ...]:
    """Parse `nvme list -o json`. Raises FormatError (`empty-result`, `truncated-result`,
    `unreadable-result`) with the line or the path."""
    text = content.removeprefix("\ufeff")
    if not text.strip():
        raise FormatError.empty("the output of nvme list is empty")
    try:
        devices = _LIST.validate_json(text).devices
    except ValidationError as error:
        raise _refused(error, "") from error
    found: dict[str, Namespace] = {}
    for number, device in enumerate(devices):
        try:
            namespaces = list(_device_namespaces(device))
        except ValidationError as error:
            raise _refused(error, f".Devices[{number}]") from error
        # A namespace may be below each of its controllers.
        found |= {each.name: each for each in namespaces if each.name not in found}
    return tuple(found.values())


def _device_namespaces(device: dict[str, object]) -> Iterator[Namespace]:
    if "Subsystems" in device:
        for subsystem in _Host.model_validate(device).subsystems:
            yield from _subsystem_namespaces(subsystem)
    elif "Controllers" in device or "Subsystem" in device:
        yield from _subsystem_namespaces(_Subsystem.model_validate(device))
    else:
        flat = _Flat.model_validate(device)
        yield _namespace(flat, flat.path.removeprefix("/dev/"), flat.model)


def _subsystem_namespaces(subsystem: _Subsystem) -> Iterator[Namespace]:
    for controller in subsystem.controllers:
        for nested in controller.namespaces:
            yield _namespace(nested, nested.name, controller.model)
    model = subsystem.controllers[0].model if subsystem.controllers else None
    for nested in subsystem.namespaces:
        yield _namespace(nested, nested.name, model)


def _namespace(sizes: _Sizes, name: str, model: str | None) -> Namespace:
    return Namespace(
        name=name,
        model=(model or "").strip(),
        used_bytes=sizes.used_bytes,
        size_bytes=sizes.size_bytes,
        sector_bytes=sizes.sector_bytes,
    )


def _refused(error: ValidationError, path: str) -> FormatError:
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        fault = first["ctx"]["error"]
        return FormatError.unreadable(
            f"the output of nvme list is not JSON: {fault}", cut=fault.startswith("EOF")
        )
    return FormatError.unreadable(f"{path}{format_path(first['loc'])}: {first['msg']}")
