"""Names and marks of what a run makes on its targets.

What makes something and what removes it use the same functions: a removal accepts no other name,
and no other mark on the thing itself.
"""

from __future__ import annotations

import re
import secrets

_TOKEN = re.compile(r"[0-9a-f]{16}")
# The name of an archive's folder: a run's id is a part of names of files.
_RUN = re.compile(r"[^\x00-\x1f\x7f/]{1,400}")


def new_token() -> str:
    """Return the token of something new, by which it is found again."""
    return secrets.token_hex(8)


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def is_run_id(text: str) -> bool:
    return _RUN.fullmatch(text) is not None


def own_name(run: str, token: str) -> str:
    """Return the name of a folder, an image, a namespace of objects or a prefix of their names."""
    return f"leadline-{run}-{token}"


def owner_mark(run: str, token: str) -> str:
    """Return the mark on the thing itself: in a folder's file, as a label or a property."""
    return f"{run} {token}"
