"""A file of JSON lines that a watch writes while a trial goes on. Nothing here raises: what cannot
be written is told by the trial's own files, which lie beside."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import orjson


class Lines:
    """Whole lines, from `open` to `close`; several threads may write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = threading.Lock()
        self._stream: BinaryIO | None = None
        self._began = 0.0

    def open(self) -> bool:
        """Whether the file can be written; the time of its lines begins now."""
        self._began = time.monotonic()
        try:
            self._stream = self._path.open("ab")
        except OSError:
            return False
        return True

    def stamp(self) -> Mapping[str, Any]:
        """What a line of this moment begins with."""
        return {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "elapsed_s": round(time.monotonic() - self._began, 3),
        }

    def write(self, line: Mapping[str, Any]) -> bool:
        """Whether the line is in the file: a whole one, or nothing behind `close`."""
        with self._writing:
            if self._stream is None:
                return False
            try:
                self._stream.write(orjson.dumps(line) + b"\n")
                self._stream.flush()
            except (OSError, TypeError):
                return False
        return True

    def close(self) -> None:
        """The folder is sealed next: what comes late finds no file."""
        with self._writing:
            stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(OSError):  # of a full disk
                stream.close()
