"""A difference as a record, and the collecting of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from leadline.text import sentence


class Topic(StrEnum):
    """What a difference is about, the order in which people ask."""

    TOPOLOGY = "topology"
    REDUNDANCY = "redundancy"
    PLACEMENT = "placement groups"
    MEDIA = "media"
    VOLUMES = "storage class"
    LAYERS = "layers"
    ZFS = "ZFS"
    ENCRYPTION = "encryption"
    SOFTWARE = "software"
    SERVICES = "services"
    CAPACITY = "capacity and health"
    CLIENT = "load generator"
    SETTINGS = "settings"
    WORKLOAD = "workload"


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleEffect:
    """What a difference can do: a clause, and the verdicts of the cells where it applies."""

    mechanism: str
    verdicts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One fact that is not the same. `path` is stable and dotted, such as
    `pools.rep3.failure_domain` or `network.inter_zone_rtt`; `baseline` and `candidate` are texts
    as people read them. `target` names the subject (pool) that it concerns, empty for all.
    `meaning` is a sentence, or empty; `explains` are its possible effects."""

    path: str
    topic: Topic
    baseline: str
    candidate: str
    target: str = ""
    meaning: str = ""
    explains: tuple[PossibleEffect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """Two systems beside each other. `identical` names what is the same, in short
    (`release 16.2.15 pacific`, `24 OSDs`); `unknown` what at least one side does not tell."""

    differences: tuple[Difference, ...] = ()
    identical: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Collector:
    """Differences, likenesses and unknowns as they are come upon."""

    differences: list[Difference] = field(default_factory=list)
    identical: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def compare(
        self,
        path: str,
        topic: Topic,
        baseline: str | None,
        candidate: str | None,
        *,
        what: str = "",
        same: str | None = None,
        target: str = "",
        meaning: str = "",
        alike: Callable[[], bool] | None = None,
    ) -> None:
        """Note two texts of one fact, None where a side does not tell. `what` names the fact;
        `same` is its label where both agree, `WHAT VALUE` if None and no label if empty. `alike`
        says whether the two count as the same, by default that their texts are equal. `meaning` is
        a clause that becomes a sentence."""
        if baseline is None or candidate is None:
            if baseline is not None or candidate is not None:
                self.unknown.append(what or path)
        elif alike() if alike else baseline == candidate:
            label = f"{what} {baseline}".strip() if same is None else same
            if label:
                self.identical.append(label)
        else:
            self.differences.append(
                Difference(
                    path=path,
                    topic=topic,
                    baseline=baseline,
                    candidate=candidate,
                    target=target,
                    meaning=sentence(meaning),
                )
            )

    def result(self) -> Differing:
        """Everything noted, differences in the order of their topics."""
        order = list(Topic)
        return Differing(
            differences=tuple(sorted(self.differences, key=lambda one: order.index(one.topic))),
            identical=tuple(dict.fromkeys(self.identical)),
            unknown=tuple(dict.fromkeys(self.unknown)),
        )


def merged(differences: list[Difference], subjects: int, path: str) -> list[Difference]:
    """One difference at `path` where each of several subjects has the same one, else all."""
    texts = {(one.baseline, one.candidate) for one in differences}
    if subjects < 2 or len(differences) < subjects or len(texts) > 1:
        return differences
    ((baseline, candidate),) = texts
    meanings = {one.meaning for one in differences}
    return [
        Difference(
            path=path,
            topic=differences[0].topic,
            baseline=baseline,
            candidate=candidate,
            meaning=meanings.pop() if len(meanings) == 1 else "",
        )
    ]
