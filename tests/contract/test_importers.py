"""What every importer is held to on the recorded files of all tools: whose file is whose, and that
the audit judges what was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.analysis.figures import figures
from leadline.archive.reader import Run
from leadline.archive.records import Session
from leadline.audit.registry import audit
from leadline.formats.importer import KINDS, importer
from leadline.importing.archives import Labels, import_results, read_results
from leadline.importing.gather import HEAD_BYTES, gather
from tests.conftest import ROOT

IMPORTS = ROOT / "tests" / "recorded" / "imports"
# CBT's files are fio's JSON without its tree; a list of bins belongs to histogram logs, and a
# summary to its ramp.
NOT_BY_THEMSELVES = ("cbt/", "fio-log/pkb_hist_bin_vals.txt", "density-ramp/ramp-summary.json")
SESSION = Session(started_at="", hostname="", leadline_version="", python_version="")


def _files() -> list[object]:
    found: list[object] = []
    for path in sorted(IMPORTS.rglob("*")):
        name = path.relative_to(IMPORTS).as_posix()
        other = name.startswith(("hostile/", *NOT_BY_THEMSELVES)) or path.name == "PROVENANCE.md"
        if path.is_file() and not other:
            found.append(pytest.param(path, id=name))
    return found


def test_every_kind_but_cbt_has_recorded_files() -> None:
    folders = {path.name for path in IMPORTS.iterdir() if path.is_dir()} - {"hostile"}
    assert folders == set(KINDS)


@pytest.mark.parametrize("path", _files())
def test_a_file_is_recognised_by_its_own_importer_alone(path: Path) -> None:
    kind = path.relative_to(IMPORTS).parts[0]
    head = path.read_bytes()[:HEAD_BYTES]
    inside = path.relative_to(IMPORTS / kind).as_posix()
    assert [one for one in KINDS if importer(one).recognises(inside, head)] == [kind]
    (bundle,) = gather("auto", [path]).bundles
    assert bundle.importer.kind == kind


EXPECTED = {
    "ioping": set(),
    "elbencho": set(),
    "warp": set(),
    "sibench": set(),
    "density-ramp": set(),
    "cosbench": {"engine-error"},
    "benchmark-operator": {"unstable-repeats"},
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_the_audit_judges_what_was_read(tmp_path: Path, kind: str) -> None:
    """Little's law holds in all of them, and nothing that is unknown is taken for a fault."""
    gathered = gather("auto", [IMPORTS / kind])
    imported = import_results(gathered, tmp_path, Labels(run="r"), SESSION)
    assert not [refused for refused in imported.refused if refused.expected]
    findings = [finding for run in imported.runs for finding in audit(run)]
    serious = {finding.code for finding in findings if finding.severity != "info"}
    assert serious == EXPECTED[kind]


@pytest.mark.parametrize("kind", sorted({*KINDS, "hostile"}))
def test_what_is_not_read_again_is_what_the_archive_holds(tmp_path: Path, kind: str) -> None:
    """The run that an import gives, its archive opened anew, and the run of an audit of files."""
    gathered = gather("auto", [IMPORTS / kind])
    given = import_results(gathered, tmp_path / "runs", Labels(run="r"), SESSION).runs
    for run in given:
        again = Run(run.path)
        assert (run.manifest, run.plan) == (again.manifest, again.plan)
        assert [trial.record for trial in run.trials] == [trial.record for trial in again.trials]
        assert audit(run) == audit(again)
        assert figures(run, audit(run)) == figures(again, audit(again))
    unkept = read_results(gathered, tmp_path / "none", Labels(run="r"), SESSION).runs
    assert not (tmp_path / "none").exists()
    assert [run.plan for run in unkept] == [run.plan for run in given]
    assert [figures(run, audit(run)) for run in unkept] == [
        figures(run, audit(run)) for run in given
    ]
