"""What a run makes in a cluster to do I/O in pods: a namespace, and for each target one Indexed
Job, whose pods each hold a volume of their own.

The claims are generic ephemeral volumes: the Job owns its pods, and each pod its claim, so that
the garbage collector removes everything with the Job, and the Job removes itself some time after
its deadline, even where nobody comes back to clean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lightkube.models.batch_v1 import JobSpec
from lightkube.models.core_v1 import (
    Affinity,
    Capabilities,
    Container,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    LocalObjectReference,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    PodSecurityContext,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    SeccompProfile,
    SecurityContext,
    Toleration,
    Volume,
    VolumeDevice,
    VolumeMount,
    VolumeResourceRequirements,
)
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Namespace

from leadline.plan.kubernetes import KubernetesCluster
from leadline.plan.volume_request import VolumeMode, VolumeRequest

CONTAINER = "runner"
DEVICE = "/dev/leadline"
MOUNT = "/leadline/volume"
SCRATCH = "/leadline/scratch"
USER = 1000
ROOT = 0
# fio's json+ of many jobs and its logs are a few MB.
_SCRATCH_SIZE = "256Mi"
# A Job that nobody removed is removed by the cluster itself so long after its end.
_KEPT_S = 600
# It does nothing but end at once when it is told to, as one that a signal ended: a pod that is put
# out must not count as having done its work. The work comes by exec.
_IDLE = "trap 'exit 143' TERM INT; while :; do sleep 3600 & wait $!; done"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerJob:
    """One target's pods. `size_bytes` is of each volume; `deadline_s` ends the pods by itself;
    `user` is who does the I/O: root only where a raw block device is root's in the pod."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    storage_class: str
    request: VolumeRequest
    mode: VolumeMode
    size_bytes: int
    deadline_s: int
    user: int


class PodSecurity(StrEnum):
    """The pod security standards, the strictest first."""

    RESTRICTED = "restricted"
    BASELINE = "baseline"
    PRIVILEGED = "privileged"


def namespace(name: str, labels: Mapping[str, str], security_level: PodSecurity) -> Namespace:
    """A namespace of a run, in which a pod security standard is enforced."""
    security = {"pod-security.kubernetes.io/enforce": security_level.value}
    return Namespace(metadata=ObjectMeta(name=name, labels={**labels, **security}))


def job(asked: RunnerJob, cluster: KubernetesCluster) -> Job:
    """The Job of a target: as many pods as volumes, all at once, none of them ever replaced."""
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=dict(asked.labels)), spec=_pod(asked, cluster)
    )
    return Job(
        metadata=ObjectMeta(name=asked.name, namespace=asked.namespace, labels=dict(asked.labels)),
        spec=JobSpec(
            completionMode="Indexed",
            completions=asked.request.count,
            parallelism=asked.request.count,
            backoffLimit=0,
            activeDeadlineSeconds=asked.deadline_s,
            ttlSecondsAfterFinished=_KEPT_S,
            template=template,
        ),
    )


def _pod(asked: RunnerJob, cluster: KubernetesCluster) -> PodSpec:
    return PodSpec(
        restartPolicy="Never",
        terminationGracePeriodSeconds=10,
        automountServiceAccountToken=False,
        enableServiceLinks=False,
        # It asks for no name; a node without a DNS of the cluster would warn of that at each pod.
        dnsPolicy="Default",
        serviceAccountName=cluster.service_account,
        imagePullSecrets=[LocalObjectReference(name=name) for name in cluster.pull_secrets] or None,
        nodeSelector=node_selector(asked.request, cluster) or None,
        affinity=_on(asked.request.node),
        tolerations=tolerations(cluster) or None,
        priorityClassName=cluster.priority_class,
        securityContext=PodSecurityContext(
            runAsNonRoot=asked.user != ROOT,
            runAsUser=asked.user,
            runAsGroup=asked.user,
            fsGroup=asked.user,
            fsGroupChangePolicy="OnRootMismatch",
            seccompProfile=SeccompProfile(type="RuntimeDefault"),
        ),
        containers=[_container(asked, cluster)],
        volumes=[
            Volume(name="scratch", emptyDir=EmptyDirVolumeSource(sizeLimit=_SCRATCH_SIZE)),
            Volume(
                name="volume",
                ephemeral=EphemeralVolumeSource(
                    volumeClaimTemplate=PersistentVolumeClaimTemplate(
                        metadata=ObjectMeta(labels=dict(asked.labels)), spec=claim(asked)
                    )
                ),
            ),
        ],
    )


def _container(asked: RunnerJob, cluster: KubernetesCluster) -> Container:
    # Requests equal to limits make the pod Guaranteed: it neither lends nor borrows.
    resources = {"cpu": f"{cluster.cpu:g}", "memory": str(cluster.memory)}
    block = asked.mode is VolumeMode.BLOCK
    mounts = [VolumeMount(name="scratch", mountPath=SCRATCH)]
    if not block:
        mounts.append(VolumeMount(name="volume", mountPath=MOUNT))
    return Container(
        name=CONTAINER,
        image=cluster.image,
        imagePullPolicy=cluster.pull_policy,
        command=["/bin/sh", "-c", _IDLE],
        workingDir=SCRATCH,
        resources=ResourceRequirements(requests=dict(resources), limits=dict(resources)),
        securityContext=SecurityContext(
            allowPrivilegeEscalation=False,
            capabilities=Capabilities(drop=["ALL"]),
            readOnlyRootFilesystem=True,
        ),
        volumeMounts=mounts,
        volumeDevices=[VolumeDevice(name="volume", devicePath=DEVICE)] if block else None,
    )


def claim(asked: RunnerJob) -> PersistentVolumeClaimSpec:
    """The claim of one volume."""
    return PersistentVolumeClaimSpec(
        accessModes=[asked.request.access.kubernetes],
        storageClassName=asked.storage_class,
        volumeMode="Block" if asked.mode is VolumeMode.BLOCK else "Filesystem",
        resources=VolumeResourceRequirements(requests={"storage": str(asked.size_bytes)}),
    )


def node_selector(request: VolumeRequest, cluster: KubernetesCluster) -> dict[str, str]:
    """Labels of the nodes that may run it."""
    zone = {"topology.kubernetes.io/zone": request.zone} if request.zone else {}
    return {**cluster.node_selector, **zone}


def tolerations(cluster: KubernetesCluster) -> list[Toleration]:
    return [
        Toleration(key=one.key, operator=one.operator, value=one.value, effect=one.effect)
        for one in cluster.tolerations
    ]


def _on(node: str) -> Affinity | None:
    """On the node of that name, which is not always the value of its label `hostname`, and by the
    scheduler, which alone starts volumes that wait for their first consumer."""
    if not node:
        return None
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=[node])
    return Affinity(
        nodeAffinity=NodeAffinity(
            requiredDuringSchedulingIgnoredDuringExecution=NodeSelector(
                nodeSelectorTerms=[NodeSelectorTerm(matchFields=[field])]
            )
        )
    )
