"""Hosts for the tests: sshd processes of their own on loopback, each a host by its name."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from leadline.connect.ssh import CONFIG
from leadline.lab.state import lab_access
from leadline.runner.ports import CEPH_CONF_THERE

_SERVER = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host-{name}
AuthorizedKeysFile {folder}/authorized
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
LogLevel ERROR
{more}
"""
_CLIENT = """\
Host {name}
    HostName 127.0.0.1
    HostKeyAlias {name}
    Port {port}
    IdentityFile "{folder}/key"

"""
_ALL = """\
Host *
    IdentitiesOnly yes
    UserKnownHostsFile "{folder}/known"
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
"""


class SshHosts:
    """`config` is what LEADLINE_SSH_CONFIG is to name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config"
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        self._entries = ""
        program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
        assert program, "there is no sshd: apt-get install openssh-server"
        self._program = program
        _key(folder / "key")
        shutil.copy(folder / "key.pub", folder / "authorized")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)

    def start(
        self,
        name: str,
        *,
        port: int = 0,
        known: bool = True,
        more: str = "",
        at: Path | None = None,
    ) -> int:
        """Start the host's sshd; its port. What it shows at the path `at` is a folder of its own,
        so that hosts need not share what is there (needs root)."""
        port = port or _free_port()
        if not (self.folder / f"host-{name}").exists():
            self.enter(name, port)
            self._make_key(name, known=known)
        conf = self._configure(name, port, more)
        command = [self._program, "-D", "-e", "-f", str(conf)]
        if at is not None:
            own = self.folder / f"root-{name}"
            own.mkdir(exist_ok=True)
            mount = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", mount, "sh", str(own), str(at), *command]
        with (self.folder / f"log-{name}").open("ab") as log:
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)
        self._servers[name] = server
        end = time.monotonic() + 60.0
        while True:
            with socket.socket() as attempt:
                if attempt.connect_ex(("127.0.0.1", port)) == 0:
                    return port
            assert server.poll() is None, (self.folder / f"log-{name}").read_text()
            assert time.monotonic() < end, "sshd does not answer"
            time.sleep(0.02)

    def start_in(self, name: str, prefix: Sequence[str]) -> None:
        """A host whose every connection is an sshd of its own, started by the words `prefix`: in
        the network of a lab, for instance."""
        conf = self._configure(name, 22, "")
        command = [*prefix, self._program, "-i", "-e", "-f", str(conf)]
        self.enter(name, 22, f"ProxyCommand {shlex.join(command)} 2>>{self.folder}/log-{name}")
        self._make_key(name, known=True)

    def _configure(self, name: str, port: int, more: str) -> Path:
        conf = self.folder / f"sshd-{name}"
        conf.write_text(_SERVER.format(port=port, folder=self.folder, name=name, more=more))
        return conf

    def _make_key(self, name: str, *, known: bool) -> None:
        _key(self.folder / f"host-{name}")
        public = (self.folder / f"host-{name}.pub").read_text().split()
        with (self.folder / "known").open("a") as stream:
            stream.write(f"{name} {' '.join(public[:2])}\n" if known else "")

    def root(self, name: str) -> Path:
        """What the host shows where `at` is."""
        return self.folder / f"root-{name}"

    def enter(self, name: str, port: int, *more: str) -> None:
        """Put a host into the client's configuration; `more` lines go before the rest."""
        entry = _CLIENT.format(name=name, port=port, folder=self.folder)
        head, rest = entry.split("\n", 1)
        self._entries += "\n".join((head, *(f"    {line}" for line in more), rest))
        self.config.write_text(self._entries + _ALL.format(folder=self.folder))

    def cut(self, name: str) -> None:
        """Cut every connection to the host, as if it had lost power; it still takes new ones."""
        for pid in _below(self._servers[name].pid):
            _kill(pid)

    def stop(self, name: str) -> None:
        """The host is away, with all connections to it."""
        server = self._servers.pop(name)
        children = _below(server.pid)
        server.kill()
        server.wait()
        for pid in children:
            _kill(pid)

    def close(self) -> None:
        for name in list(self._servers):
            self.stop(name)


def _kill(pid: int) -> None:
    try:
        if b"sshd" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, FileNotFoundError):
        return


def _below(pid: int) -> list[int]:
    """All children of a process, and theirs. (/proc/PID/task/PID/children leaves some out while
    others of them end.)"""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(entry.parent.name))
    found = children.get(pid, [])
    for item in found:
        found += children.get(item, [])
    return found


def _free_port() -> int:
    """Below those that connections begin from: one of them could have it while its host is away."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as stream, contextlib.suppress(OSError):
            stream.bind(("127.0.0.1", port))
            return port


def _key(path: Path) -> None:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def short_folder() -> Path:
    """Sockets have short paths: not below pytest's own folders."""
    return Path(tempfile.mkdtemp(prefix="ll-hosts-", dir="/tmp"))


@contextlib.contextmanager
def hosts_in_lab(lab: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshHosts]:
    """Hosts `a` and `b` in the network of a lab, which LEADLINE_SSH_CONFIG names."""
    folder = short_folder()
    made = SshHosts(folder)
    for name in ("a", "b"):
        made.start_in(name, lab_access(lab).prefix)
    monkeypatch.setenv(CONFIG, str(made.config))
    yield made
    made.close()
    shutil.rmtree(folder)


def configurations(lab: str) -> list[Path]:
    """The lab's configuration in folders of hosts, next to which other labs may have theirs."""
    own, found = str(lab_access(lab).conf.parent), []
    for path in Path("/tmp").glob(f"leadline-*/{CEPH_CONF_THERE}"):
        with contextlib.suppress(FileNotFoundError):
            if own in path.read_text():
                found.append(path)
    return found
