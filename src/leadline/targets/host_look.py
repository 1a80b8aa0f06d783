"""What a host is for load: whether it has what is needed, and room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from leadline import errors
from leadline.engines.fio_version import INSTALL, require_version
from leadline.errors import ErrorKind, LeadlineError
from leadline.shell import Shell, insist
from leadline.targets.directory import KEEP_FREE_SHARE
from leadline.units import format_size

PROGRAMS = ("fio", "setsid", "env", "find", "stat", "awk", "paste")
_LOOK_S = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A directory of a host: the size and the free bytes of its filesystem, and what that lies
    on. `machine` is of one value for all names of one machine, and for containers on it."""

    host: str
    path: str
    machine: str
    size_bytes: int
    free_bytes: int
    filesystem: str
    source: str

    @property
    def on_network(self) -> bool:
        """`server:/export`, `user@fsid.name=/`, `//server/share` against `/dev/x` and `tmpfs`."""
        return ":" in self.source or "@" in self.source or self.source.startswith("//")

    @property
    def volume(self) -> tuple[str, str]:
        """What gives it space: of one name on several hosts only behind a network."""
        return ("" if self.on_network else self.host, self.source)


def look(shell: Shell, host: str, path: str) -> Look:
    """Raises LeadlineError for the first of what speaks against the host."""
    script = (resources.files("leadline.targets") / "host_look.sh").read_text("utf-8")
    said = insist(shell, script, path, *PROGRAMS, bound_s=_LOOK_S)
    lines = [line.partition(" ") for line in said.text.splitlines()]
    told = {key: value for key, _, value in lines}
    lacks = [value for key, _, value in lines if key == "lacks"]
    where = f"on the host {host!r}"

    def fault(kind: ErrorKind, fact: str, hint: str) -> LeadlineError:
        return LeadlineError(kind, f"{fact} {where}", hint=hint)

    if "fio" in lacks:
        raise fault(errors.FIO_MISSING, "there is no fio", f"{INSTALL}, there")
    if lacks:
        raise fault(
            errors.HOST_UNREACHABLE,
            f"{', '.join(lacks)} cannot be had",
            "the host needs a shell, GNU coreutils, findutils, awk and util-linux",
        )
    require_version(told.get("fio", ""), where)
    match told.get("directory"):
        case "missing":
            raise fault(
                errors.TARGET_INVALID,
                f"there is no {path!r} that this user can see",
                "name a directory that exists on every host; Leadline makes its own folder inside",
            )
        case "none":
            raise fault(errors.TARGET_INVALID, f"{path!r} is no directory", "name a directory")
        case "read-only":
            raise fault(
                errors.TARGET_READ_ONLY,
                f"{path!r} cannot be written by this user",
                "Leadline makes a folder of its own there, so it must be able to write",
            )
    try:
        block, blocks, free = map(int, told["room"].split())
        filesystem, _, source = told["lies-on"].partition(" ")
    except (KeyError, ValueError) as error:
        raise fault(
            errors.HOST_UNREACHABLE,
            f"the room at {path!r} cannot be told ({said.complaint})",
            "the host needs GNU coreutils: stat and df",
        ) from error
    return Look(
        host=host,
        path=path,
        machine=told.get("machine", "") or host,
        size_bytes=block * blocks,
        free_bytes=block * free,
        filesystem=filesystem,
        source=source.strip(),
    )


def require_room(needs: Mapping[str, tuple[Look, int]]) -> list[LeadlineError]:
    """What speaks against laying out so many bytes on each host; hosts that mount one filesystem
    are added up."""
    groups: dict[tuple[str, str], list[tuple[Look, int]]] = defaultdict(list)
    for one, needed_bytes in needs.values():
        groups[one.volume].append((one, needed_bytes))
    faults = []
    for group in groups.values():
        first = group[0][0]
        needed_bytes = sum(needed for _, needed in group)
        keep = int(first.size_bytes * KEEP_FREE_SHARE)
        if first.free_bytes - needed_bytes >= keep:
            continue
        hosts = ", ".join(repr(one.host) for one, _ in group)
        faults.append(
            LeadlineError(
                errors.TARGET_NO_SPACE,
                f"{first.path!r} on {hosts} has {format_size(first.free_bytes)} free; the plan "
                f"needs {format_size(needed_bytes)} and leaves {format_size(keep)} (10 %)",
                hint="make the plan smaller with --size, or make room",
            )
        )
    return faults
