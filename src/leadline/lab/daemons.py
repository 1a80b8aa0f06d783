"""The daemons of a lab during its start, and the requirements of a lab."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leadline import errors
from leadline.connect.ceph import ask_admin_socket
from leadline.errors import LeadlineError
from leadline.lab import cpu_groups, processes
from leadline.lab.conf import Paths
from leadline.lab.state import MEMORY, ProcessRecord
from leadline.plan.lab import LabDescription, Store
from leadline.units import format_size

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LAST_LINES = 8
_POLL_S = 0.02
_ANSWER_S = 5.0


def failed(fact: str, *logs: Path) -> LeadlineError:
    """Return `lab-failed` with the paths and the last lines of logs."""
    context: list[str] = []
    shown: set[str] = set()
    for log in logs:
        lines = [line for line in last_lines(log) if line not in shown]
        shown |= set(lines)
        if lines:
            context.append(f"{log}:")
            context += [f"  {line}" for line in lines]
    return LeadlineError(errors.LAB_FAILED, fact, context=context)


def last_lines(log: Path, count: int = _LAST_LINES) -> list[str]:
    """Return the last lines of a log without dumps of recent events; none without a log."""
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
    """The processes started for one lab. `deadline` is a time of the monotonic clock."""

    paths: Paths
    environment: Mapping[str, str]
    deadline: float
    running: dict[str, int] = field(default_factory=dict)

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a daemon. Raises LeadlineError(`lab-failed`)."""
        self.running[name] = self._spawn(name, command)

    def finish(self, tasks: dict[str, Sequence[str]], *, at_once: int) -> None:
        """Run commands until they end, `at_once` at a time; all must succeed."""
        waiting, going = list(tasks.items()), dict[str, int]()
        while waiting or going:
            while waiting and len(going) < at_once:
                name, command = waiting.pop(0)
                going[name] = self._spawn(name, command)
            for name, pid in list(going.items()):
                status = processes.exit_status(pid)
                if status is None:
                    continue
                del going[name]
                if status:
                    raise failed(
                        f"{name} ended with {_format_status(status)}",
                        self.paths.output(name),
                        self.paths.log(name.removesuffix("-mkfs")),
                    )
            self.pause(f"{', '.join(going)}")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds. Raises LeadlineError(`lab-failed`) for a dead daemon or after
        the deadline."""
        while not holds():
            self.pause(what)

    def pause(self, what: str) -> None:
        """Sleep shortly. Raises as `until`."""
        self.check()
        if time.monotonic() > self.deadline:
            raise failed(f"the lab did not come up in time: waited for {what}")
        time.sleep(_POLL_S)

    def check(self) -> None:
        """Raise LeadlineError(`lab-failed`) for a daemon that has ended."""
        for name, pid in self.running.items():
            status = processes.exit_status(pid)
            if status is not None:
                raise failed(
                    f"{name} died while the lab came up: {_format_status(status)}",
                    self.paths.log(name),
                    self.paths.output(name),
                )

    def records(self) -> tuple[ProcessRecord, ...]:
        """Return the records for the state file. Raises LeadlineError(`lab-failed`) for a dead
        daemon."""
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
                output=self.paths.output(name),
                environment=self.environment,
            )
        except OSError as error:
            raise failed(f"{command[0]} cannot be started: {error.strerror}") from error


def daemon_command(name: str, conf: Path) -> tuple[str, ...]:
    """Return the command of a daemon of Ceph (`osd.0`), in the foreground."""
    kind, _, number = name.partition(".")
    return (f"ceph-{kind}", "-c", str(conf), "-i", number, "-f")


def ask(path: Path, prefix: str) -> Any:
    try:
        return json.loads(ask_admin_socket(path, prefix, _ANSWER_S))
    except (OSError, ValueError):
        return None


def _format_status(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"by {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"


# Program -> Debian's package. ceph-mgr-modules-core comes with ceph-mgr.
_PROGRAMS = {
    "monmaptool": "ceph-common",
    "ceph-mon": "ceph-mon",
    "ceph-mgr": "ceph-mgr",
    "ceph-osd": "ceph-osd",
}
_MDS = {"ceph-mds": "ceph-mds"}
# Resident memory of a daemon under load (docs/internals/lab.md).
_OSD_BYTES = 500 << 20
_OTHERS_BYTES = 600 << 20
MODULES = Path("/usr/share/ceph/mgr")


def require(description: LabDescription, folder: Path) -> None:
    """Raise LeadlineError(`lab-not-ready`) with everything that the lab lacks on this machine."""
    needed = _PROGRAMS | (_MDS if description.filesystem else {})
    missing = {name: package for name, package in needed.items() if shutil.which(name) is None}
    if not MODULES.is_dir():
        missing[str(MODULES)] = "ceph-mgr-modules-core"
    if missing:
        packages = " ".join(dict.fromkeys(missing.values()))
        optional = " ceph-fuse" if description.filesystem and not shutil.which("ceph-fuse") else ""
        raise LeadlineError(
            errors.LAB_NOT_READY,
            "Ceph programs are missing on this machine",
            context=[f"{name}: Debian's package {package}" for name, package in missing.items()],
            hint=f"apt-get install --no-install-recommends {packages}{optional}",
        )
    _require_memory(description)
    _require_capacity(description, folder)
    if description.cpu_per_host is not None:
        _require_cores(description.cpu_per_host)


def _require_memory(description: LabDescription) -> None:
    """Compare the available memory with the needs of daemons and stores in memory."""
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
            hint="use fewer OSDs, a smaller osd_size, or `store: bluestore`",
        )


def _require_cores(cores: float) -> None:
    there = os.cpu_count() or 1
    if cores > there:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"a host of the lab needs {cores:g} cores, and this machine has {there}",
            hint=f"use at most {there} for cpu_per_host",
        )
    if obstacle := cpu_groups.find_obstacle():
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"the CPU of the lab's hosts cannot be limited here: {obstacle}",
            hint="omit cpu_per_host, or run as root with a writable cpu controller",
        )


def _require_capacity(description: LabDescription, folder: Path) -> None:
    """Compare the free space with the stores of the OSDs, which grow to their full size."""
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
            hint="use fewer OSDs or a smaller osd_size, or name another folder with --labs",
        )


def available_memory_bytes() -> int | None:
    """Return the kernel's MemAvailable; None where unknown."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except OSError:
        return None
    return None


def find_mount_obstacle() -> str | None:
    if shutil.which("ceph-fuse") is None:
        return "there is no ceph-fuse (Debian: ceph-fuse)"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse is missing or closed to this user"
    return None
