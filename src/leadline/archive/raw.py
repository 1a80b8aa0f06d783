"""An execution's raw output read back, whichever engine left it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from leadline.archive import layout
from leadline.formats.fio_json import parse_fio_json
from leadline.formats.fio_log import Window, parse_iops_log
from leadline.formats.output import EngineOutput, FormatError
from leadline.formats.rados_bench import read_rados_bench, read_rados_bench_windows
from leadline.formats.rbd_bench import read_rbd_bench, read_rbd_bench_windows
from leadline.metrics import Op
from leadline.regular_file import read_content


def read_output(engine: str, folder: Path) -> EngineOutput:
    """What the engine of that name left in `folder`. Raises FormatError."""
    if engine == "rados bench":
        return read_rados_bench(folder)
    if engine == "rbd bench":
        return read_rbd_bench(folder)
    try:
        content = read_content(folder / layout.FIO_OUTPUT)
    except FileNotFoundError as error:
        raise FormatError("empty-result", "fio wrote no output file") from error
    except OSError as error:
        raise FormatError(
            "unreadable-result", f"fio's output cannot be read: {error.strerror}"
        ) from error
    return parse_fio_json(content)


def read_windows(engine: str, folder: Path) -> Mapping[Op, tuple[Window, ...]]:
    """IOPS per second and operation, as far as the engine tells them; empty otherwise.

    Raises FormatError with the line of a log that is not understood.
    """
    if engine == "rados bench":
        return read_rados_bench_windows(folder)
    if engine == "rbd bench":
        return read_rbd_bench_windows(folder)
    series: dict[Op, tuple[Window, ...]] = {}
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return {}
    for name in sorted(names):
        if not name.endswith(".log") or "_iops" not in name:
            continue
        path = folder / name
        try:
            content = read_content(path)
        except OSError as error:
            raise FormatError(
                "unreadable-result", f"fio's log {name} cannot be read: {error.strerror}"
            ) from error
        series.update(parse_iops_log(content.decode("utf-8", "replace")))
    return series
