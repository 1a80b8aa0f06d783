"""The namespace of a run is made for all of its targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline import errors
from leadline.archive.records import Created
from leadline.connect.kubernetes.permissions import RUN_RULES, Rule
from leadline.connect.kubernetes.pods import PodSecurity
from leadline.errors import LeadlineError
from leadline.plan.kubernetes_cluster import KubernetesCluster
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


@pytest.mark.parametrize("project", ["storage-tests", ""])
def test_a_user_who_may_not_create_namespaces_is_referred_to_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, project: str
) -> None:
    context = {"cluster": "lab:6443", "user": "me", **({"namespace": project} if project else {})}
    document = {
        "clusters": [{"name": "lab:6443", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "storage-tests/lab:6443/me", "context": context}],
        "current-context": "storage-tests/lab:6443/me",
        "users": [{"name": "me", "user": {"token": "sha256~a"}}],
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))

    def is_allowed(connection: object, rule: Rule, namespace: str) -> bool:
        return rule.resource != "namespaces"

    monkeypatch.setattr("leadline.connect.kubernetes.permissions.is_allowed", is_allowed)
    with pytest.raises(LeadlineError) as caught:
        OpenKubernetes("east", KubernetesCluster(kubeconfig=str(path))).require(RUN_RULES)
    assert caught.value.kind is errors.KUBERNETES_DENIED
    hint = str(caught.value.hint)
    assert "--namespace" in hint
    assert ("for instance 'storage-tests'" in hint) is bool(project)
    named = KubernetesCluster(kubeconfig=str(path), namespace="mine")
    OpenKubernetes("east", named).require(RUN_RULES)
