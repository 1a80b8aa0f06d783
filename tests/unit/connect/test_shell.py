"""What a shell on a host makes of a connection that is lost."""

from __future__ import annotations

import pytest

from leadline.connect.ssh import SshShell, Unreachable
from leadline.errors import LeadlineError


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
