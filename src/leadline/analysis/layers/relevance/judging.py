"""All rules on settings, in the order of the layers.

Rules and defaults are OpenZFS's (module/zfs, zfs(4)) and Ceph's; limits are the module's own where
it told them, else its defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from leadline.analysis.layers.relevance import dataset, groups, queues
from leadline.analysis.layers.relevance.given import Given
from leadline.analysis.layers.relevance.image import of_image
from leadline.analysis.layers.relevance.model import Setting
from leadline.analysis.layers.sweep import RecordSweep
from leadline.analysis.layers.trial import TrialLayers
from leadline.archive.records import LayerKind

_OF_ZFS: tuple[Callable[[Given], Setting], ...] = (
    dataset.record_size,
    dataset.compression,
    dataset.sync,
    dataset.cache,
    groups.dirty_data,
    groups.timeout,
    queues.aggregation,
    queues.in_flight,
    queues.vdevs,
)


def settings_of(
    found: TrialLayers, parameters: Mapping[str, str], sweep: RecordSweep | None
) -> tuple[Setting, ...]:
    """Every setting that is judged; empty without ZFS and image."""
    op = found.main_op
    zfs = next((one for one in found.layers if one.kind is LayerKind.ZFS), None)
    if op is None:
        return ()
    of_zfs: tuple[Setting, ...] = ()
    if zfs is not None:
        given = Given(found=found, zfs=zfs, op=op, parameters=parameters, sweep=sweep)
        of_zfs = tuple(rule(given) for rule in _OF_ZFS)
    return (*of_zfs, *of_image(found, op))
