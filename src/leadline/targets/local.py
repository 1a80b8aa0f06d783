"""What targets on this machine have in common: no system of their own to watch or to wait for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from leadline.archive.records import Layer, RoundTrip
from leadline.formats.host_counters import Role
from leadline.probes.host_counters import LocalMachine, ResourceWatch
from leadline.probes.layer_watches import watches_of
from leadline.probes.watches import Watches
from leadline.runner.ports import Watch


class OneForAll:
    """A target whose data serves all trials."""

    fresh = False

    def layers(self) -> tuple[Layer, ...]:
        return ()

    def dumps(self) -> Mapping[str, bytes]:
        return {}

    def renew(self) -> None:
        raise AssertionError("only what is fresh for each trial is renewed")


class OnThisMachine(OneForAll):
    """A target whose system is the host itself, which the host inventory tells of."""

    def settle(self, written_at_s: float) -> None:
        return

    def prepare(self) -> tuple[RoundTrip, ...]:
        return ()

    def watch(self, folder: Path) -> Watch | None:
        layers = self.layers()
        # What of a disk's I/O is the target's, its partition tells best.
        named = frozenset(name for layer in layers for name in layer.devices)
        machine = LocalMachine(roles=tuple(Role), partitions=named)
        return Watches(
            *watches_of(layers, folder),
            ResourceWatch([machine], folder),
        )
