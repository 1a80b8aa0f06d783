"""The files of a remote execution, unpacked only where every one of them is whole."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path

_DIGESTS = "digests.txt"
# Logs of thousands of jobs fit many times.
_MOST_BYTES = 512 << 20


class DamagedTransfer(Exception):
    """What arrived is not what was sent."""


def unpacked(packed: bytes) -> Mapping[str, bytes]:
    """The files of an archive by name, held against the digests in it. Raises DamagedTransfer."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            content = stream.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise DamagedTransfer(f"more than {_MOST_BYTES} bytes")
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            found = {one.name: archive.extractfile(one) for one in archive if one.isfile()}
            files = {name: one.read() for name, one in found.items() if one is not None}
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DamagedTransfer(str(error) or type(error).__name__) from error
    digests = files.pop(_DIGESTS, b"").decode("utf-8", "replace")
    lines = [line.split(maxsplit=1) for line in digests.splitlines()]
    told = {line[1]: line[0] for line in lines if len(line) == 2}
    if told.keys() != files.keys():
        raise DamagedTransfer("files and digests do not match")
    for name, content in files.items():
        if "/" in name or name.startswith("."):
            raise DamagedTransfer(f"a file has the name {name!r}")
        if hashlib.sha256(content).hexdigest() != told[name]:
            raise DamagedTransfer(f"{name} is not what was sent")
    return files


def kept(files: Mapping[str, bytes], folder: Path, prefix: str) -> None:
    """Write the files into a trial's folder; what is empty says nothing, and the pieces of the
    shell's own bookkeeping are no evidence."""
    for name, content in files.items():
        if name not in ("job.fio", "run.sh", "talk.txt"):
            (folder / f"{prefix}{name}").write_bytes(content)
