"""The dumps of a Ceph cluster: their commands, and typed access to their JSON.

A capture maps file names to bytes. The name is the command with underscores for blanks and hyphens,
and `.json`. A live cluster, an archive and a folder of saved files are read as the same capture.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from pydantic import ValidationError

from leadline import errors
from leadline.errors import LeadlineError
from leadline.plan.lab import LabDescription

Dumps = Mapping[str, bytes]
Choice = TypeVar("Choice", bound=Enum)
Default = TypeVar("Default")


class Asked(Enum):
    """The daemon that answers a command."""

    MON = "mon"
    MGR = "mgr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """One answer of a cluster.

    `purpose` completes "it is needed for ..."; `arguments` are those of the command's prefix.
    """

    name: str
    command: str
    purpose: str
    asked: Asked = Asked.MON
    prefix: str = ""
    arguments: tuple[tuple[str, str | tuple[str, ...]], ...] = ()
    required: bool = False

    @property
    def request(self) -> tuple[str, dict[str, str | tuple[str, ...]]]:
        return self.prefix or self.command, dict(self.arguments)


def _dump(command: str, purpose: str, **rest: Any) -> Dump:
    return Dump(name=dump_name(command), command=command, purpose=purpose, **rest)


def dump_name(command: str) -> str:
    """Return `osd_pool_autoscale_status.json` for `osd pool autoscale-status`."""
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
OSD_TREE = _dump("osd tree", "the location of every OSD", required=True)
CRUSH = _dump("osd crush dump", "CRUSH rules: failure domain, root and device class of pools")
CRUSH_RULES = _dump("osd crush rule dump", "CRUSH rules without a crush dump")
OSD_DF = _dump(
    "osd df tree",
    "size, use and placement groups of every OSD",
    asked=Asked.MGR,
    prefix="osd df",
    arguments=(("output_method", "tree"),),
)
OSD_METADATA = _dump("osd metadata", "hosts, media and stores of OSDs")
AUTOSCALE = _dump("osd pool autoscale-status", "the numbers of the autoscaler", asked=Asked.MGR)
DF = _dump("df detail", "the stored bytes of pools", prefix="df", arguments=(("detail", "detail"),))
FS = _dump("fs dump", "filesystems and their MDS")
QUORUM = _dump("quorum_status", "monitors and their leader")
MGR = _dump("mgr dump", "the active manager, its standbys and modules")
VERSIONS = _dump("versions", "the release of every daemon")
CONFIG = _dump("config dump", "the configuration database")
BALANCER = _dump("balancer status", "whether placement groups are kept balanced", asked=Asked.MGR)
CRYPT_KEYS = _dump("config-key ls", "names of the dm-crypt keys that the monitors keep")
TARGET_PGS = _dump(
    "config get mgr mon_target_pg_per_osd",
    "the target of placement groups per OSD",
    prefix="config get",
    arguments=(("who", "mgr"), ("key", "mon_target_pg_per_osd")),
)

PGS = _dump(
    "pg dump pgs_brief",
    "the placement of every placement group: its primary and its acting set",
    asked=Asked.MGR,
    prefix="pg dump",
    arguments=(("dumpcontents", ("pgs_brief",)),),
)
# A manager's answer has about 200 bytes for each placement group. In larger clusters it is not
# requested.
MOST_PGS = 65_536

# In the order of their capture.
DUMPS = (
    STATUS, HEALTH, OSD_DUMP, OSD_TREE, CRUSH, OSD_DF, OSD_METADATA, AUTOSCALE, DF, FS, QUORUM,
    MGR, VERSIONS, CONFIG, BALANCER, CRYPT_KEYS, TARGET_PGS, PGS,
)  # fmt: skip
BY_NAME = {dump.name: dump for dump in (*DUMPS, CRUSH_RULES)}

_CONFIG_SHOW = re.compile(r"config_show_(mon|mgr|osd|mds)\.?([\w.-]+)\.json")
# Messages of the `ceph` program on stderr, if they were saved with the answer.
_MESSAGE = re.compile(rb"\s*(dumped (all|fsmap epoch \d+|monmap epoch \d+|pgs_brief|osds|pools)"
                   rb"[^\n]*)\n")  # fmt: skip


def config_show(daemon: str) -> Dump:
    """Return the dump of the non-default settings of a running daemon (`osd.0`, `mon.a`)."""
    return _dump(
        f"config show {daemon}",
        "settings from configuration files, which override the database",
        asked=Asked.MGR,
        prefix="config show",
        arguments=(("who", daemon),),
    )


def shown_daemons(dumps: Dumps) -> dict[str, str]:
    """Return the name of the dump with the running configuration, by daemon."""
    found = {}
    for name in sorted(dumps):
        matched = _CONFIG_SHOW.fullmatch(name)
        if matched:
            found[f"{matched[1]}.{matched[2]}"] = name
    return found


def is_dump(name: str) -> bool:
    return name in BY_NAME or _CONFIG_SHOW.fullmatch(name) is not None


def load(dumps: Dumps, dump: Dump) -> Node | None:
    """Decode a dump; return None if it is missing.

    Raises:
        LeadlineError: `dumps-invalid`: the dump is not JSON.
    """
    return parse(dump.name, dumps[dump.name]) if dump.name in dumps else None


def load_required(dumps: Dumps, dump: Dump) -> Node:
    """Decode a dump.

    Raises:
        LeadlineError: `dumps-invalid`: the dump is missing or not JSON.
    """
    found = load(dumps, dump)
    if found is None:
        raise LeadlineError(
            errors.DUMPS_INVALID,
            f"{dump.name} is missing",
            context=[f"it is needed for {dump.purpose}"],
            hint=f"save it: ceph {dump.command} --format json > {dump.name}",
        )
    return found


def parse(name: str, content: bytes) -> Node:
    """Decode the JSON of a dump; raise LeadlineError(`dumps-invalid`) with the position."""
    message = _MESSAGE.match(content)
    text = content[message.end() :] if message else content
    try:
        return Node(name, "", json.loads(text))
    except (ValueError, RecursionError) as error:
        where = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "its text"
        dump = BY_NAME.get(name)
        command = dump.command if dump else name.removesuffix(".json").replace("_", " ")
        raise LeadlineError(
            errors.DUMPS_INVALID,
            f"{name} is not JSON: {error if text.strip() else 'it is empty'}",
            context=[f"{name}, {where}"],
            hint=f"save it again: ceph {command} --format json > {name}",
        ) from error


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a dump, with its path.

    Every method raises LeadlineError(`dumps-invalid`) with the position if the part has another
    type.
    """

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
        """Return a member of an object; None if it is missing."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        if key not in self.value:
            return None
        return Node(self.file, f"{self.path}.{key}" if self.path else key, self.value[key])

    def items(self) -> Iterator[tuple[str, Node]]:
        """Yield the members of an object."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        for key in self.value:
            yield key, self[key]

    def __iter__(self) -> Iterator[Node]:
        """Yield the elements of a list."""
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
        """A whole number; Ceph writes some as text, and some with a fraction of zero."""
        number = self.number
        if not number.is_integer():
            raise self.wrong("a whole number")
        if isinstance(self.value, str) and self.value.strip().lstrip("+-").isdecimal():
            return int(self.value)  # exact where a float is not
        return self.value if isinstance(self.value, int) else int(number)

    @property
    def count(self) -> int:
        """A whole number of zero or more."""
        number = self.integer
        if number < 0:
            raise self.wrong("a number of zero or more")
        return number

    @property
    def number(self) -> float:
        """A finite number, also as text."""
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
        """A boolean, which Ceph also writes as 1 and 0, or as text."""
        known = {True: True, False: False, "true": True, "false": False, "1": True, "0": False}
        try:
            return known[self.value]
        except (KeyError, TypeError) as error:
            raise self.wrong("true or false") from error

    @property
    def positive(self) -> int:
        """A whole number of one or more."""
        if self.integer < 1:
            raise self.wrong("a number of one or more")
        return self.integer

    def choice(self, kind: type[Choice], expected: str) -> Choice:
        """Return the member of an enumeration; `expected` completes "is not ..."."""
        try:
            return kind(self.value)
        except ValueError as error:
            raise self.wrong(expected) from error

    # Members that may be missing.

    def count_or(self, key: str, default: Default) -> int | Default:
        found = self.get(key)
        return default if found is None else found.count

    def number_or(self, key: str, default: Default) -> float | Default:
        found = self.get(key)
        return default if found is None else found.number

    def text_or(self, key: str, default: str) -> str:
        found = self.get(key)
        return default if found is None else found.text

    def flag_or(self, key: str, default: Default) -> bool | Default:
        found = self.get(key)
        return default if found is None else found.flag


def list_pgs(dump: Node) -> Node:
    """Return the list of `pg dump pgs_brief`; before Nautilus the answer was the list itself."""
    return dump if isinstance(dump.value, list) else dump["pg_stats"]


# The description of a lab among the dumps of its cluster.

LAB = "lab.json"


def read_client_place(dumps: Dumps) -> dict[str, str]:
    """Return the CRUSH location of a lab's clients, name by level; empty where it is unknown.

    Raises:
        LeadlineError: `dumps-invalid`.
    """
    found = load(dumps, Dump(name=LAB, command="", purpose=""))
    text = found.text_or("client_location", "") if found is not None else ""
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {level: name for level, _, name in pairs}


def read_lab(dumps: Dumps) -> LabDescription | None:
    """Return the description of the lab; None for another cluster.

    Raises:
        LeadlineError: `dumps-invalid`.
    """
    content = dumps.get(LAB)
    if content is None:
        return None
    try:
        return LabDescription.model_validate(json.loads(content)["description"])
    except (ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
        raise LeadlineError(
            errors.DUMPS_INVALID,
            f"{LAB} is not a lab description of this version of Leadline",
            hint="it was edited, or a newer version wrote it",
        ) from error
