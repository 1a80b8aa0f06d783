"""Every parser returns results or raises FormatError, whatever the bytes: the whole registry."""

from __future__ import annotations

import contextlib
import gc
import random
import time
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.bundles import unpack
from fuzz.parsers import PARSERS, TEXT_PARSERS, check, parse_checked, samples
from fuzz.properties import read
from fuzz.targets import importer_seeds
from leadline.formats.importer import KINDS, importer
from leadline.formats.result import FormatError
from leadline.importing.gather import HEAD_BYTES
from tests.unit.formats.fio.test_text_output import TWO
from tests.unit.formats.foreign.test_kbench import FOUR_ROWS, P99

EVERY_SAMPLE = [(name, number) for name in PARSERS for number in range(len(samples(name)))]
# Samples of importers that no recorded file holds.
WRITTEN = {"fio-text": [TWO], "kbench": [FOUR_ROWS, P99]}
TOKENS = (
    *(b"", b"\x00", b"\xff\xfe", b"\r\n", b"\x1b[31m", b"-1", b"NaN", b"1e308", b"9" * 400),
    *(b"-inf", b",", b"/", b"[" * 3000, b'"', b"\xe2\x80\xa8", b"\n\n", b"1e999999999", b"%s"),
    *(b";", b"%", b"\n", b"\r", b"nan%", b"\x1b[2J", b"3;fio-", b"(", b"msec", b" ", b"0x1", b"-"),
)


@cache
def seeds(kind: str) -> list[dict[str, bytes]]:
    found = importer_seeds(kind, shared=False, largest=1 << 20)
    return [unpack(seed) for seed in (*found, *WRITTEN.get(kind, ()))]


def spoiled(content: bytes) -> st.SearchStrategy[bytes]:
    """The content cut at both ends, with parts replaced, or replaced as a whole."""
    places = st.floats(0, 1).map(lambda share: int(share * len(content)))
    put = st.one_of(
        st.sampled_from(TOKENS),
        st.binary(max_size=20),
        st.from_regex(rb"[-+\d.e,:;\"\r\nnaifKMGums \t()%]{1,30}", fullmatch=True),
    )
    edits = st.lists(st.tuples(places, st.integers(0, 40), put), min_size=1, max_size=6)
    return st.one_of(
        edits.map(lambda chosen: _edited(content, chosen)),
        st.tuples(places, places).map(lambda ends: content[min(ends) : max(ends)]),
        st.tuples(places, places, put).map(
            lambda cut: content[: min(cut[:2])] + cut[2] + content[max(cut[:2]) :]
        ),
        put,
    )


def _edited(content: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    for place, length, put in edits:
        content = content[:place] + put + content[place + length :]
    return content


# A parser that raises something else is found soon; `make fuzz` searches longer.
FEWER = settings(max_examples=settings.default.max_examples * 2 // 5)


@pytest.mark.parametrize("kind", KINDS)
@FEWER
@given(data=st.data())
def test_every_importer_is_total(kind: str, data: st.DataObject) -> None:
    """fuzz/properties.py checks the results: finite figures that are not negative, known errors."""
    contents = dict(data.draw(st.sampled_from(seeds(kind))))
    name = data.draw(st.sampled_from(sorted(contents)))
    contents[name] = data.draw(spoiled(contents[name]))
    chosen = importer(kind)
    assert isinstance(chosen.recognises(name, contents[name][:HEAD_BYTES]), bool)
    read(chosen, contents)


@pytest.mark.parametrize("name", PARSERS)
@FEWER
@given(data=st.data())
def test_every_other_parser_is_total(name: str, data: st.DataObject) -> None:
    parse_checked(name, data.draw(st.sampled_from(samples(name)).flatmap(spoiled)))


def test_every_parser_has_samples() -> None:
    assert all(samples(name) for name in PARSERS)


@pytest.mark.parametrize(("name", "number"), EVERY_SAMPLE)
def test_samples_are_read(name: str, number: int) -> None:
    check(PARSERS[name](samples(name)[number]))


@pytest.mark.parametrize("name", PARSERS)
def test_lines_in_another_order(name: str) -> None:
    rng = random.Random(8)
    for content in samples(name):
        lines = content.splitlines(keepends=True)
        for _ in range(20):
            parse_checked(name, b"".join(rng.sample(lines, k=len(lines))))


# A shorter time is lost in the noise of a machine that others use.
NOISE_S = 0.4
FILLINGS = (
    *(b" ", b"\t", b"-", b"a ", b"= ", b"1,", b"x:", b'{"a":', b"pool: ", b"(", b"\\"),
    b"0 0\n",
)


@pytest.mark.thorough
@pytest.mark.parametrize("name", PARSERS)
def test_four_times_the_input_takes_less_than_nine_times_the_time(name: str) -> None:
    def spent(before: bytes, filling: bytes, size: int) -> float:
        content = before + filling * (size // len(filling))
        # A collection would go through all that earlier tests have left.
        gc.disable()
        try:
            begin = time.process_time()
            with contextlib.suppress(FormatError):
                check(PARSERS[name](content))
            return time.process_time() - begin
        finally:
            gc.enable()

    content = samples(name)[0]
    half = content[: len(content) // 2]
    for before in (b"", content, half, half.rpartition(b"\n")[0]):
        for filling in (*FILLINGS, content):
            long = spent(before, filling, 160_000)
            if long > NOISE_S:
                short = min(spent(before, filling, 40_000) for _ in range(2))
                assert long < 9 * short, (filling[:60], before[-60:], long, short)


def test_a_byte_order_mark_alone_is_an_empty_result() -> None:
    for name, parse in TEXT_PARSERS.items():
        with pytest.raises(FormatError) as refused:
            parse(b"\xef\xbb\xbf")
        assert refused.value.condition == "empty-result", name
