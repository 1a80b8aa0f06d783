"""How much data a plan lays out on a target and writes to it, before anything is touched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leadline.plan.models import Cell

# Job k of every generated workload works on this file, so that all share what was prefilled.
DATA_FILE = "leadline.{job}.dat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Data that the generated workloads of one target need.

    `files` holds the size in bytes of each job's file: job k of any workload uses file k, so
    workloads share what was prefilled once. `span` is the same for a device, where job k starts at
    k x size. `job_file_bytes` is what the largest job file of the user lays out by itself.
    """

    files: tuple[int, ...]
    span: int
    job_file_bytes: int
    writes: bool

    @property
    def total_bytes(self) -> int:
        return sum(self.files) + self.job_file_bytes


def footprint_of(cells: Iterable[Cell]) -> Footprint:
    files: list[int] = []
    span = 0
    job_file_bytes = 0
    writes = False
    for cell in cells:
        writes = writes or cell.workload.writes
        if cell.workload.job_file:
            job_file_bytes = max(job_file_bytes, cell.workload.job_file.footprint_bytes)
        for phase in cell.workload.phases:
            files += [0] * (phase.numjobs - len(files))
            for job in range(phase.numjobs):
                files[job] = max(files[job], phase.size)
            span = max(span, phase.numjobs * phase.size)
    return Footprint(
        files=tuple(files),
        span=max(span, job_file_bytes),
        job_file_bytes=job_file_bytes,
        writes=writes,
    )
