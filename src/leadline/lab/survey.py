"""Which labs there are and how they are, whatever became of those who made them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from leadline.errors import LeadlineError
from leadline.lab import processes
from leadline.lab.cephfs import mounts_below
from leadline.lab.processes import Found
from leadline.lab.state import STATE, LabState, Phase, ProcessRecord, is_remnant, read_state


class Condition(StrEnum):
    """`half up`: whoever brought it up was killed; `half down`: whoever took it down; `broken`: it
    was up and processes have died; `orphan`: processes whose lab's folder says nothing of them."""

    UP = "up"
    COMING_UP = "coming up"
    HALF_UP = "half up"
    HALF_DOWN = "half down"
    BROKEN = "broken"
    ORPHAN = "orphan"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """A lab as found. `dead` are processes that it should have and has not."""

    name: str
    folder: Path
    condition: Condition
    state: LabState | None
    running: tuple[Found, ...]
    dead: tuple[str, ...]
    mounts: tuple[Path, ...]


def survey(labs: Path) -> list[Surveyed]:
    """All labs of a folder by name, those of which only processes are left too."""
    found = processes.find()
    folders = {one.folder for one in found if one.folder.parent == labs}
    if labs.is_dir():
        folders |= {
            entry for entry in labs.iterdir() if (entry / STATE).is_file() or _remnant(entry)
        }
    return [look(folder, found) for folder in sorted(folders)]


def look(folder: Path, found: list[Found] | None = None) -> Surveyed:
    """One lab."""
    if found is None:
        found = processes.find(folder)
    state, damaged = None, False
    try:
        state = read_state(folder)
    except LeadlineError:
        damaged = True
    running = [one for one in found if one.folder == folder]
    if state is not None:
        running = [one for one in running if one.token == state.token]
    dead = dead_processes(state) if state is not None else ()
    return Surveyed(
        name=folder.name,
        folder=folder,
        condition=_condition(folder, state, damaged, dead),
        state=state,
        running=tuple(running),
        dead=dead,
        mounts=tuple(point for point, _ in mounts_below(folder)),
    )


def dead_processes(state: LabState) -> tuple[str, ...]:
    """Processes that the lab should have and has not."""
    dead = [one.name for one in state.processes if not is_alive(one)]
    if state.network is not None and not state.network.alive():
        dead.append("network")
    return tuple(dead)


def is_alive(record: ProcessRecord) -> bool:
    return processes.start_ticks(record.pid) == record.start_ticks


def _condition(
    folder: Path, state: LabState | None, damaged: bool, dead: tuple[str, ...]
) -> Condition:
    if damaged:
        return Condition.DAMAGED
    if state is None:
        return Condition.HALF_UP if _remnant(folder) else Condition.ORPHAN
    if state.phase is Phase.GOING_DOWN:
        return Condition.HALF_DOWN
    if state.phase is Phase.COMING_UP:
        return Condition.COMING_UP if is_alive(state.owner) else Condition.HALF_UP
    return Condition.BROKEN if dead else Condition.UP


def _remnant(folder: Path) -> bool:
    return folder.is_dir() and is_remnant(folder)
