"""fio documents of benchmark-operator (ripsaw), as Elasticsearch has them.

benchmark-wrapper indexes each entry of fio's `client_stats` as a document of its own, with the
version, the cluster and the sample (snafu/fio_wrapper/trigger_fio.py). The documents of one
execution are put together to fio's own JSON again and read as such. A file holds documents or
Elasticsearch's hits around them: one per line, as a list, or as the answer to a search. Documents
of fio's logs and of the analysis are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from leadline.formats.fio.json_import import read as read_fio
from leadline.formats.importer import Importer, Result, each_file
from leadline.formats.json_lines import load_json
from leadline.formats.result import EngineOutput, FormatError, Note, NoteKind

TOOL: Final = "benchmark-operator"
_SUM: Final = "All clients"
_DEEPEST: Final = 4
_BOM: Final = b"\xef\xbb\xbf"
# Every document has them.
_WORDS: Final = (b'"fio-version"', b'"cluster_name"', b'"uuid"')


def parse_documents(content: bytes) -> tuple[Result, ...]:
    """Parse every execution of fio. Raises FormatError with condition `empty-result`,
    `truncated-result` or `unreadable-result`."""
    executions: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    skipped: list[str] = []
    for where, document in _documents(content):
        entry = document.get("fio")
        if not isinstance(entry, dict):
            skipped.append(where)
            continue
        key = tuple(
            str(document.get(name, ""))
            for name in ("uuid", "sample", "timestamp_end", "fio-version")
        )
        executions.setdefault(key, []).append(document)
    if not executions:
        raise FormatError.empty("no document holds a result of fio")
    results: list[Result] = []
    for documents in executions.values():
        results += _execution(documents)
    if skipped and isinstance(results[0].output, EngineOutput):
        fact = f"{len(skipped)} documents that hold no result of fio, such as its logs"
        notes = (*results[0].output.notes, Note(NoteKind.LEFT_OUT, skipped[0], fact))
        results[0] = replace(results[0], output=replace(results[0].output, notes=notes))
    return tuple(results)


def _documents(content: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each document with its place. Raises FormatError."""
    content = content.removeprefix(_BOM)
    if not content.strip():
        raise FormatError.empty("the file is empty")
    if not any(word in content for word in _WORDS):
        raise FormatError.unreadable("this is no document of benchmark-operator")
    try:
        whole = orjson.loads(content)
    except orjson.JSONDecodeError:
        yield from _lines(content)
    else:
        yield from _hits(whole, "$")


def _lines(content: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    start, stop = 0, len(content.rstrip())
    for number, line in enumerate(content.split(b"\n"), start=1):
        end = start + len(line)
        if line.strip():
            # The last line of a dump that was stopped has no end.
            last = end >= stop
            document = load_json(
                content, start, end, f"the document of line {number}", open_end=last
            )
            yield from _hits(document, f"line {number}")
        start = end + 1


def _hits(value: object, where: str, depth: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the documents in hits, lists of hits, and answers of a search."""
    if isinstance(value, list) and depth < _DEEPEST:
        for number, entry in enumerate(value):
            yield from _hits(entry, f"{where}[{number}]", depth + 1)
    elif isinstance(value, dict) and "hits" in value and depth < _DEEPEST:
        yield from _hits(value["hits"], f"{where}.hits", depth + 1)
    elif isinstance(value, dict) and isinstance(value.get("_source"), dict):
        yield f"{where}._source", value["_source"]
    elif isinstance(value, dict):
        yield where, value
    else:
        raise FormatError.unreadable("this is no document of Elasticsearch", where)


def _execution(documents: list[Mapping[str, Any]]) -> Iterator[Result]:
    """Yield the results of one execution, in a trial each."""
    first = documents[0]
    fio: dict[str, object] = {"fio version": first.get("fio-version", "")}
    ended_ms = first.get("timestamp_end")
    if isinstance(ended_ms, int) and not isinstance(ended_ms, bool):
        fio["timestamp"] = ended_ms // 1000
    if isinstance(first.get("global_options"), dict):
        fio["global options"] = first["global_options"]
    # Elasticsearch keeps no order; fio's sum of all clients is the last of its entries.
    entries = [document["fio"] for document in documents]
    fio["client_stats"] = sorted(entries, key=lambda entry: entry.get("jobname") == _SUM)
    cluster = first.get("cluster_name")
    try:
        results = read_fio({"fio.json": orjson.dumps(fio)})
    except FormatError as error:
        results = (Result(workload="", output=error),)
    for result in results:
        yield replace(result, cluster=cluster if isinstance(cluster, str) else "", tool=TOOL)


def _recognises(name: str, head: bytes) -> bool:
    start = head.lstrip(_BOM + b" \r\n\t")[:1]
    return start in (b"{", b"[") and all(word in head for word in _WORDS)


IMPORTER = Importer(
    kind=TOOL,
    summary="fio documents of benchmark-operator (ripsaw), dumped from Elasticsearch",
    recognises=_recognises,
    read=each_file(parse_documents),
)
