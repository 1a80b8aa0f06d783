"""The events of drills: of a lab, or by a command of the user; their consents and leftovers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from leadline import errors
from leadline.archive.records import Created
from leadline.connect import programs
from leadline.connect.ceph import CephAccess, Connection
from leadline.errors import LeadlineError
from leadline.inventory.ceph.model import unfit_without
from leadline.lab.events import begin_event, require_event, undo_event
from leadline.lab.state import lab_folder, labs_folder
from leadline.plan.drill import DrillCommand, DrillEvent
from leadline.plan.drill_rules import drill_consents, drill_system, plan_drill
from leadline.plan.lab import LabDescription
from leadline.plan.models import Plan, Target
from leadline.runner.drill import wait_until_whole
from leadline.runner.events import StopRequest
from leadline.runner.ports import Event, Journal
from leadline.targets.base import refuse_other_consents
from leadline.targets.ceph_cluster import OpenCluster, is_lab_name
from leadline.targets.host_drain import DrainedHost, bring_in, find_host, is_empty, take_out
from leadline.units import format_duration

# In the journal of a run: an event that is in force. The token is an EventRecord as JSON.
DRILL = "drill:"
_LAST_LINES = 4
_WHOLE_WITHIN_S = 300.0
_LOOK_S = 1.0


class EventRecord(BaseModel):
    """An event in the journal, with all that undoes it: `drained` is the host that comes in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    event: DrillEvent
    drained: DrainedHost | None = None


def check_drills(plan: Plan, allowed: Sequence[str]) -> None:
    """Raise LeadlineError: `drill-not-consented` for a system of the plan that is not named, unless
    it is a lab that the run brings up; `usage` for a name that is not in the plan; `lab-invalid`
    for an event that such a lab lacks."""
    needed = drill_consents(plan)
    refuse_other_consents(allowed, needed, "clusters and targets with a drill")
    drill = plan_drill(plan)
    if drill is None:
        return
    for cluster in plan.clusters:
        if isinstance(cluster.lab, LabDescription) and drill.event.command is None:
            require_event(cluster.name, cluster.lab, drill.event)
    for name in needed:
        if name not in allowed:
            raise LeadlineError(
                errors.DRILL_NOT_CONSENTED,
                f"the plan's drill would disturb {name!r}, and everyone who uses it",
                context=[str(drill.event)],
                hint=f"`--allow-drill {name}` consents",
            )


def open_events(plan: Plan, clusters: Mapping[str, OpenCluster]) -> Mapping[str, Event]:
    """The event of the drill for each target of the plan; nothing is begun. Raises LeadlineError:
    `lab-invalid` for one that its lab lacks, `cluster-unfit` for a host that is not there, or whose
    data the others cannot hold."""
    drill = plan_drill(plan)
    if drill is None:
        return {}
    systems = {drill_system(target): clusters.get(target.cluster) for target in plan.targets}
    events = {name: SystemEvent(name, drill.event, of) for name, of in systems.items()}
    return {target.name: events[drill_system(target)] for target in plan.targets}


class SystemEvent:
    """The event of a drill on a system: a lab, or one that the user's own commands disturb.
    `cluster` is a Ceph cluster, which reports its health."""

    def __init__(self, system: str, event: DrillEvent, cluster: OpenCluster | None) -> None:
        self._system = system
        self._event = event
        self._cluster = cluster
        self._lab = cluster.lab if cluster is not None and event.command is None else None
        self._drained: DrainedHost | None = None
        self._osds_in = 0
        self._noted: Created | None = None
        self._disturbed = False
        if self._lab is not None:
            require_event(self._lab.name, self._lab.description, event)
        self._require_room()

    @property
    def heals_within_s(self) -> float:
        if self._cluster is None:
            return 0.0
        added = self._event.add_host
        return max(_WHOLE_WITHIN_S, added.within if added is not None else 0.0)

    def prepare(self, journal: Journal, go_on: Callable[[str], None]) -> None:
        if self._noted is None:  # else an earlier trial ended before its event
            self._require_whole()
            self._require_room()
            if self._event.add_host is not None and self._cluster is not None:
                self._drained = find_host(self._cluster.drilling, self._event.add_host.host)
                self._note(journal)
        if self._drained is not None and self._cluster is not None:
            take_out(self._cluster.drilling, self._drained)
            self._wait_until_empty(self._drained, go_on)

    def _require_whole(self) -> None:
        missing = self.missing()
        if missing:
            raise LeadlineError(
                errors.CLUSTER_UNFIT,
                f"{self._system!r} is not whole before the drill",
                context=missing,
                hint="wait until all OSDs are up and all PGs are active+clean",
            )

    def _require_room(self) -> None:
        """Raise LeadlineError(`cluster-unfit`) where the host that comes in is not there, or the
        others cannot hold its data until then."""
        if self._event.add_host is None or self._cluster is None:
            return
        reason = unfit_without(self._cluster.inventory(), self._event.add_host.host)
        if reason is not None:
            raise reason.error()

    def _wait_until_empty(self, drained: DrainedHost, go_on: Callable[[str], None]) -> None:
        """Wait until the host has no data and all PGs are active+clean. Raises LeadlineError."""
        assert self._cluster is not None
        assert self._event.add_host is not None
        within_s = self._event.add_host.within
        end = time.monotonic() + within_s
        go_on(f"waits until the host {drained.host} holds no data, before it is added")
        while True:
            _, missing = self._cluster.find_missing()
            if not missing and is_empty(self._cluster.drilling, drained):
                return
            if time.monotonic() > end:
                raise LeadlineError(
                    errors.CLUSTER_UNFIT,
                    f"the host {drained.host!r} is not drained after {format_duration(within_s)}",
                    context=missing or ["its OSDs still have PGs"],
                    hint=f"`add_host: {{host: {drained.host}, within: 1h}}` gives it more time",
                )
            go_on("")
            time.sleep(_LOOK_S)

    def _note(self, journal: Journal) -> None:
        """Record the event before the system changes."""
        record = EventRecord(event=self._event, drained=self._drained)
        noted = Created(
            target="",
            cluster=self._cluster.name if self._cluster is not None else "",
            path=f"{DRILL}{self._lab.name if self._lab is not None else self._system}",
            token=record.model_dump_json(),
        )
        journal.note_created(noted)
        self._noted, self._disturbed = noted, True

    def missing(self) -> tuple[str, ...]:
        if self._cluster is None:
            return ()
        osds_in, missing = self._cluster.find_missing(self._osds_in)
        self._osds_in = max(self._osds_in, osds_in)
        return missing

    def begin(self, journal: Journal) -> None:
        if self._event.add_host is not None:
            assert self._cluster is not None
            if self._drained is None:
                raise LeadlineError(
                    errors.DRILL_FAILED, "the host was not drained before it came in"
                )
            bring_in(self._cluster.drilling, self._drained)
            return
        self._note(journal)
        if self._lab is not None:
            begin_event(self._lab.folder, self._event)
        elif self._event.command is not None:
            _run(self._event.command, self._event.command.begin)

    def undo(self, journal: Journal) -> None:
        if self._noted is not None:
            if self._drained is not None and self._cluster is not None:
                bring_in(self._cluster.drilling, self._drained)
            else:
                undo(EventRecord(event=self._event), self._noted.path)
            journal.note_removed(self._noted)
            self._noted = self._drained = None
        if self._cluster is not None and self._lab is not None:
            self._cluster.reload_lab()  # its OSDs are other processes now

    def leave(self, journal: Journal, stop: StopRequest) -> tuple[str, ...]:
        if not self._disturbed:
            return ()
        in_force = self._noted is not None
        try:
            self.undo(journal)
            if in_force and self.heals_within_s:
                wait_until_whole(self, stop)
        except LeadlineError as error:
            return (f"the drill on {self._system!r} is not undone: {error.fact}", *error.context)
        try:
            missing = self.missing()
        except LeadlineError as error:
            missing = (error.fact,)
        if not missing:
            return ()
        return (f"{self._system!r} is not as before the drill: {'; '.join(missing)}",)


def undo(record: EventRecord, path: str, access: CephAccess | None = None) -> None:
    """Undo an event by its record and its path in the journal; `access` to its Ceph cluster. Raises
    LeadlineError. A lab that is gone needs nothing."""
    event = record.event
    if event.command is not None:
        _run(event.command, event.command.end)
    elif record.drained is not None:
        if access is not None:
            with Connection(access) as connection:
                bring_in(connection, record.drained)
    else:
        try:
            undo_event(lab_folder(path.removeprefix(DRILL), labs_folder(None)), event)
        except LeadlineError as error:
            if error.kind is not errors.LAB_NOT_FOUND:
                raise


def is_own_event(plan: Plan, run: str, created: Created) -> bool:
    """Return whether an entry is an event of the plan's drill on one of its systems."""
    drill = plan_drill(plan)
    try:
        record = EventRecord.model_validate_json(created.token)
    except ValidationError:
        return False
    if drill is None or created.target:
        return False
    event, drained = record.event, record.drained
    if drained is not None:
        added = drill.event.add_host
        if added is None or drained.host != added.host:
            return False
    # A command is run only with consent, and may be redacted in an archive's plan.
    by_command = event.command is not None and drill.event.command is not None
    return (by_command or event == drill.event) and any(
        _is_system(plan, target, event, created) for target in plan.targets
    )


def _is_system(plan: Plan, target: Target, event: DrillEvent, created: Created) -> bool:
    """Return whether an entry names the system of a target, as `SystemEvent` does."""
    named = (cluster for cluster in plan.clusters if cluster.name == target.cluster)
    ceph = next((cluster for cluster in named if cluster.kubernetes is None), None)
    if created.cluster != (ceph.name if ceph is not None else ""):
        return False
    system = created.path.removeprefix(DRILL)
    if ceph is None or ceph.lab is None or event.command is not None:
        return system == drill_system(target)
    if isinstance(ceph.lab, LabDescription):
        return is_lab_name(ceph.name, system)
    return system == ceph.lab


def undo_leftover(
    created: Created,
    plan: Plan,
    access_to: Callable[[str], CephAccess | None],
    allowed: Sequence[str],
) -> tuple[str, ...]:
    """Undo the event of a killed run; sentences about what failed. What an archive says is done to
    a system other than a lab only where that is `allowed`: the archive may be another user's.

    Args:
        access_to: returns the access to a Ceph cluster of the plan; None for a lab that is gone.
    """
    system = created.path.removeprefix(DRILL)
    try:
        record = EventRecord.model_validate_json(created.token)
    except ValidationError:
        return (f"the journal does not describe the drill on {system!r}",)
    command, drained = record.event.command, record.drained
    in_lab = bool(created.cluster) and plan.cluster(created.cluster).lab is not None
    if system not in allowed and (command is not None or (drained is not None and not in_lab)):
        does = (
            f"runs {command.end!r} in {command.folder}"
            if command is not None
            else "brings the OSDs of the drained host in"
        )
        return (f"the drill on {system!r} is not undone: `--allow-drill {system}` {does}",)
    try:
        undo(record, created.path, access_to(created.cluster) if drained is not None else None)
    except LeadlineError as error:
        return (f"the drill on {system!r} is not undone: {error.fact}", *error.context)
    return ()


def _run(command: DrillCommand, line: str) -> None:
    """Run a line of the plan in its folder. Raises LeadlineError(`drill-failed`)."""
    status, out, err = programs.run(
        "sh", "-c", line, bound_s=command.within, cwd=str(Path(command.folder or "."))
    )
    if status == 0:
        return
    how = (
        f"ended with status {status}"
        if status is not None
        else f"took more than {command.within:g} s"
    )
    lines = [text for text in (err or out).splitlines() if text.strip()]
    raise LeadlineError(
        errors.DRILL_FAILED,
        f"a command of the drill {how}",
        context=[line, *lines[-_LAST_LINES:]],
        hint="run it by hand; `within` of the plan bounds it",
    )
