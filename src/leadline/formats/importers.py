"""Every importer by its kind, and the one that a file asks for."""

from __future__ import annotations

import difflib
from importlib import import_module

from leadline import errors
from leadline.errors import LeadlineError
from leadline.formats.importer import Importer

# Kind -> the module that holds its IMPORTER. The order is that in which `auto` asks them: first a
# tree, which holds files of other kinds, then those whose mark is unmistakable.
_MODULES = {
    "cbt": "cbt",
    "fio-json": "fio_json_import",
    "kbench": "kbench",
    "kubestr": "kubestr",
    "dbench": "dbench",
    "fio-text": "fio_text",
    "rados-bench": "rados_bench_import",
    "rbd-bench": "rbd_bench_import",
    "elbencho": "elbencho",
    "vdbench": "vdbench",
    "zpool-iostat": "zpool_iostat",
    "fio-terse": "fio_terse",
    "fio-log": "fio_log_import",
    "table": "table",
}
KINDS: tuple[str, ...] = tuple(_MODULES)
# A word for several kinds, of which each file chooses.
GROUPS: dict[str, tuple[str, ...]] = {
    "auto": KINDS,
    "fio": ("fio-json", "fio-text", "fio-terse", "fio-log"),
}


def importer(kind: str) -> Importer:
    """Raises LeadlineError(`import-kind-unknown`) with the nearest kind."""
    if kind not in _MODULES:
        known = [*GROUPS, *KINDS]
        near = difflib.get_close_matches(kind, known, n=1)
        raise LeadlineError(
            errors.IMPORT_KIND_UNKNOWN,
            f"there is no importer for {kind!r}",
            context=[f"kinds: {', '.join(known)}"],
            hint=f"did you mean {near[0]!r}?" if near else "`leadline import auto` finds the kind",
        )
    found = import_module(f"leadline.formats.{_MODULES[kind]}").IMPORTER
    assert isinstance(found, Importer)
    return found


def importers(kind: str) -> tuple[Importer, ...]:
    """The importers behind a kind or a group of kinds. Raises LeadlineError
    (`import-kind-unknown`)."""
    return tuple(importer(one) for one in GROUPS.get(kind, (kind,)))
