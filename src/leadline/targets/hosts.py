"""The target `hosts:`: a directory on each of several load generators, reached by ssh."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import TypeVar

from leadline import errors
from leadline.archive.records import CacheDrop, Created
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
from leadline.targets.base import KEEP_FREE_SHARE, SETTLE_S, LastingTarget, require_free
from leadline.targets.naming import is_token, new_token, own_name

PROGRAMS = ("fio", "setsid", "env", "find", "stat", "awk", "paste")
_PROBE_S = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProbe:
    """The filesystem of a directory on a host. `source` is its device or network share; `machine`
    is the same for all names of a machine and for all containers on it."""

    host: str
    path: str
    machine: str
    size_bytes: int
    free_bytes: int
    filesystem: str
    source: str

    @property
    def on_network(self) -> bool:
        """`server:/export`, `user@fsid.name=/`, `//server/share`, unlike `/dev/x` and `tmpfs`."""
        return ":" in self.source or "@" in self.source or self.source.startswith("//")

    @property
    def volume(self) -> tuple[str, str]:
        """Identity of the storage: shared by several hosts only on a network filesystem."""
        return ("" if self.on_network else self.host, self.source)


def probe_host(shell: Shell, host: str, path: str) -> HostProbe:
    """Probe a host's directory. Raises LeadlineError for the first reason that forbids its use."""
    script = (resources.files("leadline.targets") / "host_probe.sh").read_text("utf-8")
    result = run_repeatable(shell, script, path, *PROGRAMS, bound_s=_PROBE_S)
    lines = [line.partition(" ") for line in result.text.splitlines()]
    facts = {key: value for key, _, value in lines}
    lacks = [value for key, _, value in lines if key == "lacks"]
    where = f"on the host {host!r}"

    def fault(kind: ErrorKind, fact: str, hint: str) -> LeadlineError:
        return LeadlineError(kind, f"{fact} {where}", hint=hint)

    if "fio" in lacks:
        raise fault(errors.FIO_MISSING, "there is no fio", f"{INSTALL}, there")
    if lacks:
        raise fault(
            errors.HOST_UNREACHABLE,
            f"{', '.join(lacks)} cannot be found",
            "the host needs a shell, GNU coreutils, findutils, awk and util-linux",
        )
    require_version(facts.get("fio", ""), where)
    match facts.get("directory"):
        case "missing":
            raise fault(
                errors.TARGET_INVALID,
                f"{path!r} is not visible to this user",
                "name a directory that exists on every host; Leadline makes a folder in it",
            )
        case "none":
            raise fault(errors.TARGET_INVALID, f"{path!r} is not a directory", "name a directory")
        case "read-only":
            raise fault(
                errors.TARGET_READ_ONLY,
                f"{path!r} cannot be written by this user",
                "Leadline makes a folder there, so this user must be able to write",
            )
    try:
        block, blocks, free = map(int, facts["capacity"].split())
        filesystem, _, source = facts["mounted"].partition(" ")
    except (KeyError, ValueError) as error:
        raise fault(
            errors.HOST_UNREACHABLE,
            f"the free space of {path!r} is unknown ({result.error_line})",
            "the host needs GNU coreutils: stat and df",
        ) from error
    return HostProbe(
        host=host,
        path=path,
        machine=facts.get("machine", "") or host,
        size_bytes=block * blocks,
        free_bytes=block * free,
        filesystem=filesystem,
        source=source.strip(),
    )


def find_full_hosts(needs: Sequence[tuple[HostProbe, int]]) -> list[LeadlineError]:
    """The filesystems that are too small for the bytes needed on them; those that several hosts
    mount get the sum."""
    groups: dict[tuple[str, str], list[tuple[HostProbe, int]]] = defaultdict(list)
    for probe, needed_bytes in needs:
        groups[probe.volume].append((probe, needed_bytes))
    faults = []
    for group in groups.values():
        first = group[0][0]
        try:
            require_free(
                f"{first.path!r} on {', '.join(repr(probe.host) for probe, _ in group)}",
                free_bytes=first.free_bytes,
                needed_bytes=sum(needed for _, needed in group),
                keep_bytes=int(first.size_bytes * KEEP_FREE_SHARE),
            )
        except LeadlineError as error:
            faults.append(error)
    return faults


METHOD = "dd oflag=nocache on each host, read back by fincore"
# File names of the first client have no client number.
_OF_CLIENT = re.compile(re.escape(DATA_FILE).replace(r"\{job\}", r"c(\d+)\..*"))
_SHORT_S = 30.0
# The page cache may hold much of a large file, which takes time to write back.
_DROP_S = 600.0
_UNABLE = 3
_IS_PRESENT = 'test -f "$1/.leadline-owner"'
_ALLOCATED = """\
find "$1" -maxdepth 1 -type f ! -name .leadline-owner -exec stat -c '%b %B' {} + |
    awk '{ sum += $1 * $2 } END { printf "%d", sum }'"""
_LISTED = 'find "$1" -mindepth 1 -maxdepth 1 -type f ! -name .leadline-owner -exec basename {} \\;'

_T = TypeVar("_T")


class HostsTarget(LastingTarget):
    """`hosts:a,b:/path`. Clients are assigned to hosts round-robin."""

    def __init__(self, target: Target, note: Callable[[str], None] = lambda sentence: None) -> None:
        self.name = target.name
        self._note = note
        self._hosts = target.parsed.hosts
        self._path = target.parsed.path_on_hosts
        self.shells = {host: SshShell(host) for host in self._hosts}
        self._probes: Mapping[str, HostProbe] = {}
        self._folder = ""
        self._run = ""
        self._created: dict[str, Created] = {}
        # The host that made the folder of each host.
        self._owners: Mapping[str, str] = {}
        self._journal: Journal | None = None
        self._files: set[str] = set()

    @property
    def location(self) -> Hosts:
        assert self._folder, "acquire comes first"
        return Hosts(
            hosts=tuple(
                SshHost(host=host, path=self._folder, shell=self.shells[host])
                for host in self._hosts
            )
        )

    @property
    def sharing(self) -> Mapping[str, str]:
        """Hosts that mount the same filesystem as another host, with the host that made the
        folder."""
        return {host: owner for host, owner in self._owners.items() if owner != host}

    def volume(self) -> object:
        return None  # this machine does not know the hosts' storage

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        """Raise one LeadlineError with the faults of all hosts."""
        faults = self.probe(footprint)
        needs = self._needed_bytes(footprint)
        faults += find_full_hosts([(found, needs[host]) for host, found in self._probes.items()])
        self.require_none(faults)

    def probe(self, footprint: Footprint) -> list[LeadlineError]:
        """The faults of the hosts, one each at most, space not counted. Raises LeadlineError for a
        plan without clients."""
        if not footprint.clients:
            raise LeadlineError(
                errors.TARGET_INVALID,
                "on hosts clients do the I/O, and the plan has none",
                context=[f"target {self.name!r}"],
                hint=f"write `clients: {len(self._hosts)}` in the workload or in a level",
            )

        def probe(host: str) -> HostProbe | LeadlineError:
            shell = self.shells[host]
            try:
                found = probe_host(shell, host, self._path)
                require_serving(SshHost(host=host, path=self._path, shell=shell))
                return found
            except LeadlineError as error:
                return error

        probed = self.on_all(probe)
        faults = [found for found in probed.values() if isinstance(found, LeadlineError)]
        self._probes = {
            host: found for host, found in probed.items() if isinstance(found, HostProbe)
        }
        return faults

    def require_none(self, faults: Sequence[LeadlineError]) -> None:
        """Raise one LeadlineError for the faults, if there are any."""
        if faults:
            raise _join_faults(faults, self.name, len(self._hosts))

    def _needed_bytes(self, footprint: Footprint) -> Mapping[str, int]:
        """Bytes of the files on each host."""
        needs = dict.fromkeys(self._hosts, footprint.job_file_bytes)
        for name, size in footprint.files.items():
            match = _OF_CLIENT.fullmatch(name)
            client = int(match[1]) if match else 1
            needs[self._hosts[(client - 1) % len(self._hosts)]] += size
        return needs

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        token = new_token()
        folder = folder_there(self._path, run, token)
        self._run, self._journal, self._files = run, journal, set(footprint.files)
        for host in self._hosts:
            path = host_url(host, self._path, run, token)
            created = Created(target=self.name, path=path, token=token)
            journal.note_created(created)
            self._created[host] = created
        script = _script("make")

        def make(host: str) -> str:
            number = str(self._hosts.index(host) + 1)
            result = run_repeatable(
                self.shells[host], script, folder, run, token, number, bound_s=_SHORT_S
            )
            if result.status:
                raise LeadlineError(
                    errors.TARGET_READ_ONLY,
                    f"no folder can be made in {self._path!r} on the host {host!r}: "
                    f"{result.error_line}",
                    context=[f"target {self.name!r}"],
                )
            return self._hosts[int(result.text) - 1]

        self._owners = self.on_all(make)
        for host in self.sharing:
            journal.note_removed(self._created.pop(host))
        self._folder = folder
        self._note_shared()

    def _note_shared(self) -> None:
        """Report hosts that are one machine, or share one folder."""
        machines = {host: probe.machine for host, probe in self._probes.items()}
        for kind, owners in (("on one machine", machines), ("in one shared folder", self._owners)):
            groups: dict[str, list[str]] = defaultdict(list)
            for host, owner in owners.items():
                groups[owner].append(host)
            for hosts in groups.values():
                if len(hosts) > 1:
                    self._note(f"{self.name}: {', '.join(hosts)} work {kind}")

    def settle(self, written_at_s: float) -> None:
        """Wait as long as on clusters where the data is on a network filesystem: this machine
        cannot see when its writes are done."""
        if any(probe.on_network for probe in self._probes.values()):
            time.sleep(max(0.0, written_at_s + SETTLE_S - time.monotonic()))

    def watch(self, folder: Path) -> Watch | None:
        """Record the load generators; the storage of a network filesystem is not visible."""
        return Watches(ResourceWatch(self.machines(), folder))

    def machines(self) -> tuple[RemoteMachine, ...]:
        """The load generators."""
        return tuple(
            RemoteMachine(name=host, shell=self.shells[host], roles=(Role.CLIENT,))
            for host in self._hosts
        )

    def present(self) -> bool:
        return all(self.on_all(lambda host: self._query(host, _IS_PRESENT) is not None).values())

    def drop_caches(self) -> CacheDrop | None:
        """Drop the cache of every host: each host caches shared files for itself."""

        def drop(host: str) -> tuple[int, ...] | None:
            result = run_repeatable(
                self.shells[host], _script("drop"), self._folder, bound_s=_DROP_S
            )
            if result.status == _UNABLE:
                return None
            if result.status:
                raise OSError(f"caches of the host {host!r}: {result.error_line}")
            return tuple(map(int, result.text.split()))

        found = list(self.on_all(drop).values())
        known = [sizes for sizes in found if sizes is not None and len(sizes) == 2]
        if len(known) < len(found):
            return None
        before, after = (sum(sizes[index] for sizes in known) for index in (0, 1))
        return CacheDrop(method=METHOD, resident_before_bytes=before, resident_after_bytes=after)

    def allocated_bytes(self) -> int | None:
        sizes = [self._query(host, _ALLOCATED) for host in self._created]
        return sum(int(size) for size in sizes if size) if all(sizes) else None

    def filesystem(self) -> str:
        return ", ".join(sorted({probe.filesystem for probe in self._probes.values()} - {""}))

    def note_files(self) -> None:
        for host in self._created:
            self._files |= set((self._query(host, _LISTED) or "").splitlines())

    def release(self) -> tuple[str, ...]:
        def remove(host: str) -> tuple[str, ...]:
            return _removed(self.shells[host], self._created[host], self._run, self._files)

        left: list[str] = []
        for host, problems in self.on_all(remove, tuple(self._created)).items():
            left += problems
            if not problems and self._journal is not None:
                self._journal.note_removed(self._created.pop(host))
        for shell in self.shells.values():
            shell.close()
        return tuple(left)

    def _query(self, host: str, script: str) -> str | None:
        """stdout of a script that gets the folder; None where it failed."""
        result = run_repeatable(self.shells[host], script, self._folder, bound_s=_SHORT_S)
        return None if result.status else result.text

    def on_all(
        self, call: Callable[[str], _T], hosts: Sequence[str] | None = None
    ) -> dict[str, _T]:
        """Call a function for all hosts in parallel. Raises what the first of them raises."""
        used = self._hosts if hosts is None else hosts
        with ThreadPoolExecutor(max_workers=max(1, len(used))) as pool:
            return dict(zip(used, pool.map(call, used), strict=True))


def folder_there(parent: str, run: str, token: str) -> str:
    """Return the path of a run's folder on a host."""
    return str(PurePosixPath(parent) / own_name(run, token))


def host_url(host: str, parent: str, run: str, token: str) -> str:
    """Return the entry of the journal for a run's folder on a host."""
    location = f"{host}:{folder_there(parent, run, token)}"
    return str(TargetUrl(kind=TargetKind.HOSTS, location=location))


def remove_from_host(created: Created, run: str) -> tuple[str, ...]:
    """Remove a folder that a killed session left on a host; sentences about what failed."""
    (host,) = parse_target_url(created.path).hosts
    shell = SshShell(host)
    try:
        return _removed(shell, created, run)
    finally:
        shell.close()


def _removed(
    shell: SshShell,
    created: Created,
    run: str,
    names: set[str] | frozenset[str] = frozenset(),
) -> tuple[str, ...]:
    folder = PurePosixPath(parse_target_url(created.path).path_on_hosts)
    if not is_token(created.token) or folder.name != own_name(run, created.token):
        return (f"{created.path} has no name of this run's and was kept",)
    given = "".join(f"{name}\n" for name in sorted(names) if "/" not in name and "\n" not in name)
    try:
        result = run_repeatable(
            shell, _script("remove"), str(folder), run, created.token,
            given=given.encode("utf-8", "surrogateescape"), bound_s=_SHORT_S,
        )  # fmt: skip
    except LeadlineError as error:
        return (f"{created.path} could not be removed: {error.fact}",)
    if result.status:
        return (f"{created.path} could not be removed: {result.error_line}",)
    return (f"{created.path} {result.text}",) if result.text else ()


def _join_faults(faults: Sequence[LeadlineError], target: str, hosts: int) -> LeadlineError:
    first = faults[0]
    where = f"target {target!r}"
    if len(faults) == 1:
        return LeadlineError(
            first.kind, first.fact, context=[where, *first.context], hint=first.hint
        )
    return LeadlineError(
        first.kind,
        f"the {hosts} hosts have {len(faults)} faults",
        context=[where, *(f"{fault.fact} [{fault.kind.code}]" for fault in faults)],
        hint=first.hint,
    )


def _script(name: str) -> str:
    return (resources.files("leadline.targets") / f"host_{name}.sh").read_text("utf-8")
