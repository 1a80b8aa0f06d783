"""`nvme list`: namespaces, as JSON in its two layouts or as a table.

Up to nvme-cli 2.10 the JSON is flat, a device each (`nvme list -o json`); from 2.11 on, and before
with -v, it is a tree of hosts, subsystems, controllers and namespaces (its issue 2749), where a
namespace stands below its controller or, with multipath, below its subsystem. -v of nvme-cli 1
begins with the subsystems: it knows no hosts. The table's sizes are
powers of 1000 with three to five digits. `MaximumLBA` is the number of blocks, not the last one's
address: times `SectorSize` it is `PhysicalSize`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from leadline.formats.result import FormatError
from leadline.formats.text import count, mapping, text, wrong

# Lines of nvme-cli's text, and its `key : value` pages.

_PAIR: Final = re.compile(r"(?P<key>[A-Za-z][\w .-]{0,63}?)\s*:(?:\s+(?P<value>.*))?", re.ASCII)
_LONGEST_LINE: Final = 5000
_SHOWN: Final = 160
_TEXT_BEYOND: Final = 1 << 128
_HEX: Final = re.compile(r"0x[0-9a-fA-F]{1,32}", re.ASCII)
_GROUPED: Final = re.compile(r"\d{1,40}|\d{1,3}(?:[,.]\d{3})+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    number: int
    text: str
    cut: bool


def lines_of(text: str, tool: str) -> tuple[Line, ...]:
    """Lines that are not blank, without blanks at their ends. Raises FormatError
    (`empty-result`, and `unreadable-result` where one is longer than any of the tool)."""
    given = text.removeprefix("\ufeff").split("\n")
    told = tuple(
        Line(number=number, text=line.rstrip(), cut=number == len(given))
        for number, line in enumerate(given, start=1)
        if line.strip()
    )
    if not told:
        raise FormatError("empty-result", f"the output of {tool} is empty")
    for line in told:
        if len(line.text) > _LONGEST_LINE:
            raise refused(line, tool)
    return told


def refused(line: Line, tool: str) -> FormatError:
    """`truncated-result` where the line is the last one and has no end, else
    `unreadable-result`."""
    return FormatError(
        "truncated-result" if line.cut else "unreadable-result",
        f"line {line.number} of the output of {tool} is "
        + ("cut off" if line.cut else "not understood"),
        context=(f"it says: {line.text.strip()[:_SHOWN]!r}",),
    )


def ends_early(tool: str, what: str) -> FormatError:
    return FormatError("truncated-result", f"the output of {tool} ends before {what}")


def pair(line: str) -> tuple[str, str] | None:
    """`sqes      : 0x66` as its key and value; None where the line is no pair."""
    found = _PAIR.fullmatch(line)
    return (found["key"], (found["value"] or "").strip()) if found else None


def whole_number(text: str) -> int | None:
    """`0x66`, `1024`, `1,234,567` (old versions group thousands by the locale); None else."""
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _GROUPED.fullmatch(text):
        value = int(text.replace(",", "").replace(".", ""))
        return value if value < _TEXT_BEYOND else None
    return None


def told_number(fields: Mapping[str, str], key: str, tool: str) -> int | None:
    """The number of a field; None where there is no such field. Raises FormatError where it is
    something else than a number."""
    if key not in fields:
        return None
    value = whole_number(fields[key])
    if value is None:
        raise not_a_number(fields, key, tool)
    return value


def not_a_number(fields: Mapping[str, str], key: str, tool: str) -> FormatError:
    return FormatError(
        "unreadable-result",
        f"`{key}` of {tool} is no number",
        context=(f"it says: {fields[key][:_SHOWN]!r}",),
    )


_TOOL: Final = "nvme list"
# Generic came with 2.0; before 1.0 the format had no metadata.
_HEADS: Final = {
    "Node": "node", "Generic": "generic", "SN": "serial", "Model": "model",
    "Namespace": "nsid", "Usage": "usage", "Format": "format", "FW Rev": "firmware",
}  # fmt: skip
_SIZE: Final = r"(\d{1,20}(?:\.\d{1,6})?)\s*([kKMGTPE]?)i?B"
_USAGE: Final = re.compile(rf"{_SIZE}\s*/\s*{_SIZE}", re.ASCII)
_FORMAT: Final = re.compile(rf"{_SIZE}\s*\+\s*(\d{{1,5}})\s*B", re.ASCII)
_FACTORS: Final = {
    prefix: 1000**power for power, prefix in enumerate(("", "K", "M", "G", "T", "P", "E"))
}
_BINARY: Final = {"": 1, "K": 1 << 10, "M": 1 << 20}
_BEYOND: Final = float(1 << 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPath:
    """A controller through which a namespace is reached: `transport` is `pcie`, `tcp`, `rdma`,
    `fc` or `loop`, `address` as the kernel has it."""

    name: str
    transport: str
    address: str
    ana_state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """`name` as in /proc/diskstats. Bytes are good to the digits that a table has, and exact in
    JSON. What a layout does not tell is empty: the flat ones have no subsystem, no controllers."""

    name: str
    generic: str
    nsid: int
    serial: str
    model: str
    firmware: str
    used_bytes: int
    size_bytes: int
    sector_bytes: int
    subsystem: str
    nqn: str
    controllers: tuple[ControllerPath, ...]


def parse_nvme_list(given: str) -> tuple[Namespace, ...]:
    """All namespaces in order; none on a machine without any. Raises FormatError (`empty-result`,
    `truncated-result`, `unreadable-result`) with the line or the path."""
    if given.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return _of_json(given)
    lines = lines_of(given, _TOOL)
    if len(lines) < 2:
        raise refused(lines[0], _TOOL)
    if lines[0].text.startswith("Subsystem "):
        # Its three tables are not aligned: addresses are wider than their column.
        raise FormatError(
            "unreadable-result",
            f"line {lines[0].number} of the output of {_TOOL} is that of -v, whose columns cannot "
            "be told apart; take it without -v, or with -o json",
        )
    columns = _columns(lines[0], lines[1])
    return tuple(_of_row(line, columns) for line in lines[2:])


def decoded(given: str, tool: str) -> object:
    """JSON of nvme-cli. Raises FormatError."""
    try:
        return orjson.loads(given)
    except orjson.JSONDecodeError as error:
        cut = error.pos >= len(given.rstrip())
        raise FormatError(
            "truncated-result" if cut else "unreadable-result",
            f"line {error.lineno} of the output of {tool} is no JSON: {error.msg}",
        ) from error


def objects(entry: Mapping[str, Any], key: str, where: str) -> Sequence[Mapping[str, Any]]:
    """The list of objects below a key; none where there is no such key."""
    value = entry.get(key, [])
    if not isinstance(value, list):
        raise wrong(f"{where}.{key}", "a list was expected")
    return [mapping(one, f"{where}.{key}[{index}]") for index, one in enumerate(value)]


def text_or_empty(entry: Mapping[str, Any], key: str, where: str) -> str:
    return "" if entry.get(key) is None else text(entry, key, where).strip()


def _of_json(given: str) -> tuple[Namespace, ...]:
    root = mapping(decoded(given, _TOOL), "the output")
    if "Devices" not in root:
        raise wrong("the output", "a list `Devices` was expected")
    found: dict[str, Namespace] = {}
    for number, device in enumerate(objects(root, "Devices", "")):
        where = f".Devices[{number}]"
        if "Subsystems" in device:
            told = _of_host(device, where)
        elif "Controllers" in device or "Subsystem" in device:
            told = _of_subsystem(device, where)
        else:
            told = [_flat(device, where)]
        # A namespace may stand below each of its controllers.
        found |= {one.name: one for one in told if one.name not in found}
    return tuple(found.values())


def _flat(device: Mapping[str, Any], where: str) -> Namespace:
    # 2.0 to 2.3 leave the number out where the kernel does not tell it.
    nsid = count(device.get("NameSpace", 0), f"{where}.NameSpace")
    return _namespace(
        device,
        where,
        name=text(device, "DevicePath", where).removeprefix("/dev/"),
        generic=text_or_empty(device, "GenericPath", where).removeprefix("/dev/"),
        nsid=nsid,
        identity=device,
    )


def _of_host(host: Mapping[str, Any], where: str) -> list[Namespace]:
    return [
        one
        for number, subsystem in enumerate(objects(host, "Subsystems", where))
        for one in _of_subsystem(subsystem, f"{where}.Subsystems[{number}]")
    ]


def _of_subsystem(subsystem: Mapping[str, Any], where: str) -> list[Namespace]:
    controllers = objects(subsystem, "Controllers", where)
    shared = objects(subsystem, "Namespaces", where)
    paths = [
        (_path(one, f"{where}.Controllers[{number}]"), one)
        for number, one in enumerate(controllers)
    ]
    found = [
        _nested(one, f"{where}.Controllers", subsystem, controller, (path,))
        for path, controller in paths
        for one in objects(controller, "Namespaces", f"{where}.Controllers")
    ]
    identity: Mapping[str, Any] = controllers[0] if controllers else {}
    return found + [
        _nested(one, f"{where}.Namespaces", subsystem, identity, tuple(path for path, _ in paths))
        for one in shared
    ]


def _path(controller: Mapping[str, Any], where: str) -> ControllerPath:
    states = {
        text_or_empty(one, "ANAState", f"{where}.Paths")
        for one in objects(controller, "Paths", where)
    }
    return ControllerPath(
        name=text(controller, "Controller", where),
        transport=text_or_empty(controller, "Transport", where),
        address=text_or_empty(controller, "Address", where),
        # A controller has one for each namespace; they may differ.
        ana_state=states.pop() if len(states) == 1 else "",
    )


def _nested(
    entry: Mapping[str, Any],
    where: str,
    subsystem: Mapping[str, Any],
    identity: Mapping[str, Any],
    controllers: tuple[ControllerPath, ...],
) -> Namespace:
    return _namespace(
        entry,
        where,
        name=text(entry, "NameSpace", where),
        generic=text_or_empty(entry, "Generic", where),
        nsid=count(entry.get("NSID"), f"{where}.NSID"),
        identity=identity,
        subsystem=text_or_empty(subsystem, "Subsystem", where),
        nqn=text_or_empty(subsystem, "SubsystemNQN", where),
        controllers=controllers,
    )


def _namespace(
    entry: Mapping[str, Any],
    where: str,
    *,
    name: str,
    generic: str,
    nsid: int,
    identity: Mapping[str, Any],
    subsystem: str = "",
    nqn: str = "",
    controllers: tuple[ControllerPath, ...] = (),
) -> Namespace:
    return Namespace(
        name=name,
        generic=generic,
        nsid=nsid,
        serial=text_or_empty(identity, "SerialNumber", where),
        model=text_or_empty(identity, "ModelNumber", where),
        firmware=text_or_empty(identity, "Firmware", where),
        used_bytes=count(entry.get("UsedBytes"), f"{where}.UsedBytes"),
        size_bytes=count(entry.get("PhysicalSize"), f"{where}.PhysicalSize"),
        sector_bytes=count(entry.get("SectorSize"), f"{where}.SectorSize"),
        subsystem=subsystem,
        nqn=nqn,
        controllers=controllers,
    )


def _columns(heads: Line, dashes: Line) -> dict[str, slice]:
    """Where each column stands, by the dashes below its head. The last one has no end."""
    places = [found.span() for found in re.finditer(r"-+", dashes.text)]
    if set(dashes.text) != {"-", " "} or not places:
        raise refused(heads, _TOOL)
    ends = [end for _, end in places[:-1]] + [None]
    columns = {
        _HEADS.get(heads.text[begin:end].strip(), ""): slice(begin, end)
        for (begin, _), end in zip(places, ends, strict=True)
    }
    if "" in columns or not set(_HEADS.values()) - {"generic"} <= columns.keys():
        raise refused(heads, _TOOL)
    return columns


def _of_row(line: Line, columns: Mapping[str, slice]) -> Namespace:
    cells = {name: line.text[place].strip() for name, place in columns.items()}
    usage, sectors = _USAGE.fullmatch(cells["usage"]), _FORMAT.fullmatch(cells["format"])
    nsid = whole_number(cells["nsid"])
    if usage is None or sectors is None or nsid is None or not cells["node"] or line.cut:
        raise refused(line, _TOOL)
    used = _bytes(usage[1], usage[2], _FACTORS)
    size = _bytes(usage[3], usage[4], _FACTORS)
    sector = _bytes(sectors[1], sectors[2], _BINARY)
    if used is None or size is None or sector is None:
        raise refused(line, _TOOL)
    return Namespace(
        name=cells["node"].removeprefix("/dev/"),
        generic=cells.get("generic", "").removeprefix("/dev/"),
        nsid=nsid,
        serial=cells["serial"],
        model=cells["model"],
        firmware=cells["firmware"],
        used_bytes=used,
        size_bytes=size,
        sector_bytes=sector,
        subsystem="",
        nqn="",
        controllers=(),
    )


def _bytes(number: str, prefix: str, factors: Mapping[str, int]) -> int | None:
    factor = factors.get(prefix.upper())
    value = float(number) * (factor or 0)
    return round(value) if factor and value < _BEYOND else None
