"""Write a drafted plan as YAML with comments that explain its targets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leadline.planning.draft import (
    PREFILL_BPS,
    Cost,
    Draft,
    DraftTarget,
    Load,
    estimate_cost,
    sum_costs,
)
from leadline.text import visible
from leadline.units import format_bandwidth, format_duration, format_size

# Text that YAML reads as text, and words that it does not.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./:?=&-]*")
_RESERVED = {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of the plan; empty or None if they are not given."""

    context: str = ""
    kubeconfig: str = ""
    namespace: str = ""
    image: str = ""
    vm_image: str = ""
    name: str = ""
    profiles: Sequence[str] = ()
    runtime: str = ""
    ramp: str = ""
    size: str = ""
    repeats: int | None = None
    prefill: bool = True
    cpu: str = ""
    memory: str = ""


def plan_text(draft: Draft, load: Load, settings: Settings) -> str:
    """Return the content of the plan's file."""
    lines = [
        *_head(draft, load, settings),
        "leadline: 1",
        *([f"name: {_scalar(settings.name)}"] if settings.name else []),
        *_cluster(draft, settings),
        "targets:",
    ]
    for target in draft.targets:
        lines += _target(target, estimate_cost(target, load))
    lines += _workloads(settings)
    return "\n".join(lines) + "\n"


def _head(draft: Draft, load: Load, settings: Settings) -> Iterator[str]:
    where = f" from the cluster of the context {settings.context!r}" if settings.context else ""
    yield f"# Written by `leadline plan --from-cluster`{visible(where)}."
    yield "# `leadline check FILE` shows what it does, `leadline run FILE` runs it."
    yield "#"
    for line in format_cost(sum_costs([estimate_cost(target, load) for target in draft.targets])):
        yield f"# {line}"
    if draft.left_out:
        yield "#"
        yield "# Left out:"
        for item in draft.left_out:
            yield f"#   {visible(item.name)}: {visible(item.reason)}"
    for note in draft.notes:
        yield f"# Not seen: {visible(note)}"


def format_cost(cost: Cost) -> list[str]:
    """Return the cost of a plan as sentences."""
    time = (
        f"Time: about {format_duration(cost.total_s)}: {format_duration(cost.io_s)} of I/O in "
        f"{cost.trials} trials, {format_duration(cost.prefill_s)} of prefill, "
        f"{format_duration(cost.set_up_s)} of set-up."
    )
    lines = [time]
    if cost.prefill_bytes:
        lines.append(
            f"Assumption: prefill writes {format_size(cost.prefill_bytes)} at "
            f"{format_bandwidth(PREFILL_BPS)} MiB/s, which is not measured."
        )
    volumes = "1 volume" if cost.volumes == 1 else f"{cost.volumes} volumes"
    lines.append(
        f"Claimed at once: {format_size(cost.claimed_bytes)} in {volumes}, for the whole run."
    )
    return lines


def _cluster(draft: Draft, settings: Settings) -> Iterator[str]:
    yield "clusters:"
    yield "  kubernetes:"
    found: list[str] = []
    if settings.kubeconfig:
        found.append(f"kubeconfig: {_scalar(settings.kubeconfig)}")
    if settings.context:
        found.append(f"context: {_scalar(settings.context)}  # the targets are chosen for it")
    if settings.namespace:
        found.append(f"namespace: {_scalar(settings.namespace)}  # the plan fits its quotas")
    if settings.image:
        found.append(f"image: {_scalar(settings.image)}")
    if settings.cpu:
        found.append(f"cpu: {_scalar(settings.cpu)}")
    elif draft.cpu is not None:
        found.append(
            f"cpu: {draft.cpu:g}  # of a runner pod; with more, not all targets fit at once"
        )
    if settings.memory:
        found.append(f"memory: {_scalar(settings.memory)}")
    if settings.vm_image:
        found.append(f"vm: {{boot: {{container_disk: {_scalar(settings.vm_image)}}}}}")
    if not found:
        yield "    kubernetes: {}"
        return
    yield "    kubernetes:"
    for line in found:
        yield f"      {line}"


def _target(target: DraftTarget, cost: Cost) -> Iterator[str]:
    yield f"  # {visible(target.why)}"
    if target.unproven:
        yield f"  # Unproven: {visible(target.unproven)}"
    yield (
        f"  # about {format_duration(cost.total_s)}: {format_duration(cost.io_s)} of I/O, "
        f"{format_duration(cost.prefill_s)} of prefill (assumed); "
        f"{format_size(target.claimed_bytes)} claimed"
    )
    yield f"  - name: {_scalar(target.name)}"
    yield f"    target: {_scalar(target.url)}"
    if target.labels:
        inside = ", ".join(f"{key}: {_scalar(value)}" for key, value in target.labels.items())
        yield f"    labels: {{{inside}}}"


def _workloads(settings: Settings) -> Iterator[str]:
    yield f"profile: [{', '.join(_scalar(name) for name in settings.profiles)}]"
    given = {"runtime": settings.runtime, "ramp": settings.ramp, "size": settings.size}
    inside = ", ".join(f"{key}: {_scalar(value)}" for key, value in given.items() if value)
    if inside:
        yield f"defaults: {{{inside}}}"
    if settings.repeats is not None:
        yield f"repeats: {settings.repeats}"
    if not settings.prefill:
        yield "prefill: false  # reads of data never written may not reach a disk"


def _scalar(text: str) -> str:
    """Return text as a YAML scalar."""
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED and not text.endswith(":"):
        return text
    # `visible` spells hidden characters out as YAML does between double quotes.
    return '"{}"'.format(visible(text.replace("\\", r"\\").replace('"', r"\"")))
