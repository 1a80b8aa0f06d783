"""What targets on this machine have in common: no system of their own to watch or to wait for."""

from __future__ import annotations

from pathlib import Path

from leadline.archive.records import RoundTrip
from leadline.formats.host_counters import Role
from leadline.probes.host_counters import LocalMachine, ResourceWatch
from leadline.probes.watches import Watches
from leadline.runner.ports import Watch


class OneForAll:
    """A target whose data serves all trials."""

    fresh = False

    def renew(self) -> None:
        raise AssertionError("only what is fresh for each trial is renewed")


class OnThisMachine(OneForAll):
    """A target whose system is the host itself, which the host inventory tells of."""

    def settle(self, written_at_s: float) -> None:
        return

    def prepare(self) -> tuple[RoundTrip, ...]:
        return ()

    def watch(self, folder: Path) -> Watch | None:
        return Watches(ResourceWatch([LocalMachine(roles=tuple(Role))], folder))
