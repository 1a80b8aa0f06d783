"""Plain technical English: words that Leadline's texts do not use, with what they use instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

# Word -> the field's term. Whole words, whatever their case.
WORDS = {
    r"told|tells?|telling": "report, show, state, distinguish; unknown",
    r"reckon\w*": "compute, estimate",
    r"lest": "so that ... not",
    r"nobody|somebody|anybody('s)?": "no user, a user, untrusted",
    r"wherever": "in every place that",
    r"speaks? of|spoken of": "describe, name",
    r"(one )?of (ours|theirs)": "created by Leadline; foreign",
    r"cannot be told|told apart": "inconclusive, a tie",
    r"comes? about": "is computed, happens",
    r"beside": "next to, with, in addition to",
    r"doubts?|doubted|doubtful": "finding",
    r"throw-away": "ephemeral",
    r"carr(y|ies|ied|ying) (a plan )?out": "run",
    r"carr(y|ies|ied|ying) out": "run",
    r"strangers?('s)?": "untrusted, unknown user",
    r"in vain": "without effect, should_abort",
    r"complain(s|ts?|ed)?": "error line",
    r"of the moment": "ephemeral, current",
    r"arithmetic closes": "agrees with, accounts for",
    r"possible ranks?": "rank interval",
    r"a bit|whatsoever|thereof|therein|thereby|hence": "(leave it out)",
}
PATTERN = re.compile("|".join(rf"\b(?:{word})\b" for word in WORDS), re.IGNORECASE)
SOURCES = ("src", "docs", "deploy", "plans", "scripts")
ENDINGS = {".py", ".sh", ".c", ".html", ".css", ".js", ".yaml", ".md", ".txt"}
# Pages of recorded runs, and names of code with a reason each.
NOT_READ = ("docs/examples/", "scripts/vulture_whitelist.py")
# Published keys of JSON answers stay as they are.
KEYS = re.compile(r"\bdoubts?(?=: (list\[str\]|str \| None)$|=)|`doubt`")


def texts() -> Iterator[Path]:
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile"):
        yield ROOT / name
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in ENDINGS and path.is_file():
                name = path.relative_to(ROOT).as_posix()
                if not name.startswith(NOT_READ):
                    yield path


def read(path: Path) -> str:
    """The text of a file; the changelog without its quotes, which are old names."""
    text = path.read_text("utf-8")
    if path.name == "CHANGELOG.md":
        return re.sub(r'"[^"]*"', lambda quote: "\n" * quote[0].count("\n"), text)
    return text


def found_in(text: str) -> Iterator[tuple[int, str]]:
    """Line number and word of each word that is not used."""
    for number, line in enumerate(text.splitlines(), start=1):
        for match in PATTERN.finditer(KEYS.sub("", line)):
            yield number, match[0]


def test_no_text_uses_a_word_of_the_list() -> None:
    lines = [
        f"{path.relative_to(ROOT)}:{number}: {word}"
        for path in texts()
        for number, word in found_in(read(path))
    ]
    assert not lines, f"{len(lines)} words of the list:\n" + "\n".join(lines[:40])


@pytest.mark.parametrize(
    "text", ["nothing is told", "a stranger's text", "Nobody knows", "The arithmetic closes"]
)
def test_the_list_is_recognised(text: str) -> None:
    assert list(found_in(text))


def test_every_module_begins_with_one_sentence() -> None:
    """The first line of a module is a whole sentence of its own."""
    for path in sorted((ROOT / "src" / "leadline").rglob("*.py")):
        first = path.read_text("utf-8").split("\n", 1)[0]
        assert re.fullmatch(r'"""[^"]+[.?]("""|$)', first), f"{path}: {first}"
