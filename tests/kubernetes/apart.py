"""Programs in namespaces of their own that hold nothing of what is mounted next to them."""

from __future__ import annotations

# A namespace begins with copies of all mounts. While those of another test's lab or run are held
# there, no user can remove what they stand on: a pool of zfs-fuse is busy.
_LET_GO = r"""
while read -r _ _ _ _ at rest; do
    case "$at $rest" in
    /run/leadline-* | */ll-labs-* | */pytest-of-*' - fuse'*) printf '%s\n' "$at" ;;
    esac
done </proc/self/mountinfo | sort -r | while read -r at; do umount -l "$at"; done
exec "$@"
"""


def apart(*flags: str) -> list[str]:
    """What stands before a command that runs in the namespaces of `flags` (unshare's), among which
    is `--mount`."""
    return ["unshare", *flags, "sh", "-c", _LET_GO, "sh"]
