"""What watches of a trial have in common, and several of them as one."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import orjson

from leadline.errors import LeadlineError

# A file of JSON lines that a watch writes while a trial goes on. Nothing here raises: what cannot
# be written is told by the trial's own files, which lie beside.


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


Line = Mapping[str, Any]


class Watch(ABC):
    """Records in a trial's folder from `start` to `stop`; neither raises."""

    @abstractmethod
    def start(self) -> None:
        """Begin, without waiting for what is asked first. To be called once."""

    @abstractmethod
    def stop(self) -> None:
        """Ask a last time and end. May be called twice, and without `start`."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class AskingWatch(Watch):
    """Asks for samples at `start`, at `stop`, and every `period_s` between, by a thread.

    Nothing that goes wrong is raised: it is a line. `stop` returns within `patience_s`; after it
    nothing more is written. What is asked must be the watch's own connection: commands of others
    would be waited for.
    """

    def __init__(self, path: Path, *, period_s: float, patience_s: float) -> None:
        self._lines = Lines(path)
        self._period_s = period_s
        self._patience_s = patience_s
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    @abstractmethod
    def _sample(self, *, end: bool) -> Line | Sequence[Line] | None:
        """One sample, the first and the last of them with `end`: a line or several of one moment;
        None where there is nothing to be kept. May raise anything."""

    def _ended(self) -> None:
        """Let go of what the samples needed, behind the last one. May raise nothing."""

    def start(self) -> None:
        if not self._lines.open():
            return  # the trial cannot write its own files either, and says so
        # A daemon, so that a command that never comes back does not keep the program alive.
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is None or self._ending.is_set():
            return
        asked = self._lines.stamp()
        self._ending.set()
        self._thread.join(self._patience_s)
        if self._thread.is_alive():
            reason = f"no answer within {self._patience_s:g} s of the end of the watch"
            self._lines.write({**asked, "error": reason})
        self._lines.close()

    def _run(self) -> None:
        due = time.monotonic()
        first = True
        while True:
            last = self._ending.is_set()
            self._keep(end=first or last)
            if last:
                self._ended()
                return
            first = False
            # On the beat of the clock, leaving out beats that a slow answer passed.
            due = max(due + self._period_s, time.monotonic())
            self._ending.wait(due - time.monotonic())

    def _keep(self, *, end: bool) -> None:
        stamp = self._lines.stamp()
        line: Line | Sequence[Line] | None
        try:
            line = self._sample(end=end)
        # Whatever it is, it must not reach the trial; readers take it for a missed sample.
        except Exception as error:
            line = {"error": error.fact if isinstance(error, LeadlineError) else repr(error)}
        for item in (line,) if isinstance(line, Mapping) else line or ():
            self._lines.write({**stamp, **item})


class Watches:
    """Begun in their order, ended the other way round."""

    def __init__(self, *watches: Watch) -> None:
        self._watches = watches
        for watch in watches:
            watch.start()

    def stop(self) -> None:
        for watch in reversed(self._watches):
            watch.stop()


# Files of the kernel's own file systems (tracefs, fusectl), mounted for everybody or not.
#  Where nobody has mounted one, it is mounted in a mount namespace of a short child only: nothing
# changes for the system, and an open file stays readable when the namespace is gone.

# A mount and an open take milliseconds; a machine that cannot do that must not hold a trial up.
_PATIENCE_S = 5.0
# Tells that it has mounted, and stays until its input ends.
_SCRIPT = 'mount -t "$1" leadline "$2" && echo mounted && exec cat'


def open_kernel_file(filesystem: str, mount_point: Path, name: str) -> int:
    """A descriptor of `mount_point/name` for `read_kernel_file`. Raises OSError."""
    try:
        return os.open(mount_point / name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        # An empty folder: nobody has mounted it. One that holds something lacks the file.
        if not mount_point.is_dir() or any(os.scandir(mount_point)):
            raise
    return _open_apart(filesystem, mount_point, name)


def _open_apart(filesystem: str, mount_point: Path, name: str) -> int:
    """As above, mounted where only this process can see it."""
    command = ("unshare", "--mount", "--propagation", "private", "sh", "-c", _SCRIPT, "sh")
    child = subprocess.Popen(
        (*command, filesystem, str(mount_point)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        if child.stdout.readline() != b"mounted\n":
            said = child.communicate(timeout=_PATIENCE_S)[1].decode("utf-8", "replace").strip()
            raise PermissionError(1, f"{filesystem} cannot be mounted: {said or 'no reason told'}")
        seen = Path(f"/proc/{child.pid}/root") / mount_point.relative_to("/")
        return os.open(seen / name, os.O_RDONLY | os.O_CLOEXEC)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(110, f"{filesystem} is not mounted in time") from error
    finally:
        child.stdin.close()
        child.kill()
        child.wait(_PATIENCE_S)
        child.stdout.close()
        if child.stderr:
            child.stderr.close()


def read_kernel_file(handle: int) -> bytes:
    """The whole of a small file as it is now. Raises OSError."""
    # Not all of them can be sought, so that each reading opens it anew.
    again = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(again, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(again)
