"""All audit rules in order, and the audit that runs them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

from leadline import errors
from leadline.archive.reader import Run
from leadline.audit.evidence import (
    CellEvidence,
    Evidence,
    JobEvidence,
    walk,
    walk_cells,
)
from leadline.audit.gathering import run_evidence, with_neighbours
from leadline.audit.rule import Rule
from leadline.audit.rules import (
    averaged_percentiles,
    below_resolution,
    bimodal_latency,
    buffered_writes,
    cache_served_reads,
    capped_by_budget,
    capped_by_limit,
    client_missing,
    client_saturated,
    client_straggles,
    clock_offset,
    clock_stepped,
    cluster_not_healthy,
    compressible_data,
    concurrent_jobs,
    empty_result,
    engine_error,
    exceeds_ceiling,
    flat_ceiling,
    host_cache,
    inconsistent_figures,
    latency_inconsistent,
    latency_not_measured,
    log_contradicts_result,
    merged_sections,
    name_contradicts_work,
    not_steady,
    phases_summed,
    queue_depth_not_reached,
    rate_not_reached,
    short_runtime,
    single_trial,
    stage_failed,
    stage_unsupported,
    throttled_system,
    too_few_samples,
    truncated_result,
    unfamiliar_output,
    unstable_repeats,
    unwritten_reads,
    verify_failed,
    volume_straggles,
)
from leadline.errors import LeadlineError
from leadline.findings import Finding, Severity
from leadline.parallel import in_workers, spare_cores

# Trials; fewer are audited before a worker is there.
_WORTH_WORKERS = 200

# First whether there is a result, then whether it is the requested one, then how good it is.
RULES: tuple[Rule[Any], ...] = (
    empty_result.check,
    truncated_result.check,
    engine_error.check,
    verify_failed.check,
    stage_failed.check,
    stage_unsupported.check,
    unfamiliar_output.check,
    inconsistent_figures.check,
    log_contradicts_result.check,
    merged_sections.check,
    latency_inconsistent.check,
    latency_not_measured.check,
    averaged_percentiles.check,
    phases_summed.check,
    concurrent_jobs.check,
    name_contradicts_work.check,
    unwritten_reads.check,
    cache_served_reads.check,
    buffered_writes.check,
    host_cache.check,
    exceeds_ceiling.check,
    compressible_data.check,
    queue_depth_not_reached.check,
    rate_not_reached.check,
    short_runtime.check,
    client_saturated.check,
    client_missing.check,
    client_straggles.check,
    volume_straggles.check,
    below_resolution.check,
    clock_offset.check,
    clock_stepped.check,
    throttled_system.check,
    cluster_not_healthy.check,
    capped_by_budget.check,
    capped_by_limit.check,
    flat_ceiling.check,
    not_steady.check,
    unstable_repeats.check,
    bimodal_latency.check,
    too_few_samples.check,
    single_trial.check,
)


def audit(run: Run) -> tuple[Finding, ...]:
    """Return every finding on a run, the most severe first, then in plan order."""
    evidence = with_neighbours(run_evidence(run))
    cores = spare_cores() + 1
    if cores < 2 or sum(len(cell.trials) for cell in evidence.cells) < _WORTH_WORKERS:
        return run_rules(walk(evidence))
    # Findings of trials do not depend on other cells: `with_neighbours` has added what does.
    share = -(-len(evidence.cells) // cores)
    first, *rest = [
        evidence.cells[begin : begin + share] for begin in range(0, len(evidence.cells), share)
    ]
    with in_workers([partial(_audit_cells, cells) for cells in rest]) as waiting:
        found = run_rules(chain([evidence], walk_cells(first)))
        return _by_severity(chain(found, *(wait() for wait in waiting)))


def trusted(findings: Iterable[Finding]) -> bool:
    """Whether every figure may be used: no finding is an error."""
    return not any(finding.severity is Severity.ERROR for finding in findings)


def page(code: str, others: Iterable[str] = ()) -> str:
    """Return the Markdown page of a rule, or of one of the `others`, findings of other packages.

    Raises LeadlineError(`rule-unknown`) with the nearest codes."""
    codes = [*(rule.code for rule in RULES), *others]
    if code not in codes:
        near = difflib.get_close_matches(code, codes, n=3, cutoff=0.5)
        raise LeadlineError(
            errors.RULE_UNKNOWN,
            f"there is no audit rule {code!r}",
            hint=f"did you mean {' or '.join(near)}?"
            if near
            else f"the rules are {', '.join(codes)}",
        )
    installed = resources.files("leadline.audit").joinpath("pages", f"{code}.md")
    if installed.is_file():
        return installed.read_text(encoding="utf-8")
    checkout = Path(__file__).parents[3] / "docs" / "rules" / f"{code}.md"
    return checkout.read_text(encoding="utf-8")


def _audit_cells(cells: Sequence[CellEvidence]) -> tuple[Finding, ...]:
    return run_rules(walk_cells(cells))


def run_rules(evidence: Iterable[Evidence]) -> tuple[Finding, ...]:
    """Return the findings of all rules, the most severe first; the same one on several processes of
    a job once."""
    found: list[Finding] = []
    rules: dict[type[Evidence], list[Rule[Any]]] = {}
    for rule in RULES:
        rules.setdefault(rule.looks_at, []).append(rule)
    alike: dict[tuple[object, ...], list[int]] = {}
    for piece in evidence:
        for rule in rules.get(type(piece), ()):
            for finding in rule.findings(piece):
                if isinstance(piece, JobEvidence):
                    same = alike.setdefault(_kind(piece, finding), [])
                    same.append(len(found))
                    if len(same) > 1:
                        continue
                found.append(finding)
    for same in alike.values():
        if len(same) > 1:
            found[same[0]] = _for_all(found[same[0]], len(same))
    return _by_severity(found)


def _by_severity(found: Iterable[Finding]) -> tuple[Finding, ...]:
    # A stable sort keeps the plan order, then the order of RULES, within a severity.
    return tuple(sorted(found, key=lambda finding: -finding.severity.order))


def _kind(evidence: JobEvidence, finding: Finding) -> tuple[object, ...]:
    """Key of findings on processes or clients of one job, which are reported once."""
    place = evidence.place
    where = (place.target, place.workload, place.level, place.trial, evidence.job.name)
    return (finding.code, finding.severity, finding.op, where)


def _for_all(finding: Finding, entries: int) -> Finding:
    rest = "one more entry" if entries == 2 else f"{entries - 1} more entries"
    return replace(
        finding,
        message=f"{finding.message} The same holds for {rest} of the job (processes, clients).",
        evidence={**finding.evidence, "entries": entries},
    )
