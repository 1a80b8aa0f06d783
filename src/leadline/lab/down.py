"""Removal of a lab in any state: processes, mounts, memory, folder."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from leadline import errors
from leadline.errors import LeadlineError
from leadline.files import read_content
from leadline.lab import cpu_groups, processes
from leadline.lab.pools import mounts_below, unmount_all
from leadline.lab.state import (
    MEMORY,
    STATE,
    LabState,
    Phase,
    is_remnant,
    paths_of,
    read_state,
    write_state,
)

# The process that brings the lab up has this long to remove it before it is killed.
_OWNER_S = 20.0


def take_down(folder: Path, token: str | None = None) -> bool:
    """End and remove the lab of a folder; False if none exists. With `token`, only the lab that its
    state, its processes and its memory show to be that one.

    All processes are killed at once: the data is discarded. Raises LeadlineError(`left-behind`) for
    everything that remains, with `token` also for a lab whose state is damaged."""
    state = None
    try:
        state = read_state(folder)
    except LeadlineError as error:
        # Without a token the environment of the processes suffices.
        if token is not None:
            raise LeadlineError(
                errors.LEFT_BEHIND,
                f"the lab {folder.name!r} was kept: it may be another one, as {error.fact}",
                hint=f"`leadline lab down {folder.name}` removes it, whichever it is",
            ) from error
    if token is not None and state is not None and state.token != token:
        return False
    known = token or (state.token if state is not None else None)
    was_there = state is not None
    if state is not None and state.phase is Phase.COMING_UP:
        if state.owner.pid != os.getpid():
            processes.end(state.owner.pid, state.owner.start_ticks, _OWNER_S)
        state = _reread(folder, state)
    found = processes.find(folder, known)
    owned = state is not None or (folder / STATE).exists() or is_remnant(folder)
    known_tokens = {process.token for process in found}
    known_tokens |= {state.token} if state is not None else set()
    memories = {paths_of(folder, owner).memory for owner in known_tokens}
    memories |= {*_memory_of(folder, known), *_unmarked_memory(folder, known)}
    if not found and not owned and not any(memory.exists() for memory in memories):
        return was_there
    if state is not None and state.phase is not Phase.GOING_DOWN:
        with suppress(OSError):  # a full disk must not keep a lab alive
            write_state(folder, state.model_copy(update={"phase": Phase.GOING_DOWN}))
    unmount_all(folder)
    left = processes.kill(found)
    # Processes that were starting meanwhile.
    left += processes.kill(processes.find(folder, known))
    unmount_all(folder)
    problems = [f"process {process.pid} ({process.name}) does not end" for process in left]
    problems += [f"{point} cannot be unmounted" for point, _ in mounts_below(folder)]
    tokens = {process.token for process in found} | ({known} if known else set())
    for owner in sorted(tokens):
        problems += cpu_groups.remove(owner)
    if not problems:
        for memory in sorted(memories):
            problems += _remove(memory)
        if owned:
            problems += _remove_folder(folder)
    if problems:
        raise LeadlineError(
            errors.LEFT_BEHIND,
            f"the lab {folder.name!r} could not be removed completely",
            context=problems,
            hint=f"`leadline lab down {folder.name}` again",
        )
    return True


def mark_memory(memory: Path, folder: Path) -> None:
    """Create the lab's folder in memory, with a file that names the lab."""
    memory.mkdir(mode=0o700)
    (memory / "lab").write_text(f"{folder}\n")


def _memory_of(folder: Path, token: str | None) -> list[Path]:
    """Return this user's folders in memory that name the lab; every user can create more."""
    found = []
    for mark in MEMORY.glob("leadline-lab-*/lab"):
        with suppress(OSError):
            if (
                mark.parent.lstat().st_uid == os.geteuid()
                and read_content(mark).decode("utf-8", "surrogateescape").strip() == str(folder)
                and (token is None or mark.parent == paths_of(folder, token).memory)
            ):
                found.append(mark.parent)
    return found


def _unmarked_memory(folder: Path, token: str | None) -> list[Path]:
    """Return this user's folder in memory of a token, whose mark was not written, or in part: it
    holds nothing else."""
    if token is None:
        return []
    memory = paths_of(folder, token).memory
    try:
        about = memory.lstat()
        if about.st_uid != os.geteuid() or not stat.S_ISDIR(about.st_mode):
            return []
        names = {entry.name for entry in memory.iterdir()}
        mark = read_content(memory / "lab") if names else b""
    except OSError:
        return []
    return [memory] if names <= {"lab"} and os.fsencode(f"{folder}\n").startswith(mark) else []


def _reread(folder: Path, before: LabState) -> LabState | None:
    """Read the state again after its owner had time to remove the lab."""
    try:
        after = read_state(folder)
    except LeadlineError:
        return before
    return after if after is not None and after.token == before.token else None


def _remove(folder: Path) -> list[str]:
    """Remove a tree; return the problems."""
    problems: list[str] = []

    def note(function: object, path: str, problem: object) -> None:
        error = problem[1] if isinstance(problem, tuple) else problem
        if not isinstance(error, FileNotFoundError):
            problems.append(f"{path}: {error}")

    shutil.rmtree(folder, onerror=note)
    return problems


def _remove_folder(folder: Path) -> list[str]:
    """Remove the lab's folder, the state file last: until then the lab stays visible."""
    problems: list[str] = []
    try:
        for entry in list(folder.iterdir()):
            if entry.name == STATE:
                continue
            if entry.is_dir() and not entry.is_symlink():
                problems += _remove(entry)
            else:
                entry.unlink(missing_ok=True)
        if not problems:
            (folder / STATE).unlink(missing_ok=True)
            folder.rmdir()
    except FileNotFoundError:
        return problems
    except OSError as error:
        problems.append(str(error))
    return problems
