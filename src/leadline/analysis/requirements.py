"""What a target must fulfil before its speed counts: `survive=zone,access=rwx,encrypted`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from leadline import errors
from leadline.analysis.protection import LEVELS, Protection
from leadline.analysis.use_cases import Access
from leadline.errors import LeadlineError

_KINDS = ("survive", "access", "encrypted")
SURVIVE = ("osd", "host", "rack", "zone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One of `survive=LEVEL`, `access=MODE` and `encrypted`, `value` empty."""

    kind: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.kind}={self.value}" if self.value else self.kind

    def unmet(self, given: Protection) -> str:
        """Why the target does not fulfil it; empty where it does. What is not known is not met."""
        if self.kind == "survive":
            return _not_surviving(given, self.value)
        if self.kind == "access":
            if given.access is None:
                return "how it can be mounted is not known"
            if Access(self.value) in given.access:
                return ""
            one = "it cannot be mounted at all" if not given.access else "one node mounts it"
            return f"{one}; {self.value} needs another kind of storage"
        if given.at_rest:
            return ""
        # A cluster knows of the keys that its monitors keep; an operator keeps them elsewhere.
        return "whether it is encrypted at rest is not known"


def _not_surviving(given: Protection, level: str) -> str:
    survives = given.survives(level)
    if survives:
        return ""
    if not given.known:
        return "how it protects its data is not known"
    if given.losses == 0:
        return "it keeps no second copy"
    if survives is None:
        domain = given.domain or "nothing that the inventory tells"
        return f"its copies are apart by {domain}, of which nobody knows how it compares to {level}"
    return f"its parts are apart by {given.domain} only: two may share one {level}"


def parse_requirements(texts: Sequence[str]) -> tuple[Requirement, ...]:
    """Of `--require`, each a list with commas. Raises LeadlineError(`usage`) with the nearest."""
    found = [_parsed(part.strip()) for text in texts for part in text.split(",") if part.strip()]
    return tuple(dict.fromkeys(found))


def _parsed(text: str) -> Requirement:
    kind, _, value = (part.strip().lower() for part in text.partition("="))
    if kind not in _KINDS:
        raise _unknown(text, "a requirement", kind, _KINDS)
    known = {
        "survive": (*SURVIVE, *(one for one in LEVELS if one not in SURVIVE)),
        "access": tuple(one.value for one in Access),
        "encrypted": ("",),
    }[kind]
    if value not in known:
        shown = SURVIVE if kind == "survive" else known
        if kind == "encrypted":
            raise LeadlineError(errors.USAGE, "'encrypted' takes no value", hint="write encrypted")
        raise _unknown(text, kind, value, shown)
    return Requirement(kind=kind, value=value)


def _unknown(text: str, what: str, word: str, known: Sequence[str]) -> LeadlineError:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return LeadlineError(
        errors.USAGE,
        f"the requirement {text!r} is not understood",
        context=[
            f"{what}s: {', '.join(known)}"
            if what == "requirement"
            else f"{what}: {', '.join(known)}",
            "forms: survive=osd|host|rack|zone, access=rwo|rwx, encrypted",
        ],
        hint=f"did you mean {near[0]!r}?" if near else "`leadline recommend --help`",
    )
