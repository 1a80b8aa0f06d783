"""`leadline --help` is quick because it imports nothing that only a verb needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize("arguments", [["clean"], ["list"], ["show"]])
def test_no_client_of_kubernetes_is_imported_without_need(
    arguments: list[str], tmp_path: Path
) -> None:
    code = CODE.format(arguments=arguments, heavy=("lightkube", "httpx2"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "LEADLINE_RUNS": str(tmp_path)},
    )
    assert done.stderr.splitlines()[-1] == "[]"


def test_models_and_pages_are_imported_for_runs_that_have_them() -> None:
    """`verify` reads no inventory; a run without load levels has no study of scaling."""
    run = Path(__file__).parents[1] / "recorded" / "version-0.2" / "perf-20261123-133213-format-1"
    inventories = ("leadline.inventory.system", "leadline.inventory.kubernetes.models")
    studies = (
        "leadline.analysis.scaling.study",
        "leadline.analysis.bottleneck.suspects",
        "leadline.report.pages.scaling.page",
        "leadline.report.pages.comparison.page",
    )
    code = CODE.format(arguments=["verify", str(run)], heavy=inventories)
    code += CODE.format(arguments=["show", str(run)], heavy=studies)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["[]", "[]"]


def test_every_verb_has_its_file_a_summary_and_an_example() -> None:
    import click

    group = cli
    assert isinstance(group, Verbs)
    with click.Context(group) as context:
        for verb in VERBS:
            command = group.get_command(context, verb)
            assert command is not None
            assert "Example:" in (command.help or ""), verb
