"""Differences of the processor that the storage may use."""

from __future__ import annotations

from leadline.inventory.differences.model import Difference, Topic

CPU_BUDGET = "lab.cpu_per_host"


def cpu_budget_difference(base: float | None, candidate: float | None) -> Difference | None:
    """The cores that each host of a lab may use (None: all that there are)."""
    if base == candidate:
        return None
    return Difference(
        path=CPU_BUDGET,
        topic=Topic.TOPOLOGY,
        baseline=_text(base),
        candidate=_text(candidate),
        meaning="Cores that the OSDs of each host may use together, by a quota of the kernel's.",
    )


def _text(cores: float | None) -> str:
    if cores is None:
        return "no quota"
    return "1 core" if cores == 1 else f"{cores:g} cores"
