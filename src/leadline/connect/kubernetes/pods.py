"""Pods that do a run's I/O in a Kubernetes cluster: one Indexed Job per target, one volume per pod.

The claims are generic ephemeral volumes: the Job owns its pods, each pod owns its claim. The
garbage collector removes everything with the Job, and the cluster removes the Job some time after
its deadline. Pods that share a volume name its claim instead.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from lightkube import ApiError
from lightkube.models.batch_v1 import JobSpec
from lightkube.models.core_v1 import (
    Affinity,
    Capabilities,
    Container,
    ContainerStateTerminated,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    LocalObjectReference,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    PersistentVolumeClaimVolumeSource,
    PodSecurityContext,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    SeccompProfile,
    SecurityContext,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    VolumeDevice,
    VolumeMount,
    VolumeResourceRequirements,
)
from lightkube.models.meta_v1 import ObjectMeta, OwnerReference
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Namespace, Pod

from leadline import errors
from leadline.connect.kubernetes.client import Connection
from leadline.connect.kubernetes.objects import (
    TOKEN,
    Problem,
    RunnerGroup,
    await_running,
    create_object,
    format_events,
    list_labelled,
)
from leadline.errors import LeadlineError
from leadline.plan.kubernetes_cluster import KubernetesCluster
from leadline.plan.volume_request import Spread, VolumeMode, VolumeRequest

TOPOLOGY_KEYS = {Spread.NODE: "kubernetes.io/hostname", Spread.ZONE: "topology.kubernetes.io/zone"}
CONTAINER = "runner"
DEVICE = "/dev/leadline"
MOUNT = "/leadline/volume"
SCRATCH = "/leadline/scratch"
# fio's json+ of many jobs and its logs are a few MB.
_SCRATCH_SIZE = "256Mi"
# The cluster removes a Job that Leadline could not remove this long after its end.
_KEPT_S = 600
# The container waits for exec. A signal ends it with a failure: an evicted pod must not succeed.
_IDLE = "trap 'exit 143' TERM INT; while :; do sleep 3600 & wait $!; done"

# An unschedulable pod fails the target after this, unless an autoscaler adds a node.
UNSCHEDULABLE_S = 60.0
_INDEX = "batch.kubernetes.io/job-completion-index"
_UNCLAIMED = "waiting for ephemeral volume controller"
# The scheduler's messages for a claim that is not bound or not created. They stay while the pod
# waits for the volume on its node.
_UNBOUND = "unbound immediate PersistentVolumeClaims"
_VOLUME_WAITS = (_UNBOUND, "v1.PersistentVolumeClaim", _UNCLAIMED)
# Events of a pod for which a node is being created: by the Cluster Autoscaler, by Karpenter.
_SCALING = ("TriggeredScaleUp", "Nominated")
# Reasons of a kubelet without an image.
_IMAGE_ERRORS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_CONTAINER_ERRORS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


@dataclass(frozen=True, slots=True)
class PodUser:
    """The user and groups of a pod. None: the platform chooses, as OpenShift does from the range of
    the namespace."""

    user: int | None
    group: int | None
    volumes: int | None


USER = PodUser(1000, 1000, 1000)
ROOT = PodUser(0, 0, 0)
PLATFORM = PodUser(None, None, None)
# OpenShift's annotations of a namespace: `FIRST/COUNT` or `FIRST-LAST`; groups may be several.
_USERS = "openshift.io/sa.scc.uid-range"
_GROUPS = "openshift.io/sa.scc.supplemental-groups"
_RANGE = re.compile(r"\s*(\d+)[/-]\d+")
SCC_GROUP = "security.openshift.io"


def user_of_namespace(annotations: Mapping[str, str], *, openshift: bool) -> PodUser:
    """Return the user that a namespace allows: the first of its range. OpenShift's restricted-v2
    refuses every other, and chooses where a pod names none."""
    users = _RANGE.match(annotations.get(_USERS, ""))
    groups = _RANGE.match(annotations.get(_GROUPS, "")) or users
    if users is None or groups is None:
        return PLATFORM if openshift else USER
    return PodUser(int(users[1]), None, int(groups[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerJob:
    """Request for the pods of one target. `size_bytes` is the size of each volume.

    The cluster ends the pods after `deadline_s`. `user` does the I/O: root only where the raw block
    device belongs to root in the pod. With `claim` all pods use the volume of that claim. `owner`
    is a reference to the object that the Job belongs to.
    """

    name: str
    namespace: str
    labels: Mapping[str, str]
    storage_class: str
    request: VolumeRequest
    mode: VolumeMode
    size_bytes: int
    deadline_s: int
    user: PodUser
    claim: str = ""
    read_only: bool = False
    owner: Mapping[str, Any] | None = None


class PodSecurity(StrEnum):
    RESTRICTED = "restricted"
    BASELINE = "baseline"
    PRIVILEGED = "privileged"


def build_namespace(name: str, labels: Mapping[str, str], security_level: PodSecurity) -> Namespace:
    """Return the namespace of a run with an enforced pod security standard."""
    security = {"pod-security.kubernetes.io/enforce": security_level.value}
    return Namespace(metadata=ObjectMeta(name=name, labels={**labels, **security}))


def build_job(runner: RunnerJob, cluster: KubernetesCluster) -> Job:
    """Return the Job of a target: `count` pods, all at once, none replaced."""
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=dict(runner.labels)), spec=_pod(runner, cluster)
    )
    owners = [OwnerReference(**runner.owner)] if runner.owner else None
    return Job(
        metadata=ObjectMeta(
            name=runner.name,
            namespace=runner.namespace,
            labels=dict(runner.labels),
            ownerReferences=owners,
        ),
        spec=JobSpec(
            completionMode="Indexed",
            completions=runner.request.count,
            parallelism=runner.request.count,
            backoffLimit=0,
            activeDeadlineSeconds=runner.deadline_s,
            ttlSecondsAfterFinished=_KEPT_S,
            template=template,
        ),
    )


def _pod(runner: RunnerJob, cluster: KubernetesCluster) -> PodSpec:
    affinity = node_affinity(runner.request.node)
    return PodSpec(
        restartPolicy="Never",
        terminationGracePeriodSeconds=10,
        automountServiceAccountToken=False,
        enableServiceLinks=False,
        # The pod resolves no names; a node without a cluster DNS would warn at each pod.
        dnsPolicy="Default",
        serviceAccountName=cluster.service_account,
        imagePullSecrets=[LocalObjectReference(name=name) for name in cluster.pull_secrets] or None,
        nodeSelector=node_selector(runner.request, cluster) or None,
        affinity=cast(Affinity, Affinity.from_dict(affinity)) if affinity else None,
        topologySpreadConstraints=[
            cast(TopologySpreadConstraint, TopologySpreadConstraint.from_dict(constraint))
            for constraint in spread_constraints(runner.request, runner.labels)
        ]
        or None,
        tolerations=[Toleration(**toleration.model_dump()) for toleration in cluster.tolerations]
        or None,
        priorityClassName=cluster.priority_class,
        securityContext=PodSecurityContext(
            runAsNonRoot=runner.user != ROOT,
            runAsUser=runner.user.user,
            runAsGroup=runner.user.group,
            fsGroup=runner.user.volumes,
            fsGroupChangePolicy="OnRootMismatch",
            seccompProfile=SeccompProfile(type="RuntimeDefault"),
        ),
        containers=[_container(runner, cluster)],
        volumes=[
            Volume(name="scratch", emptyDir=EmptyDirVolumeSource(sizeLimit=_SCRATCH_SIZE)),
            _volume(runner),
        ],
    )


def _volume(runner: RunnerJob) -> Volume:
    """Return the volume of a pod: that of the claim of all pods, or one of its own."""
    if runner.claim:
        return Volume(
            name="volume",
            persistentVolumeClaim=PersistentVolumeClaimVolumeSource(
                claimName=runner.claim, readOnly=runner.read_only or None
            ),
        )
    spec = claim_spec(runner.request, runner.storage_class, runner.size_bytes, runner.mode)
    template = PersistentVolumeClaimTemplate(
        metadata=ObjectMeta(labels=dict(runner.labels)), spec=spec
    )
    return Volume(name="volume", ephemeral=EphemeralVolumeSource(volumeClaimTemplate=template))


def _container(runner: RunnerJob, cluster: KubernetesCluster) -> Container:
    # Requests equal to limits make the pod Guaranteed.
    size = runner.request.runner_size(cluster)
    resources = {"cpu": f"{size.cores:g}", "memory": str(size.memory_bytes)}
    block = runner.mode is VolumeMode.BLOCK
    mounts = [VolumeMount(name="scratch", mountPath=SCRATCH)]
    if not block:
        mounts.append(
            VolumeMount(name="volume", mountPath=MOUNT, readOnly=runner.read_only or None)
        )
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


def claim_spec(
    request: VolumeRequest, storage_class: str, size_bytes: int, mode: VolumeMode
) -> PersistentVolumeClaimSpec:
    return PersistentVolumeClaimSpec(
        accessModes=[request.access.kubernetes],
        storageClassName=storage_class,
        volumeMode="Block" if mode is VolumeMode.BLOCK else "Filesystem",
        resources=VolumeResourceRequirements(requests={"storage": str(size_bytes)}),
    )


def node_selector(request: VolumeRequest, cluster: KubernetesCluster) -> dict[str, str]:
    zone = {"topology.kubernetes.io/zone": request.zone} if request.zone else {}
    return {**cluster.node_selector, **zone}


def node_affinity(node: str) -> dict[str, Any]:
    """Return the affinity to the node of that name, which may differ from its label `hostname`.
    The scheduler must place the pod: only it starts volumes that wait for their first consumer."""
    if not node:
        return {}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [field]}]
            }
        }
    }


def spread_constraints(request: VolumeRequest, labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the constraint that spreads the runners of one target evenly; empty without a spread.
    Nodes that the runners do not tolerate do not count."""
    if not request.spread:
        return []
    return [
        {
            "maxSkew": 1,
            "topologyKey": TOPOLOGY_KEYS[request.spread],
            "whenUnsatisfiable": "DoNotSchedule",
            "nodeTaintsPolicy": "Honor",
            "labelSelector": {"matchLabels": {TOKEN: labels[TOKEN]}},
        }
    ]


def find_problem(pod: Pod) -> Problem | None:
    """Return why a pod does not run; None where it runs or no reason is known."""
    return find_loss(pod) or _waiting(pod)


def find_loss(pod: Pod) -> Problem | None:
    """Return why a pod is lost; None while it may work."""
    name = f"the pod {pod.metadata.name!r}" if pod.metadata else "the pod"
    status = pod.status
    if status is None:
        return None
    # Checked first: a deleted pod may end with success.
    if pod.metadata and pod.metadata.deletionTimestamp:
        return Problem(
            f"{name} is being deleted{_disruption(pod)}",
            hint="a user deleted it, or its node is drained",
        )
    if status.phase in ("Failed", "Succeeded") or _ends(pod):
        end = f"{_format_end(pod)}{_disruption(pod)}"
        return Problem(f"{name} ended: {end}", hint=_end_hint(pod))
    return None


def states_reason(pod: Pod) -> bool:
    """Return whether a lost pod states the reason. Its containers end some seconds before the
    status names, for example, an eviction."""
    status = pod.status
    if status is None or (pod.metadata and pod.metadata.deletionTimestamp):
        return True
    own = [end.reason for end in _ends(pod) if end.reason not in ("Completed", "Error")]
    return bool(status.reason or _disruption(pod) or own)


def _ends(pod: Pod) -> list[ContainerStateTerminated]:
    statuses = (pod.status.containerStatuses if pod.status else None) or ()
    states = (container.state.terminated for container in statuses if container.state)
    return [end for end in states if end is not None]


def _disruption(pod: Pod) -> str:
    """Return the cause of a disruption: an eviction, a drain, a preemption."""
    for condition in (pod.status.conditions if pod.status else None) or ():
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return f": {condition.message or condition.reason}"
    return ""


def _format_end(pod: Pod) -> str:
    status = pod.status
    assert status is not None
    parts = [status.reason, status.message]
    for end in _ends(pod):
        parts += [end.reason, f"exit status {end.exitCode}", end.message]
    return ", ".join(dict.fromkeys(part for part in parts if part)) or str(status.phase)


def _end_hint(pod: Pod) -> str:
    reason = _format_end(pod)
    if "OOMKilled" in reason:
        return "give the runner more memory (--runner-memory, or `memory:` of the plan's cluster)"
    if "Evicted" in reason or "evict" in reason:
        return "the node lacks something; look at its conditions, or choose another with node="
    if "StartError" in reason:
        return "the image needs fio, a shell and GNU coreutils, as Containerfile makes it"
    if "DeadlineExceeded" in reason:
        return "the run took much longer than it asked for"
    if "NodeLost" in reason or "Shutdown" in reason:
        return "look at the node"
    return "look at the pod's node and image"


def _waiting(pod: Pod) -> Problem | None:
    name = f"the pod {pod.metadata.name!r}" if pod.metadata else "the pod"
    status = pod.status
    for container in (status.containerStatuses if status else None) or ():
        waiting = container.state.waiting if container.state else None
        if waiting is None:
            continue
        if waiting.reason in _IMAGE_ERRORS:
            return Problem(
                f"{name} gets no image {container.image!r}: {waiting.message or waiting.reason}",
                final=waiting.reason != "ErrImagePull",
                hint="name an image that the nodes can pull (`--runner-image`), give "
                "`pull_secrets`, or load it (docs/guides/kubernetes-air-gapped.md)",
            )
        if waiting.reason in _CONTAINER_ERRORS:
            return Problem(
                f"{name} cannot be started: {waiting.message or waiting.reason}",
                hint="the message is from the kubelet",
            )
    for condition in (status.conditions if status else None) or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return Problem(
                f"{name} finds no node: {condition.message or condition.reason}",
                final=False,
                unschedulable=condition.reason == "Unschedulable",
                hint="ask for less (--runner-cpu, --runner-memory, fewer targets at once), or for "
                "other nodes (node=, zone=; node_selector and tolerations in the plan)",
            )
    return None


def is_running(pod: Pod) -> bool:
    """Return whether the pod and its container run and it is not being deleted."""
    status = pod.status
    if status is None or status.phase != "Running" or find_loss(pod):
        return False
    statuses = status.containerStatuses or ()
    return bool(statuses) and all(status.ready for status in statuses)


def user_of(pod: Pod) -> int | None:
    """Return the uid that the pod's specification names, also where the platform added it."""
    spec = pod.spec
    contexts = [item.securityContext for item in spec.containers] if spec else []
    contexts.append(spec.securityContext if spec else None)  # type: ignore[arg-type]
    return next((item.runAsUser for item in contexts if item and item.runAsUser is not None), None)


def pods_of(connection: Connection, namespace: str, token: str) -> list[Pod]:
    """List the pods that carry a token, by index."""

    def index(pod: Pod) -> int:
        annotations = (pod.metadata.annotations if pod.metadata else None) or {}
        return int(annotations.get(_INDEX, "0"))

    return sorted(list_labelled(connection, Pod, "pods", namespace, token), key=index)


def create_job(connection: Connection, job: Job, namespace: str) -> None:
    """Create a Job. Raises LeadlineError(`target-invalid`) where the namespace does not exist, and
    as Connection.ask."""
    try:
        create_object(connection, "jobs.batch", job, namespace)
    except ApiError as error:
        if error.status.code != 404:
            raise
        raise LeadlineError(
            errors.TARGET_INVALID,
            f"the cluster {connection.context} has no namespace {namespace!r}",
            hint="create it, or omit --namespace: a run then creates its own",
        ) from error


def await_pods(group: RunnerGroup, job: str) -> tuple[Pod, ...]:
    """Wait for the pods of a Job and return them. Raises LeadlineError: `volume-pending`,
    `runner-failed`, `quota-exceeded`, `kubernetes-failed`."""
    return await_running(group, _Pods(group, job))


class _Pods:
    is_running = staticmethod(is_running)

    def __init__(self, group: RunnerGroup, job: str) -> None:
        self._group = group
        self._job = job
        self._give_up = time.monotonic() + UNSCHEDULABLE_S

    def list_runners(self) -> list[Pod]:
        return pods_of(self._group.connection, self._group.namespace, self._group.token)

    def check(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            problem = find_problem(pod)
            if problem is None:
                continue
            late = (
                problem.unschedulable
                and not _waits_for_claim(pod)
                # A class that binds at once: the events of the claim say more, and `ready` bounds.
                and _UNBOUND not in problem.fact
                and time.monotonic() > self._give_up
            )
            if problem.final or (late and not self._is_scaling_up(pod)):
                raise self._error(problem, pod)
        refusal = self._refusal(pods)
        if refusal is not None and (refusal.final or time.monotonic() > self._give_up):
            raise refusal

    def timeout_error(self, pods: Sequence[Pod]) -> LeadlineError:
        """Return the refusal, else the scheduler's reason, else the pending volume."""
        refusal = self._refusal(pods)
        if refusal is not None:
            return refusal
        for pod in pods:
            problem = find_problem(pod)
            if problem is not None and not any(text in problem.fact for text in _VOLUME_WAITS):
                return self._error(problem, pod)
        pending = self._group.pending_claim_error()
        if pending is not None:
            return pending
        waiting = [pod for pod in pods if not is_running(pod)]
        name = str(waiting[0].metadata.name) if waiting and waiting[0].metadata else self._job
        return LeadlineError(
            errors.RUNNER_FAILED,
            f"the pods of the job {self._job!r} do not run after {self._group.bound_s:g} s",
            context=format_events(self._group.events(name)),
            hint=f"look with `kubectl -n {self._group.namespace} describe pod {name}`",
        )

    def _error(self, problem: Problem, pod: Pod) -> LeadlineError:
        events = self._group.events(str(pod.metadata.name if pod.metadata else None))
        return problem.with_context(format_events(events))

    def _is_scaling_up(self, pod: Pod) -> bool:
        name = str(pod.metadata.name) if pod.metadata else ""
        return any(event.reason in _SCALING for event in self._group.events(name))

    def _refusal(self, pods: Sequence[Pod]) -> Problem | None:
        """Return why the API server refuses a pod of the Job, or the claim of a pod: by the events
        of a Job that lacks pods, and of pods that lack a claim."""
        lacking = [(self._job, "FailedCreate", "pod")] if len(pods) < self._group.count else []
        lacking += [
            (str(pod.metadata.name), "FailedBinding", "volume claim")
            for pod in pods
            if pod.metadata and _waits_for_claim(pod)
        ]
        for name, reason, what in lacking:
            for event in self._group.events(name):
                if event.reason == reason:
                    found = _read_refusal(self._group.namespace, what, event.message or "")
                    if found is not None:
                        return found
        return None


def _read_refusal(namespace: str, what: str, message: str) -> Problem | None:
    if "exceeded quota" in message:
        return Problem(
            f"a quota of the namespace {namespace!r} does not allow the runner's {what}",
            kind=errors.QUOTA_EXCEEDED,
            context=[message],
            hint="use a smaller size, count, cpu or memory, or have the quota raised",
        )
    # A new namespace gets its accounts shortly after; a webhook that does not answer may come back.
    later = "failed calling webhook" in message or "service account" in message
    if not later and not any(word in message for word in ("forbidden", "denied", "admission")):
        return None
    hint = "the message is from the API server, or from a webhook that it calls"
    if "security context constraint" in message:
        hint = (
            "a raw block device may need root on this cluster: use mode=filesystem, or have an "
            "administrator apply deploy/openshift/scc.yaml"
        )
    return Problem(
        f"the cluster does not admit the runner's {what}",
        kind=errors.KUBERNETES_FAILED,
        context=[message],
        hint=hint,
        final=not later,
    )


def _waits_for_claim(pod: Pod) -> bool:
    """Return whether the controller has not created the pod's claim yet."""
    problem = find_problem(pod)
    return problem is not None and _UNCLAIMED in problem.fact
