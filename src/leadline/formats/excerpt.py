"""Excerpts: output quoted in a mail or a comment, or with lines left out.

Every importer reads them. The number of lines stays the same, so that positions in notes and
errors are those of the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from leadline.formats.result import Note, NoteKind

# A mail in a mail: no deeper.
_DEEPEST: Final = 3
_MARKS: Final = (b">", b"#")
_QUOTED: Final = {mark: re.compile(rb"^[ \t]*%s ?" % mark, re.MULTILINE) for mark in _MARKS}
_LINE: Final = re.compile(rb"^[ \t]*[^\s]", re.MULTILINE)
# `...`, `[...]`, `<snip>`, `--- snip ---`; alone on a line.
_GAP: Final = re.compile(
    rb"^[ \t]*[-\[(<]{0,9}[ \t]?(?:\.{3,6}|\xe2\x80\xa6|snip)[ \t]?[-\])>]{0,9}[ \t]*\r?$",
    re.MULTILINE | re.IGNORECASE,
)
# Found faster than the expression; one of them is in each gap.
_GAP_WORDS: Final = (b"...", b"\xe2\x80\xa6", b"snip", b"Snip", b"SNIP")
_MOST_NOTES: Final = 20


def unquote(content: bytes) -> bytes:
    """Remove the mark of a quotation: `#` where every line has it, `>` where most lines have it."""
    for _ in range(_DEEPEST):
        mark = content.lstrip()[:1]
        # Text above a quotation ("On Monday, N wrote:") has no mark.
        if mark not in _MARKS and b"\n>" not in content[:2000]:
            return content
        mark = mark if mark in _MARKS else b">"
        lines = len(_LINE.findall(content))
        marked = len(_QUOTED[mark].findall(content))
        if not (marked == lines if mark == b"#" else marked * 2 > lines):
            return content
        content = _QUOTED[mark].sub(b"", content)
    return content


def find_gaps(contents: Mapping[str, bytes]) -> list[Note]:
    """Make a note for each place where lines were left out."""
    notes: list[Note] = []
    for name, content in contents.items():
        if not any(word in content for word in _GAP_WORDS):
            continue
        for gap in _GAP.finditer(content):
            line = content.count(b"\n", 0, gap.start()) + 1
            where = f"line {line}" if len(contents) == 1 else f"{name}: line {line}"
            notes.append(Note(NoteKind.LEFT_OUT, where, "the author of the text left lines out"))
            if len(notes) == _MOST_NOTES:
                return notes
    return notes


def without_gaps(content: bytes) -> bytes:
    """Empty the lines that stand for others."""
    return _GAP.sub(b"", content)
