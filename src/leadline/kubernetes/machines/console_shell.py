"""A shell in the guest of a virtual machine, by its serial console: no route into the guest is
needed beyond what `virtctl console` has.

A command is a task of the guest's agent: handed over in pieces, begun, and asked for what it has
said since. Every request may be repeated, so that a lost connection, or a kernel's message in the
middle of a line, costs a repetition and never the command.
"""

from __future__ import annotations

import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from leadline import errors
from leadline.errors import LeadlineError
from leadline.kubernetes.machines.console_frames import (
    NOTHING,
    PIECE_BYTES,
    Answer,
    Request,
    packed,
)
from leadline.kubernetes.machines.console_link import ConsoleLink
from leadline.shell import Said
from leadline.visible import visible

# An answer that is not there by then was lost; then it is asked for again.
_ANSWER_S = 10.0
# An agent that says nothing for so long is taken for dead, and the guest with it.
SILENCE_S = 60.0
# Each question costs the guest a few milliseconds of one processor: while a trial runs, seldom.
_FIRST_POLL_S, _LAST_POLL_S, _SLOWER = 0.02, 2.0, 1.5
# Output comes in pieces so large, and in smaller ones while the console damages them.
_LARGE_BYTES, _SMALL_BYTES = 12288, 768
# A command so long is one that a live migration may have fallen into.
_LONG_S = 5.0
_LOST = "lost"


class ConsoleShell:
    """The shell of one guest. `require` raises where the virtual machine is not what it was."""

    def __init__(
        self,
        link: ConsoleLink,
        name: str,
        require: Callable[[], None],
        *,
        answer_s: float = _ANSWER_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        self.name = name
        self._link = link
        self._require = require
        self._answer_s = answer_s
        self._silence_s = silence_s
        self._one = threading.Lock()
        self._boot = ""
        self._piece_bytes = _LARGE_BYTES

    def meet(self, bound_s: float, go_on: Callable[[], None]) -> None:
        """Wait for the agent. Raises LeadlineError(`runner-failed`) where it does not come."""
        self._link.open()
        end = time.monotonic() + bound_s
        while not self._link.wait_for_beacon(min(1.0, max(0.0, end - time.monotonic()))):
            go_on()
            self._require()
            if time.monotonic() > end:
                raise LeadlineError(
                    errors.RUNNER_FAILED,
                    f"nothing answers in the {self.name} after {bound_s:g} s",
                    context=self._last_words(),
                    hint="the boot image needs cloud-init, a shell, coreutils and a console on "
                    "its first serial port; `ready:` of the cluster sets how long to wait",
                )
        self._boot = self._ask(Request(nonce=_nonce(), verb="hello")).status

    def run(
        self,
        script: str,
        *arguments: str,
        given: bytes = b"",
        bound_s: float,
        output: Callable[[bytes], None] | None = None,
    ) -> Said:
        began = time.monotonic()
        task = secrets.token_hex(6)
        command = shlex.join(("exec", "sh", "-c", script, "sh", *arguments)).encode() + b"\n"
        try:
            self._put(task, "command", command)
            self._put(task, "given", given)
            self._about(task, "run")
            stdout: list[bytes] = []
            status = self._follow(task, began + bound_s, output or stdout.append)
            stderr = b"".join(self._rest(task, "err", 0))
            self._about(task, "drop")
        finally:
            if time.monotonic() - began > _LONG_S:
                self._require()
        return Said(stdout=b"".join(stdout), stderr=stderr, status=status)

    def _put(self, task: str, part: str, whole: bytes) -> None:
        for number, start in enumerate(range(0, len(whole), PIECE_BYTES)):
            piece = packed(whole[start : start + PIECE_BYTES])
            self._about(task, "put", part, number, piece)

    def _follow(self, task: str, end: float, output: Callable[[bytes], None]) -> int:
        """What the command says, until it ends; its exit status."""
        offset, pause_s = 0, _FIRST_POLL_S
        while True:
            answer = self._get(task, "out", offset)
            offset += len(answer.payload)
            if answer.payload:
                output(answer.payload)
            elif answer.status != NOTHING:
                return int(answer.status)
            if time.monotonic() > end:
                self._about(task, "kill")
                raise self._lost("gave no answer in time", [])
            if len(answer.payload) < self._piece_bytes and answer.status == NOTHING:
                time.sleep(max(0.0, min(pause_s, end - time.monotonic())))
                pause_s = min(pause_s * _SLOWER, _LAST_POLL_S)

    def _rest(self, task: str, stream: str, offset: int) -> Iterator[bytes]:
        while piece := self._get(task, stream, offset).payload:
            offset += len(piece)
            yield piece

    def _get(self, task: str, stream: str, offset: int) -> Answer:
        return self._about(task, "get", stream, offset)

    def _about(
        self, task: str, verb: str, part: str = NOTHING, number: int = 0, payload: str = NOTHING
    ) -> Answer:
        answer = self._ask(
            Request(nonce=_nonce(), verb=verb, task=task, part=part, number=number, payload=payload)
        )
        if answer.status == _LOST:
            raise self._lost("no longer knows the command", ["its guest may have booted again"])
        if verb == "put" and answer.status != "ok":
            raise self._lost("could not write the command down", ["/run of the guest may be full"])
        return answer

    def _ask(self, request: Request) -> Answer:
        """The answer to a request, which is repeated until it comes."""
        end = time.monotonic() + self._silence_s
        with self._one:
            while True:
                if request.verb == "get":
                    request = replace(request, payload=str(self._piece_bytes))
                damaged = self._link.damaged
                answer = self._link.ask(request.nonce, request.line, self._answer_s)
                self._require_same_boot()
                if answer is not None:
                    return answer
                if self._link.damaged > damaged:
                    self._piece_bytes = _SMALL_BYTES
                self._require()
                if time.monotonic() > end:
                    raise self._lost("says nothing", self._last_words())

    def _require_same_boot(self) -> None:
        booted = self._link.boots
        if self._boot and booted and booted[-1] != self._boot:
            raise LeadlineError(
                errors.RUNNER_FAILED,
                f"the guest of the {self.name} has booted again by itself",
                context=self._last_words(),
                hint="`leadline run --resume --retry-failed` makes a new one and goes on",
            )

    def _lost(self, why: str, context: list[str]) -> LeadlineError:
        return LeadlineError(
            errors.SHELL_LOST,
            f"the agent in the {self.name} {why}",
            context=context,
            hint="the guest may hang; look with `virtctl console`",
        )

    def _last_words(self) -> list[str]:
        """What the guest last wrote on its console."""
        why = self._link.why_not
        words = [visible(line) for line in self._link.last_lines()]
        told = [f"its console cannot be reached: {why}"] if why else []
        return [*told, *(["the console's last lines:", *words] if words else [])] or [
            "its console is silent"
        ]


def _nonce() -> str:
    return secrets.token_hex(6)
