"""Where JSON begins and ends in what fio and its users leave."""

from __future__ import annotations

import contextlib
import time

import pytest

from leadline.formats.fio.json_output import parse_fio_documents, parse_fio_json
from leadline.formats.result import FormatError
from tests.conftest import RECORDED

MIXED = (RECORDED / "mixed-70-30-4k-qd32" / "fio.json").read_bytes()


def test_noise_before_the_json_is_kept_apart() -> None:
    output = parse_fio_json(b"\nfio: terminating on signal 2\n" + MIXED)
    assert output.noise == "fio: terminating on signal 2"
    assert output.jobs == output.jobs


def test_noise_on_both_sides_of_several_documents() -> None:
    content = b"\xef\xbb\xbfWarning: one\r\n{ no JSON }\n>" + MIXED + b"two\n" + MIXED + b"\nend {"
    first, second = parse_fio_documents(content)
    assert first.noise == "Warning: one\r\n{ no JSON }\n>"
    assert second.noise == "two\nend {"
    assert first.jobs == second.jobs == parse_fio_json(MIXED).jobs


@pytest.mark.parametrize(
    "content",
    [
        *(b'{"a": ' * 200_000, b'{"' * 500_000, b'{"a\\"' * 200_000, b"{ " * 500_000),
        *(b'{"jobs": [' + b'{"a":1,"a":2},' * 100_000, b'{"jobs":[nan,"\\"' + b'\\"' * 500_000),
        b'{"fio version": "fio-3.33", "jobs": [], "x": ' + b'{"":' * 900 + b"1" + b"}" * 901,
    ],
)
def test_hostile_text_is_refused_or_read_in_linear_time(content: bytes) -> None:
    before = time.process_time()
    with contextlib.suppress(FormatError):
        parse_fio_documents(content)
    assert time.process_time() - before < 5
