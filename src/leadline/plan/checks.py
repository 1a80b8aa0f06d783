"""Checks of a plan as written: names, clusters, numbers, and settings that exclude each other.

They work on the raw mapping, so that a plan with invalid values gets all its faults at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from leadline.plan import models
from leadline.plan.document import (
    DefaultsDocument,
    PlanDocument,
    ProfileDocument,
    WorkloadDocument,
)
from leadline.plan.expand import follow_ups, varied, with_levels
from leadline.plan.faults import Faults, error_sentence, nearest_word
from leadline.plan.matrix import (
    Dimension,
    Matrix,
    matrix_faults,
    target_variants,
    workload_variants,
)
from leadline.plan.rules import engine_faults, with_rate
from leadline.plan.settings import MOST_STATES, Setting, count_states
from leadline.plan.target_url import TargetUrl, parse_target_url
from leadline.plan.workload import JobFile, Workload
from leadline.plan.written_targets import places
from leadline.plan.yaml_positions import KeyPath

# A limit of the time: 100,000 trials of a minute take ten weeks.
_MOST_TRIALS = 100_000
# At most so many names of targets in one sentence.
_NAMED_TARGETS = 3


def mappings(value: object) -> list[Mapping[str, Any]]:
    items = value if isinstance(value, list) else []
    return [item if isinstance(item, dict) else {} for item in items]


def _words(value: object) -> list[Any]:
    """The names in a list, or a single name."""
    return [value] if isinstance(value, str) else value if isinstance(value, list) else []


@dataclass(frozen=True, slots=True, kw_only=True)
class _WrittenTarget:
    """A target as written, once for each combination of the matrix, or an invalid one. `url` None:
    it is invalid, a fault of its own. `full_name` has the combination."""

    index: int
    name: str | None
    full_name: str | None
    url: TargetUrl | None
    clusters: Sequence[Any]


_MATRIX: Final = TypeAdapter(dict[str, Dimension])


def _matrix(raw: Mapping[str, Any]) -> Matrix:
    """The matrix as written; empty for an invalid one, a fault of its own."""
    try:
        matrix = _MATRIX.validate_python(raw.get("matrix") or {})
    except ValidationError:
        return {}
    return {} if matrix_faults(matrix) else matrix


def check_matrix(raw: Mapping[str, Any], faults: Faults) -> None:
    """Check that the targets have the options of the matrix, with valid values."""
    variants = target_variants(_matrix(raw))
    for target in _entries(raw):
        if target.url is None:
            continue
        sentences: dict[str, None] = {}
        for variant in variants:
            try:
                target.url.with_options(variant.options)
            except ValueError as error:
                sentences[str(error)] = None
        for sentence in sentences:
            fact = f"the matrix does not fit {target.name!r}: {sentence}"
            faults.add(("targets", target.index), fact)


def _written_targets(raw: Mapping[str, Any]) -> Iterator[_WrittenTarget]:
    variants = target_variants(_matrix(raw))
    for target in _entries(raw):
        if target.url is None:
            yield target
            continue
        for variant in variants:
            with contextlib.suppress(ValueError):  # a fault of its own
                yield replace(
                    target,
                    url=target.url.with_options(variant.options),
                    full_name=f"{target.name}{variant.suffix}",
                )


def _entries(raw: Mapping[str, Any]) -> Iterator[_WrittenTarget]:
    targets = raw.get("targets")
    for index, item in enumerate(targets if isinstance(targets, list) else []):
        given = item if isinstance(item, dict) else {"target": item}
        name, url = given.get("name", given.get("target")), None
        with contextlib.suppress(ValueError):
            url = parse_target_url(str(given.get("target")))
        yield _WrittenTarget(
            index=index,
            name=None if name is None else str(name),
            full_name=None if name is None else str(name),
            url=url,
            clusters=_words(given.get("clusters")),
        )


def _clusters(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    clusters = raw.get("clusters")
    return clusters if isinstance(clusters, dict) else {}


def check_names(
    raw: Mapping[str, Any], profiles: Sequence[ProfileDocument], faults: Faults
) -> None:
    seen: set[str] = set()
    for profile in profiles:
        names_here = {workload.name for workload in profile.workloads}
        if names_here & seen:
            twice = ", ".join(sorted(names_here & seen))
            faults.add(("profile",), f"{profile.name!r} repeats workloads that are there: {twice}")
        seen |= names_here
    for index, workload in enumerate(mappings(raw.get("workloads"))):
        name = workload.get("name")
        if isinstance(name, str) and name in seen:
            faults.add(("workloads", index, "name"), f"two workloads are called {name!r}")
        seen.add(str(name))
    names: set[tuple[str, str]] = set()
    for target in _written_targets(raw):
        if target.url is None or target.full_name is None:
            continue
        here = [*map(str, target.clusters or _clusters(raw))]
        called = {(target.full_name, place) for place in places(target.url, here).values()}
        if called & names:
            message = f"two targets are called {target.full_name!r}; give one a name"
            faults.add(("targets", target.index), message)
        names |= called


def check_clusters(raw: Mapping[str, Any], faults: Faults) -> None:
    """Check that targets name existing clusters of their kind; a delay needs a lab."""
    documents = _clusters(raw)
    known = list(documents)
    for target in _written_targets(raw):
        path = ("targets", target.index, "clusters")
        for name in target.clusters:
            if name not in known:
                faults.add(
                    path,
                    f"there is no cluster {name!r} in the plan (clusters: "
                    f"{', '.join(map(str, known)) or 'none'})",
                    nearest_word(str(name), map(str, known)),
                )
        url = target.url
        if url is None:
            continue
        fitting = [name for name in known if _fits(url, documents[name])]
        if url.kind.on_cluster and known and not fitting:
            kind = "Kubernetes" if url.kind.on_kubernetes else "Ceph"
            faults.add(path[:2], f"the plan names no {kind} cluster for {str(url)!r}")
        for name in target.clusters:
            if url.kind.on_cluster and name in known and name not in fitting:
                other = "a Ceph" if url.kind.on_kubernetes else "a Kubernetes"
                faults.add(path, f"{name!r} is {other} cluster")
        if url.inter_zone_rtt_s is None:
            continue
        for name in target.clusters or fitting:
            document = documents.get(name)
            if isinstance(document, dict) and "lab" not in document:
                faults.add(
                    path[:2], f"inter_zone_rtt is a condition of a lab, and {name!r} is none"
                )


def check_workload_targets(
    raw: Mapping[str, Any], profiles: Sequence[ProfileDocument], faults: Faults
) -> None:
    """Check that workloads name existing targets, and that every target has a workload."""
    names = [str(target.name) for target in _entries(raw)]
    for_all = bool(profiles) or not raw.get("workloads")
    named: set[str] = set()
    for index, workload in enumerate(mappings(raw.get("workloads"))):
        for_all = for_all or not workload.get("targets")
        for name in map(str, _words(workload.get("targets"))):
            named.add(name)
            if name not in names:
                faults.add(
                    ("workloads", index, "targets"),
                    f"there is no target {name!r} in the plan",
                    nearest_word(name, names),
                )
    for target in _entries(raw):
        if not for_all and target.name not in named:
            path = ("targets", target.index)
            faults.add(path, f"no workload is for the target {target.name!r}")


def _fits(url: TargetUrl, cluster: object) -> bool:
    """Whether a cluster is of the target's kind; true for an invalid one, a fault of its own."""
    if not isinstance(cluster, dict):
        return True
    return ("kubernetes" in cluster) is url.kind.on_kubernetes


def check_has_workloads(
    raw: Mapping[str, Any],
    profiles: Sequence[ProfileDocument],
    faults: Faults,
    known: Sequence[str],
) -> None:
    if not profiles and not raw.get("workloads") and not raw.get("profile"):
        faults.add((), f"has neither a profile nor workloads (profiles: {', '.join(known)})")


def check_trial_count(
    document: PlanDocument,
    profiles: Sequence[ProfileDocument],
    faults: Faults,
) -> None:
    """Limit the number of trials: targets x levels x repeats could fill the memory."""
    places = sum(len(item.clusters or document.clusters) or 1 for item in document.targets)
    places *= len(target_variants(document.matrix)) * len(workload_variants(document.matrix))
    places *= 1 + count_states([*document.settings.values()], document.design)
    workloads = [*document.workloads, *(item for profile in profiles for item in profile.workloads)]
    repeats = document.stop.max_repeats if document.stop else document.repeats
    trials = places * sum(len(item.levels) or 1 for item in workloads) * repeats
    if trials > _MOST_TRIALS:
        faults.add((), f"makes {trials:,} trials; {_MOST_TRIALS:,} are the most")


def check_settings(document: PlanDocument, faults: Faults) -> None:
    """Check that settings have targets and clusters, and that their names are free as labels."""
    settings = [*document.settings.values()]
    number = count_states(settings, document.design)
    if number > MOST_STATES:
        faults.add(("settings",), f"makes {number:,} states; {MOST_STATES:,} are the most")
    if settings and document.budget is not None:
        faults.add(("settings",), "a plan with a budget has one state: leave one of the two out")
    urls = [
        (item.name or item.target, parse_target_url(item.target).with_options(variant.options))
        for item in document.targets
        for variant in target_variants(document.matrix)
    ]
    labels = {key for item in document.targets for key in item.labels}
    labels |= {*document.labels, *document.matrix}
    for setting in settings:
        path = ("settings", setting.name)
        fitting = [(name, url) for name, url in urls if setting.fits(url)]
        if not fitting:
            faults.add(path, f"no target of the plan has a setting of the kind {setting.kind}")
        if setting.name in labels:
            faults.add(path, "is the name of a label or dimension already: choose another name")
        alike = [
            other.name
            for other in settings[: settings.index(setting)]
            if (other.kind, _place(other)) == (setting.kind, _place(setting))
        ]
        if alike:
            faults.add(path, f"changes the same as the setting {alike[0]!r}: make them one setting")
        sentences = _option_faults(setting, fitting)
        for sentence in sentences:
            faults.add((*path, setting.kind), sentence)
        if setting.cluster:
            _check_cluster(setting, document, faults)


def _place(setting: Setting) -> object:
    """What a setting changes, without its values."""
    return setting.option or setting.change.model_dump(exclude={"values", "restarts"})


def _option_faults(setting: Setting, targets: Sequence[tuple[str, TargetUrl]]) -> list[str]:
    """What forbids the values of a setting that targets are made with."""
    found: dict[str, None] = {}
    for name, url in targets if setting.option else ():
        for value in setting.values:
            try:
                url.with_options({setting.option: value})
            except ValueError as error:
                found[f"does not fit {name!r}: {error}"] = None
    return list(found)


def _check_cluster(setting: Setting, document: PlanDocument, faults: Faults) -> None:
    path = ("settings", setting.name, setting.kind, "cluster")
    known = list(document.clusters)
    if setting.cluster not in known:
        faults.add(
            path,
            f"there is no cluster {setting.cluster!r} in the plan "
            f"(clusters: {', '.join(known) or 'none'})",
            nearest_word(setting.cluster, known),
        )
        return
    on_kubernetes = document.clusters[setting.cluster].kubernetes is not None
    if on_kubernetes != (setting.kubernetes is not None):
        kind = "Kubernetes" if on_kubernetes else "Ceph"
        faults.add(path, f"{setting.cluster!r} is a {kind} cluster")


def check_expansion(
    raw: Mapping[str, Any],
    forced: DefaultsDocument,
    profiles: Sequence[ProfileDocument],
    job_files: Mapping[str, JobFile],
    faults: Faults,
) -> None:
    """Check settings together with defaults, and whether each workload can run on its targets."""
    try:
        defaults = DefaultsDocument.model_validate(raw.get("defaults", {}))
    except ValidationError:
        return  # a fault of its own; without defaults nothing can be checked
    found: list[tuple[KeyPath, WorkloadDocument, DefaultsDocument]] = [
        (("profile",), item, profile.defaults) for profile in profiles for item in profile.workloads
    ]
    for index, given in enumerate(mappings(raw.get("workloads"))):
        with contextlib.suppress(ValidationError):  # a fault of its own
            item = WorkloadDocument.model_validate(given)
            found.append((("workloads", index), item, DefaultsDocument()))
    matrix = _matrix(raw)
    targets = [
        (str(target.name), str(target.full_name), target.url)
        for target in _written_targets(raw)
        if target.url
    ]
    for path, item, last in found:
        if item.job_file is not None and item.job_file not in job_files:
            continue  # a fault of its own
        try:
            layers = (forced, item, defaults, last)
            planned = [
                workload
                for one in varied(item, matrix)
                for workload, _ in with_levels(one, (forced, one, *layers[2:]), job_files)
            ]
            later = [
                follow_up
                for one in varied(item, matrix)
                for follow_up in (follow_ups(one, layers, "") if one.job_file is None else ())
            ]
        except ValidationError as error:
            for detail in error.errors():
                faults.add(path, f"{item.name!r}: {error_sentence(detail)}")
        except ValueError as error:
            faults.add(path, f"{item.name!r}: {error}")
        else:
            for follow_up in later:
                if isinstance(follow_up, models.Density):
                    planned.append(follow_up.largest)
                else:
                    planned.append(with_rate(planned[0]))
            _check_engines(path, item, planned, targets, faults)


def _check_engines(
    path: KeyPath,
    item: WorkloadDocument,
    workloads: Sequence[Workload],
    targets: Sequence[tuple[str, str, TargetUrl]],
    faults: Faults,
) -> None:
    """Add each reason why a workload cannot run on its targets once, with their names."""
    found: dict[str, dict[str, None]] = {}
    for written, name, url in targets:
        if item.targets and written not in item.targets:
            continue
        for workload in workloads:
            for sentence in engine_faults(workload, url):
                found.setdefault(sentence, {})[name] = None
    for sentence, names in found.items():
        on = ", ".join(map(repr, list(names)[:_NAMED_TARGETS]))
        more = f" and {len(names) - _NAMED_TARGETS} more" if len(names) > _NAMED_TARGETS else ""
        faults.add(path, f"{item.name!r} on {on}{more}: {sentence}")
