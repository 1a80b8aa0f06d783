"""`leadline` without the start of an interpreter: a server imports all of Leadline once and forks
for each call, which takes a tenth of the processor time of a short verb's own process.

A call is a process with its own id, session, streams, limits and end. What a start does is tested
on processes that are started as `python -m leadline`. Calls rest for a moment between a prefill and
the first trial: the rest is for clusters that write back later, and most tests are not about speed.
"""

from __future__ import annotations

import atexit
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import leadline
from leadline.targets import base

REST_S = 0.2
_REQUEST_BYTES = 1 << 20
# Of the server, next to the program.
_SOCKET = "socket"
# Ends as the process of the call does; where it is killed, the server kills that process.
_CLIENT = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({socket!r})
    call = dict(words=sys.argv[1:], environment=dict(os.environ), folder=os.getcwd())
    socket.send_fds(server, [json.dumps(call).encode()], [0, 1, 2])
    server.recv(20)
    status = int(server.recv(20))
sys.exit(status if status >= 0 else 128 - status)
"""


@contextmanager
def forking_program(environment: Mapping[str, str] | None = None) -> Iterator[Path]:
    """The program `leadline`, in a folder of its own. `environment` is that of the server's start;
    each call has the one of its caller."""
    with tempfile.TemporaryDirectory(prefix="ll-forks-") as folder:
        program, listener = Path(folder, "leadline"), Path(folder, _SOCKET)
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
                start_new_session=True,  # signals of the tests' terminal are not for it
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


@cache
def shared_program() -> Path:
    """The one program of this process, which goes with it."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(forking_program())


class Forked:
    """A call of the shared program, with what tests use of `subprocess.Popen`."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.returncode: int | None = None
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server.connect(str(shared_program().with_name(_SOCKET)))
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        call = {"words": words, "environment": dict(environment), "folder": str(folder)}
        with Path(os.devnull).open() as nothing:
            streams = [nothing.fileno(), out_end, err_end]
            socket.send_fds(self._server, [json.dumps(call).encode()], streams)
        os.close(out_end)
        os.close(err_end)
        self.pid = int(self._server.recv(20))
        self.stdout, self.stderr = (os.fdopen(end, encoding="utf-8") for end in (out, err))

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, bound_s: float | None = None) -> int:
        """Wait for the exit status, or minus the number of the signal that ended it. Raises
        TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._server], [], [], bound_s)[0]:
                raise subprocess.TimeoutExpired("leadline", bound_s or 0)
            with self._server:
                self.returncode = int(self._server.recv(20))
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _serve(calls: socket.socket) -> None:
    """Fork for each call, until standard input ends, as it does where the caller is killed."""
    calls.set_inheritable(False)
    base.SETTLE_S = REST_S  # before anything imports it by name
    for module in pkgutil.walk_packages(leadline.__path__, "leadline."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    # No later search for garbage writes to these objects, so that a fork need not copy them.
    gc.collect()
    gc.freeze()
    os.write(1, b".")
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        callers = {caller: pid for pid, caller in running.values()}
        awaited: list[Any] = [0, calls, *running, *callers]
        ready, _, _ = select.select(awaited, [], [])
        gone = set(callers) if 0 in ready else callers.keys() & set(ready)
        for caller in gone:
            os.kill(callers[caller], signal.SIGKILL)
        if 0 in ready:
            return
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
            caller.send(str(pid).encode())
            for stream in streams:
                os.close(stream)


def _become(call: dict[str, Any], streams: list[int]) -> None:
    """Be `python -m leadline`, from the end of its imports to the end of the process."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)  # or what is left running, such as a lab, would hold it
    os.environ.clear()
    os.environ.update(call["environment"])
    os.chdir(call["folder"])
    sys.argv = ["leadline", *call["words"]]
    from leadline.cli.main import entry

    entry()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
