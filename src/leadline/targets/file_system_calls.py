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
import re
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_LONGEST_MARK = 4096
# What no mark is and no part of one.
_NO_MARK = b"\n"


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
    """Write the file `mark` into a folder, durably: data may come only after it. Raises OSError if
    it exists, and if another user has exchanged the folder meanwhile."""
    handle = os.open(path, _FOLDER)
    try:
        file = _new_file(handle, mark)
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            stream.write(content)
            folder = os.fstat(handle)
            # Some file systems map users: a file of this user has the right owner there, too.
            if os.fstat(file).st_uid != folder.st_uid:
                raise OSError(errno.ESTALE, "another user has exchanged the folder", path)
            stream.flush()
            _sync(file)
        _sync(handle)
        _sync_parent(path)
    finally:
        # This process lives on, and would keep the file system in use.
        os.close(handle)
    return folder.st_dev, folder.st_ino


def _new_file(folder: int, name: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.open(name, flags, 0o644, dir_fd=folder)


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
    path: str, mark: str, content: str, generated: Sequence[str], names: Sequence[str]
) -> Mapping[str, Any]:
    """Remove a folder whose file `mark` has this content, with the files in `names` and those whose
    name begins and ends as `generated` says, which may be a folder of a benchmark program.

    The folder is opened once, and all else is done by its descriptor: a path that is exchanged
    meanwhile leads nowhere. A folder without the whole mark goes only where nothing else is in it.
    Return what prevents the removal: `kept` as a reason, the names of `foreign` files, or the
    `errors` of the system.
    """
    above, name = os.path.split(path)
    try:
        # It need not be readable.
        parent = os.open(above, os.O_PATH | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    try:
        try:
            folder = os.open(name, _FOLDER, dir_fd=parent)
        except FileNotFoundError:
            with suppress(OSError):
                _sync_parent(path)
            return {}
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                return {"kept": "is a link or a file, and no folder of Leadline's"}
            raise
        try:
            answer = _empty(folder, mark, content, generated, names)
            if answer:
                return answer
            there = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if not os.path.samestat(there, os.fstat(folder)):
                return {"kept": "was exchanged while it was removed"}
            try:
                os.rmdir(name, dir_fd=parent)
            except OSError:
                # With the mark the next removal can finish this one.
                with suppress(OSError), os.fdopen(_new_file(folder, mark), "w") as stream:
                    stream.write(f"{content}\n")
                raise
            with suppress(OSError):
                _sync_parent(path)
            return {}
        finally:
            os.close(folder)
    finally:
        os.close(parent)


def _empty(
    folder: int, mark: str, content: str, generated: Sequence[str], names: Sequence[str]
) -> Mapping[str, Any]:
    """Remove what Leadline made in an open folder, the mark last. Return what stays, as `remove`;
    nothing if the folder is empty."""
    if _has_mounts(folder):
        return {"kept": "has something mounted in it"}
    written, whole = _read_mark(folder, mark), content.encode()
    inside = sorted(set(os.listdir(folder)) - {mark})
    if written is None and inside:
        return {"kept": "carries no mark of this run, and is not empty"}
    if written is not None and written != whole:
        if not whole.startswith(written):
            return {"kept": "carries the mark of another owner"}
        # A power cut has torn the mark, which is written before all else.
        if inside:
            return {"kept": "carries only a part of this run's mark, and is not empty"}
    begin, end = generated

    def is_generated(name: str) -> bool:
        return name.startswith(begin) and name.endswith(end) and len(name) >= len(begin + end)

    errors: list[str] = []
    for name in inside:
        if is_generated(name) or name in names:
            _remove_entry(folder, name, errors, tree=is_generated(name))
    left = sorted(set(os.listdir(folder)) - {mark})
    foreign = [name for name in left if not (is_generated(name) or name in names)]
    if left and not foreign and not errors:
        # By a program of a killed session, which is stuck in the kernel.
        errors.append(f"{left[0]}: it was written again while it was removed")
    if not left and written is not None:
        _remove_entry(folder, mark, errors, tree=False)
    stays = {"foreign": foreign, "errors": errors}
    return {key: value for key, value in stays.items() if value}


def _has_mounts(folder: int) -> bool:
    """Return whether something is mounted below an open folder: what is removed there would be its
    content."""
    below = str(Path(f"/proc/self/fd/{folder}").readlink()) + "/"
    rows = Path("/proc/self/mountinfo").read_bytes().splitlines()
    points = [row.split(b" ")[4] for row in rows]
    # Spaces and the like are written as octal numbers.
    plain = (re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), point) for point in points)
    return any(os.fsdecode(point).startswith(below) for point in plain)


def _read_mark(folder: int, mark: str) -> bytes | None:
    """Return what is in the file `mark` of an open folder; None without such a file. Whatever is no
    file of the folder's owner is another's mark."""
    try:
        handle = os.open(mark, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return _NO_MARK
        raise
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.fstat(folder).st_uid:
            return _NO_MARK
        # A power cut leaves zeros where the file was to be written.
        return os.read(handle, _LONGEST_MARK).rstrip(b"\n\0")
    finally:
        os.close(handle)


def _remove_entry(folder: int, name: str, errors: list[str], *, tree: bool) -> None:
    """Remove a file of an open folder, or a whole `tree`; what fails is added to `errors`."""
    try:
        if tree and stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            from shutil import rmtree  # takes long to import

            def note(function: object, path: str, problem: Any) -> None:
                if not isinstance(problem[1], FileNotFoundError):
                    errors.append(f"{name}: {problem[1].strerror or problem[1]}")

            rmtree(name, onerror=note, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        errors.append(f"{name}: {error.strerror}")


def _sync(handle: int) -> None:
    """Make an open file, or the names in an open folder, durable; not every file system of FUSE can
    do that."""
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise


def _sync_parent(path: str) -> None:
    try:
        parent = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        return  # this user may write there, and not read
    try:
        _sync(parent)
    finally:
        os.close(parent)


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
