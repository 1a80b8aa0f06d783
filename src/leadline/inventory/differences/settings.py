"""Differences of settings: those of the configuration database, and those of files that change
how OSDs work."""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import median

from leadline.inventory.ceph import CephInventory
from leadline.inventory.differences.model import Collector, Topic
from leadline.inventory.differences.words import counted, listed
from leadline.visible import visible

# Who and where a cluster is, what it logs and shows, what only acts on pools yet to be made, and
# what is compared elsewhere.
_NOISE = re.compile(
    r"fsid|(^|_)(addr|host|hosts|network|path|dir|file|data|keyring|port|url|user|image)($|_)"
    r"|^(public|cluster)_network|^container_|^crash_|^log_|^debug_|^err_to|^mon_(warn|allow|data|"
    r"initial|health|cluster_log|max_pg|target_pg|debug)|^auth_|^ms_(cluster|service|client|mon)_"
    r"|^ms_bind|^mgr/(?!pg_autoscaler/threshold)|^osd_pool_default_|^crush_location$"
    r"|^osd_crush_(chooseleaf|update)|^rgw_|^mds_join|^client_mount|^admin_socket|_on_mkfs$"
)
# Of files (whose daemons' paths and addresses are many), only what OSDs' work depends on.
_OF_OSDS = re.compile(
    r"^(osd_op_|osd_mclock_|osd_memory_|osd_recovery_|osd_max_backfills|osd_scrub_|osd_client_"
    r"|bluestore_(?!block_|bdev_)|ms_async_|ms_inject_|ms_dispatch|rocksdb_)"
)
# Values that daemons find by measuring themselves: they never agree exactly.
_MEASURED_SHARE = 0.2
_DEFAULT = "default"
_LONG = 80


def compare_settings(found: Collector, base: CephInventory, candidate: CephInventory) -> None:
    """Each setting that is not the same for a kind of daemon, `settings.KIND.NAME`."""
    if base.configuration is None or candidate.configuration is None:
        if base.configuration is not None or candidate.configuration is not None:
            found.unknown.append("settings in the configuration database")
        return
    ours, theirs = _settings(base), _settings(candidate)
    # A file of one side says nothing where the other side's daemons were not asked.
    with_files = base.file_settings is not None and candidate.file_settings is not None
    if with_files:
        ours, theirs = _of_files(base) | ours, _of_files(candidate) | theirs
    changed = 0
    for key in sorted(ours.keys() | theirs.keys()):
        left, right = ours.get(key, []), theirs.get(key, [])
        if not _alike(left, right):
            changed += 1
            kind, name = key
            found.compare(
                f"settings.{visible(kind)}.{visible(name)}",
                Topic.SETTINGS,
                _text(left),
                _text(right),
            )
    if not changed:
        found.identical.append("settings that bear on I/O")


Key = tuple[str, str]


def _settings(inventory: CephInventory) -> dict[Key, list[str]]:
    """Values by kind of daemon and name. What single daemons or hosts have is put together: their
    names are no difference."""
    found: dict[Key, list[str]] = {}
    for one in inventory.configuration or ():
        if not _NOISE.search(one.name):
            found.setdefault((one.section.partition(".")[0], one.name), []).append(one.value)
    return found


def _of_files(inventory: CephInventory) -> dict[Key, list[str]]:
    """From the first OSD that was asked; others are not known to be the same."""
    asked = sorted(
        {one.daemon for one in inventory.file_settings or () if one.daemon.startswith("osd")}
    )
    return {
        ("osd", one.name): [one.value]
        for one in inventory.file_settings or ()
        if asked
        and one.daemon == asked[0]
        and _OF_OSDS.match(one.name)
        # An injected delay of nothing, which a test switched off again, is none.
        and not (one.name.startswith("ms_inject_") and not _injects(inventory))
    }


def _injects(inventory: CephInventory) -> bool:
    return any(
        one.name.startswith("ms_inject_") and (_number(one.value) or 0.0) > 0
        for one in inventory.file_settings or ()
    )


def _alike(left: list[str], right: list[str]) -> bool:
    if sorted(set(left)) == sorted(set(right)):
        return True
    ours, theirs = _numbers(left), _numbers(right)
    if not ours or not theirs:
        return False
    middles = median(ours), median(theirs)
    if len(ours) == len(theirs) == 1:
        return middles[0] == middles[1]
    return abs(middles[0] - middles[1]) <= _MEASURED_SHARE * max(map(abs, middles))


def _numbers(values: Iterable[str]) -> list[float] | None:
    numbers = [_number(value) for value in values]
    return [one for one in numbers if one is not None] if None not in numbers else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _text(values: list[str]) -> str:
    if not values:
        return _DEFAULT
    if len(set(values)) == 1:
        text = visible(values[0]) or "empty"
        return text if len(text) <= _LONG else f"{text[:_LONG]}..."
    numbers = _numbers(values)
    if numbers:
        return f"{median(numbers):g} in the middle of {counted(len(numbers), 'daemon')}"
    return listed(visible(value) for value in sorted(set(values)))
