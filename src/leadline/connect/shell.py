"""A shell where a volume is, whatever leads to it: the port that ways to a system implement."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from leadline import errors
from leadline.errors import LeadlineError

_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What a command said, and its exit status."""

    stdout: bytes
    stderr: bytes
    status: int

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace").strip()

    @property
    def error_line(self) -> str:
        """The last line of stderr, else of stdout."""
        for said in (self.stderr, self.stdout):
            lines = said.decode("utf-8", "replace").strip().splitlines()
            if lines:
                return lines[-1]
        return f"exit status {self.status}"


class Shell(Protocol):
    """A POSIX shell where a volume is: in a pod, or in the guest of a virtual machine."""

    @property
    def name(self) -> str: ...

    def run(
        self,
        script: str,
        *arguments: str,
        given: bytes = b"",
        bound_s: float,
        output: Callable[[bytes], None] | None = None,
    ) -> CommandResult:
        """Run `sh -c SCRIPT sh ARGUMENTS...` with `given` as its stdin.

        `output` gets stdout while it comes; it is then not in the answer. A connection that is
        lost before the command was begun is made again; one that is lost behind it is told, since
        nobody knows how far the command came. Raises LeadlineError: `shell-lost` for that and
        where no answer came within `bound_s`; `runner-failed` where what the shell is in is gone.
        """


def run_repeatable(
    shell: Shell, script: str, *arguments: str, given: bytes = b"", bound_s: float
) -> CommandResult:
    """Run what may be run twice, again and again where the connection is lost behind it, until
    `bound_s` is over. Raises LeadlineError as Shell.run."""
    end = time.monotonic() + bound_s
    while True:
        try:
            left_s = max(1.0, end - time.monotonic())
            return shell.run(script, *arguments, given=given, bound_s=left_s)
        except LeadlineError as error:
            if error.kind is not errors.SHELL_LOST or time.monotonic() > end:
                raise
        time.sleep(_PAUSE_S)
