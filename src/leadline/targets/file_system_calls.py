"""Calls to a file system that may not answer, in a process that can be abandoned.

    python -I -S file_system_calls.py < REQUESTS

Each line is a JSON object: `call` (a function below) and its arguments. The line that answers is
`{"answer": ...}`, or `{"errno", "text"}` after an OSError. It is a separate program with the
standard library alone: a FUSE mount or NFS whose server is gone blocks a process even against
SIGKILL.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any


def inspect(path: str) -> Mapping[str, Any]:
    """Return kind, rights and sizes of a folder's file system."""
    found, volume = Path(path).stat(), os.statvfs(path)
    return {
        "is_directory": stat.S_ISDIR(found.st_mode),
        "device": found.st_dev,
        "read_only": bool(volume.f_flag & os.ST_RDONLY),
        "writable": os.access(path, os.W_OK | os.X_OK),
        "free_bytes": volume.f_bavail * volume.f_frsize,
        "size_bytes": volume.f_blocks * volume.f_frsize,
    }


def make(path: str, mark: str, content: str) -> tuple[int, int]:
    """Make a folder with the file `mark`. Return its device and inode."""
    # The mode also limits what an inherited access list gives to others.
    Path(path).mkdir(mode=0o755)
    return mark_folder(path, mark, content)


def mark_folder(path: str, mark: str, content: str) -> tuple[int, int]:
    """Write the file `mark` into a folder. Raises OSError if it exists, and if another user has
    exchanged the folder meanwhile."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        file = os.open(mark, flags, 0o644, dir_fd=handle)
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            stream.write(content)
            folder = os.fstat(handle)
            # Some file systems map users: a file of this user has the right owner there, too.
            if os.fstat(file).st_uid != folder.st_uid:
                raise OSError(errno.ESTALE, "another user has exchanged the folder", path)
    finally:
        # This process lives on, and would keep the file system in use.
        os.close(handle)
    return folder.st_dev, folder.st_ino


def look(path: str, mark: str) -> Mapping[str, Any] | None:
    """Return the allocated bytes of the files in a folder; None where the folder lacks the file
    `mark`."""
    folder = Path(path)
    if not (folder / mark).is_file():
        return None
    files = {
        entry.name: entry.stat().st_blocks * 512 for entry in folder.iterdir() if entry.is_file()
    }
    return {"files": files, "is_mount": os.path.ismount(folder)}


def remove(
    path: str, mark: str, token: str, generated: Sequence[str], names: Sequence[str]
) -> Mapping[str, Any]:
    """Remove a folder with the file `mark`, the files in `names` and those whose name begins and
    ends as `generated` says, which may be a folder of a benchmark program. Return what prevents it:
    `kept` for the mark of another owner, the names of `foreign` files."""
    folder = Path(path)
    if not folder.is_dir() or folder.is_symlink():
        _keep_removed(folder)
        return {}
    if _is_of_another(folder, mark, token):
        return {"kept": True}
    prefix, suffix = generated
    known = {*names, mark}
    for entry in list(folder.iterdir()):
        own = entry.name.startswith(prefix) and entry.name.endswith(suffix)
        if own and entry.is_dir() and not entry.is_symlink():
            from shutil import rmtree  # takes long to import

            rmtree(entry)
        elif own or entry.name in known:
            entry.unlink()
    foreign = sorted(entry.name for entry in folder.iterdir())
    if not foreign:
        folder.rmdir()
        _keep_removed(folder)
    return {"foreign": foreign}


def _is_of_another(folder: Path, mark: str, token: str) -> bool:
    """Whether a folder carries another mark than the run's; a power cut may have torn the mark."""
    owner = folder / mark
    if not owner.is_file():
        return False
    content = owner.read_text("utf-8", "replace").rstrip("\n\0")
    run = folder.name.removeprefix("leadline-").removesuffix(f"-{token}")
    return not (content.endswith(token) or f"{run} {token}".startswith(content))


def _keep_removed(folder: Path) -> None:
    """Make it durable that a folder is gone, before the journal says so. Not every file system of
    FUSE can sync a folder."""
    with suppress(OSError):
        handle = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def attribute(paths: Sequence[str], name: str) -> str:
    """Return an extended attribute of the first path that has it; empty if none has."""
    for path in paths:
        with suppress(OSError):
            return os.getxattr(path, name).decode("utf-8", "replace")
    return ""


CALLS: Mapping[str, Callable[..., Any]] = {
    call.__name__: call for call in (inspect, make, look, remove, attribute)
}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        call = CALLS[request.pop("call")]
        try:
            answer: Mapping[str, Any] = {"answer": call(**request)}
        except OSError as error:
            answer = {"errno": error.errno, "text": error.strerror or str(error)}
        # ASCII: a name may hold bytes that are no UTF-8.
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
