"""The daemons of a Ceph cluster by its maps, and which of them answer.

The maps notice a dead MDS after 15 s (mds_beacon_grace) and a dead manager after 30 s
(mon_mgr_beacon_grace); a closed port is noticed at once. OSDs are not asked: a dead OSD is in the
status within a second, and a large cluster has thousands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import orjson

Address = tuple[str, int]
# A daemon greets within a millisecond; a busy machine needs longer.
_GREETING_S = 2.0


class Monitors(Protocol):
    """The part of `leadline.connect.ceph.Connection` that the watch of a cluster needs."""

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes: ...

    def ask_greetings(
        self, addresses: Mapping[str, Address], within_s: float
    ) -> Mapping[str, str]: ...


class CephDaemons:
    """Reads the maps of monitors, managers and MDS when they change, and asks each daemon in them
    for its greeting. Standby managers have no address in their map."""

    def __init__(self, monitors: Monitors) -> None:
        self._monitors = monitors
        self._epochs: dict[str, object] = {}
        self._found: dict[str, dict[str, tuple[int, Address | None]]] = {}

    def sample(self, status: Any) -> Mapping[str, Mapping[str, object]]:
        """Return daemons (`mds.a`) with `gid`, which a restart changes (0: monitors have none), and
        `silent`, the reason of a missing greeting. Raises for another document than a status, and
        without an answer."""
        manager = self._ask("mgr stat")
        self._read("mon dump", status["monmap"]["epoch"])
        self._read("mgr dump", manager["epoch"])
        self._read("fs dump", status["fsmap"]["epoch"])
        known = {name: entry for part in self._found.values() for name, entry in part.items()}
        addresses = {name: address for name, (_, address) in known.items() if address}
        greetings = self._monitors.ask_greetings(addresses, _GREETING_S)
        return {
            name: {"gid": gid, "silent": greetings.get(name, "")}
            for name, (gid, _) in sorted(known.items())
        }

    def _ask(self, prefix: str) -> Any:
        return orjson.loads(self._monitors.mon(prefix, format="json"))

    def _read(self, prefix: str, epoch: object) -> None:
        """Read a map if its epoch is new."""
        if self._epochs.get(prefix) != epoch:
            self._found[prefix] = dict(_READERS[prefix](self._ask(prefix)))
            self._epochs[prefix] = epoch


_Entries = Iterator[tuple[str, tuple[int, Address | None]]]


def _read_monitors(dump: Any) -> _Entries:
    for monitor in dump["mons"]:
        yield f"mon.{monitor['name']}", (0, _address(monitor, "public_addrs", "addr"))


def _read_managers(dump: Any) -> _Entries:
    if dump["active_name"]:
        address = _address(dump, "active_addrs", "active_addr")
        yield f"mgr.{dump['active_name']}", (dump["active_gid"], address)
    for standby in dump["standbys"]:
        yield f"mgr.{standby['name']}", (standby["gid"], None)


def _read_mds(dump: Any) -> _Entries:
    ranked = [
        daemon
        for filesystem in dump["filesystems"]
        for daemon in filesystem["mdsmap"]["info"].values()
    ]
    for daemon in (*ranked, *dump["standbys"]):
        yield f"mds.{daemon['name']}", (daemon["gid"], _address(daemon, "addrs", "addr"))


_READERS = {"mon dump": _read_monitors, "mgr dump": _read_managers, "fs dump": _read_mds}


def _address(entry: Any, several: str, single: str) -> Address | None:
    """Return the address that a daemon listens on, of any protocol version; None without one."""
    # Before Nautilus a daemon has one address.
    given = [part["addr"] for part in entry.get(several, {}).get("addrvec", ())]
    host, _, port = (given or [entry[single]])[0].partition("/")[0].rpartition(":")
    # A blank one (`:/0`) is that of a daemon that has none yet.
    return (host.strip("[]"), int(port)) if port.isdecimal() and int(port) else None
