"""A shell and fio servers on a remote host through the OpenSSH client.

All commands on a host share one connection: a new one costs a tenth of a second and CPU time on
both machines.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import selectors
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO

from leadline import errors, files
from leadline.connect.shell import CommandResult
from leadline.environment import SSH, child_environment
from leadline.errors import ErrorKind, LeadlineError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """A failure of the OpenSSH client: `pattern` in its output, `fact` after the host's name, a
    hint with `{host}`. `final`: a retry does not help."""

    pattern: str
    fact: str
    hint: str
    final: bool = True


_BY_HAND = "try `ssh {host} true` by hand; it must work without a prompt"
_KNOWN = (
    _Failure(
        pattern="Could not resolve hostname",
        fact="has an unknown name",
        hint="write the host as for `ssh`, or name it in ~/.ssh/config",
    ),
    _Failure(
        pattern="IDENTIFICATION HAS CHANGED",
        fact="has another host key than the known one",
        hint="find the cause first: it may be another machine. After a reinstallation: "
        "`ssh-keygen -R {host}`, then `ssh {host}` and compare the fingerprint",
    ),
    _Failure(
        pattern="Host key verification failed|host key is known for",
        fact="has an unknown host key",
        hint="connect once by hand, `ssh {host}`, and compare the fingerprint",
    ),
    _Failure(
        pattern="Permission denied|Too many authentication failures",
        fact="does not accept this user",
        hint="passwords are not supported: `ssh-copy-id {host}`, with a key without passphrase "
        "or in an agent",
    ),
    _Failure(
        pattern="Bad configuration option|Bad owner or permissions|Can't open user config|"
        "terminating, .* bad configuration|unsupported option",
        fact="cannot be reached with this configuration of ssh",
        hint="correct ~/.ssh/config, or the file that LEADLINE_SSH_CONFIG names",
    ),
    _Failure(
        pattern="Connection refused",
        fact="refuses the connection",
        hint="is sshd running there, at that port? " + _BY_HAND,
        final=False,
    ),
    _Failure(
        pattern="timed out|Timeout|No route to host|Network is unreachable|Host is down",
        fact="does not answer",
        hint="is it up, and is there a route to it? " + _BY_HAND,
        final=False,
    ),
)
_OTHER = _Failure(pattern="", fact="cannot be reached by ssh", hint=_BY_HAND, final=False)


class Unreachable(Exception):
    """A connection failed; `final`: a retry does not help."""

    def __init__(self, host: str, output: str) -> None:
        super().__init__(output)
        self._host = host
        self._lines = [line.strip() for line in output.splitlines() if line.strip()]
        self._failure = next(
            (known for known in _KNOWN if re.search(known.pattern, output, re.IGNORECASE)), _OTHER
        )
        self.final = self._failure.final

    def error(self, kind: ErrorKind) -> LeadlineError:
        return LeadlineError(
            kind,
            f"the host {self._host!r} {self._failure.fact}",
            context=[f"ssh: {line}" for line in self._lines[-2:]],
            hint=self._failure.hint.format(host=self._host),
        )


def _missing_client() -> LeadlineError:
    return LeadlineError(
        errors.HOST_UNREACHABLE,
        "there is no ssh on this machine",
        hint="install it: apt-get install openssh-client",
    )


def _missing_shell(host: str, error_line: str) -> LeadlineError:
    return LeadlineError(
        errors.HOST_UNREACHABLE,
        f"the host {host!r} accepts this user, but runs no commands: {error_line}",
        hint="it needs a login shell, sh and base64, and a key without a forced command",
    )


# The environment variable for another configuration than ~/.ssh/config, as `ssh -F`.
CONFIG = "LEADLINE_SSH_CONFIG"
# A lost host is detected within ALIVE_S x ALIVE_COUNT.
ALIVE_S = 5
ALIVE_COUNT = 3
CONNECT_S = 10

# No prompts, no options from user input.
_FIXED = (
    "BatchMode=yes",
    f"ConnectTimeout={CONNECT_S}",
    "ConnectionAttempts=1",
    f"ServerAliveInterval={ALIVE_S}",
    f"ServerAliveCountMax={ALIVE_COUNT}",
    "LogLevel=ERROR",
    "RequestTTY=no",
    "EscapeChar=none",
    "RemoteCommand=none",
    "PermitLocalCommand=no",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ControlPersist=no",
)


def ssh_command(destination: str, options: Sequence[str], command: str) -> tuple[str, ...]:
    """Return the OpenSSH command line that runs `command` at `destination` (`name`, `user@name`,
    `[IPv6]`); the user's configuration gives port, key and jump hosts. `options` precede the fixed
    ones."""
    config = os.environ.get(CONFIG)
    given = [argument for option in (*options, *_FIXED) for argument in ("-o", option)]
    user, at, name = destination.rpartition("@")
    bare = user + at + name.removeprefix("[").removesuffix("]")
    return ("ssh", *(("-F", config) if config else ()), *given, "--", bare, command)


def encode_command(script: str, *arguments: str) -> str:
    """Encode `sh -c SCRIPT sh ARGUMENTS...` so that every login shell reads it alike (fish and csh
    treat backslashes, exclamation marks and line breaks in quotes differently from POSIX). The
    limit is about 90 KiB in all, the longest argument of Linux."""
    line = shlex.join(("sh", "-c", script, "sh", *arguments))
    packed = base64.b64encode(line.encode("utf-8", "surrogateescape")).decode()
    return f"exec sh -c 'eval \"exec $(echo {packed} | base64 -d)\"'"


# The time limit of a connection through the user's jump hosts.
_CONNECTED_S = 3.0 * CONNECT_S
_ENDED_S = 5.0
_AT_ONCE = 4
# It ends with its stdin, and so with Leadline, however that ends.
_HOLD = 'echo "$1"; exec cat >/dev/null'


class Connection:
    """The shared connection to `host`, opened at its first use and after a loss."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.reached = False
        self._lock = threading.Lock()
        self._master: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[..., Connection] | None = None
        self._socket = Path()

    def require(self, end: float) -> None:
        """Connect before the time.monotonic() `end`. Raises Unreachable, LeadlineError."""
        with self._lock:
            if self._master is None or self._master.poll() is not None:
                self._close()
                self._open(min(end, time.monotonic() + _CONNECTED_S))
                self.reached = True

    def command(self, script: str, *arguments: str) -> tuple[str, ...]:
        """Return the local command line that runs a script there; it opens its own connection
        where the host allows one session per connection."""
        shared = ("ControlMaster=no", f"ControlPath={self._socket}", "ClearAllForwardings=yes")
        return ssh_command(self.host, shared, encode_command(script, *arguments))

    def lock_file(self) -> str:
        """Return one of a few lock files for this host."""
        folder = self._socket.parent
        return str(folder / f"turn-{secrets.randbelow(_AT_ONCE)}") if folder.name else ""

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._end is not None:
            self._end()
        self._master = self._end = None

    def _open(self, end: float) -> None:
        # A socket's path has at most 108 bytes; ssh adds some while it creates one.
        folder = tempfile.mkdtemp(prefix=files.prefix("ssh"), dir=files.SHORT)
        files.mark_scratch(Path(folder))
        self._socket = Path(folder) / "c"
        token = secrets.token_hex(8)
        options = ("ControlMaster=yes", f"ControlPath={self._socket}", "ClearAllForwardings=yes")
        with tempfile.TemporaryFile() as stderr:
            try:
                master = subprocess.Popen(
                    ssh_command(self.host, options, encode_command(_HOLD, token)),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=child_environment(*SSH),
                    stderr=stderr,
                    start_new_session=True,
                )
            except FileNotFoundError as error:
                shutil.rmtree(folder, ignore_errors=True)
                raise _missing_client() from error
            assert master.stdout is not None
            with master.stdout as stdout:
                connected = _wait_for_word(stdout, token.encode(), end)
            if connected:
                self._master = master
                self._end = weakref.finalize(self, _end, master, folder)
                return
            late = master.poll() is None and time.monotonic() >= end
            _end(master, folder)
            stderr.seek(0)
            output = stderr.read().decode("utf-8", "replace")
        if late:
            raise Unreachable(self.host, output or "timed out before this user was accepted")
        if master.returncode == 255:
            raise Unreachable(self.host, output)
        lines = output.strip().splitlines()
        raise _missing_shell(self.host, lines[-1] if lines else f"exit status {master.returncode}")


def _wait_for_word(stdout: IO[bytes], word: bytes, end: float) -> bool:
    """Return whether the word arrives before the end of the stream and before `end`."""
    received = b""
    for chunk in _chunks(stdout, end):
        received += chunk
        if word in received:
            return True
    return False


def _chunks(stdout: IO[bytes], end: float) -> Iterator[bytes]:
    """Yield what arrives before `end`; at the end of the stream an empty chunk, as the last one."""
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while selector.select(timeout=max(0.0, end - time.monotonic())):
            chunk = os.read(stdout.fileno(), 1 << 16)
            yield chunk
            if not chunk:
                return


def _end(master: subprocess.Popen[bytes], folder: str) -> None:
    """End the connection in any state."""
    assert master.stdin is not None
    master.stdin.close()
    try:
        master.terminate()
        master.wait(timeout=_ENDED_S)
    except subprocess.TimeoutExpired:
        master.kill()
        master.wait()
    shutil.rmtree(folder, ignore_errors=True)


_OWN_CONNECTION = ("ControlMaster=no", "ControlPath=none", "ClearAllForwardings=yes")
_PAUSE_S = 0.5
# A shorter attempt would only hide the cause of the previous failure.
_TRY_S = 2.0
# The exit status of ssh itself; a command with the same status reports it with the mark.
_OWN_STATUS = 255
# Marks the start of the command's output, after the output of a login shell's start-up files.
_FRAMED = """\
mark=$1; shift; echo "$mark"
"$@"; status=$?
[ "$status" -ne 255 ] || printf %s "$mark" >&2
exit "$status"
"""


class SshShell:
    """A shell on `host` (`name`, `user@name`, `[IPv6]`) through the user's ssh; thread-safe.

    After a lost connection or `bound_s` a command there continues until it reads its stdin or
    writes.
    """

    def __init__(self, host: str) -> None:
        self.name = f"host {host}"
        self._connection = Connection(host)

    def lock_file(self) -> str:
        """Return a file to lock while another connection to this host is opened, or an empty text.
        sshd rejects connections at random while ten others wait (`MaxStartups`)."""
        return self._connection.lock_file()

    def close(self) -> None:
        self._connection.close()

    def command(self, script: str, *arguments: str) -> tuple[str, ...]:
        """Return the local command line that runs a script there, with stdin and stdout, through
        the shared connection. Raises LeadlineError(`host-unreachable`)."""
        try:
            self._connection.require(time.monotonic() + _CONNECTED_S)
        except Unreachable as error:
            raise error.error(errors.HOST_UNREACHABLE) from error
        return self._connection.command(script, *arguments)

    def own_command(self, script: str, *arguments: str) -> tuple[str, ...]:
        """As `command`, through a connection of its own: each has one thread that encrypts."""
        return ssh_command(
            self._connection.host, _OWN_CONNECTION, encode_command(script, *arguments)
        )

    def run(
        self,
        script: str,
        *arguments: str,
        given: bytes = b"",
        bound_s: float,
        output: Callable[[bytes], None] | None = None,
    ) -> CommandResult:
        """Run as Shell.run. A host that was never reached is `host-unreachable` at once."""
        began = time.monotonic()
        end = began + bound_s
        host = self._connection.host
        while True:
            try:
                self._connection.require(end)
                result = self._run(script, arguments, given, end, output)
                if result is None:
                    raise LeadlineError(
                        errors.SHELL_LOST,
                        f"the host {host!r} gave no answer within {bound_s:.0f} s",
                        hint="look at the host: its storage may hang",
                    )
                return result
            except Unreachable as error:
                if not self._connection.reached:
                    raise error.error(errors.HOST_UNREACHABLE) from error
                if error.final or time.monotonic() + _PAUSE_S + _TRY_S > end:
                    kind = errors.RUNNER_FAILED if error.final else errors.SHELL_LOST
                    raise error.error(kind) from error
            time.sleep(_PAUSE_S)

    def _run(
        self,
        script: str,
        arguments: tuple[str, ...],
        given: bytes,
        end: float,
        output: Callable[[bytes], None] | None,
    ) -> CommandResult | None:
        """Return None after `end`. Raises Unreachable where the command did not start."""
        host = self._connection.host
        mark = f"leadline-{secrets.token_hex(8)}"
        command = self._connection.command(_FRAMED, mark, "sh", "-c", script, "sh", *arguments)
        streams = _MarkedOutput(f"{mark}\n".encode(), output)
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
            stdin.write(given)
            stdin.seek(0)
            try:
                process = subprocess.Popen(
                    command,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    env=child_environment(*SSH),
                    stderr=stderr,
                    start_new_session=True,
                )
            except FileNotFoundError as error:
                raise _missing_client() from error
            in_time = False
            assert process.stdout is not None
            try:
                with process.stdout as stdout, suppress(subprocess.TimeoutExpired):
                    if _read(stdout, streams, end):
                        process.wait(timeout=max(0.1, end - time.monotonic()))
                        in_time = True
            finally:
                if not in_time:
                    process.kill()
                status = process.wait()
            stderr.seek(0)
            error_output = stderr.read()
        if not in_time:
            return None
        if status == _OWN_STATUS and error_output.endswith(mark.encode()):
            error_output = error_output.removesuffix(mark.encode())
        elif status == _OWN_STATUS or status < 0:
            text = error_output.decode("utf-8", "replace")
            if streams:
                last = text.strip().splitlines()[-1:] or ["the host closed it"]
                raise LeadlineError(
                    errors.SHELL_LOST,
                    f"the connection to the host {host!r} was lost: {last[0]}",
                    hint="look at the host and the network between; " + _BY_HAND.format(host=host),
                )
            raise Unreachable(host, text)
        result = CommandResult(stdout=bytes(streams.stdout), stderr=error_output, status=status)
        if not streams:
            raise _missing_shell(host, result.error_line)
        return result


class _MarkedOutput:
    """The stdout after the mark, passed on to `output` where one is given; true once marked."""

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


def _read(stdout: IO[bytes], streams: _MarkedOutput, end: float) -> bool:
    """Return whether stdout ended in time."""
    for chunk in _chunks(stdout, end):
        if not chunk:
            return True
        streams.take(chunk)
    return False


# The server has its own connection, whose end is the server's end. At this log level ssh reports a
# failed forward.
_OPTIONS = ("LogLevel=INFO", "ControlMaster=no", "ControlPath=none", "StreamLocalBindUnlink=yes")
_SERVING_S = 60.0
# Longer than a host needs to refuse a forwarded connection.
_OPEN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SshHost:
    """A host for ssh, with Leadline's folder there."""

    host: str
    path: str
    shell: SshShell

    @property
    def name(self) -> str:
        return self.host

    def serving(
        self, socket: Path, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Implement Host.serving: return the command that runs a fio server there; it writes to
        stderr.

        fio has no authentication, so the server listens at a Unix socket in a directory of its
        user. `socket` exists while the server answers. The user's own forwards for that host are
        opened too, since ssh drops all or none.
        """
        token = secrets.token_hex(8)
        there = f"/tmp/leadline-{token}"
        assignments = [f"{name}={value}" for name, value in environment.items()]
        remote = encode_command(
            _script("serve"), token, there, self.path,
            "env", *assignments, "fio", *arguments,
        )  # fmt: skip
        early = Path(f"{socket}.early")
        forward = ("-L", f"{_escape_path(str(early))}:{there}/s")
        program, *rest = ssh_command(self.host, _OPTIONS, remote)
        return (
            "sh", "-c", _script("forward"), "sh", token, str(socket), self.shell.lock_file(),
            program, *forward, *rest,
        )  # fmt: skip


def require_serving(host: SshHost) -> None:
    """Test a fio server on the host. Raises LeadlineError(`host-unreachable`)."""
    with (
        files.ScratchFolder("ssh", files.SHORT) as folder,
        tempfile.TemporaryFile() as stderr,
    ):
        at = Path(folder) / "s"
        server = subprocess.Popen(
            host.serving(at, (), {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=child_environment(*SSH),
        )
        try:
            end = time.monotonic() + _SERVING_S
            while not at.exists() and server.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
            if at.exists() and _stays_open(at):
                return
        finally:
            server.terminate()
            server.wait()
        stderr.seek(0)
        lines = stderr.read().decode("utf-8", "replace").strip().splitlines()
    raise LeadlineError(
        errors.HOST_UNREACHABLE,
        f"fio on the host {host.host!r} cannot be reached through ssh",
        context=[f"ssh: {line}" for line in lines[-3:]],
        hint="sshd there must forward Unix sockets: AllowStreamLocalForwarding and "
        "DisableForwarding in its sshd_config, and in front of the key in authorized_keys",
    )


def _stays_open(path: Path) -> bool:
    """Return whether the server accepts a connection; otherwise ssh closes it."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_OPEN_S)
        try:
            connection.connect(str(path))
            return connection.recv(1) != b""
        except TimeoutError:
            return True
        except OSError:
            return False


def _escape_path(path: str) -> str:
    """Escape a path for `ssh -L`."""
    for character, written in (("\\", "\\\\"), (":", "\\:"), ("%", "%%")):
        path = path.replace(character, written)
    return path


def _script(name: str) -> str:
    return (resources.files("leadline.connect") / f"ssh_{name}.sh").read_text("utf-8")
