"""What targets have in common: data that serves all trials, and the check of free space."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from leadline import errors
from leadline.archive.records import RoundTrip
from leadline.errors import LeadlineError
from leadline.formats.watch_records import Role
from leadline.inventory.layer import Layer
from leadline.probes.watches.base import Watches
from leadline.probes.watches.host import LocalMachine, ResourceWatch
from leadline.probes.watches.selection import select_watches
from leadline.runner.ports import Watch
from leadline.units import format_size

# This share of a filesystem or pool stays free.
KEEP_FREE_SHARE = 0.10
# Seconds that a cluster needs to write back what it deferred of a prefill. A convention: the real
# time was not measured.
SETTLE_S = 5.0


def require_free(
    name: str,
    *,
    free_bytes: int,
    needed_bytes: int,
    keep_bytes: int,
    claimed_bytes: int = 0,
    context: Sequence[str] = (),
    reason: str = "",
) -> None:
    """Raise LeadlineError(`target-no-space`) where `keep_bytes` would not stay free.

    `claimed_bytes` is what other targets take from the same storage, `reason` explains the need.
    """
    if free_bytes - needed_bytes - claimed_bytes >= keep_bytes:
        return
    others = f"; other targets there need {format_size(claimed_bytes)}" if claimed_bytes else ""
    raise LeadlineError(
        errors.TARGET_NO_SPACE,
        f"{name} has {format_size(free_bytes)} free; the plan needs {format_size(needed_bytes)}"
        f"{reason} and leaves {format_size(keep_bytes)} (10 %){others}",
        context=context,
        hint="make the plan smaller with --size, or free space",
    )


def require_span(name: str, size_bytes: int, span_bytes: int, context: Sequence[str]) -> None:
    """Raise LeadlineError(`target-no-space`) for a device or image smaller than the plan's span."""
    if size_bytes < span_bytes:
        raise LeadlineError(
            errors.TARGET_NO_SPACE,
            f"{name} has {format_size(size_bytes)}; the plan spans {format_size(span_bytes)}",
            context=context,
            hint="make the plan smaller with --size",
        )


def refuse_other_consents(consented: Sequence[str], needed: Collection[str], noun: str) -> None:
    """Raise LeadlineError(`usage`) for a consent that the plan does not need, as after a typing
    error; `noun` says what the `needed` names are."""
    for name in consented:
        if name not in needed:
            raise LeadlineError(
                errors.USAGE,
                f"consent was given for {name!r}, and the plan needs none for it",
                context=[f"{noun}: {', '.join(needed) or 'none'}"],
                hint="name it exactly as the plan does",
            )


class LastingTarget:
    """A target whose data serves all trials."""

    fresh = False

    def layers(self) -> tuple[Layer, ...]:
        return ()

    def dumps(self) -> Mapping[str, bytes]:
        return {}

    def prepare(self) -> tuple[RoundTrip, ...]:
        return ()

    def look_again(self) -> None:
        return

    def recover(self) -> str:
        return ""

    def renew(self) -> None:
        raise AssertionError("only a fresh target is renewed")


class LocalTarget(LastingTarget):
    """A target whose system is this machine, which the host inventory describes."""

    def settle(self, written_at_s: float) -> None:
        return

    def watch(self, folder: Path) -> Watch | None:
        layers = self.layers()
        # Of a partitioned disk, only the I/O of the target's partition is recorded.
        partitions = frozenset(name for layer in layers for name in layer.devices)
        machine = LocalMachine(roles=tuple(Role), partitions=partitions)
        return Watches(*select_watches(layers, folder), ResourceWatch([machine], folder))
