"""A lab's description from a YAML file and the command line, or all its faults at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from leadline import errors
from leadline.errors import LeadlineError
from leadline.plan.faults import Fault
from leadline.plan.lab_description import (
    DOMAINS,
    MOST_OSDS,
    LabDescription,
    LabDocument,
    Topology,
    choices,
    conflicts,
)
from leadline.plan.small_file import read_small_text
from leadline.plan.yaml_positions import KeyPath, Positioned, YamlFault, load_positioned


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOverrides:
    """What the command line sets over a description; None leaves it alone. `osds` of the whole
    lab decides `hosts_per_domain`, or `hosts`."""

    topology: str | None = None
    osds: int | None = None
    store: str | None = None
    osd_size: str | None = None
    inter_zone_rtt: str | None = None
    cpu_per_host: float | None = None


class LabInvalid(LeadlineError):
    """A description with all its faults, in the order of their lines."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda one: one.line or 0))
        count = len(self.faults)
        super().__init__(
            errors.LAB_INVALID,
            f"the lab's description has {count} fault{'s' if count > 1 else ''}",
            context=[str(fault) for fault in self.faults],
            hint=f"keys of a description: {', '.join(LabDocument.model_fields)}",
        )


def load_description(path: Path | None, overrides: LabOverrides) -> LabDescription:
    """The description in a YAML file, or the defaults, with what the command line sets.

    Raises LeadlineError(`lab-invalid`) that lists every fault at once."""
    document = _read(path) if path else Positioned(value={})
    written = document.value if document.value is not None else {}
    if not isinstance(written, dict):
        raise LabInvalid([_fault(path, document, (), "a lab's description is a mapping of keys")])
    faults = _Faults(path=path, document=document)
    raw = dict(written)
    for key in ("topology", "store", "osd_size", "inter_zone_rtt", "cpu_per_host"):
        given = getattr(overrides, key)
        if given is not None:
            raw[key] = given
            faults.options[key] = f"--{key.replace('_', '-')}"
    if overrides.osds is not None:
        key = "hosts" if raw.get("topology") == Topology.HOSTS else "hosts_per_domain"
        faults.options[key] = "--osds"
        if hosts := _hosts(key, overrides.osds, raw, faults):
            raw[key] = hosts
    try:
        checked: LabDocument | None = LabDocument.model_validate(raw)
    except ValidationError as error:
        checked = None
        faults.take(error)
    for key_path, message in conflicts(raw):
        faults.add(key_path, message)
    if faults.found or checked is None:
        raise LabInvalid(faults.found)
    return checked.described()


@dataclass(slots=True, kw_only=True)
class _Faults:
    """Collects faults; `options` are keys that the command line set, and by which option."""

    path: Path | None
    document: Positioned
    options: dict[str, str] = field(default_factory=dict)
    found: dict[Fault, None] = field(default_factory=dict)

    def add(self, key: KeyPath, message: str, nearest: str | None = None) -> None:
        option = self.options.get(str(key[0])) if key else None
        if option is not None:
            fault = Fault(
                file="command line", line=None, key=option, message=message, nearest=nearest
            )
        else:
            fault = _fault(self.path, self.document, key, message, nearest)
        self.found[fault] = None

    def take(self, error: ValidationError) -> None:
        for detail in error.errors():
            path = detail["loc"]
            value = detail.get("input")
            if not path:
                continue  # what does not fit together, which is told with its own keys
            if detail["type"] == "extra_forbidden":
                known: Iterable[str] = LabDocument.model_fields
                self.add(path, f"unknown key {path[-1]!r}", _nearest(str(path[-1]), known))
            elif detail["type"] == "enum":
                known = choices(str(path[0]))
                message = f"is {value!r}; known are {', '.join(known)}"
                self.add(path, message, _nearest(str(value), known))
            elif detail["type"] == "value_error":
                self.add(path, str(detail["ctx"]["error"]))
            else:
                message = detail["msg"][0].lower() + detail["msg"][1:]
                shown = "" if isinstance(value, dict | list) else f", got {value!r}"
                self.add(path, message + shown)


def _nearest(word: str, known: Iterable[str]) -> str | None:
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return found[0] if found else None


def _fault(
    path: Path | None, document: Positioned, key: KeyPath, message: str, nearest: str | None = None
) -> Fault:
    dotted = ""
    for part in key:
        dotted += f"[{part}]" if isinstance(part, int) else f".{part}" if dotted else part
    return Fault(
        file=str(path) if path else "command line",
        line=document.line(key) if path else None,
        key=dotted or "lab",
        message=message,
        nearest=nearest,
    )


def _hosts(key: str, osds: int, raw: Mapping[str, Any], faults: _Faults) -> int | None:
    """Hosts (of each zone or rack) so that there are `osds` OSDs in all; None with a fault."""
    each = raw.get("osds_per_host", 1)
    each = each if type(each) is int and each > 0 else 1
    step = each if key == "hosts" else DOMAINS * each
    if DOMAINS * each <= osds <= MOST_OSDS and osds % step == 0:
        return osds // step
    per_host = f" x {each} on each host" if each > 1 else ""
    asked = f"{DOMAINS} or more hosts" if key == "hosts" else f"a multiple of {DOMAINS}"
    faults.add(
        (key,),
        f"{osds} OSDs cannot be spread evenly: a lab has {asked}{per_host}, and {MOST_OSDS} "
        "at most",
    )
    return None


def _read(path: Path) -> Positioned:
    try:
        return load_positioned(read_small_text(path))
    except YamlFault as fault:
        raise LeadlineError(
            errors.LAB_INVALID,
            f"the description {str(path)!r} is not YAML that a lab can be written in",
            context=[f"{path}:{fault.line}: {fault}"],
        ) from fault
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise LeadlineError(
            errors.LAB_INVALID,
            f"the lab's description {str(path)!r} cannot be read: {said}",
            hint="leave the file out for a lab with three OSDs in three zones",
        ) from error
