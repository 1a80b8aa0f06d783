from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.engines.fio.remote import DamagedTransfer, keep_files, unpack

FILES = {"fio.json": b'{"jobs": []}' * 40, "job_iops.log": b"1000, 5, 0, 0\n", "a b.log": b""}


def packed(files: dict[str, bytes], digests: dict[str, bytes] | None = None) -> bytes:
    """As remote_collect.sh packs; `digests` of other contents than those that are sent."""
    lines = [
        f"{hashlib.sha256(content).hexdigest()}  {name}\n"
        for name, content in (files if digests is None else digests).items()
    ]
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, content in {**files, "digests.txt": "".join(lines).encode()}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(written.getvalue(), mtime=0)


def test_whole_files_arrive() -> None:
    assert unpack(packed(FILES)) == FILES


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"sh: 1: cd: can't cd to it",
        packed(FILES)[:-20],
        packed(FILES)[:40],
        gzip.compress(b"", mtime=0),
        gzip.compress(b"no archive at all" * 100, mtime=0),
        packed(FILES, {**FILES, "fio.json": b"another"}),
        packed(FILES, {"fio.json": FILES["fio.json"]}),
        packed(FILES, {**FILES, "more.log": b""}),
        packed({}, FILES),
        packed({"../evil.json": b""}),
        packed({".hidden.x": b""}),
    ],
)
def test_what_is_not_whole_is_refused(content: bytes) -> None:
    with pytest.raises(DamagedTransfer):
        unpack(content)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_byte_that_changed_on_the_way_is_never_taken_for_a_result(where: int, by: int) -> None:
    content = bytearray(packed(FILES))
    content[where % len(content)] ^= by
    try:
        assert unpack(bytes(content)) == FILES  # for instance a time stamp of the packing
    except DamagedTransfer:
        return


@given(st.binary(max_size=200))
def test_any_bytes_are_files_or_refused(content: bytes) -> None:
    try:
        unpack(content)
    except DamagedTransfer:
        return


def test_the_shells_own_pieces_are_no_evidence(tmp_path: Path) -> None:
    keep_files(
        {"fio.json": b"x", "run.sh": b"y", "talk.txt": b"z", "job.fio": b"w"}, tmp_path, "v-1."
    )
    assert [one.name for one in tmp_path.iterdir()] == ["v-1.fio.json"]
