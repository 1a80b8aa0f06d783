"""`nvme smart-log` as text: a device's health and what it has done.

Read and written are counted in units of 1000 blocks of 512 bytes, rounded up, whatever a block's
size (NVMe base specification, SMART / Health Information Log Page): a device that has read six
blocks says 1, which is up to 512,000 bytes. A target on Linux that has no figure for something says
0, of the temperature 0 Kelvin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from leadline.formats.nvme.text import (
    ends_early,
    lines_of,
    not_a_number,
    pair,
    refused,
    told_number,
    whole_number,
)

_TOOL: Final = "nvme smart-log"
_TITLE: Final = re.compile(
    r"Smart Log for NVME device:\s*(?P<device>\S{1,64}) namespace-id:(?P<nsid>[0-9a-fx]{1,10})",
    re.ASCII,
)
_UNIT_BYTES: Final = 1000 * 512
_AMOUNT: Final = re.compile(r"(?P<units>[\d,.]{1,60})(?:\s+\(.{1,30}\))?", re.ASCII)
_KELVIN: Final = re.compile(r".*\((?P<kelvin>\d{1,5})\s*K(?:elvin)?\)")
_CELSIUS: Final = re.compile(r"(?P<celsius>-?\d{1,4})\s*[^\d\s]{0,2}\s*C\b.*")
_PERCENT: Final = re.compile(r"(?P<percent>\d{1,3})%", re.ASCII)
_BEYOND: Final = 1 << 128


@dataclass(frozen=True, slots=True, kw_only=True)
class SmartLog:
    """None where the output lacks a figure. `temperature_k` in Kelvin, None where the device says
    0; `used` is a fraction of the life that the maker expects, and may be above 1. `read_bytes` and
    `written_bytes` are up to 511,999 too many. `busy_s` is how long I/O commands were outstanding,
    in whole minutes. `fields` are all as printed, by their names in lower case with underscores:
    those of nvme-cli differ by version (`Data Units Read`, `data_units_read`)."""

    device: str
    critical_warning: int
    temperature_k: float | None
    used: float | None
    read_bytes: int | None
    written_bytes: int | None
    read_commands: int | None
    write_commands: int | None
    busy_s: float | None
    media_errors: int | None
    fields: Mapping[str, str]


def parse_smart_log(text: str) -> SmartLog:
    """Raises FormatError (`empty-result`, `truncated-result`, `unreadable-result`) with the
    line."""
    device = ""
    fields: dict[str, str] = {}
    for line in lines_of(text, _TOOL):
        title = _TITLE.fullmatch(line.text)
        if title and not fields:
            device = title["device"]
            continue
        told = pair(line.text)
        if told is None or line.cut:
            raise refused(line, _TOOL)
        # -H spells the bits of the warning out below it, indented.
        if line.text[0].isspace():
            continue
        key = "_".join(told[0].lower().split())
        if key in fields:
            raise refused(line, _TOOL)
        fields[key] = told[1]
    warning = told_number(fields, "critical_warning", _TOOL)
    if warning is None:
        raise ends_early(_TOOL, "`critical_warning`")
    minutes = told_number(fields, "controller_busy_time", _TOOL)
    return SmartLog(
        device=device,
        critical_warning=warning,
        temperature_k=_temperature_k(fields),
        used=_used(fields),
        read_bytes=_bytes(fields, "data_units_read"),
        written_bytes=_bytes(fields, "data_units_written"),
        read_commands=told_number(fields, "host_read_commands", _TOOL),
        write_commands=told_number(fields, "host_write_commands", _TOOL),
        busy_s=None if minutes is None else minutes * 60.0,
        media_errors=told_number(fields, "media_errors", _TOOL),
        fields=MappingProxyType(fields),
    )


def _bytes(fields: Mapping[str, str], key: str) -> int | None:
    if key not in fields:
        return None
    found = _AMOUNT.fullmatch(fields[key])
    units = whole_number(found["units"]) if found else None
    if units is None or units * _UNIT_BYTES >= _BEYOND:
        raise not_a_number(fields, key, _TOOL)
    return units * _UNIT_BYTES


def _used(fields: Mapping[str, str]) -> float | None:
    if "percentage_used" not in fields:
        return None
    percent = _PERCENT.fullmatch(fields["percentage_used"])
    if percent is None:
        raise not_a_number(fields, "percentage_used", _TOOL)
    return int(percent["percent"]) / 100


def _temperature_k(fields: Mapping[str, str]) -> float | None:
    if "temperature" not in fields:
        return None
    kelvin = _KELVIN.fullmatch(fields["temperature"])
    celsius = _CELSIUS.fullmatch(fields["temperature"])
    if kelvin:
        return float(kelvin["kelvin"]) or None
    if celsius is None:
        raise not_a_number(fields, "temperature", _TOOL)
    return float(celsius["celsius"]) + 273
