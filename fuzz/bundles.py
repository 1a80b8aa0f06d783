"""Several files as one input of a fuzzer, in a form that survives mutation.

Each file follows a line `-- NAME --`. The text before the first such line, which is all of most
inputs, is a file called `input`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

ONLY = "input"
_HEADER = re.compile(rb"^-- ([^\n]{1,200}?) --\n", re.MULTILINE)


def unpack(data: bytes) -> dict[str, bytes]:
    """Contents by name, at least one; of two files of one name the last counts."""
    parts = _HEADER.split(data)
    files = {ONLY: parts[0]} if parts[0] or len(parts) == 1 else {}
    for name, content in zip(parts[1::2], parts[2::2], strict=True):
        files[name.decode("utf-8", "replace")] = content
    return files


def pack(files: Mapping[str, bytes]) -> bytes:
    """The input that `unpack` makes `files` of, as long as every file but the last ends a line."""
    return b"".join(b"-- %s --\n%s" % (name.encode(), content) for name, content in files.items())
