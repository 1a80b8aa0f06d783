"""`leadline plan`: what it refuses before any cluster is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Leadline, refused


def test_without_a_source_it_says_what_to_do(leadline: Leadline) -> None:
    told = refused(leadline("plan"), 2, "usage")
    assert "--from-cluster" in told
    assert "leadline check" in told


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--vm", "small"), "--vm has an effect with --runner vm only"),
        (("--runner", "vm"), "need an image to boot from: --vm-image"),
        (("--runner", "vm", "--vm", "smal", "--vm-image", "x"), "did you mean 'small'?"),
        (("--runner", "vm", "--mode", "filesystem", "--vm-image", "x"), "as a block device"),
        (("--volumes", "150Gi,big"), "--volumes"),
        (("--volumes", "0"), "a size above 0 is needed"),
        (("--count", "0"), "--count: numbers from 1 to 256"),
        (("--count", "1,two"), "--count: numbers from 1 to 256"),
    ],
)
def test_options_are_checked_before_a_cluster_is_asked(
    leadline: Leadline, options: tuple[str, ...], words: str
) -> None:
    told = refused(leadline("plan", "--from-cluster", *options), 2, "usage")
    assert words in told


def test_faults_of_the_workloads_are_those_of_every_plan(leadline: Leadline) -> None:
    said = leadline("plan", "--from-cluster", "--profile", "quik", "--runtime", "soon")
    assert said.status == 2
    assert "error[plan-invalid]" in said.err
    assert "quick" in said.err


def test_a_file_is_refused_before_a_cluster_is_asked(leadline: Leadline, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("mine")
    refused(leadline("plan", "--from-cluster", "-o", path), 2, "output-unwritable")
    assert path.read_text() == "mine"


def test_a_kubeconfig_that_is_not_there_is_told(leadline: Leadline, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    said = leadline("plan", "--from-cluster", "--kubeconfig", missing)
    told = refused(said, 2, "cluster-unknown")
    assert str(missing) in told
