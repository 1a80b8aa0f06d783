"""Entries of journals of unknown origin: only what the plan's own targets make for it counts."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leadline.archive.reader import Run
from leadline.archive.records import Created
from leadline.archive.writer import RunWriter
from leadline.connect.ceph import CephAccess
from leadline.connect.kubernetes.objects import namespace_name, owner_name
from leadline.errors import LeadlineError
from leadline.lab.state import labs_folder
from leadline.plan.kubernetes_cluster import KubernetesCluster
from leadline.plan.lab import LabDescription
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Cluster, Plan, Target
from leadline.targets import leftovers, shared_image
from leadline.targets.ceph_cluster import restore_delay
from leadline.targets.leftovers import is_own, remove_entry
from leadline.targets.local import DirectoryTarget
from leadline.targets.open import remove_leftovers, undo_drills
from leadline.targets.zfs_dataset import name_in
from tests.unit.archive.test_archive import SESSION, make_plan, new_writer, replay
from tests.unit.targets.journals import OTHER, RUN, TOKEN, plan_with

NAME = f"leadline-{RUN}-{TOKEN}"
CLUSTERS = (
    Cluster(name="c", ceph_conf="/etc/ceph/ceph.conf"),
    Cluster(name="lasting", lab="mine"),
    Cluster(name="own lab", lab=LabDescription()),
    Cluster(name="k", kubernetes=KubernetesCluster()),
    Cluster(name="shared-k", kubernetes=KubernetesCluster(namespace="bench")),
)
TARGETS = (
    Target(name="dir", url="dir:/srv/bench"),
    Target(name="hosts", url="hosts:a,root@b:/srv/bench"),
    Target(name="zfs", url="zfs:tank/user?receive_on=root@far:pool/sub"),
    Target(name="zvol", url="zvol:tank"),
    Target(name="rbd", url="rbd:rep3?data_pool=ec", cluster="c"),
    Target(name="users image", url="rbd:rep3/users?read_policy=balance", cluster="c"),
    Target(name="nbd", url="rbd:rep3?path=nbd", cluster="c"),
    Target(name="rbd hosts", url="rbd:rep3?hosts=a,b", cluster="c"),
    Target(name="rados", url="rados:rep3", cluster="c"),
    Target(name="rados fio", url="rados:rep3?engine=fio", cluster="c"),
    Target(name="shared", url="rbd:rep3?shared=yes", cluster="c"),
    Target(name="zfs+rbd", url="zfs+rbd:rep3?log=fast/1Gi", cluster="c"),
    Target(name="cephfs", url="cephfs:/mnt/cephfs", cluster="c"),
    Target(name="lab cephfs", url="cephfs:cephfs-rep3?inter_zone_rtt=2ms", cluster="lasting"),
    Target(name="lab ec", url="rbd:ec-2-1", cluster="lasting"),
    Target(name="own cephfs", url="cephfs:cephfs-rep3", cluster="own lab"),
    Target(name="sc", url="storageclass:fast", cluster="k"),
    Target(name="shared sc", url="storageclass:fast", cluster="shared-k"),
)
PLAN = plan_with(*TARGETS, clusters=CLUSTERS)
SPACE = namespace_name(RUN, TOKEN)
OBJECT = owner_name(17, "fast", TOKEN)
OBJECT_THERE = owner_name(18, "fast", TOKEN)
LABS = labs_folder(None)

# The target, the cluster and the path of what the plan's targets make.
MADE = (
    ("dir", "", f"/srv/bench/{NAME}"),
    ("cephfs", "", f"/mnt/cephfs/{NAME}"),
    ("lab cephfs", "", f"{LABS}/mine/cephfs/cephfs-rep3/{NAME}"),
    ("own cephfs", "", f"{LABS}/own-lab-0123abcd/cephfs/cephfs-rep3/{NAME}"),
    ("hosts", "", f"hosts:a:/srv/bench/{NAME}"),
    ("hosts", "", f"hosts:root@b:/srv/bench/{NAME}"),
    ("rbd hosts", "", f"hosts:b:/tmp/{NAME}"),
    ("zfs", "", f"zfs:tank/user/{NAME}"),
    ("zvol", "", f"zfs:tank/{NAME}"),
    ("zfs", "", f"receive_on:root@far:pool/sub/{NAME}"),
    ("rbd", "c", f"rbd:rep3/{NAME}"),
    ("rbd hosts", "c", f"rbd:rep3/{NAME}"),
    ("lab ec", "lasting", f"rbd:rep3/{NAME}"),
    ("nbd", "c", f"nbd:rep3/{NAME}"),
    ("rados", "c", f"rados:rep3/{NAME}"),
    ("users image", "c", f"rados:rep3/{NAME}"),
    ("rados fio", "c", f"rados-objects:rep3/{NAME}/1x2x300"),
    ("", "c", f"shared:rep3/{NAME}"),
    ("", "c", f"shared:fast/{NAME}.log"),
    ("", "k", f"kubernetes:{SPACE}"),
    ("sc", "k", f"kubernetes:{SPACE}/jobs/{OBJECT}"),
    ("sc", "k", f"kubernetes:{namespace_name(RUN, OTHER)}/virtualmachines/{OBJECT}"),
    ("shared sc", "shared-k", f"kubernetes:bench/jobs/{OBJECT_THERE}"),
    ("", "", "lab:own-lab-0123abcd"),
)


def entry(target: str, cluster: str, path: str, token: str = TOKEN) -> Created:
    return Created(target=target, cluster=cluster, path=path, token=token)


@pytest.mark.parametrize(("target", "cluster", "path"), MADE)
def test_what_the_plans_targets_make_counts(target: str, cluster: str, path: str) -> None:
    created = entry(target, cluster, path)
    assert is_own(PLAN, RUN, created)
    other_run = "perf-20261121-120000-other"
    for foreign in (
        *(created.model_copy(update={"token": token}) for token in (OTHER, "", "f", TOKEN[8:])),
        *(created.model_copy(update={"token": token}) for token in (TOKEN.upper(), f"{TOKEN}\n")),
        *(created.model_copy(update={"cluster": name}) for name in ("", "c", "k", "x", "lasting")),
        *(
            created.model_copy(update={"target": name})
            for name in ("", "x", *(known.name for known in TARGETS))
        ),
        *(created.model_copy(update={"path": path + end}) for end in ("/", "x", "/x", "\n", "\0")),
        created.model_copy(update={"path": path.replace(TOKEN, OTHER)}),
        created.model_copy(update={"path": path.replace(TOKEN[:8], OTHER[:8])}),
        created.model_copy(update={"path": path.replace("leadline", "")}),
        created.model_copy(update={"path": path.replace("/", "//", 1)}),
        created.model_copy(update={"path": path.replace("/", "/../", 1)}),
        created.model_copy(update={"path": path.replace("/", "/./", 1)}),
        created.model_copy(update={"path": f" {path}"}),
    ):
        same = (foreign.target, foreign.cluster, foreign.path, foreign.token)
        also_made = (*same[:3],) in MADE and foreign.token == TOKEN
        lab = path.startswith("lab:") and same[2:] in ((path, TOKEN), (path, OTHER))
        alike = lab and same[:2] == ("", "")
        assert is_own(PLAN, RUN, foreign) is (also_made or alike), foreign
    # Neither the name of a lab nor of an object in a user's namespace holds the run: its labels do.
    if not path.startswith(("lab:", "kubernetes:bench/")):
        assert not is_own(PLAN, other_run, created)


def test_every_changed_character_is_refused() -> None:
    random.seed(7)
    characters = "ab/.:-_@~ \n\0*0Z" + chr(0x200B)
    for target, cluster, path in MADE:
        for _ in range(300):
            place = random.randrange(len(path))
            changed = path[:place] + random.choice(characters) + path[place + 1 :]
            # Any eight digits are the name of a lab or of a namespace that the run may have made.
            stem = changed.rpartition("-")[0]
            if changed == path or (path.startswith("lab:") and stem == "lab:own-lab"):
                continue
            if "own-lab-" in changed and changed.endswith(f"/cephfs/cephfs-rep3/{NAME}"):
                continue
            if cluster == "k" and changed.endswith(f"/{OBJECT}"):
                continue
            if path.startswith("rados-objects:") and changed.startswith(path.rpartition("/")[0]):
                continue
            assert not is_own(PLAN, RUN, entry(target, cluster, changed)), changed


@pytest.mark.parametrize(
    ("target", "cluster", "path"),
    [
        ("dir", "", "/"),
        ("dir", "", ""),
        ("dir", "", "/srv/bench"),
        ("dir", "", "/home/user"),
        ("dir", "", NAME),
        ("dir", "", f"./{NAME}"),
        ("dir", "", f"/srv/bench/../bench/{NAME}"),
        ("dir", "", f"/srv/bench/{NAME}/../../precious"),
        ("dir", "", f"/srv/bench/\ud800/{NAME}"),
        ("dir", "", f"dir:/srv/bench/{NAME}"),
        ("dir", "", f"unknown:{NAME}"),
        ("dir", "", f"device:/dev/{NAME}"),
        # No other target makes a folder there.
        ("zfs", "", f"/tank/user/{NAME}"),
        ("hosts", "", f"/srv/bench/{NAME}"),
        ("lab cephfs", "", f"/mnt/cephfs/{NAME}"),
        ("lab cephfs", "", f"{LABS}/other/cephfs/cephfs-rep3/{NAME}"),
        ("own cephfs", "", f"{LABS}/mine/cephfs/cephfs-rep3/{NAME}"),
        ("own cephfs", "", str(LABS)),
        ("own cephfs", "", f"{LABS}/own-lab-0123abcd"),
        # Hosts, and names that ssh takes for options.
        ("hosts", "", f"hosts:c:/srv/bench/{NAME}"),
        ("hosts", "", f"hosts:-oProxyCommand=x:/srv/bench/{NAME}"),
        ("hosts", "", f"hosts:a,root@b:/srv/bench/{NAME}"),
        ("hosts", "", f"hosts:a:/tmp/{NAME}"),
        ("hosts", "", "hosts:a:/"),
        ("hosts", "", "hosts:"),
        ("zfs", "", "zfs:tank"),
        ("zfs", "", "zfs:tank/user"),
        ("zfs", "", f"zfs:other/{NAME}"),
        ("zfs", "", f"zfs:tank/user/{NAME}@snapshot"),
        ("zfs", "", f"receive_on:other:pool/sub/{NAME}"),
        ("zfs", "", f"receive_on:-o:pool/sub/{NAME}"),
        ("zvol", "", f"receive_on:root@far:pool/sub/{NAME}"),
        # Pools, images and namespaces of the user.
        ("rbd", "c", "rbd:rep3/users"),
        ("rbd", "c", "rbd:rep3/"),
        ("rbd", "c", f"rbd:ec/{NAME}"),
        ("rbd", "c", f"rbd:other/{NAME}"),
        ("rbd", "c", f"rbd:--pool=other/{NAME}"),
        ("rbd", "c", f"nbd:rep3/{NAME}"),
        ("nbd", "c", f"rbd:rep3/{NAME}"),
        ("users image", "c", f"rbd:rep3/{NAME}"),
        ("users image", "c", "rbd:rep3/users"),
        ("shared", "c", f"rbd:rep3/{NAME}"),
        ("rados", "c", "rados:rep3/"),
        ("rados", "c", "rados:rep3/data"),
        ("rados", "c", "rados:rep3"),
        ("rados", "c", f"rados:other/{NAME}"),
        ("rados fio", "c", f"rados:rep3/{NAME}"),
        ("rados", "c", f"rados-objects:rep3/{NAME}/1x1x1"),
        ("rados fio", "c", "rados-objects:rep3/data/1x1x1"),
        ("rados fio", "c", f"rados-objects:rep3/{NAME}/1x1"),
        ("rados fio", "c", f"rados-objects:rep3/{NAME}/1x1x1x1"),
        ("rados fio", "c", f"rados-objects:rep3/{NAME}/-1x1x1"),
        ("rados fio", "c", f"rados-objects:rep3/{NAME}/99999x1x1"),
        ("", "c", "shared:rep3/users"),
        ("", "c", f"shared:fast/{NAME}"),
        ("", "c", f"shared:rep3/{NAME}.log"),
        ("", "c", f"shared:fast/{NAME}.cache"),
        ("", "lasting", f"shared:rep3/{NAME}"),
        # Kubernetes.
        ("", "k", "kubernetes:prod"),
        ("", "k", "kubernetes:"),
        ("", "k", "kubernetes:leadline-prod"),
        ("", "shared-k", "kubernetes:bench"),
        ("", "shared-k", f"kubernetes:{SPACE}"),
        ("sc", "k", "kubernetes:prod/jobs/my"),
        ("sc", "k", f"kubernetes:prod/jobs/{OBJECT}"),
        ("sc", "k", f"kubernetes:{SPACE}/jobs/my"),
        ("sc", "k", f"kubernetes:{SPACE}/jobs/"),
        ("sc", "k", f"kubernetes:{SPACE}/pods/{OBJECT}"),
        ("sc", "k", f"kubernetes:{SPACE}/jobs/{owner_name(17, 'other', TOKEN)}"),
        ("sc", "k", f"kubernetes:{SPACE}/jobs/{owner_name(17, 'fast', OTHER)}"),
        ("sc", "k", f"kubernetes:{SPACE}/jobs/{owner_name(99, 'fast', TOKEN)}"),
        ("shared sc", "shared-k", f"kubernetes:prod/jobs/{OBJECT_THERE}"),
        # Labs.
        ("", "", "lab:mine"),
        ("", "", "lab:"),
        ("", "", "lab:../../home"),
        ("", "", "lab:own-lab"),
        ("", "", "lab:own-lab-../../x"),
        ("", "", "lab:other-0123abcd"),
    ],
)
def test_what_no_target_makes_is_kept(target: str, cluster: str, path: str) -> None:
    created = entry(target, cluster, path)
    assert not is_own(PLAN, RUN, created)
    run: Any = SimpleNamespace(whole_plan=PLAN, id=RUN, path=Path("/runs/x"))
    (told,) = remove_entry(run, created)
    assert "was kept: no target of the plan makes that for this run" in told


@pytest.mark.parametrize("token", ["", "x", TOKEN[:15], TOKEN + "0", TOKEN.upper(), "../" * 6])
def test_a_token_of_another_form_is_kept_though_the_name_fits(token: str) -> None:
    names = dict.fromkeys(("dir", "rbd", "nbd", "rados"), f"leadline-{RUN}-{token}")
    for created in (
        entry("dir", "", f"/srv/bench/{names['dir']}", token),
        entry("zfs", "", f"zfs:{name_in('tank/user', RUN, token)}", token),
        entry("hosts", "", f"hosts:a:/srv/bench/{names['dir']}", token),
        entry("rbd", "c", f"rbd:rep3/{names['rbd']}", token),
        entry("nbd", "c", f"nbd:rep3/{names['nbd']}", token),
        entry("rados", "c", f"rados:rep3/{names['rados']}", token),
        entry("rados fio", "c", f"rados-objects:rep3/{names['rados']}/1x1x1", token),
        entry("", "c", f"shared:rep3/{names['rbd']}", token),
        entry("", "k", f"kubernetes:{namespace_name(RUN, token)}", token),
        entry("sc", "k", f"kubernetes:{SPACE}/jobs/{owner_name(17, 'fast', token)}", token),
        entry("", "", "lab:own-lab-0123abcd", token),
    ):
        assert not is_own(PLAN, RUN, created), created


@pytest.mark.parametrize("run", ["", "..", "../..", "a/b", "x\n", "x\0", "x\x1b[2J"])
def test_a_run_whose_id_is_no_name_of_a_folder_removes_nothing(run: str) -> None:
    safe = run in ("..",)  # behind `leadline-` it is a name as any other
    created = entry("dir", "", f"/srv/bench/leadline-{run}-{TOKEN}")
    assert is_own(PLAN, run, created) is safe


def test_namespaces_next_to_an_image_of_version_0_2_count() -> None:
    before = f"{NAME}-0123abcd"
    assert is_own(PLAN, RUN, entry("users image", "c", f"rados:rep3/{before}", before))
    for name in (f"users-{TOKEN[:8]}", f"leadline-x-{TOKEN}-0123abcd", f"{NAME}-x", ""):
        assert not is_own(PLAN, RUN, entry("rados", "c", f"rados:rep3/{name}", name))
        assert not is_own(PLAN, RUN, entry("users image", "c", f"rados:rep3/{name}", name))


@pytest.mark.parametrize(
    ("path", "token", "own"),
    [
        ("delay:mine", "0.001", True),
        ("delay:mine", "0.0", True),
        *(("delay:mine", token, False) for token in ("nan", "inf", "-1.0", "1e9", "1", "", "x")),
        ("delay:other", "0.001", False),
        ("delay:../mine", "0.001", False),
        ("delay:own-lab-0123abcd", "0.001", False),
    ],
)
def test_only_the_delay_of_a_lab_of_the_plan_is_restored(path: str, token: str, own: bool) -> None:
    assert is_own(PLAN, RUN, entry("", "lasting", path, token)) is own
    assert not is_own(PLAN, RUN, entry("", "c", path, token))


def test_a_delay_that_the_run_does_not_set_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    set_: list[float] = []
    lab = SimpleNamespace(
        description=SimpleNamespace(inter_zone_rtt_s=0.005), set_inter_zone_rtt=set_.append
    )
    monkeypatch.setattr("leadline.targets.ceph_cluster.open_lab", lambda name, labs: lab)
    changed = entry("", "lasting", "delay:mine", "0.001")
    (told,) = restore_delay(changed, {0.002})
    assert "is 0.005 s, which this run does not set" in told
    assert set_ == []
    lab.description.inter_zone_rtt_s = 0.002
    assert restore_delay(changed, {0.002}) == ()
    # Killed between the network's change and its record.
    lab.description.inter_zone_rtt_s = 0.001
    assert restore_delay(changed, {0.002}) == ()
    assert set_ == [0.001, 0.001]


def test_events_without_a_drill_in_the_plan_are_kept() -> None:
    for event in ({"kill_osd": [0]}, {"command": {"begin": "x", "end": "touch /x", "within": 1}}):
        token = json.dumps({"event": event, "drained": None})
        assert not is_own(PLAN, RUN, entry("", "lasting", "drill:mine", token))
    assert not is_own(PLAN, RUN, entry("", "lasting", "drill:mine", "{"))


DRILL = """
clusters: {{c: {{{cluster}}}}}
targets: [{{name: t, target: "rbd:rep3"}}]
workloads: [{{name: w, pattern: randread, size: 1M, runtime: 60s}}]
drill: {{after: 5s, {event}}}
repeats: 1
"""
STOP = "lasts: 5s, event: {stop_osd: 1}"
DRAINED = {"host": "h1", "weights": {"0": 1.0}, "swaps": {}, "balancer": False}


@pytest.mark.parametrize(
    ("cluster", "event", "path", "record", "own"),
    [
        ("lab: mine", STOP, "drill:mine", {"stop_osd": 1}, True),
        ("lab: mine", STOP, "drill:mine", {"stop_osd": 2}, False),
        ("lab: mine", STOP, "drill:other", {"stop_osd": 1}, False),
        ("lab: mine", STOP, "drill:c", {"stop_osd": 1}, False),
        ("lab: mine", STOP, "drill:../mine", {"stop_osd": 1}, False),
        (
            "lab: mine",
            STOP,
            "drill:mine",
            {"add_host": {"host": "h1"}},
            False,
        ),
        (
            "lab: {topology: single-zone}",
            STOP,
            "drill:c-0123abcd",
            {"stop_osd": 1},
            True,
        ),
        ("lab: {topology: single-zone}", STOP, "drill:mine", {"stop_osd": 1}, False),
        ("ceph_conf: /x", "event: {add_host: h1}", "drill:c", {"add_host": "h1"}, True),
        ("ceph_conf: /x", "event: {add_host: h1}", "drill:d", {"add_host": "h1"}, False),
        ("ceph_conf: /x", "event: {add_host: h2}", "drill:c", {"add_host": "h1"}, False),
    ],
)
def test_only_the_event_of_the_plans_drill_is_undone(
    tmp_path: Path, cluster: str, event: str, path: str, record: dict[str, Any], own: bool
) -> None:
    written = tmp_path / "plan.yaml"
    written.write_text(DRILL.format(cluster=cluster, event=event))
    plan = load_plan(written, Overrides())
    drained = DRAINED if "add_host" in record else None
    created = entry("", "c", path, json.dumps({"event": record, "drained": drained}))
    assert is_own(plan, RUN, created) is own
    assert not is_own(plan, RUN, created.model_copy(update={"cluster": ""}))
    run: Any = SimpleNamespace(
        whole_plan=plan, plan=plan, id=RUN, path=tmp_path / "x", left_behind=(created,)
    )
    if not own:
        done, problems = undo_drills(run, SimpleNamespace(), ["c", "d", "mine", "other"])
        assert done == []
        assert "was kept" in problems[0]


def test_a_configuration_in_the_folder_of_the_runs_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    conf = tmp_path / "runs" / "ceph.conf"
    conf.parent.mkdir()
    conf.touch()
    clusters = (
        Cluster(name="c", ceph_conf=str(conf)),
        Cluster(name="k", kubernetes=KubernetesCluster(kubeconfig=str(conf))),
    )
    targets = [target for target in TARGETS if target.cluster in ("c", "k")]
    plan = plan_with(*targets, clusters=clusters)

    def refuse(*arguments: object) -> tuple[str, ...]:
        raise AssertionError(arguments)

    monkeypatch.setattr("leadline.targets.kubernetes_cluster.remove_leftover", refuse)
    monkeypatch.setattr(leftovers, "access_of", refuse)
    run: Any = SimpleNamespace(whole_plan=plan, id=RUN, path=tmp_path / "runs" / "perf-1")
    made = [row for row in MADE if row[1] in ("c", "k")]
    assert len(made) > 8
    for row in made:
        path = row[2].replace(OBJECT, owner_name(10, "fast", TOKEN))
        (told,) = remove_entry(run, entry(row[0], row[1], path))
        assert "lies in the folder of the runs" in told


def test_errors_of_a_removal_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    run: Any = SimpleNamespace(whole_plan=PLAN, id=RUN, path=Path("/runs/x"))
    created = entry("dir", "", f"/srv/bench/{NAME}")

    for error in (OSError(5, "Input/output error"), LeadlineError(leftovers.errors.USAGE, "no")):

        def fail(*arguments: object, error: Exception = error) -> tuple[str, ...]:
            raise error

        monkeypatch.setattr(leftovers, "remove_folder", fail)
        (told,) = remove_entry(run, created)
        assert told.startswith(f"{created.path} could not be removed: ")


def test_a_removal_gets_the_run_and_its_access(monkeypatch: pytest.MonkeyPatch) -> None:
    access, got = CephAccess(conf=Path("x")), []
    monkeypatch.setattr(leftovers, "access_to", lambda plan, archive, name: access)
    monkeypatch.setattr(leftovers, "remove_shared_image", lambda *words: got.append(words) or ())
    run: Any = SimpleNamespace(whole_plan=PLAN, id=RUN, path=Path("/runs/x"))
    created = entry("", "c", f"shared:rep3/{NAME}")
    assert remove_entry(run, created) == ()
    assert got == [(created, RUN, access)]


def test_targets_that_were_left_out_do_not_change_names() -> None:
    """The number of a target is that before the run left others out."""
    plan = Plan.model_validate(
        {
            **plan_with(TARGETS[16], clusters=CLUSTERS).model_dump(by_alias=True),
            "left_out": [{"target": "x", "reason": "r"}] * 16,
        }
    )
    assert is_own(plan, RUN, entry("sc", "k", f"kubernetes:{SPACE}/jobs/{OBJECT}"))


RECORDED = sorted((Path(__file__).parents[2] / "recorded").glob("version-*/*/created.jsonl"))


@pytest.mark.parametrize("journal", RECORDED, ids=lambda path: path.parent.name)
def test_what_earlier_versions_recorded_counts(journal: Path) -> None:
    run = Run(journal.parent)
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    made = [Created.model_validate(line) for line in entries if not line["removed"]]
    assert made
    for created in made:
        assert is_own(run.plan, run.id, created), created


@pytest.mark.parametrize(
    ("owner", "told"),
    [
        (f"other {TOKEN}", "carries the mark of another owner"),
        (TOKEN, "carries the mark of another owner"),
        ("", "carries no mark of this run"),
    ],
)
def test_a_pool_on_the_image_without_the_runs_mark_keeps_all_below_it(
    monkeypatch: pytest.MonkeyPatch, owner: str, told: str
) -> None:
    def refuse(*arguments: object, **named: object) -> tuple[str, ...]:
        raise AssertionError(arguments)

    monkeypatch.setattr(shared_image, "_pools", lambda: (f"leadline-{TOKEN}",))
    monkeypatch.setattr(shared_image, "_MARKED_S", 0.0)
    monkeypatch.setattr(shared_image.programs, "local_property", lambda *words: owner)
    monkeypatch.setattr(shared_image.programs, "ask", refuse)
    for name in ("unmount", "withdraw", "detach_loops"):
        monkeypatch.setattr(shared_image.image_device, name, refuse)
    monkeypatch.setattr(shared_image, "remove_image", refuse)
    created = entry("", "c", f"shared:rep3/{NAME}")
    (sentence,) = shared_image.remove_shared_image(created, RUN, None)
    assert told in sentence
    assert f"`zpool destroy leadline-{TOKEN}` if it is yours" in sentence
    assert "was kept" in shared_image.remove_shared_image(created, "other", None)[0]


def test_an_archive_with_another_folder_is_resumed_under_its_own_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a later session leaves is found by the id in the manifest, not by the folder."""
    target = tmp_path / "target"
    target.mkdir()
    new_writer(tmp_path / RUN, make_plan(target)).close()
    renamed = (tmp_path / RUN).rename(tmp_path / "renamed")
    writer = RunWriter.reopen(renamed, session=SESSION)
    with monkeypatch.context() as killed:
        killed.setattr(DirectoryTarget, "release", lambda target: ("killed",))
        replay(writer, writer.run.to_do())
    run = writer.run
    assert run.left_behind
    assert all(is_own(run.plan, RUN, entry) for entry in run.left_behind)
    done, problems = remove_leftovers(run, writer)
    writer.close()
    assert problems == []
    assert done
    assert list(target.iterdir()) == []
