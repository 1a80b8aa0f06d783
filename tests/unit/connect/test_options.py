from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from leadline.connect.ssh import CONFIG, SshHost, SshShell, encode_command, ssh_command

ODD = 'it\'s "a" \\ $(touch no) `x` ! %h \n; * ä'


@pytest.mark.parametrize("login", ["sh", "bash", "busybox sh"])
def test_every_login_shell_hands_over_what_was_meant(login: str) -> None:
    program = login.split()
    if shutil.which(program[0]) is None:
        pytest.skip(f"no {program[0]}: it does NOT get tested as a login shell")
    command = encode_command('printf "%s|" "$0" "$@"; cat', ODD, "", "b")
    done = subprocess.run([*program, "-c", command], input=b"given", capture_output=True)
    assert done.stdout.decode() == f"sh|{ODD}||b|given"


def test_nothing_in_what_is_sent_means_something_to_another_kind_of_shell() -> None:
    """fish and csh read these in quotes otherwise than POSIX says; none may stand there."""
    command = encode_command("echo '!' \\\n", ODD)
    assert not set("\n\\!`;*%") & set(command)


def test_a_destination_is_no_option_and_the_last_word_before_the_command() -> None:
    assert ssh_command("user@a", ("X=1",), "true")[-3:] == ("--", "user@a", "true")
    assert ssh_command("[fe80::1%eth0]", (), "true")[-2] == "fe80::1%eth0"
    assert ssh_command("me@[fe80::1]", (), "true")[-2] == "me@fe80::1"


def test_another_configuration_is_named_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "-F" not in ssh_command("a", (), "true")
    monkeypatch.setenv(CONFIG, "/some/config")
    assert ssh_command("a", (), "true")[:3] == ("ssh", "-F", "/some/config")


def test_a_socket_is_forwarded_whatever_its_path_is() -> None:
    host = SshHost(host="a", path="/data", shell=SshShell("a"))
    command = host.serving(Path("/tmp/a:b%h.sock"), ("--x",), {"K": "v w"})
    forwarded = command[command.index("-L") + 1]
    assert forwarded.startswith("/tmp/a\\:b%%h.sock.early:/tmp/leadline-")
    assert "ControlPath=none" in command
