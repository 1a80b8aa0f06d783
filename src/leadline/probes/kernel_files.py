"""Files of the kernel's own file systems (tracefs, fusectl), mounted for everybody or not.

Where nobody has mounted one, it is mounted in a mount namespace of a short child only: nothing
changes for the system, and an open file stays readable when the namespace is gone.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

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
