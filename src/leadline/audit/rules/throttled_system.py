"""throttled-system: a processor quota stopped the storage's daemons again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import Rule, RuleFinding
from leadline.findings import Severity
from leadline.formats.host_rates import GroupRates, machine_rates
from leadline.formats.result import FormatError
from leadline.formats.watch_records import Role
from leadline.text import visible

# Of the periods in which a group had work, those in which its quota ran out. Every I/O that comes
# in the rest of such a period waits for the next: from one in a hundred on that is the 99th
# percentile, from one in ten on it is the latency.
SEEN = 0.01
RULES_LATENCY = 0.10
_REMEDY = (
    "Use throughput only; measure latency where the daemons have no quota (a lab without "
    "cpu_per_host, pods without a CPU limit)."
)


def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    if not trial.jobs:
        return
    groups = {} if isinstance(trial.machines, FormatError) else _groups(trial)
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
    numbers = {"throttled_share": shares[worst], "groups": len(shares)}
    numbers |= {} if quota is None else {"quota_cores": quota}
    its = "processor quota" if quota is None else f"processor quota of {quota:.3g} cores"
    grave = shares[worst] > RULES_LATENCY
    yield RuleFinding(
        severity=Severity.ERROR if grave else Severity.WARNING,
        latency_only=True,
        evidence=numbers,
        message=f"{visible(worst)} used up its {its} in {shares[worst]:.0%} of the periods in "
        "which it ran, and stood still until the next: "
        + (
            "the latency is the quota's."
            if grave
            else "the slowest I/Os may have waited for that and for nothing else."
        ),
        remedy=_REMEDY,
    )
    if grave:
        # A budget that the lab's description asks for is no surprise to anybody.
        wanted = trial.cpu_budget is not None
        yield RuleFinding(
            severity=Severity.INFO if wanted else Severity.WARNING,
            evidence={**numbers, "throttled_share_least": min(shares.values())},
            message=f"The throughput is of a {its} for each of {len(shares)} groups, and of the "
            "one that used it up first: it may be compared with that of equal quotas only.",
            remedy="Name the quota beside the figure.",
        )


def _groups(trial: TrialEvidence) -> Mapping[str, GroupRates]:
    """Those of machines that serve the storage, by what they hold."""
    assert not isinstance(trial.machines, FormatError)
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
        f"their record cannot be read ({visible(str(trial.machines))})"
        if isinstance(trial.machines, FormatError)
        else "nobody counted"
    )
    yield RuleFinding(
        severity=Severity.WARNING,
        latency_only=True,
        evidence={"quota_cores": budget},
        message=f"The hosts of the lab may use {budget:.3g} cores each, and how often that held "
        f"them back is not known: {why}. The latency may be the quota's.",
        remedy=_REMEDY,
    )


RULE = Rule(
    code="throttled-system",
    summary="A processor quota stopped the daemons of the storage while it was measured.",
    looks_at=TrialEvidence,
    check=check,
)
