"""Whether a cluster has virtual machines at all, and what makes their boot disks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from leadline import errors
from leadline.errors import LeadlineError
from leadline.kubernetes.connection import Connection
from leadline.kubernetes.machines.objects import CDI_GROUP, GROUP, VERSION

# `runStrategy: Once` is of this.
_LEAST = (1, 0)
_CONSOLES = "subresources.kubevirt.io"


def require_kubevirt(connection: Connection, where: list[str]) -> None:
    """Raise LeadlineError(`target-unsuitable`) where no virtual machine can be run: no KubeVirt,
    one that is too old, or whose API for consoles is away."""
    groups = _groups(connection)
    if GROUP not in groups:
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the cluster {connection.context} has no virtual machines: KubeVirt is not there",
            context=where,
            hint="use runner=pod, or a cluster with KubeVirt",
        )
    if VERSION not in groups[GROUP] or _too_old(connection):
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the KubeVirt of {connection.context} is too old",
            context=[*where, f"it serves {', '.join(groups[GROUP])}"],
            hint=f"KubeVirt {_LEAST[0]}.{_LEAST[1]} or later is needed",
        )
    if _CONSOLES not in groups:
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the cluster {connection.context} serves no consoles of virtual machines",
            context=[*where, f"the API server does not know the group {_CONSOLES}"],
            hint="look at KubeVirt's virt-api with `kubectl get apiservices`",
        )


def require_imports(connection: Connection, where: list[str]) -> None:
    """Raise LeadlineError(`target-unsuitable`) where CDI, which makes boot disks, is not there."""
    if CDI_GROUP not in _groups(connection):
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the cluster {connection.context} makes no boot disks: CDI is not there",
            context=where,
            hint="boot from a container disk (`--vm-image`), or have CDI installed",
        )


def _groups(connection: Connection) -> dict[str, Sequence[str]]:
    """The API groups that the server knows, with their versions."""
    found: Any = connection.ask("get", "/apis", lambda client: _discovered(client))
    return {
        str(one["name"]): [str(version["version"]) for version in one.get("versions", ())]
        for one in found.get("groups", ())
    }


def _discovered(client: Any) -> Any:
    """The list of groups by lightkube's own HTTP client, which has no method for it."""
    inner = client._client
    answer = inner._client.get("apis")
    inner.raise_for_status(answer)
    return answer.json()


def _too_old(connection: Connection) -> bool:
    """By what the operator observes; one that tells no version is taken as it is."""
    try:
        found = connection.listed(GROUP, VERSION, "kubevirts", "KubeVirt")
    except LeadlineError as error:
        if error.kind is errors.KUBERNETES_DENIED:
            return False  # it then refuses what it does not know
        raise
    told = [str((one.get("status") or {}).get("observedKubeVirtVersion", "")) for one in found]
    versions = [re.match(r"v?(\d+)\.(\d+)", one) for one in told]
    return any(one is not None and (int(one[1]), int(one[2])) < _LEAST for one in versions)
