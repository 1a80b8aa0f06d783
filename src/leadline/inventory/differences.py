"""What differs between two systems in meaning: ids, addresses and times are no difference."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Topic(StrEnum):
    """What a difference is about, the order in which people ask."""

    TOPOLOGY = "topology"
    REDUNDANCY = "redundancy"
    PLACEMENT = "placement groups"
    MEDIA = "media"
    ENCRYPTION = "encryption"
    SOFTWARE = "software"
    SERVICES = "services"
    CAPACITY = "capacity and health"
    CLIENT = "load generator"
    SETTINGS = "settings"
    WORKLOAD = "workload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One fact that is not the same. `path` is stable and dotted, such as
    `pools.rep3.failure_domain` or `network.inter_zone_rtt`; `baseline` and `candidate` are texts
    as people read them. `target` names the subject (pool) that it concerns, empty for all.
    `explains` are sentences on what it can account for, empty where nothing is known."""

    path: str
    topic: Topic
    baseline: str
    candidate: str
    target: str = ""
    meaning: str = ""
    explains: tuple[str, ...] = ()
