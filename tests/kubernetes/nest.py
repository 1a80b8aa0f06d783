"""The first process of a cluster's own namespaces: starts, signals and reaps what it is told to.

Commands come as JSON lines on stdin, one answer each on stdout. At the end of stdin, which the
kernel brings about however the commanding process ended, this process ends, and with it (it is
process 1 of its PID namespace) every process, mount and interface of the cluster. Without
namespaces (`--bare`) it kills what it started itself. Stdlib only: it runs before anything else.

    {"do": "start", "name": "etcd", "argv": [...], "log": "/path", "env": {...}}  -> {"pid": 7}
    {"do": "state", "name": "etcd"}             -> {"ended": null | exit status}
    {"do": "signal", "name": "etcd", "number": 15}  -> {"sent": true | false}
    {"do": "run", "argv": [...], "bound_s": 60}     -> {"status": 0, "output": "..."}
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tempfile
import time
from typing import Any

_TICK_S = 0.2
_OVERDUE = 124


class Nest:
    """What runs in the namespaces, by name; pids as this process sees them."""

    def __init__(self) -> None:
        self.named: dict[str, int] = {}
        self.ended: dict[int, int] = {}

    def reap(self) -> None:
        """Collect everything that ended, orphans (containerd's shims) included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.ended[pid] = os.waitstatus_to_exitcode(status)

    def _spawn(self, argv: list[str], log: str, env: dict[str, str]) -> int:
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        return os.posix_spawnp(
            argv[0], argv, {**os.environ, **env}, file_actions=actions, setpgroup=0
        )

    def start(self, name: str, argv: list[str], log: str, env: dict[str, str]) -> dict[str, Any]:
        pid = self._spawn(argv, log, env)
        self.ended.pop(pid, None)
        self.named[name] = pid
        return {"pid": pid}

    def state(self, name: str) -> dict[str, Any]:
        self.reap()
        return {"ended": self.ended.get(self.named[name])}

    def signal(self, name: str, number: int) -> dict[str, Any]:
        self.reap()
        pid = self.named[name]
        if pid in self.ended:
            return {"sent": False}
        os.kill(pid, number)
        return {"sent": True}

    def run(self, argv: list[str], bound_s: float) -> dict[str, Any]:
        with tempfile.NamedTemporaryFile() as output:
            pid = self._spawn(argv, output.name, {})
            self.ended.pop(pid, None)
            deadline = time.monotonic() + bound_s
            while pid not in self.ended:
                if time.monotonic() > deadline:
                    os.killpg(pid, signal.SIGKILL)
                    return {"status": _OVERDUE, "output": f"not done after {bound_s} s"}
                self.reap()
                time.sleep(0.01)
            text = output.read().decode(errors="replace")
        return {"status": self.ended[pid], "output": text}

    def obey(self, line: bytes) -> dict[str, Any]:
        command = json.loads(line)
        try:
            answer: dict[str, Any] = getattr(self, command.pop("do"))(**command)
        except (OSError, KeyError) as fault:
            return {"fault": f"{type(fault).__name__}: {fault}"}
        return answer


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    nest = Nest()
    pending = b""
    while True:
        readable, _, _ = select.select([0], [], [], _TICK_S)
        nest.reap()
        if not readable:
            continue
        read = os.read(0, 1 << 16)
        if not read:
            break
        *lines, pending = (pending + read).split(b"\n")
        for line in lines:
            os.write(1, json.dumps(nest.obey(line)).encode() + b"\n")
    if "--bare" in sys.argv:
        left = [pid for pid in nest.named.values() if pid not in nest.ended]
        for pid in left:
            os.killpg(pid, signal.SIGKILL)
        while any(pid not in nest.ended for pid in left):
            nest.reap()
            time.sleep(0.01)


if __name__ == "__main__":
    main()
