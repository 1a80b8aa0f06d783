"""Saved answers of a Ceph cluster: which there are, and how they are read without guessing.

A capture is a mapping from a file's name to its bytes; the name is the command with underscores
for blanks and hyphens, and `.json`. What a live cluster answered, what an archive keeps and what
somebody saved in a folder are the same thing, and the model (leadline.inventory.ceph.model) is a
function of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import ValidationError

from leadline import errors
from leadline.errors import LeadlineError
from leadline.plan.lab import LabDescription

Dumps = Mapping[str, bytes]


class Asked(Enum):
    """The daemon that answers a command."""

    MON = "mon"
    MGR = "mgr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """One answer of a cluster. `purpose` completes "it is needed for ..."; `arguments` are what
    the command takes besides its prefix."""

    name: str
    command: str
    purpose: str
    asked: Asked = Asked.MON
    prefix: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    required: bool = False

    @property
    def request(self) -> tuple[str, dict[str, str]]:
        return self.prefix or self.command, dict(self.arguments)


def _dump(command: str, purpose: str, **rest: Any) -> Dump:
    return Dump(name=dump_name(command), command=command, purpose=purpose, **rest)


def dump_name(command: str) -> str:
    """`osd pool autoscale-status` -> `osd_pool_autoscale_status.json`."""
    return re.sub(r"[ -]", "_", command) + ".json"


STATUS = _dump("status", "placement groups, recovery and capacity", required=True)
HEALTH = _dump(
    "health detail",
    "health and its checks",
    prefix="health",
    arguments=(("detail", "detail"),),
    required=True,
)
OSD_DUMP = _dump("osd dump", "OSDs, pools, flags and full ratios", required=True)
OSD_TREE = _dump("osd tree", "where every OSD stands", required=True)
CRUSH = _dump("osd crush dump", "CRUSH rules: failure domain, root and device class of pools")
CRUSH_RULES = _dump("osd crush rule dump", "CRUSH rules where there is no crush dump")
OSD_DF = _dump(
    "osd df tree",
    "size, use and placement groups of every OSD",
    asked=Asked.MGR,
    prefix="osd df",
    arguments=(("output_method", "tree"),),
)
OSD_METADATA = _dump("osd metadata", "hosts, media and stores of OSDs")
AUTOSCALE = _dump("osd pool autoscale-status", "what the autoscaler itself says", asked=Asked.MGR)
DF = _dump("df detail", "what pools store", prefix="df", arguments=(("detail", "detail"),))
FS = _dump("fs dump", "filesystems and their MDS")
QUORUM = _dump("quorum_status", "monitors and who of them leads")
MGR = _dump("mgr dump", "the active manager, its standbys and modules")
VERSIONS = _dump("versions", "the release of every daemon")
CONFIG = _dump("config dump", "the configuration database")
BALANCER = _dump("balancer status", "whether placement groups are kept balanced", asked=Asked.MGR)
CRYPT_KEYS = _dump("config-key ls", "names of the dm-crypt keys that the monitors keep")
TARGET_PGS = _dump(
    "config get mgr mon_target_pg_per_osd",
    "the placement groups that the autoscaler aims at per OSD",
    prefix="config get",
    arguments=(("who", "mgr"), ("key", "mon_target_pg_per_osd")),
)

# In the order in which they are asked. `pg dump` is not among them: its size grows with the
# placement groups (some 200 bytes each, 100 MB of a large cluster), and status and osd df hold
# the states and the count of each OSD.
DUMPS = (
    STATUS, HEALTH, OSD_DUMP, OSD_TREE, CRUSH, OSD_DF, OSD_METADATA, AUTOSCALE, DF, FS, QUORUM,
    MGR, VERSIONS, CONFIG, BALANCER, CRYPT_KEYS, TARGET_PGS,
)  # fmt: skip
BY_NAME = {dump.name: dump for dump in (*DUMPS, CRUSH_RULES)}

_CONFIG_SHOW = re.compile(r"config_show_(mon|mgr|osd|mds)\.?([\w.-]+)\.json")
# What the `ceph` program says on stderr, in case it was saved with the answer.
_SAID = re.compile(rb"\s*(dumped (all|fsmap epoch \d+|monmap epoch \d+|pgs_brief|osds|pools)"
                   rb"[^\n]*)\n")  # fmt: skip


def config_show(daemon: str) -> Dump:
    """The settings with which a daemon (`osd.0`, `mon.a`) runs, where they are not defaults."""
    return _dump(
        f"config show {daemon}",
        "settings from configuration files, which override the database",
        asked=Asked.MGR,
        prefix="config show",
        arguments=(("who", daemon),),
    )


def shown_daemons(dumps: Dumps) -> dict[str, str]:
    """Daemon -> name of the dump that holds its running configuration."""
    found = {}
    for name in sorted(dumps):
        matched = _CONFIG_SHOW.fullmatch(name)
        if matched:
            found[f"{matched[1]}.{matched[2]}"] = name
    return found


def is_dump(name: str) -> bool:
    return name in BY_NAME or _CONFIG_SHOW.fullmatch(name) is not None


def load(dumps: Dumps, dump: Dump) -> Node | None:
    """A dump decoded; None where an optional one is missing.

    Raises LeadlineError(`dumps-invalid`) for a required one that is missing, and for any that
    is no JSON.
    """
    if dump.name not in dumps:
        if not dump.required:
            return None
        raise LeadlineError(
            errors.DUMPS_INVALID,
            f"there is no {dump.name}",
            context=[f"it is needed for {dump.purpose}"],
            hint=f"save it: ceph {dump.command} --format json > {dump.name}",
        )
    return parse(dump.name, dumps[dump.name])


def parse(name: str, content: bytes) -> Node:
    """The JSON of a dump. Raises LeadlineError(`dumps-invalid`) with the position."""
    said = _SAID.match(content)
    text = content[said.end() :] if said else content
    try:
        return Node(name, "", json.loads(text))
    except (ValueError, RecursionError) as error:
        where = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "its text"
        dump = BY_NAME.get(name)
        command = dump.command if dump else name.removesuffix(".json").replace("_", " ")
        raise LeadlineError(
            errors.DUMPS_INVALID,
            f"{name} is no JSON: {error if text.strip() else 'it is empty'}",
            context=[f"{name}, {where}"],
            hint=f"save it again: ceph {command} --format json > {name}",
        ) from error


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a dump that knows where it is. Every method raises LeadlineError
    (`dumps-invalid`) with the position where the dump is not as Ceph writes it."""

    file: str
    path: str
    value: Any

    def wrong(self, expected: str) -> LeadlineError:
        shown = json.dumps(self.value)
        return LeadlineError(
            errors.DUMPS_INVALID,
            f"{self.file}: {self.path or 'the whole'} is not {expected}",
            context=[f"it is {shown if len(shown) <= 60 else shown[:59] + '…'}"],
            hint="the dump is damaged, or of a release of Ceph that Leadline does not know",
        )

    def __getitem__(self, key: str) -> Node:
        found = self.get(key)
        if found is None:
            raise LeadlineError(
                errors.DUMPS_INVALID,
                f"{self.file}: {self.path or 'the whole'} has no {key!r}",
                hint="the dump is damaged, or of a release of Ceph that Leadline does not know",
            )
        return found

    def get(self, key: str) -> Node | None:
        """The member of an object; None where there is none."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        if key not in self.value:
            return None
        return Node(self.file, f"{self.path}.{key}" if self.path else key, self.value[key])

    def items(self) -> Iterator[tuple[str, Node]]:
        """Members of an object."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        for key in self.value:
            yield key, self[key]

    def __iter__(self) -> Iterator[Node]:
        """Elements of a list."""
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        for number, value in enumerate(self.value):
            yield Node(self.file, f"{self.path}[{number}]", value)

    @property
    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wrong("text")
        return self.value

    @property
    def integer(self) -> int:
        """A whole number; Ceph writes some as text and some with a fraction of zero."""
        number = self.number
        if not number.is_integer():
            raise self.wrong("a whole number")
        return int(self.value) if isinstance(self.value, int | str) else int(number)

    @property
    def count(self) -> int:
        """A whole number that is not negative."""
        number = self.integer
        if number < 0:
            raise self.wrong("a number of zero or more")
        return number

    @property
    def number(self) -> float:
        """A finite number, or text that is one."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise self.wrong("a number")
        try:
            number = float(value)
        except (ValueError, OverflowError) as error:
            raise self.wrong("a number") from error
        if number != number or number in (float("inf"), float("-inf")):
            raise self.wrong("a finite number")
        return number

    @property
    def flag(self) -> bool:
        """true and false, which Ceph also writes as 1 and 0, or as text."""
        known = {True: True, False: False, "true": True, "false": False, "1": True, "0": False}
        try:
            return known[self.value]
        except (KeyError, TypeError) as error:
            raise self.wrong("true or false") from error

    def count_or(self, key: str, default: int) -> int:
        found = self.get(key)
        return default if found is None else found.count

    def number_or(self, key: str, default: float) -> float:
        found = self.get(key)
        return default if found is None else found.number

    def text_or(self, key: str, default: str) -> str:
        found = self.get(key)
        return default if found is None else found.text


# What a lab tells of itself among the dumps of its cluster.

LAB = "lab.json"


def described_lab(dumps: Dumps) -> LabDescription | None:
    """The description of the lab that the dumps are of; None for a cluster that is none. Raises
    LeadlineError(`dumps-invalid`)."""
    content = dumps.get(LAB)
    if content is None:
        return None
    try:
        told = json.loads(content)
        return LabDescription.model_validate(told["description"])
    except (ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
        raise LeadlineError(
            errors.DUMPS_INVALID,
            f"{LAB} is not what this version of Leadline writes of a lab",
            hint="it was changed, or comes of a newer version",
        ) from error
