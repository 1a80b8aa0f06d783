"""A recorded study of two labs (scripts/lab-study.sh): imported, audited, compared.
`tests/real/test_study.py` measures one anew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Leadline
from tests.conftest import RECORDED, unpack

CLUSTERS = ("single-zone", "multi-zone")
FACTS = RECORDED.parent / "lab-study" / "facts.yaml"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    unpack(RECORDED.parent / "lab-study" / "study.tar.xz", folder)
    return folder


@pytest.fixture
def study(unpacked: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(unpacked, tmp_path / "study"))


def answer(leadline: Leadline, *call: object) -> Any:
    said = leadline(*call, "--format", "json")
    assert said.status == 0, said.err
    return json.loads(said.out)


def imported(leadline: Leadline, study: Path, name: str, *more: object) -> Any:
    folder = study / name / "results"
    call = ("import", folder, "--layout", "auto", "--run", name, "--cluster", name)
    return answer(leadline, *call, *more)


@pytest.fixture
def compared(leadline: Leadline, study: Path) -> Any:
    for name in CLUSTERS:
        dumps = study / name / "inventory"
        imported(leadline, study, name, "--inventory", dumps, "--facts", FACTS)
    return answer(leadline, "compare", *CLUSTERS)


def test_a_comparison_has_configuration_facts_and_what_is_unknown(compared: Any) -> None:
    found = {one["path"]: (one["baseline"], one["candidate"]) for one in compared["differences"]}
    assert found["pools.*.failure_domain"] == ("rack", "zone")
    assert "encryption at rest no" in compared["identical"]
    assert compared["unknown"] == [
        *("cores per node", "memory per node", "network of nodes", "software"),
        *("cores of a target", "price of a stored TiB"),
    ]
    rates = [cell for cell in compared["cells"] if cell["metric"] == "iops"]
    assert len(rates) == 36
    assert all(cell["baseline"] and cell["candidate"] for cell in rates)


def test_a_change_that_distance_cannot_cause_is_not_explained_by_it(compared: Any) -> None:
    """Copies in three zones are farther apart: that makes nothing faster."""
    for one in compared["explanations"]:
        rates = {
            cell["verdict"]
            for cell in (compared["cells"][index] for index in one["cells"])
            if cell["metric"] == "iops"
        }
        if rates and "only relevant difference is failure domain" in one["text"]:
            opposite = "has the opposite effect" in one["text"]
            assert rates == ({"better"} if opposite else {"worse"})
    assert any("has the opposite effect" in one["text"] for one in compared["explanations"])


@pytest.mark.usefixtures("compared")
def test_pages_leave_out_what_all_levels_share(leadline: Leadline) -> None:
    said = leadline("compare", *CLUSTERS)
    assert "all levels: pvc_size=64M" in " ".join(said.out.split())
    assert said.out.count("pvc_size") == 1
    assert "Neither is ahead" not in said.out
    # Keys are shortened where there is no room, values are not.
    reads = [line.split(" read ") for line in said.out.splitlines() if line.startswith("rep3 ")]
    levels = {start for start, *rest in reads if rest}
    assert len(levels) == 4, levels
    assert all("=small co" in level or "=medium co" in level for level in levels)


def test_concurrent_clients_count_as_load(leadline: Leadline, study: Path) -> None:
    """Two clients with 8 I/Os in flight each are 16."""
    imported(leadline, study, "single-zone")
    told = answer(leadline, "scale", "single-zone")
    loads = {
        (level["clients"], level["in_flight"])
        for curve in told["curves"]
        for level in curve["points"]
    }
    assert loads == {(1, 4), (2, 8), (1, 8), (2, 16)}


def test_no_client_is_missing_in_good_trials_and_each_missing_one_is_found(
    leadline: Leadline, study: Path
) -> None:
    """24 good trials, 12 of them with two clients, each of which is taken away."""
    codes = [
        finding["code"]
        for name in CLUSTERS
        for finding in imported(leadline, study, name)["runs"][0]["findings"]
    ]
    assert "client-missing" not in codes
    removed = [
        next((study / name / "results").glob(f"{pool}/{size}/*/2/*/*/client-{number}-fio.json"))
        for name in CLUSTERS
        for pool in ("rep3", "rep2", "ec-2-1")
        for number, size in enumerate(("small", "medium"), start=1)
    ]
    for path in removed:
        path.unlink()
    found = []
    for name in CLUSTERS:
        call = ("import", study / name / "results", "--layout", "auto", "--run", f"{name}-gaps")
        findings = answer(leadline, *call)["runs"][0]["findings"]
        found += [one for one in findings if one["code"] == "client-missing"]
    assert len(found) == len(removed) == 12
    assert {one["severity"] for one in found} == {"error"}
