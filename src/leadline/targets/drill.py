"""The events of drills: of a lab, or by a command of the user; their consents and leftovers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from leadline import errors
from leadline.archive.records import Created
from leadline.connect import programs
from leadline.errors import LeadlineError
from leadline.lab.events import begin_event, require_event, undo_event
from leadline.lab.state import lab_folder, labs_folder
from leadline.plan.drill import DrillCommand, DrillEvent
from leadline.plan.drill_rules import drill_consents, drill_system, plan_drill
from leadline.plan.lab import LabDescription
from leadline.plan.models import Plan
from leadline.runner.ports import Event, Journal
from leadline.targets.ceph_cluster import OpenCluster

# In the journal of a run: an event that is in force. The token is the event as JSON.
DRILL = "drill:"
_LAST_LINES = 4


def check_drills(plan: Plan, allowed: Sequence[str]) -> None:
    """Raise LeadlineError: `drill-not-consented` for a system of the plan that is not named, unless
    it is a lab that the run brings up; `usage` for a name that is not in the plan; `lab-invalid`
    for an event that such a lab lacks."""
    needed = drill_consents(plan)
    for name in allowed:
        if name not in needed:
            raise LeadlineError(
                errors.USAGE,
                f"consent was given for a drill on {name!r}, and the plan needs none there",
                context=[f"consents that the plan needs: {', '.join(needed) or 'none'}"],
                hint="name the cluster, or a target outside of clusters, exactly as the plan does",
            )
    drill = plan_drill(plan)
    if drill is None:
        return
    for cluster in plan.clusters:
        if isinstance(cluster.lab, LabDescription) and drill.event.in_lab:
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
    """The event of the drill for each target of the plan; nothing is begun. Raises
    LeadlineError(`lab-invalid`) for one that its lab lacks."""
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
        self._lab = cluster.lab if cluster is not None and event.in_lab else None
        self._osds_in = 0
        self._noted: Created | None = None
        self._disturbed = False
        if self._lab is not None:
            require_event(self._lab.name, self._lab.description, event)

    @property
    def heals(self) -> bool:
        return self._cluster is not None

    def require_whole(self) -> None:
        missing = self.missing()
        if missing:
            raise LeadlineError(
                errors.CLUSTER_UNFIT,
                f"{self._system!r} is not whole before the drill",
                context=missing,
                hint="wait until all OSDs are up and all PGs are active+clean",
            )

    def missing(self) -> tuple[str, ...]:
        if self._cluster is None:
            return ()
        osds_in, missing = self._cluster.find_missing(self._osds_in)
        self._osds_in = max(self._osds_in, osds_in)
        return missing

    def begin(self, journal: Journal) -> None:
        noted = Created(
            target="",
            cluster=self._cluster.name if self._cluster is not None else "",
            path=f"{DRILL}{self._lab.name if self._lab is not None else self._system}",
            token=self._event.model_dump_json(),
        )
        journal.note_created(noted)
        self._noted, self._disturbed = noted, True
        if self._lab is not None:
            begin_event(self._lab.folder, self._event)
        elif self._event.command is not None:
            _run(self._event.command, self._event.command.begin)

    def undo(self, journal: Journal) -> None:
        if self._noted is not None:
            undo(self._noted)
            journal.note_removed(self._noted)
            self._noted = None
        if self._cluster is not None and self._lab is not None:
            self._cluster.reload_lab()  # its OSDs are other processes now

    def leave(self, journal: Journal) -> tuple[str, ...]:
        if not self._disturbed:
            return ()
        try:
            self.undo(journal)
        except LeadlineError as error:
            return (f"the drill on {self._system!r} is not undone: {error.fact}", *error.context)
        try:
            missing = self.missing()
        except LeadlineError as error:
            missing = (error.fact,)
        if not missing:
            return ()
        return (f"{self._system!r} is not as before the drill: {'; '.join(missing)}",)


def undo(created: Created) -> None:
    """Undo an event by its entry in the journal. Raises LeadlineError. A lab that is gone needs
    nothing."""
    try:
        event = DrillEvent.model_validate_json(created.token)
    except ValidationError as error:
        raise LeadlineError(
            errors.ARCHIVE_DAMAGED, "the journal does not describe the event of the drill"
        ) from error
    if event.command is not None:
        _run(event.command, event.command.end)
        return
    try:
        undo_event(lab_folder(created.path.removeprefix(DRILL), labs_folder(None)), event)
    except LeadlineError as error:
        if error.kind is not errors.LAB_NOT_FOUND:
            raise


def undo_leftover(created: Created, allowed: Sequence[str]) -> tuple[str, ...]:
    """Undo the event of a killed run; sentences about what failed. A command of an archive is run
    only where its system is `allowed`: the archive may be another user's."""
    system = created.path.removeprefix(DRILL)
    try:
        event = DrillEvent.model_validate_json(created.token)
    except ValidationError:
        return (f"the journal does not describe the drill on {system!r}",)
    if event.command is not None and system not in allowed:
        consent = f"`--allow-drill {system}` runs {event.command.end!r} in {event.command.folder}"
        return (f"the drill on {system!r} is not undone: {consent}",)
    try:
        undo(created)
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
