"""What results of one run tell of each other, worked out once for all rules."""

from __future__ import annotations

from dataclasses import replace

from leadline.audit.evidence import CellEvidence, JobEvidence, RunEvidence, TrialEvidence
from leadline.audit.latency import mean_s
from leadline.audit.mixes import share_apart
from leadline.audit.physics import fastest_read
from leadline.metrics import Op


def with_neighbours(run: RunEvidence) -> RunEvidence:
    """The run, with what its other results show put to every trial."""
    held: dict[str, int] = {}
    shares: dict[str, list[bool]] = {}
    for cell in run.cells:
        for trial in cell.trials:
            for job in trial.jobs:
                size = _held(job)
                if size is not None:
                    held[trial.place.target] = max(size, held.get(trial.place.target, 0))
            apart = share_apart(trial)
            if apart is not None:
                shares.setdefault(cell.place.workload, []).append(apart)
    apart_workloads = {name for name, found in shares.items() if 2 * sum(found) >= len(found)}
    apart_workloads &= {name for name, found in shares.items() if sum(found) >= 2}
    if not held and not apart_workloads:
        return run
    return replace(
        run,
        cells=tuple(
            _cell(cell, held, cell.place.workload in apart_workloads) for cell in run.cells
        ),
    )


def _cell(cell: CellEvidence, held: dict[str, int], apart: bool) -> CellEvidence:
    trials = tuple(_trial(trial, held, apart) for trial in cell.trials)
    return replace(cell, trials=trials)


def _trial(trial: TrialEvidence, held: dict[str, int], apart: bool) -> TrialEvidence:
    size = held.get(trial.place.target)
    if size is None and not apart:
        return trial
    return replace(trial, held_bytes=size, phases_apart=apart)


def _held(evidence: JobEvidence) -> int | None:
    """Size of a file whose random reads took, on average, less than storage can: nearly all of
    them came from memory, so that all of it was there."""
    options = evidence.job.options
    size = options.size("size")
    if size is None or evidence.pattern != "randread" or evidence.merged_sections:
        return None
    read = next((one for one in evidence.job.operations if one.op is Op.READ), None)
    mean = mean_s(read, options) if read else None
    limit = fastest_read(evidence)
    if not mean or limit is None or mean * (1 + evidence.rounding(mean)) >= limit.seconds:
        return None
    return size
