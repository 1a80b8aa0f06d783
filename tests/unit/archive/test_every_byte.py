"""Every change of a byte of a sealed archive or of a page is found, with the name of the file.

`LEADLINE_BYTE_STEP` is the distance of the bytes that are changed (31 in `make test-thorough`, 1,
so every byte, in `make test-deep`).
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.verify import Discrepancy, check_intact, verify
from leadline.errors import ARCHIVE_NEWER, FORMAT_INVALID, LeadlineError
from leadline.report.page_check import read_page
from leadline.report.render.html import open_page
from tests.cli.conftest import Leadline
from tests.conftest import RECORDED

FORMAT_1 = RECORDED.parent / "version-0.2"
RUN, IMPORT = "perf-20261123-133213-format-1", "import-1"
STEP = int(os.environ.get("LEADLINE_BYTE_STEP", "31"))


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FORMAT_1, tmp_path / "runs"))


def files_of(archive: Path) -> list[str]:
    return [*layout.content_files(archive), layout.MANIFEST]


def other(byte: int, chance: random.Random) -> int:
    return byte ^ chance.randint(1, 255)


@contextmanager
def changed(path: Path, content: bytes) -> Iterator[None]:
    """Give a file another content for a moment."""
    kept = path.read_bytes()
    path.write_bytes(content)
    yield
    path.write_bytes(kept)


def names(problems: tuple[Discrepancy, ...]) -> set[str]:
    return {problem.path for problem in problems}


@pytest.mark.thorough
@pytest.mark.parametrize("archive", [RUN, IMPORT])
def test_every_changed_byte_of_every_file_is_found(stored: Path, archive: str) -> None:
    run = Run(stored / archive)
    sealed = run.manifest.files
    assert set(sealed) == set(layout.content_files(run.path))
    chance = random.Random(1)
    count = 0
    for name, digest in sealed.items():
        # The same digests as `verify` uses, one file at a time.
        run.__dict__["manifest"] = run.manifest.model_copy(
            update={"files": {name: digest}, "seal": ""}
        )
        path = run.path / name
        apart = stored / "apart"
        (apart / name).parent.mkdir(parents=True)
        path.rename(apart / name)
        alone = Run(apart)
        alone.__dict__["manifest"] = run.manifest
        assert check_intact(alone) == ()
        content = (apart / name).read_bytes()
        with (apart / name).open("r+b", buffering=0) as stream:
            for at in range(chance.randrange(STEP), len(content), STEP):
                os.pwrite(stream.fileno(), bytes([other(content[at], chance)]), at)
                assert names(check_intact(alone)) == {name}, f"byte {at} of {name}"
                os.pwrite(stream.fileno(), content[at : at + 1], at)
                count += 1
        assert check_intact(alone) == ()
        (apart / name).rename(path)
        shutil.rmtree(apart)
    assert verify(Run(run.path)).ok
    assert count > 60_000 // STEP


@pytest.mark.thorough
def test_every_changed_byte_of_a_manifest_is_found(stored: Path) -> None:
    """No change makes `verify` fail or leaves it content; the seal holds for one content only."""
    chance = random.Random(2)
    path = stored / IMPORT / layout.MANIFEST
    content = path.read_bytes()
    for at in range(len(content)):
        one = content[:at] + bytes([other(content[at], chance)]) + content[at + 1 :]
        with changed(path, one):
            found = verify(Run(path.parent)).problems
            assert layout.MANIFEST in names(found), f"byte {at}: {one[at : at + 1]!r}"
    content = (stored / RUN / layout.MANIFEST).read_bytes()
    assert layout.seal_holds(content)
    for at in range(len(content)):
        one = content[:at] + bytes([other(content[at], chance)]) + content[at + 1 :]
        assert not layout.seal_holds(one), at


@pytest.mark.parametrize(
    "archive", [pytest.param(RUN, marks=[pytest.mark.thorough, pytest.mark.deep]), IMPORT]
)
def test_a_file_that_is_not_as_it_was_is_found(stored: Path, archive: str) -> None:
    """Two bytes changed, one removed, one added, all removed; the file removed and renamed."""
    root = stored / archive
    chance = random.Random(3)
    for name in files_of(root):
        path = root / name
        content = path.read_bytes()
        at = chance.randrange(max(1, len(content)))
        contents = {content[:at] + b"x" + content[at:], content + b"\0", content + b"\n", b""}
        contents |= {content[:at] + content[at + 1 :], content[:-1], content[::-1]}
        for one in contents - {content}:
            with changed(path, one):
                assert name in names(verify(Run(root)).problems), (name, one[:100])
        for place in ("renamed", f".{path.name}"):
            path.rename(path.with_name(place))
            found = names(verify(Run(root)).problems)
            path.with_name(place).rename(path)
            assert name in found
            if place == "renamed" and name != layout.MANIFEST:
                assert str(Path(name).with_name(place)) in found
        with changed(path, content):
            path.chmod(0o444)
            path.chmod(0o644)
    assert verify(Run(root)).ok


@pytest.mark.parametrize("place", ["more.txt", "trials/more.json", "trials/t9-x-1/trial.json"])
def test_a_file_that_was_added_is_found(stored: Path, place: str) -> None:
    path = stored / IMPORT / place
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"{}")
    assert place in names(verify(Run(stored / IMPORT)).problems)


@pytest.mark.thorough
@pytest.mark.parametrize("page", ["run.html", "comparison.html"])
def test_every_changed_byte_of_a_page_is_found(page: str) -> None:
    content = (FORMAT_1 / page).read_bytes()
    assert read_page(page, content.decode()).intact
    chance = random.Random(4)
    for at in range(chance.randrange(STEP), len(content), STEP):
        one = content[:at] + bytes([other(content[at], chance)]) + content[at + 1 :]
        html = one.decode("utf-8", "replace")
        holds = open_page(html)[1]
        # Without a seal the version of the page decides; the rest of the reader takes longer.
        assert holds is False or is_refused(page, html), at
        assert at % 100 or is_refused(page, html), at


def is_refused(name: str, html: str) -> bool:
    """Whether the reader of pages finds the change, or refuses the page with its name."""
    try:
        return not read_page(name, html).intact
    except LeadlineError as error:
        known = error.kind in (FORMAT_INVALID, ARCHIVE_NEWER)
        return known and name in "".join([error.fact, *error.context])


@pytest.mark.parametrize("page", ["run.html", "comparison.html"])
@pytest.mark.parametrize(
    "mark", [b"<style", b"<title>", b"<svg", b'type="application/json">', b"</html>", b"<!-- SHA"]
)
def test_the_verb_finds_a_change_in_every_part_of_a_page(
    leadline: Leadline, tmp_path: Path, page: str, mark: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.report.page_check.__version__", "99")
    content = (FORMAT_1 / page).read_bytes()
    at = content.index(mark) + len(mark) + 9
    copy = tmp_path / page
    copy.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    said = leadline("verify", copy, "--runs", FORMAT_1)
    assert said.status in (1, 2), said.out
    assert page in said.out + said.err
    if said.status == 1:
        assert "problem: the page: its SHA-256 is not the one in its last line" in said.out
