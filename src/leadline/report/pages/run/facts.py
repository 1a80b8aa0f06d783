"""The facts that a user gave about the clusters and targets of imported results."""

from __future__ import annotations

from collections.abc import Callable

from leadline.archive.reader import Run
from leadline.plan.facts import ClusterFacts, TargetFacts
from leadline.plan.models import Cluster, Target
from leadline.report.cells import table
from leadline.report.document import Block, Cell, KeyValues, Paragraph, Section
from leadline.units import format_size

_UNKNOWN = "unknown"


def facts_sections(run: Run) -> tuple[Section, ...]:
    """A section for each cluster with facts; missing facts are listed as unknown."""
    return tuple(
        _section(run, cluster, [one for one in run.plan.targets if one.cluster == cluster.name])
        for cluster in run.plan.clusters
        if cluster.facts is not None
    )


def _section(run: Run, cluster: Cluster, targets: list[Target]) -> Section:
    given = cluster.facts
    assert given is not None, "asked of clusters with facts"
    source = f" Their source: {given.source}." if given.source else ""
    lead = f"Given by the user in {given.file}, not measured.{source}"
    known = [key for key in ClusterFacts.model_fields if getattr(given, key) is not None]
    blocks: list[Block] = [Paragraph(text=lead)]
    if known:
        pairs = tuple((_title(key), _text(key, getattr(given, key))) for key in known)
        blocks.append(KeyValues(pairs=pairs))
    facts = [target.facts or TargetFacts() for target in targets]
    texts = {title: [text(one) for one in facts] for title, text in _OF_TARGET}
    stated = [title for title, column in texts.items() if any(column)]
    if stated:
        columns = [[_cell(text) for text in texts[title]] for title in stated]
        rows = zip((target.name for target in targets), *columns, strict=True)
        blocks.append(table("facts-of-targets", ("target", *stated), rows))
    unknown = [_title(key) for key in ClusterFacts.model_fields if key not in known]
    unknown += [title for title in texts if title not in stated and title not in _RARE]
    # An inventory has most of the others; its own section shows them.
    if unknown and not run.system_dumps("start", cluster.name):
        blocks.append(Paragraph(text=f"Unknown, because not given: {', '.join(unknown)}."))
    return Section(heading="Facts given by the user", id="facts", blocks=tuple(blocks))


def _title(key: str) -> str:
    return key.replace("_", " ")


def _cell(text: str | None) -> Cell:
    return Cell(text=text or _UNKNOWN, missing=text is None)


def _text(key: str, value: object) -> str:
    if isinstance(value, int) and key == "memory_per_node":
        return format_size(value)
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"


def _encrypted(facts: TargetFacts) -> str | None:
    return None if facts.encrypted is None else "yes" if facts.encrypted else "no"


def _access(facts: TargetFacts) -> str | None:
    return None if facts.access is None else ", ".join(facts.access) or "none"


_OF_TARGET: tuple[tuple[str, Callable[[TargetFacts], str | None]], ...] = (
    ("pool", lambda one: one.pool),
    ("redundancy", lambda one: one.redundancy),
    ("min_size", lambda one: _number(one.min_size)),
    ("failure domain", lambda one: one.failure_domain),
    ("encrypted", _encrypted),
    ("access", _access),
    ("media", lambda one: one.media),
    ("cores", lambda one: _number(one.cores)),
    ("raw per byte", lambda one: _number(one.raw_per_stored)),
    ("price per TiB", lambda one: _number(one.price)),
)
# Not missed where they are not given: the pool's name is often the target's, and the raw bytes
# follow from the redundancy.
_RARE = ("pool", "raw per byte")
