"""What Prometheus knows of a storage's hosts and daemons: queries, answers, and rates of machines.

The queries use the names of node_exporter 1.x, cAdvisor (container_*), process-exporter 0.7
(namedprocess_namegroup_*) and ceph-exporter (ceph_exporter_cpu_total). `rate` needs two samples in
its window, so that a series without two is no part of an answer.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, Tag, TypeAdapter, ValidationError

from leadline.formats.host_rates import CpuRates, DiskRates, InterfaceRates, MachineRates
from leadline.formats.json_lines import (
    MISSED_OR_SAMPLE,
    WHEN_USED,
    Missed,
    Number,
    Sample,
    parse_lines,
)
from leadline.formats.watch_records import Role


class Series(BaseModel):
    """One series of a vector: its labels, and the time and the value of its sample."""

    metric: dict[str, str]
    value: tuple[float, float]


class Vector(BaseModel):
    kind: Literal["vector"] = Field(alias="resultType")
    result: tuple[Series, ...]


class Scalar(BaseModel):
    kind: Literal["scalar"] = Field(alias="resultType")
    result: tuple[float, float]


class Answer(BaseModel):
    """An answer to an instant query that has samples."""

    status: Literal["success"]
    data: Vector | Scalar

    @property
    def series(self) -> tuple[Series, ...]:
        if isinstance(self.data, Vector):
            return self.data.result
        return (Series(metric={}, value=self.data.result),)


class _Refusal(BaseModel):
    status: Literal["error"]
    error: str


class _Kind(BaseModel):
    data: dict[str, Any]


def parse_answer(content: bytes, status: int) -> Answer:
    """Parse an answer of HTTP status `status`. Raises ValueError with Prometheus' own words, or
    with the kind of a result that has no sample of each series."""
    try:
        return Answer.model_validate_json(content)
    except ValidationError:
        pass
    try:
        refusal = _Refusal.model_validate_json(content)
    except ValidationError:
        pass
    else:
        raise ValueError(f"it refuses the query: {refusal.error[:300]}")
    try:
        kind = _Kind.model_validate_json(content).data.get("resultType")
    except ValidationError:
        raise ValueError(f"HTTP status {status} and no answer of Prometheus") from None
    raise ValueError(f"the query gives a {kind}, and a limit needs a number for each series")


# --- the queries of a trial ----------------------------------------------------------------------

_DAEMONS: Final = "ceph-osd|ceph-mon|ceph-mgr|ceph-mds|radosgw|io-engine"
# The containers of Rook and of Mayastor.
_CONTAINERS: Final = "osd|mon|mgr|mds|rgw|io-engine"
# Sources of the daemons' processor time; of several that know it the first is used.
_DAEMON_CPU: Final = {
    "container_cpu": "sum by (node, instance, namespace, pod, container) "
    "(rate(container_cpu_usage_seconds_total{PODS}[WINDOW]))",
    "process_cpu": "sum by (node, instance, groupname) "
    "(rate(namedprocess_namegroup_cpu_seconds_total{GROUPS}[WINDOW]))",
    "ceph_exporter_cpu": "sum by (node, instance, ceph_daemon) "
    '(rate(ceph_exporter_cpu_total{mode=~"user|kernel"}[WINDOW]))',
}
_DAEMON_MEMORY: Final = {
    "container_memory": "sum by (node, instance, namespace, pod, container) "
    "(avg_over_time(container_memory_working_set_bytes{PODS}[WINDOW]))",
    "process_memory": "sum by (node, instance, groupname) "
    '(avg_over_time(namedprocess_namegroup_memory_bytes{GROUPS,memtype="resident"}[WINDOW]))',
}
_MEMORY_OF: Final = {"container_cpu": "container_memory", "process_cpu": "process_memory"}
_PER_DEVICE: Final = {
    "disk_busy": "node_disk_io_time_seconds_total",
    "disk_weighted": "node_disk_io_time_weighted_seconds_total",
    "disk_reads": "node_disk_reads_completed_total",
    "disk_writes": "node_disk_writes_completed_total",
    "disk_read_bytes": "node_disk_read_bytes_total",
    "disk_written_bytes": "node_disk_written_bytes_total",
    "disk_read_time": "node_disk_read_time_seconds_total",
    "disk_write_time": "node_disk_write_time_seconds_total",
    "network_received": "node_network_receive_bytes_total",
    "network_sent": "node_network_transmit_bytes_total",
}
_TEMPLATES: Final = {
    **_DAEMON_CPU,
    **_DAEMON_MEMORY,
    "cpu": "sum by (node, instance, mode) (rate(node_cpu_seconds_total{HOSTS}[WINDOW]))",
    "cores": "count by (node, instance) "
    '(count_over_time(node_cpu_seconds_total{mode="idle",HOSTS}[WINDOW]))',
    **{
        name: f"sum by (node, instance, device) (rate({metric}{{HOSTS}}[WINDOW]))"
        for name, metric in _PER_DEVICE.items()
    },
    "network_speed": "max by (node, instance, device) (node_network_speed_bytes{HOSTS})",
}


def queries(window_s: float, namespaces: Iterable[str], instances: str | None) -> Mapping[str, str]:
    """Return the queries of a trial of `window_s` by name, to be evaluated at its end."""
    pods = f'namespace=~"{"|".join(namespaces)}",container=~"{_CONTAINERS}"'
    # A JSON string is a string of PromQL.
    hosts = "" if instances is None else f"instance=~{json.dumps(instances)}"
    parts = {
        "{PODS": "{" + pods,
        "{GROUPS": f'{{groupname=~".*({_DAEMONS}).*"',
        "HOSTS": hosts,
        "[WINDOW]": f"[{max(1, round(window_s * 1e3))}ms]",
    }
    found = {}
    for name, query in _TEMPLATES.items():
        for placeholder, text in parts.items():
            query = query.replace(placeholder, text)
        found[name] = query
    return found


# --- the record of a trial -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusAnswer(Sample):
    """The answer to one query over the last `window_s` seconds. `clock_offset_s`: how far the clock
    of Prometheus is ahead. `chosen`: the user named the hosts of the storage."""

    name: str
    query: str
    window_s: Number
    clock_offset_s: Annotated[float, Field(allow_inf_nan=False)]
    chosen: bool = False
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedAnswer(Missed):
    """A query without an answer; `name` is empty where none was asked."""

    name: str = ""


_LINE: Final[TypeAdapter[PrometheusAnswer | MissedAnswer]] = TypeAdapter(
    Annotated[
        Annotated[PrometheusAnswer, Tag("<sample>")] | Annotated[MissedAnswer, Tag("<missed>")],
        MISSED_OR_SAMPLE,
    ],
    config=WHEN_USED,
)


def parse_prometheus_record(content: bytes) -> tuple[PrometheusAnswer | MissedAnswer, ...]:
    """Parse a `prometheus.jsonl`. Raises FormatError with the line."""
    return tuple(line for _, line in parse_lines(content, _LINE, "the record of Prometheus"))


# --- rates of machines ---------------------------------------------------------------------------

_Values = Mapping[str, float]


def storage_rates(
    record: Sequence[PrometheusAnswer | MissedAnswer],
) -> tuple[tuple[MachineRates, ...], tuple[str, ...]]:
    """Return the rates of the storage's hosts, and what is not known and why.

    A host belongs to the storage where a daemon was found on it, or the user named it.
    """
    answers = {line.name: line for line in record if isinstance(line, PrometheusAnswer)}
    notes = [f"Prometheus: {line.reason}" for line in record if isinstance(line, MissedAnswer)]
    if not answers:
        return (), tuple(dict.fromkeys(notes))
    window_s = max(line.window_s for line in answers.values())
    names = _host_names(answers.values())
    by_host: dict[str, dict[str, list[Series]]] = defaultdict(lambda: defaultdict(list))
    for name, line in answers.items():
        for series in line.answer.series:
            if math.isfinite(series.value[1]) and series.value[1] >= 0:
                by_host[_host(series.metric, names)][name].append(series)
    source = next((name for name in _DAEMON_CPU if any(own[name] for own in by_host.values())), "")
    chosen = any(line.chosen for line in answers.values())
    machines = tuple(
        _machine(host, own, source, window_s)
        for host, own in sorted(by_host.items())
        if own[source] or (chosen and own["cpu"])
    )
    if not source:
        notes.append(
            f"Prometheus: no daemon of the storage has two samples within {window_s:.4g} s"
        )
    if not any(machine.cpu for machine in machines):
        notes.append(
            "Prometheus: no node exporter of the storage's hosts has two samples within "
            f"{window_s:.4g} s"
        )
    return machines, tuple(dict.fromkeys(notes))


def _host_names(answers: Iterable[PrometheusAnswer]) -> Mapping[str, str]:
    """Return the name of the node by its address, from series that have both."""
    return {
        _address(series.metric): series.metric["node"]
        for line in answers
        for series in line.answer.series
        if series.metric.get("node") and _address(series.metric)
    }


def _address(labels: Mapping[str, str]) -> str:
    """Return the label `instance` without its port."""
    instance = labels.get("instance", "")
    host, colon, port = instance.rpartition(":")
    return host if colon and port.isdecimal() else instance


def _host(labels: Mapping[str, str], names: Mapping[str, str]) -> str:
    address = _address(labels)
    return labels.get("node") or names.get(address, address)


def _machine(
    host: str, own: Mapping[str, Sequence[Series]], source: str, window_s: float
) -> MachineRates:
    modes = _by(own["cpu"], "mode")
    total = sum(modes.values())
    devices = {name: _by(own[name], "device") for name in _PER_DEVICE}
    speeds = _by(own["network_speed"], "device")
    # Archives of before have no count. The modes of a core add up to one second per second, or to
    # less where scrapes at an end of the window failed.
    cores = sum(series.value[1] for series in own["cores"]) or total
    memory = own[_MEMORY_OF[source]] if source in _MEMORY_OF else ()
    processes = {_daemon(series.metric): series.value[1] for series in own[source]}
    resident = {_daemon(series.metric): series.value[1] for series in memory}
    return MachineRates(
        machine=host,
        roles=frozenset({Role.STORAGE}),
        begin_s=0.0,
        end_s=window_s,
        cores=max(1, round(cores)),
        cpu=_cpu(modes, total) if total > 0 else None,
        disks={
            name: _disk({key: values.get(name, 0.0) for key, values in devices.items()})
            for name, busy in devices["disk_busy"].items()
            if busy or devices["disk_reads"].get(name) or devices["disk_writes"].get(name)
        },
        interfaces={
            name: InterfaceRates(
                received_bps=received,
                sent_bps=devices["network_sent"].get(name, 0.0),
                link_bps=speeds.get(name) or None,
            )
            for name, received in devices["network_received"].items()
            if received or devices["network_sent"].get(name)
        },
        groups={},
        processes=processes,
        resident_bytes={name: resident[name] for name in processes if name in resident},
    )


def _by(series: Iterable[Series], label: str) -> _Values:
    return {one.metric[label]: one.value[1] for one in series if label in one.metric}


def _daemon(labels: Mapping[str, str]) -> str:
    """Name a daemon by its pod, its group of processes, or as Ceph does."""
    pod = labels.get("pod")
    if pod:
        return f"{labels.get('namespace', '')}/{pod}/{labels.get('container', '')}"
    return labels.get("groupname") or labels.get("ceph_daemon", "")


def _cpu(modes: _Values, total: float) -> CpuRates:
    def share(*names: str) -> float:
        return min(1.0, sum(modes.get(name, 0.0) for name in names) / total)

    return CpuRates(
        busy_share=1 - share("idle", "iowait"),
        user_share=share("user", "nice"),
        system_share=share("system", "irq", "softirq"),
        iowait_share=share("iowait"),
        steal_share=share("steal"),
    )


def _disk(values: _Values) -> DiskRates:
    reads, writes = values["disk_reads"], values["disk_writes"]
    return DiskRates(
        read_iops=reads,
        write_iops=writes,
        read_bps=values["disk_read_bytes"],
        write_bps=values["disk_written_bytes"],
        utilisation=min(1.0, values["disk_busy"]),
        in_flight=values["disk_weighted"],
        read_latency_s=values["disk_read_time"] / reads if reads else None,
        write_latency_s=values["disk_write_time"] / writes if writes else None,
    )
