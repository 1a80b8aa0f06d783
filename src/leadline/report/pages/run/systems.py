"""The clusters of a run: what each was, and what the plan wanted of it and did not get."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from leadline.archive.reader import Run
from leadline.archive.records import Runner
from leadline.errors import LeadlineError
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.host import NvmeController
from leadline.report.cells import slug, word
from leadline.report.document import Block, Bullets, Cell, Column, Kind, Paragraph, Section, Table
from leadline.report.pages.inventory import inventory_document
from leadline.report.pages.inventory_kubernetes import kubernetes_document
from leadline.report.words import NOT_SHOWN, count_text, listed
from leadline.units import format_latency, format_size


def system_sections(run: Run) -> tuple[Section, ...]:
    """A folded section for each cluster, as it was at the start of the run."""
    return tuple(_section(run, cluster.name) for cluster in run.plan.clusters)


def left_out_section(run: Run) -> tuple[Section, ...]:
    """Optional targets that could not be used; none where there is nothing to tell."""
    rows = tuple(
        (word(one.target), word(one.reason or "not recorded")) for one in run.plan.left_out
    )
    if not rows:
        return ()
    columns = (Column(title="target"), Column(title="reason"))
    table = Table(id="left-out", caption="", columns=columns, rows=rows)
    return (Section(heading="Left out", id="targets-left-out", blocks=(table,)),)


def _section(run: Run, name: str) -> Section:
    anchor = f"cluster-{slug(name)}"
    heading = f"Cluster {name}"
    said: list[Block] = []
    lab = _lab(run, name)
    if lab:
        said.append(Bullets(items=tuple(_lab_facts(lab))))
    source = f"at the start of {run.id}"
    try:
        around = run.kubernetes("start", name)
        start, end = run.cluster("start", name), run.cluster("end", name)
    except LeadlineError as error:
        said.append(Paragraph(text=f"Its inventory cannot be read: {error.fact}."))
        return Section(heading=heading, id=anchor, blocks=tuple(said), folded=True)
    if around is not None:
        document = kubernetes_document(around, source)
    elif start is not None:
        document = inventory_document(start, source)
    else:
        said.append(Paragraph(text="The archive holds no inventory of it."))
        return Section(heading=heading, id=anchor, blocks=tuple(said), folded=True)
    since = _since(start, end) if start is not None else ()
    said.append(Bullets(items=(document.title, *document.summary, *since)))
    return Section(
        heading=heading,
        id=anchor,
        blocks=tuple(said),
        sections=tuple(
            _named(section, anchor) for section in document.sections if not section.folded
        ),
        folded=True,
    )


def _since(start: CephInventory, end: CephInventory | None) -> tuple[str, ...]:
    """What had become of it at the end of the run, where that can be told."""
    if end is None:
        return ("at the end of the run no inventory was taken",)
    changed = []
    if end.health is not start.health:
        codes = ", ".join(check.code for check in end.checks)
        changed.append(f"health was {start.health.value} and became {end.health.value} ({codes})")
    for what, ours, theirs in (
        ("OSDs up", sum(osd.up for osd in start.osds), sum(osd.up for osd in end.osds)),
        ("OSDs in", sum(osd.is_in for osd in start.osds), sum(osd.is_in for osd in end.osds)),
        ("placement groups", _pgs(start), _pgs(end)),
    ):
        if ours != theirs:
            changed.append(f"{what} were {ours} and became {theirs}")
    return tuple(changed) or ("health, OSDs and placement groups were the same at the end",)


def _pgs(inventory: CephInventory) -> int:
    return sum(pool.pg_num for pool in inventory.pools)


def _lab(run: Run, name: str) -> dict[str, Any]:
    """What the lab tells of itself; empty for a cluster that is none."""
    raw = run.system_dumps("start", name).get("lab.json")
    try:
        told = json.loads(raw) if raw else {}
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _lab_facts(lab: dict[str, Any]) -> list[str]:
    description = lab.get("description", {})
    shared = (
        "a lab on the machine that generates the load: daemons and load share its processors, so "
        "that its figures are about differences, not about what hardware can do"
    )
    facts = [
        shared,
        f"topology {description.get('topology')}, store {description.get('store')}",
    ]
    cores = description.get("cpu_per_host")
    if isinstance(cores, int | float):
        facts.append(f"a processor quota of {cores:g} cores for the OSDs of each host")
    facts += [lab[key] for key in ("network_note", "cephfs_note") if lab.get(key)]
    trips = [
        f"{one['source']} to {one['destination']} {format_latency(one['median_s'])}"
        for one in lab.get("round_trips", ())
    ]
    if trips:
        facts.append(f"round trips as it came up (median): {', '.join(trips)}")
    return facts


def _named(section: Section, prefix: str) -> Section:
    """The section with anchors that no other cluster's section has."""
    return replace(
        section,
        id=f"{prefix}-{section.id}",
        blocks=tuple(
            replace(block, id=f"{prefix}-{block.id}") if isinstance(block, Table) else block
            for block in section.blocks
        ),
        sections=tuple(_named(one, prefix) for one in section.sections),
        folded=False,
    )


# The NVMe controllers of the machine that made the load, beside its block devices.


def nvme_blocks(controllers: Sequence[NvmeController]) -> tuple[Block, ...]:
    """A row for each controller; none of a machine without any."""
    if not controllers:
        return ()
    rows = []
    for one in controllers:
        spaces = [f"{space.name} ({format_size(space.size_bytes)})" for space in one.namespaces]
        limits = {space.max_transfer_bytes for space in one.namespaces if not space.has_no_limit}
        free = any(space.has_no_limit for space in one.namespaces)
        most = "no limit" if free else format_size(max(limits)) if max(limits, default=0) else ""
        # The first queue is for administration.
        queues = count_text(max(0, one.queues - 1), "queue") if one.queues else NOT_SHOWN
        depth = f" of {one.queue_depth}" if one.queues and one.queue_depth else ""
        texts = (
            one.name,
            one.model,
            one.transport,
            one.address,
            one.state,
            queues + depth,
            most,
            ", ".join(spaces),
            one.multipath_policy,
            one.subsystem_nqn,
        )
        shown = (text or NOT_SHOWN for text in texts)
        rows.append(tuple(Cell(text=text, sort=text) for text in shown))
    titles = (
        *("controller", "model", "transport", "address", "state", "I/O queues"),
        *("largest transfer", "namespaces", "multipath policy", "subsystem"),
    )
    table = Table(
        id="nvme",
        caption="NVMe controllers of the host",
        columns=tuple(Column(title=title, rank=max(0, at - 3)) for at, title in enumerate(titles)),
        rows=tuple(rows),
    )
    return (table,)


# What did the I/O in a Kubernetes cluster: pods and virtual machines, and the volumes they had.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Like:
    """What runners of one row have in common."""

    target: str
    kind: str
    image: str
    digest: str
    user: int | None
    cores: float
    memory_bytes: int
    storage_class: str
    mode: str
    size_bytes: int
    driver: str


def runner_blocks(run: Run) -> tuple[Block, ...]:
    """A row for all runners of a target that were alike; nothing where this machine did the I/O."""
    nodes: dict[_Like, set[str]] = {}
    most: dict[_Like, int] = {}
    for trial in run.trials:
        alike: dict[_Like, int] = {}
        for runner in trial.runners:
            like = _like(trial.record.target, runner)
            nodes.setdefault(like, set()).add(runner.node)
            alike[like] = alike.get(like, 0) + 1
        for like, count in alike.items():
            most[like] = max(most.get(like, 0), count)
    if not most:
        return ()
    titles = ("target", "runner", "nodes", "image", "volumes")
    rows = tuple(
        (
            *(Cell(text=text) for text in _texts(like, nodes[like], count)),
            Cell(text=f"{like.cores:g}", sort=like.cores),
            Cell(text=format_size(like.memory_bytes), sort=float(like.memory_bytes)),
        )
        for like, count in most.items()
    )
    columns = (
        *(Column(title=text) for text in titles),
        Column(title="processors", kind=Kind.NUMBER),
        Column(title="memory", kind=Kind.NUMBER),
    )
    return (
        Table(
            id="runners",
            caption="Runners: what did the I/O, each with a volume of its own",
            columns=columns,
            rows=rows,
        ),
    )


def _like(target: str, runner: Runner) -> _Like:
    volume = runner.volume
    return _Like(
        target=target,
        kind=runner.kind,
        image=runner.image,
        digest=runner.image_id.rpartition("@")[2],
        user=runner.user,
        cores=runner.cores,
        memory_bytes=runner.memory_bytes,
        storage_class=volume.storage_class,
        mode=volume.mode,
        size_bytes=volume.size_bytes,
        driver=volume.driver,
    )


def _texts(like: _Like, nodes: set[str], count: int) -> tuple[str, ...]:
    who = {"pod": "pod", "vm": "virtual machine"}[like.kind]
    runner = f"{who} of user {like.user}" if like.user is not None else who
    image = f"{like.image} ({like.digest[:19]})" if like.digest else like.image
    volumes = f"{count} of {format_size(like.size_bytes)}, {like.mode}"
    driver = f", driver {like.driver}" if like.driver else ""
    return (
        like.target,
        runner if count == 1 else f"{count} x {runner}",
        listed(sorted(nodes)) or NOT_SHOWN,
        image or NOT_SHOWN,
        f"{volumes} ({like.storage_class}{driver})",
    )
