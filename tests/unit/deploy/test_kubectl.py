"""`kubectl leadline`: kubectl finds it, its name is right, and kubectl's options are understood."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from leadline.cli.kubectl import PROGRAM, WITH_VERBS, behind_the_verb
from leadline.cli.main import VERBS, cli, main

NEEDS_KUBECTL = pytest.mark.skipif(
    not shutil.which("kubectl"), reason="no kubectl: that it finds its plugin does NOT get tested"
)


@pytest.mark.parametrize(
    ("given", "moved"),
    [
        ("", ""),
        ("--help", "--help"),
        ("run plan.yaml --context a", "run plan.yaml --context a"),
        ("--context a run plan.yaml", "run --context a plan.yaml"),
        ("--context=a -n b run", "run --context=a -n b"),
        ("--kubeconfig f -n b pools create rep3", "pools create --kubeconfig f -n b rep3"),
        ("--context a", "--context a"),
        ("--context", "--context"),
        ("--context a --help", "--context a --help"),
        ("--version run", "--version run"),
    ],
)
def test_options_of_kubectl_are_moved_behind_the_verb(given: str, moved: str) -> None:
    assert behind_the_verb(given.split()) == moved.split()


def test_which_verbs_have_verbs_of_their_own() -> None:
    with click.Context(cli) as context:
        found = [name for name in VERBS if isinstance(cli.get_command(context, name), click.Group)]
    assert set(found) == set(WITH_VERBS)


def test_errors_name_the_program_as_it_was_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--nope"], program=PROGRAM) == 2
    assert "hint: `kubectl leadline show --help`" in capsys.readouterr().err


@NEEDS_KUBECTL
class TestWithKubectl:
    def _kubectl(self, *words: str) -> subprocess.CompletedProcess[str]:
        scripts = Path(sys.executable).parent
        environment = os.environ | {"PATH": f"{scripts}:{os.environ['PATH']}"}
        return subprocess.run(
            ["kubectl", *words], env=environment, capture_output=True, text=True, timeout=60
        )

    def test_it_is_listed(self) -> None:
        # The status speaks of other folders of PATH, too.
        listed = self._kubectl("plugin", "list").stdout.splitlines()
        assert str(Path(sys.executable).parent / "kubectl-leadline") in listed

    def test_its_help(self) -> None:
        said = self._kubectl("leadline", "--help")
        assert said.returncode == 0
        assert said.stdout.startswith("Usage: kubectl leadline ")

    def test_its_exit_status_comes_through(self) -> None:
        said = self._kubectl("leadline", "--context", "a", "list", "--nope")
        assert said.returncode == 2
        assert said.stderr.startswith("error[usage]: ")
