"""All bottlenecks of a level, each with what speaks for or against it."""

from __future__ import annotations

from dataclasses import replace

from leadline.analysis.bottleneck.media import media
from leadline.analysis.bottleneck.model import (
    Bottleneck,
    LevelEvidence,
    Strength,
    Suspect,
    suspect,
)
from leadline.analysis.bottleneck.networks import client_network, storage_network
from leadline.analysis.bottleneck.processors import client_cpu, storage_cpu, target_cores
from leadline.analysis.bottleneck.waiting import not_saturated, queue_depth, round_trips

_ORDER = tuple(Strength)
# What can be used up; more load then gives no more.
_RESOURCES = (
    Bottleneck.CLIENT_NETWORK,
    Bottleneck.CLIENT_CPU,
    Bottleneck.STORAGE_NETWORK,
    Bottleneck.OSD_MEDIA,
    Bottleneck.OSD_CPU,
    Bottleneck.TARGET_CORES,
)


def suspects(level: LevelEvidence) -> tuple[Suspect, ...]:
    """One for each bottleneck, the surest first; several may be named at once. `unknown` is there
    only where none is named or suspected."""
    found = [
        client_network(level),
        client_cpu(level),
        storage_network(level),
        media(level),
        storage_cpu(level),
        target_cores(level),
        queue_depth(level),
        round_trips(level),
    ]
    idle = not_saturated(level)
    if idle.strength is Strength.NAMED:
        found = [_doubted(one, idle) for one in found]
    elif _alone_used_up(found):
        idle = _set_back(idle)
    found.append(idle)
    if all(one.strength in (Strength.EXCLUDED, Strength.NOT_MEASURED) for one in found):
        found.append(_unknown(found))
    return tuple(sorted(found, key=lambda one: _ORDER.index(one.strength)))


def leading(found: tuple[Suspect, ...]) -> tuple[Suspect, ...]:
    """Those that are named; where none is, those suspected."""
    for strength in (Strength.NAMED, Strength.SUSPECTED):
        chosen = tuple(one for one in found if one.strength is strength)
        if chosen:
            return chosen
    return ()


def _doubted(one: Suspect, idle: Suspect) -> Suspect:
    """A resource cannot have been used up where more load was seen to give more, or where the
    load was all that was asked for; it may have been short."""
    if one.bottleneck not in _RESOURCES or one.strength is not Strength.NAMED:
        return one
    said = f"{one.sentence} But the level was not saturated: {_lowered(idle.sentence)}"
    return replace(one, strength=Strength.SUSPECTED, sentence=said)


def _alone_used_up(found: list[Suspect]) -> bool:
    return any(one.bottleneck in _RESOURCES and one.strength is Strength.NAMED for one in found)


def _set_back(idle: Suspect) -> Suspect:
    """A resource is used up: that few I/Os were in flight does not suggest idleness."""
    if idle.strength is not Strength.SUSPECTED:
        return idle
    said = f"{idle.sentence} But something else was used up."
    return replace(idle, strength=Strength.EXCLUDED, sentence=said)


def _unknown(found: list[Suspect]) -> Suspect:
    missing = [one.bottleneck for one in found if one.strength is Strength.NOT_MEASURED]
    said = "Nothing that was measured was used up."
    if missing:
        said += f" Not measured: {', '.join(one.value.replace('-', ' ') for one in missing)}."
    return suspect(Bottleneck.UNKNOWN, Strength.NAMED, said, not_measured=float(len(missing)))


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
