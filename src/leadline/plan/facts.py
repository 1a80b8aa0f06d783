"""Facts that a user gives about clusters and targets of imported results: facts.yaml.

The models are also those of the archive, and those to which an inventory is brought
(`inventory.facts`), so that an analysis reads both in one place. None is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)

from leadline import errors
from leadline.plan.base import Model
from leadline.plan.faults import Faults, InvalidDocument, nearest_word, take_errors
from leadline.plan.yaml_positions import KeyPath, read_positioned
from leadline.text import counted
from leadline.units import parse_size

# CRUSH's levels as Ceph makes them, the smallest first.
LEVELS = (
    "osd", "host", "chassis", "rack", "row", "pdu", "pod", "room", "datacenter", "zone", "region",
)  # fmt: skip


class Access(StrEnum):
    """How many nodes can use one volume: one (ReadWriteOnce) or many (ReadWriteMany)."""

    RWO = "rwo"
    RWX = "rwx"


_CODE = re.compile(r"([1-9]\d?)\+([1-9]\d?)")


def _is_code(text: str) -> str:
    if not _CODE.fullmatch(text):
        raise ValueError(f"{text!r} is no erasure code; write K+M, for instance 2+1")
    return text


def _is_level(text: str) -> str:
    if text not in LEVELS:
        near = nearest_word(text, LEVELS)
        known = f"did you mean {near!r}?" if near else f"known are {', '.join(LEVELS)}"
        raise ValueError(f"{text!r} is no level of CRUSH; {known}")
    return text


def _size(value: object) -> object:
    return parse_size(value) if isinstance(value, str) else value


Level = Annotated[str, AfterValidator(_is_level)]
Word = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]+$")]
Count = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
Amount = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False, strict=True)]
Bytes = Annotated[int, BeforeValidator(_size), Field(ge=1, le=2**60)]


class _Facts(Model):
    @property
    def known(self) -> dict[str, Any]:
        """The facts that are not unknown, by key."""
        return {key: value for key, value in self if value is not None}


class TargetFacts(_Facts):
    """The storage behind a target. `copies` of replicated data, `erasure_code` K+M of other;
    `min_size` copies or chunks still serve I/O. No two copies share a `failure_domain`. `encrypted`
    at rest. `cores` serve the target's I/O. `raw_per_stored`: raw bytes per stored byte. `price` of
    a stored TiB, in the same unit for all targets."""

    pool: Word | None = None
    copies: Annotated[int, Field(ge=1, le=100, strict=True)] | None = None
    erasure_code: Annotated[str, AfterValidator(_is_code)] | None = None
    min_size: Annotated[int, Field(ge=1, le=200, strict=True)] | None = None
    failure_domain: Level | None = None
    encrypted: Annotated[bool, Field(strict=True)] | None = None
    access: tuple[Access, ...] | None = None
    media: Word | None = None
    cores: Amount | None = None
    raw_per_stored: Annotated[Amount, Field(ge=1, le=1000)] | None = None
    price: Amount | None = None

    @model_validator(mode="after")
    def _one_protection(self) -> Self:
        if self.copies is not None and self.erasure_code is not None:
            raise ValueError("copies and erasure_code exclude each other")
        if self.size is not None and self.min_size is not None and self.min_size > self.size:
            raise ValueError(f"min_size {self.min_size} is more than the {self.size} copies")
        return self

    @property
    def chunks(self) -> tuple[int, int] | None:
        """Data and coding chunks (k, m) of an erasure code."""
        found = _CODE.fullmatch(self.erasure_code or "")
        return (int(found[1]), int(found[2])) if found else None

    @property
    def size(self) -> int | None:
        """Copies, or k + m."""
        return sum(self.chunks) if self.chunks else self.copies

    @property
    def redundancy(self) -> str | None:
        """`3 copies`, `EC 2+1`."""
        if self.erasure_code:
            return f"EC {self.erasure_code}"
        return counted(self.copies, "copy") if self.copies else None

    @property
    def raw_rate(self) -> float | None:
        """Raw bytes per stored byte: as given, else the copies, or (k + m) / k."""
        if self.raw_per_stored is not None or self.size is None:
            return self.raw_per_stored
        return self.size / self.chunks[0] if self.chunks else float(self.size)

    def overridden(self, by: TargetFacts) -> TargetFacts:
        """Return these facts with those that `by` knows in their place, not validated: an inventory
        may have levels and sizes that a facts file may not."""
        mine = self.known
        if by.size is not None:
            mine = {key: mine[key] for key in mine if key not in ("copies", "erasure_code")}
        return TargetFacts.model_construct(**{**mine, **by.known})


class ClusterFacts(_Facts):
    """A cluster. `memory_per_node` in bytes."""

    nodes: Count | None = None
    zones: Count | None = None
    osds: Count | None = None
    cores_per_node: Amount | None = None
    memory_per_node: Bytes | None = None
    network: Word | None = None
    software: Word | None = None


class GivenFacts(ClusterFacts):
    """Facts of a cluster as the archive keeps them: the name of their file, and the source that it
    names."""

    file: str
    source: str = ""


class ClusterDocument(ClusterFacts):
    """A cluster as facts.yaml writes it: the first three are of all its targets, `targets` of
    one."""

    failure_domain: Level | None = None
    encrypted: Annotated[bool, Field(strict=True)] | None = None
    media: Word | None = None
    targets: dict[str, TargetFacts] = Field(default_factory=dict)


class FactsDocument(Model):
    """facts.yaml. `targets` are of every cluster; a target below a cluster overrides them."""

    source: Word = ""
    clusters: dict[str, ClusterDocument] = Field(default_factory=dict)
    targets: dict[str, TargetFacts] = Field(default_factory=dict)

    def cluster(self, name: str) -> ClusterDocument:
        return self.clusters.get(name, ClusterDocument())

    def given(self, name: str, file: str) -> GivenFacts:
        """Return the facts of a cluster for its archive."""
        cluster = self.cluster(name)
        facts = {key: getattr(cluster, key) for key in ClusterFacts.model_fields}
        return GivenFacts(**facts, file=file, source=self.source)

    def target(self, cluster: str, name: str) -> TargetFacts | None:
        """Return the facts of a target on a cluster; None without any."""
        of_cluster = self.cluster(cluster)
        shared = ("failure_domain", "encrypted", "media")
        found = TargetFacts(**{key: getattr(of_cluster, key) for key in shared})
        for targets in (self.targets, of_cluster.targets):
            found = found.overridden(targets.get(name, TargetFacts()))
        return found if found.known else None


class FactsInvalid(InvalidDocument):
    """A facts file with all its faults."""

    def __init__(self, faults: Faults) -> None:
        hint = "correct them all; the keys are in docs/guides/import-results.md"
        super().__init__(errors.FACTS_INVALID, "the facts file", faults.found, hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsFile:
    """A facts file; `faults` collects what an import finds against it."""

    document: FactsDocument
    faults: Faults

    @property
    def name(self) -> str:
        return Path(self.faults.source).name

    def path_of(self, cluster: str, target: str, key: str) -> KeyPath:
        """Return where the file states a fact of a cluster, or of a target on it."""
        places: list[KeyPath] = [("clusters", cluster, key)]
        if target:
            places = [("clusters", cluster, "targets", target, key), ("targets", target, key)]
            places.append(("clusters", cluster, key))
        lines = self.faults.document.lines if self.faults.document else {}
        return next((place for place in places if place in lines), places[0])


def load_facts(path: Path) -> FactsFile:
    """Read a facts file. Raises LeadlineError(`facts-invalid`) that lists every fault at once."""
    hint = "an example is in docs/guides/import-results.md"
    document = read_positioned(path, errors.FACTS_INVALID, "the facts file", hint)
    faults = Faults(str(path), document, "facts")
    if not isinstance(document.value, dict) or not document.value:
        faults.add((), "a facts file is a mapping with the keys clusters and targets")
        raise FactsInvalid(faults)
    try:
        found = FactsDocument.model_validate(document.value)
    except ValidationError as error:
        take_errors(error, faults, _keys_at)
        raise FactsInvalid(faults) from error
    for name, cluster in found.clusters.items():
        for target in sorted({*cluster.targets, *found.targets}):
            merged = found.target(name, target)
            try:
                TargetFacts.model_validate(merged.known if merged else {})
            except ValidationError as error:
                reason = error.errors()[0]["ctx"]["error"]
                faults.add(("clusters", name, "targets", target), f"{reason} (with `targets`)")
    if faults.found:
        raise FactsInvalid(faults)
    return FactsFile(document=found, faults=faults)


def _keys_at(path: KeyPath) -> list[str]:
    models: Mapping[tuple[int, object], type[BaseModel]] = {
        (2, "clusters"): ClusterDocument,
        (2, "targets"): TargetFacts,
        (4, "clusters"): TargetFacts,
    }
    model = models.get((len(path), path[0] if path else ""), FactsDocument)
    return list(model.model_fields)
