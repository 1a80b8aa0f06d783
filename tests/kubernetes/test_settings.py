"""Fields of a real Deployment as settings: applied, rolled out, restored, and reverted by its own
controller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kubernetes import images
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.driving import Leadline, applied, ours, space

NAMESPACE = "settings"
PATH = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/engine"


@pytest.fixture
def engine(cluster: Cluster) -> Iterator[Cluster]:
    """A Deployment of one pod that does nothing."""
    labels = {"app": "engine"}
    container = {
        "name": "main",
        "image": images.RUNNER,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", "exec sleep 3600"],
        "resources": {"limits": {"cpu": "50m", "memory": "32Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "engine", "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    with space(cluster, NAMESPACE), applied(cluster, deployment):
        ready = lambda: cluster.request(PATH).get("status", {}).get("readyReplicas") == 1  # noqa: E731
        cluster.until("the pod of the Deployment", ready)
        yield cluster


def field(path: str, *values: object) -> dict[str, Any]:
    where = {"kind": "Deployment", "api": "apps/v1", "namespace": NAMESPACE, "name": "engine"}
    return {"kubernetes": {**where, "path": path, "values": list(values)}}


def test_a_field_is_rolled_out_restored_and_refused_where_a_controller_reverts_it(
    engine: Cluster, tmp_path: Any
) -> None:
    leadline = Leadline(cluster=engine, folder=tmp_path)
    before = engine.request(PATH)
    settings = {
        "replicas": field("spec.replicas", 2),
        "note": field("/metadata/annotations/example.org~1note", "a"),
        # The controller of Deployments owns this annotation.
        "revision": field("/metadata/annotations/deployment.kubernetes.io~1revision", 7),
    }
    plan = leadline.plan(
        "files=storageclass:fast?size=32Mi",
        defaults={"size": "4M", "runtime": "1s", "ramp": "0s"},
        settings=settings,
    )
    leadline("run", plan).failed("setting-not-consented", 2)
    consents = [word for name in settings for word in ("--restart-daemons", name)]
    ended = leadline("run", plan, *consents).failed("setting-not-applied", 4)
    assert "an operator or webhook sets this field" in ended.err
    status = {trial["target"].partition(" ")[2]: trial["status"] for trial in leadline.trials()}
    assert status == {
        "": "completed",
        "replicas=2": "completed",
        "note=a": "completed",
        "revision=7": "failed",
    }
    steps = [
        json.loads(line) for line in (leadline.run / "settings.jsonl").read_text().splitlines()
    ]
    read = {step["setting"]: step["read"] for step in steps if step["step"] == "applied"}
    assert read == {"replicas": "2", "note": "a"}
    after = engine.request(PATH)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert ours(engine) == []


def test_a_field_that_cannot_be_changed_is_refused_before_the_run(
    cluster: Cluster, tmp_path: Any
) -> None:
    leadline = Leadline(cluster=cluster, folder=tmp_path)
    for setting, fact in (
        (field("spec.replicas", 2), "there is no Deployment settings/engine"),
        ({**field("a", 1)["kubernetes"], "kind": "Engine"}, "the cluster serves no Engine"),
    ):
        written = setting if "kubernetes" in setting else {"kubernetes": setting}
        plan = leadline.plan("files=storageclass:fast?size=96Mi", settings={"own": written})
        ended = leadline("run", plan, "--restart-daemons", "own")
        ended.failed("setting-invalid", 2)
        assert fact in ended.err
    assert not leadline.runs.exists() or not list(leadline.runs.iterdir())
