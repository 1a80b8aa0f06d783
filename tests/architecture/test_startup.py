"""`leadline --help` is quick because it imports nothing that only a verb needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from leadline.cli.main import VERBS, Verbs, cli

HEAVY = ("pydantic", "numpy", "orjson", "yaml", "rich", "jinja2", "pyarrow")
CODE = """
import sys
from leadline.cli.main import main
main({arguments!r})
print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_nothing_heavy_is_imported(arguments: list[str]) -> None:
    code = CODE.format(arguments=arguments, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr.strip() == "[]"


def test_every_verb_has_its_file_a_summary_and_an_example() -> None:
    import click

    group = cli
    assert isinstance(group, Verbs)
    with click.Context(group) as context:
        for verb in VERBS:
            command = group.get_command(context, verb)
            assert command is not None
            assert "Example:" in (command.help or ""), verb
