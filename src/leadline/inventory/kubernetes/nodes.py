"""Nodes, and the CSI drivers on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from leadline.inventory.kubernetes import kinds
from leadline.inventory.kubernetes.models import CsiDriver, Node, Place
from leadline.inventory.kubernetes.objects import Objects, Part

_ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_REGION = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_TYPE = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_ROLE = "node-role.kubernetes.io/"

# Node -> names of its drivers; None where CSINodes were not seen.
DriverNodes = Mapping[str, tuple[str, ...]] | None


def driver_nodes(objects: Objects) -> DriverNodes:
    """Which drivers each node has."""
    if kinds.CSI_NODE not in objects.by_kind:
        return None

    def pair(item: Part) -> tuple[str, tuple[str, ...]]:
        drivers = (one.at("name").word for one in item.at("spec", "drivers").elements())
        return item.at("metadata", "name").word, tuple(sorted(drivers))

    return dict(objects.read(kinds.CSI_NODE, pair))


def node_reader(drivers: DriverNodes) -> Callable[[Part], Node]:
    """Reads a Node, with the drivers that its CSINode names."""

    def read(item: Part) -> Node:
        labels = {key: value.word for key, value in item.at("metadata", "labels").members()}
        about, status = item.at("status", "nodeInfo"), item.at("status")
        capacity, allocatable = status.at("capacity"), status.at("allocatable")
        name = item.at("metadata", "name").word
        pages = [
            size
            for key, value in capacity.members()
            if key.startswith("hugepages-") and (size := value.size_bytes)
        ]
        return Node(
            name=name,
            ready=_ready(status),
            schedulable=not item.at("spec", "unschedulable").on,
            roles=tuple(sorted(key[len(_ROLE) :] for key in labels if key.startswith(_ROLE))),
            zone=_first(labels, _ZONE),
            region=_first(labels, _REGION),
            places=tuple(
                Place(label=key, value=value)
                for key, value in sorted(labels.items())
                if key.startswith("topology.") and key not in (*_ZONE, *_REGION)
            ),
            instance_type=_first(labels, _TYPE),
            architecture=about.at("architecture").word,
            kernel=about.at("kernelVersion").word,
            os_image=about.at("osImage").word,
            kubelet=about.at("kubeletVersion").word,
            runtime=about.at("containerRuntimeVersion").word,
            cpu=capacity.at("cpu").quantity,
            cpu_allocatable=allocatable.at("cpu").quantity,
            memory_bytes=capacity.at("memory").size_bytes,
            memory_allocatable_bytes=allocatable.at("memory").size_bytes,
            hugepages_bytes=sum(pages) if capacity.there else None,
            taints=tuple(_taint(one) for one in item.at("spec", "taints").elements()),
            csi_drivers=None if drivers is None else drivers.get(name, ()),
        )

    return read


def _ready(status: Part) -> bool | None:
    for one in status.at("conditions").elements():
        if one.at("type").text == "Ready":
            return one.at("status").text == "True" or one.at("status").on
    return None


def _taint(part: Part) -> str:
    """`KEY=VALUE:EFFECT`, as kubectl writes it."""
    key, value, effect = (part.at(name).word for name in ("key", "value", "effect"))
    return f"{key}{'=' if value else ''}{value}:{effect}"


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if name in labels), "")


def read_csi_driver(drivers: DriverNodes) -> Callable[[Part], CsiDriver]:
    """Reads a CSIDriver, with the number of nodes that have it."""

    def read(item: Part) -> CsiDriver:
        name, spec = item.at("metadata", "name").word, item.at("spec")
        required = spec.at("attachRequired").flag
        return CsiDriver(
            name=name,
            attach_required=True if required is None else required,
            storage_capacity=spec.at("storageCapacity").on,
            fs_group_policy=spec.at("fsGroupPolicy").word,
            modes=spec.at("volumeLifecycleModes").texts(),
            nodes=None if drivers is None else sum(name in of for of in drivers.values()),
        )

    return read
