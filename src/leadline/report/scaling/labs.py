"""What labs on one machine can and cannot show, in sentences."""

from __future__ import annotations

from leadline.analysis.scaling.lab_bounds import LabBounds
from leadline.plan.lab_description import LabDescription, Store
from leadline.report.scaling.wording import number_text
from leadline.report.wording import count_text


def lab_sentences(bounds: LabBounds) -> tuple[str, ...]:
    """What can be compared first, then what cannot."""
    machine = "one machine"
    if bounds.cores is not None:
        machine += f" of {count_text(bounds.cores, 'core')}"
    return (
        f"Both systems are labs: {machine} plays all their hosts. {_budgets(bounds)}",
        "It cannot show: "
        + "; ".join([_latency(bounds), _media(bounds), _machine(bounds), "nor networks"])
        + ".",
    )


def _hosts(lab: LabDescription) -> int:
    return lab.domains * lab.hosts_per_domain


def _budgets(bounds: LabBounds) -> str:
    ours, theirs = bounds.baseline, bounds.candidate
    if ours.cpu_per_host is None or theirs.cpu_per_host is None:
        return (
            "Their hosts have no processor budget (cpu_per_host), so that more of them share the "
            "same cores: what grows or shrinks here says nothing of hosts."
        )
    each = f"{number_text(ours.cpu_per_host)} of a core"
    if theirs.cpu_per_host != ours.cpu_per_host:
        each += f", in the second {number_text(theirs.cpu_per_host)}"
    both = [
        f"{number_text(_hosts(one) * budget)} for {count_text(_hosts(one), 'host')}"
        for one, budget in ((ours, ours.cpu_per_host), (theirs, theirs.cpu_per_host))
    ]
    return (
        f"Each host may use {each}: {both[0]} and {both[1]}. So it can show throughput that the "
        "processors of OSDs bound."
    )


def _latency(bounds: LabBounds) -> str:
    told = f" (refused at {bounds.throttled} of {bounds.levels} levels)" if bounds.throttled else ""
    if bounds.baseline.cpu_per_host is None and bounds.candidate.cpu_per_host is None:
        return f"latency of hosts that do not share their processors{told}"
    return (
        f"latency, since a host that has used up its budget stands still as no real one does{told}"
    )


def _media(bounds: LabBounds) -> str:
    on_disk = Store.BLUESTORE in (bounds.baseline.store, bounds.candidate.store)
    return "disks of their own" + ("" if on_disk else ", all data being in memory")


def _machine(bounds: LabBounds) -> str:
    whole = "what the machine itself bounds, where load generator, monitor and manager run as well"
    return f"{whole} (its cores were used up at {bounds.saturated} of {bounds.levels} levels)"
