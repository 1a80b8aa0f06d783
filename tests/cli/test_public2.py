"""Each line of `../shared/corpus/public2/INDEX.tsv` holds, by the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Leadline

SERIOUS = ("error", "warning")
ENGINES = (
    *("stonet/engines-a9f41e942cbb.txt", "stonet/engines-cad770e01e87.txt"),
    "stonet/engines-3e17f94c311b.txt",
)
# The warnings and errors on one file; nothing else may be found.
FOUND = {
    "stonet/merged-sections-001105f476f6.json": {"merged-sections"},
    ENGINES[0]: {"client-saturated"},
    ENGINES[1]: set(),
    ENGINES[2]: set(),
    # Complete; each job used 99 % of a core, without a polling engine.
    "zns/zonemode-zbd-complete-4243dc3d54b8.json": {"client-saturated"},
    "zns/ramp-size-bound-complete-da5111998bfe.json": set(),
    "fio-plot/depth-4096-few-ios-0a1e1176e3f3.json": {"queue-depth-not-reached"},
    "reading-only/merged-three-disks.json": {"merged-sections"},
    "reading-only/kubestr/own-job-ends-with-ok.txt": set(),
}
STUDY = "wikimedia/2021-06-04_10-21-12/vm_disk/*"
RAMP = "storage-perf-tests/ramp.csv, ramp-summary.json"


@pytest.fixture
def public2(shared: Path) -> Path:
    return shared / "corpus" / "public2"


def answer(leadline: Leadline, *call: object) -> Any:
    said = leadline(*call, "--format", "json")
    assert said.out, said.err
    return json.loads(said.out)


def test_every_line_is_tested(public2: Path) -> None:
    with (public2 / "INDEX.tsv").open(newline="") as stream:
        lines = {row["file"] for row in csv.DictReader(stream, delimiter="\t")}
    assert lines == {*FOUND, STUDY, RAMP}


@pytest.mark.parametrize("file", FOUND)
def test_what_one_file_must_show(leadline: Leadline, public2: Path, file: str) -> None:
    told = answer(leadline, "audit", public2 / file)
    assert told["refused"] == []
    codes = {one["code"] for one in told["findings"] if one["severity"] in SERIOUS}
    assert codes == FOUND[file]


def test_other_engines_are_other_cells(leadline: Leadline, public2: Path) -> None:
    files = [public2 / file for file in ENGINES]
    assert leadline("import", *files, "--target", "disk", "--run", "e").status == 0
    rows = answer(leadline, "show", "e")["measurements"]
    cells = {(row["workload"], row["level"]) for row in rows}
    assert len(cells) == 3
    assert {row["trials"] for row in rows} == {1}


def test_the_study_has_its_repeats_logs_cap_and_contradicting_logs(
    leadline: Leadline, public2: Path
) -> None:
    call = ("import", public2 / "wikimedia", "--layout", "auto", "--run", "w")
    told = answer(leadline, *call)
    assert told["refused"] == []
    assert {file["repeat"] for file in told["files"]} == {1, 2, 3}
    findings = told["runs"][0]["findings"]
    contradict = [one for one in findings if one["code"] == "log-contradicts-result"]
    assert {one["workload"] for one in contradict} == {"randwrite 4k"}
    assert len(contradict) == 3
    (flat,) = [one for one in findings if one["code"] == "flat-ceiling"]
    assert flat["evidence"]["iops"] == pytest.approx(497, abs=2)


def test_the_density_ramp_has_count_rate_and_p99(leadline: Leadline, public2: Path) -> None:
    folder = public2 / "storage-perf-tests"
    files = [folder / name.strip() for name in RAMP.rpartition("/")[2].split(",")]
    with files[0].open(newline="") as stream:
        steps = list(csv.DictReader(stream))
    told = answer(leadline, "import", *files, "--run", "ramp")
    rows = answer(leadline, "show", "ramp")["measurements"]
    reads = [row["value"] for row in rows if (row["metric"], row["op"]) == ("iops", "read")]
    assert reads == [float(step["total_read_iops"]) for step in steps]
    assert {"numjobs=1", "numjobs=2"} <= {row["level"] for row in rows}
    # The largest p99 of single VMs is no percentile of all: it is named, and not shown as one.
    notes = " ".join(one["message"] for one in told["runs"][0]["findings"])
    for step in steps:
        assert f"p99 {step['max_p99_ms']} ms is the largest (service level " in notes
