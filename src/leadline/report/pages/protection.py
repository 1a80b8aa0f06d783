"""How a target protects its data, in words."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.analysis.requirements import Protection
from leadline.report.words import NOT_SHOWN, listed

_PROTECTION_NAMES = 3


def copies_text(given: Protection) -> str:
    """`3 copies`, `EC 2+1`, or that it is not known."""
    if given.data_chunks is not None:
        return f"EC {given.data_chunks}+{given.coding_chunks}"
    if given.copies is None:
        return "unknown"
    return "1 copy" if given.copies == 1 else f"{given.copies} copies"


def apart_text(given: Protection) -> str:
    """`3 copies by zone`."""
    domain = f" by {given.failure_domain}" if given.known and given.failure_domain else ""
    return f"{copies_text(given)}{domain}"


def borne_text(given: Protection) -> str:
    """`2 (I/O: 1)`: domains lost with no data lost, and with which I/O goes on."""
    if given.failures_survived is None:
        return "unknown"
    if not given.failures_survived:
        return "none"
    writable = "unknown" if given.failures_writable is None else given.failures_writable
    return f"{given.failures_survived} (I/O: {writable})"


def survives_text(given: Protection) -> str:
    """`2 zones (I/O goes on with 1)`."""
    if given.failures_survived is None:
        return "unknown"
    domain = given.failure_domain or "failure domain of unknown level"
    if given.failures_survived == 0:
        return "nothing"
    lost = f"{given.failures_survived} {domain}{'s' if given.failures_survived > 1 else ''}"
    if given.failures_writable is None:
        return lost
    if given.failures_writable == given.failures_survived:
        return f"{lost}, I/O goes on"
    goes_on = f"goes on with {given.failures_writable} lost" if given.failures_writable else "stops"
    return f"{lost}, I/O {goes_on}"


def protection_text(given: Protection) -> str:
    """A clause without a subject: `keeps 3 copies apart by zone; no data is lost with ...`."""
    if not given.known:
        return "how it protects its data is unknown"
    apart = f" apart by {given.failure_domain}" if given.failure_domain else ""
    return (
        f"it keeps {copies_text(given)}{apart}, survives the loss of {survives_text(given)}, and "
        f"takes {given.raw_per_stored:g} raw bytes for each byte stored"
    )


def access_text(given: Protection) -> str:
    if given.access is None:
        return "unknown"
    return ", ".join(given.access) or NOT_SHOWN


def at_rest_text(given: Protection) -> str:
    return {True: "yes", False: "no", None: "unknown"}[given.encrypted_at_rest]


def protection_differences(given: Mapping[str, Protection]) -> str:
    """Return a sentence where targets that are ranked together protect their data differently,
    else an empty string."""
    if len(given) < 2:
        return ""
    groups = list(dict.fromkeys(map(apart_text, given.values())))
    if groups == ["unknown"]:
        return "The archive does not record how the targets protect their data."
    if len(groups) == 1:
        return ""
    kinds = listed(groups, _PROTECTION_NAMES)
    return f"Protection differs and is not part of the score: {kinds}."


def usable_share(given: Protection) -> float | None:
    """Return the share of the raw capacity that holds data; None where unknown."""
    return 1 / given.raw_per_stored if given.raw_per_stored else None


def copy_boxes(given: Protection) -> tuple[int, int]:
    """Return (copies or data chunks, coding chunks); (0, 0) where unknown."""
    if given.data_chunks is not None:
        return given.data_chunks, given.coding_chunks or 0
    return given.copies or 0, 0
