"""Rook's operator as far as a CephBlockPool and a CephFilesystem show it: a double.

There is no Ceph behind it. It does to an object what Rook v1.15 does (pkg/operator/ceph/pool and
file): a finalizer, `status.phase`, and behind a deletion the finalizer's removal or, while there is
something in the pool, the condition that says what.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.kubernetes.cluster import Cluster, Refused

_KINDS = ("cephblockpool", "cephfilesystem")
_MERGE = "application/merge-patch+json"


class Operator:
    """Acts on a namespace's pools until it is left. `fails` (pool -> words) are not made; pools in
    `held` are not let go; `idle` it does nothing, as an operator that is not running."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.fails: dict[str, str] = {}
        self.held: dict[str, str] = {}
        self.idle = False
        self.seen: list[str] = []
        self.on_ready: Callable[[str], None] = lambda name: None
        self._cluster = cluster
        self._path = f"/apis/ceph.rook.io/v1/namespaces/{namespace}"
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Operator:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.1):
            if self.idle:
                continue
            # Somebody else may have changed or removed what it speaks of.
            with suppress(Refused, OSError):
                for kind in _KINDS:
                    for item in self._cluster.request(f"{self._path}/{kind}s")["items"]:
                        self._act(kind, item)

    def _act(self, kind: str, pool: dict[str, Any]) -> None:
        metadata = pool["metadata"]
        name, at = metadata["name"], f"{self._path}/{kind}s/{metadata['name']}"
        finalizer = f"{kind}.ceph.rook.io"
        if "deletionTimestamp" in metadata:
            if name in self.held:
                condition = {
                    "type": "DeletionIsBlocked",
                    "status": "True",
                    "reason": "ObjectHasDependents",
                    "message": self.held[name],
                }
                self._patch(
                    f"{at}/status", {"status": {"phase": "Deleting", "conditions": [condition]}}
                )
            else:
                self._patch(at, {"metadata": {"finalizers": None}})
            return
        if finalizer not in metadata.get("finalizers", ()):
            self._patch(at, {"metadata": {"finalizers": [finalizer]}})
        if name in self.fails:
            status = {"phase": "Failure", "info": {"message": self.fails[name]}}
        else:
            status = {"phase": "Ready"}
            if kind == "cephblockpool":
                status["info"] = {"type": "Replicated"}
        if (pool.get("status") or {}).get("phase") != status["phase"]:
            self._patch(f"{at}/status", {"status": status})
            self.seen.append(name)
            if status["phase"] == "Ready":
                self.on_ready(name)

    def _patch(self, path: str, body: dict[str, Any]) -> None:
        self._cluster.request(path, "PATCH", body, kind=_MERGE)
