"""What the state of a virtual machine means to a user: why it is not there yet, or why it is lost.

Phases, conditions and printable statuses are those of `kubevirt.io/v1` (its types.go).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline import errors
from leadline.kubernetes.pods.state import Trouble
from leadline.visible import visible

Object = Mapping[str, Any]

_ENDED = ("Succeeded", "Failed")
# What a VirtualMachine says of itself that does not get better by waiting.
_FINAL = {
    "CrashLoopBackOff": "it crashes again and again",
    "DataVolumeError": "its boot disk could not be made",
}
_IMAGE = ("ErrImagePull", "ImagePullBackOff")
_AGAIN = "`leadline run --resume --retry-failed` makes a new one and goes on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Which instance it is, and where it runs: what must not change while it is measured."""

    uid: str
    node: str


def name_of(found: Object) -> str:
    return str(found.get("metadata", {}).get("name", ""))


def whereabouts(instance: Object) -> Whereabouts:
    return Whereabouts(
        uid=str(instance.get("metadata", {}).get("uid", "")),
        node=str(_status(instance).get("nodeName", "")),
    )


def running(instance: Object) -> bool:
    return bool(_status(instance).get("phase") == "Running") and lost(instance) is None


def lost(instance: Object, before: Whereabouts | None = None) -> Trouble | None:
    """Why an instance no longer does what it was made for; None while it may. `before` is what it
    was when it was made."""
    name = f"the virtual machine {name_of(instance)!r}"
    status = _status(instance)
    fact = hint = ""
    paused = _condition(instance, "Paused")
    migration = status.get("migrationState") or {}
    if status.get("phase") in _ENDED:
        fact = f"{name} ended: {_end(instance)}"
        hint = f"look at its node and at the guest's console; {_AGAIN}"
    elif instance.get("metadata", {}).get("deletionTimestamp"):
        fact = f"{name} is being deleted"
        hint = "somebody deleted it, or its node is drained"
    elif paused is not None and paused.get("status") == "True":
        fact = f"{name} is paused: {_said(paused)}"
        hint = (
            "an I/O error of its disk pauses a virtual machine; look at the health of the volume"
            if "IOError" in str(paused.get("reason"))
            else "somebody paused it; `virtctl unpause` lets it go on"
        )
    elif before is not None and before.uid != whereabouts(instance).uid:
        fact = f"{name} was replaced by another of its name"
        hint = _AGAIN
    elif before is not None and before.node != whereabouts(instance).node:
        fact = (
            f"{name} was moved from the node {before.node!r} to {whereabouts(instance).node!r}: "
            "two nodes were measured"
        )
        hint = f"keep live migrations away from the run; {_AGAIN}"
    elif migration and not migration.get("completed") and not migration.get("failed"):
        fact = f"{name} is being moved to the node {migration.get('targetNode', '')!r}"
        hint = f"keep live migrations away from the run; {_AGAIN}"
    if not fact:
        return None
    return Trouble(kind=errors.RUNNER_FAILED, fact=visible(fact), final=True, hint=hint)


def machine_trouble(machine: Object) -> Trouble | None:
    """What a VirtualMachine says against itself, before and beside its instance."""
    status = _status(machine)
    printable = str(status.get("printableStatus", ""))
    name = f"the virtual machine {name_of(machine)!r}"
    if printable in _FINAL:
        return Trouble(
            kind=errors.RUNNER_FAILED,
            fact=f"{name} cannot run: {_FINAL[printable]}",
            final=True,
            hint="look at its boot image; the words below are KubeVirt's",
        )
    if printable in _IMAGE:
        return Trouble(
            kind=errors.RUNNER_FAILED,
            fact=f"{name} gets no image for its boot disk",
            final=printable == "ImagePullBackOff",
            hint="name a container disk that the nodes can pull (`--vm-image`), or give "
            "`pull_secrets`",
        )
    failure = _condition(machine, "Failure")
    if failure is not None and failure.get("status") == "True":
        return Trouble(
            kind=errors.KUBERNETES_FAILED,
            fact=visible(f"{name} cannot be started: {_said(failure)}"),
            final=False,
            hint="the words are KubeVirt's, or of a webhook",
        )
    return None


def waiting(instance: Object) -> Trouble | None:
    """What keeps an instance from running, as far as it says so; waiting may help."""
    name = f"the virtual machine {name_of(instance)!r}"
    for kind, fact, hint in (
        (
            "PodScheduled",
            "finds no node",
            "take a smaller vm= , or other nodes (node=, zone=, node_selector, tolerations)",
        ),
        ("DataVolumesReady", "waits for its boot disk", "look at CDI's importer pod"),
        ("Synchronized", "cannot be set up", "the words are KubeVirt's"),
    ):
        condition = _condition(instance, kind)
        if condition is not None and condition.get("status") == "False":
            return Trouble(
                kind=errors.RUNNER_FAILED,
                fact=visible(f"{name} {fact}: {_said(condition)}"),
                final=False,
                hint=hint,
            )
    return None


def import_trouble(volume: Object) -> Trouble | None:
    """Why a DataVolume does not become ready, as far as it says so."""
    status = _status(volume)
    phase = status.get("phase")
    said = [
        _said(one)
        for one in _conditions(volume)
        if one.get("status") == "False" and one.get("message")
    ]
    if phase == "Succeeded" or (phase != "Failed" and not said):
        return None
    why = "; ".join(dict.fromkeys(said)) or str(phase)
    return Trouble(
        kind=errors.RUNNER_FAILED,
        fact=visible(f"the boot disk {name_of(volume)!r} is not ready: {why}"),
        final=phase == "Failed",
        hint="look at the URL or the claim that the plan's `vm: {boot: ...}` names",
    )


def conditions_told(found: Object, most: int = 6) -> list[str]:
    """The conditions of an object as lines, for the context of an error."""
    lines = [
        f"{one.get('type')} is {one.get('status')}: {_said(one)}"
        for one in _conditions(found)
        if one.get("message") or one.get("reason")
    ]
    phase = _status(found).get("phase") or _status(found).get("printableStatus")
    first = [f"{name_of(found)}: {phase}"] if phase else []
    return [visible(line) for line in (first + lines)[:most]]


def _end(instance: Object) -> str:
    status = _status(instance)
    ready = _condition(instance, "Ready") or {}
    parts = [status.get("phase"), status.get("reason"), ready.get("reason"), ready.get("message")]
    return ", ".join(dict.fromkeys(str(one) for one in parts if one))


def _status(found: Object) -> Object:
    return found.get("status") or {}


def _conditions(found: Object) -> Sequence[Object]:
    return _status(found).get("conditions") or ()


def _condition(found: Object, kind: str) -> Object | None:
    return next((one for one in _conditions(found) if one.get("type") == kind), None)


def _said(condition: Object) -> str:
    return str(condition.get("message") or condition.get("reason") or condition.get("type"))
