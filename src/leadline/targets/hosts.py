"""A directory on each of several hosts, which are reached by ssh and generate the load together."""

from __future__ import annotations

import re
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import TypeVar

from leadline import errors
from leadline.archive.records import CacheDrop, Created, RoundTrip
from leadline.connect.shell import Shell, run_repeatable
from leadline.connect.ssh import SshHost, SshShell, require_serving
from leadline.engines.fio.choice import INSTALL, require_version
from leadline.errors import ErrorKind, LeadlineError
from leadline.formats.watch_records import Role
from leadline.plan.footprint import DATA_FILE, Footprint
from leadline.plan.models import Target
from leadline.plan.target_url import TargetKind, TargetUrl, parse_target_url
from leadline.probes.watches.base import Watches
from leadline.probes.watches.host import RemoteMachine, ResourceWatch
from leadline.runner.ports import Hosts, Journal, Watch
from leadline.targets.clusters import SETTLE_S
from leadline.targets.local import KEEP_FREE_SHARE, OneForAll
from leadline.units import format_size

# What a host is for load: whether it has what is needed, and room.

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
    said = run_repeatable(shell, script, path, *PROGRAMS, bound_s=_LOOK_S)
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
            f"the room at {path!r} cannot be told ({said.error_line})",
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


METHOD = "dd oflag=nocache on each host, read back by fincore"
# The first client's files bear no number.
_OF_CLIENT = re.compile(re.escape(DATA_FILE).replace(r"\{job\}", r"c(\d+)\..*"))
_SHORT_S = 30.0
# A large file that was written through the page cache may take long to write back.
_DROP_S = 600.0
_UNABLE = 3
_HELD = 'test -f "$1/.leadline-owner"'
_ALLOCATED = """\
find "$1" -maxdepth 1 -type f ! -name .leadline-owner -exec stat -c '%b %B' {} + |
    awk '{ sum += $1 * $2 } END { printf "%d", sum }'"""
_LISTED = 'find "$1" -mindepth 1 -maxdepth 1 -type f ! -name .leadline-owner -exec basename {} \\;'

_T = TypeVar("_T")


class HostsTarget(OneForAll):
    """`hosts:a,b:/path`. Client k works on host k, and round again."""

    def __init__(self, target: Target, note: Callable[[str], None] = lambda sentence: None) -> None:
        self.name = target.name
        self._note = note
        self._hosts = target.parsed.hosts
        self._path = target.parsed.path_on_hosts
        self._shells = {host: SshShell(host) for host in self._hosts}
        self._looks: Mapping[str, Look] = {}
        self._folder = ""
        self._token = ""
        self._created: dict[str, Created] = {}
        # By host, whose folder its own is.
        self._owners: Mapping[str, str] = {}
        self._journal: Journal | None = None
        self._files: set[str] = set()

    @property
    def location(self) -> Hosts:
        assert self._folder, "acquire comes first"
        return Hosts(
            hosts=tuple(
                SshHost(host=host, path=self._folder, shell=self._shells[host])
                for host in self._hosts
            )
        )

    @property
    def sharing(self) -> Mapping[str, str]:
        """The hosts whose folder is that of another host, as they mount the same filesystem, and
        that host."""
        return {host: whose for host, whose in self._owners.items() if whose != host}

    def volume(self) -> object:
        return None  # only the hosts could tell

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        """All faults of all hosts are told at once."""
        if not footprint.clients:
            raise LeadlineError(
                errors.TARGET_INVALID,
                "on hosts the I/O is done by clients, and the plan asks for none",
                context=[f"target {self.name!r}"],
                hint=f"write `clients: {len(self._hosts)}` in the workload or in a level",
            )

        def one(host: str) -> Look | LeadlineError:
            try:
                seen = look(self._shells[host], host, self._path)
                require_serving(SshHost(host=host, path=self._path, shell=self._shells[host]))
                return seen
            except LeadlineError as error:
                return error

        seen = self._everywhere(one)
        faults = [found for found in seen.values() if isinstance(found, LeadlineError)]
        self._looks = {host: found for host, found in seen.items() if isinstance(found, Look)}
        needs = self._needs(footprint)
        faults += require_room({host: (self._looks[host], needs[host]) for host in self._looks})
        if faults:
            raise _together(faults, self.name, len(self._hosts))

    def _needs(self, footprint: Footprint) -> Mapping[str, int]:
        """Bytes of the files that each host will hold."""
        needs = dict.fromkeys(self._hosts, footprint.job_file_bytes)
        for name, size in footprint.files.items():
            match = _OF_CLIENT.fullmatch(name)
            client = int(match[1]) if match else 1
            needs[self._hosts[(client - 1) % len(self._hosts)]] += size
        return needs

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        token = secrets.token_hex(8)
        folder = str(PurePosixPath(self._path) / f"leadline-{run}-{token}")
        self._journal, self._files = journal, set(footprint.files)
        for host in self._hosts:
            url = TargetUrl(kind=TargetKind.HOSTS, location=f"{host}:{folder}")
            created = Created(target=self.name, path=str(url), token=token)
            journal.note_created(created)
            self._created[host] = created
        script = _script("make")

        def make(host: str) -> str:
            number = str(self._hosts.index(host) + 1)
            said = run_repeatable(
                self._shells[host], script, folder, run, token, number, bound_s=_SHORT_S
            )
            if said.status:
                raise LeadlineError(
                    errors.TARGET_READ_ONLY,
                    f"no folder can be made in {self._path!r} on the host {host!r}: "
                    f"{said.error_line}",
                    context=[f"target {self.name!r}"],
                )
            return self._hosts[int(said.text) - 1]

        self._owners = self._everywhere(make)
        for host in self.sharing:
            journal.note_removed(self._created.pop(host))
        self._folder = folder
        self._tell_what_is_one()

    def _tell_what_is_one(self) -> None:
        machines = {host: one.machine for host, one in self._looks.items()}
        for kind, of in (("on one machine", machines), ("in one shared folder", self._owners)):
            alike: dict[str, list[str]] = defaultdict(list)
            for host, which in of.items():
                alike[which].append(host)
            for hosts in alike.values():
                if len(hosts) > 1:
                    self._note(f"{self.name}: {', '.join(hosts)} work {kind}")

    def settle(self, written_at_s: float) -> None:
        """As long as on clusters, where the data lies behind a network: nobody here can see how
        long writing back takes there."""
        if any(one.on_network for one in self._looks.values()):
            time.sleep(max(0.0, written_at_s + SETTLE_S - time.monotonic()))

    def prepare(self) -> tuple[RoundTrip, ...]:
        return ()

    def watch(self, folder: Path) -> Watch | None:
        """Each host makes load; what stores the data behind a network is none of ours to see."""
        machines = [
            RemoteMachine(name=host, shell=self._shells[host], roles=(Role.CLIENT,))
            for host in self._hosts
        ]
        return Watches(ResourceWatch(machines, folder))

    def present(self) -> bool:
        return all(self._everywhere(lambda host: self._ask(host, _HELD) is not None).values())

    def drop_caches(self) -> CacheDrop | None:
        """On every host, as each caches for itself what they share."""

        def drop(host: str) -> tuple[int, ...] | None:
            said = run_repeatable(
                self._shells[host], _script("drop"), self._folder, bound_s=_DROP_S
            )
            if said.status == _UNABLE:
                return None
            if said.status:
                raise OSError(f"caches of the host {host!r}: {said.error_line}")
            return tuple(map(int, said.text.split()))

        found = list(self._everywhere(drop).values())
        known = [one for one in found if one is not None and len(one) == 2]
        if len(known) < len(found):
            return None
        before, after = (sum(one[index] for one in known) for index in (0, 1))
        return CacheDrop(method=METHOD, resident_before_bytes=before, resident_after_bytes=after)

    def allocated_bytes(self) -> int | None:
        told = [self._ask(host, _ALLOCATED) for host in self._created]
        return sum(int(one) for one in told if one) if all(told) else None

    def filesystem(self) -> str:
        return ", ".join(sorted({one.filesystem for one in self._looks.values()} - {""}))

    def note_files(self) -> None:
        for host in self._created:
            self._files |= set((self._ask(host, _LISTED) or "").splitlines())

    def release(self) -> tuple[str, ...]:
        def remove(host: str) -> tuple[str, ...]:
            return _removed(self._shells[host], self._created[host], self._files)

        left: list[str] = []
        for host, problems in self._everywhere(remove, tuple(self._created)).items():
            left += problems
            if not problems and self._journal is not None:
                self._journal.note_removed(self._created.pop(host))
        for shell in self._shells.values():
            shell.close()
        return tuple(left)

    def _ask(self, host: str, script: str) -> str | None:
        """stdout of a script that gets our folder; None where it failed."""
        said = run_repeatable(self._shells[host], script, self._folder, bound_s=_SHORT_S)
        return None if said.status else said.text

    def _everywhere(
        self, ask: Callable[[str], _T], hosts: Sequence[str] | None = None
    ) -> dict[str, _T]:
        """What is asked of every host, of all at once. Raises what the first of them does."""
        asked = self._hosts if hosts is None else hosts
        with ThreadPoolExecutor(max_workers=max(1, len(asked))) as pool:
            return dict(zip(asked, pool.map(ask, asked), strict=True))


def remove_from_host(created: Created) -> tuple[str, ...]:
    """Remove a folder that a killed session left on a host; what could not be done as sentences."""
    try:
        (host,) = parse_target_url(created.path).hosts
    except ValueError:
        return (f"{created.path} names no host and was left alone",)
    shell = SshShell(host)
    try:
        return _removed(shell, created)
    finally:
        shell.close()


def _removed(
    shell: SshShell, created: Created, names: set[str] | frozenset[str] = frozenset()
) -> tuple[str, ...]:
    folder = PurePosixPath(parse_target_url(created.path).path_on_hosts)
    if not (folder.name.startswith("leadline-") and folder.name.endswith(f"-{created.token}")):
        return (f"{created.path} has no name of ours and was left alone",)
    given = "".join(f"{name}\n" for name in sorted(names) if "/" not in name and "\n" not in name)
    try:
        said = run_repeatable(
            shell, _script("remove"), str(folder), created.token,
            given=given.encode("utf-8", "surrogateescape"), bound_s=_SHORT_S,
        )  # fmt: skip
    except LeadlineError as error:
        return (f"{created.path} could not be removed: {error.fact}",)
    if said.status:
        return (f"{created.path} could not be removed: {said.error_line}",)
    return (f"{created.path} {said.text}",) if said.text else ()


def _together(faults: Sequence[LeadlineError], target: str, hosts: int) -> LeadlineError:
    first = faults[0]
    where = f"target {target!r}"
    if len(faults) == 1:
        return LeadlineError(
            first.kind, first.fact, context=[where, *first.context], hint=first.hint
        )
    return LeadlineError(
        first.kind,
        f"{len(faults)} things speak against the {hosts} hosts",
        context=[where, *(f"{one.fact} [{one.kind.code}]" for one in faults)],
        hint=first.hint,
    )


def _script(name: str) -> str:
    return (resources.files("leadline.targets") / f"host_{name}.sh").read_text("utf-8")
