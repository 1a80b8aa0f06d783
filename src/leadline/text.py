"""Escape control characters in untrusted text; write counts and lists in words."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable

# Directional formatting characters could make a name read as another one.
_HIDDEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
# Letters and marks without a shape, with which two names look the same, and code points that no
# text may hold (XML cannot).
_SHAPELESS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufdd0-\ufdef\ufe00-\ufe0f\uffa0"
    "\ufff0-\ufff8\ufffe\uffff\U000e0000-\U000e0fff]"
)


def is_hidden(character: str) -> bool:
    """Whether a character controls a terminal or the direction of text, or has no shape."""
    return unicodedata.category(character) in _HIDDEN or _SHAPELESS.fullmatch(character) is not None


def visible(text: str) -> str:
    """Spell out hidden characters (`\\x1b`, `\\u202e`) and leave the rest as it is.

    Only renderers call it: of the terminal, of files, and of errors. Applied twice it changes
    nothing more.
    """
    # No printable character is in a hidden category.
    if text.isprintable() and (text.isascii() or not _SHAPELESS.search(text)):
        return text
    return "".join(
        character.encode("unicode_escape").decode() if is_hidden(character) else character
        for character in text
    )


def visible_lines(text: str) -> str:
    """Spell out control characters in text of several lines, which stay lines; tabs are spaces."""
    return "\n".join(visible(line) for line in text.expandtabs(4).splitlines())


# Counts and lists in words.

_PLURALS = {"region": "regions", "osd": "OSDs", "chassis": "chassis", "copy": "copies"}


def count_text(count: int, noun: str, plural: str | None = None) -> str:
    """`1 trial`, `3 trials`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def counted(count: int, noun: str) -> str:
    """`1 zone`, `3 zones`, `1 OSD`."""
    if count == 1:
        return f"1 {'OSD' if noun == 'osd' else noun}"
    return f"{count:,} {_PLURALS.get(noun, noun + 's')}"


def listed(items: Iterable[str], limit: int = 5) -> str:
    """`a, b and c`; past `limit` the rest is counted; `none` of nothing."""
    given = list(items)
    if not given:
        return "none"
    if len(given) > limit:
        return f"{', '.join(given[:limit])} and {len(given) - limit:,} more"
    if len(given) == 1:
        return given[0]
    return f"{', '.join(given[:-1])} and {given[-1]}"


def percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def sentence(clause: str) -> str:
    """A clause with a capital and a full stop; empty of nothing."""
    return f"{clause[:1].upper()}{clause[1:]}." if clause else ""


def shortened(items: Iterable[str], limit: int = 12, *, nothing: str = "none") -> str:
    """`a, b and 3 more`; `nothing` for no items."""
    given = list(items)
    more = f" and {len(given) - limit} more" if len(given) > limit else ""
    return (", ".join(given[:limit]) or nothing) + more


def did_you_mean(word: str, known: Iterable[str], otherwise: str, *, cutoff: float = 0.6) -> str:
    """Suggest the known word nearest to an unknown one, else return the hint `otherwise`."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"did you mean {near[0]!r}?" if near else otherwise
