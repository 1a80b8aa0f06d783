"""What is left of nodes, quotas and published capacity while a plan's targets are placed. All
targets of a run hold their volumes and runners until its end, so that all must fit at once. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leadline.inventory.kubernetes.models import Node
from leadline.planning.models import DraftTarget, Survey
from leadline.units import format_size

_HINDERING = ("NoSchedule", "NoExecute")


@dataclass(slots=True)
class _NodeRoom:
    cpu: float
    memory_bytes: int


class Room:
    """What is left. Nodes are reckoned empty: what runs on them already is not known."""

    def __init__(self, survey: Survey) -> None:
        self._nodes = [
            _NodeRoom(cpu=node.cpu_allocatable, memory_bytes=node.memory_allocatable_bytes)
            for node in survey.inventory.nodes
            if _usable(node)
            and node.cpu_allocatable is not None
            and node.memory_allocatable_bytes is not None
        ]
        self._known = bool(survey.inventory.nodes)
        self._quotas = [(one.name, dict(one.left)) for one in survey.quotas]
        self._published = {name: one.total for name, one in survey.published.items()}

    def take(self, target: DraftTarget) -> str | None:
        """Give a target its room; else say why there is none, and nothing is taken."""
        refusal = self._over_quota(target) or self._over_capacity(target)
        if refusal:
            return refusal
        if self._known and not self._place(target):
            cores = "1 core" if target.cpu == 1 else f"{target.cpu:g} cores"
            each = f"{cores} and {format_size(target.memory_bytes)}"
            runners = "a runner" if target.count == 1 else f"{target.count} runners"
            return (
                f"the nodes have no room for {runners} of {each} beside the others, as far as "
                "their allocatable processors and memory tell"
            )
        for _, left in self._quotas:
            for key, need in _needs(target).items():
                if key in left:
                    left[key] -= need
        if target.storage_class in self._published:
            self._published[target.storage_class] -= target.claimed_bytes
        return None

    def _over_quota(self, target: DraftTarget) -> str | None:
        for name, left in self._quotas:
            for key, need in _needs(target).items():
                if key in left and need > left[key]:
                    return (
                        f"the quota {name!r} leaves {_told(key, max(0, left[key]))} of {key} "
                        f"beside the others; {_told(key, need)} are needed"
                    )
        return None

    def _over_capacity(self, target: DraftTarget) -> str | None:
        left = self._published.get(target.storage_class)
        if left is None or target.claimed_bytes <= left:
            return None
        return (
            f"its driver publishes {format_size(max(0, left))} beside the others; "
            f"{format_size(target.claimed_bytes)} are needed"
        )

    def _place(self, target: DraftTarget) -> bool:
        """Each runner on the node with most processors left."""
        used: list[_NodeRoom] = []
        for _ in range(target.count):
            fitting = [
                node
                for node in self._nodes
                if node.cpu >= target.cpu and node.memory_bytes >= target.memory_bytes
            ]
            if not fitting:
                for node in used:
                    node.cpu += target.cpu
                    node.memory_bytes += target.memory_bytes
                return False
            chosen = max(fitting, key=lambda node: (node.cpu, node.memory_bytes))
            chosen.cpu -= target.cpu
            chosen.memory_bytes -= target.memory_bytes
            used.append(chosen)
        return True


def _usable(node: Node) -> bool:
    hindered = any(taint.endswith(_HINDERING) for taint in node.taints)
    return node.schedulable and node.ready is not False and not hindered


def _needs(target: DraftTarget) -> Mapping[str, float]:
    """What a quota counts."""
    of_class = f"{target.storage_class}.storageclass.storage.k8s.io"
    cpu, memory = target.cpu * target.count, target.memory_bytes * target.count
    return {
        "requests.storage": target.claimed_bytes,
        "persistentvolumeclaims": target.count,
        f"{of_class}/requests.storage": target.claimed_bytes,
        f"{of_class}/persistentvolumeclaims": target.count,
        "pods": target.count,
        "cpu": cpu,
        "memory": memory,
        "requests.cpu": cpu,
        "requests.memory": memory,
        "limits.cpu": cpu,
        "limits.memory": memory,
    }


def smallest_share(survey: Survey, name: str, volumes: int) -> float | None:
    """Bytes that quotas leave for each of so many volumes of a run, as far as they tell."""
    keys = ("requests.storage", f"{name}.storageclass.storage.k8s.io/requests.storage")
    left: Iterable[float] = (
        quota.left[key] for quota in survey.quotas for key in keys if key in quota.left
    )
    return min((one / max(1, volumes) for one in left), default=None)


def _told(key: str, amount: float) -> str:
    return format_size(amount) if "storage" in key or "memory" in key else f"{amount:g}"
