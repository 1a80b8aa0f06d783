"""Counters of containers as kubelets report them, and what the storage's daemons used in a trial.

`/metrics/resource` of a kubelet has the processor time and the working set of every container, each
with the time at which the container runtime or cAdvisor read it
(https://kubernetes.io/docs/reference/instrumentation/node-metrics/). cAdvisor reads every 10 to 15
seconds and repeats its last reading meanwhile, so that rates are between the times of readings.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Final

from pydantic import Tag, TypeAdapter

from leadline.formats.host_rates import MachineRates
from leadline.formats.json_lines import (
    MISSED_OR_SAMPLE,
    WHEN_USED,
    Count,
    Missed,
    Number,
    Sample,
    parse_lines,
)
from leadline.formats.watch_records import Role

# The containers of Rook and of Mayastor.
DAEMON_CONTAINERS: Final = frozenset({"osd", "mon", "mgr", "mds", "rgw", "io-engine"})
_CPU: Final = "container_cpu_usage_seconds_total"
_MEMORY: Final = "container_memory_working_set_bytes"
# A line of the text format with a time stamp. Names of Kubernetes need no escapes.
_SERIES: Final = re.compile(rf"^({_CPU}|{_MEMORY})\{{([^}}]*)\}} (\S+) (\d+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"\\]*)"')
# The clock of an answer has whole seconds.
_CLOCK_S: Final = 1.0
# Readings that span less of a trial say little about it.
_LEAST_SHARE: Final = 1 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerReading:
    """Counters of one container. `read_at_s` is the time of the reading by the node's clock in
    seconds since 1970, `age_s` how old the reading was when the kubelet answered."""

    namespace: str
    pod: str
    container: str
    read_at_s: Number
    age_s: Number
    cpu_s: Number
    memory_bytes: Number | None = None

    @property
    def name(self) -> str:
        return f"{self.namespace}/{self.pod}/{self.container}"


def parse_readings(
    text: str, namespaces: Collection[str], answered_at_s: float
) -> tuple[ContainerReading, ...]:
    """Parse `/metrics/resource` for the daemons of a storage in `namespaces`. `answered_at_s` is
    the time of the answer by the node's clock. A container without processor time is left out.
    Raises ValueError."""
    cpu: dict[tuple[str, str, str], tuple[float, float]] = {}
    memory: dict[tuple[str, str, str], float] = {}
    for metric, labels, value, at_ms in _SERIES.findall(text):
        known = dict(_LABEL.findall(labels))
        key = (known.get("namespace", ""), known.get("pod", ""), known.get("container", ""))
        if key[0] not in namespaces or key[2] not in DAEMON_CONTAINERS:
            continue
        if metric == _CPU:
            cpu[key] = (float(value), int(at_ms) / 1e3)
        else:
            memory[key] = float(value)
    return tuple(
        ContainerReading(
            namespace=key[0],
            pod=key[1],
            container=key[2],
            read_at_s=at_s,
            age_s=round(max(0.0, answered_at_s - at_s), 3),
            cpu_s=used_s,
            memory_bytes=memory.get(key),
        )
        for key, (used_s, at_s) in sorted(cpu.items())
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSample(Sample):
    """The readings of a storage's daemons on one node, which has `cores`."""

    node: str
    cores: Count
    containers: tuple[ContainerReading, ...]


_LINE: Final[TypeAdapter[KubeletSample | Missed]] = TypeAdapter(
    Annotated[
        Annotated[KubeletSample, Tag("<sample>")] | Annotated[Missed, Tag("<missed>")],
        MISSED_OR_SAMPLE,
    ],
    config=WHEN_USED,
)


def parse_kubelet_record(content: bytes) -> tuple[KubeletSample | Missed, ...]:
    """Parse a `kubelets.jsonl`. Raises FormatError with the line."""
    return tuple(line for _, line in parse_lines(content, _LINE, "the record of kubelets"))


def kubelet_rates(
    record: Sequence[KubeletSample | Missed],
) -> tuple[tuple[MachineRates, ...], tuple[str, ...]]:
    """Return what the storage's daemons used on each node, and what is not known and why. Devices
    and the load of whole nodes are not known."""
    notes = [f"kubelets: {line.reason}" for line in record if isinstance(line, Missed)]
    by_node: dict[str, list[KubeletSample]] = defaultdict(list)
    for line in record:
        if isinstance(line, KubeletSample):
            by_node[line.node].append(line)
    window_s = max((line.elapsed_s for line in record), default=0.0)
    machines = tuple(_machine(node, own, window_s) for node, own in sorted(by_node.items()))
    lost = sum(len(machine.lost) for machine in machines)
    if lost:
        notes.append(
            f"kubelets: {lost} of the storage's daemons have no two readings that span a third of "
            f"the {window_s:.4g} s of the trial, or restarted"
        )
    return machines, tuple(dict.fromkeys(notes))


def _machine(node: str, samples: Sequence[KubeletSample], window_s: float) -> MachineRates:
    readings: dict[str, dict[float, ContainerReading]] = defaultdict(dict)
    for sample in samples:
        for reading in sample.containers:
            own = readings[reading.name]
            # An older reading is of the time before the trial.
            if sample.elapsed_s - reading.age_s >= -_CLOCK_S:
                own.setdefault(reading.read_at_s, reading)
    found = {
        name: [own[at_s] for at_s in sorted(own)]
        for name, own in readings.items()
        if _has_rate(sorted(own.values(), key=lambda reading: reading.read_at_s), window_s)
    }
    return MachineRates(
        machine=node,
        roles=frozenset({Role.STORAGE}),
        begin_s=0.0,
        end_s=window_s,
        cores=max(1, *(sample.cores for sample in samples)),
        cpu=None,
        disks={},
        interfaces={},
        groups={},
        processes={name: _cores_used(own) for name, own in found.items()},
        resident_bytes=dict(_resident(found)),
        lost=frozenset(readings.keys() - found.keys()),
    )


def _has_rate(readings: Sequence[ContainerReading], window_s: float) -> bool:
    if len(readings) < 2:
        return False
    grows = all(later.cpu_s >= earlier.cpu_s for earlier, later in pairwise(readings))
    return grows and readings[-1].read_at_s - readings[0].read_at_s >= window_s * _LEAST_SHARE


def _cores_used(readings: Sequence[ContainerReading]) -> float:
    spent_s = readings[-1].cpu_s - readings[0].cpu_s
    return spent_s / (readings[-1].read_at_s - readings[0].read_at_s)


def _resident(found: Mapping[str, Sequence[ContainerReading]]) -> Iterator[tuple[str, float]]:
    """Yield the mean working set of each daemon that has one in every reading."""
    for name, readings in found.items():
        sizes = [reading.memory_bytes for reading in readings]
        known = [size for size in sizes if size is not None]
        if len(known) == len(sizes):
            yield name, sum(known) / len(known)
