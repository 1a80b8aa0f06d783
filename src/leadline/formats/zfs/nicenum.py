"""Figures as ZFS prints them without -p (libzutil, zfs_nicenum_format): three digits and a suffix,
which is a power of 1024, of counts, too, and of 1000 for times."""

from __future__ import annotations

import re
from typing import Final

_FACTORS: Final = {
    suffix: 1 << 10 * power for power, suffix in enumerate(("", "K", "M", "G", "T", "P", "E"))
}
# OpenZFS puts a B where there is no suffix (96B), zfs-fuse, where it tells of a stream, behind it
# (36.7MB).
# The decimal point is a comma with some locales.
_NUMBER: Final = re.compile(r"(\d{1,20}(?:\.\d{1,9}|,\d{1,2})?)([KMGTPE]?)B?", re.ASCII)
_TIME: Final = re.compile(r"(\d{1,20}(?:\.\d{1,9})?)(ns|us|ms|s|)", re.ASCII)
_NANOSECONDS: Final = {"": 1, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
# No counter of a kernel is larger.
_BEYOND: Final = 1 << 64


def nice_number(text: str) -> float | None:
    """`1.42K` as 1454.08, `911M` as bytes, `955486208` as it is; None where it is no such figure.
    With a suffix it is good to three digits."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    value = float(found[1].replace(",", ".")) * _FACTORS[found[2]]
    return value if value < _BEYOND else None


def nice_count(text: str) -> int | None:
    """The nearest whole number; exact where the text has no suffix. None as for nice_number."""
    if text.isascii() and text.isdigit() and len(text) <= 20:
        count = int(text)
        return count if count < _BEYOND else None
    value = nice_number(text)
    return None if value is None or round(value) >= _BEYOND else round(value)


def nice_time_ns(text: str) -> float | None:
    """Nanoseconds in `65us`, `17s` or, without a unit, `65535`. None where it is no time."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    value = float(found[1]) * _NANOSECONDS[found[2]]
    return value if value < _BEYOND else None
