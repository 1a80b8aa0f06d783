"""`ceph_config`: an option in the configuration database of a Ceph cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from leadline.connect.ceph import CommandFailed
from leadline.plan.settings import CephConfig
from leadline.settings.ceph import CephSystem, dumped
from leadline.settings.parameter import invalid, same_value
from leadline.units import parse_size

# A daemon gets a change within milliseconds; the manager's copy of its configuration is older.
_IN_EFFECT_WITHIN_S = 15.0
_PAUSE_S = 0.3
_NUMBERS = ("int", "uint", "size", "float", "secs", "millisecs")


class CephConfigParameter:
    """One option for one section. `config rm` restores an option that the section did not have."""

    def __init__(self, setting: CephConfig, system: CephSystem) -> None:
        self.system: CephSystem = system
        self._who, self._option = setting.who, setting.name
        self.name = f"{setting.who} {setting.name}"

    @cached_property
    def _help(self) -> Mapping[str, Any]:
        """Ceph's own description of the option. Raises LeadlineError(`setting-invalid`)."""
        try:
            found = self.system.connection.mon_json("config help", key=self._option)
        except CommandFailed as error:
            raise invalid(
                f"the cluster knows no option {self._option!r}",
                *error.context,
                hint="`ceph config ls` lists the options of its version",
            ) from error
        described: Mapping[str, Any] = found[0] if isinstance(found, list) else found
        return described

    def check(self, values: Sequence[str]) -> None:
        described = self._help
        if not described.get("can_update_at_runtime", True):
            raise invalid(
                f"{self._option} takes effect when daemons start, not while they run",
                hint="write a `command` that sets it and restarts them, with `restarts: true`",
            )
        for value in values:
            fault = value_fault(described, value)
            if fault:
                raise invalid(f"{self._option} does not take {value!r}: {fault}")

    def read(self) -> str | None:
        return dumped(self.system.connection, self._who, self._option)

    def write(self, value: str) -> None:
        connection = self.system.connection
        connection.mon("config set", who=self._who, name=self._option, value=value)

    def restore(self, before: str | None) -> None:
        if before is None:
            self.system.connection.mon("config rm", who=self._who, name=self._option)
        else:
            self.write(before)

    def fault(self, value: str) -> str:
        """Compare with the database, then with what each daemon runs with."""
        found = self.read()
        if not same_value(found, value):
            return f"the configuration database has {found!r}"
        section = self._who.partition("/")[0]
        kind = section.partition(".")[0]
        if kind not in ("osd", "global"):
            return self._await(lambda: self._of_daemons(kind, section, value))
        numbers = self._taking(section, value)
        if not numbers:
            return f"no OSD takes it: a narrower section than {self._who!r} has another value"
        return self._await(lambda: self._of_osds(numbers, value))

    def _await(self, find: Callable[[], str]) -> str:
        """The reason that `find` returns, where it does not go away soon."""
        end = time.monotonic() + _IN_EFFECT_WITHIN_S
        while (reason := find()) and time.monotonic() < end:
            time.sleep(_PAUSE_S)
        return reason

    def _taking(self, section: str, value: str) -> list[int]:
        """The OSDs that are up and get the value from the database; others have another mask, or a
        narrower section of their own."""
        connection = self.system.connection
        return [
            number
            for number in self.system.osds
            if section in ("osd", "global", f"osd.{number}")
            and same_value(
                _text(connection.mon("config get", who=f"osd.{number}", key=self._option)), value
            )
        ]

    def _of_osds(self, numbers: Sequence[int], value: str) -> str:
        for number in numbers:
            connection = self.system.connection
            diff = json.loads(connection.osd(number, "config diff get", var=self._option))
            # An option with its built-in value is in no diff.
            found = diff.get("diff", {}).get(self._option) or {
                "final": json.loads(connection.osd(number, "config get", var=self._option))[
                    self._option
                ]
            }
            if not same_value(str(found.get("final", "")), value):
                return f"osd.{number} runs with {found.get('final')!r}{_source(found)}"
        return ""

    def _of_daemons(self, kind: str, section: str, value: str) -> str:
        """Monitors, managers and MDSs; clients read the database when they connect."""
        connection = self.system.connection
        if kind == "client":
            return ""
        names = [section] if "." in section else self._daemons(kind)
        if not names:
            return f"the cluster has no {kind} that takes it"
        for name in names:
            shown = connection.mgr("config show", who=name, key=self._option)
            if not same_value(_text(shown), value):
                return f"{name} runs with {_text(shown)!r}"
        return ""

    def _daemons(self, kind: str) -> list[str]:
        with suppress(CommandFailed):
            found = self.system.connection.mon_json(f"{kind} metadata")
            return [f"{kind}.{entry.get('name', entry.get('id'))}" for entry in found]
        return []


def value_fault(described: Mapping[str, Any], value: str) -> str:
    """Why an option does not take a value, by Ceph's description of it; empty where it does."""
    known = described.get("enum_values") or ()
    if known and value not in known:
        return f"it is one of {', '.join(known)}"
    if described.get("type") == "bool" and not (
        same_value(value, "true") or same_value(value, "false") or value in ("0", "1")
    ):
        return "it is true or false"
    if described.get("type") not in _NUMBERS:
        return ""
    try:
        number = float(value)
    except ValueError:
        try:
            number = float(parse_size(value))
        except ValueError:
            return f"it is a number of the type {described['type']}"
    for key, wrong in (("min", number.__lt__), ("max", number.__gt__)):
        limit = described.get(key)
        if limit not in ("", None) and wrong(float(limit)):
            return f"its {key}imum is {limit}"
    return ""


def _source(found: Mapping[str, Any]) -> str:
    """The source that overrides the database, as `config diff get` reports it."""
    above = [key for key in ("file", "env", "cmdline", "override") if key in found]
    return f", which its {_SOURCES[above[-1]]} sets" if above else ""


_SOURCES = {
    "file": "configuration file",
    "env": "environment",
    "cmdline": "command line",
    "override": "admin socket",
}


def _text(answer: bytes) -> str:
    return answer.decode("utf-8", "replace").strip()
