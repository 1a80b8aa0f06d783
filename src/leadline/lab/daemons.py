"""The daemons of a lab while it comes up, and a watch that none dies unseen."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leadline import errors
from leadline.errors import LeadlineError
from leadline.lab import processes
from leadline.lab.conf import Paths
from leadline.lab.state import MEMORY, ProcessRecord
from leadline.plan.lab import LabDescription, Store
from leadline.units import format_size

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LAST_LINES = 8
_POLL_S = 0.02
_ANSWER_S = 5.0


def failed(fact: str, *logs: Path, why: Sequence[str] = ()) -> LeadlineError:
    """`lab-failed` with the last lines of the logs, and where they are."""
    context = list(why)
    shown: set[str] = set()
    for log in logs:
        lines = [line for line in last_lines(log) if line not in shown]
        shown |= set(lines)
        if lines:
            context.append(f"{log}:")
            context += [f"  {line}" for line in lines]
    return LeadlineError(errors.LAB_FAILED, fact, context=context)


def last_lines(log: Path, count: int = _LAST_LINES) -> list[str]:
    """Of a log; none if there is none. Dumps of recent events are left out."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - (64 << 10)))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return []
    lines = [_COLOUR.sub("", line) for line in text.splitlines() if line.strip()]
    for index, line in enumerate(lines):
        if "begin dump of recent events" in line:
            lines = lines[:index]
            break
    return lines[-count:]


@dataclass(slots=True, kw_only=True)
class Daemons:
    """What was started for one lab. `deadline` is a time of the monotonic clock."""

    paths: Paths
    environment: dict[str, str]
    deadline: float
    running: dict[str, int] = field(default_factory=dict)

    def start(self, name: str, command: Sequence[str]) -> None:
        """A daemon that is to stay. Raises LeadlineError(`lab-failed`)."""
        self.running[name] = self._spawn(name, command)

    def finish(self, tasks: dict[str, Sequence[str]], *, at_once: int) -> None:
        """Run commands that end by themselves, `at_once` at a time; all must succeed."""
        waiting, going = list(tasks.items()), dict[str, int]()
        while waiting or going:
            while waiting and len(going) < at_once:
                name, command = waiting.pop(0)
                going[name] = self._spawn(name, command)
            for name, pid in list(going.items()):
                status = processes.ended(pid)
                if status is None:
                    continue
                del going[name]
                if status:
                    raise failed(
                        f"{name} ended with {_ending(status)}",
                        self.paths.said(name),
                        self.paths.log(name.removesuffix("-mkfs")),
                    )
            self.pause(f"{', '.join(going)}")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds. Raises LeadlineError(`lab-failed`) if a daemon dies first,
        or time runs out."""
        while not holds():
            self.pause(what)

    def pause(self, what: str) -> None:
        self.check()
        if time.monotonic() > self.deadline:
            raise failed(f"the lab did not come up in time: waited for {what}")
        time.sleep(_POLL_S)

    def check(self) -> None:
        """Raise LeadlineError(`lab-failed`) for a daemon that has ended."""
        for name, pid in self.running.items():
            status = processes.ended(pid)
            if status is not None:
                raise failed(
                    f"{name} died while the lab came up: {_ending(status)}",
                    self.paths.log(name),
                    self.paths.said(name),
                )

    def records(self) -> tuple[ProcessRecord, ...]:
        """For the state file. Raises LeadlineError(`lab-failed`) if one has just died."""
        found = []
        for name, pid in self.running.items():
            ticks = processes.start_ticks(pid)
            if ticks is None:
                self.check()
                continue
            found.append(ProcessRecord(name=name, pid=pid, start_ticks=ticks))
        return tuple(found)

    def _spawn(self, name: str, command: Sequence[str]) -> int:
        try:
            return processes.start(
                command,
                folder=self.paths.folder,
                output=self.paths.said(name),
                environment=self.environment,
            )
        except OSError as error:
            raise failed(f"{command[0]} cannot be started: {error.strerror}") from error


def ask(path: Path, prefix: str) -> Any:
    """The answer of a daemon on its admin socket, decoded; None while there is none. The protocol
    is Ceph's (src/common/admin_socket.cc): JSON and a NUL there; a length and JSON back."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(_ANSWER_S)
            stream.connect(str(path))
            stream.sendall(json.dumps({"prefix": prefix, "format": "json"}).encode() + b"\0")
            answer = b""
            while part := stream.recv(1 << 16):
                answer += part
        return json.loads(answer[4:])
    except (OSError, ValueError):
        return None


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"by {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"


# What a lab needs of the machine: programs, memory, room.

# Program -> Debian's package. ceph-mgr-modules-core comes with ceph-mgr.
_PROGRAMS = {
    "monmaptool": "ceph-common",
    "ceph-mon": "ceph-mon",
    "ceph-mgr": "ceph-mgr",
    "ceph-osd": "ceph-osd",
}
_MDS = {"ceph-mds": "ceph-mds"}
# Resident memory that a daemon comes to under load (docs/internals/lab.md).
_OSD_BYTES = 500 << 20
_OTHERS_BYTES = 600 << 20
MODULES = Path("/usr/share/ceph/mgr")


def require(description: LabDescription, folder: Path) -> None:
    """Raise LeadlineError(`lab-not-ready`) that names all that is missing here for the lab."""
    needed = _PROGRAMS | (_MDS if description.filesystem else {})
    missing = {name: package for name, package in needed.items() if shutil.which(name) is None}
    if not MODULES.is_dir():
        missing[str(MODULES)] = "ceph-mgr-modules-core"
    if missing:
        packages = " ".join(dict.fromkeys(missing.values()))
        optional = " ceph-fuse" if description.filesystem and not shutil.which("ceph-fuse") else ""
        raise LeadlineError(
            errors.LAB_NOT_READY,
            "programs of Ceph's are missing on this machine",
            context=[f"{name}: Debian's package {package}" for name, package in missing.items()],
            hint=f"apt-get install --no-install-recommends {packages}{optional}",
        )
    _require_memory(description)
    _require_room(description, folder)
    if description.cpu_per_host is not None:
        _require_processor(description.cpu_per_host)


def _require_memory(description: LabDescription) -> None:
    """Memory that is free or can be freed, against what the daemons and their stores come to."""
    stores = 0
    if description.store is not Store.BLUESTORE:
        stores = description.osds * description.osd_size_bytes
    needed = _OTHERS_BYTES + description.osds * _OSD_BYTES + stores
    available = available_memory_bytes()
    if available is not None and available < needed:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"a lab with {description.osds} OSDs needs {format_size(needed)} of memory, and "
            f"{format_size(available)} is available",
            context=[f"{format_size(stores)} of it for stores in memory"] if stores else (),
            hint="take fewer OSDs, a smaller osd_size, or `store: bluestore`",
        )


def _require_processor(cores: float) -> None:
    there = os.cpu_count() or 1
    if cores > there:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"a host of the lab was to have {cores:g} cores, and this machine has {there}",
            hint=f"take {there} or less for cpu_per_host",
        )
    if why := processes.why_unavailable():
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"the processor of the lab's hosts cannot be bounded here: {why}",
            hint="leave cpu_per_host out, or run as root where the cpu controller can be written",
        )


def _require_room(description: LabDescription, folder: Path) -> None:
    """The files of OSDs grow to their full size and never shrink."""
    if description.store is Store.MEMSTORE:
        return
    needed = description.osds * description.osd_size_bytes
    where = folder
    if description.store is Store.BLUESTORE_IN_MEMORY:
        where = MEMORY
    while not where.exists():
        where = where.parent
    free = shutil.disk_usage(where).free
    if free < needed:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"the stores of {description.osds} OSDs grow to {format_size(needed)}, and "
            f"{format_size(free)} is free in {where}",
            hint="take fewer OSDs or a smaller osd_size, or name another folder with --labs",
        )


def available_memory_bytes() -> int | None:
    """MemAvailable of the kernel; None where it does not tell."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except OSError:
        return None
    return None


def why_no_mount() -> str | None:
    """Why CephFS cannot be mounted here; None if nothing stands against it."""
    if shutil.which("ceph-fuse") is None:
        return "there is no ceph-fuse (Debian: ceph-fuse)"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse is missing or closed to this user"
    return None
