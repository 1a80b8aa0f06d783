"""Digests of all regular files of the file system at a folder.

    python -I -S file_digests.py FOLDER

prints a JSON line for each file, in the order of the paths. It is a separate program, so that a
file system that hangs blocks only a process that can be abandoned.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

READ_BYTES = 1 << 20


def files_below(folder: Path) -> Iterator[Path]:
    """Regular files in the order of their paths, without those of other file systems. Raises
    OSError for a folder that cannot be listed."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            if not os.path.ismount(entry.path):
                yield from files_below(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def digest_of(path: Path) -> tuple[int, str]:
    """Bytes of a file, and their BLAKE2b in hexadecimal. Raises OSError."""
    digest, size = hashlib.blake2b(digest_size=32), 0
    buffer = memoryview(bytearray(READ_BYTES))
    with path.open("rb", buffering=0) as stream:
        while count := stream.readinto(buffer):
            digest.update(buffer[:count])
            size += count
    return size, digest.hexdigest()


def main(arguments: Sequence[str]) -> int:
    (folder,) = arguments
    reading = Path(folder)
    try:
        for path in files_below(Path(folder)):
            reading = path
            size, digest = digest_of(path)
            line = {"path": str(path.relative_to(folder)), "bytes": size, "blake2b": digest}
            sys.stdout.write(json.dumps(line) + "\n")
    except OSError as error:
        # The error of a failed read has no file name.
        sys.stderr.write(f"{error.filename or reading} cannot be read: {error.strerror}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
