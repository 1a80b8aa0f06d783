"""Packed inputs: what is in them, what is refused, and in what bounds."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from leadline.importing import unpacking
from leadline.importing.unpacking import Unpacker

TEXT = b'{"fio version": "fio-3.33"}\n'
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


@pytest.fixture
def unpacker(tmp_path: Path) -> Unpacker:
    folder = tmp_path / "unpacked"
    folder.mkdir()
    return Unpacker(folder=folder)


def unpacked(unpacker: Unpacker, path: Path) -> dict[str, bytes]:
    return {name: file.read_bytes() for name, file in unpacker.unpack(path.name, path)}


def reasons(unpacker: Unpacker) -> dict[str, str]:
    assert all(refused.expected for refused in unpacker.refused)
    return {refused.file: refused.reason for refused in unpacker.refused}


def tar(members: list[tarfile.TarInfo], content: bytes = TEXT, mode: str = "w") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        for member in members:
            member.size = len(content) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


@pytest.mark.parametrize("ending", PACK)
def test_a_compressed_file_has_its_name_without_the_ending(
    unpacker: Unpacker, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"run_stats.log.{ending}"
    path.write_bytes(PACK[ending](TEXT) + PACK[ending](TEXT))
    assert unpacked(unpacker, path) == {"run_stats.log": TEXT * 2}
    assert not unpacker.refused


def test_a_plain_file_stays_where_it_is(unpacker: Unpacker, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(TEXT)
    assert list(unpacker.unpack("a.json", path)) == [("a.json", path)]


@pytest.mark.parametrize("ending", PACK)
def test_a_compressed_tar_with_packed_files_in_it(
    unpacker: Unpacker, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"study.tar.{ending}"
    path.write_bytes(PACK[ending](tar([member("run_1/a.json.gz")], gzip.compress(TEXT))))
    assert unpacked(unpacker, path) == {"study/run_1/a.json": TEXT}


def test_a_zip(unpacker: Unpacker, tmp_path: Path) -> None:
    path = tmp_path / "study.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rep3/a.json", TEXT)
        archive.writestr("../b.json", TEXT)
        archive.writestr("/c.json", TEXT)
        link = zipfile.ZipInfo("d.json")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert unpacked(unpacker, path) == {"study.zip/rep3/a.json": TEXT}
    assert reasons(unpacker) == {
        "study.zip/../b.json": "has a path with '..'",
        "study.zip//c.json": "has an absolute path",
        "study.zip/d.json": "is a link, which is not followed",
    }


def test_members_that_lead_out_of_a_tar_are_refused_and_the_rest_read(
    unpacker: Unpacker, tmp_path: Path
) -> None:
    path = tmp_path / "study.tar"
    members = [
        *(member("../up.json"), member("/absolute.json"), member("a/../../b.json")),
        *(member("link", tarfile.SYMTYPE, "/etc/passwd"), member("hard", tarfile.LNKTYPE, "x")),
        *(member("fifo", tarfile.FIFOTYPE), member("folder", tarfile.DIRTYPE)),
        member("good.json"),
    ]
    path.write_bytes(tar(members))
    assert unpacked(unpacker, path) == {"study/good.json": TEXT}
    assert sorted(reasons(unpacker).values()) == sorted(
        [
            *("has a path with '..'", "has an absolute path", "has a path with '..'"),
            *("is a link, which is not followed", "is a link, which is not followed"),
            "is not a regular file",
        ]
    )
    assert {file.parent for file in unpacker.folder.rglob("*")} == {unpacker.folder}


@pytest.mark.parametrize("ending", PACK)
def test_a_bomb_is_refused_and_leaves_nothing(
    unpacker: Unpacker, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "_SMALL", 1 << 20)
    path = tmp_path / f"bomb.{ending}"
    path.write_bytes(PACK[ending](bytes(32 << 20)))
    assert unpacked(unpacker, path) == {}
    assert "times its" in reasons(unpacker)[path.name]
    assert not list(unpacker.folder.iterdir())


def test_there_is_a_bound_for_all_together(
    unpacker: Unpacker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "MOST_BYTES", 40)
    monkeypatch.setattr(unpacking, "MOST_MEMBERS", 3)
    for name in ("a.gz", "b.gz"):
        (tmp_path / name).write_bytes(gzip.compress(TEXT))
    assert list(unpacked(unpacker, tmp_path / "a.gz")) == ["a"]
    assert unpacked(unpacker, tmp_path / "b.gz") == {}
    assert "with the others" in reasons(unpacker)["b.gz"]
    monkeypatch.undo()
    monkeypatch.setattr(unpacking, "MOST_MEMBERS", 3)
    path = tmp_path / "many.tar"
    path.write_bytes(tar([member(f"{number}", tarfile.DIRTYPE) for number in range(9)]))
    assert unpacked(unpacker, path) == {}
    assert reasons(unpacker)["many.tar"] == "holds more than 3 files with the others"


def test_packed_too_often(unpacker: Unpacker, tmp_path: Path) -> None:
    content = TEXT
    for _ in range(5):
        content = gzip.compress(content)
    path = tmp_path / "a.gz"
    path.write_bytes(content)
    assert unpacked(unpacker, path) == {}
    assert list(reasons(unpacker).values()) == ["is packed more than 3 times"]


@pytest.mark.parametrize("ending", [*PACK, "tar", "zip"])
def test_what_is_cut_or_damaged_is_refused_by_name(
    unpacker: Unpacker, tmp_path: Path, ending: str
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.json", TEXT * 9)
    whole = {
        "tar": tar([member("a.json")], TEXT * 99),
        "zip": packed.getvalue(),
        **{name: pack(bytes(range(256)) * 99) for name, pack in PACK.items()},
    }[ending]
    path = tmp_path / f"a.{ending}"
    path.write_bytes(whole[: 1500 if ending == "tar" else len(whole) // 2])
    assert unpacked(unpacker, path) == {}
    assert list(reasons(unpacker)) == [path.name]


def test_a_refused_member_is_not_read_through_without_end(
    unpacker: Unpacker, tmp_path: Path
) -> None:
    path = tmp_path / "a.tar.gz"
    huge = member("../huge.json")
    huge.size = 1 << 40
    path.write_bytes(gzip.compress(huge.tobuf()))
    assert unpacked(unpacker, path) == {}
    assert "with the others" in reasons(unpacker)["a.tar.gz"]


def test_a_header_of_a_tar_cannot_fill_the_memory(unpacker: Unpacker, tmp_path: Path) -> None:
    header = member("long", tarfile.XHDTYPE)
    header.size = 400 << 20
    path = tmp_path / "a.tar"
    path.write_bytes(header.tobuf() + bytes(1024))
    assert unpacked(unpacker, path) == {}
    assert "larger than any is" in reasons(unpacker)["a.tar"]
