"""Excerpts: output quoted in a mail or a comment, or with lines left out.

Every importer reads them. The number of lines stays the same, so that positions in notes and
errors are those of the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from leadline.formats.result import EngineOutput, FormatError, Note, NoteKind

if TYPE_CHECKING:
    from leadline.formats.importer import Importer, Result

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
# fio itself writes `...` behind the header of a job that it clones; its JSON may be behind that.
_WITH_DOTS: Final = frozenset({"fio-text", "fio-json", "cbt"})


def read_excerpts(importer: Importer) -> Importer:
    """Make an importer that reads excerpts too."""

    def recognises(name: str, head: bytes) -> bool:
        return importer.recognises(name, unquote(head))

    def read(contents: Mapping[str, bytes]) -> tuple[Result, ...]:
        unquoted = {name: unquote(content) for name, content in contents.items()}
        if importer.kind in _WITH_DOTS:
            try:
                return importer.read(unquoted)
            except FormatError as error:
                if error.condition != "unreadable-result" or not _gaps(unquoted):
                    raise
        gaps = _gaps(unquoted)
        if gaps:
            unquoted = {name: _GAP.sub(b"", content) for name, content in unquoted.items()}
        return _noted(importer.read(unquoted), gaps)

    return replace(importer, recognises=recognises, read=read)


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


def _gaps(contents: Mapping[str, bytes]) -> list[Note]:
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


def _noted(results: tuple[Result, ...], notes: list[Note]) -> tuple[Result, ...]:
    """Add notes to the first result that has figures."""
    if not notes:
        return results
    for number, result in enumerate(results):
        if isinstance(result.output, EngineOutput):
            output = replace(result.output, notes=(*result.output.notes, *notes))
            return (*results[:number], replace(result, output=output), *results[number + 1 :])
    return results
