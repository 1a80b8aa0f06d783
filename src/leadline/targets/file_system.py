"""The file system of a target that this machine has mounted, reached within time bounds."""

from __future__ import annotations

import atexit
import errno
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leadline.environment import child_environment
from leadline.plan.footprint import DATA_FILE
from leadline.targets import file_system_calls

OWNER_FILE = ".leadline-owner"
# Of a call that reads; a busy file system answers within milliseconds.
ANSWER_S = 30.0
# Of a removal. The kernel frees the blocks of a large file while `unlink` waits.
REMOVE_S = 60.0
# Of a further call while an earlier one waits.
_AGAIN_S = 5.0
_ABANDONED_S = 1.0

_Process = subprocess.Popen[bytes]
# Processes that answered and wait for the next call, of any target: a start takes 40 ms.
_idle: list[_Process] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A folder and its file system, as this user may use them."""

    is_directory: bool
    device: int
    read_only: bool
    writable: bool
    free_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The allocated bytes of the files in a folder of Leadline's, by name."""

    files: Mapping[str, int]
    is_mount: bool


class FileSystem:
    """Calls the file system in child processes, which live as long as this one.

    A call without an answer raises TimeoutError, and its process is abandoned: the kernel does not
    end it. While that process waits, further calls fail after `_AGAIN_S`.
    """

    def __init__(self, *, answer_s: float = ANSWER_S, remove_s: float = REMOVE_S) -> None:
        self._answer_s = answer_s
        self._remove_s = remove_s
        self._waiting: _Process | None = None

    def inspect(self, path: Path) -> Volume:
        """Raises OSError."""
        return Volume(**self._call("inspect", self._answer_s, path=str(path.absolute())))

    def make(self, folder: Path, mark: str) -> tuple[int, int]:
        """Make a folder of Leadline's, with the mark of its owner, which is durable; return its
        device and inode. Raises OSError."""
        device, inode = self._call(
            "make",
            self._answer_s,
            path=str(folder.absolute()),
            mark=OWNER_FILE,
            content=f"{mark}\n",
        )
        return device, inode

    def look(self, folder: Path) -> Contents | None:
        """Return what is in a folder of Leadline's; None where it is gone. Raises OSError."""
        found = self._call("look", self._answer_s, path=str(folder.absolute()), mark=OWNER_FILE)
        if found is None:
            return None
        files = {name: size for name, size in found["files"].items() if name != OWNER_FILE}
        return Contents(files=files, is_mount=found["is_mount"])

    def remove(self, folder: Path, mark: str, names: Collection[str] = ()) -> tuple[str, ...]:
        """Remove a folder with this mark of its owner, its generated files and those in `names`.

        A folder with another mark stays, as does a file that Leadline did not make. Returns
        sentences about what failed.
        """
        prefix, suffix = DATA_FILE.split("{job}")
        try:
            found = self._call(
                "remove",
                self._remove_s,
                path=str(folder.absolute()),
                mark=OWNER_FILE,
                content=mark,
                generated=(prefix, suffix),
                names=sorted(names),
            )
        except OSError as error:
            return (f"{folder} could not be removed: {error.strerror or error}",)
        if "kept" in found:
            return (
                f"{folder} {found['kept']}; it was kept: look at it, and remove it if it is yours",
            )
        problems = [f"{folder}/{text}" for text in found.get("errors", ())[:5]]
        if "foreign" in found:
            listed = ", ".join(found["foreign"][:5])
            problems.append(f"{folder} holds files that Leadline did not make: {listed}")
        return (f"{problems[0]}; it was kept", *problems[1:]) if problems else ()

    def attribute(self, folder: Path, name: str) -> str:
        """Return an extended attribute of a folder, or of the nearest one above that has it; empty
        where none has it or there is no answer."""
        folder = folder.absolute()
        paths = [str(path) for path in (folder, *folder.parents)]
        with suppress(OSError):
            return str(self._call("attribute", self._answer_s, paths=paths, name=name))
        return ""

    def _call(self, call: str, bound_s: float, /, **arguments: object) -> Any:
        """Return the answer of a function of `file_system_calls`. Raises OSError."""
        if self._waiting is not None:
            try:
                self._waiting.wait(_AGAIN_S)
            except subprocess.TimeoutExpired:
                raise TimeoutError(
                    errno.ETIMEDOUT, "its file system still gives no answer"
                ) from None
            self._waiting = None
        request = json.dumps({"call": call, **arguments}).encode() + b"\n"
        child = _idle.pop() if _idle else _start()
        try:
            line = _ask(child, request, bound_s)
        except TimeoutError:
            child.kill()
            try:
                child.wait(_ABANDONED_S)
            except subprocess.TimeoutExpired:
                self._waiting = child
            _close(child)
            reason = f"its file system gives no answer within {bound_s:g} s"
            raise TimeoutError(errno.ETIMEDOUT, reason) from None
        if not line.endswith(b"\n"):
            _, err = child.communicate()
            lines = err.decode("utf-8", "replace").strip().splitlines()[-1:]
            fact = lines[0] if lines else f"exit status {child.returncode}"
            raise OSError(errno.EIO, f"a call to its file system failed: {fact}")
        _idle.append(child)
        answer = json.loads(line)
        if "errno" in answer:
            raise OSError(answer["errno"], answer["text"], arguments.get("path"))
        return answer["answer"]


def _start() -> _Process:
    return subprocess.Popen(
        (sys.executable, "-I", "-S", file_system_calls.__file__),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd="/",  # it must not keep a file system in use
        env=child_environment(),
        start_new_session=True,  # Ctrl-C on the terminal reaches Leadline alone
    )


def _ask(child: _Process, request: bytes, bound_s: float) -> bytes:
    """Return the line that answers a request, cut where the process has ended. Raises
    TimeoutError."""
    assert child.stdin is not None
    assert child.stdout is not None
    with suppress(BrokenPipeError):
        child.stdin.write(request)
    until = time.monotonic() + bound_s
    poll = select.poll()
    poll.register(child.stdout, select.POLLIN)
    line = b""
    while not line.endswith(b"\n"):
        if not poll.poll(1000 * max(0.0, until - time.monotonic())):
            raise TimeoutError
        piece = os.read(child.stdout.fileno(), 1 << 20)
        if not piece:
            break
        line += piece
    return line


def _close(child: _Process) -> None:
    for stream in (child.stdin, child.stdout, child.stderr):
        assert stream is not None
        stream.close()


def _end_idle() -> None:
    """A process ends with its standard input."""
    while _idle:
        child = _idle.pop()
        _close(child)
        child.wait()


atexit.register(_end_idle)
