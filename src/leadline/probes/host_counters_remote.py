"""Counters of a machine that is reached through a shell: one loop there prints them, and ends with
the connection.

The loop reads small files by the shell's own `read` and all others by one `cat`, so that a sample
costs the machine two short processes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leadline import errors
from leadline.errors import LeadlineError
from leadline.formats.host_counters import Role
from leadline.probes import proc_files
from leadline.probes.host_counters import Counters, Tell
from leadline.shell import Shell

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
            errors.SHELL_LOST, f"the sampler on {self.name} ended: {said.complaint}"
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
                groups[rest] = proc_files.group_counters(body)
            elif kind == "process":
                name, _, pid = rest.rpartition(" ")
                if not body.strip():
                    raise ValueError("there is none of that pid")
                processes[name] = [int(pid), *proc_files.process_ticks(body)]
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
        "cpu": proc_files.cpu_ticks(stat.partition("\n")[0]),
        "disks": proc_files.disk_counters(disks, set(sections.get("blocks", "").split())),
        "interfaces": proc_files.interface_counters(interfaces),
        "links_bps": links,
        "groups": groups,
        "processes": processes,
        "unread": unread,
    }
