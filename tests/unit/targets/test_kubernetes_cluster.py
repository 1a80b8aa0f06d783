"""The namespace of a run is made for all of its targets."""

from __future__ import annotations

from typing import Any

import pytest

from leadline.archive.records import Created
from leadline.connect.kubernetes.pods import PodSecurity
from leadline.plan.target_url import KubernetesCluster
from leadline.targets.kubernetes_cluster import OpenKubernetes

ENFORCED = "pod-security.kubernetes.io/enforce"


class _Journal:
    def __init__(self) -> None:
        self.entries: list[Created] = []

    def note_created(self, entry: Created) -> None:
        self.entries.append(entry)

    def note_removed(self, entry: Created) -> None:
        raise AssertionError("nothing is removed here")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The namespaces that were asked for."""
    found: list[Any] = []

    class Client:
        def create(self, one: Any) -> None:
            found.append(one)

    def ask(self: object, verb: str, resource: str, call: Any, **where: str) -> Any:
        assert (verb, resource) == ("create", "namespaces")
        return call(Client())

    monkeypatch.setattr("leadline.connect.kubernetes.client.Connection.ask", ask)
    return found


@pytest.mark.parametrize(
    ("needs", "level"),
    [
        ([], "restricted"),
        ([PodSecurity.BASELINE], "baseline"),
        ([PodSecurity.PRIVILEGED, PodSecurity.BASELINE], "privileged"),
        ([PodSecurity.BASELINE, PodSecurity.PRIVILEGED], "privileged"),
    ],
)
def test_as_strict_as_the_least_of_them_bears(
    made: list[Any], needs: list[PodSecurity], level: str
) -> None:
    cluster = OpenKubernetes("east", KubernetesCluster())
    for need in needs:
        cluster.register_security(need)
    journal = _Journal()
    name = cluster.enter("perf-1", journal)
    assert cluster.enter("perf-1", journal) == name
    (namespace,) = made
    assert namespace.metadata.name == name
    assert namespace.metadata.labels[ENFORCED] == level
    assert [entry.path for entry in journal.entries] == [f"kubernetes:{name}"]


def test_a_namespace_that_is_there_is_taken_as_it_is(made: list[Any]) -> None:
    cluster = OpenKubernetes("east", KubernetesCluster(namespace="mine"))
    cluster.register_security(PodSecurity.PRIVILEGED)
    assert cluster.enter("perf-1", _Journal()) == "mine"
    assert not made
    assert cluster.leave() == ()
