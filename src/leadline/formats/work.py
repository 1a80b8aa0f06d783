"""The work of a job: the options that change what I/O it does, in one spelling."""

from __future__ import annotations

from typing import Final

from leadline.formats.result import JobOptions
from leadline.units import parse_fio_size

# Options that change the work, with fio's defaults; empty: no default that can be named. Those of
# run time, logs, reports and names are left out, and so are paths: repeats use other files.
_DEFAULTS: Final = {
    "rw": "read",
    "bs": "4k",
    "bsrange": "",
    "bssplit": "",
    "bs_unaligned": "0",
    "blockalign": "",
    "rwmixread": "50",
    "percentage_random": "100",
    "rw_sequencer": "",
    "random_distribution": "random",
    "norandommap": "0",
    "iodepth": "1",
    "numjobs": "1",
    # Of tables; fio has none.
    "clients": "",
    "ioengine": "psync",
    "direct": "0",
    "iodepth_batch_submit": "1",
    "iodepth_batch_complete_min": "1",
    "iodepth_low": "",
    "hipri": "0",
    "sqthread_poll": "0",
    "fixedbufs": "0",
    "registerfiles": "0",
    "nowait": "0",
    "sync": "0",
    "fsync": "0",
    "fdatasync": "0",
    "end_fsync": "0",
    "fsync_on_close": "0",
    "sync_file_range": "",
    "write_barrier": "0",
    "atomic": "0",
    "overwrite": "0",
    "size": "100%",
    "filesize": "",
    "nrfiles": "1",
    "openfiles": "",
    "files": "",
    "file_service_type": "",
    "offset": "0",
    "offset_increment": "0",
    "fallocate": "",
    "pre_read": "0",
    "invalidate": "1",
    "zonemode": "none",
    "zonesize": "",
    "zonerange": "",
    "zoneskip": "",
    "max_open_zones": "0",
    "rate": "",
    "rate_iops": "",
    "rate_process": "linear",
    "thinktime": "0",
    "flow": "0",
    "latency_target": "0",
    "read_iolog": "",
    "verify": "",
    "do_verify": "1",
    "zero_buffers": "0",
    "refill_buffers": "0",
    "buffer_pattern": "",
    "buffer_compress_percentage": "0",
    "dedupe_percentage": "0",
}
WORK_OPTIONS: Final = tuple(_DEFAULTS)
# fio's other names of the same options.
_ALIASES: Final = {
    "readwrite": "rw",
    "blocksize": "bs",
    "blocksize_range": "bsrange",
    "blocksize_unaligned": "bs_unaligned",
    "ba": "blockalign",
    "iodepth_batch": "iodepth_batch_submit",
    "iodepth_batch_complete": "iodepth_batch_complete_min",
    "zonecapacity": "zone_capacity",
}
_SIZES: Final = frozenset({"bs", "size", "filesize", "offset", "offset_increment", "zonesize"})
_UNITS: Final = ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k"))
# Values of an option that fio does not use for such a job.
_OF_MIXED: Final = frozenset({"rwmixread"})


def work_options(options: JobOptions) -> dict[str, str]:
    """Return the options that change the work, by fio's names, in one spelling and order.

    Options that were not given have fio's default where `options` are whole; otherwise they are
    unknown and left out. `files` is `shared` where several processes use the same files, `own`
    where each has its own, and left out for one process.
    """
    given = {_ALIASES.get(key, key): text for key, text in options.raw.items()}
    if "buffered" in given and "direct" not in given:
        given["direct"] = "0" if options.flag("buffered") else "1"
    if "rwmixwrite" in given and "rwmixread" not in given and given["rwmixwrite"].isdecimal():
        given["rwmixread"] = str(100 - int(given["rwmixwrite"]))
    given.pop("files", None)
    if (options.numjobs or 1) > 1 and (options.whole or "filename" in given):
        given["files"] = "shared" if "filename" in given else "own"
    found = {}
    for key, default in _DEFAULTS.items():
        text = given.get(key, default if options.whole else "")
        if text and not (key in _OF_MIXED and not _mixed(given.get("rw", ""))):
            found[key] = _spelling(key, text)
    return found


def _mixed(pattern: str) -> bool:
    return pattern.split(":")[0] in ("rw", "readwrite", "randrw")


def _spelling(key: str, text: str) -> str:
    """Write one value one way: `4096`, `4k` and `4kb` are `4k`, `readwrite` is `rw`."""
    text = text.strip()
    if key == "rw":
        return text.replace("readwrite", "rw")
    if key not in _SIZES:
        return {"true": "1", "false": "0"}.get(text, text)
    parts = text.split(",")
    sizes = {_size(part) for part in parts if part}
    # `4k,4k` is 4k for reads and writes.
    return sizes.pop() if len(sizes) == 1 else ",".join(map(_size, parts))


def _size(text: str) -> str:
    try:
        size = parse_fio_size(text)
    except ValueError:
        return text
    for unit, letter in _UNITS:
        if size and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)
