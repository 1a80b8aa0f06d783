"""Waits for the objects of a storm of volumes, and the reasons for one that does not come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from leadline.connect.kubernetes.lifecycle import (
    CLAIM,
    INSTANCE,
    MACHINE,
    POD,
    SNAPSHOT,
    SNAPSHOTS,
    VOLUME,
    LifecycleObjects,
)
from leadline.connect.kubernetes.machines import (
    IMPORTS,
    INSTANCES,
    MACHINES,
    DataVolume,
    data_volume_names,
    find_import_problem,
    find_machine_problem,
)
from leadline.connect.kubernetes.objects import events_of, format_events, get_object
from leadline.engines.volume_journal import Facts, Journal, Key
from leadline.errors import LeadlineError
from leadline.formats.volume_lifecycle import Kind, Role
from leadline.metrics import Op
from leadline.runner.events import StopRequest

# What is watched in the namespace; a machine by its instance.
KINDS = {Kind.CLAIM: CLAIM, Kind.POD: POD, Kind.SNAPSHOT: SNAPSHOT, Kind.MACHINE: INSTANCE}
RESOURCES = {
    Kind.CLAIM: "persistentvolumeclaims",
    Kind.POD: "pods",
    Kind.SNAPSHOT: SNAPSHOTS,
    Kind.MACHINE: INSTANCES,
}
# A change that a watch missed is found by a read.
_LOOK_AGAIN_S = 5.0


class Stuck(Exception):
    """A volume did not get through a stage."""

    def __init__(self, stage: Op, reason: str) -> None:
        super().__init__(reason)
        self.stage, self.reason = stage, reason


class Waits:
    """Waits until objects are so, or gone, by the journal of the watches. `name_of` names what the
    storm creates for a volume."""

    def __init__(
        self,
        objects: LifecycleObjects,
        journal: Journal,
        stop: StopRequest,
        name_of: Callable[[Role, int], str],
    ) -> None:
        self._objects, self._journal, self._stop = objects, journal, stop
        self._name_of = name_of

    def exists(self, kind: Kind, role: Role, number: int) -> bool:
        with self._journal.changed:
            key = (kind, role, number)
            return key in self._journal.facts and key not in self._journal.gone

    def until(
        self,
        stage: Op,
        role: Role,
        number: int,
        kind: Kind,
        test: Callable[[Facts], bool],
        end: float,
    ) -> None:
        """Wait until an object is so. Raises Stuck with what the cluster says of it."""
        key = (kind, role, number)
        if not self._wait(lambda: test(self._journal.facts.get(key, {})), key, end):
            raise Stuck(stage, self._reason(kind, role, number))

    def until_gone(self, stage: Op, role: Role, number: int, kind: Kind, end: float) -> None:
        key = (kind, role, number)
        if not self._wait(lambda: not self.exists(*key), key, end):
            with self._journal.changed:
                held = str(self._journal.facts[key].get("finalizers", ""))
            reason = f"the {kind.value} still exists"
            if held:
                reason += f"; finalizers that hold it: {held}"
            events = self._events(self.object_name(kind, role, number))
            raise Stuck(stage, "; ".join([reason, *events]))

    def object_name(self, kind: Kind, role: Role, number: int) -> str:
        """Return the name of an object; empty for a volume that no claim is bound to yet."""
        with self._journal.changed:
            found = self._journal.objects.get((kind, role, number))
        return found or ("" if kind is Kind.VOLUME else self._name_of(role, number))

    def _wait(self, so: Callable[[], bool], key: Key, end: float) -> bool:
        look = time.monotonic() + _LOOK_AGAIN_S
        while True:
            with self._journal.changed:
                if so():
                    return True
                self._journal.changed.wait(0.2)
            now = time.monotonic()
            if now > end or self._stop.requested:
                return False
            if now > look:
                self._look(key)
                look = now + _LOOK_AGAIN_S

    def _look(self, key: Key) -> None:
        """Read an object: a watch that was interrupted may have missed its end."""
        kind, role, number = key
        resource = VOLUME if kind is Kind.VOLUME else KINDS.get(kind)
        name = self.object_name(kind, role, number)
        if resource is None or not name:
            return
        found = self._read(
            resource, RESOURCES.get(kind, "persistentvolumes"), name, inside=kind in KINDS
        )
        if found is not None:
            self._journal.see(kind, "modified", dict(found))
        elif self.exists(*key):
            with self._journal.changed:
                facts = self._journal.facts[key]
                self._journal.note(kind, (role, number), self._journal.now(), "deleted", facts)

    def _reason(self, kind: Kind, role: Role, number: int) -> str:
        """What the cluster says of an object that is not as it should be, and of its claim."""
        own = self._name_of(role, number)
        with self._journal.changed:
            facts = self._journal.facts.get((kind, role, number), {})
            machine = self._journal.facts.get((Kind.MACHINE, role, number), {})
        lines = [str(each["error"]) for each in (facts, machine) if each.get("error")]
        if self._objects.machine is not None and role is Role.NEW:
            lines += self._machine_problems(own)
        names = dict.fromkeys([own, self.object_name(kind, role, number)])
        lines += [line for name in names if name for line in self._events(name)]
        state = facts.get("phase") or ("not ready" if facts else "not there")
        reasons = list(dict.fromkeys(lines)) or ["no event gives a reason"]
        return "; ".join([f"the {kind.value} is {state}", *reasons])

    def _machine_problems(self, name: str) -> list[str]:
        """What KubeVirt and CDI report of a machine, which may have no instance yet."""
        machine = self._read(MACHINE, MACHINES, name)
        if machine is None:
            return []
        problems = [find_machine_problem(machine)]
        for volume in data_volume_names(machine):
            disk = self._read(DataVolume, IMPORTS, volume)
            problems.append(find_import_problem(disk) if disk is not None else None)
        return [problem.fact for problem in problems if problem is not None]

    def _read(self, kind: Any, resource: str, name: str, *, inside: bool = True) -> Any:
        namespace = self._objects.namespace if inside else ""
        return get_object(self._objects.connection, kind, resource, name, namespace)

    def _events(self, name: str) -> list[str]:
        connection, namespace = self._objects.connection, self._objects.namespace
        try:
            return format_events(events_of(connection, namespace, name), 3)
        except LeadlineError:
            return []
