"""What it takes to read another tool's files: one importer per kind, one result per figure set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from leadline.formats.fio_log import Window
from leadline.formats.output import EngineOutput, FormatError
from leadline.metrics import Op


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One result that a file holds: a workload on a target, executed once.

    `workload` is what the file calls it; `target` and `cluster` are empty where the file names
    none. `output` is an error where the file is recognised but cut or empty. `together` are all
    jobs of the execution that this result is a part of (sections of one fio job file), so that
    an audit can see what ran beside it; empty where that is `output.jobs` itself. `windows` are
    IOPS per second where the tool tells them. `labels` say what sets the target apart, where the
    file does.
    """

    workload: str
    output: EngineOutput | FormatError
    target: str = ""
    cluster: str = ""
    tool: str = ""
    windows: Mapping[Op, tuple[Window, ...]] = field(default_factory=dict)
    together: EngineOutput | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


def one_by_one(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Every file by itself."""
    return tuple((name,) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """A kind of file that `leadline import` takes. All functions are pure.

    `recognises` is given a file's name and its first 64 KiB. `bundles` is given the names of all
    files that no other kind has taken, and says which belong together (a result and its logs, a
    tree of clients' results); a bundle counts if one of its files is recognised.
    `read` is given a bundle's contents by name and returns at least one result, in an order that
    is the same every time, or raises FormatError with the position of what it did not understand.
    """

    kind: str
    summary: str
    recognises: Callable[[str, bytes], bool]
    read: Callable[[Mapping[str, bytes]], tuple[Result, ...]]
    bundles: Callable[[Sequence[str]], tuple[tuple[str, ...], ...]] = one_by_one


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A file that is not imported, and why. `expected`: the user named it, or it is of a kind
    that is known; otherwise it merely lay in a folder."""

    file: str
    reason: str
    context: tuple[str, ...] = ()
    expected: bool = True
