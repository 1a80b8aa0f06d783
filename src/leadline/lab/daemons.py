"""The daemons of a lab while it comes up, and a watch that none dies unseen."""

from __future__ import annotations

import json
import os
import re
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
from leadline.lab.state import ProcessRecord

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
