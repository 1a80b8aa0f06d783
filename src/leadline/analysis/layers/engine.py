"""The top of every stack: what the engine did, by its own figures."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.analysis.layers.model import (
    DIRECTIONS,
    Basis,
    Figure,
    Flow,
    LayerFlow,
    Seconds,
    by_little,
)
from leadline.analysis.layers.sizes import Sizes
from leadline.analysis.layers.windows import Window, late_s
from leadline.archive.reader import StoredTrial
from leadline.formats.output import EngineOutput, Operation, summed
from leadline.metrics import Op
from leadline.plan.models import Workload


def engine_flow(
    trial: StoredTrial, windows: Mapping[Op, Window], watched_s: float | None
) -> LayerFlow:
    """The engine's layer of a trial; without directions where its output cannot be read.
    `watched_s`: how long the machine was watched, None where it was not."""
    name = trial.record.engine
    output = trial.output
    if not isinstance(output, EngineOutput):
        return LayerFlow(kind=None, name=name, unobserved=output.fact)
    workload = trial.cell.workload if trial.cell else None
    done = _by_op(output)
    flows = {op: _flow(op, one, name, workload) for op, one in done.items()}
    known = [one.in_flight.value for one in flows.values() if one.in_flight.value is not None]
    together = workload is None or len(workload.phases) < 2
    whole = sum(known) if known and together and len(known) == len(flows) else None
    return LayerFlow(
        kind=None,
        name=name,
        basis=_basis(workload, windows),
        flows=flows,
        in_flight=Figure.of(
            whole, "rate x latency", "the engine measures no latency, or its phases differ"
        ),
        seconds=_seconds(workload, windows, watched_s) if workload else None,
    )


def _basis(workload: Workload | None, windows: Mapping[Op, Window]) -> Basis:
    """Of streams that are told apart it is their own seconds, with a ramp or without."""
    bases = {one.basis for one in windows.values()}
    behind_ramp = workload is not None and workload.ramp_s > 0
    return Basis.WINDOW if behind_ramp or Basis.WINDOW in bases else Basis.TOTALS


def _seconds(
    workload: Workload, windows: Mapping[Op, Window], watched_s: float | None
) -> Seconds | None:
    """Of one phase: those of several lie behind each other."""
    spans = {one.engine_spans for one in windows.values() if one.engine_spans}
    if len(spans) != 1:
        return None
    return Seconds(
        spans=spans.pop(),
        late_s=late_s(workload, watched_s or 0.0),
        divided_by_s=workload.runtime_s,
    )


def engine_seconds(trial: StoredTrial) -> Mapping[Op, float]:
    """By direction the seconds in which the engine did it: its bytes over its bandwidth."""
    output = trial.output
    if not isinstance(output, EngineOutput):
        return {}
    return {
        op: one.io_bytes / one.bandwidth_bps if one.io_bytes and one.bandwidth_bps else runtime_s
        for op, one in _by_op(output).items()
        if (runtime_s := one.runtime_s or 0.0) or (one.io_bytes and one.bandwidth_bps)
    }


def _by_op(output: EngineOutput) -> dict[Op, Operation]:
    """All jobs of one direction as one. Phases that do the same direction one after the other are
    their mean, weighted by their seconds."""
    parts: dict[Op, dict[str, list[Operation]]] = {op: {} for op in DIRECTIONS}
    for job in output.jobs:
        for one in job.operations:
            if one.op in parts and (one.iops or one.bandwidth_bps):
                parts[one.op].setdefault(job.name, []).append(one)
    found = {}
    for op, jobs in parts.items():
        merged = [summed(op, together) for together in jobs.values()]
        if len(merged) == 1:
            found[op] = merged[0]
        elif merged:
            found[op] = _one_after_the_other(op, merged)
    return found


def _one_after_the_other(op: Op, phases: list[Operation]) -> Operation:
    seconds = sum(one.runtime_s or 0.0 for one in phases)
    ios = sum(one.total_ios or 0 for one in phases)
    moved = sum(one.io_bytes or 0 for one in phases)
    pooled = summed(op, phases)
    if not seconds or not moved:
        return Operation(op=op)
    return Operation(
        op=op,
        iops=ios / seconds,
        bandwidth_bps=moved / seconds,
        total_ios=ios,
        io_bytes=moved,
        runtime_s=seconds,
        total=pooled.total,
        completion=pooled.completion,
    )


def _flow(op: Op, one: Operation, name: str, workload: Workload | None) -> Flow:
    latency = one.total or one.completion
    rate = Figure.of(one.iops, name, f"{name} counts no operations")
    delay = Figure.of(latency.mean_s if latency else None, name, f"{name} measures no latency")
    return Flow(
        op=op,
        rate=rate,
        bandwidth=Figure.of(one.bandwidth_bps, name, f"{name} tells no bytes"),
        merged=Figure(absent="an engine merges nothing"),
        latency=delay,
        in_flight=by_little(rate, delay),
        sizes=_sizes(op, one, workload),
        sizes_absent="the size of a request is not a setting of this workload",
    )


def _sizes(op: Op, one: Operation, workload: Workload | None) -> Sizes | None:
    """All requests of an engine have the size that the plan sets, where its phases agree."""
    phases = [phase for phase in workload.phases if op in phase.pattern.ops] if workload else []
    blocks = {phase.block_size for phase in phases}
    if len(blocks) != 1 or not one.total_ios:
        return None
    return Sizes(counts={blocks.pop(): one.total_ios}, exact=True, source="the plan")
