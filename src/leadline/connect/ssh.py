"""One connection to a host, which all commands there share: to make one costs a tenth of a second
and processor time of both machines, which a measurement does not have to spare."""

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO

from leadline import errors, files
from leadline.connect.shell import CommandResult
from leadline.errors import ErrorKind, LeadlineError

# What the OpenSSH client complains of, in Leadline's words.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Complaint:
    """`pattern` in what ssh says; `fact` goes on from the host's name; `{host}` in the hint.
    `lasting`: to ask again would be in vain."""

    pattern: str
    fact: str
    hint: str
    lasting: bool = True


_BY_HAND = "try `ssh {host} true` by hand, which has to work without a question"
_KNOWN = (
    _Complaint(
        pattern="Could not resolve hostname",
        fact="has a name that is not known here",
        hint="write the host as `ssh` takes it, or give it a name in ~/.ssh/config",
    ),
    _Complaint(
        pattern="IDENTIFICATION HAS CHANGED",
        fact="has another host key than the one that is known",
        hint="find out why before anything else: it may be another machine. If it was installed "
        "anew: `ssh-keygen -R {host}`, then `ssh {host}` and compare the fingerprint",
    ),
    _Complaint(
        pattern="Host key verification failed|host key is known for",
        fact="has a host key that is not known here",
        hint="connect once by hand, `ssh {host}`, and compare the fingerprint",
    ),
    _Complaint(
        pattern="Permission denied|Too many authentication failures",
        fact="does not let this user in",
        hint="nobody is asked for a password: `ssh-copy-id {host}`, with a key that needs no "
        "passphrase or lies in an agent",
    ),
    _Complaint(
        pattern="Bad configuration option|Bad owner or permissions|Can't open user config|"
        "terminating, .* bad configuration|unsupported option",
        fact="cannot be reached with this configuration of ssh",
        hint="correct ~/.ssh/config, or the file that LEADLINE_SSH_CONFIG names",
    ),
    _Complaint(
        pattern="Connection refused",
        fact="refuses the connection",
        hint="is sshd running there, at that port? " + _BY_HAND,
        lasting=False,
    ),
    _Complaint(
        pattern="timed out|Timeout|No route to host|Network is unreachable|Host is down",
        fact="does not answer",
        hint="is it up, and is there a way to it? " + _BY_HAND,
        lasting=False,
    ),
)
_OTHER = _Complaint(pattern="", fact="is not reached by ssh", hint=_BY_HAND, lasting=False)


class NotReached(Exception):
    """No connection could be made; `lasting`: nor will one."""

    def __init__(self, host: str, said: str) -> None:
        super().__init__(said)
        self._host = host
        self._said = [line.strip() for line in said.splitlines() if line.strip()]
        self._complaint = next(
            (item for item in _KNOWN if re.search(item.pattern, said, re.IGNORECASE)), _OTHER
        )
        self.lasting = self._complaint.lasting

    def error(self, kind: ErrorKind) -> LeadlineError:
        return LeadlineError(
            kind,
            f"the host {self._host!r} {self._complaint.fact}",
            context=[f"ssh: {line}" for line in self._said[-2:]],
            hint=self._complaint.hint.format(host=self._host),
        )


def no_client() -> LeadlineError:
    return LeadlineError(
        errors.HOST_UNREACHABLE,
        "there is no ssh on this machine",
        hint="install it: apt-get install openssh-client",
    )


def no_shell(host: str, complaint: str) -> LeadlineError:
    return LeadlineError(
        errors.HOST_UNREACHABLE,
        f"the host {host!r} lets this user in, but runs no commands: {complaint}",
        hint="it needs a login shell, sh and base64, and a key that is bound to no command",
    )


def lost(host: str, why: str) -> LeadlineError:
    return LeadlineError(
        errors.SHELL_LOST,
        f"the connection to the host {host!r} was lost: {why}",
        hint="look at the host and the network between; " + _BY_HAND.format(host=host),
    )


def silent(host: str, bound_s: float) -> LeadlineError:
    return LeadlineError(
        errors.SHELL_LOST,
        f"the host {host!r} gave no answer within {bound_s:.0f} s",
        hint="look at the host: its storage may hang",
    )


# How the OpenSSH client is called: nobody is asked anything, and nothing that a user typed can
# become an option.

# Names another configuration than ~/.ssh/config, as `ssh -F` does.
CONFIG = "LEADLINE_SSH_CONFIG"
# A host that is gone is told within ALIVE_S x ALIVE_COUNT.
ALIVE_S = 5
ALIVE_COUNT = 3
CONNECT_S = 10

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


def ssh(destination: str, options: Sequence[str], command: str) -> tuple[str, ...]:
    """The OpenSSH client's command line that has `command` done at `destination` (`name`,
    `user@name`, `[IPv6]`); the user's configuration gives port, key and jump hosts. `options` go
    before those that all calls have."""
    config = os.environ.get(CONFIG)
    given = [argument for option in (*options, *_FIXED) for argument in ("-o", option)]
    user, at, name = destination.rpartition("@")
    bare = user + at + name.removeprefix("[").removesuffix("]")
    return ("ssh", *(("-F", config) if config else ()), *given, "--", bare, command)


def spelt(script: str, *arguments: str) -> str:
    """`sh -c SCRIPT sh ARGUMENTS...` as text that every login shell takes for the same (fish and
    csh read backslashes, exclamation marks and line breaks in quotes otherwise than POSIX says).
    Script and arguments may have some 90 KiB in all, as Linux takes no longer argument."""
    line = shlex.join(("sh", "-c", script, "sh", *arguments))
    packed = base64.b64encode(line.encode("utf-8", "surrogateescape")).decode()
    return f"exec sh -c 'eval \"exec $(echo {packed} | base64 -d)\"'"


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
        folder = tempfile.mkdtemp(prefix=files.prefix("ssh"), dir=files.SHORT)
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


# A shell on a host, by the OpenSSH client.

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
    ) -> CommandResult:
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
    ) -> CommandResult | None:
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
        said = CommandResult(stdout=bytes(begun.stdout), stderr=talk, status=status)
        if not begun:
            raise no_shell(host, said.error_line)
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


# A host with a folder of our own: its shell, and fio servers there as if they were here.

# The server has a connection of its own, so that its end is the server's end.
# At that level ssh says what is wrong with a forward.
_OPTIONS = ("LogLevel=INFO", "ControlMaster=no", "ControlPath=none", "StreamLocalBindUnlink=yes")
_SERVING_S = 60.0
# Longer than a host takes to refuse a connection that was forwarded.
_OPEN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SshHost:
    """`host` as ssh takes it; `path` is our folder there."""

    host: str
    path: str
    shell: SshShell

    @property
    def name(self) -> str:
        return self.host

    def serving(
        self, socket: Path, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[str, ...]:
        """As Host.serving says. What the server says comes on stderr.

        fio asks nobody who he is, so the server listens at a Unix socket in a directory that only
        its user may enter. `socket` appears when the server answers, and is gone when it ended.
        The user's own forwards for that host are made too, since ssh drops all or none."""
        token = secrets.token_hex(8)
        there = f"/tmp/leadline-{token}"
        assignments = [f"{name}={value}" for name, value in environment.items()]
        remote = spelt(
            _script("serve"), token, there, self.path,
            "env", *assignments, "fio", *arguments,
        )  # fmt: skip
        early = Path(f"{socket}.early")
        forward = ("-L", f"{_field(str(early))}:{there}/s")
        program, *rest = ssh(self.host, _OPTIONS, remote)
        return (
            "sh", "-c", _script("forward"), "sh", token, str(socket), self.shell.turn(),
            program, *forward, *rest,
        )  # fmt: skip


def require_serving(host: SshHost) -> None:
    """Try whether fio on the host can serve here. Raises LeadlineError(`host-unreachable`)."""
    with (
        tempfile.TemporaryDirectory(prefix=files.prefix("ssh"), dir=files.SHORT) as folder,
        tempfile.TemporaryFile() as stderr,
    ):
        at = Path(folder) / "s"
        server = subprocess.Popen(
            host.serving(at, (), {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
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
        said = stderr.read().decode("utf-8", "replace").strip().splitlines()
    raise LeadlineError(
        errors.HOST_UNREACHABLE,
        f"fio on the host {host.host!r} cannot be reached through ssh",
        context=[f"ssh: {line}" for line in said[-3:]],
        hint="sshd there must forward Unix sockets: AllowStreamLocalForwarding and "
        "DisableForwarding in its sshd_config, and in front of the key in authorized_keys",
    )


def _stays_open(path: Path) -> bool:
    """Whether somebody takes a connection; ssh closes one that its other end does not."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_OPEN_S)
        try:
            connection.connect(str(path))
            return connection.recv(1) != b""
        except TimeoutError:
            return True
        except OSError:
            return False


def _field(path: str) -> str:
    """A path as `ssh -L` takes it."""
    for character, written in (("\\", "\\\\"), (":", "\\:"), ("%", "%%")):
        path = path.replace(character, written)
    return path


def _script(name: str) -> str:
    return (resources.files("leadline.connect") / f"ssh_{name}.sh").read_text("utf-8")
