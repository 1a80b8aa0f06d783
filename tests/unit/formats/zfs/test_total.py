"""Every parser of ZFS and NVMe on its samples with parts cut out, doubled and put in."""

from __future__ import annotations

import contextlib
import gc
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.stacks import PARSERS, SAMPLES, check, samples
from leadline.formats.result import FormatError

EVERY = [(name, path) for name in PARSERS for path in samples(name)]


def test_every_parser_has_samples() -> None:
    assert SAMPLES.keys() == PARSERS.keys()
    assert all(samples(name) for name in PARSERS)


@pytest.mark.parametrize(("name", "path"), EVERY, ids=[f"{n}-{p.name}" for n, p in EVERY])
def test_samples_are_read(name: str, path: Path) -> None:
    check(PARSERS[name](path.read_text()))


@pytest.mark.parametrize("name", PARSERS)
@given(
    choice=st.integers(0, 99),
    start=st.floats(0, 1),
    end=st.floats(0, 1),
    put=st.text(max_size=20) | st.from_regex(r"[-\d.,:KMGnums \t()%]{1,30}", fullmatch=True),
)
def test_they_are_total(name: str, choice: int, start: float, end: float, put: str) -> None:
    paths = samples(name)
    text = paths[choice % len(paths)].read_text()
    first, last = sorted((int(start * len(text)), int(end * len(text))))
    for broken in (
        text[:first] + put + text[last:],
        text[:first] + put + text[first:],
        text[first:last],
        put,
    ):
        with contextlib.suppress(FormatError):
            check(PARSERS[name](broken))


@pytest.mark.parametrize("name", PARSERS)
def test_lines_in_another_order(name: str) -> None:
    rng = random.Random(8)
    for path in samples(name):
        lines = path.read_text().splitlines(keepends=True)
        for _ in range(20):
            mixed = rng.sample(lines, k=len(lines))
            with contextlib.suppress(FormatError):
                check(PARSERS[name]("".join(mixed)))


# What takes less is lost in the noise of a machine that others use, too.
NOISE_S = 0.4
FILLINGS = (" ", "\t", "-", "a ", "= ", "1,", "x:", '{"a":', "pool: ", "(", "\\", "0 0\n")


@pytest.mark.thorough
@pytest.mark.parametrize("name", PARSERS)
def test_four_times_the_input_takes_no_sixteen_times_the_time(name: str) -> None:
    def spent(before: str, filling: str, size: int) -> float:
        text = before + filling * (size // len(filling))
        # A collection would go through all that the tests before this one have left.
        gc.disable()
        try:
            begin = time.process_time()
            with contextlib.suppress(FormatError):
                check(PARSERS[name](text))
            return time.process_time() - begin
        finally:
            gc.enable()

    text = samples(name)[0].read_text()
    half = text[: len(text) // 2]
    for before in ("", text, half, half.rpartition("\n")[0]):
        for filling in (*FILLINGS, text):
            long = spent(before, filling, 160_000)
            if long > NOISE_S:
                short = min(spent(before, filling, 40_000) for _ in range(2))
                assert long < 9 * short, (filling[:60], before[-60:], long, short)


def test_a_byte_order_mark_alone_is_nothing() -> None:
    for name, parse in PARSERS.items():
        with pytest.raises(FormatError) as refused:
            parse("\ufeff")
        assert refused.value.condition == "empty-result", name
