"""The journal of a storm of volumes: its lines, and the last state of every object."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from leadline.connect.kubernetes.lifecycle import finalizers
from leadline.connect.kubernetes.machines import find_loss, find_wait
from leadline.formats.volume_lifecycle import Kind, Line, Role, Seen
from leadline.inventory.kubernetes.kinds import parse_quantity

# On every object of a storm: `new-3`, its role and number. The pods of machines inherit it.
VOLUME_LABEL = "leadline/volume"
Key = tuple[Kind, Role, int]
Facts = dict[str, str | int | bool]


class Journal:
    """The lines of a trial, and the last state of every object; threads wait for its changes."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")
        self.changed = threading.Condition()
        self.began = time.monotonic()
        self.facts: dict[Key, Facts] = {}
        self.gone: set[Key] = set()
        self.names: dict[str, tuple[Role, int]] = {}
        self.volumes: dict[str, tuple[Role, int]] = {}
        # The names of objects that the cluster names.
        self.objects: dict[Key, str] = {}
        self._attachments: dict[str, list[tuple[float, str, Facts]]] = {}

    def now(self) -> float:
        return round(time.monotonic() - self.began, 6)

    def write(self, line: Line) -> None:
        with self.changed:
            if not self._file.closed:
                self._file.write(line.text())
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self._file.close()

    def see(self, kind: Kind, change: str, found: Mapping[str, Any]) -> None:
        """Take what a watch reports of an object."""
        at, metadata = self.now(), found.get("metadata") or {}
        name, spec = str(metadata.get("name")), found.get("spec") or {}
        facts = _FACTS[kind](found)
        if metadata.get("finalizers") and metadata.get("deletionTimestamp"):
            facts["finalizers"] = ",".join(finalizers(found))
        with self.changed:
            if kind is Kind.VOLUME:
                claim = str((spec.get("claimRef") or {}).get("name"))
                owner = self.names.get(claim)
                if owner is not None:
                    self.volumes[name] = owner
                    self.objects[kind, *owner] = name
            elif kind is Kind.ATTACHMENT:
                volume = str((spec.get("source") or {}).get("persistentVolumeName"))
                owner = self.volumes.get(volume)
                if owner is None:  # the watch of volumes may be behind
                    self._attachments.setdefault(volume, []).append((at, change, facts))
            else:
                owner = self.names.get(name) or self._launched(kind, metadata)
                if kind is Kind.CLAIM and owner is not None and spec.get("volumeName"):
                    # Before the volume itself where the watch of volumes is behind.
                    self.volumes[str(spec["volumeName"])] = owner
                    self.objects[Kind.VOLUME, *owner] = str(spec["volumeName"])
                if owner is not None and name not in self.names:
                    self.objects[kind, *owner] = name
            if owner is None:
                return
            self.note(kind, owner, at, change, facts)
            if kind is Kind.VOLUME:
                for earlier in self._attachments.pop(name, ()):
                    self.note(Kind.ATTACHMENT, owner, *earlier)

    def _launched(self, kind: Kind, metadata: Mapping[str, Any]) -> tuple[Role, int] | None:
        """Return the volume of the virtual machine that a launcher pod belongs to."""
        if kind is not Kind.POD:
            return None
        labels = metadata.get("labels") or {}
        role, _, number = str(labels.get(VOLUME_LABEL, "")).rpartition("-")
        if labels.get("kubevirt.io") != "virt-launcher" or not number.isdecimal():
            return None
        owner = (Role(role), int(number))
        return owner if owner in self.names.values() else None

    def note(
        self, kind: Kind, owner: tuple[Role, int], at: float, change: str, facts: Facts
    ) -> None:
        key = (kind, *owner)
        deleted = change == "deleted"
        if deleted == (key in self.gone) and self.facts.get(key) == facts:
            return
        new = "deleted" if deleted else "modified" if key in self.facts else "added"
        self.facts[key] = facts
        (self.gone.add if deleted else self.gone.discard)(key)
        role, volume = owner
        self.write(
            Seen(
                line="seen",
                at_s=at,
                role=role,
                volume=volume,
                kind=kind,
                change=new,
                facts=facts,
            )
        )


def _claim_facts(found: Mapping[str, Any]) -> Facts:
    status = found.get("status") or {}
    annotations = (found.get("metadata") or {}).get("annotations") or {}
    facts: Facts = {
        "phase": str(status.get("phase", "")),
        "node_selected": "volume.kubernetes.io/selected-node" in annotations,
    }
    capacity = parse_quantity(str((status.get("capacity") or {}).get("storage", "")))
    if capacity is not None:
        facts["capacity_bytes"] = int(capacity)
    return facts


def _pod_facts(found: Mapping[str, Any]) -> Facts:
    status = found.get("status") or {}
    states = [item.get("state") or {} for item in status.get("containerStatuses") or ()]
    waiting = [state["waiting"].get("message") for state in states if state.get("waiting")]
    facts: Facts = {
        "phase": str(status.get("phase", "")),
        "node": str((found.get("spec") or {}).get("nodeName") or ""),
        "running": bool(states) and all("running" in state for state in states),
        "uid": str((found.get("metadata") or {}).get("uid", "")),
    }
    if waiting and waiting[0]:
        facts["error"] = str(waiting[0])
    return facts


def _machine_facts(found: Mapping[str, Any]) -> Facts:
    """Transitions are times of the API server in whole seconds, which no stage depends on."""
    status = found.get("status") or {}
    conditions = {str(one.get("type")): one for one in status.get("conditions") or ()}
    facts: Facts = {
        "phase": str(status.get("phase", "")),
        "node": str(status.get("nodeName", "")),
        "uid": str((found.get("metadata") or {}).get("uid", "")),
        "agent": (conditions.get("AgentConnected") or {}).get("status") == "True",
    }
    transitions = status.get("phaseTransitionTimestamps") or ()
    if transitions:
        facts["transitions"] = " ".join(
            f"{one.get('phase')}={one.get('phaseTransitionTimestamp')}" for one in transitions
        )
    problem = find_loss(found) or find_wait(found)
    if problem is not None:
        facts["error"] = problem.fact
    return facts


def _snapshot_facts(found: Mapping[str, Any]) -> Facts:
    status = found.get("status") or {}
    facts: Facts = {"ready": status.get("readyToUse") is True}
    if status.get("error"):
        facts["error"] = str((status["error"] or {}).get("message"))
    return facts


def _volume_facts(found: Mapping[str, Any]) -> Facts:
    return {"phase": str((found.get("status") or {}).get("phase", ""))}


def _attachment_facts(found: Mapping[str, Any]) -> Facts:
    return {"attached": (found.get("status") or {}).get("attached") is True}


_FACTS: Mapping[Kind, Callable[[Mapping[str, Any]], Facts]] = {
    Kind.CLAIM: _claim_facts,
    Kind.POD: _pod_facts,
    Kind.MACHINE: _machine_facts,
    Kind.SNAPSHOT: _snapshot_facts,
    Kind.VOLUME: _volume_facts,
    Kind.ATTACHMENT: _attachment_facts,
}
