"""OpenSSH commands, failures and lost connections."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from leadline import errors
from leadline.connect.ssh import CONFIG, SshHost, SshShell, Unreachable, encode_command, ssh_command
from leadline.errors import LeadlineError

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


@pytest.mark.parametrize(
    ("said", "fact", "lasting"),
    [
        ("ssh: Could not resolve hostname n1: Name or service not known", "unknown name", True),
        ("ssh: connect to host n1 port 22: Connection refused", "refuses", False),
        ("ssh: connect to host n1 port 22: Connection timed out", "does not answer", False),
        ("ssh: connect to host n1 port 22: No route to host", "does not answer", False),
        ("root@n1: Permission denied (publickey).", "does not accept this user", True),
        ("Host key verification failed.", "an unknown host key", True),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            "another host key",
            True,
        ),
        ("/c: line 1: Bad configuration option: x", "this configuration", True),
        ("kex_exchange_identification: read: Connection reset by peer", "cannot be reached", False),
        ("", "cannot be reached", False),
    ],
)
def test_a_error_line_is_reported_with_the_host(said: str, fact: str, lasting: bool) -> None:
    reason = Unreachable("n1", said)
    error = reason.error(errors.HOST_UNREACHABLE)
    assert fact in error.fact
    assert "'n1'" in error.fact
    assert error.hint
    assert reason.final is lasting
    assert [line.removeprefix("ssh: ") for line in error.context] == [
        line.strip() for line in said.splitlines()
    ]


def test_a_machine_without_ssh_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LeadlineError) as caught:
        SshShell("a").run("true", bound_s=5)
    assert caught.value.kind is errors.HOST_UNREACHABLE
    assert "openssh-client" in str(caught.value)


def test_a_last_try_without_time_does_not_hide_why_the_host_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = SshShell("b")
    reasons = ["ssh: connect to host b: Connection refused", "timed out"]

    def require(end: float) -> None:
        raise Unreachable("b", reasons.pop(0))

    monkeypatch.setattr(shell._connection, "reached", True)
    monkeypatch.setattr(shell._connection, "require", require)
    with pytest.raises(LeadlineError, match="refuses the connection"):
        shell.run("true", bound_s=2.0)
