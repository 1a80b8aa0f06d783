"""`leadline` without the start of an interpreter: a server imports all of Leadline once and forks
for each call, which takes a tenth of the processor time of a short verb's own process.

A call is a process with its own id, streams, limits and end. What a start does, and signals and
kills, are tested on processes that are started as `python -m leadline`.
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import leadline
from leadline.cli.main import entry

_REQUEST_BYTES = 1 << 20
# Ends as the process of the call does; where it is killed, the server kills that process.
_CLIENT = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({socket!r})
    call = dict(arguments=sys.argv[1:], environment=dict(os.environ), folder=os.getcwd())
    socket.send_fds(server, [json.dumps(call).encode()], [0, 1, 2])
    status = int(server.recv(20))
sys.exit(status if status >= 0 else 128 - status)
"""


@contextmanager
def forking_program(environment: Mapping[str, str] | None = None) -> Iterator[Path]:
    """The program `leadline`, in a folder of its own. `environment` is that of the server's start;
    each call has the one of its caller."""
    with tempfile.TemporaryDirectory(prefix="ll-forks-") as folder:
        program, listener = Path(folder) / "leadline", Path(folder) / "socket"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as calls:
            calls.bind(str(listener))
            calls.listen(100)
            # -P: the modules in the folder of this file are not Leadline's.
            server = subprocess.Popen(
                [sys.executable, "-P", __file__, str(calls.fileno())],
                pass_fds=[calls.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,  # like that of most calls: no file, where text has a place
                env=environment,
            )
        program.write_text(_CLIENT.format(python=sys.executable, socket=str(listener)))
        program.chmod(0o755)
        assert server.stdout is not None
        try:
            # The imports are no part of the time of the first call.
            assert server.stdout.read(1), "the server has ended"
            yield program
        finally:
            server.communicate(timeout=60)


def _serve(calls: socket.socket) -> None:
    """Fork for each call, until standard input ends, as it does where the caller is killed."""
    for module in pkgutil.walk_packages(leadline.__path__, "leadline."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    os.write(1, b".")
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        callers = {caller: pid for pid, caller in running.values()}
        watched: list[int | socket.socket] = [0, calls, *running, *callers]
        ready, _, _ = select.select(watched, [], [])
        if 0 in ready:
            return
        for caller in callers.keys() & set(ready):
            os.kill(callers[caller], signal.SIGKILL)
        for ended in running.keys() & set(ready):
            pid, caller = running.pop(ended)
            _, status = os.waitpid(pid, 0)
            os.close(ended)
            with caller, suppress(BrokenPipeError):
                caller.send(str(os.waitstatus_to_exitcode(status)).encode())
        if calls in ready:
            caller, _ = calls.accept()
            call, streams, _, _ = socket.recv_fds(caller, _REQUEST_BYTES, 3)
            pid = os.fork()
            if pid == 0:
                _become(json.loads(call), streams)
            running[os.pidfd_open(pid)] = pid, caller
            for stream in streams:
                os.close(stream)


def _become(call: dict[str, Any], streams: list[int]) -> NoReturn:
    """Be `python -m leadline`, from the end of its imports on."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.environ.clear()
    os.environ.update(call["environment"])
    os.chdir(call["folder"])
    sys.argv = ["leadline", *call["arguments"]]
    entry()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
