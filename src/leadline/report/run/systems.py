"""The clusters of a run: what each was, and what the plan wanted of it and did not get."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.inventory.ceph import CephInventory
from leadline.report.conditions import word
from leadline.report.document import Block, Bullets, Column, Paragraph, Section, Table
from leadline.report.inventory.kubernetes import kubernetes_document
from leadline.report.inventory.page import inventory_document
from leadline.report.run.results import slug
from leadline.report.wording import visible
from leadline.units import format_latency


def system_sections(run: Run) -> tuple[Section, ...]:
    """A folded section for each cluster, as it was at the start of the run."""
    return tuple(_section(run, cluster.name) for cluster in run.plan.clusters)


def left_out_section(run: Run) -> tuple[Section, ...]:
    """Optional targets that could not be used; none where there is nothing to tell."""
    rows = tuple(
        (word(one.target), word(visible(one.reason) or "not recorded")) for one in run.plan.left_out
    )
    if not rows:
        return ()
    columns = (Column(title="target"), Column(title="reason"))
    table = Table(id="left-out", caption="", columns=columns, rows=rows)
    return (Section(heading="Left out", id="targets-left-out", blocks=(table,)),)


def _section(run: Run, name: str) -> Section:
    anchor = f"cluster-{slug(name)}"
    heading = f"Cluster {visible(name)}"
    said: list[Block] = []
    lab = _lab(run, name)
    if lab:
        said.append(Bullets(items=tuple(_lab_facts(lab))))
    source = f"at the start of {visible(run.id)}"
    try:
        around = run.kubernetes("start", name)
        start, end = run.cluster("start", name), run.cluster("end", name)
    except LeadlineError as error:
        said.append(Paragraph(text=f"Its inventory cannot be read: {visible(error.fact)}."))
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
    facts += [visible(lab[key]) for key in ("network_note", "cephfs_note") if lab.get(key)]
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
