"""The labelled set: what must be found in each input, and what may be.

A label is a row of CSV (`labels/*.csv`): one line a file, in order, easy to read next to the
corpus's own INDEX.tsv, and reasons hold commas and quotation marks.
"""

from __future__ import annotations

import csv
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "labels"
# What is no rule's code: a file that no importer takes, and an audit that fails.
REFUSED = "refused"
CRASHED = "crashed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """`must`: of each group of codes, one has to be found; `may`: context that is no false alarm.

    `file` names one file, or several of one folder that belong together. `result` is the
    TARGET/WORKLOAD that the label is about, empty for the whole input.
    """

    file: str
    result: str = ""
    must: tuple[tuple[str, ...], ...] = ()
    may: frozenset[str] = frozenset()
    why: str = ""

    @property
    def allowed(self) -> frozenset[str]:
        return self.may.union(*self.must)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A miss or a false alarm that is known, and why it stays. It matches by `code` and input."""

    kind: str
    file: str
    result: str
    code: str
    why: str


def read_labels(path: Path, codes: Container[str]) -> tuple[Label, ...]:
    """Raises ValueError for a code that is no rule's, a label without a reason, or one given
    twice."""
    labels = []
    seen: set[tuple[str, str]] = set()
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            label = Label(
                file=row["file"],
                result=row["result"],
                must=tuple(tuple(one.split("|")) for one in row["must"].split()),
                may=frozenset(row["may"].split()),
                why=row["why"],
            )
            unknown = sorted(
                code for code in label.allowed if code not in codes and code != REFUSED
            )
            if unknown:
                raise ValueError(f"{path.name}:{number}: no rule is called {unknown[0]!r}")
            if not label.why:
                raise ValueError(f"{path.name}:{number}: the label has no reason")
            if (label.file, label.result) in seen:
                raise ValueError(f"{path.name}:{number}: {label.file} is labelled twice")
            seen.add((label.file, label.result))
            labels.append(label)
    return tuple(labels)


def read_known(path: Path) -> tuple[Known, ...]:
    with path.open(newline="", encoding="utf-8") as file:
        return tuple(Known(**row) for row in csv.DictReader(file))
