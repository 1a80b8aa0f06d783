"""A shell on a host, by the OpenSSH client."""

from __future__ import annotations

import os
import secrets
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import IO

from leadline import errors
from leadline.shell import Said
from leadline.ssh.connection import Connection
from leadline.ssh.faults import NotReached, lost, no_client, no_shell, silent

_PAUSE_S = 0.5
# A try that has less time than that would only hide why the one before it failed.
_TRY_S = 2.0
# What ssh itself ends with; a command may as well, and then says so.
_OWN_STATUS = 255
# Tells where the command's output begins, behind what a login shell's start-up files print.
_FRAMED = """\
mark=$1; shift; echo "$mark"
"$@"; status=$?
[ "$status" -ne 255 ] || printf %s "$mark" >&2
exit "$status"
"""


class SshShell:
    """On `host` (`name`, `user@name`, `[IPv6]`), as the user's ssh reaches it. Commands may be run
    from several threads at once. What is still running there when the connection is lost, or
    `bound_s` over, goes on until it reads its stdin or writes."""

    def __init__(self, host: str) -> None:
        self.name = f"host {host}"
        self._connection = Connection(host)

    def turn(self) -> str:
        """A file to be locked while a further connection to this host is made; empty where there
        is none. sshd turns away at random whoever comes while ten others are not yet let in
        (`MaxStartups`)."""
        return self._connection.turn()

    def close(self) -> None:
        """End the connection; a later command makes another."""
        self._connection.close()

    def run(
        self,
        script: str,
        *arguments: str,
        given: bytes = b"",
        bound_s: float,
        output: Callable[[bytes], None] | None = None,
    ) -> Said:
        """As Shell.run says. A host that was never reached is `host-unreachable` at once."""
        began = time.monotonic()
        end = began + bound_s
        host = self._connection.host
        while True:
            try:
                self._connection.require(end)
                said = self._run(script, arguments, given, end, output)
                if said is None:
                    raise silent(host, bound_s)
                return said
            except NotReached as error:
                if not self._connection.reached:
                    raise error.error(errors.HOST_UNREACHABLE) from error
                if error.lasting or time.monotonic() + _PAUSE_S + _TRY_S > end:
                    gone = errors.RUNNER_FAILED if error.lasting else errors.SHELL_LOST
                    raise error.error(gone) from error
            time.sleep(_PAUSE_S)

    def _run(
        self,
        script: str,
        arguments: tuple[str, ...],
        given: bytes,
        end: float,
        output: Callable[[bytes], None] | None,
    ) -> Said | None:
        """None where the time is over. Raises NotReached where the command was not begun."""
        host = self._connection.host
        mark = f"leadline-{secrets.token_hex(8)}"
        command = self._connection.command(_FRAMED, mark, "sh", "-c", script, "sh", *arguments)
        begun = _Begun(f"{mark}\n".encode(), output)
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
            stdin.write(given)
            stdin.seek(0)
            try:
                process = subprocess.Popen(
                    command,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    start_new_session=True,
                )
            except FileNotFoundError as error:
                raise no_client() from error
            in_time = False
            assert process.stdout is not None
            try:
                with process.stdout as stdout:
                    if _read(stdout, begun, end):
                        process.wait(timeout=max(0.1, end - time.monotonic()))
                        in_time = True
            except subprocess.TimeoutExpired:
                pass
            finally:
                if not in_time:
                    process.kill()
                status = process.wait()
            stderr.seek(0)
            talk = stderr.read()
        if not in_time:
            return None
        if status == _OWN_STATUS and talk.endswith(mark.encode()):
            talk = talk.removesuffix(mark.encode())
        elif status == _OWN_STATUS or status < 0:
            told = talk.decode("utf-8", "replace")
            if begun:
                last = told.strip().splitlines()[-1:] or ["the host closed it"]
                raise lost(host, last[0])
            raise NotReached(host, told)
        said = Said(stdout=bytes(begun.stdout), stderr=talk, status=status)
        if not begun:
            raise no_shell(host, said.complaint)
        return said


class _Begun:
    """stdout behind the mark; it goes on to `output` where somebody listens."""

    def __init__(self, mark: bytes, output: Callable[[bytes], None] | None) -> None:
        self.stdout = bytearray()
        self._mark = mark
        self._before: bytes | None = b""
        self._output = output

    def __bool__(self) -> bool:
        return self._before is None

    def take(self, chunk: bytes) -> None:
        if self._before is not None:
            before, mark, chunk = (self._before + chunk).partition(self._mark)
            self._before = None if mark else before
        if chunk and self._output is not None:
            self._output(chunk)
        else:
            self.stdout += chunk


def _read(stdout: IO[bytes], begun: _Begun, end: float) -> bool:
    """Whether stdout came to its end before the time did."""
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while selector.select(timeout=max(0.0, end - time.monotonic())):
            chunk = os.read(stdout.fileno(), 1 << 16)
            if not chunk:
                return True
            begun.take(chunk)
    return False
