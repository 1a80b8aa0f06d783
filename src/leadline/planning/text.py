"""A plan as a file that says why each of its lines is there. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leadline.planning.draft import PREFILL_BPS, Cost, Draft, DraftTarget, Load, cost_of, total
from leadline.text import visible
from leadline.units import format_bandwidth, format_duration, format_size

# Words that YAML and a reader both take for themselves.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./:?=&-]*")
_RESERVED = {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What of a plan was given rather than found; empty and None where nothing was."""

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
    """The file."""
    lines = [
        *_head(draft, load, settings),
        "leadline: 1",
        *([f"name: {_scalar(settings.name)}"] if settings.name else []),
        *_cluster(draft, settings),
        "targets:",
    ]
    for target in draft.targets:
        lines += _target(target, cost_of(target, load))
    lines += _workloads(settings)
    return "\n".join(lines) + "\n"


def _head(draft: Draft, load: Load, settings: Settings) -> Iterator[str]:
    where = f" from the cluster of the context {settings.context!r}" if settings.context else ""
    yield f"# Written by `leadline plan --from-cluster`{_told(where)}."
    yield "# `leadline check FILE` shows what it would do, `leadline run FILE` does it."
    yield "#"
    for line in told_cost(total([cost_of(one, load) for one in draft.targets])):
        yield f"# {line}"
    if draft.left_out:
        yield "#"
        yield "# Left out:"
        for one in draft.left_out:
            yield f"#   {_told(one.name)}: {_told(one.reason)}"
    for note in draft.notes:
        yield f"# Not seen: {_told(note)}"


def told_cost(cost: Cost) -> list[str]:
    """What a plan costs, as sentences."""
    time = (
        f"Time: about {format_duration(cost.total_s)}: {format_duration(cost.io_s)} of I/O in "
        f"{cost.trials} trials, {format_duration(cost.prefill_s)} of prefill, "
        f"{format_duration(cost.set_up_s)} of set-up."
    )
    lines = [time]
    if cost.prefill_bytes:
        lines.append(
            f"Assumption: prefill writes {format_size(cost.prefill_bytes)} at "
            f"{format_bandwidth(PREFILL_BPS)} MiB/s; nobody has measured that here."
        )
    volumes = "1 volume" if cost.volumes == 1 else f"{cost.volumes} volumes"
    lines.append(
        f"Claimed at once: {format_size(cost.claimed_bytes)} in {volumes}, from the beginning of "
        "the run to its end."
    )
    return lines


def _cluster(draft: Draft, settings: Settings) -> Iterator[str]:
    yield "clusters:"
    yield "  kubernetes:"
    found: list[str] = []
    if settings.kubeconfig:
        found.append(f"kubeconfig: {_scalar(settings.kubeconfig)}")
    if settings.context:
        found.append(f"context: {_scalar(settings.context)}  # what is below was chosen for it")
    if settings.namespace:
        found.append(f"namespace: {_scalar(settings.namespace)}  # its quotas were looked at")
    if settings.image:
        found.append(f"image: {_scalar(settings.image)}")
    if settings.cpu:
        found.append(f"cpu: {_scalar(settings.cpu)}")
    elif draft.cpu is not None:
        found.append(
            f"cpu: {draft.cpu:g}  # of a runner pod; more would not fit for all targets at once"
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
    yield f"  # {_told(target.why)}"
    if target.doubt:
        yield f"  # Doubtful: {_told(target.doubt)}"
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
    yield f"profile: [{', '.join(_scalar(one) for one in settings.profiles)}]"
    given = {"runtime": settings.runtime, "ramp": settings.ramp, "size": settings.size}
    inside = ", ".join(f"{key}: {_scalar(value)}" for key, value in given.items() if value)
    if inside:
        yield f"defaults: {{{inside}}}"
    if settings.repeats is not None:
        yield f"repeats: {settings.repeats}"
    if not settings.prefill:
        yield "prefill: false  # reads may then be answered without any disk"


def _scalar(text: str) -> str:
    """Text as YAML reads it back."""
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED and not text.endswith(":"):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _told(text: str) -> str:
    """What others named, in a comment: one line, and no character that YAML refuses."""
    return visible(text)
