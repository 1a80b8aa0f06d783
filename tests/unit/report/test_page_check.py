"""The answer in a page is untrusted, and compressed."""

from __future__ import annotations

import base64
import gzip

import pytest

from leadline.errors import LeadlineError
from leadline.report import page_check
from leadline.report.page_check import read_page

ANSWER = gzip.compress(b'{"schema": "leadline/show/1"}')


@pytest.mark.parametrize(
    "packed",
    [
        gzip.compress(b"[" * 100_000),
        gzip.compress(b'{"a":' * 100_000),
        gzip.compress(b"{},"),
        ANSWER[:-12],
        ANSWER[:12] + b"\xff" * 8 + ANSWER[20:],
        b"\x1f\x8b",
        b"no gzip",
    ],
    ids=["brackets", "objects", "no JSON", "cut", "damaged", "two bytes", "other"],
)
def test_a_damaged_answer_is_no_page(packed: bytes) -> None:
    assert refused(packed).kind.code == "format-invalid"


def test_an_answer_that_would_take_too_much_memory_is_not_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def parse(text: bytes) -> object:
        raise AssertionError("it was parsed")

    monkeypatch.setattr(page_check, "MEMORY_BYTES", 1000)
    monkeypatch.setattr(page_check.json, "loads", parse)
    assert refused(gzip.compress(b"[]," * 100)).kind.code == "format-invalid"


def refused(packed: bytes) -> LeadlineError:
    text = base64.b64encode(packed).decode()
    page = (
        '<meta name="generator" content="Leadline 0.2.0">\n<script type="text/plain" '
        f'id="download-1" data-name="x" data-type="application/json">{text}</script>\n'
    )
    with pytest.raises(LeadlineError) as error:
        read_page("page.html", page)
    return error.value
