"""The Ceph cluster that has settings: its lock, its mark, and when it has settled."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cached_property

from leadline.connect.ceph import CommandFailed, Connection
from leadline.settings.parameter import Locked, not_settled

SETTLED_WITHIN_S = 180.0
_PAUSE_S = 0.5
# In the cluster's own store of keys: the run that changes its settings.
MARK = "leadline/settings"


class CephSystem(Locked):
    """A Ceph cluster. Its mark keeps runs on other machines away."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(f"ceph {connection.mon_json('status')['fsid']}")
        self.connection = connection
        self._before: tuple[frozenset[str], frozenset[int]] | None = None

    def lock(self, run: str = "") -> None:
        super().lock(run)
        if self._before is None:
            self._before = self._state()[:2]

    @property
    def mark_place(self) -> str:
        return f"{MARK} of {self.name}"

    def _how_to_unmark(self) -> str:
        return f"where its archive is gone, `ceph config-key rm {MARK}`"

    def _read_mark(self) -> str:
        try:
            return self.connection.mon("config-key get", key=MARK).decode("utf-8", "replace")
        except CommandFailed:
            return ""

    def _write_mark(self, text: str) -> None:
        self.connection.mon("config-key set", key=MARK, val=text)

    def _remove_mark(self) -> None:
        self.connection.mon("config-key rm", key=MARK)

    @cached_property
    def osds(self) -> tuple[int, ...]:
        """The OSDs that are up."""
        dump = self.connection.mon_json("osd dump")
        return tuple(entry["osd"] for entry in dump["osds"] if entry["up"])

    def _state(self) -> tuple[frozenset[str], frozenset[int], list[str]]:
        """The health checks, the OSDs that are up, and the states of PGs that are not clean."""
        status = self.connection.mon_json("status")
        dump = self.connection.mon_json("osd dump")
        states = status["pgmap"].get("pgs_by_state", ())
        unclean = [one for one in states if "active+clean" not in one["state_name"]]
        return (
            frozenset(status["health"]["checks"]),
            frozenset(entry["osd"] for entry in dump["osds"] if entry["up"]),
            [f"{one['count']} PGs {one['state_name']}" for one in unclean],
        )

    def settle(self, go_on: Callable[[], None]) -> None:
        end = time.monotonic() + SETTLED_WITHIN_S
        while True:
            go_on()
            checks, up, unclean = self._state()
            known, were_up = self._before or (checks, up)
            faults = [f"osd.{number} is down" for number in sorted(were_up - up)]
            faults += [*sorted(checks - known), *unclean]
            if not faults:
                return
            if time.monotonic() > end:
                raise not_settled(self.name, SETTLED_WITHIN_S, faults)
            time.sleep(_PAUSE_S)


def dumped(connection: Connection, who: str, name: str) -> str | None:
    """The value that the configuration database has for a section and mask of its own."""
    section, _, mask = who.partition("/")
    for entry in json.loads(connection.mon("config dump", format="json")):
        if (entry["section"], entry["mask"], entry["name"]) == (section, mask, name):
            return str(entry["value"])
    return None
