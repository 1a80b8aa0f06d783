"""Texts that are kept in the repository, compared with what the program makes now."""

from __future__ import annotations

import math
import os
import re
from itertools import zip_longest
from pathlib import Path

# Sums in another order differ in the last digits of a double; `verify` takes the same tolerance.
TOLERANCE = 1e-9
# With a fraction or an exponent. A whole number is compared as text: it is counted, not computed.
_NUMBER = re.compile(r"\d+(?:\.\d+(?:[eE][-+]?\d+)?|[eE][-+]\d+)")


def differing_lines(kept: str, made: str) -> list[tuple[str, str]]:
    """Pair the lines that differ: numbers by more than the tolerance, other text at all."""
    pairs = zip_longest(kept.split("\n"), made.split("\n"), fillvalue="(no line)")
    return [pair for pair in pairs if not _same(*pair)]


def check_kept(path: Path, made: str) -> None:
    """Fail where a kept file is not `made`. UPDATE_GOLDEN=1 writes it first."""
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(made, "utf-8")
    differing = differing_lines(path.read_text("utf-8"), made)
    assert not differing, f"{path}: UPDATE_GOLDEN=1 rewrites it, if the new one is right"


def _same(kept: str, made: str) -> bool:
    if kept == made:
        return True
    numbers = zip(_NUMBER.findall(kept), _NUMBER.findall(made), strict=False)
    return _NUMBER.sub("0.0", kept) == _NUMBER.sub("0.0", made) and all(
        math.isclose(float(before), float(now), rel_tol=TOLERANCE) for before, now in numbers
    )
