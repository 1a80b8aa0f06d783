"""What runs to make volumes and virtual machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from leadline.inventory.kubernetes.models import Operator, Workload
from leadline.inventory.kubernetes.objects import Part


def read_workload(kind: Literal["DaemonSet", "Deployment"]) -> Callable[[Part], Workload]:
    def read(item: Part) -> Workload:
        containers = item.at("spec", "template", "spec", "containers")
        status = item.at("status")
        daemons = kind == "DaemonSet"
        wanted = status.at("desiredNumberScheduled") if daemons else item.at("spec", "replicas")
        ready = status.at("numberReady" if daemons else "readyReplicas")
        return Workload(
            kind=kind,
            namespace=item.at("metadata", "namespace").word,
            name=item.at("metadata", "name").word,
            images=tuple(
                dict.fromkeys(
                    image for one in containers.elements() if (image := one.at("image").word)
                )
            ),
            ready=ready.integer,
            wanted=wanted.integer,
        )

    return read


def read_kubevirt(item: Part) -> Operator:
    settings = item.at("spec", "configuration", "developerConfiguration")
    return Operator(
        version=item.at("status", "observedKubeVirtVersion").word,
        phase=item.at("status", "phase").word,
        gates=tuple(sorted(settings.at("featureGates").texts())),
    )


def read_cdi(item: Part) -> Operator:
    return Operator(
        version=item.at("status", "observedVersion").word,
        phase=item.at("status", "phase").word,
        gates=tuple(sorted(item.at("spec", "config", "featureGates").texts())),
    )
