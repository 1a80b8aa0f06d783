"""What the state of a pod means to a user: why it is not there yet, or why it is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lightkube.models.core_v1 import ContainerStatus
from lightkube.resources.core_v1 import Event, Pod

from leadline import errors
from leadline.errors import ErrorKind

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
    for one in status.containerStatuses or ():
        if one.state and one.state.terminated:
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
    ends = [one.state.terminated for one in status.containerStatuses or () if one.state]
    own = [one.reason for one in ends if one and one.reason not in ("Completed", "Error")]
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
    for one in status.containerStatuses or ():
        ended = one.state.terminated if one.state else None
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
    for one in statuses:
        waiting = one.state.waiting if one.state else None
        if waiting is None:
            continue
        if waiting.reason in _NO_IMAGE:
            return Trouble(
                kind=errors.RUNNER_FAILED,
                fact=f"{name} gets no image {one.image!r}: {waiting.message or waiting.reason}",
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
    return bool(statuses) and all(one.ready for one in statuses)


def told(events: Sequence[Event], most: int = 4) -> list[str]:
    """The last events of an object, the warnings first, as lines."""
    ordered = sorted(events, key=lambda one: (one.type != "Warning", -_when(one)))
    lines = [f"{one.reason}: {one.message}" for one in ordered]
    return list(dict.fromkeys(lines))[:most]


def _when(event: Event) -> float:
    for moment in (event.lastTimestamp, event.eventTime):
        if moment is not None:
            return moment.timestamp()
    return 0.0
