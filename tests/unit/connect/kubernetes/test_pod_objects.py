"""The objects of a run, as an API server gets them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leadline.connect.kubernetes.objects import labels_of
from leadline.connect.kubernetes.pods import (
    PLATFORM,
    ROOT,
    USER,
    PodSecurity,
    PodUser,
    RunnerJob,
    build_job,
    build_namespace,
    user_of_namespace,
)
from leadline.plan.kubernetes_cluster import KubernetesCluster
from leadline.plan.volume_request import VolumeMode, VolumeRequest, volume_request

LABELS = labels_of("perf-1", "abc", 1)


def asked(
    request: VolumeRequest | None = None,
    mode: VolumeMode = VolumeMode.BLOCK,
    user: PodUser = USER,
) -> RunnerJob:
    return RunnerJob(
        name="leadline-1-fast-abc",
        namespace="ns",
        labels=LABELS,
        storage_class="fast",
        request=request or VolumeRequest(),
        mode=mode,
        size_bytes=20 << 30,
        deadline_s=3600,
        user=user,
    )


def made(runner: RunnerJob, **cluster: Any) -> dict[str, Any]:
    found: dict[str, Any] = build_job(runner, KubernetesCluster(**cluster)).to_dict()
    return found


def pod_of(found: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("mode", list(VolumeMode))
def test_a_pod_passes_the_restricted_standard_and_is_guaranteed(mode: VolumeMode) -> None:
    """kubernetes.io/docs/concepts/security/pod-security-standards, profile restricted."""
    pod = pod_of(made(asked(mode=mode), cpu=2, memory="1Gi"))
    (container,) = pod["containers"]
    security = {**pod["securityContext"], **container["securityContext"]}
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] != 0
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["seccompProfile"]["type"] == "RuntimeDefault"
    assert security["readOnlyRootFilesystem"] is True
    kinds = {key for volume in pod["volumes"] for key in volume if key != "name"}
    assert kinds <= {"emptyDir", "ephemeral"}
    resources = container["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "2", "memory": str(1 << 30)}
    assert pod["automountServiceAccountToken"] is False


def test_a_pod_of_root_says_so() -> None:
    security = pod_of(made(asked(user=ROOT)))["securityContext"]
    assert security["runAsUser"] == 0
    assert security["runAsNonRoot"] is False


USERS = "openshift.io/sa.scc.uid-range"
GROUPS = "openshift.io/sa.scc.supplemental-groups"


@pytest.mark.parametrize(
    ("annotations", "openshift", "user"),
    [
        ({}, False, USER),
        ({}, True, PLATFORM),
        ({USERS: "1000650000/10000"}, True, PodUser(1000650000, None, 1000650000)),
        (
            {USERS: "1000650000-1000659999", GROUPS: "1000700000/10000,5/3"},
            True,
            PodUser(1000650000, None, 1000700000),
        ),
        ({USERS: "everyone"}, True, PLATFORM),
        ({USERS: ""}, False, USER),
    ],
)
def test_the_user_is_the_first_of_the_namespaces_range(
    annotations: dict[str, str], openshift: bool, user: PodUser
) -> None:
    assert user_of_namespace(annotations, openshift=openshift) == user


def test_where_the_platform_chooses_the_pod_names_no_user() -> None:
    security = pod_of(made(asked(user=PLATFORM)))["securityContext"]
    assert not {"runAsUser", "runAsGroup", "fsGroup"} & security.keys()
    assert security["runAsNonRoot"] is True


def test_as_many_pods_as_volumes_at_once_and_none_is_replaced() -> None:
    spec = made(asked(volume_request({"count": "5"})))["spec"]
    assert (spec["completions"], spec["parallelism"]) == (5, 5)
    assert spec["completionMode"] == "Indexed"
    assert spec["backoffLimit"] == 0
    assert pod_of({"spec": spec})["restartPolicy"] == "Never"
    assert spec["activeDeadlineSeconds"] == 3600
    assert spec["ttlSecondsAfterFinished"] > 0


@pytest.mark.parametrize(
    ("mode", "written"), [(VolumeMode.BLOCK, "Block"), (VolumeMode.FILESYSTEM, "Filesystem")]
)
def test_each_pod_claims_a_volume_of_its_own(mode: VolumeMode, written: str) -> None:
    found = made(asked(volume_request({"access": "rwx"}), mode))
    pod = pod_of(found)
    template = next(volume for volume in pod["volumes"] if volume["name"] == "volume")["ephemeral"]
    claim = template["volumeClaimTemplate"]
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["volumeMode"] == written
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claim["spec"]["resources"]["requests"]["storage"] == str(20 << 30)
    (container,) = pod["containers"]
    block = mode is VolumeMode.BLOCK
    assert ("volumeDevices" in container) is block
    assert (
        "volume" in [volume_mount["name"] for volume_mount in container["volumeMounts"]]
    ) is not block


def test_pods_of_a_shared_volume_name_its_claim_and_belong_to_its_owner() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "o", "uid": "u"}
    runner = replace(asked(mode=VolumeMode.FILESYSTEM), claim="one", read_only=True, owner=owner)
    found = made(runner)
    assert found["metadata"]["ownerReferences"] == [owner]
    pod = pod_of(found)
    assert {"claimName": "one", "readOnly": True} in [
        volume.get("persistentVolumeClaim") for volume in pod["volumes"]
    ]
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts["volume"]["readOnly"] is True
    assert "readOnly" not in mounts["scratch"]


def test_everything_carries_the_labels_of_the_run() -> None:
    found = made(asked())
    claim = next(volume for volume in pod_of(found)["volumes"] if "ephemeral" in volume)
    labelled = (
        found["metadata"],
        found["spec"]["template"]["metadata"],
        claim["ephemeral"]["volumeClaimTemplate"]["metadata"],
    )
    assert all(LABELS.items() <= item["labels"].items() for item in labelled)


def test_a_pod_is_placed_as_the_plan_and_the_target_say() -> None:
    cluster = {
        "node_selector": {"disk": "ssd"},
        "tolerations": [{"key": "storage", "operator": "Exists", "effect": "NoSchedule"}],
        "pull_secrets": ["registry"],
        "priority_class": "high",
        "service_account": "bench",
    }
    in_zone = pod_of(made(asked(volume_request({"zone": "eu-1"})), **cluster))
    assert in_zone["nodeSelector"] == {"disk": "ssd", "topology.kubernetes.io/zone": "eu-1"}
    assert in_zone["tolerations"][0]["key"] == "storage"
    assert in_zone["imagePullSecrets"] == [{"name": "registry"}]
    assert in_zone["priorityClassName"] == "high"
    assert in_zone["serviceAccountName"] == "bench"
    on_node = pod_of(made(asked(volume_request({"node": "n1.example"}))))
    affinity = on_node["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (field,) = term["matchFields"]
    assert (field["key"], field["operator"], field["values"]) == (
        "metadata.name",
        "In",
        ["n1.example"],
    )
    assert "nodeName" not in on_node, "a scheduler must see it, for volumes that wait for a pod"


@pytest.mark.parametrize("level", PodSecurity)
def test_a_namespace_enforces_what_its_pods_keep(level: PodSecurity) -> None:
    found = build_namespace("leadline-x", LABELS, level).to_dict()
    assert found["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == level.value
    assert LABELS.items() <= found["metadata"]["labels"].items()


def test_runners_are_spread_over_nodes_or_zones_that_take_them() -> None:
    (constraint,) = pod_of(made(asked(volume_request({"spread": "zone", "count": "3"}))))[
        "topologySpreadConstraints"
    ]
    assert constraint == {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": {"leadline/token": "abc"}},
    }
    assert "topologySpreadConstraints" not in pod_of(made(asked()))


def test_a_target_may_size_its_runners_itself() -> None:
    request = volume_request({"cores": "150m", "memory": "96Mi"})
    (container,) = pod_of(made(asked(request), cpu=2, memory="1Gi"))["containers"]
    assert container["resources"]["requests"] == {"cpu": "0.15", "memory": str(96 << 20)}
    assert container["resources"]["limits"] == container["resources"]["requests"]
