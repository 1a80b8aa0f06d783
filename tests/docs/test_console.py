"""The comparison of pages with what is printed: tolerant of figures, of nothing else."""

from __future__ import annotations

import pytest

from tests.docs.console import agrees, commands, with_refused

PAGE = """
```console
$ one
out
$ two
```

```text
$ not a command
```
"""


def test_commands_come_in_order_with_their_output() -> None:
    assert [(one.command, one.output) for one in commands(PAGE)] == [("one", "out\n"), ("two", "")]


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("88 files, 112 numbers", "52 files, 56 numbers"),
        ("mean 48.5 us", "mean 1,200.5 ms"),
        ("a   b\n---- --", "a b\n--- -----"),
        ("first\n...\nlast", "first\nlast"),
        ("first\n...\nlast", "first\n1\n2\nlast"),
        ("at .../bench", "at /tmp/x/bench"),
        ("", "\n"),
    ],
)
def test_agrees(shown: str, printed: str) -> None:
    assert agrees(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("ok", "not ok"),
        ("88 files", "88 pages"),
        ("first\nlast", "first\nmore\nlast"),
        ("first\n...", "last"),
        ("", "unexpected"),
        ("expected", ""),
        ("a\nb", "b\na"),
    ],
)
def test_differs(shown: str, printed: str) -> None:
    assert not agrees(shown, printed)


def test_of_a_run_with_refused_numbers_other_words_are_true() -> None:
    shown = '{\n  "run": "perf-1",\n  "trusted": true,\n...\n[]\nTrue\n'
    printed = '{\n  "run": "perf-1",\n  "trusted": false,\n[\'rate-not-reached\']\nTrue'
    assert agrees(with_refused(shown), printed)
    assert not agrees(shown, printed)
    assert not agrees(with_refused(shown), printed.replace("True", "False"))
