"""Counters of machines during a trial, written to `resources.jsonl` about once a second.

Each line is JSON: `{"at", "elapsed_s", "machine", "roles", "clock_s", "cores", "hz", "cpu",
"disks", "interfaces", "links_bps", "groups", "processes", "unread"}` with the kernel's
counters since boot, from which any rate can be computed later, or `{"at", "elapsed_s", "machine",
"roles", "error"}` for a failure. A line omits devices and interfaces whose counters did not change
since the machine's last line. `leadline.formats.watch_records` reads it; its cost is in
docs/internals/performance.md.
"""

from __future__ import annotations

import mmap
import os
import re
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
from leadline.probes.watches.base import Line, ThreadWatch, beats, describe_error

Counters = Mapping[str, Any]
# A line omits unchanged entries of these.
_SPARSE = ("disks", "interfaces")
_PAUSE_S = 5.0


class Machine(Protocol):
    """A machine whose counters can be read repeatedly."""

    @property
    def name(self) -> str: ...

    @property
    def roles(self) -> Sequence[Role]: ...

    def follow(self, period_s: float, ending: threading.Event, report: Report) -> None:
        """Report the counters now, every `period_s`, and once more after `ending` is set. Raises
        LeadlineError or OSError."""


Report = Callable[[Counters], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMachine:
    """This machine. `groups` are folders of control groups by name
    (`/sys/fs/cgroup/cpu/leadline/osd.0`), `processes` are pids by name (`osd.0`), `partitions` are
    reported in addition to all whole devices."""

    name: str = field(default_factory=lambda: os.uname().nodename)
    roles: Sequence[Role] = (Role.CLIENT,)
    groups: Mapping[str, Path] = field(default_factory=dict)
    processes: Mapping[str, int] = field(default_factory=dict)
    partitions: frozenset[str] = frozenset()

    def follow(self, period_s: float, ending: threading.Event, report: Report) -> None:
        for _ in beats(period_s, ending):
            report(self.counters())

    def counters(self) -> Counters:
        """Return the counters now. Never raises: `unread` names what cannot be read."""
        unread: list[str] = []

        def attempt(what: str, read: Callable[[], Any]) -> Any:
            try:
                return read()
            except (OSError, ValueError, IndexError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                unread.append(f"{what}: {reason}")
                return None

        def disk_counters() -> Counters:
            whole = {entry.name for entry in os.scandir("/sys/block")}
            return host.parse_disk_counters(_text("/proc/diskstats"), whole | self.partitions)

        disks = attempt("/proc/diskstats", disk_counters)
        interfaces = attempt(
            "/proc/net/dev", lambda: host.parse_interface_counters(_text("/proc/net/dev"))
        )
        groups = {
            name: attempt(f"group {name}", partial(_group, folder))
            for name, folder in self.groups.items()
        }
        processes = {
            name: attempt(f"process {name}", partial(_process, pid))
            for name, pid in self.processes.items()
        }
        return {
            "clock_s": round(time.monotonic(), 3),
            "cores": os.cpu_count() or 1,
            "hz": os.sysconf("SC_CLK_TCK"),
            "cpu": attempt("/proc/stat", lambda: host.parse_cpu_ticks(_first_line("/proc/stat"))),
            "disks": disks or {},
            "interfaces": interfaces or {},
            "links_bps": _links(interfaces or {}),
            "groups": {name: group for name, group in groups.items() if group is not None},
            "processes": {name: ticks for name, ticks in processes.items() if ticks is not None},
            "unread": unread,
        }


def _text(path: str | Path) -> str:
    """Read a small file of the kernel with few calls: it happens each second of a trial."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(handle, 1 << 16):
            parts.append(part)
    finally:
        os.close(handle)
    return b"".join(parts).decode("utf-8", "replace")


def _first_line(path: str) -> str:
    """Read the first line of a long file."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, 512).decode("ascii", "replace").partition("\n")[0]
    finally:
        os.close(handle)


def _group(folder: Path) -> Mapping[str, int | None]:
    lines = [_text(folder / "cpu.stat")]
    try:
        lines.append(f"quota {_text(folder / 'cpu.max')}")
    except OSError:
        limit = [_text(folder / f"cpu.cfs_{word}_us").strip() for word in ("quota", "period")]
        lines.append(f"quota {' '.join(limit)}")
        # Version 1 counts it in another hierarchy, which may lack the group.
        with suppress(OSError):
            lines.append(f"usage_ns {_text(folder / 'cpuacct.usage')}")
    return host.parse_group_counters("\n".join(lines))


def _process(pid: int) -> list[int]:
    return [pid, *host.parse_process_counters(_text(f"/proc/{pid}/stat"), mmap.PAGESIZE)]


def _links(interfaces: Mapping[str, Any]) -> dict[str, float]:
    """Return the speeds of interfaces in bytes per second. Only those of a device or a bond are
    read: virtual interfaces report none, -1, or (TUN) a number that limits nothing."""
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


class ResourceWatch(ThreadWatch):
    """Samples machines at `start`, at `stop` and every `period_s` between, a thread each.

    A machine that does not answer is a line, and is tried again some seconds later.
    """

    def __init__(
        self,
        machines: Sequence[Machine],
        folder: Path,
        *,
        period_s: float = 1.0,
        patience_s: float = 5.0,
    ) -> None:
        super().__init__(folder / layout.RESOURCES, period_s=period_s, patience_s=patience_s)
        self._machines = tuple(machines)

    def _tasks(self) -> Sequence[tuple[Line, Callable[[], None]]]:
        return [(_fields(machine), partial(self._run, machine)) for machine in self._machines]

    def _run(self, machine: Machine) -> None:
        last: dict[str, Counters] = {}

        def report(counters: Counters) -> None:
            sparse = {
                key: {
                    name: values
                    for name, values in counters[key].items()
                    if last.get(key, {}).get(name) != values
                }
                for key in _SPARSE
            }
            # Speeds of links do not change in a trial.
            links = counters["links_bps"] if not last else {}
            line = {
                **self._lines.stamp(),
                **_fields(machine),
                **counters,
                **sparse,
                "links_bps": links,
            }
            if self._lines.write(
                {key: value for key, value in line.items() if value not in ({}, [], None)}
            ):
                last.update({key: counters[key] for key in _SPARSE})

        while True:
            try:
                machine.follow(self._period_s, self._ending, report)
                reason = "the sampler ended early"
            # No failure may reach the trial.
            except Exception as error:
                reason = describe_error(error)
            else:
                if self._ending.is_set():
                    return
            self._lines.write({**self._lines.stamp(), **_fields(machine), "error": reason})
            if self._ending.wait(_PAUSE_S):
                return


def _fields(machine: Machine) -> Line:
    """Return the fields that identify a machine in its lines."""
    return {"machine": machine.name, "roles": [role.value for role in machine.roles]}


# The loop ends after this time, longer than any trial, where the end of its connection is missed.
LONGEST_S = 24 * 3600.0
# The longest output between two ends of samples.
_LONGEST_SAMPLE = 4 << 20
_SECTION, _END = "=leadline= ", "=leadline= end"

# The loop on a remote machine ends with its connection. It reads small files with the shell's
# `read` and others with one `cat`: two short processes per sample.
LOOP = """
period=$1 left=$2; shift 2
say() { printf '%s\\n' "$1" || exit 0; }
say '=leadline= cores'; getconf _NPROCESSORS_ONLN 2>/dev/null || nproc
say '=leadline= hz'; getconf CLK_TCK 2>/dev/null || echo 100
say '=leadline= page'; getconf PAGESIZE 2>/dev/null || echo 4096
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


# Processes of a storage, by the name of their program: the pid, that name and the command line.
FIND_DAEMONS = """
grep -lxE 'ceph-(osd|mon|mgr|mds)|radosgw|io-engine' /proc/[0-9]*/comm 2>/dev/null |
  while read -r file; do
    folder=${file%/comm}
    { read -r name <"$file"; } 2>/dev/null || continue
    printf '%s %s ' "${folder##*/}" "$name"
    tr '\\0\\n' '  ' <"$folder/cmdline" 2>/dev/null; echo
  done
"""
_FIND_S = 10.0
# `--id 3`, `-i 3`, `--name osd.3` and `-n osd.3`, also with `=`.
_DAEMON_ID = re.compile(r"\s(?:(?:--id|-i)[=\s]+|(?:--name|-n)[=\s]+[a-z]+\.)([A-Za-z0-9_.-]+)")


def parse_daemons(text: str) -> dict[str, int]:
    """Parse the output of FIND_DAEMONS: pids by the names of daemons (`osd.3`). A daemon without an
    id, and a second one of a name, has its pid as id. Raises ValueError."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        pid, program, command = f"{line} ".split(" ", 2)
        kind = {"radosgw": "rgw"}.get(program, program.removeprefix("ceph-"))
        written = _DAEMON_ID.search(f" {command}")
        name = f"{kind}.{written[1] if written else pid}"
        found[f"{kind}.{pid}" if name in found else name] = int(pid)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteMachine:
    """A machine behind a shell that only the watch uses: other commands would wait for it. `groups`
    and `processes` as in LocalMachine; their names have no colon. With `finds_daemons` the daemons
    of a storage that run there when the watch begins are added to the processes."""

    name: str
    shell: Shell
    roles: Sequence[Role] = (Role.STORAGE,)
    groups: Mapping[str, str] = field(default_factory=dict)
    processes: Mapping[str, int] = field(default_factory=dict)
    finds_daemons: bool = False

    def follow(self, period_s: float, ending: threading.Event, report: Report) -> None:
        processes = dict(self.processes)
        if self.finds_daemons:
            processes |= parse_daemons(self.shell.run(FIND_DAEMONS, bound_s=_FIND_S).text)
        watched = (
            *(f"group:{name}:{folder}" for name, folder in self.groups.items()),
            *(f"process:{name}:{pid}" for name, pid in processes.items()),
        )
        reader = _Reader(report, ending)
        try:
            result = self.shell.run(
                LOOP,
                f"{period_s:g}",
                str(max(1, int(LONGEST_S / period_s))),
                *watched,
                bound_s=LONGEST_S,
                output=reader.take,
            )
        except _Finished:
            return
        raise LeadlineError(
            errors.SHELL_LOST, f"the sampler on {self.name} ended: {result.error_line}"
        )


class _Finished(Exception):
    """The last sample arrived: the connection ends, and with it the shell's command."""


class _Reader:
    """Assembles samples from pieces of output, and ends the loop after the first sample that
    follows `ending`."""

    def __init__(self, report: Report, ending: threading.Event) -> None:
        self._report = report
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
            for key in ("cores", "hz", "page", "links"):
                if key in sections:
                    self._head[key] = sections[key]
            self._report(parse_sample({**sections, **self._head}))
            if self._ending.is_set():
                raise _Finished
        if len(self._pending) > _LONGEST_SAMPLE:
            raise ValueError("the output is not a sample")


def _sections(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(_SECTION)[1:]:
        title, _, body = part.partition("\n")
        found[title] = body
    return found


def parse_sample(sections: Mapping[str, str]) -> Counters:
    """Parse one sample of the loop's output by section; `unread` names missing or invalid parts.
    Raises ValueError or KeyError without a sample."""
    uptime, _, stat = sections["sample"].partition("\n")
    page_bytes = int(sections["page"])
    unread: list[str] = []
    groups: dict[str, Mapping[str, int | None]] = {}
    processes: dict[str, list[int]] = {}
    for title, body in sections.items():
        kind, _, rest = title.partition(" ")
        try:
            if kind == "group":
                if not body.strip():
                    raise ValueError("it does not exist")
                groups[rest] = host.parse_group_counters(body)
            elif kind == "process":
                name, _, pid = rest.rpartition(" ")
                if not body.strip():
                    raise ValueError("it does not exist")
                processes[name] = [int(pid), *host.parse_process_counters(body, page_bytes)]
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
        unread.append("/proc/net/dev: it is missing")
    return {
        "clock_s": float(uptime.split()[0]),
        "cores": int(sections["cores"]),
        "hz": int(sections["hz"]),
        "cpu": host.parse_cpu_ticks(stat.partition("\n")[0]),
        "disks": host.parse_disk_counters(disks, set(sections.get("blocks", "").split())),
        "interfaces": host.parse_interface_counters(interfaces),
        "links_bps": links,
        "groups": groups,
        "processes": processes,
        "unread": unread,
    }
