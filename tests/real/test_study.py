"""A study as people publish it, made with two labs, then imported and compared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leadline.lab.cluster import survey
from leadline.lab.down import take_down
from tests.conftest import ROOT
from tests.real.conftest import Ended

pytestmark = [pytest.mark.real, pytest.mark.root, pytest.mark.slow]
Process = Callable[..., Ended]
LAB = "store: bluestore-in-memory, osd_size: 1G, pools: [rep3, rep2, ec-2-1]"
LABS = {
    "single-zone": f"{{topology: single-zone, {LAB}}}",
    "multi-zone": f"{{topology: multi-zone, inter_zone_rtt: 1ms, {LAB}}}",
}
TEMPLATE = "{pool}/{vm_size}/{pvc_size}/{concurrency}/{workload}/{block_size}/{client}-fio.json"
FACTS = ROOT / "tests" / "recorded" / "lab-study" / "facts.yaml"


@pytest.fixture
def labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for labs; what a failed test leaves in it is removed."""
    if os.geteuid() != 0 or shutil.which("ceph-osd") is None:
        pytest.skip("needs root and Ceph: NO study of real clusters is imported here")
    folder = tmp_path / "l"
    monkeypatch.setenv("LEADLINE_LABS", str(folder))
    yield folder
    for item in survey(folder):
        take_down(item.folder)


def answer(said: Ended, status: int = 0) -> Any:
    assert said.status == status, said.err
    return json.loads(said.out)


def make_study(process: Process, started: Callable[..., Any], folder: Path) -> None:
    """Both labs are up at once, and one after the other is measured."""
    for name, description in LABS.items():
        (folder / f"{name}.yaml").write_text(description)
    for child in [started("lab", "up", name, folder / f"{name}.yaml") for name in LABS]:
        _, talk = child.communicate(timeout=200)
        assert child.returncode == 0, talk
    for name in LABS:
        script = (ROOT / "scripts" / "lab-study.sh", folder / "study" / name)
        measured = process("lab", "shell", name, "--", *script, STUDY_SECONDS="1")
        assert measured.status == 0, measured.err
    assert process("lab", "down", "--all").status == 0


def test_two_clusters(
    process: Process,
    started: Callable[..., subprocess.Popen[str]],
    labs: Path,
    tmp_path: Path,
) -> None:
    make_study(process, started, tmp_path)
    study = tmp_path / "study"
    described = ("--facts", FACTS, "--format", "json")
    for name in LABS:
        results, dumps = study / name / "results", study / name / "inventory"
        call = ("import", results, "--layout", "auto", "--run", name, "--cluster", name)
        told = answer(process(*call, "--inventory", dumps, *described))
        assert (told["layout"], told["refused"]) == ("storage-perf-tests", [])
        assert told["layout_reason"] == "18 of 18 results match"
        check_import(told)
        assert process("verify", name).status == 0

    told = answer(process("compare", "single-zone", "multi-zone", "--format", "json"))
    check_comparison(told)
    page = tmp_path / "page.html"
    assert process("report", "single-zone", "multi-zone", "-o", page).status == 0
    shown = page.read_text()
    assert "all levels: pvc_size=64M" in shown
    assert "vm_size=medium concurrency=2" in shown

    check_a_client_that_is_missing(process, study / "multi-zone" / "results")


def check_import(told: Any) -> None:
    """Twelve trials of 18 files: two clients are one trial."""
    (run,) = told["runs"]
    assert run["trials"] == 12
    files = told["files"]
    assert {file["target"] for file in files} == {"rep3", "rep2", "ec-2-1"}
    assert {file["workload"] for file in files} == {"mixed-70-30 4k"}
    assert {file["level"] for file in files} == {
        f"vm_size={size} pvc_size=64M concurrency={clients}"
        for size in ("small", "medium")
        for clients in (1, 2)
    }
    assert sum(file["client"] == "client-2" for file in files) == 6
    assert {file["repeat"] for file in files} == {1}
    codes = {finding["code"] for finding in run["findings"]}
    assert "single-trial" in codes
    assert not codes & {"client-missing", "short-runtime", "inconsistent-figures"}


def check_comparison(told: Any) -> None:
    differences = {one["path"]: (one["baseline"], one["candidate"]) for one in told["differences"]}
    crush = ("1 region > 1 zone > 3 racks", "1 region > 3 zones")
    assert differences["topology.crush_levels"] == crush
    assert differences["pools.*.failure_domain"] == ("rack", "zone")
    assert "redundancy of all 3 pools" in told["identical"]
    assert "cores per node" in told["unknown"]
    assert "encryption at rest" not in told["unknown"]
    rates = [cell for cell in told["cells"] if cell["metric"] == "iops"]
    assert len(rates) == 3 * 2 * 2 * 3  # pools, VM sizes, clients; read, write and total
    assert all(cell["baseline"] and cell["candidate"] for cell in rates)
    # On a busy machine the zones may explain nothing; then the text names what differs.
    causes = ("failure domain", "round trip")
    assert any(cause in one["text"] for one in told["explanations"] for cause in causes)


def check_a_client_that_is_missing(process: Process, results: Path) -> None:
    (gone,) = results.glob("rep2/small/*/2/*/*/client-2-fio.json")
    gone.unlink()
    call = ("import", results, "--layout", TEMPLATE, "--run", "gap", "--format", "json")
    (run,) = answer(process(*call))["runs"]
    (finding,) = [one for one in run["findings"] if one["code"] == "client-missing"]
    assert (finding["target"], finding["severity"]) == ("rep2", "error")
