"""The networks: of the clients, and of the storage's machines."""

from __future__ import annotations

from collections.abc import Iterable

from leadline.analysis.bottleneck.model import (
    Bottleneck,
    LevelEvidence,
    Strength,
    Suspect,
    suspect,
)
from leadline.formats.host_rates import MachineRates
from leadline.units import format_bandwidth
from leadline.visible import visible

# TCP carries 94.1 % of what Ethernet's wire does at 1500 bytes (1448 of 1538), and counters of
# interfaces hold the headers: from here on there is no room.
FULL = 0.90
# Averages of a second hide bursts, which fill queues of switches before.
CROWDED = 0.75


def client_network(level: LevelEvidence) -> Suspect:
    kind = Bottleneck.CLIENT_NETWORK
    if level.stays_here:
        return suspect(kind, Strength.EXCLUDED, _stays(level))
    found = _fullest(level.clients, level.client_link_bps)
    if found is not None:
        return _judged(kind, "load generator", *found)
    link, rate = level.client_link_bps, level.bandwidth_bps
    if link and rate is not None:
        said = f"{format_bandwidth(rate)} of data crossed the load generator's link"
        return _by_share(kind, rate / link, link, said)
    return suspect(
        kind,
        Strength.NOT_MEASURED,
        "No speed of the load generator's link is known.",
        bandwidth_bps=rate,
    )


def storage_network(level: LevelEvidence) -> Suspect:
    kind = Bottleneck.STORAGE_NETWORK
    if level.stays_here:
        return suspect(kind, Strength.EXCLUDED, _stays(level))
    found = _fullest(level.storage, None)
    if found is None:
        said = "Nobody measured the network of the storage's machines, or knows its speed."
        return suspect(kind, Strength.NOT_MEASURED, said)
    judged = _judged(kind, "storage", *found)
    if judged.strength is Strength.EXCLUDED and level.unreached_hosts != 0:
        said = f"{judged.sentence[:-1]}, but not all of its hosts were read."
        return suspect(kind, Strength.NOT_MEASURED, said, **judged.evidence)
    return judged


def _stays(level: LevelEvidence) -> str:
    if level.on_lab:
        return "The load generator and the storage are on one machine: no link is between them."
    return (
        "The load generator's links carried less than half of the data: it stayed on the machine."
    )


_Found = tuple[MachineRates, str, float, float]


def _fullest(machines: Iterable[MachineRates], known_bps: float | None) -> _Found | None:
    """The machine, its interface, the share of the link and the link's speed."""
    found: list[_Found] = []
    for machine in machines:
        for name, one in machine.interfaces.items():
            link = one.link_bps or (known_bps if name != "lo" else None)
            if link:
                share = max(one.received_bps, one.sent_bps) / link
                found.append((machine, name, share, link))
    return max(found, key=lambda one: one[2], default=None)


def _judged(
    kind: Bottleneck, whose: str, machine: MachineRates, interface: str, share: float, link: float
) -> Suspect:
    said = (
        f"The fullest link of the {whose} ({visible(interface)} of {visible(machine.machine)}) "
        f"carried {format_bandwidth(share * link)}"
    )
    return _by_share(kind, share, link, said)


def _by_share(kind: Bottleneck, share: float, link: float, said: str) -> Suspect:
    strength = Strength.EXCLUDED
    if share >= CROWDED:
        strength = Strength.NAMED if share >= FULL else Strength.SUSPECTED
    said += f", {share:.0%} of its {format_bandwidth(link)}."
    return suspect(kind, strength, said, link_share=share, link_bps=link)
