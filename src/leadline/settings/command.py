"""`command`: a setting of any system, by commands of the user's own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from leadline import errors
from leadline.environment import CEPH, SSH, child_environment
from leadline.errors import LeadlineError
from leadline.plan.settings import Command
from leadline.settings.parameter import Host, invalid, same_value

# A command may restart daemons and wait for them.
_BOUND_S = 900.0
_LINES = 3


class CommandParameter:
    """What a command reads, applies and restores."""

    def __init__(self, command: Command, host: Host) -> None:
        self.system: Host = host
        self.name = command.read
        self._command = command

    def check(self, values: Sequence[str]) -> None:
        self.read()

    def read(self) -> str | None:
        """What the command prints, without spaces at its ends."""
        return self._run(self._command.argv(self._command.read))

    def write(self, value: str) -> None:
        self._run(self._command.argv(self._command.apply, value))

    def restore(self, before: str | None) -> None:
        self._run(self._command.argv(self._command.restore, before or ""))

    def fault(self, value: str) -> str:
        found = self.read()
        return "" if same_value(found, value) else f"`{self._command.read}` prints {found!r}"

    def _run(self, argv: Sequence[str]) -> str:
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                errors="surrogateescape",
                timeout=_BOUND_S,
                stdin=subprocess.DEVNULL,
                env=child_environment(*CEPH, *SSH, "KUBECONFIG"),
            )
        except OSError as error:
            raise invalid(f"{argv[0]!r} cannot be run: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise self._failed(argv, f"does not end within {_BOUND_S:g} s") from error
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()][-_LINES:]
            raise self._failed(argv, f"ended with status {done.returncode}", lines)
        return done.stdout.strip()

    def _failed(self, argv: Sequence[str], fact: str, lines: Sequence[str] = ()) -> LeadlineError:
        return LeadlineError(
            errors.SETTING_NOT_APPLIED, f"{' '.join(argv)!r} {fact}", context=lines
        )
