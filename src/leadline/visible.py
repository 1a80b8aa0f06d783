"""Text that may be a stranger's, made harmless to whoever reads it."""

from __future__ import annotations

import unicodedata

# Directional formatting characters could make a name read as another one.
_HIDDEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


def visible(text: str) -> str:
    """`text` with control and direction characters spelled out (`\\x1b`), the rest untouched."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _HIDDEN
        else character
        for character in text
    )
