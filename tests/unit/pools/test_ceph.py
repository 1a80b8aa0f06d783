from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline import errors
from leadline.connect.ceph import CephAccess, CommandFailed
from leadline.errors import LeadlineError
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.pools import ceph
from leadline.pools.ceph import (
    NOTE_KEY,
    await_placement_groups,
    create_pools,
    explain_denials,
    recover,
    remove_pools,
)
from leadline.pools.ceph_state import Commands, read_state, steps
from leadline.pools.recipes import PoolRecipe, decide, pool_name
from tests.unit.pools.pool_contract import (
    Breaking,
    InterruptionContract,
    PoolContract,
    quiet,
    seen,
)
from tests.unit.pools.pool_double import RECORDED, ClusterDouble

SETTING = ("mon", "mon_allow_pool_delete")


def inventory() -> CephInventory:
    folder = RECORDED / "ceph-multi-az"
    return cluster_inventory({path.name: path.read_bytes() for path in folder.glob("*.json")})


def recipes(*names: str) -> tuple[PoolRecipe, ...]:
    marks = read_state(ClusterDouble()).marks
    return decide([pool_name(name) for name in names], inventory(), marks).recipes


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceph, "_PAUSE_S", 0.001)
    monkeypatch.setattr(ceph, "_POLL_S", 0.001)
    monkeypatch.setattr(ceph, "_PAUSE_S", 0.001)


class TestOnTheDouble(PoolContract, InterruptionContract):
    @pytest.fixture
    def commands(self) -> Commands:
        return ClusterDouble()

    @pytest.fixture
    def look(self) -> Callable[[], CephInventory]:
        return inventory

    @pytest.fixture
    def domain(self) -> str:
        return "zone"


def test_a_cephfs_pool_joins_the_filesystem_and_leaves_it() -> None:
    cluster = ClusterDouble()
    before = cluster.snapshot()
    create_pools(cluster, recipes("cephfs-rep2"), note=quiet, warn=quiet)
    assert cluster.filesystems["labfs"] == ["cephfs_r3", "cephfs_r2", "cephfs-rep2"]
    assert cluster.pools["cephfs-rep2"]["application_metadata"]["cephfs"].keys() == {
        "data",
        "leadline.owner",
    }
    remove_pools(cluster, read_state(cluster).owned, (), note=quiet, warn=quiet)
    assert cluster.snapshot() == before


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("prefix", ["fs add_data_pool", "osd pool application set"])
def test_an_interrupted_cephfs_pool_is_undone(prefix: str, after: bool) -> None:
    cluster = ClusterDouble()
    before = cluster.snapshot()
    breaking = Breaking(cluster, prefix, KeyboardInterrupt(), after=after)
    with pytest.raises(KeyboardInterrupt):
        create_pools(breaking, recipes("cephfs-rep2"), note=quiet, warn=quiet)
    assert cluster.snapshot() == before


def test_a_refused_step_is_reported_and_undone() -> None:
    cluster = ClusterDouble()
    before = cluster.snapshot()
    refusal = CommandFailed(errno.EINVAL, "osd pool set", "pool must only be stored on bluestore")
    breaking = Breaking(cluster, "osd pool set", refusal, after=False)
    with pytest.raises(CommandFailed) as reported:
        create_pools(breaking, recipes("rep2", "ec-2-1"), note=quiet, warn=quiet)
    assert reported.value is refusal
    assert cluster.snapshot() == before


def test_pools_that_do_not_become_clean_are_undone() -> None:
    cluster = ClusterDouble()
    before = cluster.snapshot()
    cluster.pg_state = "creating+peering"
    with pytest.raises(LeadlineError, match="not yet active and clean") as reported:
        create_pools(cluster, recipes("rep2"), note=quiet, warn=quiet, wait_s=0.01)
    assert reported.value.context == ("rep2 0 of 16 active+clean (16 creating+peering)",)
    assert cluster.snapshot() == before


@pytest.mark.parametrize(
    ("field", "entry", "awaited"),
    [
        ("pg_num_target", 32, "rep2 changes from 16 to 32 placement groups"),
        ("pg_placement_num", 8, "rep2 has placed 8 of 16 placement groups"),
    ],
)
def test_pools_whose_number_of_placement_groups_changes_are_awaited(
    field: str, entry: int, awaited: str
) -> None:
    cluster = ClusterDouble()
    create_pools(cluster, recipes("rep2"), note=quiet, warn=quiet)
    cluster.pools["rep2"][field] = entry
    with pytest.raises(LeadlineError) as reported:
        await_placement_groups(cluster, ["rep2"], note=quiet, wait_s=0.01)
    assert reported.value.context == (awaited,)


def test_the_autoscaler_is_awaited_where_it_acts() -> None:
    cluster = ClusterDouble()
    create_pools(cluster, recipes("rep2"), note=quiet, warn=quiet)
    entry = {"pool_name": "rep2", "pg_num_final": 128, "would_adjust": True}
    cluster.autoscaled = [entry | {"pg_autoscale_mode": "warn"}]
    await_placement_groups(cluster, ["rep2"], note=quiet, wait_s=0.01)
    cluster.autoscaled = [entry | {"pg_autoscale_mode": "on"}]
    with pytest.raises(LeadlineError) as reported:
        await_placement_groups(cluster, ["rep2"], note=quiet, wait_s=0.01)
    assert reported.value.context == ("rep2 changes from 16 to 128 placement groups",)


def test_an_effect_that_cannot_be_read_back_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lying(ClusterDouble):
        def _osd_pool_set(self, pool: str, var: str, val: str) -> None:
            """Accepts, and does nothing."""

    monkeypatch.setattr(ceph, "_READ_BACK_WITHIN_S", 0.01)
    cluster = Lying()
    before = cluster.snapshot()
    with pytest.raises(LeadlineError, match="accepted a setting of the pool for rep2 and does not"):
        create_pools(cluster, recipes("rep2"), note=quiet, warn=quiet)
    assert cluster.snapshot() == before


def test_what_cannot_be_undone_is_reported_and_hides_nothing() -> None:
    class Stubborn(ClusterDouble):
        def _osd_crush_rule_rm(self, name: str) -> None:
            raise CommandFailed(errno.EBUSY, "osd crush rule rm", "in use")

    reported: list[str] = []
    breaking = Breaking(Stubborn(), "osd pool create", KeyboardInterrupt(), after=True)
    with pytest.raises(KeyboardInterrupt):
        create_pools(breaking, recipes("rep2"), note=quiet, warn=reported.append)
    assert len(reported) == 1
    assert reported[0].startswith("the CRUSH rule leadline-rep2 stays: ")
    assert reported[0].endswith("`leadline pools remove rep2` removes it")


def test_a_rule_of_another_failure_domain_is_replaced() -> None:
    cluster = ClusterDouble()
    cluster.mon("osd crush rule create-replicated", name="leadline-rep2", root="lab", type="host")
    create_pools(cluster, recipes("rep2"), note=quiet, warn=quiet)
    place = read_state(cluster).place_of("rep2")
    assert place is not None
    assert place.failure_domain == "zone"


def test_a_rule_that_others_use_by_now_stays() -> None:
    cluster = ClusterDouble()
    create_pools(cluster, recipes("rep2"), note=quiet, warn=quiet)
    cluster.mon(
        "osd pool create", pool="mine", pool_type="replicated", rule="leadline-rep2", size=2
    )
    reported: list[str] = []
    remove_pools(cluster, read_state(cluster).owned, (), note=quiet, warn=reported.append)
    assert reported == ["the rule leadline-rep2 stays: mine uses it"]
    assert "mine" in cluster.pools
    assert "rep2" not in cluster.pools


# --- deletion that is not allowed


@pytest.mark.parametrize("before", [None, "false"])
def test_deletion_is_allowed_for_the_moment(before: str | None) -> None:
    cluster = ClusterDouble(deletion=False)
    if before is not None:
        cluster.config[SETTING] = before
    create_pools(cluster, recipes("rep2", "ec-2-1"), note=quiet, warn=quiet)
    remove_pools(cluster, read_state(cluster).owned, (), note=quiet, warn=quiet)
    assert "rep2" not in cluster.pools
    assert cluster.config.get(SETTING) == before
    assert cluster.keys == {}
    assert cluster.asked.count("config-key set") == 1, "once for both pools"


def test_an_undo_may_need_it_too() -> None:
    cluster = ClusterDouble(deletion=False)
    before = cluster.snapshot()
    breaking = Breaking(cluster, "osd pool set", KeyboardInterrupt(), after=True)
    with pytest.raises(KeyboardInterrupt):
        create_pools(breaking, recipes("rep2"), note=quiet, warn=quiet)
    assert cluster.snapshot() == before


def test_the_setting_of_a_killed_call_is_put_back_by_the_next() -> None:
    cluster = ClusterDouble(deletion=False)
    cluster.keys[NOTE_KEY] = "unset"
    cluster.config[SETTING] = "true"
    reported: list[str] = []
    recover(cluster, reported.append)
    assert cluster.config == {}
    assert cluster.keys == {}
    assert reported == ["mon_allow_pool_delete is off by default again"]


def test_a_monitor_that_does_not_obey_ends_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its file beats the database."""

    class Deaf(ClusterDouble):
        def _osd_pool_delete(
            self, pool: str, pool2: str, yes_i_really_really_mean_it: bool
        ) -> None:
            raise CommandFailed(errno.EPERM, "osd pool delete", "set mon_allow_pool_delete first")

    monkeypatch.setattr(ceph, "_OBEYED_WITHIN_S", 0.01)
    cluster = Deaf()
    create_pools(cluster, recipes("rep2"), note=quiet, warn=quiet)
    with pytest.raises(CommandFailed):
        remove_pools(cluster, read_state(cluster).owned, (), note=quiet, warn=quiet)
    assert cluster.config == {}
    assert cluster.keys == {}


def test_want_of_rights_is_reported_with_the_rights_that_are_needed() -> None:
    access = CephAccess(conf=Path("/etc/ceph/ceph.conf"), name="reader")
    with pytest.raises(LeadlineError) as reported, explain_denials(access):
        raise CommandFailed(errno.EACCES, "osd pool create rep2", "access denied")
    assert reported.value.kind is errors.CEPH_DENIED
    assert "client.reader" in reported.value.fact
    assert "mon 'allow *'" in str(reported.value.hint)


def test_the_label_comes_last() -> None:
    for recipe in recipes("rep2", "ec-2-1", "cephfs-rep2"):
        assert [*steps(recipe, "token")][-1].prefix == "osd pool application set"


def test_the_double_begins_as_recorded() -> None:
    assert seen(ClusterDouble())[3] == {"labfs": ("cephfs_r3", "cephfs_r2")}
