"""What targets promise besides speed, in words."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.analysis.protection import Protection
from leadline.report.wording import NOT_SHOWN, listed, visible

_NAMES = 3


def copies_text(given: Protection) -> str:
    """`3 copies`, `EC 2+1`, or that it is not known."""
    if given.data is not None:
        return f"EC {given.data}+{given.coding}"
    if given.copies is None:
        return "not known"
    return "1 copy" if given.copies == 1 else f"{given.copies} copies"


def apart_text(given: Protection) -> str:
    """`3 copies by zone`."""
    domain = f" by {visible(given.domain)}" if given.known and given.domain else ""
    return f"{copies_text(given)}{domain}"


def borne_text(given: Protection) -> str:
    """`2 (I/O: 1)`: domains lost with no data lost, and with which I/O goes on."""
    if given.losses is None:
        return "not known"
    return f"{given.losses} (I/O: {given.writable})" if given.losses else "none"


def survives_text(given: Protection) -> str:
    """`2 zones (I/O goes on with 1)`."""
    if given.losses is None:
        return "not known"
    domain = visible(given.domain or "failure domain of unknown level")
    if given.losses == 0:
        return "nothing"
    lost = f"{given.losses} {domain}{'s' if given.losses > 1 else ''}"
    if given.writable == given.losses:
        return f"{lost}, I/O goes on"
    goes_on = f"goes on with {given.writable} lost" if given.writable else "stops"
    return f"{lost}, I/O {goes_on}"


def protection_text(given: Protection) -> str:
    """A clause without a subject: `keeps 3 copies apart by zone; no data is lost with ...`."""
    if not given.known:
        return "how it protects its data is not known"
    apart = f" apart by {visible(given.domain)}" if given.domain else ""
    return (
        f"it keeps {copies_text(given)}{apart}, survives the loss of {survives_text(given)}, and "
        f"takes {given.overhead:g} raw bytes for each byte stored"
    )


def access_text(given: Protection) -> str:
    if given.access is None:
        return "not known"
    return ", ".join(one.value for one in given.access) or NOT_SHOWN


def at_rest_text(given: Protection) -> str:
    return "yes" if given.at_rest else "not known"


def alike(given: Mapping[str, Protection]) -> str:
    """A sentence on targets that are ranked together and do not protect alike; empty where they
    do, or where there is only one."""
    if len(given) < 2:
        return ""
    groups: dict[str, list[str]] = {}
    for name, one in given.items():
        groups.setdefault(apart_text(one), []).append(visible(name))
    if set(groups) == {"not known"}:
        return "How the targets protect their data is not known to this archive."
    if len(groups) == 1:
        return ""
    told = "; ".join(f"{text}: {listed(names, _NAMES)}" for text, names in groups.items())
    return f"They do not protect alike, which the score leaves out: {told}."
