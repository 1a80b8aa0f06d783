"""The storage's pods by the summaries of the kubelets of their nodes, every 15 s of a trial.

`kubelet.jsonl`: `{"at", "elapsed_s", "node", "network", "pods"}` with the node's network and the
storage's pods of `/stats/summary` as the kubelet gave them, or `{"at", "elapsed_s", "node",
"error"}`. `leadline.formats.kubelet` reads it. The user needs `list` of `pods` in the storage's
namespaces and `get` of `nodes/proxy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from leadline.archive import layout
from leadline.connect.kubernetes.client import Connection
from leadline.formats.kubelet import DAEMON_CONTAINERS, storage_pods
from leadline.probes.watches.base import Line, SamplingWatch, describe_error

_PERIOD_S: Final = 15.0
_PATIENCE_S: Final = 10.0


class KubeletWatch(SamplingWatch):
    """Finds the nodes of the storage when it begins, and asks their kubelets."""

    def __init__(self, connection: Connection, namespaces: Sequence[str], folder: Path) -> None:
        """No other request may use the connection."""
        super().__init__(folder / layout.KUBELET, period_s=_PERIOD_S, patience_s=_PATIENCE_S)
        self._connection = connection
        self._namespaces = namespaces
        self._nodes: tuple[str, ...] | None = None

    def _sample(self, *, end: bool) -> Sequence[Line] | Line | None:
        if self._nodes is None:
            self._nodes = ()  # asked once, whatever comes of it
            self._nodes = self._find_nodes()
            if not self._nodes:
                where = ", ".join(self._namespaces)
                return {"error": f"no daemon of the storage runs in the namespaces {where}"}
        return [self._summary(node) for node in self._nodes]

    def _find_nodes(self) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for namespace in self._namespaces:
            for pod in self._connection.listed("", "v1", "pods", "Pod", namespace):
                spec = pod.get("spec") or {}
                names = {container.get("name") for container in spec.get("containers") or ()}
                if names & DAEMON_CONTAINERS and spec.get("nodeName"):
                    found[spec["nodeName"]] = None
        return tuple(found)

    def _summary(self, node: str) -> Line:
        try:
            summary = self._connection.get_json(
                f"api/v1/nodes/{node}/proxy/stats/summary", "nodes/proxy"
            )
            pods = storage_pods(summary.get("pods") or (), self._namespaces)
            line: dict[str, Any] = {"node": node, "pods": pods}
            network = summary["node"].get("network")
            return line | {"network": network} if network else line
        # One kubelet may be away, and the others answer.
        except Exception as error:
            return {"node": node, "error": describe_error(error)}
