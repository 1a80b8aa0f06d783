"""How a Kubernetes cluster is reached, as kubectl is told it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesAccess:
    """A kubeconfig and a context of it; None for kubectl's own choice: $KUBECONFIG, else
    ~/.kube/config, else the service account of the pod that this runs in."""

    kubeconfig: Path | None = None
    context: str | None = None
