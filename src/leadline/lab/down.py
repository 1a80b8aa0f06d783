"""Taking a lab down, whatever there is of it: processes, mounts, memory, folder."""

from __future__ import annotations

import os
import select
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from leadline import errors
from leadline.errors import LeadlineError
from leadline.lab import processes
from leadline.lab import processes as cpu_groups
from leadline.lab.pools import mounts_below, unmount_all
from leadline.lab.state import (
    MEMORY,
    STATE,
    LabState,
    Phase,
    ProcessRecord,
    is_remnant,
    paths_of,
    read_state,
    write_state,
)

# For one who is bringing the lab up to take it down himself, before he is killed.
_OWNER_S = 20.0


def take_down(folder: Path, token: str | None = None) -> bool:
    """End and remove the lab of a folder; False if there is nothing of it. With `token`, only that
    lab, and not one that has come to the same place since.

    Nothing is shut down in order: the data is thrown away, so all is killed at once. Raises
    LeadlineError(`left-behind`) for what will not go."""
    state = None
    with suppress(LeadlineError):  # damaged: what the environment of processes says must do
        state = read_state(folder)
    if token is not None and state is not None and state.token != token:
        return False
    known = token or (state.token if state is not None else None)
    was_there = state is not None
    if state is not None and state.phase is Phase.COMING_UP:
        _end_owner(state.owner)
        state = _again(folder, state)
    found = processes.find(folder, known)
    ours = state is not None or (folder / STATE).exists() or is_remnant(folder)
    if not found and not ours and not _memory_of(folder, known):
        return was_there
    if state is not None and state.phase is not Phase.GOING_DOWN:
        with suppress(OSError):  # a full disk must not keep a lab alive
            write_state(folder, state.model_copy(update={"phase": Phase.GOING_DOWN}))
    unmount_all(folder)
    left = processes.kill(found)
    # Who was being started while we looked.
    left += processes.kill(processes.find(folder, known))
    unmount_all(folder)
    problems = [f"process {item.pid} ({item.name}) does not end" for item in left]
    problems += [f"{point} cannot be unmounted" for point, _ in mounts_below(folder)]
    tokens = {item.token for item in found} | ({known} if known else set())
    for item in tokens:
        problems += cpu_groups.remove(item)
    if not problems:
        for memory in {paths_of(folder, token).memory for token in tokens} | set(
            _memory_of(folder, known)
        ):
            problems += _remove(memory)
        if ours:
            problems += _remove_folder(folder)
    if problems:
        raise LeadlineError(
            errors.LEFT_BEHIND,
            f"the lab {folder.name!r} could not be removed whole",
            context=problems,
            hint=f"`leadline lab down {folder.name}` again",
        )
    return True


def mark_memory(memory: Path, folder: Path) -> None:
    """Make the lab's folder in memory, which says whose it is."""
    memory.mkdir(mode=0o700)
    (memory / "lab").write_text(f"{folder}\n")


def _memory_of(folder: Path, token: str | None) -> list[Path]:
    """Folders in memory that say they belong to the lab."""
    found = []
    for mark in MEMORY.glob("leadline-lab-*/lab"):
        with suppress(OSError):
            if mark.read_text().strip() == str(folder) and (
                token is None or mark.parent.name.endswith(token)
            ):
                found.append(mark.parent)
    return found


def _end_owner(owner: ProcessRecord) -> None:
    """Let whoever brings the lab up take it down himself; then make him."""
    if owner.pid == os.getpid():
        return
    try:
        handle = os.pidfd_open(owner.pid)
    except ProcessLookupError:
        return
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if processes.start_ticks(owner.pid) != owner.start_ticks:
                return
            signal.pidfd_send_signal(handle, number)
            if select.select([handle], [], [], _OWNER_S)[0]:
                return
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def _again(folder: Path, before: LabState) -> LabState | None:
    """What the state file says now, after its owner had his turn."""
    try:
        after = read_state(folder)
    except LeadlineError:
        return before
    return after if after is not None and after.token == before.token else None


def _remove(folder: Path) -> list[str]:
    """Remove a tree; returns what went wrong."""
    problems: list[str] = []

    def note(function: object, path: str, problem: object) -> None:
        error = problem[1] if isinstance(problem, tuple) else problem
        if not isinstance(error, FileNotFoundError):
            problems.append(f"{path}: {error}")

    shutil.rmtree(folder, onerror=note)
    return problems


def _remove_folder(folder: Path) -> list[str]:
    """The state file goes last: until then, whoever looks sees what there is to remove."""
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
