"""Which engine runs the I/O of a cell."""

from __future__ import annotations

from leadline import errors
from leadline.engines.ceph_bench import RadosBenchEngine, RbdBenchEngine
from leadline.engines.fio.fleet import FleetEngine
from leadline.engines.fio.local import FioEngine
from leadline.engines.fio.remote import RemoteFioEngine
from leadline.engines.program.engine import ProgramEngine
from leadline.engines.volume_lifecycle import VolumeLifecycleEngine
from leadline.engines.zfs_stream import ZfsStreamEngine
from leadline.errors import LeadlineError
from leadline.formats.program.request import Program
from leadline.plan.models import Plan
from leadline.plan.rules import engine_faults
from leadline.plan.target_url import TargetKind, TargetUrl
from leadline.plan.workload import EngineChoice, Workload
from leadline.runner.ports import Engine


class RealEngines:
    """fio for all but Ceph's own tools, streams of ZFS, the lifecycle of volumes and programs with
    their own data."""

    def __init__(self) -> None:
        self._fio = FioEngine()
        self._fleet = FleetEngine()
        self._remote_fio = RemoteFioEngine()
        self._rbd_bench = RbdBenchEngine()
        self._rados_bench = RadosBenchEngine()
        self._zfs_stream = ZfsStreamEngine()
        self._lifecycle = VolumeLifecycleEngine()
        self._pgbench = ProgramEngine(Program.PGBENCH)
        self._sysbench = ProgramEngine(Program.SYSBENCH)

    def engine_for(self, workload: Workload, url: TargetUrl) -> Engine:
        kind = url.kind
        if kind is TargetKind.RADOS and not url.fio_objects:
            return self._rados_bench
        if workload.streams:
            return self._zfs_stream
        if workload.lifecycle:
            return self._lifecycle
        if workload.own_data:
            return self._pgbench if workload.database else self._sysbench
        if kind.on_kubernetes:
            return self._remote_fio
        if kind is TargetKind.HOSTS or workload.clients:
            return self._fleet
        return self._rbd_bench if workload.engine is EngineChoice.RBD_BENCH else self._fio

    def prefill_engine(self, url: TargetUrl) -> Engine:
        if url.kind.on_kubernetes:
            return self._remote_fio
        if url.kind is TargetKind.HOSTS:
            return self._fleet
        by_rados_bench = url.kind is TargetKind.RADOS and not url.fio_objects
        return self._rados_bench if by_rados_bench else self._fio

    def check(self, plan: Plan) -> None:
        """Raise LeadlineError for the first cell that cannot run: `plan-invalid` by the rules of
        the plan (an archive's plan was checked by another version), else what its engine raises."""
        for cell in plan.cells:
            target = plan.target(cell.target).parsed
            for fault in engine_faults(cell.workload, target):
                raise LeadlineError(
                    errors.PLAN_INVALID,
                    fault,
                    context=[f"target {cell.target!r}", f"workload {cell.workload.name!r}"],
                    hint="another version of Leadline accepted this plan; start a new run with one "
                    "that `leadline check` accepts",
                )
            self.engine_for(cell.workload, target).check(cell.workload, target.kind)


class OneEngine:
    """One engine for all workloads, for instance recorded output."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def engine_for(self, workload: Workload, url: TargetUrl) -> Engine:
        return self._engine

    def prefill_engine(self, url: TargetUrl) -> Engine:
        return self._engine

    def check(self, plan: Plan) -> None:
        for cell in plan.cells:
            self._engine.check(cell.workload, plan.target(cell.target).parsed.kind)
