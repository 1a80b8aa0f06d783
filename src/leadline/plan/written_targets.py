"""The targets of a plan as written: on each of their clusters, times the matrix and its states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from leadline.plan import models
from leadline.plan.document import PlanDocument, TargetDocument
from leadline.plan.matrix import target_variants
from leadline.plan.settings import state_text, states
from leadline.plan.target_url import TargetUrl, parse_target_url


def places(url: TargetUrl, clusters: Sequence[str]) -> Mapping[str, str]:
    """The places of a target by cluster: the cluster's name, with the delay that is an option of
    the target. This machine has no name."""
    if not url.kind.on_cluster:
        return {"": ""}
    delay = url.options.get("inter_zone_rtt", "")
    return {cluster: f"{cluster},{delay}" if delay else cluster for cluster in clusters}


def clusters_for(url: TargetUrl, document: PlanDocument) -> tuple[str, ...]:
    """The clusters of the plan that are of the target's kind."""
    return tuple(
        name
        for name, cluster in document.clusters.items()
        if (cluster.kubernetes is not None) is url.kind.on_kubernetes
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTarget:
    """A target of the plan, and what it was written as: the `number` of its entry, whose `name`
    workloads use. `condition`: its place in the matrix."""

    target: models.Target
    number: int
    name: str
    optional: bool
    condition: tuple[str, ...]


def written_targets(document: PlanDocument) -> tuple[WrittenTarget, ...]:
    """Every target. One on several clusters becomes one per cluster, `NAME@CLUSTER`, with the
    delay that is an option of it; the matrix makes one for each combination, and the settings one
    for each state. Raises ValueError."""
    entries: list[tuple[int, TargetDocument, str, str]] = []
    for number, item in enumerate(document.targets):
        url = parse_target_url(item.target)
        clusters = item.clusters or clusters_for(url, document)
        entries += [(number, item, *where) for where in places(url, clusters).items()]
    several = len({place for *_, place in entries if place}) > 1
    found = []
    for number, item, cluster, place in entries:
        url, written = parse_target_url(item.target), item.name or item.target
        for variant in target_variants(document.matrix):
            name = written + variant.suffix
            labels = {**document.labels, **item.labels, **variant.values}
            if variant.values and not item.labels:
                labels = {subject_label(url): written, **labels}
            full = f"{name}@{place}" if place and several else name
            target = models.Target(
                name=full,
                url=str(url.with_options(variant.options)) if variant.options else item.target,
                cluster=cluster,
                subject=name if place and several else "",
                place=place if several else "",
                labels=labels,
                copies=item.copies,
            )
            one = WrittenTarget(
                target=target,
                number=number,
                name=written,
                optional=item.optional,
                condition=variant.condition,
            )
            found += [one, *_in_states(one, document)]
    return tuple(found)


def _in_states(one: WrittenTarget, document: PlanDocument) -> Iterator[WrittenTarget]:
    """The target in every state of the settings that it has. Targets that are made alike share the
    data of the first one."""
    target, url = one.target, one.target.parsed
    fitting = [setting for setting in document.settings.values() if setting.fits(url)]
    made: dict[tuple[tuple[str, str], ...], str] = {(): target.name}
    for state in states(fitting, document.design):
        options = {
            setting.option: state[setting.name]
            for setting in fitting
            if setting.option and setting.name in state
        }
        text = state_text(state)
        name = f"{target.name} {text}"
        base = made.setdefault(tuple(options.items()), name)
        yield replace(
            one,
            target=target.model_copy(
                update={
                    "name": name,
                    "url": str(url.with_options(options)) if options else target.url,
                    "subject": target.subject and f"{target.subject} {text}",
                    "labels": {**target.labels, **state},
                    "settings": dict(state),
                    "base": "" if base == name else base,
                }
            ),
        )


def subject_label(url: TargetUrl) -> str:
    """The label that the matrix gives a target without labels of its own: what it was multiplied
    from."""
    return "class" if url.kind.on_kubernetes else "subject"
