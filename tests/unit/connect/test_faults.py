"""What OpenSSH 9.2 says, in Leadline's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline import errors
from leadline.connect.ssh import SshShell, Unreachable
from leadline.errors import LeadlineError


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
def test_a_complaint_is_told_with_the_host(said: str, fact: str, lasting: bool) -> None:
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
