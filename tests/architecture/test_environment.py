"""Every program that Leadline starts gets an environment that one module makes."""

from __future__ import annotations

import ast

import pytest

from leadline.environment import CEPH, SSH, child_environment
from tests.conftest import ROOT

SOURCE = ROOT / "src" / "leadline"
_STARTS = {"Popen", "run", "call", "check_call", "check_output"}
_SPAWNS = {"posix_spawn", "posix_spawnp", "execvpe", "execve", "execv", "execvp", "system", "popen"}
# bounded_pipe.py is a child itself and imports nothing of Leadline: what it starts inherits the
# environment that it was given. `lab shell` becomes the user's own command, as env(1) does.
_OTHERWISE = {"engines/bounded_pipe.py": "Popen", "cli/lab.py": "execvpe"}


def _calls(tree: ast.AST) -> list[tuple[str, ast.Call]]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            name = owner.id if isinstance(owner, ast.Name) else ""
            if (name == "subprocess" and node.func.attr in _STARTS) or (
                name == "os" and node.func.attr in _SPAWNS
            ):
                found.append((node.func.attr, node))
    return found


def test_every_start_of_a_program_names_its_environment() -> None:
    seen = {}
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        text = path.read_text("utf-8")
        if "subprocess." not in text and "os." not in text:
            continue  # not worth parsing
        for name, call in _calls(ast.parse(text)):
            seen[place] = name
            if _OTHERWISE.get(place) == name:
                continue
            given = [ast.unparse(word.value) for word in call.keywords if word.arg == "env"]
            given += [ast.unparse(call.args[2])] if name.startswith("posix_spawn") else []
            if not any("environment" in text for text in given):
                wrong.append(f"{place}:{call.lineno}")
    assert wrong == []
    assert len(seen) > 12
    assert all(seen[place] == name for place, name in _OTHERWISE.items())


def test_only_one_module_passes_variables_on() -> None:
    """os.environ is read by name elsewhere, never as a whole."""
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        text = path.read_text("utf-8")
        if "os.environ" not in text:
            continue  # not worth parsing
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.BinOp | ast.Call) and any(
                isinstance(part, ast.Attribute) and ast.unparse(part) == "os.environ"
                for part in ast.iter_child_nodes(node)
            ):
                wrong.append(f"{place}:{node.lineno}")
    assert wrong == []


def test_the_environment_is_an_allow_list(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "VAULT_TOKEN", "PGPASSWORD", "LD_PRELOAD")
    for name in secrets:
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("CEPH_ARGS", "--id x")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    plain = child_environment()
    assert "hunter2" not in plain.values()
    assert plain["LC_TIME"] == "C"
    assert {"CEPH_ARGS", "SSH_AUTH_SOCK"}.isdisjoint(plain)
    assert child_environment(*CEPH)["CEPH_ARGS"] == "--id x"
    assert child_environment(*SSH)["SSH_AUTH_SOCK"] == "/run/agent"
    assert child_environment(LC_TIME="de_DE")["LC_TIME"] == "de_DE"
