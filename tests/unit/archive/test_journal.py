"""Journals: every damaged byte shows, a torn last line does not."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from leadline.archive.journal import JournalFile, parse_journal
from leadline.archive.records import Created

ENTRIES = tuple(
    Created(target="a", path=f"/mnt/leadline-perf-{number}", token=f"{number:016x}")
    for number in range(3)
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    journal = JournalFile(tmp_path / "created.jsonl")
    for entry in ENTRIES:
        journal.append(entry)
    journal.close()
    return tmp_path / "created.jsonl"


def read(content: bytes, *, unsealed: bool = False) -> tuple[tuple[Created, ...], tuple[int, ...]]:
    """The records, and the numbers of the damaged lines."""
    journal = parse_journal(content, unsealed=unsealed)
    entries = tuple(entry for _, entry in journal.entries(Created))
    return entries, journal.faults(Created)


def test_what_was_written_is_read(path: Path) -> None:
    assert read(path.read_bytes()) == (ENTRIES, ())
    assert read(b"") == ((), ())


def test_every_changed_byte_shows_and_no_line_before_it_is_lost(path: Path) -> None:
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    for at in range(len(content)):
        for other in {0, 0x0A, 0x20, 0x7D, content[at] ^ 1, content[at] ^ 0x80} - {content[at]}:
            entries, damaged = read(content[:at] + bytes([other]) + content[at + 1 :])
            number = content[:at].count(b"\n")
            assert damaged, f"byte {at} as {other:#x}"
            assert damaged[0] == number + 1
            assert entries[:number] == ENTRIES[:number]
    assert len(lines) == 3


def test_a_line_that_is_removed_or_added_shows(path: Path) -> None:
    first, second, third = path.read_bytes().splitlines(keepends=True)
    assert read(first + third)[1] == (2,)
    assert read(second + third)[1] == (1, 2)
    invented = Created(target="a", path="/home/user", token="").model_dump_json().encode()
    for content in (first + invented + b"\n" + second, first + second + third + invented + b"\n"):
        entries, damaged = read(content)
        assert damaged
        assert len(entries) >= 3


@pytest.mark.parametrize("unsealed", [False, True])
def test_a_torn_last_line_is_left_out_and_stays_harmless(path: Path, unsealed: bool) -> None:
    content = path.read_bytes()
    begin = content.rindex(b"\n", 0, -1) + 1
    for end in range(begin, len(content) - 1):
        assert read(content[:end], unsealed=unsealed) == (ENTRIES[:2], ()), end
    # Without its line break alone it is whole.
    assert read(content[:-1], unsealed=unsealed) == (ENTRIES, ())
    path.write_bytes(content[: begin + 20])
    journal = JournalFile(path)
    journal.append(ENTRIES[2])
    journal.close()
    entries, damaged = read(path.read_bytes(), unsealed=unsealed)
    assert (entries, damaged) == (ENTRIES, ())
    assert journal.lines == 4


def test_lines_of_earlier_versions_have_no_seal(path: Path) -> None:
    plain = b"".join(entry.model_dump_json().encode() + b"\n" for entry in ENTRIES)
    assert read(plain, unsealed=True) == (ENTRIES, ())
    assert read(plain)[1] == (1, 2, 3)
    assert read(plain.replace(b'"path"', b'"pat\x00"', 1), unsealed=True)[1] == (1,)
    # After the first line with a seal each needs one.
    path.write_bytes(plain)
    journal = JournalFile(path)
    journal.append(ENTRIES[0])
    journal.close()
    mixed = path.read_bytes()
    assert read(mixed, unsealed=True) == ((*ENTRIES, ENTRIES[0]), ())
    assert read(mixed + plain, unsealed=True)[1] == (5, 6, 7)
    assert read(mixed.replace(b"perf-1", b"perf-7", 1), unsealed=True)[1] == (4,)


def test_a_full_disk_leaves_a_line_that_the_next_one_vouches_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, room = JournalFile(path), [30]
    write = os.write

    def fill(handle: int, content: bytes) -> int:
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, content[: room.pop()])

    with monkeypatch.context() as full:
        full.setattr(os, "write", fill)
        with pytest.raises(OSError, match="No space"):
            journal.append(ENTRIES[0])
    journal.append(ENTRIES[1])
    journal.close()
    assert read(path.read_bytes()) == ((*ENTRIES, ENTRIES[1]), ())


def test_a_backup_of_hard_links_keeps_what_it_has(path: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.jsonl"
    backup.hardlink_to(path)
    content = backup.read_bytes()
    journal = JournalFile(path)
    journal.append(ENTRIES[0])
    journal.close()
    assert backup.read_bytes() == content
    assert read(path.read_bytes()) == ((*ENTRIES, ENTRIES[0]), ())
