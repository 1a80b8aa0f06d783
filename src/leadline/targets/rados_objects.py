"""The target `rados:POOL?engine=fio`: objects of a Ceph pool, on which fio's rados engine does I/O.

How that engine behaves: docs/internals/ceph-bench-engines.md.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from leadline import errors
from leadline.archive.records import Created
from leadline.connect.ceph import CephAccess, Connection
from leadline.errors import LeadlineError
from leadline.inventory.layer import Layer, LayerKind
from leadline.plan.footprint import OBJECT_BYTES, OBJECT_NAME, Footprint, client_job, job_of
from leadline.plan.models import Target
from leadline.runner.ports import Journal, RadosObjects
from leadline.targets.ceph import (
    PoolTarget,
    find_pool,
    require_application,
    require_capacity,
    require_overwrites,
)
from leadline.targets.ceph_cluster import OpenCluster
from leadline.targets.naming import new_token, own_name
from leadline.units import format_size

# In the journal: `rados-objects:POOL/PREFIX/CLIENTSxJOBSxOBJECTS`, which names all objects. A
# listing of the pool by prefix would visit all objects of all users.
SCHEME = "rados-objects:"
_PROBE = "{prefix}.probe"
# Between two trials so many objects are looked at.
_SAMPLE = 16
# So many objects are removed at once: their names take memory.
_PART = 20_000
_EXTENT = re.compile(r"[1-9]\d{0,3}x\d{1,4}x\d{1,9}", re.ASCII)
_BOUND_S = 20.0


class RadosObjectsTarget(PoolTarget):
    """New objects in the default namespace of a pool: fio's engine knows no other. The names of
    all begin with the run and its token."""

    def __init__(self, target: Target, cluster: OpenCluster) -> None:
        super().__init__(target, cluster)
        self._prefix = ""
        self._access: CephAccess | None = None
        self._sizes: Mapping[str, int] = {}
        self._written: tuple[str, ...] = ()
        self._allocated: int | None = None

    @property
    def location(self) -> RadosObjects:
        assert self._access is not None, "acquire comes first"
        return RadosObjects(pool=self._pool, prefix=self._prefix, access=self._access)

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        where = [f"target {self.name!r}"]
        super().inspect(footprint, prefill=prefill, claimed_bytes=claimed_bytes)
        pool = find_pool(self.cluster, self._pool, where)
        require_application(pool, "rados", where)
        # fio counts a write that an OSD refuses as a write that is done.
        require_overwrites(pool, where)
        require_capacity(self.cluster, self._pool, footprint.total_bytes, claimed_bytes, where)

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        super().acquire(footprint, run, journal)
        self._access = self.cluster.client({})
        self._sizes = footprint.files
        token = new_token()
        prefix = own_name(run, token)
        self._note(f"{SCHEME}{self._pool}/{prefix}/{_extent(footprint)}", token, journal)
        self._prefix = prefix
        try:
            self._overwrite_probe()
        except LeadlineError as error:
            if error.kind is errors.CEPH_DENIED and self._created is not None:
                # Nothing was made, and this user could remove nothing.
                journal.note_removed(self._created)
                self._created = None
            raise

    def _overwrite_probe(self) -> None:
        """Overwrite a part of an object as fio will, since fio ignores the errors of its I/O.
        Raises LeadlineError."""
        try:
            self.cluster.connection.overwrite(self._pool, _PROBE.format(prefix=self._prefix))
        except OSError as error:
            raise _refused(error, self._pool, self.cluster.access.name) from error

    def settle(self, written_at_s: float) -> None:
        names = tuple(
            OBJECT_NAME.format(prefix=self._prefix, job=job_of(file), number=number)
            for file, size in self._sizes.items()
            for number in range(size // OBJECT_BYTES)
        )
        whole = sum(size == OBJECT_BYTES for size in self._object_sizes(names))
        if whole < len(names):
            raise LeadlineError(
                errors.PREFILL_FAILED,
                f"{whole} of {len(names)} objects in the pool {self._pool!r} have the "
                f"{format_size(OBJECT_BYTES)} that were written",
                hint="fio does not report a write that the cluster refuses",
            )
        self._written, self._allocated = names, whole * OBJECT_BYTES
        super().settle(written_at_s)

    def _object_sizes(self, names: Sequence[str]) -> tuple[int | None, ...]:
        try:
            return self.cluster.connection.object_sizes(self._pool, names)
        except OSError as error:
            raise _refused(error, self._pool, self.cluster.access.name) from error

    def present(self) -> bool:
        super().present()
        self._overwrite_probe()
        sample = self._written[:: max(1, len(self._written) // _SAMPLE)]
        return all(size == OBJECT_BYTES for size in self._object_sizes(sample))

    def layers(self) -> tuple[Layer, ...]:
        return (Layer(kind=LayerKind.POOL, name=self._pool),)

    def allocated_bytes(self) -> int | None:
        return self._allocated

    def _remove(self, created: Created) -> tuple[str, ...]:
        return remove_prefixed(self.cluster.access, created, self._run)


def _extent(footprint: Footprint) -> str:
    """The numbers of clients, jobs and objects of the target that has the most of each."""
    jobs = [int(job_of(file).rpartition(".")[2]) + 1 for file in footprint.files]
    objects = [size // OBJECT_BYTES for size in footprint.files.values()]
    counts = (max(1, footprint.clients), max(jobs, default=0), max(objects, default=0))
    return "x".join(map(str, counts))


def _names(prefix: str, extent: str) -> Iterator[str]:
    clients, jobs, objects = map(int, extent.split("x"))
    yield _PROBE.format(prefix=prefix)
    for client in range(1, clients + 1):
        for job in range(jobs):
            for number in range(objects):
                name = client_job(client, job)
                yield OBJECT_NAME.format(prefix=prefix, job=name, number=number)


def is_own_path(path: str, pool: str, run: str, token: str) -> bool:
    """Return whether a target in a pool makes objects that an entry of the journal names so."""
    begin = f"{SCHEME}{pool}/{own_name(run, token)}/"
    return path.startswith(begin) and _EXTENT.fullmatch(path.removeprefix(begin)) is not None


def _in_parts(names: Iterator[str]) -> Iterator[tuple[str, ...]]:
    while part := tuple(islice(names, _PART)):
        yield part


def remove_prefixed(access: CephAccess, created: Created, run: str) -> tuple[str, ...]:
    """Remove the objects that an entry of the journal names; sentences about what failed."""
    pool, *rest = created.path.removeprefix(SCHEME).split("/")
    if not is_own_path(created.path, pool, run, created.token):
        return (f"{created.path} has no name of this run's and was kept",)
    prefix, extent = rest
    left = 0
    try:
        with Connection(access, timeout_s=_BOUND_S) as connection:
            for names in _in_parts(_names(prefix, extent)):
                connection.remove_objects(pool, names)
            for names in _in_parts(_names(prefix, extent)):
                sizes = connection.object_sizes(pool, names)
                left += sum(size is not None for size in sizes)
    except OSError as error:
        return (f"{created.path} could not be removed: {error.strerror}",)
    except LeadlineError as error:
        return (f"{created.path} could not be removed: {error.fact}",)
    if left:
        # A fio that a killed session left on a host works until its connection ends.
        return (f"{created.path} was written again while it was removed: {left} objects",)
    return ()


def _refused(error: OSError, pool: str, user: str) -> LeadlineError:
    """Why an object of the pool cannot be used."""
    if error.errno in (errno.EPERM, errno.EACCES):
        return LeadlineError(
            errors.CEPH_DENIED,
            f"client.{user} may not read and write objects in the pool {pool!r}",
            context=[str(error.strerror)],
            hint=f"give it the capability osd 'allow rwx pool={pool}', without a namespace",
        )
    if error.errno == errno.EOPNOTSUPP:
        return LeadlineError(
            errors.POOL_UNSUITABLE,
            f"the pool {pool!r} does not allow a write to a part of an object",
            hint=f"`ceph osd pool set {pool} allow_ec_overwrites true` (erasure code on BlueStore)",
        )
    if error.errno == errno.ENOENT:
        return LeadlineError(errors.POOL_MISSING, f"the pool {pool!r} is gone")
    return LeadlineError(
        errors.CEPH_FAILED,
        f"a small object in the pool {pool!r} cannot be used: {error.strerror}",
        hint="look at `ceph health detail`: the I/O of a full pool, of one at its quota and of PGs "
        "that are not active does not complete",
    )
