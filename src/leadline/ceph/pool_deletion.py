"""Deleting pools on clusters that do not allow it: allowed for the moment, and put back.

What the setting was is noted in the cluster itself before it is changed. A process that is killed
in between leaves the note, and the next one puts the setting back (`recover`).
"""

from __future__ import annotations

import contextlib
import errno
import json
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from leadline import errors
from leadline.ceph.connection import CommandFailed
from leadline.ceph.pool_state import Commands
from leadline.errors import LeadlineError

SETTING = "mon_allow_pool_delete"
NOTE_KEY = f"leadline/{SETTING}"
_UNSET = "unset"
# Monitors take a new setting within a second of its commit.
_OBEYED_WITHIN_S = 15.0
_PAUSE_S = 0.2


class PoolDeletion:
    """Deletes pools while it is entered; allows that only where it is refused."""

    def __init__(self, commands: Commands, warn: Callable[[str], None]) -> None:
        self._commands = commands
        self._warn = warn
        self._allowed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._allowed:
            return
        try:
            recover(self._commands, self._warn)
        except LeadlineError as failed:
            if error is None:
                raise
            # The first error is the one to be told; the note stays for the next time.
            self._warn(f"{SETTING} could not be put back: {failed.fact}")

    def delete(self, pool: str) -> None:
        """Raises LeadlineError(`ceph-failed`)."""
        end = time.monotonic() + _OBEYED_WITHIN_S
        while True:
            try:
                self._commands.mon(
                    "osd pool delete", pool=pool, pool2=pool, yes_i_really_really_mean_it=True
                )
            except CommandFailed as error:
                if not _forbidden(error) or time.monotonic() > end:
                    raise
            else:
                return
            if not self._allowed:
                self._allow()
            time.sleep(_PAUSE_S)

    def _allow(self) -> None:
        before = _in_database(self._commands)
        self._warn(f"switching {SETTING} on for the moment (it is {before or 'off by default'})")
        noted = _UNSET if before is None else before
        self._allowed = True
        self._commands.mon("config-key set", key=NOTE_KEY, val=noted)
        self._commands.mon("config set", who="mon", name=SETTING, value="true")


def recover(commands: Commands, warn: Callable[[str], None]) -> None:
    """Put the setting back to what the note in the cluster says, if there is one.

    Raises LeadlineError(`ceph-failed`) where it is not read back as it was.
    """
    try:
        noted = commands.mon("config-key get", key=NOTE_KEY).decode().strip()
    except CommandFailed as error:
        # Who may not read notes left none.
        if error.number in (errno.ENOENT, errno.EACCES):
            return
        raise
    before = None if noted == _UNSET else noted
    if before is None:
        commands.mon("config rm", who="mon", name=SETTING)
    else:
        commands.mon("config set", who="mon", name=SETTING, value=before)
    found = _in_database(commands)
    if found != before:
        raise LeadlineError(
            errors.CEPH_FAILED,
            f"{SETTING} was put back to {before or 'its default'}, and is {found} all the same",
            hint=f"`ceph config rm mon {SETTING}`",
        )
    with contextlib.suppress(CommandFailed):
        commands.mon("config-key rm", key=NOTE_KEY)
    warn(f"{SETTING} is {before or 'off by default'} again")


def _in_database(commands: Commands) -> str | None:
    """Its value for all monitors; None where it is not set."""
    for entry in json.loads(commands.mon("config dump", format="json")):
        if entry["name"] == SETTING and entry["section"] == "mon" and not entry.get("mask"):
            return str(entry["value"])
    return None


def _forbidden(error: CommandFailed) -> bool:
    return error.number == errno.EPERM and any(SETTING in said for said in error.context)
