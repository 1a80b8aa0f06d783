"""`nvme list-subsys`: subsystems and the controllers through which they are reached.

    nvme-subsys0 - NQN=nqn.test
    \\
     +- nvme0 tcp traddr=127.0.0.1,trsvcid=4420,src_addr=127.0.0.1 live

As JSON (-o json) there is a list of hosts with their subsystems; nvme-cli 1 has no hosts, and its
list alternates between a subsystem's names and an object that holds nothing but its `Paths`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from leadline.formats.checked import mapping, text, wrong
from leadline.formats.nvme.listing import decoded, objects, text_or_empty
from leadline.formats.nvme.text import Line, lines_of, refused

_TOOL: Final = "nvme list-subsys"
_SUBSYSTEM: Final = re.compile(r"(?P<name>\S{1,64}) - NQN=(?P<nqn>\S.*)", re.ASCII)
# From 2.5 on lines such as `hostnqn=...` and `iopolicy=numa` stand below it.
_FACT: Final = re.compile(r"\s+(?P<key>[a-z]{1,20})\s*=\s*(?P<value>.*)", re.ASCII)
_PATH: Final = re.compile(
    r"\s*\+- (?P<name>\S+) (?P<transport>[a-z]+)(?P<rest>(?: +\S+)*)", re.ASCII
)
# drivers/nvme/host/sysfs.c, nvme_sysfs_show_state.
_STATES: Final = ("deleting (no IO)", "new", "live", "resetting", "connecting", "deleting", "dead")
_ANA_STATES: Final = frozenset(
    {"optimized", "non-optimized", "inaccessible", "persistent-loss", "change"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsystemPath:
    """A controller of a subsystem. `address` is as the kernel has it, `parts` of it by key
    (`traddr`, `trsvcid`, `src_addr`, `host_traddr`, ...), none for a PCI address. `state` is
    `live` where it serves I/O; `ana_state` is empty where it is not told."""

    name: str
    transport: str
    address: str
    parts: Mapping[str, str]
    state: str
    ana_state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subsystem:
    """`host_nqn` and `io_policy` are empty where the version does not tell them."""

    name: str
    nqn: str
    host_nqn: str
    io_policy: str
    paths: tuple[SubsystemPath, ...]


@dataclass(slots=True, kw_only=True)
class _Reading:
    name: str
    nqn: str
    facts: dict[str, str]
    paths: list[SubsystemPath]


def parse_subsystems(given: str) -> tuple[Subsystem, ...]:
    """All subsystems in order; none where the list is empty. Raises FormatError (`empty-result`,
    `truncated-result`, `unreadable-result`) with the line or the path."""
    if given.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return _of_json(given)
    found: list[_Reading] = []
    for line in lines_of(given, _TOOL):
        subsystem = _SUBSYSTEM.fullmatch(line.text)
        fact = _FACT.fullmatch(line.text) if found else None
        if line.cut or not (subsystem or found):
            raise refused(line, _TOOL)
        if subsystem:
            found.append(_Reading(name=subsystem["name"], nqn=subsystem["nqn"], facts={}, paths=[]))
        elif fact:
            found[-1].facts[fact["key"]] = fact["value"]
        elif line.text.strip() != "\\":
            found[-1].paths.append(_of_line(line))
    return tuple(
        Subsystem(
            name=one.name,
            nqn=one.nqn,
            host_nqn=one.facts.get("hostnqn", ""),
            io_policy=one.facts.get("iopolicy", ""),
            paths=tuple(one.paths),
        )
        for one in found
    )


def _of_line(line: Line) -> SubsystemPath:
    found = _PATH.fullmatch(line.text)
    if found is None:
        raise refused(line, _TOOL)
    rest = found["rest"]
    ana_state = rest.rsplit(" ", 1)[-1]
    if ana_state in _ANA_STATES:
        rest = rest[: -len(ana_state) - 1]
    else:
        ana_state = ""
    state = next((one for one in _STATES if rest.endswith(f" {one}")), "")
    if not state:
        raise refused(line, _TOOL)
    return _path(
        found["name"],
        found["transport"],
        rest[: -len(state) - 1].strip(),
        state,
        ana_state,
    )


def _path(name: str, transport: str, address: str, state: str, ana_state: str) -> SubsystemPath:
    # Kernels before 5.18 separate by blanks.
    cells = [cell.partition("=") for cell in re.split(r"[, ]+", address)]
    parts = {key: value for key, equals, value in cells if equals}
    return SubsystemPath(
        name=name,
        transport=transport,
        address=address,
        parts=MappingProxyType(parts),
        state=state,
        ana_state=ana_state,
    )


def _of_json(given: str) -> tuple[Subsystem, ...]:
    root = decoded(given, _TOOL)
    hosts = root if isinstance(root, list) else [root]
    found: list[Subsystem] = []
    for number, host in enumerate(hosts):
        where = f"[{number}]"
        entry = mapping(host, where)
        if "Subsystems" not in entry and entry:
            raise wrong(where, "a list `Subsystems` was expected")
        told: list[Subsystem] = []
        for index, one in enumerate(objects(entry, "Subsystems", where)):
            place = f"{where}.Subsystems[{index}]"
            paths = tuple(_of_entry(path, place) for path in objects(one, "Paths", place))
            if "Name" not in one and told:
                last = told.pop()
                one = {"Name": last.name, "NQN": last.nqn}
                paths = last.paths + paths
            told.append(_subsystem(one, place, entry, paths))
        found += told
    return tuple(found)


def _subsystem(
    entry: Mapping[str, Any],
    where: str,
    host: Mapping[str, Any],
    paths: tuple[SubsystemPath, ...],
) -> Subsystem:
    return Subsystem(
        name=text(entry, "Name", where),
        nqn=text(entry, "NQN", where),
        host_nqn=text_or_empty(host, "HostNQN", where),
        io_policy=text_or_empty(entry, "IOPolicy", where),
        paths=paths,
    )


def _of_entry(entry: Mapping[str, Any], where: str) -> SubsystemPath:
    return _path(
        text(entry, "Name", where),
        text_or_empty(entry, "Transport", where),
        text_or_empty(entry, "Address", where),
        text_or_empty(entry, "State", where),
        text_or_empty(entry, "ANAState", where),
    )
