"""Results of others, made for the audit to judge."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from leadline.archive.reader import Run
from leadline.archive.records import Session
from leadline.audit.evidence import Place, TrialEvidence, walk_trials
from leadline.audit.registry import RULES, audit, run_rules
from leadline.findings import Finding
from leadline.formats.result import (
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Latency,
    Operation,
)
from leadline.importing.archives import Labels, import_results
from leadline.importing.gather import gather
from leadline.metrics import Op

HEAD = (
    "cluster,target,workload,op,pattern,block_size,numjobs,iodepth,runtime_s,engine,file_size,"
    "iops,bw_mib_s,lat_mean_ms,lat_p50_ms,lat_p99_ms"
)


def of(code: str, findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.code == code]


def table(folder: Path, *rows: str) -> Run:
    """A run imported from a table of published figures."""
    folder.mkdir(exist_ok=True)
    file = folder / "published.csv"
    file.write_text("\n".join([HEAD, *rows, ""]))
    session = Session(
        started_at="2026-11-21T00:00:00Z",
        hostname="h",
        leadline_version="0",
        python_version="3.11",
    )
    (run,) = import_results(gather("table", [file]), folder, Labels(run="t"), session).runs
    return run


def audited(folder: Path, *rows: str) -> tuple[Finding, ...]:
    return audit(table(folder, *rows))


def job(*operations: Operation, whole: bool = True, name: str = "j", **options: str) -> JobResult:
    """A job whose options are given; without `whole`, the others are unknown."""
    return JobResult(name=name, options=JobOptions(raw=options, whole=whole), operations=operations)


def done(
    op: Op = Op.READ, iops: float = 1000.0, mean_s: float | None = None, **more: Any
) -> Operation:
    """60 s of I/O, consistent in itself, with a mean latency and percentiles."""
    latency = Latency(mean_s=mean_s, count=int(60 * iops), percentiles=more.pop("percentiles", {}))
    return Operation(
        op=op,
        iops=iops,
        total_ios=int(60 * iops),
        runtime_s=60.0,
        total=latency if mean_s is not None or latency.percentiles else None,
        **more,
    )


def output(*jobs: JobResult, **more: Any) -> EngineOutput:
    return EngineOutput(version="fio-3.40", jobs=jobs, **more)


def output_evidence(output: EngineOutput | FormatError) -> TrialEvidence:
    """A single output: no plan, no record, no logs."""
    return TrialEvidence(place=Place(), output=output, windows={})


def audit_output(output: EngineOutput | FormatError) -> tuple[Finding, ...]:
    return run_rules(walk_trials([output_evidence(output)]))


def ask(trial: TrialEvidence, code: str) -> list[Finding]:
    """What one rule says of a trial and of its jobs."""
    rule = next(rule for rule in RULES if rule.code == code)
    return [found for one in walk_trials([trial]) for found in rule.findings(one)]


def row(target: str = "pool", op: str = "read", **figures: object) -> str:
    given = {
        "cluster": "c",
        "target": target,
        "workload": "w",
        "op": op,
        "pattern": "randread" if op == "read" else "randwrite",
        **figures,
    }
    return ",".join(str(given.get(key, "")) for key in HEAD.split(","))


def imported(folder: Path, kind: str, file: Path) -> Run:
    session = Session(
        started_at="2026-11-21T00:00:00Z",
        hostname="h",
        leadline_version="0",
        python_version="3.11",
    )
    (run,) = import_results(gather(kind, [file]), folder, Labels(run="t"), session).runs
    return run
