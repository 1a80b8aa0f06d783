"""A host with a folder of our own: its shell, and fio servers there as if they were here."""

from __future__ import annotations

import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from leadline import errors, private_folder
from leadline.errors import LeadlineError
from leadline.ssh.options import spelt, ssh
from leadline.ssh.shell import SshShell

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
        tempfile.TemporaryDirectory(
            prefix=private_folder.prefix("ssh"), dir=private_folder.SHORT
        ) as folder,
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
    return (resources.files("leadline.ssh") / f"{name}.sh").read_text("utf-8")
