"""The base of all watches, which record samples in a trial's folder while the trial runs."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import orjson

from leadline.environment import child_environment
from leadline.errors import LeadlineError


class Lines:
    """A file of JSON lines; several threads may write. Nothing raises: the trial reports a folder
    that cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = threading.Lock()
        self._stream: BinaryIO | None = None
        self._began = 0.0

    def open(self) -> bool:
        """Open the file and start its clock; return whether it can be written."""
        self._began = time.monotonic()
        try:
            self._stream = self._path.open("ab")
        except OSError:
            return False
        return True

    def stamp(self, ago_s: float = 0.0) -> Mapping[str, Any]:
        """Return the first fields of a line about now, or about `ago_s` seconds before."""
        at = datetime.now(UTC) - timedelta(seconds=ago_s)
        return {
            "at": at.isoformat(timespec="milliseconds"),
            "elapsed_s": round(time.monotonic() - self._began - ago_s, 3),
        }

    def write(self, line: Mapping[str, Any]) -> bool:
        """Write a line; return whether it is in the file. After `close` nothing is written."""
        with self._writing:
            if self._stream is None:
                return False
            try:
                self._stream.write(self.encode(line))
                self._stream.flush()
            except (OSError, TypeError):
                return False
        return True

    def encode(self, line: Mapping[str, Any]) -> bytes:
        return orjson.dumps(line) + b"\n"

    def close(self) -> None:
        """Close the file before the folder is sealed."""
        with self._writing:
            stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(OSError):  # of a full disk
                stream.close()


Line = Mapping[str, Any]


class Watch(ABC):
    """Records samples in a trial's folder from `start` to `stop`; neither raises."""

    @abstractmethod
    def start(self) -> None:
        """Start without waiting for the first sample. Called once."""

    @abstractmethod
    def stop(self) -> None:
        """Take the last sample and end. May be called twice, and without `start`."""

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


class ThreadWatch(Watch):
    """Writes lines to a file from threads.

    `stop` returns within `patience_s`; after it nothing more is written.
    """

    def __init__(self, path: Path, *, period_s: float, patience_s: float) -> None:
        self._lines = Lines(path)
        self._period_s = period_s
        self._patience_s = patience_s
        self._ending = threading.Event()
        self._threads: list[tuple[Line, threading.Thread]] = []

    @abstractmethod
    def _tasks(self) -> Sequence[tuple[Line, Callable[[], None]]]:
        """Return what each thread runs, with fields that identify it in an error line. A task ends
        soon after `_ending` is set, and raises nothing."""

    def start(self) -> None:
        if not self._lines.open():
            return  # the trial cannot write its files either, and reports it
        for fields, task in self._tasks():
            # A daemon: a command that never returns must not keep the program alive.
            thread = threading.Thread(target=task, name=type(self).__name__, daemon=True)
            self._threads.append((fields, thread))
            thread.start()

    def stop(self) -> None:
        if not self._threads or self._ending.is_set():
            return
        stamp = self._lines.stamp()
        self._ending.set()
        deadline = time.monotonic() + self._patience_s
        for fields, thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                reason = f"no answer within {self._patience_s:g} s of the end of the watch"
                self._lines.write({**stamp, **fields, "error": reason})
        self._lines.close()


class SamplingWatch(ThreadWatch):
    """Takes samples at `start`, at `stop`, and every `period_s` between.

    A failure is a line. A sample needs its own connection: it would wait for other commands.
    """

    @abstractmethod
    def _sample(self, *, end: bool) -> Line | Sequence[Line] | None:
        """Return one sample as a line or several, or None; `end` marks the first and the last. May
        raise anything."""

    def _release(self) -> None:
        """Release what the samples needed, after the last one. Must not raise."""

    def _tasks(self) -> Sequence[tuple[Line, Callable[[], None]]]:
        return [({}, self._run)]

    def _run(self) -> None:
        first = True
        for last in beats(self._period_s, self._ending):
            self._keep(end=first or last)
            first = False
        self._release()

    def _keep(self, *, end: bool) -> None:
        stamp = self._lines.stamp()
        found: Line | Sequence[Line] | None
        try:
            found = self._sample(end=end)
        # No failure may reach the trial; readers see a missed sample.
        except Exception as error:
            found = {"error": describe_error(error)}
        for line in (found,) if isinstance(found, Mapping) else found or ():
            self._lines.write({**stamp, **line})


def beats(period_s: float, ending: threading.Event) -> Iterator[bool]:
    """Yield False now and every `period_s`, and True once after `ending` is set. Beats that a slow
    answer missed are skipped."""
    due = time.monotonic()
    while not ending.is_set():
        yield False
        due = max(due + period_s, time.monotonic())
        ending.wait(due - time.monotonic())
    yield True


def describe_error(error: Exception) -> str:
    """Return the text of a failure for a line."""
    return error.fact if isinstance(error, LeadlineError) else repr(error)


class Watches:
    """Several watches, started in order and stopped in reverse order."""

    def __init__(self, *watches: Watch) -> None:
        self._watches = watches
        for watch in watches:
            watch.start()

    def stop(self) -> None:
        for watch in reversed(self._watches):
            watch.stop()


# A mount and an open take milliseconds; a slow machine must not delay a trial.
_PATIENCE_S = 5.0
# Reports the mount, and stays until its input ends.
_SCRIPT = 'mount -t "$1" leadline "$2" && echo mounted && exec cat'


def open_kernel_file(filesystem: str, mount_point: Path, name: str) -> int:
    """Open a file of a kernel file system (tracefs, fusectl) for `read_kernel_file`. Raises
    OSError.

    A file system that is not mounted is mounted in the mount namespace of a short-lived child only:
    the system does not change, and the open file stays readable.
    """
    try:
        return os.open(mount_point / name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        # An empty folder is not mounted. A folder with content lacks the file.
        if not mount_point.is_dir() or any(os.scandir(mount_point)):
            raise
    return _open_in_namespace(filesystem, mount_point, name)


def _open_in_namespace(filesystem: str, mount_point: Path, name: str) -> int:
    """Open a file of a file system mounted in a child's mount namespace."""
    command = ("unshare", "--mount", "--propagation", "private", "sh", "-c", _SCRIPT, "sh")
    child = subprocess.Popen(
        (*command, filesystem, str(mount_point)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=child_environment(),
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        if child.stdout.readline() != b"mounted\n":
            reason = child.communicate(timeout=_PATIENCE_S)[1].decode("utf-8", "replace").strip()
            raise PermissionError(1, f"{filesystem} cannot be mounted: {reason or 'no reason'}")
        root = Path(f"/proc/{child.pid}/root") / mount_point.relative_to("/")
        return os.open(root / name, os.O_RDONLY | os.O_CLOEXEC)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(110, f"{filesystem} is not mounted in time") from error
    finally:
        child.stdin.close()
        child.kill()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_PATIENCE_S)
        child.stdout.close()
        if child.stderr:
            child.stderr.close()


def read_kernel_file(handle: int) -> bytes:
    """Return the current content of a small file. Raises OSError."""
    # Some of these files cannot seek, so each read opens the file again.
    again = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(again, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(again)
