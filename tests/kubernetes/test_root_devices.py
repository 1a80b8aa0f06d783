"""A cluster whose runtime gives raw devices to root only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes import classes
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.driving import Leadline, nothing_left, space
from tests.kubernetes.test_failures import RAW, refused_in, says


@pytest.fixture(scope="module")
def rootful(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("rootful")
    with Cluster(cluster.programs, folder, device_ownership=False) as other:
        classes.apply(other)
        yield other


def test_raw_devices_of_root_are_measured_by_root(rootful: Cluster, tmp_path: Path) -> None:
    leadline = Leadline(cluster=rootful, folder=tmp_path)
    with nothing_left(rootful):
        leadline("run", leadline.plan(RAW)).answered()
    (runners,) = (leadline.run / "trials").glob("*/runners.json")
    assert json.loads(runners.read_text())["runners"][0]["user"] == 0


def test_pod_security_that_takes_no_root_is_reported(rootful: Cluster, tmp_path: Path) -> None:
    leadline = Leadline(cluster=rootful, folder=tmp_path)
    with space(rootful, "strict"):  # enforces `restricted`
        ended = refused_in(leadline, "strict")
    says(ended.failed("kubernetes-failed", 4), "PodSecurity", "restricted", "runAsNonRoot")
