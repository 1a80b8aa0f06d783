"""latency-not-measured: I/O without measured latency."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.audit.evidence import JobEvidence
from leadline.audit.latencies import latencies
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity

_SWITCHES = ("gtod_reduce", "disable_lat", "disable_clat")
# Tools that measure no latency.
_WITHOUT = {"rbd-bench": "rbd bench"}
_STREAM = "zfs-stream"


@rule("latency-not-measured", "The engine measured no latency.", JobEvidence)
def check(evidence: JobEvidence) -> Iterator[RuleFinding]:
    options = evidence.job.options
    if options.engine == _STREAM:
        return  # it has neither I/Os nor latencies; its own report has the stalls
    tool = _WITHOUT.get(options.engine or "")
    if tool is not None:
        yield RuleFinding(
            severity=Severity.INFO,
            latency_only=True,
            evidence={"total_ios": evidence.total_ios},
            message=f"{tool} measures no latency. IOPS and bandwidth are valid.",
            remedy="Use fio on the same image to measure latency (`engine: auto`).",
        )
        return
    switched = [key for key in _SWITCHES if options.flag(key)]
    # A line of terse output has all latencies; of another summary a part may be known.
    source = evidence.trial.record.source if evidence.trial.record else None
    complete = options.whole or (source is not None and source.kind == "fio-terse")
    if not complete and not switched:
        return
    why = f"{' and '.join(switched)} disabled it" if switched else "the result has only zeros"
    for operation in evidence.job.operations:
        if not any(name != "submission" for name, _ in latencies(operation)):
            ios = f"{operation.total_ios} " if operation.total_ios is not None else ""
            yield RuleFinding(
                # A summary without a latency misleads no reader.
                severity=Severity.ERROR if complete else Severity.INFO,
                op=operation.op,
                latency_only=True,
                evidence={"total_ios": operation.total_ios},
                message=f"The latency of {ios}{operation.op.value}s was not measured: {why}. "
                "IOPS and bandwidth are valid.",
                remedy="Remove gtod_reduce and disable_lat from the job to measure latency.",
            )
