"""`leadline` as a process of its own that needs no start of an interpreter.

A server imports all of Leadline once and forks for each call: a process with its own id, signals,
limits and end, for about half of the processor time of a short verb. What a start does is shown by
the tests that start `python -m leadline`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import leadline
from leadline.cli.main import entry

_REQUEST_BYTES = 1 << 20


class ForkServer:
    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is that of the interpreter's start; each call has one of its own."""
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen(
                # -P: the modules in the folder of this file are not Leadline's.
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
            )

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], bound_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run `leadline ARGUMENTS` as `subprocess.run` does, whose output is text. Raises
        TimeoutExpired, after the process was killed."""
        request = {
            "arguments": arguments,
            "environment": dict(environment),
            "folder": str(Path.cwd()),
        }
        reply, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with reply, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            with theirs:
                handles = [theirs.fileno(), out.fileno(), err.fileno()]
                socket.send_fds(self._requests, [json.dumps(request).encode()], handles)
            pid = int(reply.recv(20))
            reply.settimeout(bound_s)
            try:
                status = int(reply.recv(20))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(arguments, bound_s) from None
            out.seek(0)
            err.seek(0)
            said, complained = out.read().decode(), err.read().decode()
        return subprocess.CompletedProcess(arguments, status, said, complained)

    def close(self) -> None:
        """The server ends when no more requests can come."""
        self._requests.close()
        self._server.wait(60)


def _serve(requests: socket.socket) -> None:
    for module in pkgutil.walk_packages(leadline.__path__, "leadline."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    running: dict[int, tuple[int, int]] = {}
    while True:
        ready, _, _ = select.select([requests, *running], [], [])
        for ended in running.keys() & set(ready):
            pid, reply = running.pop(ended)
            _, status = os.waitpid(pid, 0)
            os.write(reply, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(reply)
            os.close(ended)
        if requests in ready:
            message, handles, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 3)
            if not message:
                return
            reply, *streams = handles
            pid = os.fork()
            if pid == 0:
                requests.close()
                _become(json.loads(message), *streams)
            os.write(reply, str(pid).encode())
            running[os.pidfd_open(pid)] = pid, reply
            for stream in streams:
                os.close(stream)


def _become(request: dict[str, Any], out: int, err: int) -> NoReturn:
    """Be the process of a request: `python -m leadline`, from the end of its imports on."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = ["leadline", *request["arguments"]]
    entry()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
