"""The targets of a run, each resolved once: footprint, location, layers and I/O engines.

The command line opens an adapter for each target of the plan. `prepare_targets` adds the footprint
that the plan gives it, `inspect_targets` raises every refusal before anything is touched, and
`PreparedTarget.acquire` adds the location and its layers. Prefill and trials get this object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from leadline.archive.reader import Run
from leadline.archive.records import Look
from leadline.archive.writer import RunWriter
from leadline.errors import LeadlineError
from leadline.inventory.layer import Layer
from leadline.plan.footprint import Footprint, target_footprint
from leadline.plan.groups import planned_groups
from leadline.plan.models import Cell, LeftOut, Plan, Trial
from leadline.plan.workload import JobFile, Workload
from leadline.runner.events import Observer, StopRequest
from leadline.runner.guard import RunGuard
from leadline.runner.ports import (
    Engine,
    Engines,
    Event,
    Journal,
    Location,
    System,
    TargetAdapter,
)
from leadline.settings.states import States


class PreparedTarget:
    """A target of the plan with its adapter and all that prefill and trials need to know of it.

    `number` counts the plan's targets from 1. `layers` are known after `acquire`, `written_bytes`
    (of each volume) after the prefill.
    """

    def __init__(self, plan: Plan, number: int, adapter: TargetAdapter, engines: Engines) -> None:
        self.name = adapter.name
        self.number = number
        self.adapter = adapter
        self.cluster = plan.target(self.name).cluster
        self.footprint: Footprint = target_footprint(plan, self.name)
        self.prefill = plan.prefill
        self.direct = all(workload.direct for workload in plan.workloads_on(self.name))
        self.job_files: dict[int, JobFile] = {
            index: cell.workload.job_file
            for index, cell in enumerate(plan.cells_of(self.name))
            if cell.workload.job_file is not None
        }
        self.layers: tuple[Layer, ...] = ()
        self.written_bytes = 0
        self._may_be_written = False
        self._url = plan.target(self.name).parsed
        self._engines = engines
        self._settled: dict[tuple[str, bool, bool], Workload] = {}

    @property
    def location(self) -> Location:
        """Where engines do I/O; another one after each `renew` of a fresh target."""
        return self.adapter.location

    @property
    def prefill_engine(self) -> Engine:
        return self._engines.prefill_engine(self._url)

    def engine_for(self, workload: Workload) -> Engine:
        return self._engines.engine_for(workload, self._url)

    def inspect(self, claimed_bytes: int = 0) -> None:
        """Raise LeadlineError for what forbids using the target."""
        self.adapter.inspect(self.footprint, prefill=self.prefill, claimed_bytes=claimed_bytes)

    def acquire(self, run: str, journal: Journal) -> None:
        self._may_be_written = False
        self.adapter.acquire(self.footprint, run, journal)
        self.layers = self.adapter.layers()

    def look_before_writing(self) -> None:
        """Look at the target once more, unless this session has written to it since it was
        acquired: then there is its own data. Raises LeadlineError."""
        if not self._may_be_written:
            self.adapter.look_again()
            self._may_be_written = True

    def settle_engine(self, cell: Cell) -> Cell:
        """The cell with its I/O engine settled; each engine and mode is tried once."""
        workload = cell.workload
        key = (workload.engine.value, workload.direct, workload.fits_rings)
        if key not in self._settled:
            self._settled[key] = self.engine_for(workload).resolve(workload, self.location)
        settled = workload.model_copy(update={"engine": self._settled[key].engine})
        return cell.model_copy(update={"workload": settled})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The trials `to_do` of a plan, the targets that they need, and where their records go.
    `take_look` tests the comparisons of a plan that ends when they are decided, `states` brings
    running systems into the states of a plan with settings, `events` are those of a drill by
    target."""

    plan: Plan
    to_do: Sequence[Trial]
    targets: Sequence[PreparedTarget]
    engines: Engines
    systems: Sequence[System] = ()
    writer: RunWriter
    stop: StopRequest
    observe: Observer
    guard: RunGuard | None = None
    take_look: Callable[[Run], Look] | None = None
    states: States | None = None
    events: Mapping[str, Event] = field(default_factory=dict)

    def admit(self, takes_s: float) -> bool:
        """Wait until the guard lets work of `takes_s` seconds begin; False where the run stops."""
        if self.guard is not None:
            return self.guard.admit(takes_s)
        return not self.stop.requested

    def target(self, name: str) -> PreparedTarget:
        """The target whose data the trials of a target of the plan use."""
        base = self.plan.base_of(name)
        return next(target for target in self.targets if target.name == base)


def prepare_targets(
    plan: Plan,
    adapters: Sequence[TargetAdapter],
    engines: Engines,
    only: Collection[str] | None = None,
) -> tuple[PreparedTarget, ...]:
    """The targets of the plan, or those named in `only`; nothing is touched or asked."""
    numbers = {target.name: number for number, target in enumerate(plan.targets, start=1)}
    return tuple(
        PreparedTarget(plan, numbers[adapter.name], adapter, engines)
        for adapter in adapters
        if only is None or adapter.name in only
    )


def find_unusable(plan: Plan, targets: Sequence[PreparedTarget]) -> tuple[LeftOut, ...]:
    """The optional targets that cannot be used here, with the reason."""
    found = []
    for target in targets:
        if target.name not in plan.optional:
            continue
        try:
            target.inspect()
        except LeadlineError as error:
            left_out = LeftOut(target=target.name, cluster=target.cluster, reason=error.fact)
            found.append(left_out)
    return tuple(found)


def inspect_targets(plan: Plan, targets: Sequence[PreparedTarget]) -> None:
    """Raise the first refusal; targets on one volume that are held together are added up."""
    named = {target.name: target for target in targets}
    for planned in planned_groups(plan):
        claimed: dict[object, int] = {}
        for target in filter(None, map(named.get, planned.group.targets)):
            volume = target.adapter.volume()
            target.inspect(claimed.get(volume, 0) if volume else 0)
            claimed[volume] = claimed.get(volume, 0) + target.footprint.capacity_bytes
