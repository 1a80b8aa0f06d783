"""Programs for the administrator (losetup, rbd, zpool): where they lie; asked within a bound."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress

# Where util-linux and ZFS lie, and which a user's path may lack.
_SEARCHED = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
# What a shell says of a program that it cannot begin.
_NOT_BEGUN = 127


def find(program: str) -> str | None:
    """Path of a program."""
    return shutil.which(program, path=_SEARCHED)


def run(*command: str, bound_s: float) -> tuple[int | None, str, str]:
    """Exit status (None: no answer in time; 127: it cannot be started), stdout and stderr of a
    command.

    What waits for a suspended pool or a dead cluster waits in the kernel and cannot be killed, so
    that it is not waited for either.
    """
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=os.environ | {"LC_ALL": "C"},
        )
    except OSError as error:
        return _NOT_BEGUN, "", f"{command[0]!r} cannot be run: {error.strerror}"
    try:
        out, err = child.communicate(timeout=bound_s)
    except subprocess.TimeoutExpired:
        child.kill()
        with suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=1.0)
        return None, "", ""
    return child.returncode, out, err
