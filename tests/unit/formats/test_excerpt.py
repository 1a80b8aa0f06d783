"""Quoted output, and output with lines left out, through the importers."""

from __future__ import annotations

import pytest

from fuzz.properties import comparable
from leadline.formats.excerpt import unquote
from leadline.formats.importer import importer
from leadline.formats.result import EngineOutput, FormatError, NoteKind
from tests.conftest import ROOT

IMPORTS = ROOT / "tests" / "recorded" / "imports"
SAMPLES = {
    "fio-json": "fio-json/vc-3.26-bom-odd.json",
    "fio-text": "fio-text/own-3.33-unified-both.txt",
    "kubestr": "kubestr/three-jobs.txt",
    "rbd-bench": "rbd-bench/bench-write.log",
    "rados-bench": "rados-bench/luminous.log",
    "zpool-iostat": "zpool-iostat/zpool_iostat_v_on_rbd.txt",
    "elbencho": "elbencho/mixed-phases.csv",
}


def quoted(content: bytes, mark: bytes) -> bytes:
    lines = content.rstrip(b"\n").removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return b"".join((mark + line).rstrip(b" ") + b"\n" for line in lines)


@pytest.mark.parametrize("mark", [b"> ", b"# ", b"> > "])
@pytest.mark.parametrize(("kind", "file"), SAMPLES.items())
def test_a_quotation_gives_the_same_results(kind: str, file: str, mark: bytes) -> None:
    content = (IMPORTS / file).read_bytes()
    chosen, copy = importer(kind), quoted(content, mark)
    assert chosen.recognises(file, copy)
    expected = chosen.read({file: quoted(content, b"")})
    assert comparable(chosen.read({file: copy})) == comparable(expected)


def test_text_above_a_quotation() -> None:
    mail = b"On Monday, N wrote:\n\n" + quoted((IMPORTS / SAMPLES["kubestr"]).read_bytes(), b"> ")
    assert importer("kubestr").recognises("mail", mail)
    assert [result.target for result in importer("kubestr").read({"mail": mail})] == [
        "fast-rwo"
    ] * 3


@pytest.mark.parametrize(
    "text",
    [b"# a comment\nplain\n", b"plain\n> one line\nplain\n", b"", b"\n\n", b"a > b\n", b"#\nx\n"],
)
def test_what_is_no_quotation_stays_as_it_is(text: bytes) -> None:
    assert unquote(text) == text


@pytest.mark.parametrize("gap", [b"...", b"  [...]", "\u2026".encode(), b"<snip>", b"--- snip ---"])
@pytest.mark.parametrize(
    ("kind", "before"), [("kubestr", b"JobName: write_bw"), ("rbd-bench", b"elapsed:")]
)
def test_lines_that_were_left_out_are_noted(kind: str, before: bytes, gap: bytes) -> None:
    content = (IMPORTS / SAMPLES[kind]).read_bytes()
    place = content.index(before)
    results = importer(kind).read({"it": content[:place] + gap + b"\n" + content[place:]})
    whole = importer(kind).read({"it": content})
    assert [result.workload for result in results] == [result.workload for result in whole]
    output = results[0].output
    assert isinstance(output, EngineOutput)
    line = content.count(b"\n", 0, place) + 1
    (note,) = [note for note in output.notes if "author" in note.fact]
    assert (note.kind, note.where) == (NoteKind.LEFT_OUT, f"line {line}")


def test_figures_that_were_left_out_are_missing_in_sight() -> None:
    content = (IMPORTS / SAMPLES["kubestr"]).read_bytes()
    start = content.index(b"  IOPS=367")
    end = content.index(b"\n\n", start)
    first, second, third = importer("kubestr").read(
        {"it": content[:start] + b"..." + content[end:]}
    )
    assert isinstance(first.output, EngineOutput)
    assert isinstance(third.output, EngineOutput)
    assert isinstance(second.output, FormatError)
    assert second.output.condition == "empty-result"


def test_dots_of_fio_itself_are_no_gap() -> None:
    content = (IMPORTS / "fio-text" / "own-3.33-merged-sections.txt").read_bytes()
    for result in importer("fio-text").read({"it": content}):
        assert isinstance(result.output, EngineOutput)
        assert not [note for note in result.output.notes if "author" in note.fact]
