"""A configuration difference, and the collector that compares two systems fact by fact."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from typing import Final, Generic, TypeVar

from leadline.text import sentence

System = TypeVar("System")
# What inventories and facts of targets both may report.
AT_REST: Final = "encryption at rest"


class Topic(StrEnum):
    """What a difference concerns, in the order of a report."""

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
    """What a difference can do: a clause, and the verdicts of the cells where it applies.

    `operations`: `every`, `reads` or `writes`; `concurrent_only`: only with several I/Os in flight.
    """

    mechanism: str
    operations: str = "every"
    concurrent_only: bool = False
    verdicts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One fact with two values.

    `path` is stable and dotted, such as `pools.rep3.failure_domain` or `network.inter_zone_rtt`.
    `baseline` and `candidate` are readable texts. `target` names the subject (pool), empty for all.
    `meaning` is a sentence, or empty; `explains` are its possible effects.
    """

    path: str
    topic: Topic
    baseline: str
    candidate: str
    target: str = ""
    meaning: str = ""
    explains: tuple[PossibleEffect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """The comparison of two systems.

    `identical` names equal facts in short (`release 16.2.15 pacific`, `24 OSDs`); `unknown` names
    facts that at least one system does not report, `known` facts that were compared.
    """

    differences: tuple[Difference, ...] = ()
    identical: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    known: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Fact(Generic[System]):
    """A fact to compare: the last part of its path, its topic, and its text (None: unknown).

    `what`, `same`, `alike` and `meaning` are those of `Collector.compare`.
    """

    key: str
    topic: Topic
    text: Callable[[System], str | None]
    _: KW_ONLY
    what: str = ""
    same: str | None = None
    alike: Callable[[System, System], bool] | None = None
    meaning: str = ""


def within(
    share: float, number: Callable[[System], float | None]
) -> Callable[[System, System], bool]:
    """Return whether a number of two systems differs by at most a share of the larger one."""

    def alike(base: System, candidate: System) -> bool:
        first, second = number(base) or 0.0, number(candidate) or 0.0
        return abs(first - second) <= share * max(first, second)

    return alike


@dataclass(slots=True, kw_only=True)
class Collector:
    """Collects differences (of one `target`, or of all), equal, unknown and known facts."""

    target: str = ""
    differences: list[Difference] = field(default_factory=list)
    identical: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)

    def on(self, target: str) -> Collector:
        """Return a collector into the same lists, for differences of one target."""
        return replace(self, target=target)

    def compare(
        self,
        path: str,
        topic: Topic,
        texts: Sequence[str | None],
        *,
        what: str = "",
        same: str | None = None,
        meaning: str = "",
        alike: bool | None = None,
    ) -> None:
        """Compare one fact of base and candidate; None or an empty text is unknown.

        Args:
            what: The fact's name.
            same: Its label if both agree; None: `WHAT VALUE`, empty: no label.
            meaning: A clause on what the difference means.
            alike: Whether both agree; None: whether the texts are equal.
        """
        baseline, candidate = texts
        if not baseline or not candidate:
            if baseline or candidate:
                self.unknown.append(what or path)
            return
        self.known.add(what or path)
        if baseline == candidate if alike is None else alike:
            label = f"{what} {baseline}".strip() if same is None else same
            if label:
                self.identical.append(label)
        else:
            difference = Difference(
                path=path,
                topic=topic,
                baseline=baseline,
                candidate=candidate,
                target=self.target,
                meaning=sentence(meaning),
            )
            self.differences.append(difference)

    def compare_facts(
        self, prefix: str, base: System, candidate: System, facts: Sequence[Fact[System]]
    ) -> None:
        """Compare facts of two systems at `PREFIX.KEY`."""
        for fact in facts:
            self.compare(
                f"{prefix}.{fact.key}",
                fact.topic,
                (fact.text(base), fact.text(candidate)),
                what=fact.what,
                same=fact.same,
                alike=fact.alike(base, candidate) if fact.alike else None,
                meaning=fact.meaning,
            )

    def compare_subjects(
        self,
        group: str,
        key: str,
        topic: Topic,
        texts: Mapping[str, tuple[str | None, str | None]],
        *,
        subjects: int,
        meanings: Mapping[str, str] | str = "",
    ) -> dict[str, str]:
        """Compare one fact of several subjects (pools, targets) at `GROUP.SUBJECT.KEY`.

        If all `subjects` (two or more) have the same difference, it is reported once, at
        `GROUP.*.KEY`. `texts` are those of base and candidate by subject, `meanings` clauses by
        subject, or one for all.

        Returns:
            The text of each subject without a difference.
        """
        found, equal = [], {}
        for subject, (baseline, candidate) in texts.items():
            if baseline is None or candidate is None:
                if baseline is not candidate:
                    self.unknown.append(f"{key} of {subject}")
            elif baseline == candidate:
                equal[subject] = baseline
            else:
                meaning = meanings if isinstance(meanings, str) else meanings.get(subject, "")
                difference = Difference(
                    path=f"{group}.{subject}.{key}",
                    topic=topic,
                    baseline=baseline,
                    candidate=candidate,
                    target=subject,
                    meaning=sentence(meaning),
                )
                found.append(difference)
        values = {(difference.baseline, difference.candidate) for difference in found}
        if 2 <= subjects <= len(found) and len(values) == 1:
            clauses = {difference.meaning for difference in found}
            merged = replace(
                found[0],
                path=f"{group}.*.{key}",
                target="",
                meaning=clauses.pop() if len(clauses) == 1 else "",
            )
            found = [merged]
        self.differences += found
        return equal

    def label_subjects(
        self, label: str, equal: Mapping[str, str], subjects: int, noun: str
    ) -> None:
        """Note a fact that is equal for each of all subjects, with the value if it is the same."""
        if label and equal and len(equal) == subjects:
            values = set(equal.values())
            value = values.pop() if len(values) == 1 else f"of all {subjects} {noun}"
            self.identical.append(f"{label} {value}")

    def result(self) -> Differing:
        """Return the comparison, differences in the order of their topics."""
        order = list(Topic)
        self.differences.sort(key=lambda difference: order.index(difference.topic))
        return Differing(
            differences=tuple(self.differences),
            identical=tuple(dict.fromkeys(self.identical)),
            unknown=tuple(dict.fromkeys(self.unknown)),
            known=frozenset(self.known),
        )
