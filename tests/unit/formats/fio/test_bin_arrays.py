"""Bins of small files: the same results as by decoding them with the rest."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.formats.fio import json_text
from leadline.formats.fio.bin_arrays import cut_out
from leadline.formats.fio.json_output import FioText, read_fio_text
from leadline.formats.result import FormatError
from tests.conftest import RECORDED

REAL = sorted(RECORDED.glob("*/fio.json"))
MIXED = (RECORDED / "mixed-70-30-4k-qd32" / "fio.json").read_bytes()
BINS = re.compile(rb'"bins" : \{(?=\s*"\d)')

Read = Callable[[bytes], FioText | tuple[str, tuple[str, ...]]]


def read(content: bytes) -> FioText | tuple[str, tuple[str, ...]]:
    try:
        return read_fio_text(content)
    except FormatError as error:
        return error.fact, error.context


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Read:
    """Reads a text without arrays."""

    def read_decoded(content: bytes) -> FioText | tuple[str, tuple[str, ...]]:
        with monkeypatch.context() as patched:
            patched.setattr(json_text, "cut_out", lambda content: (content, []))
            return read(content)

    return read_decoded


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.parent.name)
def test_arrays_give_the_results_of_the_decoder(path: Path, decoded: Read) -> None:
    content = path.read_bytes()
    text, arrays = cut_out(content)
    assert arrays
    assert len(text) < len(content)
    assert read(content) == decoded(content)
    for indent in (None, 1):
        written = json.dumps(json.loads(content), indent=indent).encode()
        assert cut_out(written)[1]
        assert read(written) == decoded(content)


@pytest.mark.parametrize(
    "first",
    [
        *(b'"0":1,', b'"5":0,', b'"5":1,"5":1,', b'"7":1,"5":1,', b'"9":-1,', b'"9":1.5,'),
        *(b'"x":1,', b'"":1,', b'"1":,', b'"1 2":1,', b'"1":1 2,', b'"1":null,', b'"1":{},'),
        *(b'"99999999999999999999":1,', b'"1":99999999999999999999,', b'"1":"2",', b"1:2,"),
        *(b'"1"2":3,', b'5"1":,', b'"1":2,,', b'"a\\"bins":{', b"}", b"{"),
    ],
)
def test_unusual_bins_give_the_results_of_the_decoder(first: bytes, decoded: Read) -> None:
    content = BINS.sub(lambda found: found[0] + first, MIXED, count=1)
    assert content != MIXED
    assert read(content) == decoded(content)


@pytest.mark.parametrize("end", range(200, len(MIXED), 4001))
def test_cut_files_give_the_results_of_the_decoder(end: int, decoded: Read) -> None:
    assert read(MIXED[:end]) == decoded(MIXED[:end])


def test_several_documents_behind_noise(decoded: Read) -> None:
    content = b"{ no JSON }" + MIXED + b"and" + MIXED
    assert read(content) == decoded(content)


@pytest.mark.parametrize("part", [b'"bins":{', b'"bins":{}', b'"bins"', b'"bins" : {"1":1}'])
def test_the_search_takes_linear_time(part: bytes) -> None:
    before = time.process_time()
    cut_out(part * (7_000_000 // len(part)))
    assert time.process_time() - before < 5
