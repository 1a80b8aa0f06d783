"""throttled-system: a processor quota stopped the storage daemons repeatedly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.host_rates import GroupRates, machine_rates
from leadline.formats.result import FormatError
from leadline.formats.watch_records import Role

# Share of the periods with work in which the quota ran out. Every I/O in the rest of such a period
# waits for the next one: from 1 % this is the 99th percentile, from 10 % the latency.
SEEN = 0.01
RULES_LATENCY = 0.10
_REMEDY = (
    "Use only the throughput. Measure latency without a quota (a lab without cpu_per_host, pods "
    "without a CPU limit)."
)


@rule(
    "throttled-system",
    "A processor quota stopped the daemons of the storage while it was measured.",
    TrialEvidence,
)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    if not trial.jobs:
        return
    groups = _groups(trial)
    shares = {
        name: rates.throttled_share
        for name, rates in groups.items()
        if rates.throttled_share is not None
    }
    if not shares:
        yield from _uncounted(trial)
        return
    worst = max(shares, key=lambda name: (shares[name], name))
    if shares[worst] <= SEEN:
        return
    quota = groups[worst].quota_cores
    numbers = {
        "throttled_share": shares[worst],
        "groups": len(shares),
        "quota_cores": quota,
    }
    its = "processor quota" if quota is None else f"processor quota of {quota:.3g} cores"
    grave = shares[worst] > RULES_LATENCY
    yield RuleFinding(
        severity=Severity.ERROR if grave else Severity.WARNING,
        latency_only=True,
        evidence=numbers,
        message=f"{worst} used up its {its} in {shares[worst]:.0%} of its periods and "
        "stopped until the next. "
        + (
            "The latency is that of the quota."
            if grave
            else "The slowest I/Os may only have waited for the quota."
        ),
        remedy=_REMEDY,
    )
    if grave:
        # A quota in the lab's description is intended.
        wanted = trial.cpu_budget is not None
        yield RuleFinding(
            severity=Severity.INFO if wanted else Severity.WARNING,
            evidence={**numbers, "throttled_share_least": min(shares.values())},
            message=f"The throughput is that of a {its} for each of {len(shares)} groups. Compare "
            f"it only with equal quotas.",
            remedy="State the quota next to the figure.",
        )


def _groups(trial: TrialEvidence) -> Mapping[str, GroupRates]:
    """Return the control groups of storage machines by name; none of an unreadable record."""
    if isinstance(trial.machines, FormatError):
        return {}
    return {
        name: rates
        for machine in machine_rates(trial.machines)
        if Role.STORAGE in machine.roles
        for name, rates in machine.groups.items()
    }


def _uncounted(trial: TrialEvidence) -> Iterator[RuleFinding]:
    budget = trial.cpu_budget
    if budget is None:
        return
    why = (
        f"the record is unreadable ({trial.machines})"
        if isinstance(trial.machines, FormatError)
        else "it was not counted"
    )
    yield RuleFinding(
        severity=Severity.WARNING,
        latency_only=True,
        evidence={"quota_cores": budget},
        message=f"Each host of the lab has a quota of {budget:.3g} cores. How often it was used up "
        f"is unknown: {why}. The latency may be that of the quota.",
        remedy=_REMEDY,
    )
