"""One storm of the volume lifecycle: all volumes go through each stage at the same time.

Threads ask the API, watches report what changes, and every line goes into the trial's folder with
its time. A volume that does not get through a stage within `ready:` of the plan is recorded with
what the cluster reports of it, and takes no further part. All that the storm made is removed at its
end.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lightkube.resources.batch_v1 import Job

from leadline import errors
from leadline.connect.kubernetes.cleanup import delete_with_claim, delete_with_snapshot
from leadline.connect.kubernetes.lifecycle import (
    ATTACHMENT,
    MACHINE,
    VOLUME,
    LifecycleObjects,
    Watches,
    created_s,
    finalizers,
)
from leadline.connect.kubernetes.machines import MACHINES
from leadline.connect.kubernetes.objects import get_object, list_owned
from leadline.engines.volume_journal import VOLUME_LABEL, Facts, Journal
from leadline.engines.volume_users import guest_first_io, pod_first_io
from leadline.engines.volume_waits import KINDS, RESOURCES, Stuck, Waits
from leadline.errors import LeadlineError
from leadline.formats.volume_lifecycle import (
    EVENTS_FILE,
    RECORD_FILE,
    Asked,
    Failed,
    Kind,
    LifecycleRecord,
    LifecycleRequest,
    Probe,
    Role,
)
from leadline.metrics import Op
from leadline.runner.events import StopRequest
from leadline.runner.ports import VolumeClaims

_STORM = "leadline/storm"
_PROBES = 7
# Requests at the same time; a larger storm begins in waves.
_AT_ONCE = 64
_COPIES = {Role.RESTORED: Op.RESTORE, Role.CLONED: Op.CLONE}
_BEFORE_USE = (Op.PROVISION, Op.MOUNT, Op.VM_START, Op.VM_BOOT, Op.FIRST_IO)


class Storm:
    """A storm of `request.volumes` volumes. `bound_s` limits all of it, `claims.bound_s` a
    stage."""

    def __init__(
        self,
        request: LifecycleRequest,
        claims: VolumeClaims,
        folder: Path,
        stop: StopRequest,
        *,
        bound_s: float,
    ) -> None:
        self._request, self._claims, self._stop = request, claims, stop
        self._objects: LifecycleObjects = claims.objects
        self._connection = self._objects.connection
        self._folder = folder
        self._end = time.monotonic() + bound_s
        self._id = secrets.token_hex(4)
        self._journal = Journal(folder / EVENTS_FILE)
        self._failures: list[Failed] = []
        self._watches = Watches(connection=self._connection)
        self._waits = Waits(self._objects, self._journal, stop, self._name)
        self._machines = self._objects.machine is not None
        self._grown, self._grown_bytes = False, 2 * self._objects.runner.size_bytes

    # --- the stages ------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all stages that the class supports. Raises LeadlineError where no volume could be
        used, or where something could not be removed."""
        record = self._survey()
        (self._folder / RECORD_FILE).write_text(record.text(), encoding="utf-8")
        try:
            self._watch()
            self._stages(record)
        finally:
            try:
                self._tidy()
            finally:
                self._watches.stop()
                self._journal.close()

    def _stages(self, record: LifecycleRecord) -> None:
        volumes = self._use(Role.NEW, range(1, self._request.volumes + 1), None)
        if not volumes and self._failures:
            first = self._failures[0]
            raise LeadlineError(
                errors.VOLUME_PENDING,
                f"none of {self._request.volumes} volumes could be used",
                context=[f"volume {first.volume}, {first.stage.value}: {first.reason}"],
                hint="look at the provisioner of the StorageClass; `ready:` of the cluster in the "
                "plan sets how long to wait",
            )
        if Op.EXPAND not in record.unsupported:
            volumes = self._expand(volumes, record.size_bytes)
        snapshots: Sequence[int] = ()
        if Op.SNAPSHOT not in record.unsupported:
            snapshots = self._snapshot(volumes, record.snapshot_class)
        if Op.RESTORE not in record.unsupported:
            self._copy(
                Role.RESTORED,
                snapshots,
                lambda number: {
                    "apiGroup": "snapshot.storage.k8s.io",
                    "kind": "VolumeSnapshot",
                    "name": self._name(Role.NEW, number),
                },
            )
        if Op.CLONE not in record.unsupported:
            self._copy(
                Role.CLONED,
                volumes,
                lambda number: {
                    "kind": "PersistentVolumeClaim",
                    "name": self._name(Role.NEW, number),
                },
            )
        self._remove(Role.NEW, volumes)

    def _use(
        self,
        role: Role,
        numbers: Sequence[int],
        source: Callable[[int], Mapping[str, str]] | None,
    ) -> list[int]:
        """Create claims and their pods at once; the volumes on which a pod did its first I/O."""
        size_bytes = self._objects.runner.size_bytes
        if source is not None:
            size_bytes = self._grown_bytes if self._grown else size_bytes
        for number in numbers:
            self._journal.names[self._name(role, number)] = (role, number)

        def begin(number: int) -> None:
            name, labels = self._name(role, number), self._labels(role, number)
            origin = source(number) if source else None
            self._create(
                Kind.CLAIM,
                role,
                number,
                lambda: self._objects.create_claim(name, labels, size_bytes, origin),
            )
            content, data_bytes = f"{self._id}-{number}", self._request.data_bytes
            if self._in_guest(role):
                self._create(
                    Kind.MACHINE,
                    role,
                    number,
                    lambda: self._objects.create_machine(name, labels, name, content, data_bytes),
                )
                return
            self._create(
                Kind.POD,
                role,
                number,
                lambda: self._objects.create_pod(
                    name, labels, name, content, None if source else data_bytes
                ),
            )

        stage = _COPIES.get(role, Op.PROVISION)
        self._say(stage, numbers)
        begun = self._each(role, stage, numbers, begin)
        end = self._stage_end()

        def finish(number: int) -> None:
            stage = _COPIES.get(role, Op.PROVISION)
            self._waits.until(
                stage,
                role,
                number,
                Kind.CLAIM,
                lambda facts: facts.get("phase") == "Bound",
                end,
            )
            if self._claims.keeps_volumes:
                # It would outlive its claim.
                volume = self._waits.object_name(Kind.VOLUME, role, number)
                delete_with_claim(self._connection, volume)
            stage = _COPIES.get(role, Op.MOUNT)
            self._waits.until(
                stage, role, number, Kind.POD, lambda facts: facts.get("running") is True, end
            )
            if self._in_guest(role):
                self._waits.until(
                    Op.VM_START,
                    role,
                    number,
                    Kind.MACHINE,
                    lambda facts: facts.get("phase") == "Running",
                    end,
                )
            self._first_io(role, number, end)

        return self._each(role, Op.READY, begun, finish)

    def _in_guest(self, role: Role) -> bool:
        """Whether a guest uses the volume; a pod reads each copy."""
        return self._machines and role is Role.NEW

    def _first_io(self, role: Role, number: int, end: float) -> None:
        """Read the times of the first I/O, and verify what a copy holds."""
        name, stage = self._name(role, number), _COPIES.get(role, Op.FIRST_IO)
        with self._journal.changed:
            uid = str(self._journal.facts[Kind.POD, role, number].get("uid"))
        bound_s, now = max(1.0, end - time.monotonic()), self._journal.now
        if self._in_guest(role):
            line, content = guest_first_io(
                self._objects, name, (role, number), self._stop, now, bound_s
            )
        else:
            try:
                line, content = pod_first_io(self._objects, name, uid, (role, number), now, bound_s)
            except Stuck as stuck:
                raise Stuck(stage, stuck.reason) from stuck
        if content != f"{self._id}-{number}":
            raise Stuck(stage, "the volume does not hold the data of its source")
        self._journal.write(line)

    def _expand(self, numbers: Sequence[int], size_bytes: int) -> list[int]:
        def begin(number: int) -> None:
            name = self._name(Role.NEW, number)
            asked = self._journal.now()
            self._objects.expand(name, self._grown_bytes)
            self._asked("expand", Kind.CLAIM, Role.NEW, number, asked, None)

        def grown(facts: Facts) -> bool:
            capacity = facts.get("capacity_bytes")
            return isinstance(capacity, int) and capacity > size_bytes

        self._say(Op.EXPAND, numbers)
        begun = self._each(Role.NEW, Op.EXPAND, numbers, begin)
        self._grown = bool(begun)
        end = self._stage_end()
        self._each(
            Role.NEW,
            Op.EXPAND,
            begun,
            lambda number: self._waits.until(Op.EXPAND, Role.NEW, number, Kind.CLAIM, grown, end),
        )
        # A volume that does not grow can still be copied and removed.
        return list(numbers)

    def _snapshot(self, numbers: Sequence[int], snapshot_class: str) -> list[int]:
        def begin(number: int) -> None:
            name, labels = self._name(Role.NEW, number), self._labels(Role.NEW, number)
            self._create(
                Kind.SNAPSHOT,
                Role.NEW,
                number,
                lambda: self._objects.create_snapshot(name, labels, name, snapshot_class),
            )

        def finish(number: int) -> None:
            self._waits.until(
                Op.SNAPSHOT,
                Role.NEW,
                number,
                Kind.SNAPSHOT,
                lambda facts: facts.get("ready") is True,
                end,
            )

        self._say(Op.SNAPSHOT, numbers)
        begun = self._each(Role.NEW, Op.SNAPSHOT, numbers, begin)
        end = self._stage_end()
        return self._each(Role.NEW, Op.SNAPSHOT, begun, finish)

    def _copy(
        self, role: Role, numbers: Sequence[int], source: Callable[[int], Mapping[str, str]]
    ) -> None:
        """Make a copy of each volume, verify it, and remove it."""
        if numbers:
            self._remove(role, self._use(role, numbers, source))

    def _remove(self, role: Role, numbers: Sequence[int]) -> None:
        """Delete pods and snapshots, then the claims; wait until their volumes are gone."""

        def free(number: int) -> None:
            for kind in (used_by, Kind.SNAPSHOT):
                if self._waits.exists(kind, role, number):
                    self._delete(kind, role, number)

        def unused(number: int) -> None:
            for kind in (Kind.MACHINE, Kind.POD, Kind.SNAPSHOT):
                self._waits.until_gone(Op.DELETE, role, number, kind, end)

        def gone(number: int) -> None:
            self._waits.until_gone(Op.DELETE, role, number, Kind.CLAIM, end)
            self._waits.until_gone(Op.RECLAIM, role, number, Kind.VOLUME, end)

        used_by = Kind.MACHINE if self._in_guest(role) else Kind.POD
        self._release_snapshots()
        if role is Role.NEW:
            self._say(Op.DELETE, numbers)
        freed = self._each(role, Op.DELETE, numbers, free)
        end = self._stage_end()
        freed = self._each(role, Op.DELETE, freed, unused)
        deleted = self._each(
            role, Op.DELETE, freed, lambda number: self._delete(Kind.CLAIM, role, number)
        )
        end = self._stage_end()
        self._each(role, Op.DELETE, deleted, gone)

    # --- requests --------------------------------------------------------------------------------

    def _create(self, kind: Kind, role: Role, number: int, call: Callable[[], Any]) -> None:
        asked = self._journal.now()
        found = call()
        time_of = getattr(getattr(found, "metadata", None), "creationTimestamp", None)
        created = created_s({"metadata": {"creationTimestamp": time_of}}) if time_of else None
        self._asked("create", kind, role, number, asked, created)

    def _delete(self, kind: Kind, role: Role, number: int) -> None:
        asked, name = self._journal.now(), self._name(role, number)
        if kind is Kind.MACHINE:
            self._objects.delete_machine(name)
        else:
            self._objects.delete(KINDS[kind], RESOURCES[kind], name)
        self._asked("delete", kind, role, number, asked, None)

    def _asked(
        self, verb: Any, kind: Kind, role: Role, number: int, asked: float, created: float | None
    ) -> None:
        self._journal.write(
            Asked(
                line="asked",
                at_s=asked,
                role=role,
                volume=number,
                verb=verb,
                kind=kind,
                answered_s=self._journal.now(),
                created_s=created,
            )
        )

    def _each(
        self, role: Role, stage: Op, numbers: Sequence[int], do: Callable[[int], None]
    ) -> list[int]:
        """Do something for all volumes at once; those for which it went well. A volume that fails
        is recorded."""
        if not numbers:
            return []

        def guarded(number: int) -> bool:
            try:
                do(number)
            except Stuck as stuck:
                self._fail(role, number, stuck.stage, stuck.reason)
                return False
            except LeadlineError as error:
                reason = "; ".join([error.fact, *error.context])
                self._fail(role, number, _COPIES.get(role, stage), reason)
                return False
            return True

        with ThreadPoolExecutor(min(_AT_ONCE, len(numbers))) as pool:
            went_well = list(pool.map(guarded, numbers))
        if self._stop.requested:
            raise LeadlineError(errors.INTERRUPTED, "stopped in a storm of volumes")
        return [number for number, well in zip(numbers, went_well, strict=True) if well]

    def _fail(self, role: Role, number: int, stage: Op, reason: str) -> None:
        if self._stop.requested:
            return
        stages = [stage]
        if role is Role.NEW and stage in _BEFORE_USE:
            stages.append(Op.READY)
        for each in stages:
            line = Failed(
                line="failed",
                at_s=self._journal.now(),
                role=role,
                volume=number,
                stage=each,
                reason=reason,
            )
            self._failures.append(line)
            self._journal.write(line)

    # --- waiting ---------------------------------------------------------------------------------

    def _stage_end(self) -> float:
        return min(self._end, time.monotonic() + self._claims.bound_s)

    # --- before and after ------------------------------------------------------------------------

    def _survey(self) -> LifecycleRecord:
        claims, runner = self._claims, self._objects.runner
        return LifecycleRecord(
            request=self._request,
            runner="vm" if self._machines else "pod",
            storage_class=runner.storage_class,
            provisioner=claims.provisioner,
            immediate=claims.immediate,
            mode=runner.mode.value,
            size_bytes=runner.size_bytes,
            snapshot_class=claims.snapshot_class,
            began_at=time.time() - self._journal.now(),
            unsupported=dict(claims.unsupported),
        )

    def _watch(self) -> None:
        owner = str(self._objects.owner["name"])
        for _ in range(_PROBES):
            asked = self._journal.now()
            get_object(self._connection, Job, "jobs.batch", owner, self._objects.namespace)
            self._journal.write(Probe(line="probe", at_s=asked, answered_s=self._journal.now()))
        labels = {_STORM: self._id}
        for kind, resource in KINDS.items():
            if kind is Kind.MACHINE and not self._machines:
                continue
            self._watches.start(
                resource, self._report(kind), namespace=self._objects.namespace, labels=labels
            )
        self._watches.start(VOLUME, self._report(Kind.VOLUME))
        self._watches.start(ATTACHMENT, self._report(Kind.ATTACHMENT))

    def _report(self, kind: Kind) -> Callable[[str, dict[str, Any]], None]:
        return lambda change, found: self._journal.see(kind, change, found)

    def _release_snapshots(self) -> None:
        """Set snapshots that would outlive their object to be deleted with it."""
        for found in self._left(Kind.SNAPSHOT):
            content = (found.get("status") or {}).get("boundVolumeSnapshotContentName")
            if content:
                delete_with_snapshot(self._connection, str(content))

    def _left(self, kind: Kind) -> list[dict[str, Any]]:
        namespace, labels = self._objects.namespace, {_STORM: self._id}
        resource, plural = KINDS[kind], RESOURCES[kind]
        if kind is Kind.MACHINE:
            resource, plural = MACHINE, MACHINES
        return list_owned(self._connection, resource, plural, namespace, labels)

    def _tidy(self) -> None:
        """Remove what is left of the storm. Raises LeadlineError where it stays."""
        end = self._stage_end()
        self._release_snapshots()
        kinds = [Kind.POD, Kind.SNAPSHOT, Kind.CLAIM]
        if self._machines:
            kinds.insert(0, Kind.MACHINE)
        while True:
            left = [(kind, found) for kind in kinds for found in self._left(kind)]
            if not left:
                return
            launched = set(self._journal.objects.values())
            if time.monotonic() > end or self._stop.requested:
                break
            for kind, found in left:
                name = str(found["metadata"]["name"])
                if found["metadata"].get("deletionTimestamp"):
                    continue
                if kind is Kind.MACHINE:
                    self._objects.delete_machine(name)
                # The pod of a machine goes with it.
                elif not (kind is Kind.POD and name in launched):
                    self._objects.delete(KINDS[kind], RESOURCES[kind], name)
            time.sleep(0.5)
        if self._stop.requested:
            return  # the release of the target removes them
        raise LeadlineError(
            errors.KUBERNETES_FAILED,
            f"{len(left)} objects of the trial still exist after {self._claims.bound_s:g} s",
            context=[
                f"{kind.value} {found['metadata']['name']}: finalizers "
                f"{', '.join(finalizers(found)) or 'none'}"
                for kind, found in left[:4]
            ],
            hint="the controller of a finalizer removes it; look at the class's driver",
        )

    # --- names -----------------------------------------------------------------------------------

    def _name(self, role: Role, number: int) -> str:
        return f"{self._claims.stem}-{self._id}-{role.value}-{number}"

    def _labels(self, role: Role, number: int) -> dict[str, str]:
        return {_STORM: self._id, VOLUME_LABEL: f"{role.value}-{number}"}

    def _say(self, stage: Op, numbers: Sequence[int]) -> None:
        volumes = "1 volume" if len(numbers) == 1 else f"{len(numbers)} volumes"
        self._claims.note(f"{self._objects.runner.storage_class}: {stage.value}, {volumes}")
