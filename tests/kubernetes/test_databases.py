"""pgbench and sysbench in pods, on volumes of a StorageClass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kubernetes import images
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.driving import Leadline, nothing_left

IMAGE = "registry.example/leadline-lab/databases:1"
# On one node of two cores, next to other tests.
SMALL = {"image": IMAGE, "cpu": "300m", "memory": "384Mi", "ready": "120s"}
TARGET = "files=storageclass:fast?mode=filesystem&size=1300Mi"
POSTGRESQL = Path("/usr/lib/postgresql")


def image_files() -> dict[str, Path]:
    """This machine's PostgreSQL and sysbench with the files that they need, at Debian's paths."""
    versions = sorted(POSTGRESQL.glob("*/bin/postgres"))
    assert versions, "there is no PostgreSQL: apt-get install --no-install-recommends postgresql"
    home = versions[-1].parents[1]
    files = images.runner_files((*images.PROGRAMS, "setpriv", "sysbench"))
    share = Path("/usr/share/postgresql") / home.name
    modules = [home / "lib" / name for name in ("plpgsql.so", "dict_snowball.so")]
    programs = [home / "bin" / name for name in ("postgres", "initdb", "pgbench", "psql")]
    for path in (*programs, *modules):
        files[str(path)[1:]] = path
        for library in images.libraries(path):
            inside = str(library).lstrip("/")
            files[inside if inside.startswith("usr/") else f"usr/{inside}"] = library.resolve()
    for path in share.rglob("*"):
        if path.is_file() and path.suffix != ".gz":
            files[str(path)[1:]] = path
    return files


@pytest.fixture(scope="module")
def databases(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    tar = tmp_path_factory.mktemp("image") / "databases.tar"
    images.write(
        tar, IMAGE, image_files(), command=["/bin/sh"], texts=images.TEXTS, user="1000:1000"
    )
    cluster.load_image(tar)
    tar.unlink()
    return cluster


@pytest.fixture
def leadline(databases: Cluster, tmp_path: Path) -> Leadline:
    return Leadline(cluster=databases, folder=tmp_path)


@pytest.mark.parametrize(
    ("workload", "ops"),
    [
        ({"engine": "pgbench", "pattern": "randrw", "numjobs": 2}, {"transaction"}),
        (
            {"engine": "sysbench", "pattern": "randrw", "numjobs": 2, "block_size": "16k"},
            {"read", "write", "total"},
        ),
    ],
    ids=["pgbench", "sysbench"],
)
def test_a_program_runs_in_a_pod_and_leaves_nothing(
    leadline: Leadline, workload: dict[str, object], ops: set[str]
) -> None:
    plan = leadline.plan(
        TARGET, cluster=SMALL, workload={"iodepth": 1, "size": "16M", **workload}, repeats=2
    )
    with nothing_left(leadline.cluster):
        ended = leadline("run", plan, "--format", "json")
    ended.answered()
    assert ended.json["trials"] == 2
    trials = leadline.trials()
    assert {trial["status"] for trial in trials} == {"completed"}
    assert all(trial["processor"]["engine_cpu_s"] > 0 for trial in trials)
    shown = leadline("show", "--format", "json", leadline.run).json["measurements"]
    rates = {item["op"]: item["value"] for item in shown if item["metric"] == "iops"}
    assert rates.keys() == ops
    assert all(rate > 0 for rate in rates.values())
    assert leadline("verify", "--format", "json", leadline.run).went_well().json["ok"]


def test_an_image_without_the_program_is_refused_with_its_package(leadline: Leadline) -> None:
    plan = leadline.plan(
        TARGET,
        cluster={**SMALL, "image": images.RUNNER},
        workload={"engine": "sysbench", "pattern": "randread", "iodepth": 1, "size": "16M"},
    )
    with nothing_left(leadline.cluster):
        ended = leadline("run", plan)
    ended.failed("program-missing", 3)
    assert "install the Debian package sysbench" in ended.err
