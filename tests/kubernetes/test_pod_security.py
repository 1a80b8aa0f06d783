"""Runner pods in a namespace that enforces the `restricted` pod security standard, from inside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kubernetes import objects
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.driving import Leadline, Manifest, applied, nothing_left, pods, space
from tests.kubernetes.test_failures import in_force, policy

RAW = "raw=storageclass:block?size=96Mi"
FILES = "files=storageclass:fast?size=96Mi"
LONG = {"defaults": {"size": "64M", "runtime": "30s", "ramp": "0s"}}
# What a process of the pod sees of its own rights, one word each.
LOOK = """
id -u
id -g
grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '[:blank:]' | tr : =
for place in / /etc /usr/bin /var; do
    if (: >"$place/leadline-was-here") 2>/dev/null; then echo "wrote=$place"; fi
done
[ ! -e /var/run/secrets/kubernetes.io ] || echo token
env | grep -c -i -e token -e secret -e password || true
"""
SEEN = [
    *("1000", "1000"),
    *("CapPrm=0000000000000000", "CapEff=0000000000000000", "CapBnd=0000000000000000"),
    *("NoNewPrivs=1", "Seccomp=2", "0"),
]


@pytest.fixture
def leadline(cluster: Cluster, tmp_path: Path) -> Leadline:
    return Leadline(cluster=cluster, folder=tmp_path)


def test_a_run_needs_no_more_than_the_restricted_standard(leadline: Leadline) -> None:
    cluster = leadline.cluster

    def running() -> list[Manifest]:
        return [pod for pod in pods(cluster) if pod["status"]["phase"] == "Running"]

    with space(cluster, "confined"):  # enforces `restricted`
        plan = leadline.plan(RAW, FILES, cluster={"namespace": "confined"}, **LONG)
        run = leadline.start("run", plan)
        run.until("both pods", lambda: len(running()) == 2)
        found = running()
        for pod in found:
            spec = pod["spec"]
            (container,) = spec["containers"]
            assert spec["automountServiceAccountToken"] is False
            assert not any(spec.get(name) for name in ("hostNetwork", "hostPID", "hostIPC"))
            assert spec["securityContext"]["runAsNonRoot"] is True
            assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            }
            name = pod["metadata"]["name"]
            seen = objects.execute(cluster, "confined", name, LOOK).stdout
            assert isinstance(seen, str)
            assert seen.split() == SEEN
        assert {"volumeDevices" in pod["spec"]["containers"][0] for pod in found} == {True, False}
        run.ended().answered()


FIRST, COUNT = 1000650000, 10000


def test_a_run_takes_the_users_of_its_namespace(leadline: Leadline) -> None:
    """OpenShift's restricted-v2 refuses users and groups outside of the namespace's range. A policy
    with that rule stands in for it: no SecurityContextConstraints are here."""
    cluster, context = leadline.cluster, "object.spec.securityContext"
    inside = " && ".join(
        f"has({context}.{field}) && {context}.{field} >= {FIRST} "
        f"&& {context}.{field} < {FIRST + COUNT}"
        for field in ("runAsUser", "fsGroup")
    )
    message = "unable to validate against any security context constraint"
    with space(cluster, "ranged"):
        annotations = {
            "openshift.io/sa.scc.uid-range": f"{FIRST}/{COUNT}",
            "openshift.io/sa.scc.supplemental-groups": f"{FIRST}/{COUNT}",
        }
        body = {"metadata": {"annotations": annotations}}
        kind = "application/merge-patch+json"
        cluster.request("/api/v1/namespaces/ranged", "PATCH", body, kind=kind)
        guard = policy("ranged", "", "pods", expression=inside, message=message)
        with applied(cluster, *guard), nothing_left(cluster):
            in_force(cluster, "ranged", "pods")
            plan = leadline.plan(RAW, FILES, cluster={"namespace": "ranged"})
            leadline("run", plan).answered()
    for path in (leadline.run / "trials").glob("*/runners.json"):
        (runner,) = json.loads(path.read_text())["runners"]
        assert runner["user"] == FIRST
    assert {trial["status"] for trial in leadline.trials()} == {"completed"}
