"""Text in a given number of terminal cells."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size


def shortened(text: str, width: int) -> str:
    """`text` in at most `width` terminal cells, cut in the middle: names differ at either end."""
    if cell_len(text) <= width:
        return text
    if width < 3:
        return set_cell_size(text, max(0, width)).rstrip()
    head = (width - 1) // 2
    tail = width - 1 - head
    ending = text
    while cell_len(ending) > tail:
        ending = ending[1:]
    return f"{set_cell_size(text, head).rstrip()}…{ending}"


def filled(text: str, width: int) -> str:
    """`text` in exactly `width` terminal cells, with spaces behind it."""
    return set_cell_size(shortened(text, width), width)
