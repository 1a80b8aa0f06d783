"""`leadline site`: a folder of archives as pages, and whose files it touches."""

from __future__ import annotations

import json
import os
import re
import shutil
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

from leadline.cli.main import main
from leadline.cli.site_folder import SiteFolder
from tests.cli.conftest import Leadline, refused
from tests.conftest import RECORDED
from tests.hostile_texts import DIRECTIONS, ESCAPES, FORMULAS

LINK = re.compile(r'<a href="([^"#]+)"')


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the same four cells, and one of another target."""
    folder = tmp_path_factory.mktemp("archives")
    given = ("--profile", "quick", "--repeats", "1", "--runtime", "2s", "--ramp", "0")
    rest = ("--size", "64M", "--no-prefill", "--quiet", "--replay", str(RECORDED))
    for number, (name, target) in enumerate((("a", "disk"), ("b", "disk"), ("c", "other"))):
        (folder / target).mkdir(exist_ok=True)
        where = ("--target", f"{target}=dir:{folder / target}", "--name", name)
        assert main(["run", *given, *where, *rest, "--runs", str(folder / "runs")]) < 2
        (made,) = (folder / "runs").glob(f"perf-*-{name}")
        _rename(made, f"run-{name}", f"2026-11-2{number}T12:00:00+00:00")
    return folder / "runs"


def _rename(archive: Path, name: str, created_at: str) -> Path:
    """The archive under another name and time, unsealed."""
    manifest = archive / "manifest.json"
    record = json.loads(manifest.read_text("utf-8"))
    record |= {"run": name, "created_at": created_at, "seal": ""}
    manifest.write_text(json.dumps(record), "utf-8")
    return archive.rename(archive.with_name(name))


@pytest.fixture
def runs(archives: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(archives, tmp_path / "runs"))


@pytest.fixture
def public(tmp_path: Path) -> Path:
    return tmp_path / "public"


def _names(public: Path) -> list[str]:
    return sorted(path.name for path in public.iterdir())


def _append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def _state(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_ino, path.read_bytes()) for path in folder.iterdir()}


def test_an_index_a_page_of_each_run_and_comparisons_of_runs_with_common_cells(
    leadline: Leadline, runs: Path, public: Path
) -> None:
    said = leadline("site", runs, "-o", public)
    assert (said.status, said.out, said.err) == (0, f"{public / 'index.html'}\n", "")
    pages = [name for name in _names(public) if name.endswith(".html")]
    assert len(pages) == 5
    assert {"index.html", "run-run-a.html", "run-run-b.html", "run-run-c.html"} < set(pages)
    (comparison,) = (name for name in pages if name.startswith("compare-run-b-against-run-a-"))
    index = (public / "index.html").read_text("utf-8")
    assert set(LINK.findall(index)) == set(pages) - {"index.html"}
    assert f'href="{comparison}"' in index
    assert "3 runs, 1 comparison" in index
    for page in pages:
        said = leadline("verify", public / page)
        assert (said.status, said.out.splitlines()[-1]) == (0, "ok"), said.out + said.err


def test_pages_are_those_of_report(leadline: Leadline, runs: Path, public: Path) -> None:
    leadline("site", runs, "-o", public)
    page = public.parent / "page.html"
    leadline("report", "run-a", "-o", page)
    assert (public / "run-run-a.html").read_bytes() == page.read_bytes()
    page.unlink()
    leadline("report", "run-a", "run-b", "-o", page)
    (comparison,) = public.glob("compare-*.html")
    assert comparison.read_bytes() == page.read_bytes()


def test_a_number_changed_in_the_index_is_found(
    leadline: Leadline, runs: Path, public: Path
) -> None:
    leadline("site", runs, "-o", public)
    index = public / "index.html"
    index.write_text(index.read_text("utf-8").replace("20,130", "20,131"), "utf-8")
    said = leadline("verify", index)
    assert said.status == 1
    assert "20,131" in said.out


def test_a_folder_without_an_archive(leadline: Leadline, tmp_path: Path, public: Path) -> None:
    for folder in ("missing", "empty", "others"):
        if folder != "missing":
            (tmp_path / folder).mkdir()
        if folder == "others":
            (tmp_path / folder / "notes.txt").write_text("mine")
            (tmp_path / folder / "sub").mkdir()
        assert folder in refused(
            leadline("site", tmp_path / folder, "-o", public), 2, "run-not-found"
        )
    assert not public.exists()


def test_a_damaged_archive_is_named_and_the_rest_is_made(
    leadline: Leadline, runs: Path, public: Path
) -> None:
    (runs / "run-a" / "plan.json").write_text("{")
    said = leadline("site", runs, "-o", public)
    assert said.status == 1
    assert said.err == "no page: run-a: plan.json is not JSON\n"
    index = unescape((public / "index.html").read_text("utf-8"))
    assert "1 archive cannot be read" in index
    assert "plan.json is not JSON" in index
    assert [name for name in _names(public) if name.endswith(".html")] == [
        "index.html",
        "run-run-b.html",
        "run-run-c.html",
    ]
    assert leadline("verify", public / "index.html").status == 0


@pytest.mark.parametrize("victim", ["trial.json", "manifest.json"])
def test_a_damaged_record_of_a_trial_or_of_the_archive(
    leadline: Leadline, runs: Path, public: Path, victim: str
) -> None:
    path = next((runs / "run-b").rglob(victim))
    path.write_bytes(path.read_bytes()[:40])
    said = leadline("site", runs, "-o", public)
    assert said.status == 1
    assert f"no page: run-b: {victim} is not JSON" in said.err
    assert "run-run-a.html" in _names(public)
    assert "run-run-b.html" not in _names(public)


def test_layers_of_a_target_that_the_plan_lacks(
    leadline: Leadline, runs: Path, public: Path
) -> None:
    plan = runs / "run-a" / "plan.json"
    plan.write_text(plan.read_text("utf-8").replace('"disk"', '"disc"'), "utf-8")
    said = leadline("site", runs, "-o", public)
    assert (said.status, said.err) == (0, "")
    page = unescape((public / "run-run-a.html").read_text("utf-8"))
    assert "'disk' has layers, and the plan lacks that target" in page


def test_every_archive_damaged(leadline: Leadline, runs: Path, public: Path) -> None:
    for archive in runs.iterdir():
        (archive / "plan.json").unlink()
    assert leadline("site", runs, "-o", public).status == 1
    assert _names(public) == ["index.html", "leadline-site.json"]
    assert leadline("verify", public / "index.html").status == 0


def test_an_archive_that_is_not_as_sealed_has_a_page_that_says_so(
    leadline: Leadline, runs: Path, public: Path
) -> None:
    _append(next((runs / "run-c").rglob("fio.json")))
    said = leadline("site", runs, "-o", public)
    assert (said.status, said.err) == (0, "")
    assert "run-c" in next(
        line
        for line in (public / "index.html").read_text("utf-8").splitlines()
        if "not as sealed, by checksum or number" in line
    )
    assert "NOT intact" in (public / "run-run-c.html").read_text("utf-8")


def test_runs_with_nothing_in_common(leadline: Leadline, runs: Path, public: Path) -> None:
    shutil.rmtree(runs / "run-b")
    assert leadline("site", runs, "-o", public).status == 0
    assert not list(public.glob("compare-*"))
    assert "2 runs; no two of them have a cell in common" in (public / "index.html").read_text()


def test_files_of_others_are_kept(leadline: Leadline, runs: Path, public: Path) -> None:
    public.mkdir()
    (public / "notes.txt").write_text("mine")
    assert leadline("site", runs, "-o", public).status == 0
    assert leadline("site", runs, "-o", public).status == 0
    assert (public / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["index.html", "run-run-b.html"])
def test_a_file_of_the_user_is_not_overwritten_without_force(
    leadline: Leadline, runs: Path, public: Path, name: str
) -> None:
    public.mkdir()
    (public / name).write_text("mine")
    assert name in refused(leadline("site", runs, "-o", public), 2, "output-unwritable")
    assert _names(public) == [name]
    assert (public / name).read_text() == "mine"
    assert leadline("site", runs, "-o", public, "--force").status == 0
    assert "<title>" in (public / name).read_text("utf-8")


def test_a_page_that_was_changed_is_not_overwritten(
    leadline: Leadline, runs: Path, public: Path
) -> None:
    leadline("site", runs, "-o", public)
    page = public / "run-run-a.html"
    page.write_text(page.read_text("utf-8").replace("<h1>", "<h1>My remark: "), "utf-8")
    before = _state(public)
    said = refused(leadline("site", runs, "-o", public), 2, "output-unwritable")
    assert "was changed since" in said
    assert _state(public) == before


def test_only_pages_of_changed_archives_are_made_again(
    leadline: Leadline, runs: Path, public: Path
) -> None:
    leadline("site", runs, "-o", public)
    before = _state(public)
    assert leadline("site", runs, "-o", public).status == 0
    after = _state(public)
    made = {name for name in after if after[name][0] != before[name][0]}
    assert made == {"index.html", "leadline-site.json"}
    assert {name: content for name, (_, content) in after.items()} == {
        name: content for name, (_, content) in before.items()
    }
    _append(next((runs / "run-c").rglob("fio.json")))
    leadline("site", runs, "-o", public)
    changed = _state(public)
    assert changed["run-run-c.html"][1] != after["run-run-c.html"][1]
    assert changed["run-run-a.html"][0] == after["run-run-a.html"][0]


def test_another_margin_makes_every_page_again(
    leadline: Leadline, runs: Path, public: Path
) -> None:
    leadline("site", runs, "-o", public)
    assert leadline("site", runs, "-o", public, "--band", "20%").status == 0
    (comparison,) = public.glob("compare-*.html")
    assert "equivalence margin 20 %" in comparison.read_text("utf-8")
    assert leadline("verify", public / "index.html").status == 0


def test_pages_of_archives_that_are_gone_are_removed(
    leadline: Leadline, runs: Path, public: Path
) -> None:
    leadline("site", runs, "-o", public)
    shutil.rmtree(runs / "run-b")
    assert leadline("site", runs, "-o", public).status == 0
    assert _names(public) == [
        "index.html",
        "leadline-site.json",
        "run-run-a.html",
        "run-run-c.html",
    ]


def test_the_page_of_an_archive_that_was_damaged_since_stays(
    leadline: Leadline, runs: Path, public: Path
) -> None:
    leadline("site", runs, "-o", public)
    page = (public / "run-run-a.html").read_bytes()
    (runs / "run-a" / "plan.json").write_text("{")
    for _ in range(2):
        assert leadline("site", runs, "-o", public).status == 1
        assert (public / "run-run-a.html").read_bytes() == page
    assert "run-run-a.html" not in (public / "index.html").read_text("utf-8")


def test_a_site_that_was_interrupted_is_written_again(
    leadline: Leadline, runs: Path, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    write = SiteFolder.write

    def stop_at_the_third(self: SiteFolder, name: str, content: bytes) -> None:
        written.append(name)
        if len(written) == 3:
            (self.path / ".leadline-site.new").write_bytes(content[:100])
            raise KeyboardInterrupt
        write(self, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(SiteFolder, "write", stop_at_the_third)
        assert leadline("site", runs, "-o", public).status == 130
    assert leadline("site", runs, "-o", public).status == 0
    assert len(_names(public)) == 6


def test_a_link_in_the_place_of_a_page_is_not_followed(
    leadline: Leadline, runs: Path, public: Path
) -> None:
    leadline("site", runs, "-o", public)
    outside = public.parent / "outside.html"
    (public / "run-run-a.html").replace(outside)
    kept = outside.read_bytes()
    (public / "run-run-a.html").symlink_to(outside)
    refused(leadline("site", runs, "-o", public), 2, "output-unwritable")
    assert leadline("site", runs, "-o", public, "--force").status == 0
    assert outside.read_bytes() == kept
    assert not (public / "run-run-a.html").is_symlink()


@pytest.mark.parametrize(
    "record", ["", "{}", '{"schema": "other"}', "null", '{"files": {"../outside.html": ""}}']
)
def test_a_record_of_something_else_is_refused(
    leadline: Leadline, runs: Path, public: Path, record: str
) -> None:
    public.mkdir()
    outside = public.parent / "outside.html"
    outside.write_text("mine")
    text = record
    if "files" in record:
        given = json.loads(record) | {"schema": "leadline/site-record/1", "version": "0"}
        text = json.dumps(given)
    (public / "leadline-site.json").write_text(text)
    refused(leadline("site", runs, "-o", public), 2, "format-invalid")
    assert outside.read_text() == "mine"
    assert _names(public) == ["leadline-site.json"]


def test_folders_that_cannot_be_written(
    leadline: Leadline, runs: Path, public: Path, tmp_path: Path
) -> None:
    into = tmp_path / "no" / "such"
    refused(leadline("site", runs, "-o", into), 2, "output-unwritable")
    said = refused(leadline("site", runs, "-o", runs / "run-a"), 2, "output-unwritable")
    assert "is an archive" in said
    (public).write_text("a file")
    assert leadline("site", runs, "-o", public).status == 2
    assert public.read_text() == "a file"


@pytest.mark.thorough
def test_hostile_and_long_names(
    leadline: Leadline, archives: Path, tmp_path: Path, public: Path
) -> None:
    """Names of folders, runs and targets; every link of the index leads to a file next to it."""
    runs = tmp_path / "runs"
    texts = [*ESCAPES.values(), *DIRECTIONS.values(), *FORMULAS.values()]
    texts += ["<script>alert(1)</script>", '" onclick="x', "A", "a", "x" * 300, "con", ".."]
    for number, text in enumerate(texts):
        copied = Path(shutil.copytree(archives / "run-a", runs / f"copy-{number}"))
        for path in copied.rglob("*.json"):
            written = path.read_text("utf-8")
            path.write_text(written.replace('"disk"', json.dumps(text)), "utf-8")
        made = _rename(copied, f"copy-{number}", f"2026-11-01T00:{number:02}:00+00:00")
        folder = re.sub(r"[/\0]", "_", text).encode()[:200].decode("utf-8", "ignore")
        if folder not in ("", ".", ".."):
            made.rename(runs / f"{folder}{number}")
    said = leadline("site", runs, "-o", public)
    assert said.status == 0, said.err
    index = (public / "index.html").read_text("utf-8")
    assert "<script>alert" not in index
    assert "\x1b" not in index
    links = LINK.findall(index)
    assert len(links) >= len(texts) - 3
    for link in links:
        assert re.fullmatch(r"(run|compare)-[a-z0-9._-]+\.html", link)
        assert (public / unquote(link)).is_file()
    assert all(len(os.fsencode(name)) < 255 for name in _names(public))
    assert len({name.lower() for name in _names(public)}) == len(_names(public))


def test_an_imported_study_of_two_clusters(
    leadline: Leadline, tmp_path: Path, public: Path
) -> None:
    study = RECORDED.parent / "imports" / "table" / "multizone-vs-singlezone.csv"
    assert leadline("import", "table", study, "--run", "study").status in (0, 1)
    assert leadline("site", tmp_path / "runs", "-o", public).status == 0
    assert len(list(public.glob("compare-*.html"))) == 1
    assert leadline("verify", public / "index.html").status == 0
