"""inconsistent-figures: figures of one result that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from leadline.audit.evidence import JobEvidence, TrialEvidence
from leadline.audit.latencies import latencies
from leadline.audit.rule import RuleFinding, rule
from leadline.audit.rules.unfamiliar_output import format_notes
from leadline.findings import Severity
from leadline.formats.result import EngineOutput, Latency, NoteKind, Operation

# Real fio 3.x results agree to 0.1 % (methodology, 11,500 files); the rest is a margin.
TOLERANCE = 0.005
# fio before 3.6 reports bandwidth in whole KiB/s.
BANDWIDTH_STEP_BPS = 1024.0
# fio reports runtimes in whole milliseconds.
RUNTIME_STEP_S = 0.001
# fio's percentiles are the middle of a histogram bin; fio 2 reports whole microseconds.
BIN = 1 / 64
LATENCY_STEP_S = 1e-6
# A run of unknown length counts as the shortest that is published.
SHORT_RUN_S = 10.0


@rule(
    "inconsistent-figures",
    "Rates, counts, bytes and latencies of one result contradict each other.",
    TrialEvidence,
)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    yield from _impossible(trial)
    for evidence in trial.jobs:
        # I/Os in flight at the end of a ramp count for latency or bytes, not for IOPS.
        slack = (evidence.requested_depth or evidence.job.options.iodepth or 1) + 1
        for operation in evidence.job.operations:
            faults = [*_rates(evidence, operation, slack), *_latencies(evidence, operation, slack)]
            if faults:
                yield _contradiction(evidence, operation, faults)


def _contradiction(evidence: JobEvidence, operation: Operation, faults: list[str]) -> RuleFinding:
    return RuleFinding(
        severity=Severity.ERROR,
        op=operation.op,
        workload=evidence.place.workload,
        evidence={
            "iops": operation.iops,
            "runtime_s": operation.runtime_s,
            "total_ios": operation.total_ios,
            "bandwidth_bps": operation.bandwidth_bps,
            "io_bytes": operation.io_bytes,
        },
        message=f"The figures contradict each other: {'; '.join(faults)}.",
        remedy="Take the result from the tool's raw output again. Do not use it before its origin "
        "(edited, added, other units) is known.",
    )


def _impossible(trial: TrialEvidence) -> Iterator[RuleFinding]:
    """Report impossible values, which the parser left out."""
    output = trial.output
    notes = output.notes if isinstance(output, EngineOutput) else ()
    found = [note for note in notes if note.kind is NoteKind.IMPOSSIBLE_VALUE]
    if found:
        yield RuleFinding(
            severity=Severity.ERROR,
            evidence={"values": len(found)},
            message=f"The output has impossible values: {format_notes(found)}.",
            remedy="Take the result from the tool's raw output again. This one is damaged or "
            "edited, or the tool is broken.",
        )


def _rates(evidence: JobEvidence, operation: Operation, slack: int) -> Iterator[str]:
    block_size = evidence.block_size
    if operation.runtime_s:
        relative = TOLERANCE + RUNTIME_STEP_S / operation.runtime_s
        if operation.iops is not None and operation.total_ios is not None:
            ios = operation.iops * operation.runtime_s
            if abs(ios - operation.total_ios) > relative * operation.total_ios + 1:
                yield (
                    f"{operation.iops:.1f} IOPS for {operation.runtime_s:.3f} s are {ios:.0f} "
                    f"I/Os, not {operation.total_ios}"
                )
        if operation.bandwidth_bps is not None and operation.io_bytes is not None:
            moved = operation.bandwidth_bps * operation.runtime_s
            allowed = relative * operation.io_bytes + BANDWIDTH_STEP_BPS * operation.runtime_s
            if abs(moved - operation.io_bytes) > allowed:
                yield (
                    f"the bandwidth times the runtime is {moved:.0f} bytes, not "
                    f"{operation.io_bytes}"
                )
    if block_size is None:
        return
    if operation.total_ios is not None and operation.io_bytes is not None:
        sized = operation.total_ios * block_size
        if abs(sized - operation.io_bytes) > TOLERANCE * operation.io_bytes + slack * block_size:
            yield (
                f"{operation.total_ios} I/Os of {block_size} bytes are {sized} bytes, not "
                f"{operation.io_bytes}"
            )
    elif operation.iops and operation.bandwidth_bps:
        yield from _rounded_rates(evidence, operation, slack, block_size)


def _rounded_rates(
    evidence: JobEvidence, operation: Operation, slack: int, block_size: int
) -> Iterator[str]:
    """Test rates without counts, which have only a few digits."""
    iops, bandwidth_bps = operation.iops or 0.0, operation.bandwidth_bps or 0.0
    moved = iops * block_size
    allowed = TOLERANCE + evidence.rounding(iops)
    allowed += evidence.rounding(bandwidth_bps, of_bytes=True)
    done = iops * (operation.runtime_s or SHORT_RUN_S)
    if abs(moved - bandwidth_bps) * done > (allowed * done + slack) * bandwidth_bps:
        yield (
            f"{iops:.6g} IOPS of {block_size} bytes are {moved / (1 << 20):.4g} MiB/s, not "
            f"{bandwidth_bps / (1 << 20):.4g}"
        )


def _latencies(evidence: JobEvidence, operation: Operation, slack: int) -> Iterator[str]:
    for name, latency in latencies(operation):
        yield from _latency(evidence, name, latency, operation, slack)
        yield from _percentiles(evidence, name, latency)


def _latency(
    evidence: JobEvidence, name: str, latency: Latency, operation: Operation, slack: int
) -> Iterator[str]:
    rounding = evidence.rounding
    low, mean, high = latency.min_s, latency.mean_s, latency.max_s
    # fio has the mean as a float and the extremes as whole nanoseconds; tables round both.
    if mean is not None:
        too_low = low is not None and mean < low * (1 - rounding(low) - rounding(mean)) - 1e-9
        too_high = high is not None and mean > high * (1 + rounding(high) + rounding(mean)) + 1e-9
        if too_low or too_high:
            yield (
                f"the mean {name} latency {mean * 1e6:.3f} us is outside its extremes "
                f"{_microseconds(low)} to {_microseconds(high)} us"
            )
    if latency.count is None:
        return
    done = operation.total_ios
    if done is not None and abs(latency.count - done) > TOLERANCE * done + slack:
        yield f"{latency.count} {name} latencies for {done} I/Os"
    counted = latency.histogram.count if latency.histogram else latency.count
    if abs(counted - latency.count) > TOLERANCE * latency.count + 1:
        yield f"the {name} histogram has {counted} of {latency.count} latencies"


def _percentiles(evidence: JobEvidence, name: str, latency: Latency) -> Iterator[str]:
    """Test printed percentiles; those of a histogram cannot be out of order."""
    rounding = evidence.rounding
    printed = sorted(latency.percentiles.items())
    for (q, low), (higher, high) in pairwise(printed):
        if low > high and low > high * (1 + rounding(low) + rounding(high)):
            yield (
                f"p{q * 100:.6g} of the {name} latency is {low * 1e6:.3f} us, more than "
                f"p{higher * 100:.6g} with {high * 1e6:.3f} us"
            )
            return
    if not printed:
        return
    lowest, highest = printed[0][1], printed[-1][1]
    margin = BIN + rounding(lowest) + rounding(highest)
    if latency.max_s is not None and highest > latency.max_s * (1 + margin) + LATENCY_STEP_S:
        yield (
            f"p{printed[-1][0] * 100:.6g} of the {name} latency is {highest * 1e6:.3f} us, above "
            f"its maximum of {_microseconds(latency.max_s)} us"
        )
    if latency.min_s is not None and lowest < latency.min_s * (1 - margin) - LATENCY_STEP_S:
        yield (
            f"p{printed[0][0] * 100:.6g} of the {name} latency is {lowest * 1e6:.3f} us, below "
            f"its minimum of {_microseconds(latency.min_s)} us"
        )
    least = _least_mean_s(printed)
    mean = latency.mean_s
    if mean is not None and mean * (1 + margin + rounding(mean)) + LATENCY_STEP_S < least:
        yield (
            f"the mean {name} latency is {mean * 1e6:.3f} us, below the least mean of its "
            f"percentiles, {least * 1e6:.3f} us"
        )


def _least_mean_s(printed: list[tuple[float, float]]) -> float:
    """Return the least possible mean: between two percentiles no I/O is faster than the lower
    one."""
    quantiles = [*(q for q, _ in printed), 1.0]
    return sum(
        (after - q) * value for (q, value), after in zip(printed, quantiles[1:], strict=True)
    )


def _microseconds(seconds: float | None) -> str:
    return "?" if seconds is None else f"{seconds * 1e6:.3f}"
