"""Studies in folders: which bundles are repeats, and which are concurrent clients of one trial."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from leadline import errors
from leadline.errors import LeadlineError
from leadline.formats.importer import Refused
from leadline.importing.gather import Bundle, Gathered
from leadline.importing.templates import (
    Place,
    Template,
    known_layouts,
    parse_template,
    place_of,
    repeats_of,
)

AUTO: Final = "auto"
REPEATS: Final = "repeats"
# Auto detection takes a layout that fits at least this share of the results.
_ENOUGH = 0.9
_COPY: Final = "is another copy of the results"
_DIGITS = re.compile(r"(\d+)")
_Finder = Callable[[Sequence[str]], dict[str, Place | str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranged:
    """A study with the places of its bundles. `layout` is the name or template that was used, empty
    where none fits; `reason` says why."""

    gathered: Gathered
    layout: str
    reason: str


def arrange(gathered: Gathered, layout: str, folder: str) -> Arranged:
    """Return the bundles of a study in a layout: a template, the name of a known layout, or `auto`.

    `folder` names the study, for results whose path names no target. Raises LeadlineError (`usage`)
    for a layout that is unknown or matches no result.
    """
    names = [name for bundle in gathered.bundles for name in bundle.files]
    if layout == AUTO:
        found = _detect(gathered, names)
        if found is None:
            reason = "no known layout fits 90 % of the results; each file is a target"
            return Arranged(gathered=gathered, layout="", reason=reason)
        layout, places = found
    else:
        places = _finder(layout)(names)
        if not any(isinstance(place, Place) for place in places.values()):
            raise _matches_nothing(layout, names, places)
    bundles, refused = _placed(gathered.bundles, places, folder)
    fit = sum(_fits(bundle, places) for bundle in gathered.bundles)
    # What lies where the layout has a result should have been one.
    lost = _finder(layout)([one.file for one in gathered.refused])
    before = (
        replace(one, expected=one.expected or isinstance(lost.get(one.file), Place))
        for one in gathered.refused
    )
    return Arranged(
        gathered=Gathered(bundles=tuple(_with_clients(bundles)), refused=(*before, *refused)),
        layout=layout,
        reason=f"{fit} of {len(gathered.bundles)} results match",
    )


def layout_names() -> tuple[str, ...]:
    """Return what names a layout, `auto` first."""
    return (AUTO, *(one.name for one in known_layouts().layouts), REPEATS)


def suggested_layout(gathered: Gathered) -> str:
    """Return the known layout that the results are in; empty where none fits."""
    names = [name for bundle in gathered.bundles for name in bundle.files]
    found = _detect(gathered, names) if len(gathered.bundles) > 1 else None
    return found[0] if found else ""


def _finder(layout: str) -> _Finder:
    """Raises LeadlineError (`usage`)."""
    known = {one.name: one for one in known_layouts().layouts}
    if layout == REPEATS:
        return lambda names: dict(repeats_of(names))
    if layout in known:
        templates = [parse_template(text) for text in known[layout].templates]
        copies = [parse_template(text) for text in known[layout].copies]
        return lambda names: _matches(templates, names, copies)
    if "{" not in layout:
        raise LeadlineError(
            errors.USAGE,
            f"there is no layout {layout!r}",
            context=[f"layouts: {', '.join(layout_names())}"],
            hint="a template has fields, like '{pool}/{workload}/{client}-fio.json'",
        )
    template = parse_template(layout)
    return lambda names: _matches([template], names)


def _matches(
    templates: Sequence[Template], names: Sequence[str], copies: Sequence[Template] = ()
) -> dict[str, Place | str]:
    """Return the place of each path by the first template that matches; a text says why a path has
    none although a template matches."""
    found: dict[str, Place | str] = {}
    for name in names:
        if any(template.shortest.fullmatch(name) for template in copies):
            found[name] = _COPY
            continue
        for template in templates:
            try:
                fields = template.match(name)
            except ValueError as error:
                found[name] = str(error)
                break
            if fields is not None:
                found[name] = place_of(template, fields)
                break
    return found


def _detect(gathered: Gathered, names: Sequence[str]) -> tuple[str, dict[str, Place | str]] | None:
    """Return the layout that fits the most results, the first of the list where several do."""
    best: tuple[int, str, dict[str, Place | str]] | None = None
    for layout in layout_names()[1:]:
        places = _finder(layout)(names)
        fit = sum(_fits(bundle, places) for bundle in gathered.bundles)
        results = sum(not _is_copy(bundle, places) for bundle in gathered.bundles)
        if fit >= max(1, _ENOUGH * results) and (best is None or fit > best[0]):
            best = (fit, layout, places)
    return best[1:] if best else None


def _fits(bundle: Bundle, places: Mapping[str, Place | str]) -> bool:
    return any(isinstance(places.get(name), Place) for name in bundle.files)


def _is_copy(bundle: Bundle, places: Mapping[str, Place | str]) -> bool:
    return any(places.get(name) == _COPY for name in bundle.files)


def _placed(
    bundles: Sequence[Bundle], places: Mapping[str, Place | str], folder: str
) -> tuple[list[Bundle], list[Refused]]:
    """Return the bundles that the layout matches, in the natural order of their paths."""
    placed: list[Bundle] = []
    refused: list[Refused] = []
    for bundle in bundles:
        found = [places[name] for name in bundle.files if name in places]
        place = next((one for one in found if isinstance(one, Place)), None)
        if place is not None:
            place = replace(place, target=place.target or folder)
            placed.append(replace(bundle, place=place))
            continue
        name = next(iter(bundle.files))
        reason = f"{found[0]}" if found else "does not match the layout"
        refused.append(Refused(file=name, reason=reason, expected=reason != _COPY))
    targets = _targets([bundle.place for bundle in placed if bundle.place])
    placed = [
        replace(bundle, place=replace(bundle.place, target=targets[bundle.place]))
        for bundle in placed
        if bundle.place
    ]
    return sorted(placed, key=lambda bundle: _natural(next(iter(bundle.files)))), refused


def _natural(path: str) -> list[tuple[int, str]]:
    """Sort key by which run_2 is before run_10."""
    return [(int(part) if part.isdecimal() else -1, part) for part in _DIGITS.split(path)]


def _targets(places: Sequence[Place]) -> dict[Place, str]:
    """Return the name of each place's target: with its labels where results of one target have
    several values, since a label is a property of the target."""
    labels: dict[tuple[str, str], set[tuple[tuple[str, str], ...]]] = {}
    for place in places:
        labels.setdefault((place.cluster, place.target), set()).add(place.labels)
    return {
        place: " ".join((place.target, *(value for _, value in place.labels)))
        if len(labels[place.cluster, place.target]) > 1
        else place.target
        for place in places
    }


def _with_clients(bundles: Sequence[Bundle]) -> Iterator[Bundle]:
    """Merge the bundles that differ in the client only: they are one trial."""
    groups: dict[tuple[object, ...], list[Bundle]] = {}
    expected: dict[tuple[object, ...], set[str]] = {}
    for number, bundle in enumerate(bundles):
        place = bundle.place
        assert place is not None
        kind = bundle.importer.kind
        key: tuple[object, ...] = (kind, replace(place, client=""), () if place.client else number)
        groups.setdefault(key, []).append(bundle)
        if place.client:
            expected.setdefault(_fleet(place), set()).add(place.client)
    for group in groups.values():
        place = group[0].place
        assert place is not None
        if not place.client:
            yield group[0]
            continue
        names = [bundle.place.client for bundle in group if bundle.place]
        files = {name: path for bundle in group for name, path in bundle.files.items()}
        clients = [
            name
            for name, bundle in zip(names, group, strict=True)
            for _ in range(len(bundle.files))
        ]
        yield Bundle(
            importer=group[0].importer,
            files=files,
            place=replace(place, client=""),
            clients=tuple(clients),
            absent=tuple(_absent(place, names, expected[_fleet(place)])),
        )


def _fleet(place: Place) -> tuple[object, ...]:
    """What has the same clients: the workloads and repeats of a target at one level."""
    return place.cluster, place.target, place.level


def _absent(place: Place, names: Sequence[str], known: set[str]) -> list[str]:
    """List the clients of the trial that have no result: where the path counts them, as many as are
    missing, else those that other trials of the same level have."""
    others = sorted(known - set(names), key=_natural)
    if not place.clients:
        return others
    missing = max(0, place.clients - len(set(names)))
    named = others[:missing]
    return [*named, *("unknown" for _ in range(missing - len(named)))]


def _matches_nothing(
    layout: str, names: Sequence[str], places: Mapping[str, Place | str]
) -> LeadlineError:
    shown = names[:3]
    if any(isinstance(place, str) and place != _COPY for place in places.values()):
        return LeadlineError(
            errors.USAGE,
            f"the layout {layout[:200]!r} matches {len(places)} result files in two ways",
            context=[f"{name}: {places.get(name, 'does not match')}" for name in shown],
            hint="separate the fields by '/', or limit one: {name=#}, {name=word}, {name=a|b}",
        )
    return LeadlineError(
        errors.USAGE,
        f"the layout {layout[:200]!r} matches none of {len(names)} result files",
        context=[f"{name}: {places.get(name, 'does not match')}" for name in shown],
        hint="paths are those below the folder that is imported; '**/' stands for any folders",
    )
