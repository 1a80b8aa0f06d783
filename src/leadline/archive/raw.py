"""An execution's raw output read back, whichever engine left it."""

from __future__ import annotations

from pathlib import Path

from leadline.archive import layout
from leadline.formats.fio_json import parse_fio_json
from leadline.formats.output import EngineOutput, FormatError
from leadline.formats.rados_bench import read_rados_bench
from leadline.formats.rbd_bench import read_rbd_bench


def read_output(engine: str, folder: Path) -> EngineOutput:
    """What the engine of that name left in `folder`. Raises FormatError."""
    if engine == "rados bench":
        return read_rados_bench(folder)
    if engine == "rbd bench":
        return read_rbd_bench(folder)
    try:
        content = (folder / layout.FIO_OUTPUT).read_bytes()
    except OSError as error:
        raise FormatError("empty-result", "fio wrote no output file") from error
    return parse_fio_json(content)
