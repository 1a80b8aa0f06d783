"""Rows of a table of summaries: the text by known column, each fault with line and column."""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from leadline.formats.foreign.columns import (
    FIGURES,
    KNOWN,
    LABEL,
    NEEDED,
    SHAPE,
    TRIAL,
    UNITS,
    known_column,
)
from leadline.formats.result import (
    FormatError,
    Note,
    NoteKind,
)
from leadline.metrics import Op

# What a pattern does, where no column says it.
_OF_PATTERN = {
    **dict.fromkeys(("read", "randread"), Op.READ),
    **dict.fromkeys(("write", "randwrite"), Op.WRITE),
    **dict.fromkeys(("trim", "randtrim"), Op.TRIM),
    **dict.fromkeys(("rw", "readwrite", "randrw"), Op.TOTAL),
}
# A head wider than that is no table of results; each unknown column is compared to all known ones.
_MOST_COLUMNS = 500
_SEPARATORS = (",", ";", "\t")
DECIMAL = re.compile(r"[-+]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][-+]?\d{1,3})?")
# As plans write labels.
_LABEL_WORD = re.compile(r"[^\x00-\x1f\x7f=,]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: its texts by known column, blank ones left out."""

    line: int
    cells: Mapping[str, str]
    # What the table calls a column and says there, where it has another name or unit.
    given: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def load(self) -> tuple[str, ...]:
        return tuple(self.cells.get(key, "") for key in ("cluster", "target", "workload", *SHAPE))


def decode_table(content: bytes) -> str:
    """Return the text of a table. Raises FormatError where it is not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError.unreadable(
            f"line {line}: the table is not UTF-8",
            f"byte {error.start} is 0x{content[error.start]:02x}",
        ) from error


def find_separator(head: str) -> str:
    """Return the separator that splits the head into the most known columns."""
    return max(_SEPARATORS, key=lambda entry: len(KNOWN & normalise_heads(head.split(entry))))


def normalise_heads(cells: Sequence[str]) -> set[str]:
    """Return the names of columns in lower case, without quotes and spaces around them."""
    return {_head(cell) for cell in cells}


def _head(cell: str) -> str:
    return cell.strip().strip('"').strip().lower()


def split_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that hold anything, with the line on which each begins. Raises FormatError."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=find_separator(first), strict=True)
    line = 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            cut = "unexpected end" in str(error)
            raise FormatError.unreadable(f"line {line}: {error}", cut=cut) from error
        if any(cell.strip() for cell in cells):
            yield line, cells
        line = reader.line_num + 1


def check_columns(
    line: int, heads: Sequence[str], *, renamed: bool
) -> tuple[tuple[str, ...], list[Note]]:
    """Return the columns of a head, and a note on each that is not known. Raises FormatError."""
    columns = tuple(_head(cell) for cell in heads)
    if len(columns) > _MOST_COLUMNS:
        raise FormatError.unreadable(f"line {line}: a head of {len(columns)} columns")
    for number, column in enumerate(columns, start=1):
        known = column in KNOWN or column in UNITS or column.startswith(LABEL)
        if known and columns.index(column) < number - 1:
            raise FormatError.unreadable(
                f"line {line}: the column {column!r} is there twice",
                f"columns {columns.index(column) + 1} and {number}",
            )
    both = [key for key in TRIAL if key in columns]
    # A pattern says the operation, and names the workload with its block size.
    derived = {"workload", "op"} if "pattern" in columns else set()
    missing = [key for key in NEEDED if key not in columns and key not in derived]
    if not {known_column(key) for key in columns} & set(FIGURES):
        missing.append("iops")
    if missing or len(both) > 1:
        what = f"needs the columns {', '.join(missing)}" if missing else "has trial and repeat"
        raise FormatError.unreadable(
            f"line {line}: a table of results {what}"
            + (" or another figure" if "iops" in missing else ""),
            *(_nearest(key, columns) for key in missing),
            *([f"if a column has another name: --columns '{missing[0]}=NAME'"] if missing else []),
        )
    notes = [
        Note(
            NoteKind.UNKNOWN_FIELD,
            # Columns with other names come first, so that numbers are not those of the file.
            f"line {line}, column {column!r}" if renamed else f"line {line}, column {number}",
            f"the column {column!r} is not known and is left out" + _near(column),
        )
        for number, column in enumerate(columns, start=1)
        if column and column not in KNOWN and column not in UNITS and not column.startswith(LABEL)
    ]
    nameless = next(
        (entry for entry in columns if entry.startswith(LABEL) and not _key(entry)), None
    )
    if nameless:
        raise FormatError.unreadable(
            f"line {line}: the column {nameless!r} names no label; write it as 'label:cores'"
        )
    return columns, notes


def _nearest(missing: str, columns: Sequence[str]) -> str:
    near = difflib.get_close_matches(missing, [column[:60] for column in columns if column], n=1)
    return f"{missing}: " + (f"the nearest column is {near[0]!r}" if near else "none is like it")


def _near(column: str) -> str:
    near = difflib.get_close_matches(column[:60], sorted(KNOWN), n=1)
    return f"; the nearest that is known is {near[0]!r}" if near else ""


def refuse_other_systems(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Raise FormatError for rows of one load that differ in a column that is not read: they may be
    of different systems, and would be taken for trials of one."""
    unread = [key for key in columns if key and key not in KNOWN and key not in UNITS]
    unread = [key for key in unread if not key.startswith(LABEL)]
    first: dict[tuple[str, ...], Row] = {}
    for row in rows:
        if any(key in row.cells for key in TRIAL):
            continue
        before = first.setdefault((*row.load, row.cells["op"].lower()), row)
        differs = next((key for key in unread if before.cells.get(key) != row.cells.get(key)), None)
        if differs is not None:
            target = row.given.get("target", ("target", ""))[0]
            raise FormatError.unreadable(
                f"lines {before.line} and {row.line} are of one target, workload and load, and "
                f"differ in the column {differs!r}, which is not read",
                f"of two systems: --columns 'target={target}+{differs}'",
                f"repeats of one: --columns 'trial={differs}'",
            )


def read_row(
    line: int,
    cells: Sequence[str],
    columns: Sequence[str],
    names: Mapping[str, str],
    *,
    cut: bool,
) -> Row:
    """Return a line by known columns, in their units. Raises FormatError."""
    if len(cells) < len(columns) or any(cell.strip() for cell in cells[len(columns) :]):
        short = len(cells) < len(columns)
        raise FormatError.unreadable(
            f"line {line} has {len(cells)} cells and the head {len(columns)} columns",
            f"it says: {','.join(cells)[:160]!r}",
            cut=cut and short,
        )
    values = {
        column or f"column {number}": cell.strip()
        for number, (column, cell) in enumerate(zip(columns, cells, strict=False), start=1)
        if cell.strip()
    }
    nameless = next(
        (key for key in values if key.startswith("column ") and key not in columns), None
    )
    if nameless:
        raise FormatError.unreadable(f"line {line}: {nameless} has a value and its head no name")
    given = {key: (names[key], values[key]) for key in values if names.get(key)}
    for key in [key for key in values if key in UNITS]:
        base, factor = UNITS[key]
        if base in values:
            raise FormatError.unreadable(f"line {line}: {key!r} and {base!r} are the same figure")
        text = values.pop(key)
        given[base] = (names.get(key, key), text)
        values[base] = _times(text, factor)
    _derive(values, columns)
    for key in NEEDED:
        if key not in values:
            name = names.get(key, key)
            raise FormatError.unreadable(f"line {line}: the column {name!r} is blank")
    return Row(line=line, cells=values, given=given)


def _times(text: str, factor: Decimal) -> str:
    """A number in another unit; what is no number is left for the error that names it."""
    return str(Decimal(text) * factor) if DECIMAL.fullmatch(text) else text


def _derive(values: dict[str, str], columns: Sequence[str]) -> None:
    pattern = values.get("pattern", "").lower()
    if "op" not in columns and pattern in _OF_PATTERN:
        values["op"] = _OF_PATTERN[pattern].value
    if "workload" not in columns and pattern:
        values["workload"] = "-".join(filter(None, (pattern, values.get("block_size", ""))))


def find_op(row: Row) -> Op:
    """Return the operation of a row. Raises FormatError."""
    text = row.cells["op"].lower()
    if text in list(Op):
        return Op(text)
    raise bad_cell(row, "op", f"expected one of {', '.join(Op)}")


def bad_cell(row: Row, column: str, expected: str) -> FormatError:
    """Return the error of a cell, by its line and its column in the file."""
    name, text = row.given.get(column, (column, row.cells[column]))
    return FormatError.unreadable(f"line {row.line}, column {name!r}: {text[:60]!r}; {expected}")


def _key(column: str) -> str:
    """Return the label of a column; empty for other columns and for a word that no plan accepts."""
    key = column.removeprefix(LABEL).strip() if column.startswith(LABEL) else ""
    return key if _LABEL_WORD.fullmatch(key) else ""


class Labels:
    """Labels of targets, which are equal in all rows of one target."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], dict[str, tuple[str, int]]] = {}

    def take(self, row: Row) -> None:
        """Raises FormatError for a label that differs in another row of the target."""
        of_target = self._values.setdefault(_whose(row), {})
        for column, value in row.cells.items():
            key = _key(column)
            if not key:
                continue
            if not _LABEL_WORD.fullmatch(value):
                raise bad_cell(row, column, "expected a word without , and =, 100 letters at most")
            before, line = of_target.setdefault(key, (value, row.line))
            if before != value:
                raise FormatError.unreadable(
                    f"line {row.line}: target {row.cells['target'][:60]!r} has the {key} "
                    f"{value!r}, and {before!r} on line {line}",
                    "labels are a target's: give what differs names of its own",
                )

    def row_labels(self, row: Row) -> dict[str, str]:
        return {key: value for key, (value, _) in self._values.get(_whose(row), {}).items()}


def _whose(row: Row) -> tuple[str, str]:
    return row.cells.get("cluster", ""), row.cells["target"]
