"""`storageclass:` targets on the command line, without a cluster."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import refused
from tests.conftest import Said

Leadline = Callable[..., Said]
QUICK = ("--profile", "quick", "--runtime", "2s", "--ramp", "0", "--size", "64M", "--repeats", "1")


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No cluster that this machine may happen to know."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def dry(leadline: Leadline, url: str, *more: object) -> Said:
    return leadline("run", "--target", url, *QUICK, "--dry-run", *more)


def commands(said: Said) -> list[list[str]]:
    assert said.status == 0, said.err
    return [shlex.split(line) for line in said.out.splitlines() if line.startswith("fio ")]


def test_a_dry_run_needs_no_cluster_and_prints_what_each_runner_would_do(
    leadline: Leadline,
) -> None:
    said = dry(leadline, "storageclass:fast?count=3")
    found = commands(said)
    assert len(found) == 4
    for command in found:
        assert command[0] == "fio"
        assert "--filename=/dev/leadline" in command
        assert "--output-format=json+" in command
    assert said.out.count("ioengine=io_uring") == 4
    assert said.out.count("offset_increment=") >= 4
    assert said.err == ""


def test_a_dry_run_on_folders_names_a_directory(leadline: Leadline) -> None:
    for command in commands(dry(leadline, "storageclass:fast?mode=filesystem")):
        assert "--directory=/leadline/volume/leadline" in command
        assert not any(one.startswith("--filename") for one in command)


def test_a_dry_run_prints_the_same_job_for_one_volume_and_for_many(leadline: Leadline) -> None:
    def jobs(url: str) -> str:
        said = dry(leadline, url, "--seed", "7")
        return re.sub(r"storageclass:\S+", "", said.out)

    assert jobs("storageclass:fast") == jobs("storageclass:fast?count=9")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("storageclass:fast?count=0", "count is a number from 1 to 256"),
        ("storageclass:fast?size=0", "size must be more than zero"),
        ("storageclass:Fast", "is not storageclass:NAME"),
        ("storageclass:fast?mod=block", "did you mean 'mode'?"),
        ("storageclass:fast?vm=large", "runner=vm only"),
    ],
)
@pytest.mark.parametrize("verb", [("check",), ("run", "--dry-run"), ("run",)])
def test_faults_of_a_target_are_told_before_anything(
    leadline: Leadline, verb: tuple[str, ...], url: str, said: str
) -> None:
    assert said in refused(leadline(*verb, "--target", url, *QUICK), 2, "plan-invalid")


@pytest.mark.parametrize("engine", ["rbd", "rbd-bench"])
def test_an_engine_of_ceph_is_refused(leadline: Leadline, tmp_path: Path, engine: str) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "targets: ['storageclass:fast']\n"
        f"workloads: [{{name: a, pattern: read, size: 1M, engine: {engine}}}]\n"
    )
    told = refused(leadline("check", plan), 2, "plan-invalid")
    assert "is for rbd: targets, not for storageclass: ones" in told
    assert refused(leadline("run", plan, "--dry-run"), 2, "plan-invalid") == told


def test_a_run_without_any_configuration_says_how_to_name_one(leadline: Leadline) -> None:
    told = refused(
        leadline("run", "--target", "storageclass:fast", *QUICK, "--quiet"), 2, "cluster-unknown"
    )
    assert "--kubeconfig FILE" in told
    assert "this is no pod" in told


def test_a_run_with_a_context_that_is_not_there(leadline: Leadline, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("contexts: [{name: lab, context: {cluster: lab}}]\n")
    where = ("--kubeconfig", config, "--context", "prod")
    said = leadline("run", "--target", "storageclass:fast", *QUICK, "--quiet", *where)
    assert "there is no context 'prod' (contexts: lab)" in refused(said, 2, "cluster-unknown")


def test_check_tells_of_the_target_without_asking_a_cluster(leadline: Leadline) -> None:
    said = leadline("check", "--target", "storageclass:fast?count=2", *QUICK, "--format", "json")
    assert said.status == 0, said.err
    assert "storageclass:fast?count=2" in json.dumps(json.loads(said.out))
