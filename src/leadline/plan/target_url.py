"""Targets are written as URLs: `dir:/path`, `device:/dev/x`."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum


class TargetKind(StrEnum):
    """Kinds of target that this version can drive."""

    DIR = "dir"
    DEVICE = "device"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetUrl:
    kind: TargetKind
    location: str

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.location}"


def parse_target_url(url: str) -> TargetUrl:
    """The parts of a target URL. Raises ValueError with a sentence for the user."""
    scheme, colon, location = url.partition(":")
    known = [kind.value for kind in TargetKind]
    if not colon:
        guess = "device:" if url.startswith("/dev/") else "dir:"
        raise ValueError(f"{url!r} is not a target; did you mean {guess + url!r}?")
    if scheme not in known:
        near = difflib.get_close_matches(scheme, known, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown kind of target {scheme!r} (known: {', '.join(known)}){meant}")
    if not location.startswith("/"):
        raise ValueError(f"{url!r} needs an absolute path after {scheme!r}:")
    if "\0" in location or "\n" in location:
        raise ValueError("a path cannot hold a NUL or a line break")
    try:
        location.encode()
    except UnicodeEncodeError as error:
        raise ValueError("a path that is not UTF-8 cannot be written in an archive") from error
    if "?" in location and TargetKind(scheme) is TargetKind.DEVICE:
        raise ValueError(f"{scheme!r} targets have no options")
    return TargetUrl(kind=TargetKind(scheme), location=location)
