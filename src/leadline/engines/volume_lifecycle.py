"""The volume lifecycle engine: volumes of a StorageClass made, used, grown, copied and removed.

The trial is one storm of volumes. What each stage means is in formats/volume_lifecycle.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import TrialStatus
from leadline.engines.outcome import INTERRUPTED
from leadline.errors import LeadlineError
from leadline.formats.volume_lifecycle import TOOL, LifecycleRequest, parse_lifecycle_request
from leadline.plan.footprint import Footprint
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Job, Location, Progress, VolumeClaims, problem_from


class VolumeLifecycleEngine:
    name = TOOL
    version = TOOL

    def check(self, workload: Workload, kind: TargetKind) -> None:
        """Everything that it needs is in the cluster, which its target checks."""

    def likely(self, workload: Workload, location: Location) -> Workload:
        return workload

    def resolve(self, workload: Workload, location: Location) -> Workload:
        return workload

    def job_text(self, workload: Workload, location: Location, seed: int) -> str:
        (phase,) = workload.phases
        volumes = workload.clients or _claims(location).count
        return LifecycleRequest(name=phase.name, volumes=volumes, data_bytes=phase.size).text()

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        raise LeadlineError(errors.ENGINE_UNKNOWN, f"{TOOL} writes no prefill")

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        return (TOOL, str(job.location))

    def execute(
        self, job: Job, folder: Path, stop: StopRequest, progress: Callable[[Progress], None]
    ) -> Execution:
        # The Kubernetes client takes long to import.
        from leadline.engines.volume_storm import Storm

        (folder / layout.STDERR).write_bytes(b"")
        began = time.monotonic()
        status, problem = TrialStatus.COMPLETED, None
        try:
            request, claims = parse_lifecycle_request(job.text.encode()), _claims(job.location)
            Storm(request, claims, folder, stop, bound_s=job.bound_s).run()
        except LeadlineError as error:
            status, problem = TrialStatus.FAILED, problem_from(error)
        if stop.requested:
            status, problem = TrialStatus.INTERRUPTED, INTERRUPTED
        return Execution(
            status=status,
            command=self.command(job, folder),
            exit_status=None,
            wall_s=time.monotonic() - began,
            problem=problem,
        )


def _claims(location: Location) -> VolumeClaims:
    if not isinstance(location, VolumeClaims):
        raise LeadlineError(errors.ENGINE_UNKNOWN, f"{TOOL} does not run on {location}")
    return location
