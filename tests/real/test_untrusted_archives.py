"""`leadline clean` of whole archives, with valid digests, of unknown origin: nothing of the user's
is removed, and what carries the mark of the run is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from leadline.archive.records import Created, Session
from leadline.archive.runs import find_run
from leadline.archive.writer import RunWriter
from leadline.connect.ceph import CephAccess
from leadline.connect.programs import find
from leadline.lab.state import lab_access
from leadline.plan.models import Cluster, Plan, Target
from leadline.targets.ceph import OWNER_KEY
from leadline.targets.file_system import OWNER_FILE
from leadline.targets.naming import own_name, owner_mark
from leadline.targets.zfs_dataset import OWNER
from tests.real.conftest import Ended, sh
from tests.real.zfs_here import answers, pool_on_file

pytestmark = [pytest.mark.real]

RUN = "perf-20261121-120000-bcdfg"
TOKEN, OTHER = "0123456789abcdef", "fedcba9876543210"
MARK = owner_mark(RUN, TOKEN)
NAME = own_name(RUN, TOKEN)

Cleaned = Callable[..., Ended]


@pytest.fixture
def clean(tmp_path: Path, process: Callable[..., Ended]) -> Cleaned:
    """Write an archive of these targets and entries as Leadline would, and clean it."""

    def call(
        *entries: Created, targets: tuple[Target, ...], clusters: tuple[Cluster, ...] = ()
    ) -> Ended:
        plan = Plan(targets=targets, clusters=clusters, cells=(), trials=(), repeats=1, seed=0)
        session = Session(
            started_at="2026-11-21T12:00:00+00:00",
            hostname="h",
            leadline_version="0.2.0",
            python_version="3.11",
        )
        writer = RunWriter.create(
            tmp_path / "runs" / RUN,
            plan=plan,
            plan_as_given=b"",
            created_at=session.started_at,
            session=session,
        )
        for entry in entries:
            writer.note_created(entry)
        writer.close()
        return process("clean", tmp_path / "runs" / RUN)

    return call


def left(tmp_path: Path) -> set[str]:
    return {entry.path for entry in find_run(RUN, tmp_path / "runs").left_behind}


def contents(folder: Path) -> Mapping[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


def make(folder: Path, mark: str | None) -> Path:
    (folder / "leadline.pgbench.dat").mkdir(parents=True)
    (folder / "leadline.pgbench.dat" / "thesis.txt").write_text("precious")
    (folder / "leadline.0.dat").write_text("precious")
    if mark is not None:
        (folder / OWNER_FILE).write_text(mark)
    return folder


def test_no_folder_without_the_runs_mark_and_place_is_removed(
    tmp_path: Path, clean: Cleaned
) -> None:
    place, home = tmp_path / "place", tmp_path / "home"
    place.mkdir()
    own = make(place / NAME, f"{MARK}\n")
    kept = [
        # In the place of the plan, with any other mark or none.
        make(place / own_name(RUN, OTHER), None),
        make(place / own_name(RUN, "1" * 16), f"other {'1' * 16}\n"),
        make(place / own_name(RUN, "2" * 16), f"{RUN} {TOKEN}\n"),
        make(place / own_name("other", TOKEN), f"other {TOKEN}\n"),
        # Elsewhere, even with the mark.
        make(home / "user", None),
        make(home / NAME, f"{MARK}\n"),
        make(place / "data" / NAME, f"{MARK}\n"),
    ]
    link = place / own_name(RUN, "3" * 16)
    link.symlink_to(make(home / "linked", f"{RUN} {'3' * 16}\n"))
    torn = place / own_name(RUN, "4" * 16)
    torn.mkdir()
    (torn / OWNER_FILE).write_text(RUN)
    before = {str(path): contents(path) for path in (*kept, home)}

    paths = [*map(str, (*kept, link)), "/", ".", "", f"{home}/user/", f"{place}/../home/user"]
    paths += [os.path.relpath(home / "user", "/"), f"{place}/{NAME}/../../home/user", "dir:/"]
    paths += [f"{home}/user\0x", f"{home}/user\n", f"{home}/\x1b[2J"]
    entries = [
        Created(target="t", path=path, token=token)
        for path in paths
        for token in ("", Path(path).name[-16:])  # the last entry of a path counts
    ]
    entries += [
        Created(target="t", path=str(torn), token="4" * 16),
        Created(target="t", path=str(own), token=TOKEN),
    ]
    ended = clean(*entries, targets=(Target(name="t", url=f"dir:{place}"),))
    assert ended.status == 4, ended.err
    assert "\x1b" not in ended.err
    assert {str(path): contents(path) for path in (*kept, home)} == before
    assert link.is_symlink()
    assert not own.exists()
    assert not torn.exists()
    assert str(own) in ended.out
    assert left(tmp_path) == set(paths), "what was kept stays in the journal"
    for folder in kept:
        assert str(folder) in ended.err


@pytest.mark.root
@pytest.mark.parametrize("place", ["leadline.9.dat", "leadline.pgbench.dat/base", "a b"])
def test_what_is_mounted_below_the_runs_folder_is_not_entered(
    tmp_path: Path, clean: Cleaned, place: str
) -> None:
    home, target = tmp_path / "home", tmp_path / "target"
    home.mkdir()
    (home / "thesis.txt").write_text("precious")
    folder = make(target / NAME, f"{MARK}\n")
    (folder / place).mkdir(exist_ok=True)
    sh("mount", "--bind", str(home), str(folder / place))
    try:
        entry = Created(target="t", path=str(folder), token=TOKEN)
        ended = clean(entry, targets=(Target(name="t", url=f"dir:{target}"),))
    finally:
        sh("umount", str(folder / place))
    assert ended.status == 4
    assert "has something mounted in it" in ended.err
    assert (home / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize("token", ["", "f", TOKEN[8:]])
def test_no_short_token_removes_a_folder(tmp_path: Path, clean: Cleaned, token: str) -> None:
    folder = make(tmp_path / "place" / own_name(RUN, token), f"{RUN} {token}\n")
    before = contents(folder)
    entry = Created(target="t", path=str(folder), token=token)
    targets = (Target(name="t", url=f"dir:{folder.parent}"),)
    assert clean(entry, targets=targets).status == 4
    assert contents(folder) == before


@pytest.fixture(scope="module")
def access(lab: str) -> CephAccess:
    return lab_access(lab)


@pytest.fixture
def image(access: CephAccess) -> Iterator[Callable[..., str]]:
    """Make an image with a label, or with data; all are removed at the end."""
    made: list[str] = []

    def call(name: str, label: str | None, *, written: bool = True) -> str:
        sh(*access.command("rbd", "create", "--size", "8M", f"rep3/{name}"))
        made.append(name)
        if label is not None:
            sh(*access.command("rbd", "image-meta", "set", f"rep3/{name}", OWNER_KEY, label))
        if written:
            size = ("--io-size", "4096", "--io-total", "4096")
            sh(*access.command("rbd", "bench", "--io-type", "write", *size, f"rep3/{name}"))
        return name

    yield call
    for name in made:
        if name in images(access):
            sh(*access.command("rbd", "rm", "--no-progress", f"rep3/{name}"))


def images(access: CephAccess) -> list[str]:
    found: list[str] = json.loads(sh(*access.command("rbd", "ls", "--format", "json", "rep3")))
    return found


@pytest.mark.root
def test_no_image_and_no_object_without_the_runs_name_and_mark_is_removed(
    tmp_path: Path, clean: Cleaned, access: CephAccess, lab: str, image: Callable[..., str]
) -> None:
    tokens = [f"{number:016x}" for number in range(6)]
    names = [own_name(RUN, token) for token in tokens]
    kept = [
        image("users", f"{RUN} {TOKEN}"),
        image(names[0], None),
        image(names[1], f"other {tokens[1]}", written=False),
        image(names[2], tokens[2], written=False),
    ]
    removed = [image(names[3], f"{RUN} {tokens[3]}"), image(names[4], None, written=False)]
    # As `rados bench` names its objects, which a removal is after.
    name = "benchmark_data_mine"
    spaces = dict.fromkeys(("", "precious", own_name("other", TOKEN), names[5]), name)
    for space, name in spaces.items():
        words = ("--pool", "rep3", "--namespace", space, "put", name, "/etc/hostname")
        sh(*access.command("rados", *words))
    entries = [
        Created(target="rbd", cluster="c", path=f"rbd:rep3/{name}", token=token)
        for name, token in [("users", TOKEN), *zip(names, tokens, strict=True)][:-1]
    ]
    entries += [
        Created(target="rados", cluster="c", path=f"rados:rep3/{space}", token=token)
        for space, token in zip(spaces, ("", "precious", TOKEN, tokens[5]), strict=True)
    ]
    entries += [
        Created(target="fio", cluster="c", path="rados-objects:rep3/mine/1x1x1", token="mine"),
        Created(target="", cluster="c", path="delay:tests", token="10.0"),
        Created(target="", path=f"lab:{lab}", token=TOKEN),
    ]
    targets = (
        Target(name="rbd", url="rbd:rep3", cluster="c"),
        Target(name="rados", url="rados:rep3", cluster="c"),
        Target(name="fio", url="rados:rep3?engine=fio", cluster="c"),
    )
    try:
        ended = clean(*entries, targets=targets, clusters=(Cluster(name="c", lab=lab),))
        assert ended.status == 4, ended.err
        assert set(images(access)) >= set(kept)
        assert not set(images(access)) & set(removed)
        listed = sh(*access.command("rados", "-p", "rep3", "ls", "--all")).splitlines()
        there = {tuple(line.split("\t")) for line in listed}
        for space, name in spaces.items():
            assert ((space, name) in there) is (space != names[5]), space
        gone = {f"rbd:rep3/{name}" for name in removed} | {f"rados:rep3/{names[5]}"}
        assert left(tmp_path) == {entry.path for entry in entries} - gone
    finally:
        for space, name in spaces.items():
            removal = ("--pool", "rep3", "--namespace", space, "rm", name)
            if space != names[5]:
                sh(*access.command("rados", *removal))


@pytest.mark.root
def test_no_dataset_without_the_runs_mark_is_destroyed(
    tmp_path: Path, clean: Cleaned, only_zfs: None
) -> None:
    if find("zpool") is None:
        pytest.skip("no zpool: NO dataset is tested here")
    with pool_on_file(tmp_path, 128 << 20) as pool:
        tokens = [f"{number:016x}" for number in range(4)]
        names = [f"{pool}/{own_name(RUN, token)}" for token in tokens]
        for name, mark in (
            (f"{pool}/users", f"{RUN} {TOKEN}"),
            (names[0], None),
            (names[1], f"other {tokens[1]}"),
            (names[2], f"{RUN} {tokens[2]}"),
        ):
            option = ("-o", f"{OWNER}={mark}") if mark else ()
            sh(find("zfs"), "create", *option, name)
        # It inherits the mark from the pool.
        sh(find("zfs"), "set", f"{OWNER}={RUN} {tokens[3]}", pool)
        sh(find("zfs"), "create", names[3])
        entries = [
            Created(target="z", path=f"zfs:{name}", token=token)
            for name, token in [
                *zip(names, tokens, strict=True),
                (pool, TOKEN),
                (f"{pool}/users", TOKEN),
                (f"{pool}/users", ""),
            ]
        ]
        ended = clean(*entries, targets=(Target(name="z", url=f"zfs:{pool}"),))
        assert ended.status == 4, ended.err
        for name in (pool, f"{pool}/users", names[0], names[1], names[3]):
            assert answers("zfs", "list", name), name
        assert not answers("zfs", "list", names[2])
