"""What the rules on settings of ZFS judge by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leadline.analysis.layers.model import Flow, LayerFlow
from leadline.analysis.layers.relevance.model import Setting, cannot
from leadline.analysis.layers.sweep import RecordSweep
from leadline.analysis.layers.trial import TrialLayers
from leadline.analysis.layers.zfs import Queue, queues, vdev_devices, written_times
from leadline.inventory.zfs.parameters import PARAMETERS
from leadline.metrics import Op

# A share of the requests below it is noise.
SOME = 0.01
_PARAMETERS = {one.name: one for one in PARAMETERS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """`parameters` are the module's, as texts; empty where it has none or told none; `sweep`
    compares the cell with those of other record sizes."""

    found: TrialLayers
    zfs: LayerFlow
    op: Op
    parameters: Mapping[str, str]
    sweep: RecordSweep | None

    @property
    def fuse(self) -> bool:
        return self.zfs.facts.get("implementation") == "fuse"

    @property
    def writes(self) -> bool:
        """Whether the engine wrote anything."""
        return Op.WRITE in self.found.engine.flows

    @property
    def volume(self) -> bool:
        """Whether the dataset is a volume: then its device stands above it."""
        place = self.found.layers.index(self.zfs)
        return any(one.facts.get("type") == "zvol" for one in self.found.layers[:place])

    @property
    def record_bytes(self) -> int | None:
        return self.zfs.size_fact("recordsize_bytes")

    @property
    def layout(self) -> str:
        """`2 x mirror of 2, log: 1 x disk`."""
        return self.zfs.facts.get("layout", "")

    @property
    def written_times(self) -> float:
        """How often each byte of the trial's direction is moved for the sake of copies or
        parity."""
        return (written_times(self.layout) or 1.0) if self.op is Op.WRITE else 1.0

    @property
    def striped(self) -> bool:
        """Whether vdevs cut a block into columns (RAIDZ, dRAID)."""
        return "raidz" in self.layout or "draid" in self.layout

    @property
    def at_vdevs(self) -> Flow | None:
        return self.zfs.flows.get(self.op)

    @property
    def devices(self) -> LayerFlow | None:
        """The vdevs' devices; not what lies below them, as the disk of a loop device's file."""
        return vdev_devices(self.found.layers)

    @property
    def at_devices(self) -> Flow | None:
        return self.devices.flows.get(self.op) if self.devices else None

    def limit(self, name: str) -> int:
        text = self.parameters.get(name, "")
        default = self._default(name)
        assert default is not None, f"{name} depends on the machine"
        return int(text) if text.isascii() and text.isdecimal() else default

    def told(self, name: str) -> str:
        """The value as the module told it; its default is marked as such."""
        if name in self.parameters:
            return self.parameters[name]
        default = self._default(name)
        return "" if default is None else f"{default} (default)"

    def _default(self, name: str) -> int | None:
        """In the version that there is, else in the newest known."""
        one = _PARAMETERS[name]
        default = one.default(self.zfs.facts.get("version", ""))
        return one.default("") if default is None else default

    @property
    def queues(self) -> Mapping[str, Queue]:
        return queues(self.found.seen.zfs, self.found.windows)


def of_fuse(name: str) -> Setting:
    return cannot(name, "", "zfs-fuse has no module, so that it cannot be set there.")
