from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.ceph.autoscaler import Mode
from leadline.inventory.ceph.model import (
    CephInventory,
    CrushLevel,
    CrushRoot,
    CrushRule,
    Crypt,
    Osd,
    Place,
    Setting,
)
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.pools.ceph import _is_owned
from leadline.pools.ceph_state import steps
from leadline.pools.options import PoolOptions
from leadline.pools.recipes import (
    STUDY,
    Act,
    Answer,
    Decision,
    Kind,
    Marks,
    PoolRecipe,
    decide,
    pool_name,
)
from tests.unit.inventory.conftest import dumps_of

LEVELS = ("root", "region", "zone", "datacenter", "room", "row", "rack", "chassis", "host")


@pytest.fixture(scope="module")
def multi_az() -> CephInventory:
    """Three zones, six hosts with an OSD each, CephFS, no autoscaler."""
    return cluster_inventory(dumps_of("ceph-multi-az"))


@pytest.fixture(scope="module")
def single_az() -> CephInventory:
    return cluster_inventory(dumps_of("ceph-single-az"))


def asked(inventory: CephInventory, *names: str, marks: Marks | None = None) -> Answer:
    return decide([pool_name(name) for name in names], inventory, marks or Marks())


def of(answer: Answer, name: str) -> Decision:
    return next(decision for decision in answer.decisions if decision.name == name)


def made(answer: Answer, name: str) -> PoolRecipe:
    found = of(answer, name).recipe
    assert found is not None, of(answer, name).reason
    return found


def places(*below_root: str) -> list[tuple[Place, ...]]:
    """`zone=a/host=h1` and so on, an OSD each."""
    found = []
    for path in below_root:
        pairs = (part.split("=") for part in path.split("/"))
        root = Place(level="root", name="default")
        found.append((root, *(Place(level=level, name=name) for level, name in pairs)))
    return found


def built(
    inventory: CephInventory,
    locations: Iterable[tuple[Place, ...]],
    change: Callable[[Osd], dict[str, object]] = lambda osd: {},
) -> CephInventory:
    """The cluster with OSDs at these places and without pools."""
    osds = []
    for number, location in enumerate(locations):
        update = {"id": number, "location": location, "weight": 1.0, "device_class": "ssd"}
        osd = inventory.osds[0].model_copy(update=update)
        osds.append(osd.model_copy(update=change(osd)))
    roots = []
    for name in dict.fromkeys(osd.location[0].name for osd in osds):
        here = {place.level for osd in osds for place in osd.location}
        levels = [CrushLevel(level=level, count=1) for level in LEVELS if level in here]
        osd_level = CrushLevel(level="osd", count=len(osds))
        roots.append(CrushRoot(name=name, levels=(*levels, osd_level)))
    update = {"osds": tuple(osds), "crush": tuple(roots), "pools": (), "filesystems": ()}
    return inventory.model_copy(update=update)


# --- names


@pytest.mark.parametrize(
    ("text", "kind", "size"),
    [
        ("rep2", Kind.REPLICATED, 2),
        ("rep10", Kind.REPLICATED, 10),
        ("ec-2-1", Kind.ERASURE, 3),
        ("ec-8-3", Kind.ERASURE, 11),
        ("cephfs-rep2", Kind.CEPHFS, 2),
        ("rep1", Kind.REPLICATED, 1),
        ("rep3-luks", Kind.LUKS, 3),
        ("rep3-virt", Kind.VIRTUAL, 3),
        ("rep2-enc", Kind.ENCRYPTED, 2),
    ],
)
def test_names_say_what_a_pool_is(text: str, kind: Kind, size: int) -> None:
    name = pool_name(text)
    assert (name.kind, name.size) == (kind, size)


@pytest.mark.parametrize(
    "text",
    ["", "rep", "rep1-virt", "cephfs-rep1", "rep0", "rep11", "rep03", "ec-2", "ec-1-1", "ec-2-0",
     "ec-30-3", "cephfs-rep3-enc", "cephfs-ec-2-1", "Rep3", "rep3 ", "rep3\n", "rbd", "ec-٢-1"],
)  # fmt: skip
def test_other_names_are_refused_with_the_forms(text: str) -> None:
    with pytest.raises(LeadlineError) as reported:
        pool_name(text)
    assert reported.value.kind is errors.USAGE
    assert any("ec-K-M" in line for line in reported.value.context)


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(LeadlineError) as reported:
        pool_name("cephfs-rpe3")
    assert reported.value.hint == "did you mean 'cephfs-rep3'?"


# --- failure domains


def test_three_zones_give_zones(multi_az: CephInventory) -> None:
    answer = asked(multi_az, *STUDY)
    recipes = {recipe.name.text: recipe for recipe in answer.recipes}
    assert recipes.keys() == {"rep3", "rep2", "cephfs-rep3", "cephfs-rep2", "ec-2-1"}
    assert {recipe.placement.domain for recipe in recipes.values()} == {"zone"}
    assert recipes["cephfs-rep2"].filesystem == "labfs"


def test_three_racks_of_one_zone_give_racks(single_az: CephInventory) -> None:
    assert made(asked(single_az, "rep2"), "rep2").placement.domain == "rack"


@pytest.mark.parametrize("name", ["ec-3-1", "ec-2-2", "ec-4-2", "rep4"])
def test_a_pool_that_needs_more_domains_is_skipped_in_numbers(
    multi_az: CephInventory, name: str
) -> None:
    """Though the six hosts would do for four: the domain is not lowered in silence."""
    decision = of(asked(multi_az, name), name)
    size = pool_name(name).size
    assert decision.act is Act.SKIP
    assert decision.reason == (
        f"{name} needs {size} failure domains; the cluster has 3 zones, 6 hosts"
    )


@pytest.mark.parametrize(
    ("locations", "domain"),
    [
        (["zone=a/host=1", "zone=b/host=2"], "zone"),
        (["zone=a/host=1", "zone=b/host=2", "zone=b/host=3"], "host"),
        (["datacenter=a/rack=1/host=1", "datacenter=a/rack=2/host=2",
          "datacenter=b/rack=3/host=3"], "rack"),
        (["host=1", "host=2", "host=3"], "host"),
        (["host=1", "host=1", "host=1"], "osd"),
        (["region=r/host=1", "region=s/host=2", "region=t/host=3"], "host"),
    ],
)  # fmt: skip
def test_the_domain_is_the_highest_level_with_three_buckets_else_two(
    multi_az: CephInventory, locations: list[str], domain: str
) -> None:
    inventory = built(multi_az, places(*locations))
    assert made(asked(inventory, "rep2"), "rep2").placement.domain == domain


@pytest.mark.parametrize("change", [{"up": False}, {"is_in": False}, {"weight": 0.0}])
def test_buckets_whose_osds_are_down_or_out_do_not_count(
    multi_az: CephInventory, change: dict[str, object]
) -> None:
    spots = places("zone=a/host=1", "zone=b/host=2", "zone=c/host=3")
    inventory = built(multi_az, spots, lambda osd: change if osd.id == 2 else {})
    decision = of(asked(inventory, "rep3"), "rep3")
    assert decision.reason == "rep3 needs 3 failure domains; the cluster has 2 zones, 2 hosts"


def test_one_host_takes_copies_but_no_erasure_coding(multi_az: CephInventory) -> None:
    inventory = built(multi_az, places("host=1", "host=1", "host=1"))
    answer = asked(inventory, "rep3", "rep4", "ec-2-1")
    assert made(answer, "rep3").placement.domain == "osd"
    assert of(answer, "rep4").reason == (
        "rep4 needs 4 failure domains; the cluster has 1 host, 3 OSDs"
    )
    assert of(answer, "ec-2-1").reason == "ec-2-1 needs 3 failure domains; the cluster has 1 host"


def test_without_osds_all_is_skipped(multi_az: CephInventory) -> None:
    inventory = multi_az.model_copy(update={"osds": (), "crush": (), "pools": ()})
    assert {decision.act for decision in asked(inventory, "rep3", "ec-2-1").decisions} == {Act.SKIP}


# --- device classes, roots


def test_of_several_classes_the_largest_is_taken_and_said(multi_az: CephInventory) -> None:
    spots = places(*[f"host={number}" for number in range(6)])
    inventory = built(
        multi_az, spots, lambda osd: {"device_class": "hdd", "weight": 9.0} if osd.id > 2 else {}
    )
    answer = asked(inventory, "rep3", "ec-2-1")
    placement = made(answer, "rep3").placement
    assert (placement.device_class, placement.buckets) == ("hdd", 3)
    assert answer.notes == (
        "of the device classes hdd, ssd pools are made on hdd, which has the most capacity",
    )
    commands = [str(step) for recipe in answer.recipes for step in steps(recipe, "token")]
    assert "class=hdd" in commands[0]
    assert any("crush-device-class=hdd" in command for command in commands)


def test_the_only_class_is_named_where_all_rules_name_it(multi_az: CephInventory) -> None:
    """Else the rules would overlap, and the autoscaler stop for both."""
    inventory = built(multi_az, places("host=1", "host=2", "host=3"))
    assert made(asked(inventory, "rep2"), "rep2").placement.device_class is None
    rule = CrushRule(
        id=0, name="r", root="default", device_class="ssd", failure_domain="host", takes=1
    )
    pool = multi_az.pools[0].model_copy(update={"rule": rule})
    inventory = inventory.model_copy(update={"pools": (pool,)})
    assert made(asked(inventory, "rep2"), "rep2").placement.device_class == "ssd"


def test_of_several_roots_the_largest_is_taken_and_said(multi_az: CephInventory) -> None:
    spots = places("host=1", "host=2", "host=3")
    spots += [(Place(level="root", name="fast"), Place(level="host", name="f1"))]
    answer = asked(built(multi_az, spots), "rep2")
    assert made(answer, "rep2").placement.root == "default"
    assert answer.notes == ("of the roots default, fast pools are made below default, the largest",)


# --- encryption


def test_without_dm_crypt_an_encrypted_pool_is_skipped(multi_az: CephInventory) -> None:
    decision = of(asked(multi_az, "rep3-enc"), "rep3-enc")
    assert decision.act is Act.SKIP
    assert decision.reason.startswith("no OSD is known to be on dm-crypt")


def test_on_an_encrypted_cluster_it_is_a_pool_like_others(multi_az: CephInventory) -> None:
    spots = places("host=1", "host=2", "host=3")
    inventory = built(multi_az, spots, lambda osd: {"dm_crypt": Crypt.YES})
    assert made(asked(inventory, "rep3-enc"), "rep3-enc").placement.device_class is None


def test_a_class_of_encrypted_osds_gets_a_rule(multi_az: CephInventory) -> None:
    spots = places(*[f"host={number}" for number in range(6)])

    def change(osd: Osd) -> dict[str, object]:
        secret = {"device_class": "secret", "dm_crypt": Crypt.YES, "weight": 0.1}
        return secret if osd.id > 2 else {}

    answer = asked(built(multi_az, spots, change), "rep3", "rep3-enc")
    assert made(answer, "rep3").placement.device_class == "ssd"
    assert made(answer, "rep3-enc").placement.device_class == "secret"


@pytest.mark.parametrize("up", [True, False])
def test_a_class_of_which_some_are_encrypted_is_none(multi_az: CephInventory, up: bool) -> None:
    """An OSD without encryption that is down may come back, and get data."""
    spots = places("host=1", "host=2", "host=3", "host=4")

    def change(osd: Osd) -> dict[str, object]:
        return {"dm_crypt": Crypt.YES} if osd.id else {"up": up}

    decision = of(asked(built(multi_az, spots, change), "rep3-enc"), "rep3-enc")
    assert decision.act is Act.SKIP
    assert decision.reason.startswith("3 of 4 OSDs are on dm-crypt, but ")


# --- what there is already


def test_the_virtual_pool_is_the_plain_one(multi_az: CephInventory) -> None:
    answer = asked(multi_az, "rep3-virt")
    assert of(answer, "rep3-virt").act is Act.SAME
    assert [recipe.name.text for recipe in answer.recipes] == ["rep3"]


def test_a_pool_of_others_is_used_as_it_is(multi_az: CephInventory) -> None:
    pools = tuple(
        pool.model_copy(update={"name": "rep3"}) if pool.name == "rbd_r3" else pool
        for pool in multi_az.pools
    )
    inventory = multi_az.model_copy(update={"pools": pools})
    assert of(asked(inventory, "rep3"), "rep3").act is Act.FOREIGN
    marks = Marks(finished=frozenset({"rep3"}))
    assert of(asked(inventory, "rep3", marks=marks), "rep3").act is Act.EXISTS
    half = Marks(unfinished=frozenset({"rep3"}))
    assert of(asked(inventory, "rep3", marks=half), "rep3").act is Act.CREATE


def test_metadata_of_images_goes_to_the_first_replicated_pool(multi_az: CephInventory) -> None:
    assert made(asked(multi_az, "ec-2-1"), "ec-2-1").metadata_pool == "rbd_r3"


def test_without_a_replicated_pool_one_is_made_first(multi_az: CephInventory) -> None:
    answer = asked(multi_az.model_copy(update={"pools": ()}), "ec-2-1")
    assert [recipe.name.text for recipe in answer.recipes] == ["rep3", "ec-2-1"]
    assert made(answer, "ec-2-1").metadata_pool == "rep3"
    assert "for the metadata of images on ec-2-1" in of(answer, "rep3").reason


def test_a_replicated_pool_asked_for_will_do(multi_az: CephInventory) -> None:
    answer = asked(multi_az.model_copy(update={"pools": ()}), "ec-2-1", "rep2")
    assert [recipe.name.text for recipe in answer.recipes] == ["rep2", "ec-2-1"]
    assert made(answer, "ec-2-1").metadata_pool == "rep2"


def test_overwrites_need_bluestore(multi_az: CephInventory) -> None:
    spots = places("host=1", "host=2", "host=3")
    inventory = built(multi_az, spots, lambda osd: {"store": "memstore"})
    assert of(asked(inventory, "ec-2-1"), "ec-2-1").reason == (
        "overwrites need BlueStore, and osd.0 has memstore"
    )


def test_cephfs_pools_need_one_filesystem(multi_az: CephInventory) -> None:
    assert multi_az.filesystems is not None
    one = multi_az.filesystems[0]
    none = multi_az.model_copy(update={"filesystems": ()})
    two = multi_az.model_copy(
        update={"filesystems": (one, one.model_copy(update={"name": "other"}))}
    )
    assert of(asked(none, "cephfs-rep3"), "cephfs-rep3").reason == "the cluster has no CephFS"
    assert of(asked(two, "cephfs-rep3"), "cephfs-rep3").act is Act.SKIP
    named = decide([pool_name("cephfs-rep3")], two, Marks(), filesystem="other")
    assert made(named, "cephfs-rep3").filesystem == "other"
    with pytest.raises(LeadlineError) as reported:
        decide([], two, Marks(), filesystem="third")
    assert reported.value.kind is errors.USAGE


# --- placement groups


def test_the_autoscaler_is_left_its_business(multi_az: CephInventory) -> None:
    off = asked(multi_az, "rep2")
    assert made(off, "rep2").pg_num is not None
    on = multi_az.model_copy(update={"file_settings": ()})
    assert made(asked(on, "rep2"), "rep2").pg_num is None
    setting = Setting(
        section="global", name="osd_pool_default_pg_autoscale_mode", value=Mode.WARN.value
    )
    warn = on.model_copy(update={"configuration": (setting,)})
    assert made(asked(warn, "rep2"), "rep2").pg_num is not None


def test_without_it_a_pool_gets_a_part_of_what_is_left(multi_az: CephInventory) -> None:
    """300 PG replicas of three OSDs, for five pools: 60 each, so 32 of rep2 and 16 of rep3."""
    inventory = built(multi_az, places("host=1", "host=2", "host=3"))
    alone = asked(inventory, "rep2")
    together = asked(inventory, "rep2", "rep3", "ec-2-1")
    assert made(alone, "rep2").pg_num == made(together, "rep2").pg_num == 32
    assert made(together, "rep3").pg_num == made(together, "ec-2-1").pg_num == 16


# --- steps


@pytest.mark.parametrize(
    ("name", "min_size"), [("rep2", 1), ("rep3", 2), ("ec-2-1", 2), ("cephfs-rep3", 2)]
)
def test_min_size_is_set_explicitly(multi_az: CephInventory, name: str, min_size: int) -> None:
    recipe = made(asked(multi_az, name), name)
    assert recipe.name.min_size == min_size
    assert any(
        str(step) == f"osd pool set pool={name} var=min_size val={min_size}"
        for step in steps(recipe, "token")
    )


def test_min_size_of_two_coding_chunks_is_one_more_than_k(multi_az: CephInventory) -> None:
    spots = places(*[f"host={number}" for number in range(6)])
    assert made(asked(built(multi_az, spots), "ec-4-2"), "ec-4-2").name.min_size == 5


# --- what a pool holds


@pytest.mark.parametrize(
    ("name", "owned"),
    [
        ("rbd_directory", True),
        ("rbd_info", True),
        ("leadline-perf-1-abc_object1", True),
        ("rbd_id.leadline-a", True),
        ("rbd_id.leadline-b", False),
        ("rbd_id.vm", False),
        ("rbd_header.10ab", True),
        ("rbd_object_map.10ab", True),
        ("rbd_object_map.10ab.0000000000000004", True),
        ("rbd_data.10ab.0000000000000001", True),
        ("rbd_data.3.10ab.0000000000000001", True),
        ("rbd_data.3.10ac.0000000000000001", False),
        ("rbd_header.10ac", False),
        ("10000000002.00000000", False),
        ("", False),
    ],
)
def test_objects_that_leadline_created(name: str, owned: bool) -> None:
    assert _is_owned(name, {"leadline-a"}, {"10ab"}) is owned


# --- options of the user


def with_options(inventory: CephInventory, name: str, options: PoolOptions) -> Decision:
    return of(decide([pool_name(name)], inventory, Marks(), options=options), name)


def allowing(inventory: CephInventory, value: str) -> CephInventory:
    entry = Setting(section="global", name="mon_allow_pool_size_one", value=value)
    return inventory.model_copy(update={"configuration": (entry,), "file_settings": ()})


def test_a_pool_without_copies_needs_two_consents(multi_az: CephInventory) -> None:
    """The user's, and Ceph's own setting, which Leadline leaves alone."""
    allowed, consent = allowing(multi_az, "true"), PoolOptions(no_redundancy=True)
    assert "--no-redundancy" in with_options(allowed, "rep1", PoolOptions()).reason
    forbidden = with_options(allowing(multi_az, "false"), "rep1", consent)
    assert (forbidden.act, forbidden.reason.split(" (")[0]) == (
        Act.SKIP, "the cluster forbids pools of size 1",
    )  # fmt: skip
    recipe = with_options(allowed, "rep1", consent).recipe
    assert recipe is not None
    created = next(step for step in steps(recipe, "t") if step.prefix == "osd pool create")
    assert created.arguments["size"] == 1
    assert created.arguments["yes_i_really_mean_it"] is True


def test_images_have_no_metadata_in_a_pool_without_copies(multi_az: CephInventory) -> None:
    options = PoolOptions(no_redundancy=True)
    empty = allowing(
        built(multi_az, places("zone=a/host=1", "zone=b/host=2", "zone=c/host=3")), "1"
    )
    answer = decide([pool_name("rep1"), pool_name("ec-2-1")], empty, Marks(), options=options)
    assert made(answer, "ec-2-1").metadata_pool == "rep3"


@pytest.mark.parametrize(
    ("options", "pg_num", "settings"),
    [
        (PoolOptions(pg_num=64), 64, {"min_size": "1", "pg_autoscale_mode": "off"}),
        (
            PoolOptions(target_ratio=0.1),
            None,
            {"min_size": "1", "pg_autoscale_mode": "on", "target_size_ratio": "0.1"},
        ),
    ],
)
def test_the_user_or_the_autoscaler_sizes_a_pool(
    multi_az: CephInventory, options: PoolOptions, pg_num: int | None, settings: dict[str, str]
) -> None:
    recipe = with_options(multi_az, "rep2", options).recipe
    assert recipe is not None
    given = [step.arguments for step in steps(recipe, "t")]
    assert next(item.get("pg_num") for item in given if "pool_type" in item) == pg_num
    assert {item["var"]: item["val"] for item in given if "var" in item} == settings


def test_a_profile_is_the_users_and_its_chunks_are_the_names(multi_az: CephInventory) -> None:
    options = PoolOptions(erasure_profile={"plugin": "isa", "stripe_unit": "16K"})
    recipe = with_options(multi_az, "ec-2-1", options).recipe
    assert recipe is not None
    profile = next(iter(steps(recipe, "t"))).arguments["profile"]
    assert isinstance(profile, list)
    assert profile[:4] == ["plugin=isa", "stripe_unit=16K", "k=2", "m=1"]


def test_volumes_are_encrypted_in_kubernetes_only(multi_az: CephInventory) -> None:
    decision = of(asked(multi_az, "rep3-luks"), "rep3-luks")
    assert (decision.act, decision.recipe) == (Act.SKIP, None)
    assert "--kube" in decision.reason
