"""A parameter of a system, as each kind of setting implements it, and the system that has it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Protocol

from leadline import errors
from leadline.archive.layout import write_durably
from leadline.errors import LeadlineError
from leadline.files import lock_file, user_cache
from leadline.units import parse_size

_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")
# Decimal prefixes, which some parameters take where others take binary ones.
_DECIMAL = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def same_value(one: str | None, other: str | None) -> bool:
    """Whether two texts are the same value: equal, or the same number, size or truth value."""
    if one is None or other is None:
        return one is other
    return one == other or bool(_meanings(one) & _meanings(other))


def _meanings(text: str) -> set[object]:
    """What a text can stand for: numbers, or a truth value."""
    text = text.strip()
    found: set[object] = set()
    with suppress(ValueError):
        found.add(float(text))
    with suppress(ValueError):
        found.add(float(parse_size(text)))
    if text[-1:] in _DECIMAL:
        with suppress(ValueError):
            found.add(float(text[:-1]) * _DECIMAL[text[-1]])
    for words, meaning in ((_TRUE, "true"), (_FALSE, "false")):
        if text.lower() in words:
            found.add(meaning)
    return found


class System(Protocol):
    """A system that has parameters. One run at a time may change them."""

    @property
    def name(self) -> str: ...

    def lock(self, run: str = "") -> None:
        """Keep other runs away, until `unlock`, and note how the system is; the mark of `run` may
        be on it. May be called again. Raises LeadlineError(`settings-in-use`)."""

    def marked_by(self) -> str:
        """The run that has changed the system and not restored it; empty without one."""

    @property
    def mark_place(self) -> str:
        """Where the mark is; that of a machine is in the cache of a user."""

    def claim(self, run: str, undos: Sequence[str]) -> None:
        """Mark the system as changed by a run, until `disclaim`. `undos` are digests of what undoes
        each change. Raises LeadlineError."""

    def is_claimed(self, run: str, undo: str) -> bool:
        """Return whether the system has the mark of a run with that digest; empty: with none, as
        versions before 0.3 made it."""

    def disclaim(self, run: str) -> None:
        """Remove the mark of a run. Raises LeadlineError."""

    def unlock(self) -> None: ...

    def settle(self, go_on: Callable[[], None]) -> None:
        """Wait until a change is over and the system is as well as it was. `go_on` raises after a
        request to stop. Raises LeadlineError after a bound."""


class Parameter(Protocol):
    """A parameter with one value. All calls but `read` may raise LeadlineError; so may `read`."""

    @property
    def name(self) -> str:
        """What it is called in the archive, unique among the parameters of its setting."""

    @property
    def system(self) -> System: ...

    def check(self, values: Sequence[str]) -> None:
        """Raise LeadlineError(`setting-invalid`) for a value that the system would refuse, and for
        a parameter that it does not have or cannot change while it runs."""

    def read(self) -> str | None:
        """The present value as the system writes it; None where it has none of its own."""

    def write(self, value: str) -> None:
        """Set a value of the plan."""

    def restore(self, before: str | None) -> None:
        """Set what `read` returned before the run, or unset it."""

    def fault(self, value: str) -> str:
        """Why the value is not in effect although it is set; empty where it is."""


class Locked:
    """The lock and the mark of a system, in this user's cache. The kernel drops the lock when the
    process dies; the mark stays until the settings are restored."""

    def __init__(self, name: str) -> None:
        self.name = name
        digest = sha256(name.encode()).hexdigest()[:16]
        self._lock = user_cache() / "settings" / f"{digest}.lock"
        self._mark = self._lock.with_suffix(".run")
        self._handle = -1

    def lock(self, run: str = "") -> None:
        if self._handle < 0:
            try:
                self._lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                handle = lock_file(self._lock)
            except OSError as error:
                fact = f"no lock of {self.name} can be made: {error.strerror}"
                raise LeadlineError(errors.SETTINGS_IN_USE, fact, context=[str(error)]) from error
            if handle is None:
                raise self._in_use("another run on this machine", "wait for it to end")
            self._handle = handle
        marked = self.marked_by()
        if marked not in ("", run):
            hint = f"`leadline clean {marked}` restores them; {self._how_to_unmark()}"
            raise self._in_use(f"the run {marked}, which was killed or still runs,", hint)

    def _in_use(self, by: str, hint: str) -> LeadlineError:
        fact = f"{by} changes settings of {self.name}"
        return LeadlineError(errors.SETTINGS_IN_USE, fact, hint=hint)

    def _how_to_unmark(self) -> str:
        return f"where its archive is gone, remove {self.mark_place}"

    def unlock(self) -> None:
        if self._handle >= 0:
            self._lock.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = -1

    @property
    def mark_place(self) -> str:
        return str(self._mark)

    def _read_mark(self) -> str:
        """Return the text of the mark; empty without one."""
        try:
            return self._mark.read_text("utf-8").strip()
        except OSError:
            return ""

    def _write_mark(self, text: str) -> None:
        write_durably(self._mark, text.encode())

    def _remove_mark(self) -> None:
        self._mark.unlink(missing_ok=True)

    def marked_by(self) -> str:
        return self._read_mark().partition(" ")[0]

    def is_claimed(self, run: str, undo: str) -> bool:
        marked, _, undos = self._read_mark().partition(" ")
        return marked == run and undo in undos.split(",")

    def claim(self, run: str, undos: Sequence[str]) -> None:
        if not self.marked_by():
            self._write_mark(f"{run} {','.join(undos)}")
        self.lock(run)  # another run may have been faster

    def disclaim(self, run: str) -> None:
        if self.marked_by() == run:
            self._remove_mark()


class Host(Locked):
    """A machine whose parameters take effect at once."""

    def __init__(self, name: str = "") -> None:
        super().__init__(f"host {name or socket.gethostname()}")

    def settle(self, go_on: Callable[[], None]) -> None:
        return


def invalid(fact: str, *context: str, hint: str | None = None) -> LeadlineError:
    """Return the error for a setting that a system does not take."""
    return LeadlineError(errors.SETTING_INVALID, fact, context=context, hint=hint)


def not_settled(system: str, bound_s: float, faults: Sequence[str]) -> LeadlineError:
    """Return the error for a system that is not as well as before the change."""
    return LeadlineError(
        errors.SETTING_NOT_APPLIED,
        f"{system} did not settle within {bound_s:g} s after a change of its settings",
        context=faults,
        hint="the setting is restored; look at the daemons",
    )
