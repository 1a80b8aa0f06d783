"""What holds of every result that a parser makes, of whatever bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from leadline.archive.raw import derive
from leadline.formats.fio.logs import Window
from leadline.formats.importer import Importer, Result
from leadline.formats.result import (
    DiskUse,
    EngineOutput,
    FormatError,
    JobResult,
    Latency,
    Operation,
)
from leadline.stats.histogram import LatencyHistogram

_CONDITIONS = frozenset({"empty-result", "truncated-result", "unreadable-result"})
_MEASURED = (Operation, Latency, Window, DiskUse)
# A job's numbers that are no measurement: fio's error and group may be negative.
_NAMES = frozenset({"error", "group"})


class Broken(AssertionError):
    """A parser did what no parser may do."""


def read(importer: Importer, contents: Mapping[str, bytes]) -> tuple[Result, ...] | None:
    """The results, checked; None where the parser refused the input as it may."""
    try:
        results = importer.read(contents)
    except FormatError as error:
        check_refusal(error)
        return None
    if not results:
        raise Broken("no result, and no error")
    for result in results:
        _check(result)
    return results


def comparable(results: tuple[Result, ...] | None) -> object:
    """Something that is equal for equal results; errors compare by what they say."""
    if results is None:
        return None
    return [
        (
            result.workload,
            result.target,
            result.cluster,
            result.tool,
            str(result.output) if isinstance(result.output, FormatError) else result.output,
            result.windows,
            result.together,
        )
        for result in results
    ]


def _check(result: Result) -> None:
    if isinstance(result.output, FormatError):
        check_refusal(result.output)
        return
    for name, text in _texts(result, "result"):
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise Broken(f"{name} is no text that can be stored: {text[:40]!r}")
    for name, value, measured in _numbers(result, "result", measured=False):
        if isinstance(value, int) and value.bit_length() > 64:
            raise Broken(f"{name} has {value.bit_length()} bits, which no array and no file holds")
        if not math.isfinite(value):
            raise Broken(f"{name} is {value}")
        if measured and value < 0:
            raise Broken(f"{name} is {value}, which is negative")
    for output in (result.output, result.together):
        if output is not None:
            _check_derived(output)


def check_refusal(error: FormatError) -> None:
    if error.condition not in _CONDITIONS:
        raise Broken(f"the condition {error.condition!r} is none")
    if len(str(error)) > 5000:
        raise Broken(f"an error of {len(str(error))} characters")


def _check_derived(output: EngineOutput) -> None:
    """Numbers that are sums over jobs and directions, as an archive keeps them."""
    for operation in derive(output).operations:
        for metric, value in operation.metrics.items():
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise Broken(f"{operation.op} {metric} is derived as {value}")


def _texts(thing: object, where: str) -> Iterator[tuple[str, str]]:
    """Yield every text below `thing`, with its place."""
    if isinstance(thing, str):
        if not thing.isascii():
            yield where, thing
    elif is_dataclass(thing):
        for field in fields(thing):
            yield from _texts(getattr(thing, field.name), f"{where}.{field.name}")
    elif isinstance(thing, Mapping):
        for key, inner in thing.items():
            yield from _texts(key, f"a key of {where}")
            yield from _texts(inner, f"{where}[{key!r:.40}]")
    elif isinstance(thing, list | tuple):
        for number, inner in enumerate(thing):
            yield from _texts(inner, f"{where}[{number}]")


def _numbers(thing: object, where: str, *, measured: bool) -> Iterator[tuple[str, float, bool]]:
    """Yield every number below `thing`: its place, and whether it must not be negative."""
    if isinstance(thing, bool):
        return
    if isinstance(thing, int | float):
        yield where, thing, measured
    elif isinstance(thing, LatencyHistogram):
        for number in (*thing.values_ns.tolist(), *thing.counts.tolist()):
            yield where, number, True
    elif is_dataclass(thing):
        for field in fields(thing):
            counts = isinstance(thing, _MEASURED) or (
                isinstance(thing, JobResult) and field.name not in _NAMES
            )
            inner = getattr(thing, field.name)
            yield from _numbers(inner, f"{where}.{field.name}", measured=counts)
    elif isinstance(thing, Mapping):
        for key, inner in thing.items():
            yield from _numbers(inner, f"{where}[{key!r:.40}]", measured=measured)
    elif isinstance(thing, list | tuple):
        for number, inner in enumerate(thing):
            yield from _numbers(inner, f"{where}[{number}]", measured=measured)
