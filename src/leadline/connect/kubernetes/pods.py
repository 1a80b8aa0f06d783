"""What a run makes in a cluster to do I/O in pods: a namespace, and for each target one Indexed
Job, whose pods each hold a volume of their own.

The claims are generic ephemeral volumes: the Job owns its pods, and each pod its claim, so that
the garbage collector removes everything with the Job, and the Job removes itself some time after
its deadline, even where nobody comes back to clean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lightkube.models.batch_v1 import JobSpec
from lightkube.models.core_v1 import (
    Affinity,
    Capabilities,
    Container,
    ContainerStatus,
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
from lightkube.resources.core_v1 import Event, Namespace, Pod

from leadline import errors
from leadline.errors import ErrorKind
from leadline.plan.target_url import KubernetesCluster, VolumeMode, VolumeRequest

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
        Toleration(
            key=toleration.key,
            operator=toleration.operator,
            value=toleration.value,
            effect=toleration.effect,
        )
        for toleration in cluster.tolerations
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


# What the state of a pod means to a user: why it is not there yet, or why it is gone.

# What a kubelet says of an image that will not come by waiting.
_NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_BROKEN = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a pod does not run. `final`: waiting does not help. `nowhere`: no node takes it, as long
    as the cluster does not grow."""

    kind: ErrorKind
    fact: str
    final: bool
    hint: str
    nowhere: bool = False


def trouble(pod: Pod) -> Trouble | None:
    """What speaks against a pod that is to run; None where it runs or nothing is known yet."""
    return lost(pod) or _waiting(pod)


def lost(pod: Pod) -> Trouble | None:
    """Why a pod no longer does what it was made for; None while it may."""
    name = f"the pod {pod.metadata.name!r}" if pod.metadata else "the pod"
    status = pod.status
    if status is None:
        return None
    # First, since a pod that is told to end ends well.
    if pod.metadata and pod.metadata.deletionTimestamp:
        return Trouble(
            kind=errors.RUNNER_FAILED,
            fact=f"{name} is being deleted{_disruption(pod)}",
            final=True,
            hint="somebody deleted it, or its node is drained",
        )
    if status.phase in ("Failed", "Succeeded"):
        return Trouble(
            kind=errors.RUNNER_FAILED,
            fact=f"{name} ended: {_end(pod)}{_disruption(pod)}",
            final=True,
            hint=_end_hint(pod),
        )
    for container_status in status.containerStatuses or ():
        if container_status.state and container_status.state.terminated:
            return Trouble(
                kind=errors.RUNNER_FAILED,
                fact=f"{name} ended: {_end(pod)}{_disruption(pod)}",
                final=True,
                hint=_end_hint(pod),
            )
    return None


def explained(pod: Pod) -> bool:
    """Whether a pod that is lost says why. Its containers end first; who ended them, a kubelet
    that evicts for instance, stands in the pod some seconds later."""
    status = pod.status
    if status is None or (pod.metadata and pod.metadata.deletionTimestamp):
        return True
    ends = [
        container_status.state.terminated
        for container_status in status.containerStatuses or ()
        if container_status.state
    ]
    own = [end.reason for end in ends if end and end.reason not in ("Completed", "Error")]
    return bool(status.reason or _disruption(pod) or own)


def _disruption(pod: Pod) -> str:
    """Who ends it: an eviction, a drain, a scheduler that needs its place."""
    for condition in (pod.status.conditions if pod.status else None) or ():
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return f": {condition.message or condition.reason}"
    return ""


def _end(pod: Pod) -> str:
    status = pod.status
    assert status is not None
    parts = [status.reason, status.message]
    for container_status in status.containerStatuses or ():
        ended = container_status.state.terminated if container_status.state else None
        if ended:
            parts += [ended.reason, f"exit status {ended.exitCode}", ended.message]
    return ", ".join(dict.fromkeys(part for part in parts if part)) or str(status.phase)


def _end_hint(pod: Pod) -> str:
    reason = _end(pod)
    if "OOMKilled" in reason:
        return "give the runner more memory (`memory:` of the cluster in the plan)"
    if "Evicted" in reason or "evict" in reason:
        return "the node lacks something; look at its conditions, or choose another with node="
    if "StartError" in reason:
        return "the image needs fio, a shell and GNU coreutils, as Containerfile makes it"
    if "DeadlineExceeded" in reason:
        return "the run took much longer than it asked for"
    if "NodeLost" in reason or "Shutdown" in reason:
        return "look at the node"
    return "look at the pod's node and image"


def _waiting(pod: Pod) -> Trouble | None:
    name = f"the pod {pod.metadata.name!r}" if pod.metadata else "the pod"
    status = pod.status
    statuses: Sequence[ContainerStatus] = (status.containerStatuses if status else None) or ()
    for item in statuses:
        waiting = item.state.waiting if item.state else None
        if waiting is None:
            continue
        if waiting.reason in _NO_IMAGE:
            return Trouble(
                kind=errors.RUNNER_FAILED,
                fact=f"{name} gets no image {item.image!r}: {waiting.message or waiting.reason}",
                final=waiting.reason != "ErrImagePull",
                hint="name an image that the nodes can pull (`--runner-image`), give "
                "`pull_secrets`, or load it (docs/guides/kubernetes-air-gapped.md)",
            )
        if waiting.reason in _BROKEN:
            return Trouble(
                kind=errors.RUNNER_FAILED,
                fact=f"{name} cannot be started: {waiting.message or waiting.reason}",
                final=True,
                hint="the words are the kubelet's",
            )
    for condition in (status.conditions if status else None) or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return Trouble(
                kind=errors.RUNNER_FAILED,
                fact=f"{name} finds no node: {condition.message or condition.reason}",
                final=False,
                nowhere=condition.reason == "Unschedulable",
                hint="ask for less (--runner-cpu, --runner-memory, fewer targets at once), or for "
                "other nodes (node=, zone=; node_selector and tolerations in the plan)",
            )
    return None


def running(pod: Pod) -> bool:
    """Whether the pod and its container run, and nobody is deleting it."""
    status = pod.status
    if status is None or status.phase != "Running" or lost(pod):
        return False
    statuses = status.containerStatuses or ()
    return bool(statuses) and all(status.ready for status in statuses)


def told(events: Sequence[Event], most: int = 4) -> list[str]:
    """The last events of an object, the warnings first, as lines."""
    ordered = sorted(events, key=lambda event: (event.type != "Warning", -_when(event)))
    lines = [f"{item.reason}: {item.message}" for item in ordered]
    return list(dict.fromkeys(lines))[:most]


def _when(event: Event) -> float:
    for moment in (event.lastTimestamp, event.eventTime):
        if moment is not None:
            return moment.timestamp()
    return 0.0
