"""Rules on pgbench and sysbench: sound results have no finding, spoiled ones have theirs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leadline.archive.raw import read_output, read_windows
from leadline.audit.evidence import CellEvidence, Place, TrialEvidence
from leadline.audit.registry import run_rules
from leadline.formats.program.request import Program, read_request
from leadline.plan.models import Cell
from leadline.plan.workload import EngineChoice, Workload
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "program"
FOLDERS = {Program.PGBENCH: RECORDED / "pgbench", Program.SYSBENCH: RECORDED / "sysbench"}
# Three seconds, in a test of the parser, are short, and too few for high percentiles.
SHORT = {"too-few-samples", "short-runtime"}


def codes(program: Program, folder: Path) -> set[str]:
    request = read_request(folder)
    choice = EngineChoice.PGBENCH if program is Program.PGBENCH else EngineChoice.SYSBENCH
    workload = Workload(
        name="w",
        phases=(request.phase,),
        engine=choice,
        direct=request.direct,
        runtime_s=request.runtime_s,
        ramp_s=request.ramp_s,
    )
    cell, place = Cell(target="t", workload=workload, level=""), Place(target="t", workload="w")
    trial = TrialEvidence(
        place=place,
        cell=cell,
        output=read_output(program, folder),
        windows=read_windows(program, folder),
    )
    found = run_rules([trial, *trial.jobs, CellEvidence(place=place, cell=cell, trials=(trial,))])
    return {finding.code for finding in found}


@pytest.mark.parametrize("program", list(Program))
def test_a_sound_result_has_no_false_finding(program: Program) -> None:
    assert codes(program, FOLDERS[program]) <= {*SHORT, "single-trial", "not-steady"}


def test_connections_that_did_not_run_are_found(tmp_path: Path) -> None:
    """Little's law: rate x latency of four connections is not that of sixteen."""
    folder = Path(shutil.copytree(FOLDERS[Program.PGBENCH], tmp_path / "trial"))
    path = folder / "program.json"
    path.write_text(path.read_text().replace('"numjobs": 4', '"numjobs": 16'))
    assert "queue-depth-not-reached" in codes(Program.PGBENCH, folder)


def test_a_rate_that_its_count_contradicts_is_found(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDERS[Program.SYSBENCH], tmp_path / "trial"))
    path = folder / "sysbench.txt"
    text = path.read_text()
    reads = text.partition("reads/s:")[2].split()[0]
    path.write_text(text.replace(reads, f"{float(reads) * 3:.2f}"))
    assert "inconsistent-figures" in codes(Program.SYSBENCH, folder)
