"""What is true of every importer, on input that no user means well with."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from fuzz.bundles import pack, unpack
from fuzz.mutations import number_places
from fuzz.properties import comparable, read
from fuzz.targets import HOSTILE, TARGETS, importer_seeds
from leadline.formats.importer import KINDS, Importer, Result, importer
from leadline.formats.result import EngineOutput, FormatError, NoteKind
from tests.conftest import every

pytestmark = pytest.mark.thorough

MIB = 1 << 20
every_kind = pytest.mark.parametrize("kind", KINDS)


@cache
def samples(kind: str) -> tuple[bytes, ...]:
    """Real files of a kind that give results, the smallest first."""
    chosen = importer(kind)
    seeds = sorted(set(importer_seeds(kind, shared=False)), key=lambda seed: (len(seed), seed))
    return tuple(seed for seed in seeds if _figures(read(chosen, unpack(seed))))


def _figures(results: tuple[Result, ...] | None) -> bool:
    return any(isinstance(one.output, EngineOutput) for one in results or ())


def sample(kind: str) -> bytes:
    """One that is neither trivial nor long."""
    found = samples(kind)
    return found[len(found) // 2]


def amid(content: bytes, more: bytes) -> bytes:
    """`more` behind the first half of the text."""
    return content[: len(content) // 2] + more + content[len(content) // 2 :]


@contextmanager
def limited_memory(more: int) -> Iterator[None]:
    """Whoever wants more address space than `more` bytes gets a MemoryError."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def taken(chosen: Importer, content: bytes) -> tuple[Result, ...] | None:
    """The results, checked (fuzz/properties.py), or None where the input is refused; in memory
    that is not more than some times the input."""
    with limited_memory(64 * MIB + 12 * len(content)):
        for name, inner in unpack(content).items():
            chosen.recognises(name, inner[: 64 << 10])
        return read(chosen, unpack(content))


@every_kind
def test_there_are_real_files_to_spoil(kind: str) -> None:
    assert samples(kind)


# --- what fuzzing found -------------------------------------------------------------------------


def _found() -> list[object]:
    return [
        pytest.param(path, id=f"{path.parent.name}/{path.name}")
        for path in sorted(HOSTILE.glob("*/*"))
    ]


@pytest.mark.parametrize("path", _found())
def test_what_fuzzing_found_stays_mended(path: Path) -> None:
    """Each input lies in a folder of the fuzz target's name."""
    TARGETS[path.parent.name].test(path.read_bytes())


# --- input that is no result at all -------------------------------------------------------------

NOTHING: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "10 MB of brackets": lambda: b"[" * 10_000_000,
    "objects in objects": lambda: b'{"a":' * 500_000,
    "objects in a result": lambda: b'{"fio version": "fio-3.33", "jobs": ' + b'[{"a":' * 200_000,
    "quotes": lambda: b'{"jobs": ' + b'"' * 1_000_000,
    "escapes": lambda: b'{"jobs": "' + b"\\" * 1_000_000,
    "a line of 20 MB": lambda: b"1 " * 10_000_000,
    "NUL bytes": lambda: bytes(5_000_000),
    "all bytes": lambda: bytes(range(256)) * 1000,
    "lone surrogates": lambda: b"\xed\xa0\x80" * 300_000,
    "100,000 empty lines": lambda: b"\n" * 100_000,
    "100,000 carriage returns": lambda: b"\r" * 100_000,
}


@pytest.mark.thorough
@every_kind
def test_what_is_no_result_is_refused_in_bounded_memory(kind: str) -> None:
    chosen = importer(kind)
    for what, make in NOTHING.items():
        assert not _figures(taken(chosen, make())), what


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "fio-json"])
@pytest.mark.parametrize("content", [b"Dear fio,\n", b"[[[[\n", b"<html></html>\n", b"a,b\n1,2\n"])
def test_what_was_never_a_result_is_not_taken_for_one_that_was_cut(
    kind: str, content: bytes
) -> None:
    """A trial without figures is made of what was cut. (Of fio's JSON there is often nothing but
    what it reported before: that is a trial that failed.)"""
    with pytest.raises(FormatError) as refused:
        importer(kind).read({"input": content})
    assert refused.value.condition == "unreadable-result"


# --- real results, spoiled ----------------------------------------------------------------------

SPOILED: dict[str, Callable[[bytes], bytes]] = {
    "UTF-16": lambda content: content.decode("utf-8", "replace").encode("utf-16"),
    "UTF-32": lambda content: content.decode("utf-8", "replace").encode("utf-32"),
    "EBCDIC": lambda content: content.decode("utf-8", "replace").encode("cp037", "replace"),
    "a byte order mark": lambda content: b"\xef\xbb\xbf" + content,
    "CRLF": lambda content: content.replace(b"\n", b"\r\n"),
    "CR": lambda content: content.replace(b"\n", b"\r"),
    "one line": lambda content: content.replace(b"\n", b" "),
    "NUL bytes": lambda content: content.replace(b" ", b"\x00"),
    "lone surrogates": lambda content: content.replace(b" ", b"\xed\xa0\x80"),
    "all bytes amid": lambda content: amid(content, bytes(range(256))),
    "2 MB amid": lambda content: amid(content, b"1" * 2_000_000),
    "brackets amid": lambda content: amid(content, b"[" * 100_000),
    "empty lines amid": lambda content: amid(content, b"\n" * 100_000),
    "backwards": lambda content: b"\n".join(reversed(content.split(b"\n"))),
    "sorted": lambda content: b"\n".join(sorted(content.split(b"\n"))),
    "twice": lambda content: content + content,
    "each line twice": lambda content: b"".join(
        line * 2 for line in content.splitlines(keepends=True)
    ),
    "without its first line": lambda content: content.partition(b"\n")[2],
    "no digits": lambda content: content.translate(None, b"0123456789"),
    "other digits": lambda content: content.replace(b"1", "\u0661".encode()),
}


@every_kind
@pytest.mark.parametrize("how", SPOILED)
def test_a_spoiled_result_is_read_as_it_is_or_refused(kind: str, how: str) -> None:
    content = pack({name: SPOILED[how](one) for name, one in unpack(sample(kind)).items()})
    results = taken(importer(kind), content)
    assert comparable(taken(importer(kind), content)) == comparable(results), "the same every time"


@every_kind
def test_a_result_that_is_cut_anywhere_is_read_as_far_as_it_goes_or_refused(kind: str) -> None:
    content = sample(kind)
    for end in range(0, len(content), max(1, len(content) // 40)):
        taken(importer(kind), content[:end])


IMPOSSIBLE = (b"1e308", b"-1", b"NaN", b"Infinity", b"9" * 400)
MOST_PLACES = 24


@every_kind
@pytest.mark.parametrize("value", IMPOSSIBLE, ids=lambda value: value[:8].decode())
def test_numbers_that_cannot_be_never_become_figures(kind: str, value: bytes) -> None:
    """Each number of a real result, one after the other; of very many every so many-th."""
    content, chosen = sample(kind), importer(kind)
    places = number_places(content)
    for start, end in places[:: len(places) // MOST_PLACES + 1]:
        taken(chosen, content[:start] + value + content[end:])


@every_kind
def test_all_numbers_at_once(kind: str) -> None:
    content, chosen = sample(kind), importer(kind)
    places = number_places(content)
    for value in IMPOSSIBLE:
        parts, behind = [], 0
        for start, end in places:
            parts += [content[behind:start], value]
            behind = end
        taken(chosen, b"".join((*parts, content[behind:])))


# --- clocks that go backwards -------------------------------------------------------------------


@pytest.mark.parametrize(
    "times_and_values",
    ["1000 5, 2000 5, 3000 5, 4000 5, 5000 5, 3800 5, 6000 5", "1000 5, 2000 -5, 3000 5"],
    ids=["clock", "negative"],
)
def test_a_log_that_cannot_be_gives_no_rate_and_says_so(times_and_values: str) -> None:
    lines = [line.replace(" ", ", ") for line in times_and_values.split(", ")]
    log = "".join(f"{line}, 0, 0\n" for line in lines)
    (result,) = importer("fio-log").read({"a_iops.1.log": log.encode()})
    assert isinstance(result.output, EngineOutput)
    assert [one.kind for one in result.output.notes].count(NoteKind.IMPOSSIBLE_VALUE) == 1
    assert result.output.jobs[0].operations[0].iops is None
    assert not result.windows


# --- time ---------------------------------------------------------------------------------------

# What a parser may search through again and again: beginnings without an end, ends without a
# beginning, and what looks nearly like a number, a name, a line of a table.
WORDS = (
    *(b"[", b'{"', b'{"a":', b'"', b"\\", b"(", b"<", b"|", b"=", b",", b"-", b"*", b"#", b":"),
    *(b" ", b"\t", b"\r", b"\x00", b"1", b"1,", b"1 ", b"1.", b"a=", b"a ", b"nan ", b"\n", b"\n "),
)
SHORT = 15_000
# What takes less is lost in the noise of a machine that others use, too.
NOISE_S = 0.4


@pytest.mark.thorough
@every_kind
@pytest.mark.parametrize("number_of_lines", every(2, [6, 12]))
def test_four_times_the_input_takes_no_sixteen_times_the_time(
    kind: str, number_of_lines: int
) -> None:
    chosen, content = importer(kind), sample(kind)

    def spent(before: bytes, word: bytes, size: int, behind: bytes) -> float:
        given = unpack(before + word * (size // len(word) + 1) + behind)
        # A collection would go through all that the tests before this one have left.
        gc.disable()
        try:
            start = time.process_time()
            read(chosen, given)
            return time.process_time() - start
        finally:
            gc.enable()

    half = len(content) // 2
    lines = [line for line in content.splitlines(keepends=True) if line.strip()]
    several = lines[:: len(lines) // number_of_lines + 1]
    # At the end, amid the text, and at the ends of some lines.
    places = [(content, b""), (content[:half], content[half:])]
    cases = [(*place, word) for place in places for word in (*WORDS, *several, content)]
    for line in several:
        end = content.index(line) + len(line.rstrip())
        cases += [(content[:end], content[end:], word) for word in WORDS]
    for before, behind, word in cases:
        long = spent(before, word, 4 * SHORT, behind)
        if long > NOISE_S:
            short = min(spent(before, word, SHORT, behind) for _ in range(2))
            assert long < 9 * short, (word[:60], before[-60:], long, short)
