"""Pods that share a volume of a real CSI driver, each with its own files, the same files, or a
read-only copy. The cluster has one node; the driver admits every access mode. test_two_nodes.py has
pods on two nodes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes import csi_driver
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.driving import MIB, Leadline, nothing_left, pods

CLASS = "storageclass:csi?size=64Mi&mode=filesystem"
TARGETS = (
    f"own={CLASS}&access=rwx&sharing=own-files&count=2",
    f"same={CLASS}&access=rwx&sharing=same-files&count=2",
    f"copy={CLASS}&access=rox&count=2",
)
SMALL = {"cpu": "100m", "memory": "64Mi"}
DEFAULTS = {"size": "8M", "runtime": "1s", "ramp": "0s"}
LONG = {**DEFAULTS, "runtime": "20s"}


@pytest.fixture(scope="module")
def driver(cluster: Cluster) -> Iterator[Cluster]:
    with csi_driver.running(cluster):
        yield cluster


@pytest.fixture(scope="module")
def shared(driver: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Leadline:
    leadline = Leadline(cluster=driver, folder=tmp_path_factory.mktemp("shared"))
    # It has the steps of the others and more; theirs are deep tests.
    plan = leadline.plan(TARGETS[2], cluster=SMALL, defaults=DEFAULTS)
    with nothing_left(driver):
        leadline("run", plan).answered()
    return leadline


def folder_of(leadline: Leadline, target: str) -> Path:
    (found,) = [
        path.parent
        for path in (leadline.run / "trials").glob("*/trial.json")
        if json.loads(path.read_text())["target"] == target
    ]
    return found


def options_of(folder: Path, number: int) -> dict[str, Any]:
    output = json.loads((folder / f"volume-{number}.fio.json").read_text())
    assert output["jobs"][0]["read"]["total_ios"] > 0
    return {**output["global options"], **output["jobs"][0]["job options"]}


def test_two_pods_read_one_volume(shared: Leadline) -> None:
    require_shared(shared, "copy")


@pytest.mark.deep
def test_pods_write_files_of_their_own_or_the_same_ones(driver: Cluster, tmp_path: Path) -> None:
    leadline = Leadline(cluster=driver, folder=tmp_path)
    with nothing_left(driver):
        mixed = {"pattern": "randrw"}
        plan = leadline.plan(*TARGETS[:2], cluster=SMALL, defaults=DEFAULTS, workload=mixed)
        leadline("run", plan).answered()
    for target in ("own", "same"):
        require_shared(leadline, target)


def require_shared(leadline: Leadline, target: str) -> None:
    """One volume, a result of each pod, and files and offsets as the target asks for."""
    folder = folder_of(leadline, target)
    runners = json.loads((folder / "runners.json").read_text())["runners"]
    assert len({runner["name"] for runner in runners}) == 2
    assert len({runner["volume"]["volume"] for runner in runners}) == 1
    options = [options_of(folder, number) for number in (1, 2)]
    seeds = {int(each["randseed"]) for each in options}
    assert max(seeds) - min(seeds) == 1
    names = [each["filename_format"] for each in options]
    second = "leadline.c2.$jobnum.dat" if target == "own" else names[0]
    assert names == ["leadline.$jobnum.dat", second]
    record = json.loads((folder / "trial.json").read_text())
    assert record["extent"]["written_bytes"] == (2 if target == "own" else 1) * 8 * MIB


def test_the_read_only_pods_are_not_the_one_that_wrote(shared: Leadline) -> None:
    (prefill,) = (shared.run / "prefill").glob("*-target-1*")
    assert (prefill / "fio.json").exists()
    runners = json.loads((folder_of(shared, "copy") / "runners.json").read_text())["runners"]
    assert all("-readers-" in runner["name"] for runner in runners)
    shared("verify", shared.run).went_well()


def test_writes_to_a_read_only_volume_are_refused_before_anything_is_touched(
    cluster: Cluster, tmp_path: Path
) -> None:
    leadline = Leadline(cluster=cluster, folder=tmp_path)
    plan = leadline.plan(TARGETS[2], workload={"pattern": "randrw"}, cluster=SMALL)
    ended = leadline("check", plan).failed("plan-invalid", 2)
    assert "access=rox is mounted read-only" in ended.err


def readers(cluster: Cluster) -> list[str]:
    """The names of the pods that read a copy and run."""
    names = [
        pod["metadata"]["name"] for pod in pods(cluster) if pod["status"]["phase"] == "Running"
    ]
    return [name for name in names if "-readers-" in name]


@pytest.mark.deep
def test_killed_while_pods_read_clean_leaves_nothing(driver: Cluster, tmp_path: Path) -> None:
    leadline = Leadline(cluster=driver, folder=tmp_path)
    with nothing_left(driver):
        going = leadline.start("run", leadline.plan(TARGETS[2], cluster=SMALL, defaults=LONG))
        going.until("the readers", lambda: len(readers(driver)) == 2)
        going.signal(signal.SIGKILL)
        going.ended()
        leadline("clean").went_well()


@pytest.mark.deep
def test_a_lost_reader_gets_a_new_volume_that_is_filled_and_copied_again(
    driver: Cluster, tmp_path: Path
) -> None:
    leadline = Leadline(cluster=driver, folder=tmp_path)
    with nothing_left(driver):
        going = leadline.start("run", leadline.plan(TARGETS[2], cluster=SMALL, defaults=LONG))
        going.says("[1/1]")
        (name, *_), (pod, *_) = readers(driver), pods(driver)
        space = pod["metadata"]["namespace"]
        driver.request(f"/api/v1/namespaces/{space}/pods/{name}", "DELETE")
        ended = going.ended(300).answered()
    assert "made anew: new runners and volumes" in ended.err
    assert [trial["status"] for trial in leadline.trials()] == ["failed", "completed"]


@pytest.mark.deep
def test_pods_have_stretches_of_their_own_on_one_raw_device(
    driver: Cluster, tmp_path: Path
) -> None:
    leadline = Leadline(cluster=driver, folder=tmp_path)
    target = "raw=storageclass:csi?size=64Mi&mode=block&access=rwx&sharing=own-files&count=2"
    with nothing_left(driver):
        leadline("run", leadline.plan(target, cluster=SMALL, defaults=DEFAULTS)).answered()
    folder = folder_of(leadline, "raw")
    assert [int(options_of(folder, number)["offset"]) for number in (1, 2)] == [0, 8 * MIB]


@pytest.mark.deep
def test_a_provisioner_that_does_not_clone_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    """The provisioner of `block` gives an empty device, whatever `dataSource` asks for."""
    leadline = Leadline(cluster=cluster, folder=tmp_path)
    target = "copy=storageclass:block?size=64Mi&mode=block&access=rox&count=2"
    with nothing_left(cluster):
        ended = leadline("run", leadline.plan(target, cluster=SMALL, defaults=DEFAULTS))
    said = ended.failed("class-unsuitable", 3).err
    assert "does not have the data that was written for it" in said
