"""Write the generated pages of docs/reference from the registries they describe.

    uv run python scripts/reference.py            write them
    uv run python scripts/reference.py --check    exit status 1 if a committed page differs

`tests/docs/test_reference.py` makes the same comparison, so a page cannot fall behind the code.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from leadline.analysis.predict.facts import FOUND_BY_PREDICT
from leadline.analysis.scaling.curves import FOUND_BY_SCALE
from leadline.audit.evidence import CellEvidence, JobEvidence, RunEvidence, TrialEvidence
from leadline.audit.registry import RULES
from leadline.cli.main import VERBS, cli
from leadline.findings import Severity
from leadline.inventory.diff.host import format_parameter
from leadline.inventory.zfs import Concern, Parameter, dataset_properties, zfs_parameters
from leadline.plan import document as written
from leadline.plan import expand, models, volume_request
from leadline.plan.drill import Drill, DrillCommand, DrillEvent, HostToAdd
from leadline.plan.footprint import footprint_of
from leadline.plan.guard import Guard, PrometheusLimit
from leadline.plan.job_file import Place, fio_options
from leadline.plan.kubernetes_cluster import BootImage, KubernetesCluster, Toleration, VmSettings
from leadline.plan.lab import LabDocument
from leadline.plan.loader import Overrides, load_plan, load_profile, profile_names
from leadline.plan.matrix import Dimension
from leadline.plan.prometheus import StorageMonitoring
from leadline.plan.settings import Setting
from leadline.plan.workload import Workload
from leadline.units import (
    format_block_size,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)

PAGES = Path(__file__).resolve().parent.parent / "docs" / "reference"
HEAD = "<!-- Written by scripts/reference.py; do not edit by hand. -->\n"
WIDTH = 100


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; cells may hold any text."""
    lines = [list(columns)]
    lines += [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def prose(*parts: str) -> str:
    """A paragraph of text, wrapped like the pages written by hand."""
    return textwrap.fill(" ".join(parts), WIDTH, break_long_words=False, break_on_hyphens=False)


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


# --- commands -----------------------------------------------------------------------------------


def commands() -> str:
    """`--help` of every verb, as printed."""
    parts = [
        "# Commands",
        prose(
            "What `leadline --help` and `leadline VERB --help` print, at a width of 100 columns.",
            "Exit statuses and error codes are in [errors.md](errors.md); the JSON that verbs",
            "print is described in [use-in-scripts.md](../guides/use-in-scripts.md).",
        ),
        _help(cli, "leadline"),
    ]
    for verb in VERBS:
        command = import_module(f"leadline.cli.{verb}").command
        parts += [f"## {verb}", _help(command, f"leadline {verb}")]
    return "\n\n".join(parts)


def _help(command: click.Command, name: str) -> str:
    context = click.Context(
        command, info_name=name, terminal_width=WIDTH, help_option_names=["-h", "--help"]
    )
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"```text\n{text}\n```"


# --- rules --------------------------------------------------------------------------------------

_LOOKS_AT: Mapping[type[Any], str] = {
    JobEvidence: "each job of a trial",
    TrialEvidence: "each trial",
    CellEvidence: "all trials of a cell",
    RunEvidence: "the whole run",
}


def rules() -> str:
    """The audit's rules, in the order in which they are asked."""
    rows = [
        (
            f"[`{rule.code}`](../rules/{rule.code}.md)",
            ", ".join(_severities(rule.check)),
            _LOOKS_AT[rule.looks_at],
            rule.summary,
        )
        for rule in RULES
    ]
    return "\n\n".join(
        [
            "# Audit rules",
            prose(
                f"The {len(rows)} rules that `leadline audit` asks, in this order: first whether",
                "there is a result at all, then whether it is what was asked, then how good it is.",
                "`leadline explain CODE` prints the page of a rule.",
            ),
            prose(
                "`error`: the number must not be used, and `leadline run` and `leadline audit` end",
                "with exit status 1. `warning`: use it knowing why. `info`: context. Codes are",
                "stable; other programs may match on them.",
            ),
            table(("code", "severities", "looks at", "finds"), rows),
            "`leadline scale` and `leadline predict` find more:",
            table(
                ("code", "finds"),
                [
                    (f"[`{code}`](../rules/{code}.md)", summary)
                    for code, summary in (FOUND_BY_SCALE | FOUND_BY_PREDICT).items()
                ],
            ),
        ]
    )


def _severities(check: Callable[..., object]) -> list[str]:
    """Those that the rule's file names, the gravest first."""
    module = inspect.getmodule(check)
    assert module is not None
    found = {Severity[name] for name in re.findall(r"Severity\.(\w+)", inspect.getsource(module))}
    return [one.value for one in sorted(found, key=lambda one: -one.order)]


# --- profiles -----------------------------------------------------------------------------------


def profiles() -> str:
    """Every built-in profile as it expands on one target."""
    names = profile_names()
    parts = [
        "# Profiles",
        prose(
            "The built-in sets of workloads, as they expand on one directory with nothing else",
            "said. A plan's own `defaults` go before a profile's, but not before what a workload",
            "of the profile sets itself; `--runtime`, `--ramp` and `--size` go before everything",
            "([which value counts](../guides/write-a-plan.md#which-value-counts)).",
        ),
        prose(
            "*Layout* is what is written before the first trial. *Time* is ramp and runtime of",
            "three repeats on one target, without prefill and set-up. The engine `auto` takes",
            "io_uring where it works, else libaio.",
        ),
    ]
    rows = []
    for name in names:
        plan = _plan_of(name)
        layout = format_size(footprint_of(cell.workload for cell in plan.cells).total_bytes)
        rows.append(
            (
                f"[{name}](#{name})",
                str(len(plan.cells)),
                layout,
                format_duration(plan.duration_s),
            )
        )
    parts.append(table(("profile", "cells", "layout", "time"), rows))
    for name in names:
        parts += _profile(name)
    return "\n\n".join(parts)


def _plan_of(profile: str) -> models.Plan:
    # Profiles for one kind of target only.
    only = {"zfs-stream": "zfs:tank", "volume-lifecycle": "storageclass:fast"}
    target = only.get(profile, "dir:/target")
    # Only pods need an image.
    image = "any" if target.startswith("storageclass:") else None
    overrides = Overrides(targets=[target], profiles=[profile], seed=1, runner_image=image)
    return load_plan(None, overrides)


def _profile(name: str) -> list[str]:
    document = load_profile(name)
    rows = []
    for cell in _plan_of(name).cells:
        workload = cell.workload
        for number, phase in enumerate(workload.phases):
            first = number == 0
            rows.append(
                (
                    code(workload.name) if first else "then",
                    cell.level if first else "",
                    phase.pattern.value
                    + (f", {phase.read_share} % reads" * bool(phase.read_share)),
                    format_block_size(phase.block_size),
                    f"{phase.iodepth} x {phase.numjobs}",
                    format_size(phase.size),
                    _fsync(phase.fsync),
                    f"{format_duration(workload.ramp_s)} + {format_duration(workload.runtime_s)}",
                    workload.engine.value + ("" if workload.direct else ", buffered"),
                    workload.description if first else "",
                )
            )
    columns = (
        "workload",
        "level",
        "pattern",
        "block",
        "depth x jobs",
        "size a job",
        "fsync",
        "ramp + runtime",
        "engine",
        "",
    )
    shown = [index for index, _ in enumerate(columns) if any(row[index] for row in rows)]
    parts = [f"## {name}", document.description]
    if document.source:
        parts.append(f"Source: {document.source}")
    parts.append(
        table(
            [columns[index] for index in shown], [[row[index] for index in shown] for row in rows]
        )
    )
    return parts


def _fsync(every: int) -> str:
    if not every:
        return ""
    return "each write" if every == 1 else f"every {every} writes"


# --- plan ---------------------------------------------------------------------------------------

# What each key means. The names, types, limits and defaults come from the models; `plan` fails if
# a key is here and not there, or the other way round.
_KEYS: Mapping[str, tuple[type[BaseModel], str, Mapping[str, str]]] = {
    "The plan": (
        written.PlanDocument,
        "The keys at the top of the file.",
        {
            "leadline": "Version of the plan format.",
            "name": "Added to the run's id: `perf-YYYYMMDD-HHMMSS-xxxxx-NAME`.",
            "description": "For people; shown in reports.",
            "clusters": "Clusters that targets lie on, by names of your own. Without any, Ceph's "
            "programs and kubectl say which.",
            "labels": "Labels of every target, and so of the run: what sets it apart from others. "
            "`run --label` adds to them.",
            "targets": "Where I/O goes: URLs, or entries as below.",
            "matrix": "[Dimensions](../guides/measure-a-matrix.md) that multiply targets by "
            "options and workloads by settings: `{size: [150Gi, 500Gi], iodepth: [1, 8]}`.",
            "settings": "[Settings of systems](../guides/try-settings.md) that the run varies, by "
            "names of your own: each target is also measured with these.",
            "design": "Which states `settings` make: each value alone, or all combinations.",
            "budget": "The most that the run may hold at the same time: it then uses targets in "
            "[groups](../guides/measure-a-matrix.md#groups).",
            "guard": "[Protection of a system that other people use](../guides/guard-a-run.md): a "
            "budget of load, limits that stop the run, quiet hours.",
            "drill": "[An event in every trial](../guides/drill.md) that is undone while the trial "
            "runs.",
            "profile": "Names of [profiles](profiles.md); their workloads come first.",
            "defaults": "Settings for workloads that do not have their own.",
            "workloads": "What I/O is done. A plan needs a profile or a workload.",
            "expect": "[What a comparison is expected to show](../guides/write-a-plan.md#"
            "expectations): 'writes worse in multi-zone by 20 %'.",
            "repeats": "Trials of each cell.",
            "detect": "The change of a rate to be found: `10%`. `run` takes as many trials of each "
            "cell as [that needs](../concepts/how-many-trials.md).",
            "stop": "The run [ends when its comparisons are decided]"
            "(../concepts/how-many-trials.md#stop-when-decided): `{}` or `true` for all defaults.",
            "seed": "Seed of the order of trials and of random offsets.",
            "prefill": "Write all data before measuring, and verify it.",
            "drop_caches": "Drop the page cache of the data before each trial.",
            "grace": "Added, once for each phase, to ramp and runtime: the time bound of a trial.",
        },
    ),
    "A target": (
        written.TargetDocument,
        "An entry of `targets`. A bare URL stands for `{target: URL}`.",
        {
            "target": "`dir:/path`, `device:/dev/x`, `rbd:POOL[/IMAGE]`, `rados:POOL` or "
            "`cephfs:/mounted/path`, with [options](../guides/measure-ceph.md#options), or "
            "`storageclass:NAME` with [others](#options-of-a-storageclass-target), or "
            "`hosts:A,B:/path`, or `zfs:POOL[/DATASET]`, `zvol:POOL[/DATASET]`, `zfs+rbd:POOL` and "
            "`ext4+rbd:POOL` with [theirs](../guides/measure-zfs.md#targets).",
            "name": "What results call it; behind it `@CLUSTER` where the plan has several.",
            "clusters": "Names of clusters: one or a list.",
            "optional": "Where it cannot be used it is left out, with the reason in the archive.",
            "labels": "What sets it apart, such as `{cores: 1}`: `leadline compare --by label`.",
            "copies": "How often its storage keeps each byte (three replicas: 3; erasure coding "
            "4+2: 1.5), for the budget.",
        },
    ),
    "A change to detect": (
        written.DetectDocument,
        "`detect: 10%` stands for `{change: 10%}`.",
        {
            "change": "The change of a rate, more than the margin of 5 %.",
            "like": "An earlier run that shows the scatter; else the published one is taken.",
            "most": "So many trials of a cell at most.",
        },
    ),
    "Stop when decided": (
        written.StopDocument,
        "`repeats` are the trials before the first look, 2 at least. Not with detect or budget.",
        {
            "compare": "What is compared: each with the baseline.",
            "baseline": "Name of the target or cluster (`NAME,DELAY` with a delay).",
            "within": "The equivalence margin of the verdicts; `compare --band` is to be the same.",
            "max_repeats": "Trials of a cell at most.",
            "futility": "A cell has no more trials where the probability that `max_repeats` decide "
            "it is lower; `0%`: never.",
            "max_time": "Time of all trials, prefill not counted: no round begins that would "
            "exceed it.",
        },
    ),
    "A budget": (
        written.BudgetDocument,
        "At least one of these. Bytes are times `copies` of the target.",
        {
            "capacity": "Bytes of the volumes that are requested at the same time.",
            "written": "Bytes of the data in them, which thin volumes need.",
            "cores": "Processors of runner pods and virtual machines.",
            "volumes": "Volumes: one for each target that has no count of its own.",
        },
    ),
    "A guard": (
        Guard,
        "At least one of the first four and `quiet_hours`; [examples](../guides/guard-a-run.md).",
        {
            "iops": "The most I/Os per second of all clients, jobs and neighbours together; fio "
            "holds it on average over a trial. The prefill keeps it too.",
            "bandwidth": "The most bytes per second, likewise. Of both the stricter one holds.",
            "ceph_health": "One or a list of `HEALTH_ERR`, `HEALTH_WARN` and codes of checks "
            "(`SLOW_OPS`) of the plan's Ceph clusters. A muted check stops nothing.",
            "prometheus": "Limits on queries.",
            "every": "How often limits are read: 1 s to 60 s.",
            "silence": "A limit without a reading for so long stops the run: 5 s to 1 h.",
            "quiet_hours": "One or a list of times in which no trial runs: `mon-fri 08:00-18:00`, "
            "`22:00-06:00` of every day. A trial that would end in them waits.",
            "zone": "The time zone of `quiet_hours`: `local`, `UTC` or a name (`Europe/Berlin`).",
        },
    ),
    "A limit on a query": (
        PrometheusLimit,
        "An entry of `prometheus` in a guard, with `above`, `below` or both.",
        {
            "name": "What messages and results call it.",
            "url": "Address of Prometheus or of what has its API (Thanos, Mimir), without "
            "`/api/v1/query`.",
            "query": "PromQL of an instant query. Of several series the worst counts.",
            "above": "A value above it crosses the limit.",
            "below": "A value below it crosses the limit.",
            "for_s": "How long without a break it is crossed before the run is stopped.",
            "token_file": "File of a bearer token, relative to the plan's folder.",
            "ca_file": "Certificate of a private authority, relative likewise.",
        },
    ),
    "A drill": (
        Drill,
        "Each trial of the plan has the event; [the answer](../guides/drill.md).",
        {
            "after": "Seconds of measured I/O before the event: 5 s at least.",
            "lasts": "How long the event is in force; not for `add_host`. The runtime is longer "
            "than both together.",
            "event": "The event.",
        },
    ),
    "An event of a drill": (
        DrillEvent,
        "Exactly one of these. All but `add_host` (any Ceph cluster) and `command` need a lab.",
        {
            "stop_osd": "Number of an OSD that is killed, and started again.",
            "stop_host": "A host (of a single-zone lab also a rack) whose OSDs are killed.",
            "stop_zone": "A zone whose OSDs are killed; not the first one, where the clients are.",
            "lose_link": "Two zones or racks between which every packet is dropped.",
            "add_host": "A host that comes in; the name alone is enough.",
            "command": "Commands that begin and undo the event.",
        },
    ),
    "A host that is added": (
        HostToAdd,
        "It is drained before each trial, and comes in at the event.",
        {
            "host": "Its name in CRUSH (`ceph osd tree`).",
            "within": "How long it may take until it is drained, and until the cluster is whole.",
        },
    ),
    "A command of a drill": (
        DrillCommand,
        "Two lines for `sh -c`.",
        {
            "begin": "Begins the event.",
            "end": "Undoes it; may run twice.",
            "within": "How long each may take.",
            "folder": "Where they run, relative to the plan's folder.",
        },
    ),
    "A cluster": (
        written.ClusterDocument,
        "An entry of `clusters`: one of `lab`, `ceph_conf` and `kubernetes`.",
        {
            "ceph_conf": "Its configuration; the path is relative to the plan's folder.",
            "keyring": "The key of `id`, unless the configuration names it; relative likewise.",
            "id": "The Ceph user, without `client.`.",
            "lab": "The name of a [lab](../guides/use-a-lab.md) that is up, or the description of "
            "one that is up for this run only.",
            "kubernetes": "How a Kubernetes cluster is reached; with nothing behind it as kubectl "
            "does.",
            "prometheus": "The Prometheus that scrapes the storage's hosts, for the "
            "[costs of an I/O](../guides/costs-of-an-io.md); not with `lab`.",
            "hosts": "The storage's hosts, whose counters are read by ssh; only with `ceph_conf`.",
        },
    ),
    "Prometheus of a cluster": (
        StorageMonitoring,
        "[Metrics and conditions](../guides/costs-of-an-io.md#sources)",
        {
            "url": "Address of Prometheus or of what has its API (Thanos, Mimir), without "
            "`/api/v1/query`.",
            "token_file": "File of a bearer token, relative to the plan's folder.",
            "ca_file": "Certificate of a private authority, relative likewise.",
            "namespaces": "Namespaces of the storage's pods.",
            "instances": "A regular expression (RE2) of the label `instance` of the storage's node "
            "exporters, where no daemons are found on these hosts.",
        },
    ),
    "A Kubernetes cluster": (
        KubernetesCluster,
        "What `kubernetes:` of a cluster takes; where kubectl has a default, it is the default.",
        {
            "kubeconfig": "Relative to the plan's folder. Else the files of `$KUBECONFIG`, "
            "`~/.kube/config`, or the account of the pod that this runs in.",
            "context": "A context of it.",
            "namespace": "One that is there. Without it each run makes its own and removes it.",
            "image": "What runner pods run: fio, a shell and GNU coreutils.",
            "pull_policy": "When nodes pull it.",
            "pull_secrets": "Secrets of the namespace to pull it with.",
            "service_account": "Of runner pods; they get no token of it.",
            "node_selector": "Labels of the nodes that may run them.",
            "tolerations": "Taints that they put up with.",
            "priority_class": "Their priority.",
            "cpu": "Processors that each of them requests and is limited to: `2`, `0.5`, `500m`.",
            "memory": "Memory likewise.",
            "ready_s": "How long volumes and runners may take to be there, and to be gone.",
            "vm": "Virtual machines, for targets with `runner=vm`.",
            "storage_namespaces": "Namespaces of the storage's pods, whose processor time and "
            "memory the kubelets report; `[]`: none are asked.",
        },
    ),
    "A toleration": (
        Toleration,
        "With the fields and the meaning of a pod's `tolerations`.",
        {
            "key": "The taint's key; none is every taint.",
            "operator": "Whether its value counts.",
            "value": "The taint's value.",
            "effect": "The taint's effect; none is every effect.",
        },
    ),
    "Virtual machines": (
        VmSettings,
        "What `vm:` of a Kubernetes cluster takes.",
        {
            "boot": "What they boot from.",
            "io_threads": "A thread of QEMU's own for the data disk.",
            "packages": "What cloud-init installs in a guest that lacks it.",
            "proxy": "The proxy for that.",
        },
    ),
    "A boot image": (
        BootImage,
        "Exactly one of `container_disk`, `url`, `claim` and `data_source`.",
        {
            "container_disk": "An image of a container disk.",
            "url": "A disk image that CDI fetches.",
            "claim": "A volume claim `NAMESPACE/NAME` that CDI clones.",
            "data_source": "A DataSource `NAMESPACE/NAME` of CDI, as golden images have it.",
            "size": "Size of the boot disk: 10 GiB, or that of the DataSource.",
        },
    ),
    "A lab": (
        LabDocument,
        "What a description of a lab takes, in a plan and in the file for `leadline lab up`.",
        {
            "topology": "Zones, racks of one zone, or hosts of one zone.",
            "hosts": "Hosts, each a failure domain; for `topology: hosts` only.",
            "hosts_per_domain": "Hosts in each zone or rack.",
            "osds_per_host": "OSDs on each host.",
            "store": "BlueStore on a file, on a file in memory, or memstore.",
            "osd_size": "Size of each OSD.",
            "inter_zone_rtt": "Round-trip time between zones, on top of what the network takes.",
            "cpu_per_host": "Cores that the OSDs of each host may use together, by a quota of the "
            "kernel's.",
            "encryption": "msgr2 in secure mode on every connection; needs `authentication`.",
            "authentication": "cephx.",
            "pools": "Which of the pools it has.",
        },
    ),
    "Settings": (
        written.DefaultsDocument,
        "What `defaults` takes, and every workload too.",
        {
            "block_size": "Size of one I/O.",
            "iodepth": "I/Os in flight, of each job.",
            "numjobs": "Jobs that run at the same time.",
            "clients": "Load generators that do it at once, each on data of its own.",
            "size": "Data of each job: its file, or its stretch of a device.",
            "runtime": "Time that is measured, of each phase.",
            "ramp": "Time before it that is not counted, of each phase.",
            "engine": "fio's I/O engine. `auto` takes io_uring where it works, else libaio. "
            "`rbd-bench`, `rados-bench` and `zfs-stream` are other programs.",
            "direct": "O_DIRECT: past the page cache.",
        },
    ),
    "A workload": (
        written.WorkloadDocument,
        "An entry of `workloads`: exactly one of `pattern`, `phases` and `job_file`, and settings.",
        {
            "name": "Unique in the plan, profiles included.",
            "description": "For people; shown in reports.",
            "pattern": "fio's `rw`.",
            "read_share": "Per cent of reads, of `rw` and `randrw`.",
            "fsync": "fsync after that many writes; 0 for none.",
            "sharing": "`one-file`: the jobs of a client share one file of `size`.",
            "phases": "Patterns that run one after the other and are reported apart.",
            "levels": "The same workload at several loads: a cell each.",
            "neighbour": "What the neighbours of levels with some do meanwhile.",
            "open_loop": "Levels to be added at these shares of the measured peak.",
            "density": "How many clients at a given rate each are carried?",
            "job_file": "A fio job file of your own, relative to the plan's folder.",
            "targets": "Names of the targets that it is for.",
        },
    ),
    "A phase": (
        written.PhaseDocument,
        "An entry of `phases`. What it leaves out comes from the workload, then from the defaults.",
        {
            "name": "The section's name in fio's job file.",
            "pattern": "fio's `rw`.",
            "block_size": "As in the settings.",
            "iodepth": "As in the settings.",
            "numjobs": "As in the settings.",
            "size": "As in the settings.",
            "read_share": "As of the workload.",
            "fsync": "As of the workload.",
            "sharing": "As of the workload.",
        },
    ),
    "A level": (
        written.LevelDocument,
        "An entry of `levels`: at least one of these, for every phase.",
        {
            "iodepth": "As in the settings; in an open loop the most that may be in flight.",
            "numjobs": "As in the settings.",
            "clients": "As in the settings.",
            "rate": "I/Os per second that each client offers, come what may: an open loop.",
            "neighbours": "More clients, which do what the workload's `neighbour` says.",
        },
    ),
    "Density": (
        written.DensityDocument,
        "What `density` of a workload takes. Clients are doubled, then bisected.",
        {
            "rate": "I/Os per second that each client offers.",
            "limit": "What latency must stay below, for instance `p99<5ms`.",
            "most": "So many clients at most, whose data is laid out beforehand.",
        },
    ),
}

_NESTED: Mapping[type[BaseModel], str] = {
    Setting: "[settings](../guides/try-settings.md#kinds), by name",
    written.TargetDocument: "[targets](#a-target)",
    written.BudgetDocument: "[a budget](#a-budget)",
    Guard: "[a guard](#a-guard)",
    Drill: "[a drill](#a-drill)",
    DrillEvent: "[an event](#an-event-of-a-drill)",
    HostToAdd: "[a host](#a-host-that-is-added)",
    DrillCommand: "[commands](#a-command-of-a-drill)",
    PrometheusLimit: "[limits](#a-limit-on-a-query)",
    written.DetectDocument: "share, or [more](#a-change-to-detect)",
    written.StopDocument: "[a rule](#stop-when-decided)",
    Dimension: "lists of values, or options by value, by name",
    written.ClusterDocument: "[clusters](#a-cluster)",
    LabDocument: "[a lab](#a-lab)",
    KubernetesCluster: "[a Kubernetes cluster](#a-kubernetes-cluster)",
    StorageMonitoring: "[an address](#prometheus-of-a-cluster)",
    Toleration: "[tolerations](#a-toleration)",
    VmSettings: "[virtual machines](#virtual-machines)",
    BootImage: "[a boot image](#a-boot-image)",
    written.WorkloadDocument: "[workloads](#a-workload)",
    written.PhaseDocument: "[phases](#a-phase)",
    written.LevelDocument: "[levels](#a-level)",
    written.DensityDocument: "[density](#density)",
    written.DefaultsDocument: "[settings](#settings)",
}
_DEFAULTS_IN_WORDS = {
    (written.PlanDocument, "seed"): "a random one, recorded",
    (written.StopDocument, "compare"): "`cluster` where the plan has several, else `target`",
    (written.StopDocument, "baseline"): "the first one",
    (written.StopDocument, "within"): "`5%`",
    (written.StopDocument, "futility"): "`20%`",
    (Guard, "every"): "5 s",
    (Guard, "silence"): "30 s",
    (Guard, "zone"): "`local`",
    (DrillCommand, "within"): "60 s",
    (DrillCommand, "folder"): "the plan's folder",
    (PrometheusLimit, "for_s"): "0 s",
    (written.PlanDocument, "name"): "none",
    (written.TargetDocument, "name"): "the URL",
    (written.TargetDocument, "clusters"): "all of the plan",
    (written.ClusterDocument, "id"): "`admin`",
    (StorageMonitoring, "namespaces"): "those of Rook, OpenShift Data Foundation and Mayastor",
    (StorageMonitoring, "instances"): "the hosts of daemons",
    (
        KubernetesCluster,
        "storage_namespaces",
    ): "those of Rook, OpenShift Data Foundation and Mayastor",
    (KubernetesCluster, "image"): "`$LEADLINE_RUNNER_IMAGE`",
    (KubernetesCluster, "pull_policy"): "`IfNotPresent`",
    (KubernetesCluster, "cpu"): "`2`",
    (KubernetesCluster, "memory"): "`1Gi`",
    (KubernetesCluster, "ready_s"): "`5min`",
    (Toleration, "operator"): "`Equal`",
    (VmSettings, "packages"): "`[fio]`",
    (BootImage, "size"): "`10Gi`",
    (LabDocument, "topology"): "`multi-zone`",
    (LabDocument, "store"): "`bluestore`",
    (LabDocument, "osd_size"): "`4G`",
    (LabDocument, "hosts"): "`3`",
    (LabDocument, "cpu_per_host"): "all there are",
    (LabDocument, "inter_zone_rtt"): "`1ms`; none in a single zone",
    (LabDocument, "pools"): "all",
    (written.PhaseDocument, "name"): "the pattern",
    (written.WorkloadDocument, "levels"): "one level, from the settings",
    (written.WorkloadDocument, "targets"): "all of the plan",
    (written.DefaultsDocument, "clients"): "the target's own",
    (written.LevelDocument, "iodepth"): "as the workload; `64` with a rate",
    (written.LevelDocument, "rate"): "none: a closed loop",
}


def plan() -> str:
    """Every key of a plan file."""
    parts = [
        "# Plan file",
        prose(
            "Every key that a plan takes. [Write a plan](../guides/write-a-plan.md) shows how they",
            "fit together.",
        ),
        prose(
            "A *size* is a whole number of bytes or a text like `4k`, `1M`, `10G`: powers of 1024,",
            "as with fio; `4kB`, `1MB` are powers of 1000, `4KiB` is `4k`. A *duration* is a",
            "number of seconds or a text like `500ms`, `10s`, `5m`, `1h`.",
        ),
    ]
    for title, (model, words, meanings) in _KEYS.items():
        inherited = set(written.DefaultsDocument.model_fields)
        fields = {
            key: field
            for key, field in model.model_fields.items()
            if model is not written.WorkloadDocument or key not in inherited
        }
        if set(fields) != set(meanings):
            raise SystemExit(f"{model.__name__}: described and real keys differ")
        rows = [
            (
                code(field.alias or key),
                _takes(model, key, field),
                _default(model, key, field),
                meanings[key],
            )
            for key, field in fields.items()
        ]
        parts += [f"## {title}", words, table(("key", "takes", "default", "meaning"), rows)]
        if model is written.TargetDocument:
            parts += _storage_class_options()
    parts += _job_file_options()
    return "\n\n".join(parts)


def _job_file_options() -> list[str]:
    """What a user's own job file may hold."""
    listed = fio_options()

    def names(options: Mapping[str, str | None]) -> str:
        return ", ".join(
            code(option) + (f" ({code(alias)})" if alias else "")
            for option, alias in sorted(options.items())
        )

    places = {Place.ANY: "any", Place.FILES: "files", Place.DEVICE: "a device"}
    allowed = [
        (words, names(listed.allowed[place]), ", ".join(map(code, listed.engines[place])))
        for place, words in places.items()
    ]
    refused = [(names(each.options), each.reason) for each in listed.refused]
    engines = [(", ".join(map(code, each.engines)), each.reason) for each in listed.refused_engines]
    choices = [
        (code(option), ", ".join(map(code, values))) for option, values in listed.choices.items()
    ]
    return [
        "## Options of a job file",
        prose(
            "A job file of your own has these options of fio, their aliases in brackets, and these",
            "I/O engines. Every other option is refused.",
        ),
        table(("target", "options", "I/O engines"), allowed),
        "These options have one of these values:",
        table(("option", "values"), choices),
        "Refused for a reason:",
        table(("options", "reason"), refused),
        table(("I/O engines", "reason"), engines),
    ]


_OPTIONS: Mapping[str, tuple[str, str, str]] = {
    "size": ("size", "what the workloads need", "Of each volume."),
    "mode": ("", "`block` where the class can", "A raw device, or a file system on it."),
    "access": (
        "",
        "`rwo`",
        "One node may write it (`rwo`), several (`rwx`), or several read it (`rox`).",
    ),
    "runner": ("", "`pod`", "What does the I/O."),
    "vm": ("", "`small`", "The size of the machine, with `runner=vm`."),
    "cores": (
        "processors",
        "of `vm`, of the cluster's pods",
        "Of each runner; whole ones with `vm`.",
    ),
    "memory": ("size", "of `vm`, of the cluster's pods", "Of each runner."),
    "io_threads": ("", "of the cluster's `vm`", "A thread of QEMU's own for the data disk."),
    "bus": ("", "`virtio`", "Of the machine's data disk."),
    "cache": ("", "`none`", "How the machine's host caches it."),
    "dedicated": ("", "`no`", "Processors of the node for the machine alone."),
    "node": ("text", "any", "The node that it is done on."),
    "zone": ("text", "any", "The zone of that node."),
    "spread": ("", "the scheduler's", "Runners evenly over nodes, or over zones."),
    "count": (
        f"1 to {volume_request.MOST_VOLUMES}, `all`",
        "`1`",
        "Volumes that are used together; `all`: one for each node or zone of `spread`.",
    ),
    "volume": ("", "`same`", "One for all trials, or a fresh one for each."),
    "sharing": (
        "",
        "a volume each; `same-files` with `access=rox`",
        "The pods of `count` use one volume: files of their own, or the same ones.",
    ),
    "snapshot_class": (
        "a VolumeSnapshotClass",
        "the default of the driver, else its first",
        "Of the snapshots of `engine: volume-lifecycle`.",
    ),
}


def _storage_class_options() -> list[str]:
    """What may stand behind `storageclass:NAME?`."""
    if tuple(_OPTIONS) != volume_request.OPTIONS:
        raise SystemExit("storageclass targets: described and real options differ")
    rows = [
        (code(key), takes or ", ".join(map(code, volume_request.CHOICES[key])), default, meaning)
        for key, (takes, default, meaning) in _OPTIONS.items()
    ]
    sizes = ", ".join(
        f"{code(name)} {one.cores:g} processors and {one.memory_bytes // volume_request.GIB} GiB"
        for name, one in volume_request.PRESETS.items()
    )
    return [
        "### Options of a storageclass target",
        "As in `storageclass:fast?size=20Gi&count=3`; each volume has a runner of its own.",
        table(("option", "takes", "default", "meaning"), rows),
        f"Machines: {sizes}.",
    ]


def _takes(model: type[BaseModel], key: str, field: FieldInfo) -> str:
    if (model, key) == (written.PlanDocument, "profile"):
        return "a name, or a list of names"
    if (model, key) == (written.PlanDocument, "expect"):
        return "a sentence, or a list of sentences or mappings"
    if (model, key) in (
        (written.TargetDocument, "clusters"),
        (written.WorkloadDocument, "targets"),
    ):
        return "a name, or a list of names"
    if (model, key) in ((KubernetesCluster, "cpu"), (written.BudgetDocument, "cores")):
        return "processors"
    if (model, key) == (written.ClusterDocument, "lab"):
        return "a name, or [a lab](#a-lab)"
    if (model, key) == (written.DetectDocument, "change"):
        return "share: `10%`"
    if (model, key) in ((written.StopDocument, "within"), (written.StopDocument, "futility")):
        return "share: `5%`"
    if (model, key) == (written.DensityDocument, "limit"):
        return "METRIC<DURATION"
    if (model, key) == (written.WorkloadDocument, "open_loop"):
        return "list of shares: `50%`"
    if (model, key) in ((LabDocument, "osd_size"), (LabDocument, "inter_zone_rtt")):
        return "size" if key == "osd_size" else "duration"
    return _type(field.annotation, list(field.metadata))


def _type(annotation: Any, metadata: list[Any]) -> str:
    """A type in words; `metadata` holds its limits."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0], [*arguments[1:], *metadata])
    if origin in (Union, UnionType):
        kinds = [one for one in arguments if one is not NoneType]
        return " or ".join(_type(one, metadata) for one in kinds)
    if origin is Literal:
        return ", ".join(code(one) for one in arguments)
    if origin is dict:
        if arguments[1] not in _NESTED:
            return "words by word"
        if arguments[1] is Dimension:
            return _NESTED[Dimension]
        return f"names of {_NESTED[arguments[1]]}"
    if origin is tuple:
        inner = arguments[0]
        if inspect.isclass(inner) and issubclass(inner, StrEnum):
            return f"list of {_type(inner, [])}"
        return f"list of {_NESTED.get(inner) or _type(inner, []) + 's'}"
    if annotation in _NESTED:
        return _NESTED[annotation]
    if inspect.isclass(annotation) and issubclass(annotation, StrEnum):
        return ", ".join(code(one.value) for one in annotation)
    parsers = {getattr(one, "func", None) for one in metadata}
    if parse_size in parsers:
        return "size"
    if parse_duration in parsers:
        return "duration"
    if annotation is bool:
        return "`true`, `false`"
    if annotation is float:
        return "number"
    if annotation is int:
        least = next((one.ge for one in _flat(metadata) if hasattr(one, "ge")), None)
        most = next((one.le for one in _flat(metadata) if hasattr(one, "le")), None)
        if most is not None and most > 10**9:
            return f"whole number from {least}"
        return f"{least} to {most}" if most is not None else f"whole number from {least}"
    return "text"


def _flat(metadata: Iterable[Any]) -> list[Any]:
    return [part for one in metadata for part in (*getattr(one, "metadata", ()), one)]


def _default(model: type[BaseModel], key: str, field: FieldInfo) -> str:
    words = _DEFAULTS_IN_WORDS.get((model, key))
    if words:
        return words
    if field.is_required():
        return "required"
    if model is written.DefaultsDocument:
        return _default_in_effect(key)
    if key in ("read_share", "fsync") and model is written.WorkloadDocument:
        return code(_phase_in_effect("randrw" if key == "read_share" else "write", key))
    value = field.default
    if value is None:
        return "the workload's" if model is written.PhaseDocument else "none"
    if isinstance(value, bool):
        return code(str(value).lower())
    if key == "grace":
        return code(f"{value:g}s")
    return code(value) if isinstance(value, int) else "none"


def _smallest(pattern: str) -> Workload:
    """A workload with nothing said, as it expands."""
    given = {"targets": ["dir:/target"], "workloads": [{"name": "one", "pattern": pattern}]}
    document = written.PlanDocument.model_validate(given)
    return expand.expand(document, [], {}, written.DefaultsDocument()).cells[0].workload


def _phase_in_effect(pattern: str, key: str) -> object:
    return getattr(_smallest(pattern).phases[0], key)


def _default_in_effect(key: str) -> str:
    workload = _smallest("read")
    if key in ("runtime", "ramp"):
        return code(f"{getattr(workload, key + '_s'):g}s")
    if key == "size":
        return code(f"{workload.phases[0].size >> 30}G")
    if key == "block_size":
        return code(format_block_size(workload.phases[0].block_size))
    if key == "direct":
        return code(str(workload.direct).lower())
    if key == "engine":
        return code(workload.engine.value)
    return code(getattr(workload.phases[0], key))


# --- ZFS ----------------------------------------------------------------------------------------


def zfs() -> str:
    """Format the tables of `data/zfs_parameters.yaml`."""
    parts = [
        "# ZFS: properties and parameters",
        prose(
            "Leadline stores, shows and compares this configuration of ZFS below a target: the",
            "properties of its dataset, and the parameters of the kernel module that affect",
            "writes, reads and received streams. zfs-fuse has no such parameters.",
        ),
        "## Properties of a dataset",
        table(
            ("property", "what it does", "shows in"),
            (
                (code(one.name), one.does, "I/O" if one.bearing == "every" else one.bearing)
                for one in dataset_properties()
            ),
        ),
        "## Parameters of the module",
        prose(
            "Each default names the version that introduced it. The last column is the evidence in",
            "a measurement that the value is the limit; kstats are files in `/proc/spl/kstat/zfs`.",
            "Sources: OpenZFS's manual page zfs(4) and its source.",
        ),
    ]
    for concern in Concern:
        chosen = [one for one in zfs_parameters() if one.concern is concern]
        parts.append(f"### {concern.value[0].upper()}{concern.value[1:]}")
        parts.append(
            table(
                ("parameter", "default", "what it does", "evidence that it is the limit"),
                ((code(one.name), _defaults(one), one.does, one.evidence) for one in chosen),
            )
        )
    return "\n\n".join(parts)


def _defaults(one: Parameter) -> str:
    """`128 KiB; from 0.8 on 1 MiB`."""
    texts = [
        f"from {first} on {format_parameter(one, str(value))}"
        for first, value in one.defaults.items()
    ]
    # The first default is as old as the parameter.
    texts[:1] = [text.partition(" on ")[2] for text in texts[:1]]
    return "; ".join(texts) or one.computed


# --- all ----------------------------------------------------------------------------------------

GENERATED: Mapping[str, Callable[[], str]] = {
    "commands.md": commands,
    "plan.md": plan,
    "profiles.md": profiles,
    "rules.md": rules,
    "zfs.md": zfs,
}


def generated() -> dict[Path, str]:
    """The text of every generated page."""
    return {PAGES / name: HEAD + "\n" + make() + "\n" for name, make in GENERATED.items()}


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: scripts/reference.py [--check]", file=sys.stderr)
        return 2
    stale = [
        (path, text)
        for path, text in generated().items()
        if not path.exists() or path.read_text("utf-8") != text
    ]
    for path, text in stale:
        if arguments:
            print(f"{path} is not what the code says; run scripts/reference.py", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
            print(path)
    return 1 if stale and arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
