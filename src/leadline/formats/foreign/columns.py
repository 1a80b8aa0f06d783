"""Columns of a table of summaries: known names, other names for them, units, and long tables.

A long table has one figure per row: columns `metric`, `value` and `unit`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from leadline.formats.result import FormatError
from leadline.text import did_you_mean

# --- known columns ------------------------------------------------------------------------------

LATENCIES = {
    "lat_p50": 0.5,
    "lat_p95": 0.95,
    "lat_p99": 0.99,
    "lat_p999": 0.999,
    "lat_p9999": 0.9999,
}
_MOMENTS = ("lat_mean", "lat_min", "lat_max", "lat_stddev")
NEEDED = ("target", "workload", "op")
FIGURES: tuple[str, ...] = (
    *("iops", "bw_mib_s"),
    *(f"{base}_ms" for base in (*_MOMENTS, *LATENCIES)),
    "total_ios",
)
# Figure -> its columns of standard deviation (n - 1) and coefficient of variation over trials.
SPREADS: Mapping[str, tuple[str, str]] = {
    "iops": ("iops_sd", "iops_cv"),
    "bw_mib_s": ("bw_sd_mib_s", "bw_cv"),
    **{f"{base}_ms": (f"{base}_sd_ms", f"{base}_cv") for base in ("lat_mean", *LATENCIES)},
}
NUMBER = "n"
SHAPE = (
    *("block_size", "numjobs", "iodepth", "clients", "read_share", "rate_cap_iops"),
    *("runtime_s", "engine", "file_size", "direct"),
)
CPU = ("usr_cpu", "sys_cpu")
TRIAL = ("trial", "repeat")
LABEL = "label:"
TOOL_COLUMN: Final = "tool"
_LONG = ("metric", "value", "unit")
KNOWN = frozenset(
    {
        *("cluster", "pattern", TOOL_COLUMN, NUMBER),
        *(*NEEDED, *FIGURES, *SHAPE, *CPU, *TRIAL),
        *(column for pair in SPREADS.values() for column in pair),
    }
)

# Unit -> what its values are times to be in the unit of the known column.
_TIMES = {"ns": Decimal("1e-6"), "us": Decimal("1e-3"), "ms": Decimal(1), "s": Decimal(1000)}
_MIB = Decimal(1 << 20)
_BYTES = {
    "bytes_s": 1 / _MIB,
    "kib_s": Decimal(1024) / _MIB,
    "mib_s": Decimal(1),
    "gib_s": Decimal(1024),
    "kb_s": 1000 / _MIB,
    "mb_s": 10**6 / _MIB,
    "gb_s": 10**9 / _MIB,
}
# Column with another unit -> known column, factor.
UNITS: Mapping[str, tuple[str, Decimal]] = {
    f"{stem}_{unit}": (f"{stem}_{base}", factor)
    for stem, base, units in (
        *((f"bw{end}", "mib_s", _BYTES) for end in ("", "_sd")),
        *(
            (f"{stem}{end}", "ms", _TIMES)
            for stem in (*_MOMENTS, *LATENCIES)
            for end in ("", "_sd")
            if end == "" or stem in ("lat_mean", *LATENCIES)
        ),
    )
    for unit, factor in units.items()
    if unit != base
}


def known_column(column: str) -> str:
    """Return the known column of one that is in another unit; else the column itself."""
    return UNITS[column][0] if column in UNITS else column


# --- other names --------------------------------------------------------------------------------

# The first of several that a table has is taken. Processor columns are not guessed: tables rarely
# say of how many cores their per cent are.
_ALIASES: Mapping[str, tuple[str, ...]] = {
    "target": ("pool", "storage_class", "storageclass", "volume", "device", "backend", "storage"),
    "workload": ("test", "test_name", "job", "job_name", "jobname", "profile", "benchmark"),
    "op": ("operation", "direction"),
    "pattern": ("rw", "readwrite", "io_pattern", "access_pattern"),
    "block_size": ("bs", "blocksize", "io_size"),
    "numjobs": ("jobs", "num_jobs", "threads"),
    "iodepth": ("qd", "depth", "queue_depth", "io_depth"),
    "clients": ("num_clients", "client_count", "vms", "vm_count"),
    "read_share": ("rwmixread", "read_percent", "percent_read", "read_pct", "mix_read"),
    "rate_cap_iops": ("iops_limit", "iops_cap", "qos_iops"),
    "runtime_s": ("runtime", "duration_s", "duration"),
    "engine": ("ioengine",),
    "file_size": ("size",),
    "trial": ("iteration", "rep"),
    NUMBER: ("repeats", "trials", "n_trials", "num_trials", "runs", "n_runs", "num_runs"),
}
_STATISTICS = {
    **dict.fromkeys(("mean", "avg", "average"), ""),
    **dict.fromkeys(("sd", "std", "stddev", "stdev"), "sd"),
    "cv": "cv",
}
_BASES = {
    "iops": "iops",
    **dict.fromkeys(("bw", "bandwidth", "throughput"), "bw"),
    **dict.fromkeys(("lat", "latency"), "lat"),
}
_QUANTILES = {"median": "p50", **{key.removeprefix("lat_"): key[4:] for key in LATENCIES}}
_WORD_UNITS = {
    "usec": "us",
    "µs": "us",
    "μs": "us",
    "msec": "ms",
    "sec": "s",
    "nsec": "ns",
    **{f"{unit}s": f"{unit}_s" for unit in ("kib", "mib", "gib", "kb", "mb", "gb")},
    "bps": "bytes_s",
}
_PER_SECOND = re.compile(r"(?<![a-z])(b|bytes|kib|mib|gib|kb|mb|gb)(?:/s(?:ec)?|_s\b|ps\b)")
_WORD = re.compile(r"[a-zµμ]+[0-9.]*")


def figure_column(text: str, unit: str = "") -> str | None:
    """Return the column of a figure by what people call it (`Avg latency (us)`, `p99 ms`,
    `iops_std`); None where it is no figure, or its unit is not stated."""
    lowered = f"{text} {unit}".strip().lower().replace("1/s", "").replace("p99.99", "p9999")
    lowered = lowered.replace("p99.9", "p999")
    found = _PER_SECOND.search(lowered)
    rate_unit = {"b": "bytes"}.get(found[1], found[1]) + "_s" if found else ""
    words = _WORD.findall(_PER_SECOND.sub(" ", lowered).replace("_", " "))
    base = statistic = quantile = ""
    time_unit = rate_unit
    for word in words:
        word = _WORD_UNITS.get(word, word)
        if word in _BASES and not base:
            base = _BASES[word]
        elif word in _QUANTILES and not quantile:
            quantile = _QUANTILES[word]
        elif word in _STATISTICS:
            statistic = statistic or _STATISTICS[word]
        elif (word in _TIMES or word in _BYTES) and not time_unit:
            time_unit = word
        else:
            return None
    base = base or ("lat" if quantile else "")
    if base == "lat":
        base = f"lat_{quantile or 'mean'}"
    if not base or (quantile and not base.startswith("lat")):
        return None
    parts = [base, statistic]
    if base != "iops" and statistic != "cv":
        parts.append(time_unit)
        if not time_unit:
            return None
    elif time_unit:
        return None
    column = "_".join(filter(None, parts))
    return column if column in KNOWN or column in UNITS else None


def _plain(head: str) -> str:
    """Return `block_size` of `Block Size`, `read_percent` of `Read (%)`."""
    return re.sub(r"[\s\-()_]+", "_", head.lower().replace("%", " percent ")).strip("_")


def guess_columns(heads: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Return known column -> the table's column (several joined by +) for columns that have
    another name. `given` overrides a guess; an empty text leaves a column out.

    Raises FormatError for a given column that the table does not have.
    """
    lowered = [head.strip().strip('"').strip().lower() for head in heads]
    for column, text in given.items():
        if text:
            _places(column, text, lowered)
    found = dict(given)
    used = {part for text in given.values() for part in _parts(text, lowered)}
    free = [head for head in lowered if head and head not in used and not _is_known(head)]
    plain = {_plain(head): head for head in reversed(free)}
    for column, names in _ALIASES.items():
        match = next((plain[name] for name in (column, *names) if name in plain), None)
        if match is not None and column not in found and column not in lowered:
            found[column] = match
    if {"metric", "value"} <= {*lowered, *found}:
        found |= {key: key for key in _LONG if key in lowered and key not in found}
    else:
        taken = {known_column(key) for key in (*found, *lowered)}
        named = set(found.values())
        for head in free:
            figure = figure_column(head)
            if figure and known_column(figure) not in taken and head not in named:
                found[figure] = head
                taken.add(known_column(figure))
                named.add(head)
    return found


def _is_known(head: str) -> bool:
    return head in KNOWN or head in UNITS or head.startswith(LABEL)


def check_column_names(given: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the first unknown column that is given and a hint; None where all are known."""
    for column in given:
        if not (_is_known(column) or column in _LONG):
            known = sorted({*KNOWN, *UNITS, *_LONG})
            return column, did_you_mean(column, known, f"known: {', '.join(sorted(KNOWN))}")
    return None


def _parts(text: str, heads: Sequence[str]) -> list[str]:
    whole = text.strip().lower()
    return [whole] if whole in heads else [part.strip() for part in whole.split("+")]


def _places(column: str, text: str, heads: Sequence[str]) -> list[int]:
    """Find the columns of a mapping. Raises FormatError for one that the table does not have."""
    places = []
    for part in _parts(text, heads):
        if part not in heads:
            near = difflib.get_close_matches(part, [head for head in heads if head], n=1)
            raise FormatError.unreadable(
                f"line 1: there is no column {part!r}, which is to be {column!r}",
                *([f"the nearest column is {near[0]!r}"] if near else ()),
                f"columns: {', '.join(head for head in heads if head)[:300]}",
            )
        places.append(heads.index(part))
    return places


# --- the table with known columns ---------------------------------------------------------------

_Row = tuple[int, list[str]]


def with_known_columns(
    rows: Iterator[_Row], columns: Mapping[str, str], unread: dict[str, list[int]]
) -> Iterator[_Row]:
    """Rename the columns of a table, head first; of a long table make a row for each set of
    figures, and add metrics that are no figure to `unread`, with their lines. Raises FormatError
    with line and column."""
    head = next(rows, None)
    if head is None:
        return
    line, heads = head
    lowered = [cell.strip().strip('"').strip().lower() for cell in heads]
    mapped = {column: _places(column, text, lowered) for column, text in columns.items() if text}
    taken = {place for places in mapped.values() for place in places}
    hidden = {column for column, text in columns.items() if not text}
    kept = [
        place
        for place, name in enumerate(lowered)
        if place not in taken and name not in mapped and name not in hidden
    ]
    names = [*mapped, *(lowered[place] for place in kept)]
    renamed = _renamed(rows, len(heads), [*mapped.values(), *([place] for place in kept)])
    if {"metric", "value"} <= mapped.keys():
        yield from _wide(line, names, renamed, unread)
        return
    yield line, names
    yield from renamed


def _renamed(rows: Iterator[_Row], width: int, places: Sequence[Sequence[int]]) -> Iterator[_Row]:
    for line, cells in rows:
        if len(cells) < width:
            raise FormatError.unreadable(
                f"line {line} has {len(cells)} cells and the head {width} columns",
                f"it says: {','.join(cells)[:160]!r}",
            )
        yield (
            line,
            [" ".join(filter(None, (cells[at].strip() for at in group))) for group in places],
        )


def _wide(
    line: int, names: Sequence[str], rows: Iterator[_Row], unread: dict[str, list[int]]
) -> Iterator[_Row]:
    """Make a row for each set of figures: rows that are equal but for metric, value and unit, until
    one repeats a metric."""
    metric, value = names.index("metric"), names.index("value")
    unit = names.index("unit") if "unit" in names else None
    others = [at for at in range(len(names)) if at not in (metric, value, unit)]
    made: list[tuple[int, tuple[str, ...], dict[str, str]]] = []
    latest: dict[tuple[str, ...], dict[str, str]] = {}
    for number, cells in rows:
        stated = cells[unit] if unit is not None else ""
        figure = figure_column(cells[metric], stated)
        if figure is None:
            unread.setdefault(f"{cells[metric]} {stated}".strip()[:60], []).append(number)
            continue
        key = tuple(cells[at] for at in others)
        figures = latest.get(key)
        if figures is None or figure in figures:
            figures = latest[key] = {}
            made.append((number, key, figures))
        figures[figure] = cells[value]
    if not made:
        first = "; ".join(f"line {at[0]}: {text!r}" for text, at in list(unread.items())[:5])
        raise FormatError.unreadable(
            "the column 'metric' names no figure with its unit",
            f"expected such as iops, throughput in MB/s, p99 in ms; it has {first}"[:300],
        )
    columns = list(dict.fromkeys(key for _, _, figures in made for key in figures))
    yield line, [*(names[at] for at in others), *columns]
    for number, key, figures in made:
        yield number, [*key, *(figures.get(column, "") for column in columns)]
