"""What held each level back, in words and numbers."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.analysis.bottleneck.model import Bottleneck, Strength, Suspect
from leadline.analysis.scaling.study import CurveStudy, LevelBottleneck
from leadline.report.document import Cell, Column, Kind, Table
from leadline.report.scaling.tables import word
from leadline.report.scaling.wording import level_text
from leadline.report.wording import evidence_name, evidence_text, listed, visible

_NAMES = {
    Bottleneck.CLIENT_NETWORK: "clients' network",
    Bottleneck.CLIENT_CPU: "clients' processors",
    Bottleneck.STORAGE_NETWORK: "storage's network",
    Bottleneck.OSD_MEDIA: "media",
    Bottleneck.OSD_CPU: "storage's processors",
    Bottleneck.TARGET_CORES: "processor limit",
    Bottleneck.QUEUE_DEPTH: "queue not filled",
    Bottleneck.ROUND_TRIPS: "round trips",
    Bottleneck.NOT_SATURATED: "nothing yet",
    Bottleneck.UNKNOWN: "not known",
}
# What is said of the level with the highest throughput; "there" is that level.
_CLAUSES = {
    Bottleneck.CLIENT_NETWORK: "the clients' network is full there",
    Bottleneck.CLIENT_CPU: "the clients' processors are full there",
    Bottleneck.STORAGE_NETWORK: "the storage's network is full there",
    Bottleneck.OSD_MEDIA: "the storage's media are busy without a pause there",
    Bottleneck.OSD_CPU: "the storage's processors are full there",
    Bottleneck.TARGET_CORES: "the storage's processor limit is used up there",
    Bottleneck.QUEUE_DEPTH: "the queue that was asked for is not reached there",
    Bottleneck.ROUND_TRIPS: "round trips between zones make up the latency there",
}


def bottleneck_name(one: Bottleneck) -> str:
    return _NAMES[one]


def at_peak_clause(study: CurveStudy) -> str:
    """What is used up where throughput is highest, as a clause; empty where it still grows, or
    nothing is named or suspected."""
    found = study.at_peak
    if found is None or study.shape.saturated is False:
        return ""
    told = [one for one in found.leading if one.bottleneck in _CLAUSES]
    named = [one for one in told if one.strength is Strength.NAMED]
    if named:
        return listed(_CLAUSES[one.bottleneck] for one in named)
    if told:
        names = listed(_NAMES[one.bottleneck] for one in told)
        return f"what holds it back is not certain; suspected: {names}"
    return ""


def bottleneck_table(anchor: str, studies: Sequence[tuple[str, CurveStudy]]) -> Table:
    """A row for each level: what is named or suspected and why, what is ruled out, and what nobody
    measured."""
    columns = (
        Column(title="curve"),
        Column(title="level"),
        Column(title="held back by"),
        Column(title="ruled out", kind=Kind.NUMBER, rank=2),
        Column(title="not measured", kind=Kind.NUMBER, rank=1),
        Column(title="evidence"),
    )
    return Table(
        id=anchor,
        caption="",
        columns=columns,
        rows=tuple(
            (word(name), *_row(level)) for name, study in studies for level in study.bottlenecks
        ),
    )


def _row(level: LevelBottleneck) -> tuple[Cell, ...]:
    leading = level.leading
    sure = bool(leading) and leading[0].strength is Strength.NAMED
    names = listed(_NAMES[one.bottleneck] for one in leading)
    held = names if sure else f"perhaps: {names}" if names else "not known"
    return (
        word(level_text(level.point)),
        word(held),
        _those(level, Strength.EXCLUDED, "nothing is ruled out"),
        _those(level, Strength.NOT_MEASURED, "everything was measured"),
        _evidence(leading),
    )


def _evidence(leading: Sequence[Suspect]) -> Cell:
    """What nobody measured is counted beside it, and named when pointed at."""
    told = " ".join(visible(one.sentence) for one in leading)
    if any(one.bottleneck is Bottleneck.UNKNOWN for one in leading):
        return Cell(text="nothing that was measured was used up", note=told)
    return Cell(text=told)


def _those(level: LevelBottleneck, strength: Strength, nothing: str) -> Cell:
    """How many, and which when pointed at: the evidence at the highest level names them in full."""
    names = [
        _NAMES[one.bottleneck]
        for one in level.suspects
        if one.strength is strength and one.bottleneck is not Bottleneck.UNKNOWN
    ]
    told = listed(names, limit=len(_NAMES)) if names else nothing
    return Cell(text=f"{len(names)}", sort=float(len(names)), note=told)


def suspects_table(anchor: str, name: str, level: LevelBottleneck) -> Table:
    """Every bottleneck at one level, with its evidence as sentence and numbers."""
    where = f"{name} at {level_text(level.point)}"
    trial = f", trial {visible(level.evidence.trial)}" if level.evidence.trial else ""
    return Table(
        id=anchor,
        caption=f"{where}{trial}",
        columns=(
            Column(title="bottleneck"),
            Column(title="verdict of the evidence"),
            Column(title="numbers", rank=1),
            Column(title="evidence"),
        ),
        rows=tuple(_suspect(one) for one in level.suspects),
    )


def _suspect(one: Suspect) -> tuple[Cell, ...]:
    numbers = (
        f"{evidence_name(key)} {evidence_text(key, value)}" for key, value in one.evidence.items()
    )
    return (
        word(_NAMES[one.bottleneck]),
        word(one.strength.value),
        word(", ".join(numbers)),
        Cell(text=visible(one.sentence)),
    )
