"""The shell next to a volume: the interface of SSH, pod and console shells."""

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
    """The output and exit status of a command."""

    stdout: bytes
    stderr: bytes
    status: int

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace").strip()

    @property
    def error_line(self) -> str:
        """The last line of stderr, else of stdout."""
        for stream in (self.stderr, self.stdout):
            lines = stream.decode("utf-8", "replace").strip().splitlines()
            if lines:
                return lines[-1]
        return f"exit status {self.status}"


class Shell(Protocol):
    """A POSIX shell on a host, in a pod, or in the guest of a virtual machine."""

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

        `output` gets stdout as it arrives; the result then has none. A connection that is lost
        before the command starts is opened again. A later loss is an error, since the progress of
        the command is unknown. Raises LeadlineError: `shell-lost` for that and without an answer
        within `bound_s`; `runner-failed` where the host, pod or guest is lost.
        """


def run_repeatable(
    shell: Shell, script: str, *arguments: str, given: bytes = b"", bound_s: float
) -> CommandResult:
    """Run a repeatable command again after each lost connection, for `bound_s`. Raises
    LeadlineError as Shell.run."""
    end = time.monotonic() + bound_s
    while True:
        try:
            left_s = max(1.0, end - time.monotonic())
            return shell.run(script, *arguments, given=given, bound_s=left_s)
        except LeadlineError as error:
            if error.kind is not errors.SHELL_LOST or time.monotonic() > end:
                raise
        time.sleep(_PAUSE_S)
