"""Counters of machines during a trial, written to `resources.jsonl` about once a second.

Each line is JSON: `{"at", "elapsed_s", "machine", "roles", "clock_s", "cores", "hz", "cpu",
"disks", "interfaces", "links_bps", "groups", "processes", "unread"}` with the kernel's own
counters since boot, so that any rate can be worked out later, or `{"at", "elapsed_s", "machine",
"roles", "error"}` where none came. Devices and interfaces whose counters are those of the
machine's line before are left out of a line. `leadline.formats.host_counters` reads it; what it
costs stands in docs/internals/performance.md.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from leadline.archive import layout
from leadline.errors import LeadlineError
from leadline.formats.host_counters import Role
from leadline.probes import proc_files
from leadline.probes.lines import Lines
from leadline.probes.watches import Watch

Counters = Mapping[str, Any]
# What did not change is left out of a line.
_SPARSE = ("disks", "interfaces")
_PAUSE_S = 5.0


class Machine(Protocol):
    """A machine whose counters can be read, over and over, until it is to end."""

    @property
    def name(self) -> str: ...

    @property
    def roles(self) -> Sequence[Role]: ...

    def follow(self, period_s: float, ending: threading.Event, tell: Tell) -> None:
        """Tell the counters now, every `period_s`, and once more after `ending` is set; then
        return. Raises LeadlineError or OSError where they cannot be had."""


Tell = Callable[[Counters], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMachine:
    """This machine. `groups` are folders of control groups by the name of what they hold
    (`/sys/fs/cgroup/cpu/leadline/osd.0`), `processes` pids by name (`osd.0`), `partitions` those
    whose counters are wanted beside those of all whole devices."""

    name: str = field(default_factory=lambda: os.uname().nodename)
    roles: Sequence[Role] = (Role.CLIENT,)
    groups: Mapping[str, Path] = field(default_factory=dict)
    processes: Mapping[str, int] = field(default_factory=dict)
    partitions: frozenset[str] = frozenset()

    def follow(self, period_s: float, ending: threading.Event, tell: Tell) -> None:
        due = time.monotonic()
        while True:
            last = ending.is_set()
            tell(self.counters())
            if last:
                return
            # On the beat of the clock, leaving out beats that a busy machine passed.
            due = max(due + period_s, time.monotonic())
            ending.wait(due - time.monotonic())

    def counters(self) -> Counters:
        """The counters now. Never raises: what cannot be read is named in `unread`."""
        unread: list[str] = []

        def asked(what: str, read: Callable[[], Any]) -> Any:
            try:
                return read()
            except (OSError, ValueError, IndexError) as error:
                said = error.strerror if isinstance(error, OSError) else str(error)
                unread.append(f"{what}: {said}")
                return None

        disks = asked(
            "/proc/diskstats",
            lambda: proc_files.disk_counters(
                _text("/proc/diskstats"), _whole_devices() | self.partitions
            ),
        )
        interfaces = asked(
            "/proc/net/dev", lambda: proc_files.interface_counters(_text("/proc/net/dev"))
        )
        groups = {
            name: asked(f"group {name}", partial(_group, folder))
            for name, folder in self.groups.items()
        }
        processes = {
            name: asked(f"process {name}", partial(_process, pid))
            for name, pid in self.processes.items()
        }
        return {
            "clock_s": round(time.monotonic(), 3),
            "cores": os.cpu_count() or 1,
            "hz": os.sysconf("SC_CLK_TCK"),
            "cpu": asked("/proc/stat", lambda: proc_files.cpu_ticks(_first_line("/proc/stat"))),
            "disks": disks or {},
            "interfaces": interfaces or {},
            "links_bps": _links(interfaces or {}),
            "groups": {name: one for name, one in groups.items() if one is not None},
            "processes": {name: one for name, one in processes.items() if one is not None},
            "unread": unread,
        }


def _text(path: str | Path) -> str:
    """A small file of the kernel's, by few calls: this is done each second of a trial."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(handle, 1 << 16):
            parts.append(part)
    finally:
        os.close(handle)
    return b"".join(parts).decode("utf-8", "replace")


def _first_line(path: str) -> str:
    """Of a file whose other lines are many and not wanted."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, 512).decode("ascii", "replace").partition("\n")[0]
    finally:
        os.close(handle)


def _whole_devices() -> set[str]:
    return {entry.name for entry in os.scandir("/sys/block")}


def _group(folder: Path) -> Mapping[str, int | None]:
    lines = [_text(folder / "cpu.stat")]
    try:
        lines.append(f"quota {_text(folder / 'cpu.max')}")
    except OSError:
        limit = [_text(folder / f"cpu.cfs_{word}_us").strip() for word in ("quota", "period")]
        lines.append(f"quota {' '.join(limit)}")
        # Version 1 counts it in another hierarchy, which need not have the group.
        with suppress(OSError):
            lines.append(f"usage_ns {_text(folder / 'cpuacct.usage')}")
    return proc_files.group_counters("\n".join(lines))


def _process(pid: int) -> list[int]:
    return [pid, *proc_files.process_ticks(_text(f"/proc/{pid}/stat"))]


def _links(interfaces: Mapping[str, Any]) -> dict[str, float]:
    """Speeds that interfaces tell, in bytes per second. Virtual ones tell none, or -1, or like a
    TUN device a number that limits nothing: only those of a device or a bond are asked."""
    found = {}
    for name in interfaces:
        folder = Path("/sys/class/net") / name
        if not (folder / "device").exists() and not (folder / "bonding").exists():
            continue
        try:
            speed = int(_text(folder / "speed"))
        except (OSError, ValueError):
            continue
        if speed > 0:
            found[name] = speed * 1e6 / 8
    return found


class ResourceWatch(Watch):
    """Samples machines from `start` to `stop`, at both and every `period_s` between, a thread
    each.

    Nothing that goes wrong is raised: a machine that does not answer is a line, and is asked again
    some seconds later. `stop` returns within `patience_s`; after it nothing more is written.
    """

    def __init__(
        self,
        machines: Sequence[Machine],
        folder: Path,
        *,
        period_s: float = 1.0,
        patience_s: float = 5.0,
    ) -> None:
        self._machines = tuple(machines)
        self._lines = Lines(folder / layout.RESOURCES)
        self._period_s = period_s
        self._patience_s = patience_s
        self._ending = threading.Event()
        self._threads: list[tuple[Machine, threading.Thread]] = []

    def start(self) -> None:
        """Begin, without waiting for the first sample. To be called once."""
        if not self._lines.open():
            return  # the trial cannot write its own files either, and says so
        for machine in self._machines:
            # A daemon, so that a machine that never answers does not keep the program alive.
            thread = threading.Thread(
                target=self._run, args=(machine,), name=f"resources {machine.name}", daemon=True
            )
            self._threads.append((machine, thread))
            thread.start()

    def stop(self) -> None:
        """Take the last samples and end. May be called twice, and without `start`."""
        if self._ending.is_set():
            return
        self._ending.set()
        deadline = time.monotonic() + self._patience_s
        for machine, thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                reason = f"no sample within {self._patience_s:g} s of the end of the watch"
                self._lines.write({**self._stamp(machine), "error": reason})
        self._lines.close()

    def _run(self, machine: Machine) -> None:
        told: dict[str, Counters] = {}

        def tell(counters: Counters) -> None:
            sparse = {
                key: {name: one for name, one in counters[key].items() if seen.get(name) != one}
                for key in _SPARSE
                for seen in (told.get(key, {}),)
            }
            # Speeds of links do not change in a trial.
            links = counters["links_bps"] if not told else {}
            line = {**self._stamp(machine), **counters, **sparse, "links_bps": links}
            if self._lines.write(
                {key: one for key, one in line.items() if one not in ({}, [], None)}
            ):
                told.update({key: counters[key] for key in _SPARSE})

        while True:
            try:
                machine.follow(self._period_s, self._ending, tell)
                why = "it ended before it was to"
            # Whatever it is, it must not reach the trial.
            except Exception as error:
                why = error.fact if isinstance(error, LeadlineError) else repr(error)
            else:
                if self._ending.is_set():
                    return
            self._lines.write({**self._stamp(machine), "error": why})
            if self._ending.wait(_PAUSE_S):
                return

    def _stamp(self, machine: Machine) -> Counters:
        roles = [role.value for role in machine.roles]
        return {**self._lines.stamp(), "machine": machine.name, "roles": roles}
