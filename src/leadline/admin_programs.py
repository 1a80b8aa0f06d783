"""Programs for the administrator (losetup, rbd, zpool): where they lie; asked within a bound."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

# Where util-linux and ZFS lie, and which a user's path may lack.
_SEARCHED = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
# What a shell says of a program that it cannot begin.
_NOT_BEGUN = 127
# How often it is asked whether there is an answer to be had.
_LOOK_S = 5.0


def find(program: str) -> str | None:
    """Path of a program."""
    return shutil.which(program, path=_SEARCHED)


def run(
    *command: str,
    bound_s: float,
    cwd: str | None = None,
    in_vain: Callable[[], bool] = lambda: False,
) -> tuple[int | None, str, str]:
    """Exit status (None: no answer in time; 127: it cannot be started), stdout and stderr of a
    command. `in_vain` is asked now and then while it runs: True ends the wait.

    What waits for a suspended pool or a dead cluster waits in the kernel and cannot be killed, so
    that it is not waited for either.
    """
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Names are bytes to the kernel and UTF-8 to people, whatever this process's locale.
            encoding="utf-8",
            errors="replace",
            cwd=cwd,
            env=os.environ | {"LC_ALL": "C"},
        )
    except OSError as error:
        return _NOT_BEGUN, "", f"{command[0]!r} cannot be run: {error.strerror}"
    end = time.monotonic() + bound_s
    while True:
        try:
            out, err = child.communicate(timeout=max(0.0, min(_LOOK_S, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            if time.monotonic() < end and not in_vain():
                continue
            child.kill()
            with suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=1.0)
            return None, "", ""
        return child.returncode, out, err
