"""`leadline pools` on real clusters: the contract of the double, and the whole verb."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from leadline import errors
from leadline.connect.ceph import CephAccess, Connection
from leadline.errors import LeadlineError
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.lab.cluster import Lab, bring_up
from leadline.plan.lab import LabDescription, LabPool, Store, Topology
from leadline.pools.ceph import create_pools, explain_denials
from leadline.pools.ceph_state import Commands
from leadline.pools.recipes import Marks, decide, pool_name
from leadline.probes.ceph import capture
from leadline.report.answers.schemas import SCHEMAS
from tests.awaiting import wait_for
from tests.real.conftest import Ended
from tests.unit.pools.pool_contract import InterruptionContract, PoolContract, quiet

pytestmark = [pytest.mark.real, pytest.mark.root, pytest.mark.slow]
Process = Callable[..., Ended]


@pytest.fixture(scope="module")
def labs() -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root: no lab, so NO pools are made on a real cluster here")
    if shutil.which("ceph-mon") is None:
        pytest.skip("no ceph-mon (apt-get install ceph): NO pools are made on a real cluster")
    folder = Path(tempfile.mkdtemp(prefix="ll-pools-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEADLINE_LABS", str(folder))
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


def lab_of(name: str, folder: Path, **description: Any) -> Iterator[Lab]:
    """A lab of few pools, so that the others can be made."""
    wanted = LabDescription(
        store=Store.BLUESTORE_IN_MEMORY, osd_size_bytes=1 << 30, inter_zone_rtt_s=0, **description
    )
    lab = bring_up(name, wanted, folder, quiet)
    try:
        with Connection(lab.access) as cluster:
            # The autoscaler acts every minute, and a test waits for it.
            interval = "mgr/pg_autoscaler/sleep_interval"
            cluster.mon("config set", who="mgr", name=interval, value="5", force=True)
        yield lab
    finally:
        lab.down()


@pytest.fixture(scope="module")
def multi_zone(labs: Path) -> Iterator[Lab]:
    yield from lab_of("pools-mz", labs, pools=(LabPool.REP3,))


@pytest.fixture(scope="module")
def single_zone(labs: Path) -> Iterator[Lab]:
    """With CephFS, and with keys."""
    pools = (LabPool.REP3, LabPool.CEPHFS_REP3)
    yield from lab_of(
        "pools-sz", labs, topology=Topology.SINGLE_ZONE, pools=pools, authentication=True
    )


class OnALab(PoolContract):
    """A subclass gives the fixture `lab`."""

    @pytest.fixture
    def commands(self, lab: Lab) -> Iterator[Commands]:
        with Connection(lab.access) as connection:
            yield connection

    @pytest.fixture
    def look(self, commands: Commands) -> Callable[[], CephInventory]:
        return lambda: cluster_inventory(capture(commands))


class TestOnThreeZones(OnALab, InterruptionContract):
    @pytest.fixture
    def lab(self, multi_zone: Lab) -> Lab:
        return multi_zone

    @pytest.fixture
    def domain(self) -> str:
        return "zone"


class TestOnThreeRacks(OnALab):
    @pytest.fixture
    def lab(self, single_zone: Lab) -> Lab:
        return single_zone

    @pytest.fixture
    def domain(self) -> str:
        return "rack"


# --- the verb


def run(lab: Lab, program: str, *arguments: str) -> str:
    done = subprocess.run(
        lab.access.command(program, *arguments), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pools(process: Process, lab: Lab, *words: str) -> Ended:
    return process("pools", *words, "--lab", lab.name, "--quiet")


def outcomes(ended: Ended) -> dict[str, str]:
    """The answer, held against the schema that `leadline schema pools` prints."""
    answer = json.loads(ended.out)
    jsonschema.validate(answer, SCHEMAS["pools"].model_json_schema(by_alias=True))
    return {pool["name"]: pool["outcome"] for pool in answer["pools"]}


def everything(lab: Lab) -> dict[str, object]:
    """All that pools may change of a cluster, but Ceph's own history of settings."""
    with Connection(lab.access) as cluster:
        dump = cluster.mon_json("osd dump")
        return {
            "pools": dump["pools"],
            "profiles": dump["erasure_code_profiles"],
            "rules": cluster.mon_json("osd crush rule dump"),
            "crush": cluster.mon_json("osd crush dump")["buckets"],
            "config": cluster.mon_json("config dump"),
            # The manager notes its own progress whenever placement groups move.
            "keys": [
                key
                for key in cluster.mon_json("config-key ls")
                if not key.startswith(("config-history/", "mgr/progress/"))
            ],
            "filesystems": cluster.mon_json("fs ls"),
        }


def test_the_pools_of_the_study_come_and_go(process: Process, multi_zone: Lab) -> None:
    before = everything(multi_zone)
    planned = pools(process, multi_zone, "create", "--dry-run", "--format", "json")
    assert planned.status == 0, planned.err
    assert outcomes(planned)["ec-2-1"] == "would make"
    assert everything(multi_zone) == before, "a dry run changes nothing"

    created = pools(process, multi_zone, "create", "--format", "json")
    assert created.status == 0, created.err
    assert outcomes(created) == {
        "rep3": "exists, not made by Leadline",
        "rep3-virt": "same as another",
        "rep3-enc": "skipped",
        "rep2": "made",
        "cephfs-rep3": "skipped",
        "cephfs-rep2": "skipped",
        "ec-2-1": "made",
    }
    # Placement groups are clean when they are reported to be made; a busy cluster's health comes
    # later.
    with Connection(multi_zone.access) as cluster:
        wait_for(lambda: cluster.mon_json("health")["status"] == "HEALTH_OK", 120)
    again = pools(process, multi_zone, "create", "--format", "json")
    assert outcomes(again)["rep2"] == outcomes(again)["ec-2-1"] == "exists"

    run(multi_zone, "rbd", "create", "rep3/img", "--size", "32M", "--data-pool", "ec-2-1")
    refused = pools(process, multi_zone, "remove", "--all")
    assert refused.status == 2, "an image counts, though nothing was written to it"
    assert "image rep3/img" in refused.err
    bench = ("bench", "--io-type", "write", "--io-pattern", "rand", "--io-size", "16K")
    run(multi_zone, "rbd", *bench, "--io-total", "2M", "rep3/img")
    assert "rbd_data." in run(multi_zone, "rados", "-p", "ec-2-1", "ls")
    refused = pools(process, multi_zone, "remove", "--all")
    assert refused.status == 2
    assert "--destroy-data ec-2-1" in refused.err
    listed = process("pools", "list", "--lab", multi_zone.name)
    assert listed.status == 0, listed.err
    assert [line.split()[:2] for line in listed.out.splitlines()[2:]] == [
        ["ec-2-1", "exists"],
        ["rep2", "exists"],
        ["rep3", "exists,"],
    ]
    run(multi_zone, "rbd", "rm", "--no-progress", "rep3/img")

    removed = pools(process, multi_zone, "remove", "--all", "--format", "json")
    assert removed.status == 0, removed.err
    assert outcomes(removed) == {"ec-2-1": "removed", "rep2": "removed"}
    assert everything(multi_zone) == before


def test_pools_are_sized_and_coded_as_the_options_say(process: Process, multi_zone: Lab) -> None:
    before = everything(multi_zone)

    def stored(name: str) -> dict[str, Any]:
        with Connection(multi_zone.access) as cluster:
            pools = cluster.mon_json("osd dump")["pools"]
        return next(pool for pool in pools if pool["pool_name"] == name)

    words = ("--pg-num", "8", "--ec-profile", "plugin=isa", "--ec-profile", "stripe_unit=16K")
    refused = pools(process, multi_zone, "create", "rep1")
    assert refused.status == 1
    assert "one failed OSD loses its data" in refused.out
    made = pools(process, multi_zone, "create", "rep1", "ec-2-1", *words, "--no-redundancy")
    assert made.status == 0, made.err
    assert stored("rep1")["size"] == 1
    for name in ("rep1", "ec-2-1"):
        assert (stored(name)["pg_num"], stored(name)["pg_autoscale_mode"]) == (8, "off")
    with Connection(multi_zone.access) as cluster:
        profile = cluster.mon_json("osd erasure-code-profile get", name="leadline-ec-2-1")
    assert (profile["plugin"], profile["stripe_unit"]) == ("isa", "16K")
    # The command ends when the autoscaler has nothing left to do.
    made = pools(process, multi_zone, "create", "rep2", "--target-ratio", "0.9", "--wait", "4m")
    assert made.status == 0, made.err
    sized = stored("rep2")
    assert sized["options"]["target_size_ratio"] == pytest.approx(0.9)
    with Connection(multi_zone.access) as cluster:
        status = json.loads(cluster.mgr("osd pool autoscale-status", format="json"))
    for pool in status:
        if pool["pool_name"] == "rep2":
            assert not pool["would_adjust"]
    assert sized["pg_num"] == sized["pg_num_target"] == sized["pg_placement_num"]
    assert pools(process, multi_zone, "remove", "--all").status == 0
    assert everything(multi_zone) == before


def test_what_runs_of_leadline_left_goes_with_the_pool(process: Process, multi_zone: Lab) -> None:
    before = everything(multi_zone)
    assert pools(process, multi_zone, "create", "rep2", "ec-2-1").status == 0
    image = "rep3/leadline-perf-abc"
    run(multi_zone, "rbd", "create", image, "--size", "8M", "--data-pool", "ec-2-1")
    run(multi_zone, "rbd", "bench", "--io-type", "write", "--io-total", "64K", image)
    run(multi_zone, "rados", "-p", "rep2", "put", "leadline-perf-abc_1", "/etc/hostname")
    refused = pools(process, multi_zone, "remove", "--all")
    assert refused.status == 2, "its name alone does not make an image ours"
    run(multi_zone, "rbd", "image-meta", "set", image, "leadline.owner", "perf abc")
    run(multi_zone, "rados", "-p", "rep2", "-N", "space", "put", "leadline-x", "/etc/hostname")
    refused = pools(process, multi_zone, "remove", "--all")
    assert "rep2: object leadline-x" in refused.err, "we use no namespaces"
    done = pools(process, multi_zone, "remove", "--all", "--destroy-data", "rep2")
    assert done.status == 0, done.err
    assert run(multi_zone, "rbd", "ls", "rep3") == ""
    assert everything(multi_zone) == before


def test_pools_of_others_are_left_and_unknown_names_refused(
    process: Process, multi_zone: Lab
) -> None:
    before = everything(multi_zone)
    left = pools(process, multi_zone, "remove", "rep3", "rep2", "rep3-virt", "--format", "json")
    assert left.status == 0, left.err
    assert outcomes(left) == {"rep3": "left", "rep2": "none", "rep3-virt": "none"}
    wrong = pools(process, multi_zone, "create", "rpe2")
    assert wrong.status == 2
    assert "did you mean 'rep2'?" in wrong.err
    assert pools(process, multi_zone, "remove").status == 2
    assert everything(multi_zone) == before


def test_a_named_pool_that_cannot_be_had_is_a_negative_answer(
    process: Process, multi_zone: Lab
) -> None:
    ended = pools(process, multi_zone, "create", "ec-2-2")
    assert ended.status == 1
    assert "ec-2-2 needs 4 failure domains; the cluster has 3 zones, 3 hosts" in ended.out


def test_pools_of_a_plan(process: Process, multi_zone: Lab, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"clusters:\n  mz:\n    lab: {multi_zone.name}\n"
        "workloads: [{name: w, pattern: write, block_size: 4M, size: 64M}]\n"
        "targets:\n  - rbd:rep3?data_pool=ec-2-1\n  - rados:mine\n  - rados:rep2\n"
    )
    planned = process("pools", "create", "--plan", plan, "--dry-run", "--format", "json")
    assert planned.status == 0, planned.err
    assert outcomes(planned).keys() == {"rep3", "ec-2-1", "rep2"}
    assert "the pool 'mine'" in planned.err


def test_a_cephfs_pool_joins_and_leaves_the_filesystem(process: Process, single_zone: Lab) -> None:
    before = everything(single_zone)
    created = pools(process, single_zone, "create", "cephfs-rep2", "ec-2-1", "--format", "json")
    assert created.status == 0, created.err
    domains = {pool["name"]: pool["failure_domain"] for pool in json.loads(created.out)["pools"]}
    assert domains == {"cephfs-rep2": "rack", "ec-2-1": "rack"}
    with Connection(single_zone.access) as cluster:
        (filesystem,) = cluster.mon_json("fs ls")
    assert "cephfs-rep2" in filesystem["data_pools"]
    run(single_zone, "rados", "-p", "cephfs-rep2", "put", "10000000002.00000000", "/etc/hostname")
    refused = pools(process, single_zone, "remove", "cephfs-rep2")
    assert refused.status == 2
    assert "object 10000000002.00000000" in refused.err
    run(single_zone, "rados", "-p", "cephfs-rep2", "rm", "10000000002.00000000")
    removed = pools(process, single_zone, "remove", "--all")
    assert removed.status == 0, removed.err
    assert everything(single_zone) == before


def test_want_of_rights_is_reported(single_zone: Lab, tmp_path: Path) -> None:
    before = everything(single_zone)
    keyring = tmp_path / "reader.keyring"
    with Connection(single_zone.access) as connection:
        reading = ["mon", "allow r"]
        keyring.write_bytes(
            connection.mon("auth get-or-create", entity="client.reader", caps=reading)
        )
        inventory = cluster_inventory(capture(connection))
    reader = CephAccess(
        conf=single_zone.access.conf,
        name="reader",
        keyring=keyring,
        namespace=single_zone.access.namespace,
    )
    recipes = decide([pool_name("rep2")], inventory, Marks()).recipes
    try:
        with (
            pytest.raises(LeadlineError) as told,
            explain_denials(reader),
            Connection(reader) as connection,
        ):
            create_pools(connection, recipes, note=quiet, warn=quiet)
    finally:
        with Connection(single_zone.access) as connection:
            connection.mon("auth rm", entity="client.reader")
    assert told.value.kind is errors.CEPH_DENIED
    assert "client.reader" in told.value.fact
    assert everything(single_zone) == before
