"""What the tests of importers share: recorded files, and ways to spoil them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st

from leadline.formats.importer import Result
from leadline.formats.result import EngineOutput, FormatError, JobResult, Latency, Operation
from tests.conftest import ROOT, SHARED

IMPORTS = ROOT / "tests" / "recorded" / "imports"
_TOKENS = (
    *(b"", b"\x00", b"\xff\xfe", b"\r\n", b"\x1b[31m", b"-1", b"NaN", b"1e308", b"9" * 400),
    *(b"-inf", b",", b"/", b"[" * 3000, b'"', b"\xe2\x80\xa8", b"\n\n", b"1e999999999", b"%s"),
)


def shared(path: str, delivery: str = "public") -> Path:
    """A file of the shared corpus that may be read and not copied."""
    found = SHARED / "corpus" / delivery / "reading-only" / path
    if not found.exists():
        pytest.skip(f"needs ../shared/corpus/{delivery}/reading-only/{path}")
    return found


def spoiled(content: bytes) -> st.SearchStrategy[bytes]:
    """The file cut off, with a byte changed, or with something hostile put in."""
    places = st.integers(0, len(content))
    return st.one_of(
        st.builds(lambda place: content[:place], places),
        st.builds(
            lambda place, byte: content[:place] + bytes([byte]) + content[place + 1 :],
            places,
            st.integers(0, 255),
        ),
        st.builds(
            lambda start, length, token: content[:start] + token + content[start + length :],
            places,
            st.integers(0, 40),
            st.sampled_from(_TOKENS),
        ),
    )


def output_of(result: Result) -> EngineOutput:
    assert isinstance(result.output, EngineOutput)
    return result.output


def job_of(result: Result) -> JobResult:
    (job,) = output_of(result).jobs
    return job


def only(result: Result) -> Operation:
    (operation,) = job_of(result).operations
    return operation


def latency_of(operation: Operation) -> Latency:
    assert operation.total is not None
    return operation.total


def refused(result: Result) -> FormatError:
    assert isinstance(result.output, FormatError)
    return result.output
