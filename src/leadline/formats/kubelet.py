"""The summaries of kubelets during a trial, and the rates of the storage's pods.

A line of `kubelet.jsonl` has the node's network and the storage's pods of one `/stats/summary`
(k8s.io/kubelet/pkg/apis/stats/v1alpha1), as the kubelet gave them. The kubelet refreshes its
numbers every 10 to 15 s; each has its own time, between which its rate is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from pydantic import BaseModel, Field, Tag, TypeAdapter

from leadline.formats.host_rates import InterfaceRates, MachineRates
from leadline.formats.json_lines import (
    MISSED_OR_SAMPLE,
    WHEN_USED,
    Count,
    Missed,
    Sample,
    parse_lines,
)
from leadline.formats.watch_records import Role

# The containers of Rook's and of Mayastor's daemons.
DAEMON_CONTAINERS: Final = frozenset({"osd", "mon", "mgr", "mds", "rgw", "io-engine"})
# Over less than this, a rate is that of the kubelet's refresh.
_LEAST_S = 5.0


class _Cpu(BaseModel):
    time: datetime
    used_ns: Count | None = Field(default=None, alias="usageCoreNanoSeconds")


class _Memory(BaseModel):
    working_set_bytes: Count | None = Field(default=None, alias="workingSetBytes")


class _Container(BaseModel):
    name: str
    started: str = Field(default="", alias="startTime")
    cpu: _Cpu | None = None
    memory: _Memory | None = None


class _PodReference(BaseModel):
    name: str
    namespace: str


class _Pod(BaseModel):
    reference: _PodReference = Field(alias="podRef")
    containers: tuple[_Container, ...] = ()


class _Interface(BaseModel):
    name: str
    received_bytes: Count | None = Field(default=None, alias="rxBytes")
    sent_bytes: Count | None = Field(default=None, alias="txBytes")


class _Network(BaseModel):
    time: datetime
    interfaces: tuple[_Interface, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSample(Sample):
    """The storage's pods on a node, and the node's network, from one summary."""

    node: str
    pods: tuple[_Pod, ...]
    network: _Network | None = None

    def containers(self) -> Mapping[str, _Container]:
        """Return the daemons' containers by `NAMESPACE/POD/CONTAINER`."""
        return {
            f"{pod.reference.namespace}/{pod.reference.name}/{container.name}": container
            for pod in self.pods
            for container in pod.containers
            if container.name in DAEMON_CONTAINERS
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedKubelet(Missed):
    """A node without a summary; empty where the nodes are unknown."""

    node: str = ""


_LINE: Final[TypeAdapter[KubeletSample | MissedKubelet]] = TypeAdapter(
    Annotated[
        Annotated[KubeletSample, Tag("<sample>")] | Annotated[MissedKubelet, Tag("<missed>")],
        MISSED_OR_SAMPLE,
    ],
    config=WHEN_USED,
)


def parse_kubelet_record(content: bytes) -> tuple[KubeletSample | MissedKubelet, ...]:
    """Parse a `kubelet.jsonl`. Raises FormatError with the line."""
    return tuple(line for _, line in parse_lines(content, _LINE, "the record of kubelets"))


def pod_rates(
    record: Sequence[KubeletSample | MissedKubelet],
) -> tuple[tuple[MachineRates, ...], tuple[str, ...]]:
    """Return the rates of the nodes with daemons of the storage, and what is not known and why.

    The summary has no processor time by kind and no disks, so that those are missing.
    """
    notes = [
        f"kubelet{f' of {line.node}' if line.node else ''}: {line.reason}"
        for line in record
        if isinstance(line, MissedKubelet)
    ]
    by_node: dict[str, list[KubeletSample]] = {}
    for line in record:
        if isinstance(line, KubeletSample):
            by_node.setdefault(line.node, []).append(line)
    machines = tuple(
        _machine(node, samples) for node, samples in by_node.items() if samples[-1].containers()
    )
    if any(machine.lost for machine in machines):
        notes.append("kubelet: a daemon has no two numbers in the trial, or restarted")
    return machines, tuple(dict.fromkeys(notes))


def _machine(node: str, samples: Sequence[KubeletSample]) -> MachineRates:
    first, last = samples[0], samples[-1]
    before, after = first.containers(), last.containers()
    processes = {
        name: cores
        for name, container in after.items()
        if name in before and (cores := _cores(before[name], container)) is not None
    }
    memory = {name: after[name].memory for name in processes}
    return MachineRates(
        machine=node,
        roles=frozenset({Role.STORAGE}),
        begin_s=first.elapsed_s,
        end_s=last.elapsed_s,
        cores=1,
        cpu=None,
        disks={},
        interfaces=_interfaces(first.network, last.network),
        groups={},
        processes=processes,
        resident_bytes={
            name: own.working_set_bytes
            for name, own in memory.items()
            if own is not None and own.working_set_bytes is not None
        },
        lost=frozenset((before.keys() | after.keys()) - processes.keys()),
    )


def _cores(first: _Container, last: _Container) -> float | None:
    """Return the cores that a container used between two numbers; None where it restarted."""
    if first.started != last.started or first.cpu is None or last.cpu is None:
        return None
    seconds = _seconds(first.cpu.time, last.cpu.time)
    if seconds < _LEAST_S or first.cpu.used_ns is None or last.cpu.used_ns is None:
        return None
    used_ns = last.cpu.used_ns - first.cpu.used_ns
    return used_ns / 1e9 / seconds if used_ns >= 0 else None


def _interfaces(first: _Network | None, last: _Network | None) -> Mapping[str, InterfaceRates]:
    if first is None or last is None:
        return {}
    seconds = _seconds(first.time, last.time)
    if seconds < _LEAST_S:
        return {}
    before = {interface.name: interface for interface in first.interfaces}
    found = {}
    for interface in last.interfaces:
        grown = _grown(before.get(interface.name), interface)
        if grown is not None and any(grown):
            received, sent = (moved / seconds for moved in grown)
            found[interface.name] = InterfaceRates(
                received_bps=received, sent_bps=sent, link_bps=None
            )
    return found


def _grown(first: _Interface | None, last: _Interface) -> tuple[int, int] | None:
    if first is None or None in (first.received_bytes, last.received_bytes):
        return None
    received = (last.received_bytes or 0) - (first.received_bytes or 0)
    sent = (last.sent_bytes or 0) - (first.sent_bytes or 0)
    return (received, sent) if min(received, sent) >= 0 else None


def _seconds(first: datetime, last: datetime) -> float:
    """Return the seconds between two times; 0 where only one of them has a time zone."""
    if (first.tzinfo is None) != (last.tzinfo is None):
        return 0.0
    return (last - first).total_seconds()


def storage_pods(pods: Iterable[object], namespaces: Iterable[str]) -> list[object]:
    """Select the pods of a summary that are in one of the namespaces, as the kubelet gave them."""
    wanted = set(namespaces)
    return [
        pod
        for pod in pods
        if isinstance(pod, dict) and (pod.get("podRef") or {}).get("namespace") in wanted
    ]
