"""The watch of kubelets against a double of the API server's answers, and what it does without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leadline import errors
from leadline.archive.trial import StoredTrial
from leadline.errors import LeadlineError
from leadline.formats.kubelet import KubeletSample, MissedKubelet
from leadline.probes.watches.kubelet import KubeletWatch
from tests.unit.formats.test_kubelet import container

POD = {"podRef": {"name": "osd-0", "namespace": "rook-ceph"}}
SUMMARY = {
    "node": {"nodeName": "n1", "network": {"time": "2026-11-26T10:00:00Z", "interfaces": []}},
    "pods": [
        {**POD, "containers": [container(at="2026-11-26T10:00:00Z", used_s=1)]},
        {"podRef": {"name": "db", "namespace": "users"}},
    ],
}


class Server:
    """The requests of a connection; `summaries` are by node."""

    def __init__(self, summaries: dict[str, Any], denied: str = "") -> None:
        self.summaries = summaries
        self.denied = denied
        self.listed_namespaces: list[str] = []

    def listed(self, group: str, version: str, plural: str, kind: str, namespace: str) -> Any:
        self.listed_namespaces.append(namespace)
        if self.denied:
            raise LeadlineError(errors.KUBERNETES_DENIED, self.denied)
        names = self.summaries if namespace == "rook-ceph" else ()
        return [
            *({"spec": {"nodeName": name, "containers": [{"name": "osd"}]}} for name in names),
            {"spec": {"nodeName": "client", "containers": [{"name": "csi-rbdplugin"}]}},
            {"spec": {"containers": [{"name": "mon"}]}},
        ]

    def get_json(self, path: str, resource: str) -> Any:
        assert resource == "nodes/proxy"
        found = self.summaries[path.split("/")[3]]
        if isinstance(found, Exception):
            raise found
        return found


def record(server: Server, folder: Path) -> tuple[KubeletSample | MissedKubelet, ...]:
    with KubeletWatch(server, ("rook-ceph", "openebs"), folder):  # type: ignore[arg-type]
        pass
    return StoredTrial(folder, None).kubelet


def test_the_nodes_of_daemons_are_asked_at_both_ends(tmp_path: Path) -> None:
    server = Server({"n1": SUMMARY})
    first, last = record(server, tmp_path)
    assert server.listed_namespaces == ["rook-ceph", "openebs"]
    assert isinstance(first, KubeletSample)
    assert isinstance(last, KubeletSample)
    assert list(first.containers()) == ["rook-ceph/osd-0/osd"]
    assert len(first.pods) == 1, "pods of users stay out of the archive"


def test_a_kubelet_that_is_away_hides_no_other(tmp_path: Path) -> None:
    away = LeadlineError(errors.KUBERNETES_FAILED, "the cluster refuses to get nodes/proxy")
    found = record(Server({"n1": SUMMARY, "n2": away, "n3": {}}), tmp_path)
    missed = {one.node: one.reason for one in found if isinstance(one, MissedKubelet)}
    assert set(missed) == {"n2", "n3"}
    assert missed["n2"] == away.fact
    assert sum(isinstance(one, KubeletSample) for one in found) == 2


def test_a_denied_or_an_unknown_storage_is_noted_once(tmp_path: Path) -> None:
    server = Server({}, denied="this user may not list pods")
    (missed,) = record(server, tmp_path)
    assert missed.reason == "this user may not list pods"  # type: ignore[union-attr]
    assert server.listed_namespaces == ["rook-ceph"]
    (tmp_path / "b").mkdir()
    (missed,) = record(Server({}), tmp_path / "b")
    assert "no daemon of the storage runs in the namespaces rook-ceph, openebs" in missed.reason  # type: ignore[union-attr]
