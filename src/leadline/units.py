"""Sizes, durations and rates: parsed into base units (bytes, seconds), shown to people.

Suffixes follow fio, whose users write our plans: `k`, `M`, `G`, `T` alone are powers of 1024,
as are `KiB` ...; `kB`, `MB` ... are powers of 1000 (IEC 80000-13).
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

# What the kernel counts bytes in; a float far beyond it is infinite.
_BEYOND = 1 << 63
_BINARY = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)(ib?|b)?\s*", re.IGNORECASE)
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|m|min|h|d)?\s*", re.IGNORECASE)
# A sum in another order, as other vector units make it, differs in the 16th digit of a double.
_WRITTEN_DIGITS = 12
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def parse_size(text: str | int) -> int:
    """Bytes in `4k`, `1MiB`, `10G`, `150GB` or a whole number. Raises ValueError."""
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a size; write for instance 4k, 1M or 10G")
    if isinstance(text, int):
        if text < 0:
            raise ValueError("a size cannot be negative")
        return _bytes(text)
    match = _SIZE.fullmatch(str(text))
    if not match:
        raise ValueError(f"{text!r} is not a size; write for instance 4k, 1M or 10G")
    number, prefix, tail = match.group(1), match.group(2).lower(), (match.group(3) or "").lower()
    power = list(_BINARY).index(prefix)
    factor = 1000**power if tail == "b" and prefix else _BINARY[prefix]
    value = float(number) * factor
    if value < _BEYOND and not value.is_integer():
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return _bytes(value)


# Options of jobs repeat by the thousand, and several audit rules ask for each.
@lru_cache(maxsize=1024)
def parse_fio_size(text: str) -> int:
    """Bytes in a size as fio 3 reads it by default (kb_base=1024): `4k` and `4kb` are 4096 bytes,
    `4kib` is 4000 (seen on fio 3.33; the reverse of IEC 80000-13). Raises ValueError.
    """
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a size of fio's")
    number, prefix, tail = match.group(1), match.group(2).lower(), (match.group(3) or "").lower()
    power = list(_BINARY).index(prefix)
    value = float(number) * (1000**power if tail == "ib" else 1024**power)
    return _bytes(value)


def _bytes(value: float) -> int:
    """Raises ValueError for more than there can be."""
    if value >= _BEYOND:
        raise ValueError("a size must be less than 8 EiB")
    return int(value)


@lru_cache(maxsize=1024, typed=True)
def parse_duration(text: str | int | float) -> float:
    """Seconds in `500ms`, `10s`, `5m`, `1h` or a plain number. Raises ValueError."""
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a duration; write for instance 10s, 5m or 1h")
    if isinstance(text, int | float):
        value = float(text)
    else:
        match = _DURATION.fullmatch(text)
        if not match:
            raise ValueError(f"{text!r} is not a duration; write for instance 10s, 5m or 1h")
        value = float(match.group(1)) * _SECONDS[(match.group(2) or "s").lower()]
    if value < 0 or not math.isfinite(value):
        raise ValueError("a duration must be zero or more and finite")
    return value


def round_significant(value: float) -> float:
    """Round a number for a JSON answer, a table or a page: to 12 significant digits, and a number
    beyond them to a whole number, so that a count of bytes stays as it is.

    Two processors whose results differ in the last digits of a double then write the same text.
    One case remains: two results on the two sides of the middle between two written numbers. With
    differences of 1e-16 of the value, that is one number in ten thousand.
    """
    if not math.isfinite(value):
        return value
    if abs(value) >= 10**_WRITTEN_DIGITS:
        return float(round(value))
    return float(f"{value:.{_WRITTEN_DIGITS}g}")


def _significant(value: float) -> str:
    """`value` with about three significant digits and no exponent."""
    value = round_significant(value)
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    rounded = f"{value:,.{decimals}f}"
    return rounded.rstrip("0").rstrip(".") if "." in rounded else rounded


def format_size(size_bytes: float) -> str:
    """Bytes for people, exact powers of 1024 without decimals: `4 KiB`, `1.5 GiB`."""
    value = round_significant(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if round(abs(value)) < 1024:  # as it is shown: 1023.9 is 1 of the next
            return f"{_significant(value)} {unit}"
        value /= 1024
    return f"{_significant(value)} TiB"


def format_block_size(size_bytes: int) -> str:
    """A block size in fio's own short form: `4k`, `1M`."""
    for suffix, factor in (("M", 1 << 20), ("k", 1 << 10)):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor}{suffix}"
    return str(size_bytes)


def format_duration(seconds: float) -> str:
    """Seconds for people: `45 s`, `12 min 30 s`, `3 h 05 min`."""
    seconds = round_significant(seconds)
    if round(seconds, 1) < 60:  # as it is shown: 59.99 s is 1 min
        return f"{_significant(seconds)} s"
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {secs:02d} s" if secs else f"{minutes} min"


def format_latency(seconds: float) -> str:
    """A latency for people: `12.3 us`, `4.56 ms`, `1.2 s`."""
    seconds = round_significant(seconds)
    for unit, factor in (("us", 1e-6), ("ms", 1e-3)):
        if abs(seconds) / factor < 999.5:  # as it is shown: 999.9 us is 1 ms
            return f"{_significant(seconds / factor)} {unit}"
    return f"{_significant(seconds)} s"


def format_iops(iops: float) -> str:
    """Operations per second for people, whole above 100: `12,345`, `98.5`."""
    iops = round_significant(iops)
    return f"{iops:,.0f}" if abs(iops) >= 100 else _significant(iops)


def format_bandwidth(bytes_per_second: float) -> str:
    """Bandwidth for people, always in MiB/s so that a column can be compared by eye."""
    mebibytes = round_significant(bytes_per_second / (1 << 20))
    return f"{mebibytes:,.0f}" if mebibytes >= 100 else _significant(mebibytes)
