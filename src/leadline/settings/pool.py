"""`pool`: an option of a pool of a Ceph cluster."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.connect.ceph import CommandFailed
from leadline.settings.ceph import CephSystem
from leadline.settings.parameter import invalid, same_value

# The options that a run may change for its trials and restore: none of them moves data. Values are
# those that Ceph takes (OSDMonitor::prepare_command_pool_set); others are numbers.
OPTIONS = {
    "compression_mode": ("none", "passive", "aggressive", "force"),
    "compression_algorithm": ("none", "snappy", "zlib", "zstd", "lz4"),
    "compression_required_ratio": (),
    "compression_min_blob_size": (),
    "compression_max_blob_size": (),
    "csum_type": ("none", "crc32c", "crc32c_16", "crc32c_8", "xxhash32", "xxhash64"),
    "csum_min_block": (),
    "csum_max_block": (),
    "fast_read": ("0", "1", "true", "false", "yes", "no"),
}


class PoolParameter:
    """One option of one pool."""

    def __init__(self, pool: str, option: str, system: CephSystem) -> None:
        self.system: CephSystem = system
        self._pool, self._option = pool, option
        self.name = f"{pool} {option}"

    def check(self, values: Sequence[str]) -> None:
        known = OPTIONS.get(self._option)
        if known is None:
            raise invalid(
                f"the pool option {self._option!r} is not one that a run can change and restore",
                hint=f"it takes {', '.join(OPTIONS)}",
            )
        try:
            size = self.system.connection.mon_json("osd pool get", pool=self._pool, var="size")
            profile = "erasure_code_profile"
            erasure = self._get(profile) is not None
        except CommandFailed as error:
            raise invalid(f"the cluster has no pool {self._pool!r}", *error.context) from error
        if self._option == "fast_read" and not erasure:
            raise invalid(
                f"fast_read is for erasure-coded pools, and {self._pool!r} is replicated "
                f"{size['size']} times"
            )
        for value in values:
            number = value.replace(".", "", 1).isdigit()
            if value not in known if known else not number:
                allowed = f"one of {', '.join(known)}" if known else "a number"
                raise invalid(f"{self._option} does not take {value!r}: it is {allowed}")

    def _get(self, option: str) -> str | None:
        try:
            found = self.system.connection.mon_json("osd pool get", pool=self._pool, var=option)
        except CommandFailed:
            # Not set on the pool, or not an option of its type; a pool that is gone has no size.
            self.system.connection.mon("osd pool get", pool=self._pool, var="size")
            return None
        return _text(found[option])

    def read(self) -> str | None:
        return self._get(self._option)

    def write(self, value: str) -> None:
        self.system.connection.mon("osd pool set", pool=self._pool, var=self._option, val=value)

    def restore(self, before: str | None) -> None:
        self.write("unset" if before is None else before)

    def fault(self, value: str) -> str:
        found = self.read()
        if same_value(found, value) or {found, value} in ({"1", "true"}, {"0", "false"}):
            return ""
        return f"the pool {self._pool!r} has {found!r}"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
