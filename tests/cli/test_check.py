"""`check` and `run --dry-run` tell what a plan would do, and touch nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.plan.loader import profile_names
from tests.cli.conftest import CELLS_OF_QUICK, QUICK, Leadline


def test_check_shows_the_matrix_the_time_and_the_bytes(leadline: Leadline, target: Path) -> None:
    options = ("--runtime", "10s", "--ramp", "0", "--size", "64M", "--repeats", "3")
    where = ("--target", f"pool=dir:{target}", "--profile", "quick")
    said = leadline("check", *where, *options)
    assert said.status == 0
    cells = re.findall(r"(?m)^pool +(\S+) +(qd\d+) +(.+?) +(\d+ s)$", said.out)
    assert [(name, level, time) for name, level, _, time in cells] == [
        ("randread-4k", "qd1", "10 s"),
        ("randwrite-4k", "qd1", "10 s"),
        ("mixed-70-30-4k", "qd32", "10 s"),
        ("sequential-1m", "qd8", "20 s"),
    ]
    assert cells[3][2] == "write 1M 64 MiB x 1, then read 1M 64 MiB x 1"
    assert "12 trials: 4 cells x 3 repeats" in said.out
    assert "time: 2 min 30 s of I/O" in said.out
    assert "prefill of pool: 64 MiB" in said.out
    assert "destroy" not in said.out


def test_check_says_which_consent_a_device_needs(leadline: Leadline) -> None:
    said = leadline("check", "--target", "device:/dev/leadline-nowhere", "--profile", "quick")
    assert said.status == 0, "targets are not looked at"
    assert "what is on the device is destroyed" in said.out
    assert "--destroy-data /dev/leadline-nowhere" in said.out


def test_check_asks_no_consent_for_reading_alone(leadline: Leadline, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "targets: [device:/dev/leadline-nowhere]\nprefill: false\n"
        "workloads: [{name: r, pattern: randread}]\n"
    )
    assert "destroy" not in leadline("check", plan).out


@pytest.mark.parametrize("profile", profile_names())
def test_every_profile_expands_to_cells_with_a_time(leadline: Leadline, profile: str) -> None:
    only = {
        "zfs-stream": ("zfs:tank",),
        "volume-lifecycle": ("storageclass:fast", "--runner-image", "any"),
    }
    target = only.get(profile, ("dir:/mnt/pool",))
    said = leadline("check", "--target", *target, "--profile", profile)
    assert said.status == 0, said.err
    matrix = said.out.split("\n\n")[0].splitlines()
    assert len(matrix) >= 3
    assert all(re.search(r"\d (s|min)$|\d min \d+ s$", line) for line in matrix[2:])


def test_a_dry_run_prints_a_command_and_a_job_for_every_trial_and_touches_nothing(
    leadline: Leadline, target: Path, tmp_path: Path, stub_fio: Callable[..., None]
) -> None:
    stub_fio(f"touch {tmp_path}/fio-was-run")
    said = leadline("run", "--target", f"dir:{target}", *QUICK, "--repeats", "2", "--dry-run")
    assert said.status == 0
    assert said.err == ""
    trials = said.out.split("# t0")[1:]
    assert len(trials) == CELLS_OF_QUICK * 2
    for trial in trials:
        _, command, *job = trial.splitlines()
        assert command.startswith(f"{tmp_path}/bin/fio ")
        assert "--output-format=json+" in command
        assert f"--directory={target}/leadline-" in command
        assert job[0] == "[global]"
        assert any(line.startswith("rw=") for line in job)
    seeds = re.findall(r"randseed=(\d+)", said.out)
    assert len(set(seeds)) == len(trials), "no repeat finds its blocks cached by another"
    assert list(target.iterdir()) == []
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "fio-was-run").exists()


def test_the_seed_decides_order_and_offsets(
    leadline: Leadline, target: Path, stub_fio: Callable[..., None]
) -> None:
    stub_fio()

    def printed(seed: int) -> str:
        where = ("--target", f"dir:{target}", *QUICK, "--seed", str(seed))
        return leadline("run", *where, "--dry-run").out

    assert printed(1) == printed(1) != printed(2)


def test_faults_are_there_for_programs_too(leadline: Leadline, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("targets: [dri:/x]\nrepeets: 3\nprofile: quick\n")
    said = leadline("check", plan, "--format", "json")
    assert said.status == 2
    faults = json.loads(said.out)["faults"]
    assert [(fault["line"], fault["key"]) for fault in faults] == [
        (1, "targets[0]"),
        (2, "repeets"),
    ]
    assert faults[1]["nearest"] == "repeats"
    assert "error[plan-invalid]: the plan has 2 faults" in said.err
