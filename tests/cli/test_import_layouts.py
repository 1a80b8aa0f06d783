"""Known layouts on published trees: the paths are those of the repositories, and the contents too
where the corpus has them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Leadline
from tests.conftest import RECORDED

IMPORTS = RECORDED.parent / "imports"
# lee-j-sanders/perfresults at bbdff31: CBT with `workloads`, whose results are there twice: as a
# client wrote them, and as CBT collected them.
STUDY = "251204_replica_min_shard_read_size/3way_reads_osds_4_shardsize_131072"
TESTS = "numjobs-001/total_iodepth-12/iodepth-000001"
COLLECTED = f"{STUDY}/results/00000000/id-af9a4715/1280krandomread.o01.front.sepia.ceph.com"
OF_CLIENT = f"{STUDY}/00000000/LibrbdFio/osd_ra-00004096/1280krandomread"


def imported(leadline: Leadline, folder: Path, status: int = 0) -> Any:
    said = leadline("import", folder, "--layout", "auto", "--dry-run", "--format", "json")
    assert said.status == status, said.err
    return json.loads(said.out)


def published(shared: Path, repository: str, folder: Path, wanted: str = "") -> int:
    """Lay files of the corpus out as their repository has them; return their number."""
    corpus, count = shared / "corpus" / "public", 0
    with (corpus / "INDEX.tsv").open(newline="") as stream:
        for row in csv.DictReader(stream, delimiter="\t"):
            path = folder / row["path"]
            if row["repo"] == repository and row["kind"] == "fio-json" and wanted in row["path"]:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes((corpus / row["file"]).read_bytes())
                count += 1
    return count


def test_bench_fio(leadline: Leadline, shared: Path, tmp_path: Path) -> None:
    assert published(shared, "louwrentius/fio-plot", tmp_path, "benchmark_data") == 4
    told = imported(leadline, tmp_path)
    assert (told["layout"], told["layout_reason"]) == ("bench-fio", "4 of 4 results match")
    found = {(file["target"], file["workload"], file["level"]) for file in told["files"]}
    assert found == {
        ("FLOPPY", "read", "iodepth=1 numjobs=1"),
        ("P420i_INTEL_RW", "randrw", "iodepth=64 numjobs=64"),
        ("TEST01", "randwrite", "iodepth=1 numjobs=1"),
        ("INTELD3S4610", "randread", "iodepth=16 numjobs=16"),
    }


def test_bench_fio_with_block_sizes_and_runs(
    leadline: Leadline, shared: Path, tmp_path: Path
) -> None:
    assert published(shared, "louwrentius/fio-plot", tmp_path, "/fio/") == 2
    found = {(file["target"], file["workload"]) for file in imported(leadline, tmp_path)["files"]}
    assert found == {("fio", "write 1m"), ("fio", "randread 4k")}


def test_kbench(leadline: Leadline, shared: Path, tmp_path: Path) -> None:
    assert published(shared, "longhorn/kbench", tmp_path) == 6
    told = imported(leadline, tmp_path)
    assert (told["layout"], told["layout_reason"]) == ("kbench", "6 of 6 results match")
    targets = {file["target"] for file in told["files"]}
    assert "samsung_850_PRO raw-block" in targets
    assert "Samsung_850_PRO_512GB kernel-5.4.0-xfs-default" in targets


@pytest.mark.parametrize("below", ["", STUDY], ids=["a folder of studies", "the study"])
def test_cbt(leadline: Leadline, tmp_path: Path, below: str) -> None:
    """The contents are those of a recorded rbd result, each with a time of its own."""
    source = json.loads(
        (IMPORTS / "cbt" / "fioplot-3.6-ceph-ssd-first-randread-16-16.json").read_text()
    )
    options = source["jobs"][0]["job options"]
    for number, name in enumerate(["json_output.0", "json_output.11", "output.10", "output.9"]):
        process = name.rpartition(".")[2]
        options["write_iops_log"] = f"/tmp/cbt/00000000/LibrbdFio/{TESTS}/output.{process}"
        for place in (COLLECTED, OF_CLIENT):
            path = tmp_path / place / TESTS / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(source | {"timestamp": source["timestamp"] + number}))
    (tmp_path / COLLECTED / TESTS / "output.0_iops.1.log").write_text("100, 5, 0, 0\n")
    told = imported(leadline, tmp_path / below)
    assert (told["layout"], told["layout_reason"]) == ("cbt", "1 of 2 results match")
    (trial,) = {
        (file["target"], file["workload"], file["level"], file["client"]) for file in told["files"]
    }
    assert trial == (
        *("3way_reads_osds_4_shardsize_131072", "1280krandomread"),
        *("numjobs=1 total_iodepth=12", "o01.front.sepia.ceph.com"),
    )
    assert len(told["files"]) == 5, "processes of one client are one result, with their log"
    assert "is another copy of the results" in {one["reason"] for one in told["refused"]}
