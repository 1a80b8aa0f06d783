"""One connection to a host, which all commands there share: to make one costs a tenth of a second
and processor time of both machines, which a measurement does not have to spare."""

from __future__ import annotations

import os
import secrets
import selectors
import shutil
import subprocess
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import IO

from leadline import private_folder
from leadline.ssh.faults import NotReached, no_client, no_shell
from leadline.ssh.options import CONNECT_S, spelt, ssh

# As long as this machine and the user's jump hosts may take to be let in.
_MADE_S = 3.0 * CONNECT_S
_ENDED_S = 5.0
_AT_ONCE = 4
# It ends when its stdin does, and so when Leadline does, whatever ends that.
_HOLD = 'echo "$1"; exec cat >/dev/null'


class Connection:
    """To `host`, made when it is first needed and made again where it was lost."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.reached = False
        self._lock = threading.Lock()
        self._master: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[..., Connection] | None = None
        self._socket = Path()

    def require(self, end: float) -> None:
        """Have a connection by the time.monotonic() `end`. Raises NotReached, LeadlineError."""
        with self._lock:
            if self._master is None or self._master.poll() is not None:
                self._close()
                self._make(min(end, time.monotonic() + _MADE_S))
                self.reached = True

    def command(self, script: str, *arguments: str) -> tuple[str, ...]:
        """The command line, to be run here, that has the script done there; by a connection of
        its own where the host allows no second session in one."""
        shared = ("ControlMaster=no", f"ControlPath={self._socket}", "ClearAllForwardings=yes")
        return ssh(self.host, shared, spelt(script, *arguments))

    def turn(self) -> str:
        """One of a few files of ours for this host."""
        folder = self._socket.parent
        return str(folder / f"turn-{secrets.randbelow(_AT_ONCE)}") if folder.name else ""

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._end is not None:
            self._end()
        self._master = self._end = None

    def _make(self, end: float) -> None:
        # A socket's path may have 108 bytes; ssh adds some of its own while it makes one.
        folder = tempfile.mkdtemp(prefix=private_folder.prefix("ssh"), dir=private_folder.SHORT)
        self._socket = Path(folder) / "c"
        token = secrets.token_hex(8)
        options = ("ControlMaster=yes", f"ControlPath={self._socket}", "ClearAllForwardings=yes")
        with tempfile.TemporaryFile() as stderr:
            try:
                master = subprocess.Popen(
                    ssh(self.host, options, spelt(_HOLD, token)),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    start_new_session=True,
                )
            except FileNotFoundError as error:
                shutil.rmtree(folder, ignore_errors=True)
                raise no_client() from error
            assert master.stdout is not None
            with master.stdout as stdout:
                made = _says(stdout, token.encode(), end)
            if made:
                self._master = master
                self._end = weakref.finalize(self, _ended, master, folder)
                return
            late = master.poll() is None and time.monotonic() >= end
            _ended(master, folder)
            stderr.seek(0)
            said = stderr.read().decode("utf-8", "replace")
        if late:
            raise NotReached(self.host, said or "timed out before this user was let in")
        if master.returncode == 255:
            raise NotReached(self.host, said)
        lines = said.strip().splitlines()
        raise no_shell(self.host, lines[-1] if lines else f"exit status {master.returncode}")


def _says(stdout: IO[bytes], word: bytes, end: float) -> bool:
    """Whether the word comes before the end of the stream, or of the time."""
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while word not in said:
            if not selector.select(timeout=max(0.0, end - time.monotonic())):
                return False
            chunk = os.read(stdout.fileno(), 1 << 16)
            if not chunk:
                return False
            said += chunk
    return True


def _ended(master: subprocess.Popen[bytes], folder: str) -> None:
    """End it, whatever state it is in."""
    assert master.stdin is not None
    master.stdin.close()
    try:
        master.terminate()
        master.wait(timeout=_ENDED_S)
    except subprocess.TimeoutExpired:
        master.kill()
        master.wait()
    shutil.rmtree(folder, ignore_errors=True)
