"""The processor time and memory of a storage's pods during a trial, from the kubelets.

Those of nodes with daemons of the storage are asked every few seconds. `kubelets.jsonl`: `{"at",
"elapsed_s", "node", "cores", "containers"}`, or `{"at", "elapsed_s", "error"}`, also where no node
has a daemon.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from leadline.archive import layout
from leadline.formats.kubelet import ContainerReading, parse_readings
from leadline.probes.watches.base import Line, SamplingWatch, describe_error

# Kubelets have new readings of containers every 10 to 15 s, some with each request.
_PERIOD_S = 5.0
_PATIENCE_S = 10.0
_AT_ONCE = 8


class Kubelets(Protocol):
    """The kubelets of a cluster."""

    def nodes(self, namespaces: Collection[str]) -> Mapping[str, int]:
        """Return the cores of each node with a daemon of a storage in one of the namespaces, by its
        name. Raises LeadlineError."""

    def read(self, node: str) -> tuple[str, float]:
        """Return `/metrics/resource` of a node and the time of the answer by the node's clock, in
        seconds since 1970. Raises LeadlineError."""


class KubeletWatch(SamplingWatch):
    """Samples the daemons in `namespaces`."""

    def __init__(self, kubelets: Kubelets, namespaces: Collection[str], folder: Path) -> None:
        super().__init__(folder / layout.KUBELETS, period_s=_PERIOD_S, patience_s=_PATIENCE_S)
        self._kubelets = kubelets
        self._namespaces = frozenset(namespaces)
        self._nodes: Mapping[str, int] = {}

    def _sample(self, *, end: bool) -> Sequence[Line]:
        if end:
            self._nodes = self._kubelets.nodes(self._namespaces)
            if not self._nodes:
                names = ", ".join(sorted(self._namespaces))
                return [{"error": f"no daemon of a storage in the namespaces {names}"}]
        return list(self._read_all(self._nodes))

    def _read_all(self, nodes: Mapping[str, int]) -> Iterator[Line]:
        def read(node: str) -> Sequence[ContainerReading] | Exception:
            try:
                text, answered_at_s = self._kubelets.read(node)
                return parse_readings(text, self._namespaces, answered_at_s)
            # The other nodes have an answer.
            except Exception as error:
                return error

        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            for node, answer in zip(nodes, pool.map(read, nodes), strict=True):
                if isinstance(answer, Exception):
                    yield {"error": f"{node}: {describe_error(answer)}"}
                elif not answer:
                    yield {"error": f"{node}: no reading of the storage's daemons"}
                else:
                    containers = [asdict(reading) for reading in answer]
                    yield {"node": node, "cores": nodes[node], "containers": containers}
