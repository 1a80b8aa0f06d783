"""Write a drafted plan as YAML with comments that explain its targets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from leadline.plan.loader import RUNNER_IMAGE_VARIABLE, Overrides
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


def plan_text(draft: Draft, load: Load, given: Overrides) -> str:
    """Return the content of the plan's file, with the options that were `given`."""
    lines = [
        *_head(draft, load, given.context),
        "leadline: 1",
        *([f"name: {_scalar(given.name)}"] if given.name else []),
        *_cluster(draft, given),
        "targets:",
    ]
    for target in draft.targets:
        lines += _target(target, estimate_cost(target, load))
    lines += _workloads(load, given)
    return "\n".join(lines) + "\n"


def _head(draft: Draft, load: Load, context: str | None) -> Iterator[str]:
    where = f" from the cluster of the context {context!r}" if context else ""
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


def _cluster(draft: Draft, given: Overrides) -> Iterator[str]:
    yield "clusters:"
    yield "  kubernetes:"
    cpu = given.runner_cpu and _scalar(given.runner_cpu)
    if not cpu and draft.cpu is not None:
        cpu = f"{draft.cpu:g}  # of a runner pod; with more, not all targets fit at once"
    disk = given.vm_image and f"{{boot: {{container_disk: {_scalar(given.vm_image)}}}}}"
    options = (
        ("kubeconfig", given.kubeconfig and _scalar(str(given.kubeconfig)), ""),
        ("context", given.context and _scalar(given.context), "  # the targets are chosen for it"),
        ("namespace", given.namespace and _scalar(given.namespace), "  # the plan fits its quotas"),
        ("image", given.runner_image and _scalar(given.runner_image), ""),
        ("cpu", cpu, ""),
        ("memory", given.runner_memory and _scalar(given.runner_memory), ""),
        ("vm", disk, ""),
    )
    found = [f"      {key}: {value}{comment}" for key, value, comment in options if value]
    if needs_image(draft, given):
        found.append(
            "      # image: name the one that runs fio here, or in $LEADLINE_RUNNER_IMAGE, or with"
        )
        found.append("      #   --runner-image (`leadline kubernetes image build` makes one)")
    yield f"    kubernetes:{'' if found else ' {}'}"
    yield from found


def needs_image(draft: Draft, given: Overrides) -> bool:
    """Return whether the drafted plan lacks the image of its runner pods."""
    in_pods = any("runner=vm" not in target.url for target in draft.targets)
    return in_pods and not given.runner_image and not os.environ.get(RUNNER_IMAGE_VARIABLE)


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


def _workloads(load: Load, given: Overrides) -> Iterator[str]:
    yield f"profile: [{', '.join(map(_scalar, given.profiles))}]"
    defaults = {"runtime": given.runtime, "ramp": given.ramp, "size": given.size}
    inside = ", ".join(f"{key}: {_scalar(value)}" for key, value in defaults.items() if value)
    if inside:
        yield f"defaults: {{{inside}}}"
    if given.repeats is not None:
        yield f"repeats: {given.repeats}"
    if not load.prefill:
        yield "prefill: false  # reads of data never written may not reach a disk"


def _scalar(text: str) -> str:
    """Return text as a YAML scalar."""
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED and not text.endswith(":"):
        return text
    # `visible` spells hidden characters out as YAML does between double quotes.
    return '"{}"'.format(visible(text.replace("\\", r"\\").replace('"', r"\"")))
