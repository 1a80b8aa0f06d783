"""Counters of machines during a trial, written to `resources.jsonl` about once a second.

Each line is JSON: `{"at", "elapsed_s", "machine", "roles", "clock_s", "cores", "hz", "cpu",
"disks", "interfaces", "links_bps", "groups", "processes", "unread"}` with the kernel's own
counters since boot, so that any rate can be worked out later, or `{"at", "elapsed_s", "machine",
"roles", "error"}` where none came. Devices and interfaces whose counters are those of the
machine's line before are left out of a line. `leadline.formats.watch_records` reads it; what it
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

from leadline import errors
from leadline.archive import layout
from leadline.connect.shell import Shell
from leadline.errors import LeadlineError
from leadline.formats.watch_records import Role
from leadline.probes import host
from leadline.probes.watches.base import Lines, Watch

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
            lambda: host.disk_counters(
                _text("/proc/diskstats"), _whole_devices() | self.partitions
            ),
        )
        interfaces = asked("/proc/net/dev", lambda: host.interface_counters(_text("/proc/net/dev")))
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
            "cpu": asked("/proc/stat", lambda: host.cpu_ticks(_first_line("/proc/stat"))),
            "disks": disks or {},
            "interfaces": interfaces or {},
            "links_bps": _links(interfaces or {}),
            "groups": {name: item for name, item in groups.items() if item is not None},
            "processes": {name: item for name, item in processes.items() if item is not None},
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
    return host.group_counters("\n".join(lines))


def _process(pid: int) -> list[int]:
    return [pid, *host.process_ticks(_text(f"/proc/{pid}/stat"))]


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
                key: {name: item for name, item in counters[key].items() if seen.get(name) != item}
                for key in _SPARSE
                for seen in (told.get(key, {}),)
            }
            # Speeds of links do not change in a trial.
            links = counters["links_bps"] if not told else {}
            line = {**self._stamp(machine), **counters, **sparse, "links_bps": links}
            if self._lines.write(
                {key: item for key, item in line.items() if item not in ({}, [], None)}
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


# Counters of a machine that is reached through a shell: one loop there prints them, and ends with
# the connection.
#  The loop reads small files by the shell's own `read` and all others by one `cat`, so that a
# sample costs the machine two short processes.

# More than any trial takes: a loop whose end nobody noticed does not stay for ever.
LONGEST_S = 24 * 3600.0
# What a machine may print between two ends of samples; more is none of ours.
_LONGEST_SAMPLE = 4 << 20
_SECTION, _END = "=leadline= ", "=leadline= end"

LOOP = """
period=$1 left=$2; shift 2
say() { printf '%s\\n' "$1" || exit 0; }
say '=leadline= cores'; getconf _NPROCESSORS_ONLN 2>/dev/null || nproc
say '=leadline= hz'; getconf CLK_TCK 2>/dev/null || echo 100
say '=leadline= links'
for folder in /sys/class/net/*; do
  [ -e "$folder/device" ] || [ -e "$folder/bonding" ] || continue
  read -r speed 2>/dev/null <"$folder/speed" && say "${folder##*/} $speed"
done 2>/dev/null
while [ "$left" -gt 0 ]; do
  left=$((left - 1))
  say '=leadline= sample'
  read -r line </proc/uptime && say "$line"
  read -r line </proc/stat && say "$line"
  for one in "$@"; do
    kind=${one%%:*} one=${one#*:} name=${one%%:*} where=${one#*:}
    case $kind in
    process)
      say "=leadline= process $name $where"
      { read -r line <"/proc/$where/stat"; } 2>/dev/null && say "$line" ;;
    group)
      say "=leadline= group $name"
      { while read -r line; do say "$line"; done <"$where/cpu.stat"; } 2>/dev/null
      if { read -r line <"$where/cpu.max"; } 2>/dev/null; then say "quota $line"
      elif { read -r line <"$where/cpu.cfs_quota_us" &&
             read -r more <"$where/cpu.cfs_period_us"; } 2>/dev/null
      then say "quota $line $more"; fi
      { read -r line <"$where/cpuacct.usage"; } 2>/dev/null && say "usage_ns $line" ;;
    esac
  done
  say '=leadline= blocks'
  for folder in /sys/block/*; do say "${folder##*/}"; done
  say '=leadline= disks and interfaces'
  cat /proc/diskstats /proc/net/dev || exit 0
  say '=leadline= end'
  sleep "$period" || exit 0
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteMachine:
    """A machine behind a shell of the watch's own: other commands through it would wait for the
    watch, or the watch for them. `groups` and `processes` as in LocalMachine; their names have no
    colon."""

    name: str
    shell: Shell
    roles: Sequence[Role] = (Role.STORAGE,)
    groups: Mapping[str, str] = field(default_factory=dict)
    processes: Mapping[str, int] = field(default_factory=dict)

    def follow(self, period_s: float, ending: threading.Event, tell: Tell) -> None:
        asked = (
            *(f"group:{name}:{folder}" for name, folder in self.groups.items()),
            *(f"process:{name}:{pid}" for name, pid in self.processes.items()),
        )
        reader = _Reader(tell, ending)
        try:
            said = self.shell.run(
                LOOP,
                f"{period_s:g}",
                str(max(1, int(LONGEST_S / period_s))),
                *asked,
                bound_s=LONGEST_S,
                output=reader.take,
            )
        except _Enough:
            return
        raise LeadlineError(
            errors.SHELL_LOST, f"the sampler on {self.name} ended: {said.error_line}"
        )


class _Enough(Exception):
    """The last sample is there: ends the shell's command by ending its connection."""


class _Reader:
    """Puts what comes in pieces together to samples, and ends the loop behind the first that came
    after `ending`."""

    def __init__(self, tell: Tell, ending: threading.Event) -> None:
        self._tell = tell
        self._ending = ending
        self._pending = bytearray()
        self._head: dict[str, str] = {}

    def take(self, chunk: bytes) -> None:
        self._pending += chunk
        mark = b"\n" + _END.encode() + b"\n"
        while (cut := self._pending.find(mark)) >= 0:
            text = self._pending[: cut + 1].decode("utf-8", "replace")
            del self._pending[: cut + len(mark)]
            sections = _sections(text)
            for key in ("cores", "hz", "links"):
                if key in sections:
                    self._head[key] = sections[key]
            self._tell(counters_of({**sections, **self._head}))
            if self._ending.is_set():
                raise _Enough
        if len(self._pending) > _LONGEST_SAMPLE:
            raise ValueError("what comes is no sample")


def _sections(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(_SECTION)[1:]:
        title, _, body = part.partition("\n")
        found[title] = body
    return found


def counters_of(sections: Mapping[str, str]) -> Counters:
    """One sample from what the loop printed, by section. What is missing or none of the kernel's is
    named in `unread`. Raises ValueError or KeyError where there is no sample at all."""
    uptime, _, stat = sections["sample"].partition("\n")
    unread: list[str] = []
    groups: dict[str, Mapping[str, int | None]] = {}
    processes: dict[str, list[int]] = {}
    for title, body in sections.items():
        kind, _, rest = title.partition(" ")
        try:
            if kind == "group":
                if not body.strip():
                    raise ValueError("there is none of that name")
                groups[rest] = host.group_counters(body)
            elif kind == "process":
                name, _, pid = rest.rpartition(" ")
                if not body.strip():
                    raise ValueError("there is none of that pid")
                processes[name] = [int(pid), *host.process_ticks(body)]
        except (ValueError, IndexError) as error:
            unread.append(f"{title}: {error}")
    both = sections.get("disks and interfaces", "")
    disks, inter, interfaces = both.partition("Inter-|")
    links = {}
    for line in sections.get("links", "").splitlines():
        name, _, speed = line.partition(" ")
        if speed.isdecimal() and int(speed) > 0:
            links[name] = int(speed) * 1e6 / 8
    if not inter:
        unread.append("/proc/net/dev: it is not there")
    return {
        "clock_s": float(uptime.split()[0]),
        "cores": int(sections["cores"]),
        "hz": int(sections["hz"]),
        "cpu": host.cpu_ticks(stat.partition("\n")[0]),
        "disks": host.disk_counters(disks, set(sections.get("blocks", "").split())),
        "interfaces": host.interface_counters(interfaces),
        "links_bps": links,
        "groups": groups,
        "processes": processes,
        "unread": unread,
    }
