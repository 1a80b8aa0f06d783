"""The Containerfile against what it copies and what runner pods need. That it can be built, and
that what comes out works, is shown in tests/kubernetes/test_deploy.py."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from fnmatch import fnmatch

import pytest

from tests.conftest import ROOT
from tests.kubernetes.images import PROGRAMS


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    base: str
    # (word, rest) in order.
    steps: tuple[tuple[str, str], ...]

    def of(self, word: str) -> list[str]:
        return [rest for found, rest in self.steps if found == word]


def _stages() -> list[Stage]:
    text = (ROOT / "Containerfile").read_text("utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    lines = [line for line in re.sub(r"\\\n", " ", text).splitlines() if line.strip()]
    steps = [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]
    first = next(number for number, (word, _) in enumerate(steps) if word == "FROM")
    assert all(word == "ARG" for word, _ in steps[:first])
    stages: list[Stage] = []
    for word, rest in steps[first:]:
        if word == "FROM":
            base, _, name = rest.split()
            stages.append(Stage(name, base, ()))
        else:
            last = stages[-1]
            stages[-1] = Stage(last.name, last.base, (*last.steps, (word, rest)))
    return stages


BUILD, RUNNER, LEADLINE = _stages()


def _packages(stage: Stage) -> set[str]:
    found: set[str] = set()
    for step in stage.of("RUN"):
        for command in step.split("&&"):
            words = shlex.split(command)
            if words[:2] == ["apt-get", "install"]:
                found.update(word for word in words[2:] if not word.startswith("-"))
    return found


def test_the_last_stage_is_leadline_upon_the_runner() -> None:
    assert [one.name for one in (BUILD, RUNNER, LEADLINE)] == ["build", "runner", "leadline"]
    assert BUILD.base == RUNNER.base == "${BASE}"
    assert LEADLINE.base == "runner"


@pytest.mark.parametrize("stage", [RUNNER, LEADLINE], ids=["runner", "leadline"])
def test_nobody_is_root_at_the_end(stage: Stage) -> None:
    assert stage.of("USER")[-1] == "1000:1000"


def test_what_is_copied_is_there_and_not_kept_out() -> None:
    wanted = {line[1:] for line in _ignored() if line.startswith("!")}
    copied = [word for step in BUILD.of("COPY") for word in step.split()[:-1]]
    assert {"pyproject.toml", "uv.lock", "src"} <= set(copied)
    for path in copied:
        assert (ROOT / path).exists(), path
        assert path in wanted, f"{path} is kept out by .dockerignore"


def test_everything_else_is_kept_out() -> None:
    assert _ignored()[0] == "*"
    wanted = [line[1:] for line in _ignored() if line.startswith("!")]
    assert not any(fnmatch(secret, one) for one in wanted for secret in (".git", "leadline-runs"))


def _ignored() -> list[str]:
    return (ROOT / ".dockerignore").read_text("utf-8").splitlines()


def test_dependencies_are_the_locked_ones() -> None:
    syncs = [step for step in BUILD.of("RUN") if "uv sync" in step]
    assert syncs
    assert all("--frozen" in step and "--no-dev" in step for step in syncs)


@pytest.mark.skipif(
    not shutil.which("dpkg-query"), reason="no Debian: its packages do NOT get looked at"
)
def test_every_program_that_a_runner_pod_needs_is_in_a_package_that_is_installed() -> None:
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${Essential}\n"],
        capture_output=True,
        text=True,
        check=True,
    )
    installed = {line.split()[0] for line in asked.stdout.splitlines() if line.endswith(" yes")}
    installed |= _packages(RUNNER)
    # `sh` and `awk` are links that every Debian has, and belong to no package alone.
    needed = set(PROGRAMS) - {"sh", "awk"}
    owners = _owners(needed)
    assert {name: owners.get(name) for name in needed if owners.get(name) not in installed} == {}


def _owners(programs: set[str]) -> dict[str, str]:
    """Program -> the package that it comes from."""
    folders = ("/bin", "/usr/bin", "/sbin", "/usr/sbin")
    paths = [f"{folder}/{name}" for folder in folders for name in sorted(programs)]
    # It tells what it knows, and complains of the rest.
    told = subprocess.run(["dpkg-query", "-S", *paths], capture_output=True, text=True)
    found = re.findall(r"^([a-z0-9.+-]+): (\S+)$", told.stdout, re.MULTILINE)
    return {path.rsplit("/", 1)[1]: package for package, path in found}
