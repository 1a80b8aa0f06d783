"""Plans and tokens of the tests of a journal's entries."""

from __future__ import annotations

from leadline.plan.models import Cluster, Plan, Target

RUN = "perf-20261121-120000-bcdfg-night"
TOKEN = "0123456789abcdef"
OTHER = "fedcba9876543210"


def plan_with(*targets: Target, clusters: tuple[Cluster, ...] = ()) -> Plan:
    """A plan of these targets and clusters, without trials."""
    return Plan(targets=targets, clusters=clusters, cells=(), trials=(), repeats=1, seed=0)
