"""The command line in a process that needs no start.

A server of `multiprocessing` imports preloaded.py once and forks for each call: imports take most
of the processor time of a short verb. What a start does is shown by the tests that start
`python -m leadline`.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path


class Forked:
    """A call of the command line, with what tests use of `subprocess.Popen`; leader of a session of
    its own."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.kubernetes.preloaded", __name__])
        (out, out_end), (err, err_end) = (context.Pipe(duplex=False) for _ in range(2))
        self._process = context.Process(
            target=_call,
            args=(list(words), dict(environment), str(folder), out_end, err_end),
            daemon=True,  # one that a failed test left is ended with this process
        )
        self._process.start()
        pid = self._process.pid
        assert pid is not None
        self.pid = pid
        self.stdout, self.stderr = (
            os.fdopen(os.dup(stream.fileno()), encoding="utf-8") for stream in (out, err)
        )
        for stream in (out, out_end, err, err_end):
            stream.close()

    @property
    def returncode(self) -> int | None:
        """The exit status, or minus the number of the signal that ended it; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, bound_s: float | None = None) -> None:
        self._process.join(bound_s)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("leadline", bound_s or 0)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _call(
    words: list[str], environment: dict[str, str], folder: str, out: Connection, err: Connection
) -> None:
    """Be `leadline WORDS`, from the end of its imports on."""
    os.setsid()
    for stream, number in ((out, 1), (err, 2)):
        os.dup2(stream.fileno(), number)
        stream.close()
    # The server's own were made for what it writes to, which may be a file.
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["leadline", *words]
    from leadline.cli.main import entry

    try:
        entry()
    finally:
        atexit._run_exitfuncs()
