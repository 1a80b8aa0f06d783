"""`audit` on output of the real fio whose defects earlier rules missed or invented."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Leadline, recorded_output
from tests.conftest import RECORDED

FOLDER = RECORDED.parent / "audit"


def serious(leadline: Leadline, *files: Path) -> list[tuple[str, str]]:
    """The codes of errors and warnings, with their targets."""
    answer = json.loads(leadline("audit", *files, "--format", "json").out)
    assert answer["refused"] == []
    return [(one["code"], one["target"]) for one in answer["findings"] if one["severity"] != "info"]


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("terse-gtod-reduce.txt", "latency-not-measured"),
        # 66,678 reads of 128 KiB, and 195 I/Os of the disk.
        ("text-cached-sequential-reads.txt", "cache-served-reads"),
    ],
)
def test_defects_in_output_without_options(leadline: Leadline, file: str, code: str) -> None:
    found = serious(leadline, FOLDER / file)
    assert [one for one, _ in found] == [code]


@pytest.mark.parametrize(
    ("direct", "code"), [("0", "cache-served-reads"), ("1", "unwritten-reads")]
)
def test_reads_that_no_disk_did_are_cached_or_direct_ones_of_holes(
    leadline: Leadline, tmp_path: Path, direct: str, code: str
) -> None:
    """A recorded result, with a tenth of its reads at the disk."""
    content = json.loads(recorded_output("randread-4k-qd1").read_bytes())
    assert code not in dict(serious(leadline, recorded_output("randread-4k-qd1")))
    content["global options"]["direct"] = direct
    for disk in content["disk_util"]:
        disk["read_ios"] //= 10
        disk["read_merges"] = 0
        disk["read_sectors"] = disk["read_ios"] * 8
    path = tmp_path / "few.json"
    path.write_text(json.dumps(content))
    assert code in dict(serious(leadline, path))


def test_an_option_given_twice_is_no_defect(leadline: Leadline, tmp_path: Path) -> None:
    """Scripts append an option to override it: fio uses the last one and echoes both."""
    text = recorded_output("randread-4k-qd1").read_text()
    option = '"time_based" : "1",'
    assert option in text
    path = tmp_path / "twice.json"
    path.write_text(text.replace(option, f'{option}\n    "runtime" : "9000ms",'))
    found = serious(leadline, path)
    assert "unfamiliar-output" not in {code for code, _ in found}


def test_a_limit_of_a_cgroup_in_runs_of_two_seconds(leadline: Leadline, tmp_path: Path) -> None:
    """Measured under `blkio.throttle.*_iops_device` of 400: 2.8 % between the first and the last.
    The same disk without it."""
    measured = {
        "limited": {"4k": (406, 396), "16k": (406, 407), "128k": (407, 406)},
        "free": {"4k": (21778, 22927), "16k": (23347, 11801), "128k": (3365, 16129)},
    }
    lines = ["target,workload,op,bs,iodepth,numjobs,iops"]
    for target, blocks in measured.items():
        for block, rates in blocks.items():
            lines += [
                f"{target},rand{op} {block},{op},{block},16,1,{rate}"
                for op, rate in zip(("read", "write"), rates, strict=True)
            ]
    path = tmp_path / "limit.csv"
    path.write_text("\n".join(lines) + "\n")
    assert serious(leadline, path) == [("capped-by-limit", "limited")]
