"""Whether a setting can matter, given what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

# What a sentence on a setting begins with where the evidence leaves it open.
UNKNOWN = "Not told by the evidence: "


class Relevance(StrEnum):
    """What the evidence says of a setting for this trial."""

    CAN = "can matter"
    CANNOT = "cannot matter"
    NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`name` as its owner calls it, `value` as it was (empty: not told), one sentence with the
    numbers that say so, and these as `evidence` in base units, with units in their names."""

    name: str
    value: str
    relevance: Relevance
    sentence: str
    evidence: Mapping[str, float] = field(default_factory=dict)


def can(name: str, value: str, sentence: str, **evidence: float) -> Setting:
    return Setting(
        name=name, value=value, relevance=Relevance.CAN, sentence=sentence, evidence=evidence
    )


def cannot(name: str, value: str, sentence: str, **evidence: float) -> Setting:
    return Setting(
        name=name, value=value, relevance=Relevance.CANNOT, sentence=sentence, evidence=evidence
    )


def not_known(name: str, value: str, fact: str, **evidence: float) -> Setting:
    return Setting(
        name=name,
        value=value,
        relevance=Relevance.NOT_KNOWN,
        sentence=f"{UNKNOWN}{fact}.",
        evidence=evidence,
    )
