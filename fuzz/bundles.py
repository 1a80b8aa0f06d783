"""Several files as one input of a fuzzer, in a form that survives mutation.

Each file stands behind a line `-- NAME --`. What stands before the first such line, which is all
of most inputs, is a file called `input`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

ONLY = "input"
_HEADER = re.compile(rb"^-- ([^\n]{1,200}?) --\n", re.MULTILINE)


def unpack(data: bytes) -> dict[str, bytes]:
    """Contents by name, at least one; of two files of one name the last counts."""
    headers = list(_HEADER.finditer(data))
    files: dict[str, bytes] = {}
    if not headers or headers[0].start():
        files[ONLY] = data[: headers[0].start()] if headers else data
    ends = [header.start() for header in headers[1:]] + [len(data)]
    for header, end in zip(headers, ends, strict=True):
        files[header[1].decode("utf-8", "replace")] = data[header.end() : end]
    return files


def pack(files: Mapping[str, bytes]) -> bytes:
    """The input that `unpack` makes `files` of, as long as every file but the last ends a line."""
    return b"".join(b"-- %s --\n%s" % (name.encode(), content) for name, content in files.items())
