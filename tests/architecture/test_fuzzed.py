"""Every reader of foreign input is fuzzed."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

from fuzz.targets import TARGETS
from leadline.formats.importer import _MODULES, KINDS

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "leadline"
# The functions that open a foreign file, and which target reaches each module that calls one.
OPENERS = {"read_content", "read_contents", "read_small_text"}
READERS = {
    "analysis/objectives.py": "use",
    "archive/layout.py": "archive",
    "archive/raw.py": "archive",
    "archive/reader.py": "archive",
    "archive/records.py": "archive",
    "archive/scrub.py": "redaction",
    "archive/trial.py": "archive",
    "archive/verify.py": "archive",
    # An OSD map, which Ceph's tools decode: fuzzed is what they print.
    "cli/pools_placement.py": "osd-map",
    # Its record is of the folder's owner; of its pages only the seal is read.
    "cli/site_folder.py": "page",
    "cli/verify.py": "page",
    "engines/fio/outcome.py": "fio-json",
    "files.py": "archive",
    "formats/ceph/bench_request.py": "parsers",
    "formats/program/request.py": "parsers",
    "formats/volume_lifecycle.py": "parsers",
    "formats/zfs/stream.py": "parsers",
    "importing/gather.py": "chain",
    "importing/read.py": "chain",
    "inventory/kubernetes/folder.py": "folder",
    # Only compared with a path.
    "lab/down.py": "lab",
    "lab/state.py": "lab",
    "plan/job_file.py": "job-file",
    "plan/loader.py": "plan",
    "plan/yaml_positions.py": "facts",
    "report/pages/run/conditions.py": "archive",
    # Its index is in the user's own cache; of a manifest it reads the schema.
    "run_index.py": "archive",
}


def test_every_importer_has_a_target() -> None:
    assert set(KINDS) <= set(TARGETS)


def test_every_reader_of_files_has_a_target() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(word in path.read_text() for word in OPENERS)
        and OPENERS & {node.id for node in ast.walk(parsed(path)) if isinstance(node, ast.Name)}
    }
    assert found == set(READERS)
    assert set(READERS.values()) <= set(TARGETS)


@pytest.mark.thorough
def test_every_parser_of_a_format_is_reached() -> None:
    """Modules of `formats` that a fuzz target imports, or a module that one imports."""
    modules = {name(path): path for path in SOURCE.rglob("*.py")}
    importers = {f"leadline.formats.{found}" for found in _MODULES.values()}
    reached = set(importers)
    pending = [*(ROOT / "fuzz").glob("*.py"), *(modules[module] for module in importers)]
    while pending:
        for imported in imports(pending.pop()):
            if imported in modules and imported not in reached:
                reached.add(imported)
                pending.append(modules[imported])
    unreached = set(modules) - reached
    assert [
        module
        for module in sorted(unreached)
        if module.startswith("leadline.formats.") and parsers(modules[module])
    ] == []


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def imports(path: Path) -> set[str]:
    return {
        found
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and node.module
        for found in (node.module, *(f"{node.module}.{one.name}" for one in node.names))
    }


def parsers(path: Path) -> list[str]:
    return [
        node.name
        for node in parsed(path).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith(("parse_", "read_"))
    ]
