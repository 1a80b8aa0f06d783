"""Where JSON begins and ends in what fio and its users leave."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

import leadline.json_bins
from leadline.formats.fio.json_output import parse_fio_documents, parse_fio_json
from leadline.formats.result import FormatError
from leadline.inventory.redaction import redact_document
from leadline.json_bins import COST
from tests.conftest import RECORDED

BINS = re.compile(rb'"bins" : \{')
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


@pytest.fixture
def any_file_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadline.json_bins, "SMALL_BYTES", 0)


REAL = sorted(RECORDED.glob("*/fio.json"))


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.parent.name)
def test_a_large_file_gives_the_figures_of_a_small_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = path.read_bytes()
    expected = parse_fio_documents(content)
    monkeypatch.setattr(leadline.json_bins, "SMALL_BYTES", 0)
    assert len(leadline.json_bins.set_aside(content)[1]) > 1
    assert parse_fio_documents(content) == expected
    # Behind noise, and several in a file, they are read by the slower decoder.
    twice = parse_fio_documents(b"{ no JSON }" + content + b"and" + content)
    assert [one.jobs for one in twice] == [expected[0].jobs] * 2


@pytest.mark.usefixtures("any_file_is_large")
def test_errors_in_a_large_file_have_their_line() -> None:
    cut = MIXED[: MIXED.rindex(b'"usr_cpu"')]
    with pytest.raises(FormatError) as found:
        parse_fio_json(cut)
    assert found.value.condition == "truncated-result"
    assert found.value.context[0].startswith(f"line {cut.count(10) + 1}, ")


@pytest.mark.usefixtures("any_file_is_large")
@pytest.mark.parametrize("bin_", [b'"2000":5,"2000":6,', b"2000,", b'"":1,'])
def test_invalid_bins_of_a_large_file_are_noted(bin_: bytes) -> None:
    output = parse_fio_json(BINS.sub(b'"bins" : {' + bin_, MIXED, count=1))
    (note,) = [note for note in output.notes if note.where.endswith(".bins")]
    assert "histogram not read" in note.fact


@pytest.mark.usefixtures("any_file_is_large")
def test_a_secret_in_a_large_file_is_removed_and_nothing_else() -> None:
    secret = MIXED.replace(b'"group_reporting"', b'"password": "hunter22", "group_reporting"')
    assert secret != MIXED
    clean = redact_document(secret)
    assert clean == secret.replace(b"hunter22", b"[redacted:secret-name]")
    assert redact_document(MIXED) is MIXED


@pytest.mark.usefixtures("any_file_is_large")
def test_the_cost_of_bins_is_that_of_their_arrays() -> None:
    """In one object of Python each would take many times as much."""
    bins = b"".join(b'"%d" : 3,\n' % number for number in range(2000, 100_000))
    large = BINS.sub(b'"bins" : {' + bins, MIXED)
    decoded = replace(COST, apart=None).compute(large)
    assert COST.compute(large) < decoded / 2
