"""What measured use says of the capacity: the station that limits, and the rate it allows."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.analysis.bottleneck.evidence import LevelEvidence
from leadline.analysis.bottleneck.suspects import Bottleneck, Strength, suspects
from leadline.analysis.predict.facts import Station

_STATIONS = {
    Bottleneck.CLIENT_CPU: Station.CLIENT,
    Bottleneck.CLIENT_NETWORK: Station.CLIENT_LINK,
    Bottleneck.STORAGE_NETWORK: Station.OSD_LINK,
    Bottleneck.OSD_MEDIA: Station.MEDIUM,
    Bottleneck.OSD_CPU: Station.OSD_CPU,
    Bottleneck.TARGET_CORES: Station.OSD_CPU,
}
# The one thread that commits is at work for this share of the time.
_COMMITTING = 0.8
# Work per I/O falls with the load: at one in flight it was 1.4 times that at depth (shared/facts).
_LESS_WORK = 1.4
# Use below this share does not show what would be used up first.
_LEAST_USE = 0.3


def limiting_station(level: LevelEvidence) -> Station:
    """Return the station that limits a level by the evidence; all of the storage where unknown."""
    if max(_committing(level), default=0.0) >= _COMMITTING:
        return Station.COMMIT
    found = [
        _STATIONS[suspect.bottleneck]
        for suspect in suspects(level)
        if suspect.strength in (Strength.NAMED, Strength.SUSPECTED)
        and suspect.bottleneck in _STATIONS
    ]
    # Load and storage that share cores are both suspected, and most of the work is the storage's.
    if level.shared and Station.OSD_CPU in found:
        return Station.OSD_CPU
    return found[0] if found else Station.STORAGE


def most_iops_by_use(level: LevelEvidence, iops: float) -> float | None:
    """Return the rate at which the most used part of the storage would be used up (utilisation law:
    use is rate x work per I/O), with the work that a higher load saves.

    None where not all of the storage was measured, or where the load shares its cores: the use is
    then of other work too.
    """
    if level.shared or level.unreached_hosts != 0:
        return None
    shares = [machine.cpu.busy_share for machine in level.storage if machine.cpu is not None]
    shares += _committing(level)
    used = max(shares, default=0.0)
    return _LESS_WORK * iops / used if used >= _LEAST_USE else None


def _committing(level: LevelEvidence) -> Iterator[float]:
    """Share of the time in which each OSD's commit thread (bstore_kv_sync) was at work."""
    for osd in level.osds:
        name = "bluestore.kv_sync_lat"
        if name in osd.means_s:
            yield osd.means_s[name] * osd.rates[name]
