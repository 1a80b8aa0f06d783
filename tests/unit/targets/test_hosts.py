"""A target on several hosts, each of which is a shell of this machine with a folder of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline import errors
from leadline.archive.records import Created
from leadline.engines.fio.fleet import host_for
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.targets import hosts as module
from leadline.targets.hosts import HostProbe, HostsTarget, find_full_hosts, remove_from_host
from leadline.targets.leftovers import is_own
from tests.local_shell import SCRATCH, LocalShell, stub
from tests.unit.targets.journals import OTHER, TOKEN, plan_with

OWNER = ".leadline-owner"
FILES = {f"leadline.{one}.dat": 4096 for one in ("0", "1", "c2.0", "c2.1", "c3.0", "c3.1")}
SMALL = Footprint(files=FILES, span=0, job_file_bytes=0, writes=True, clients=3)
Reach = Callable[..., HostsTarget]


class Journal:
    def __init__(self) -> None:
        self.created: list[Created] = []
        self.removed: list[Created] = []

    def note_created(self, entry: Created) -> None:
        self.created.append(entry)

    def note_removed(self, entry: Created) -> None:
        self.removed.append(entry)

    @property
    def left(self) -> list[str]:
        return [one.path for one in self.created if one not in self.removed]


class Host(LocalShell):
    def close(self) -> None:
        return


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]) -> Reach:
    """A target on hosts whose folder `path` is a scratch of their own, or of all."""
    programs = tmp_path / "programs"
    programs.mkdir()
    made = {}

    def shell(host: str) -> Host:
        return made.setdefault(host, Host(tmp_path / host, f"host {host}", programs=programs))

    monkeypatch.setattr(module, "SshShell", shell)
    monkeypatch.setattr(module, "require_serving", lambda host: None)

    def call(names: str = "a,b", path: str = SCRATCH) -> HostsTarget:
        return HostsTarget(Target(name="there", url=f"hosts:{names}:{path}"), told.append)

    return call


def own(tmp_path: Path, host: str) -> Path:
    (found,) = (tmp_path / host / "scratch").iterdir()
    return found


def test_a_folder_is_made_on_each_host_and_removed_again(reach: Reach, tmp_path: Path) -> None:
    target, journal = reach(), Journal()
    target.inspect(SMALL, prefill=True)
    target.acquire(SMALL, "run", journal)
    token = journal.created[0].token
    assert journal.left == [f"hosts:{one}:{SCRATCH}/leadline-run-{token}" for one in "ab"]
    plan = plan_with(Target(name="there", url=f"hosts:a,b:{SCRATCH}"))
    assert all(is_own(plan, "run", created) for created in journal.created)
    for host in "ab":
        assert own(tmp_path, host).name == f"leadline-run-{token}"
        (own(tmp_path, host) / "leadline.0.dat").write_bytes(b"x" * 4096)
    assert target.sharing == {}
    assert target.present()
    assert target.allocated_bytes() == 2 * 4096
    hosts = [host_for(target.location, client) for client in (1, 2, 3)]
    assert [host.name for host in hosts if host is not None] == ["a", "b", "a"]
    assert target.release() == ()
    assert target.release() == ()
    assert journal.left == []
    assert not list(tmp_path.glob("[ab]/scratch/*"))


def test_a_path_that_hosts_share_holds_one_folder(
    reach: Reach, tmp_path: Path, told: list[str]
) -> None:
    shared = tmp_path / 'it\'s "shared" $(x)'
    shared.mkdir()
    target, journal = reach("a,b,c", str(shared)), Journal()
    target.inspect(SMALL, prefill=True)
    target.acquire(SMALL, "run", journal)
    (folder,) = shared.iterdir()
    assert len(set(target.sharing.values())) == 1
    assert len(target.sharing) == 2
    assert len(journal.left) == 1
    assert told == [
        "there: a, b, c work on one machine",
        "there: a, b, c work in one shared folder",
    ]
    (folder / "leadline.c2.0.dat").write_bytes(b"x" * 4096)
    assert target.allocated_bytes() == 4096
    assert target.release() == ()
    assert journal.left == []
    assert list(shared.iterdir()) == []


def test_a_folder_that_is_lost_or_taken_is_not_present(reach: Reach, tmp_path: Path) -> None:
    target = reach()
    target.acquire(SMALL, "run", Journal())
    (own(tmp_path, "b") / OWNER).unlink()
    assert not target.present()


def test_what_leadline_did_not_make_is_kept_and_told(reach: Reach, tmp_path: Path) -> None:
    target, journal = reach(), Journal()
    target.acquire(SMALL, "run", journal)
    (own(tmp_path, "a") / "precious.txt").write_text("the user's")
    (told,) = target.release()
    assert "hosts:a:" in told
    assert "did not make and was kept: precious.txt" in told
    assert (own(tmp_path, "a") / "precious.txt").exists()
    assert journal.left == [journal.created[0].path]


def test_files_of_the_users_own_job_are_removed_once_noted(reach: Reach, tmp_path: Path) -> None:
    target, journal = reach(), Journal()
    target.acquire(SMALL, "run", journal)
    (own(tmp_path, "b") / "job one.0").write_bytes(b"x")
    target.note_files()
    assert target.release() == ()
    assert journal.left == []


def test_what_a_killed_session_left_is_removed_if_it_is_ours(reach: Reach, tmp_path: Path) -> None:
    target, journal = reach(), Journal()
    target.acquire(SMALL, "run", journal)
    ours, taken = (own(tmp_path, host) for host in "ab")
    (ours / "leadline.c3.1.dat").write_bytes(b"x")
    (taken / OWNER).write_text("run 1 another\n")
    first, second = journal.created
    assert remove_from_host(first, "run") == ()
    assert remove_from_host(first, "run") == ()
    assert not ours.exists()
    (told,) = remove_from_host(second, "run")
    assert "mark of another owner" in told
    assert taken.is_dir()


@pytest.mark.parametrize(
    "name", ["data", f"leadline-run-{OTHER}", f"leadline-other-{TOKEN}", f"leadline-run-{TOKEN}/x"]
)
def test_only_what_has_a_name_of_ours_is_removed(reach: Reach, tmp_path: Path, name: str) -> None:
    reach()
    folder = tmp_path / name
    folder.mkdir(parents=True)
    (folder / "leadline.0.dat").write_bytes(b"x")
    (told,) = remove_from_host(Created(target="t", path=f"hosts:a:{folder}", token=TOKEN), "run")
    assert "was kept" in told
    assert (folder / "leadline.0.dat").exists()


def test_a_link_in_the_place_of_our_folder_is_not_followed(reach: Reach, tmp_path: Path) -> None:
    reach()
    real = tmp_path / "real"
    real.mkdir()
    (real / "leadline.0.dat").write_bytes(b"x")
    (real / OWNER).write_text(f"run 1 {TOKEN}\n")
    link = tmp_path / f"leadline-run-{TOKEN}"
    link.symlink_to(real)
    (kept,) = remove_from_host(Created(target="t", path=f"hosts:a:{link}", token=TOKEN), "run")
    assert "is a link or a file" in kept
    assert link.is_symlink()
    assert (real / "leadline.0.dat").exists()


def test_the_mark_is_durable_before_there_is_data(reach: Reach, tmp_path: Path) -> None:
    target = reach("a")
    log = tmp_path / "synced"
    stub(tmp_path / "programs", "sync", f'for path; do echo "$path" >>{log}; done')
    target.acquire(SMALL, "run", Journal())
    folder = own(tmp_path, "a")
    owner = folder / OWNER
    assert owner.exists()
    assert log.read_text().splitlines() == ["--", str(owner), str(folder), f"{folder.parent}/"]
    stub(tmp_path / "programs", "sync", "exit 1")
    reach("a").acquire(SMALL, "other", Journal())


WHOLE = f"run 12 {TOKEN}\n".encode()


def there(tmp_path: Path, mark: bytes | None, *names: str) -> tuple[Path, tuple[str, ...]]:
    """A run's folder on a host with this mark and these files, and what its removal reports."""
    folder = tmp_path / f"leadline-run-{TOKEN}"
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(b"x")
    if mark is not None:
        (folder / OWNER).write_bytes(mark)
    created = Created(target="t", path=f"hosts:a:{folder}", token=TOKEN)
    return folder, remove_from_host(created, "run")


@pytest.mark.parametrize(
    "mark",
    [
        None,
        *(WHOLE[:length] for length in range(len(WHOLE))),
        b"\0" * len(WHOLE),
        WHOLE[:9] + b"\0" * 9,
    ],
)
def test_without_a_whole_mark_only_an_empty_folder_goes(
    reach: Reach, tmp_path: Path, mark: bytes | None
) -> None:
    reach()
    folder, told = there(tmp_path, mark)
    assert told == ()
    assert not folder.exists()
    folder, told = there(tmp_path, mark, "leadline.0.dat")
    if mark == WHOLE[:-1]:
        assert told == ()
        return
    assert "holds files; it was kept: leadline.0.dat" in told[0]
    assert (folder / "leadline.0.dat").exists()


@pytest.mark.parametrize(
    "mark",
    [
        *(f"other 1 {TOKEN}", f"run 1 {OTHER}", f"run {TOKEN}", f"run x {TOKEN}", TOKEN),
        *(f"run 1 {TOKEN}x", f"x run 1 {TOKEN}", f"run 1 {TOKEN}\nrun 1 {OTHER}", "\nrun", "*"),
        *(f"run 1  {TOKEN}", f"run 1 2 {TOKEN}", "run 1 1"),
    ],
)
@pytest.mark.parametrize("names", [(), ("leadline.0.dat",)])
def test_a_folder_with_any_other_mark_is_kept_whole(
    reach: Reach, tmp_path: Path, mark: str, names: tuple[str, ...]
) -> None:
    reach()
    folder, told = there(tmp_path, mark.encode(), *names)
    assert "mark of another owner" in told[0]
    assert {path.name for path in folder.iterdir()} == {*names, OWNER}
    assert (folder / OWNER).read_bytes() == mark.encode()


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_mark_that_is_no_file_is_another_owners(reach: Reach, tmp_path: Path, kind: str) -> None:
    reach()
    folder = tmp_path / f"leadline-run-{TOKEN}"
    folder.mkdir()
    (folder / "leadline.0.dat").touch()
    (tmp_path / "real").write_bytes(WHOLE)
    match kind:
        case "link":
            (folder / OWNER).symlink_to(tmp_path / "real")
        case "folder":
            (folder / OWNER).mkdir()
        case "pipe":
            os.mkfifo(folder / OWNER)
    created = Created(target="t", path=f"hosts:a:{folder}", token=TOKEN)
    assert "mark of another owner" in remove_from_host(created, "run")[0]
    assert (folder / "leadline.0.dat").exists()


def test_names_of_files_lead_nowhere_else(reach: Reach, tmp_path: Path) -> None:
    target = reach("a")
    target.acquire(SMALL, "run", Journal())
    folder = own(tmp_path, "a")
    outside = tmp_path / "a" / "scratch" / "mine"
    outside.write_bytes(b"x")
    (folder / "-rf").write_bytes(b"x")
    (folder / "link").symlink_to(outside)
    target._files |= {"../mine", "-rf", "link", ".."}
    assert target.release() == ()
    assert not folder.exists()
    assert outside.exists()


def test_all_faults_of_all_hosts_are_told_at_once(
    reach: Reach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = reach("a,b,c")
    (tmp_path / "a" / "scratch").rmdir()
    (tmp_path / "b" / "scratch").rmdir()
    (tmp_path / "b" / "scratch").write_text("no directory")
    with pytest.raises(LeadlineError) as caught:
        target.inspect(SMALL, prefill=True)
    assert caught.value.kind is errors.TARGET_INVALID
    told = str(caught.value)
    assert "the 3 hosts have 2 faults" in told
    assert "is not visible to this user on the host 'a'" in told
    assert "is not a directory on the host 'b'" in told


def test_an_old_fio_is_told_with_its_host(reach: Reach, tmp_path: Path) -> None:
    target = reach("a")
    stub(tmp_path / "old", "fio", "echo fio-3.1")
    (tmp_path / "old" / "fio").rename(tmp_path / "programs" / "fio")
    with pytest.raises(LeadlineError, match=r"fio-3\.1 is too old") as caught:
        target.inspect(SMALL, prefill=True)
    assert caught.value.kind is errors.FIO_TOO_OLD
    assert "on the host 'a'" in str(caught.value)


def test_without_clients_there_is_nobody_to_do_the_io(reach: Reach) -> None:
    alone = Footprint(files={}, span=0, job_file_bytes=0, writes=True)
    with pytest.raises(LeadlineError, match="clients do the I/O") as caught:
        reach().inspect(alone, prefill=True)
    assert caught.value.hint == "write `clients: 2` in the workload or in a level"


def _probe(host: str, source: str) -> HostProbe:
    return HostProbe(
        host=host,
        path="/d",
        machine=host,
        size_bytes=1000,
        free_bytes=500,
        filesystem="x",
        source=source,
    )


@pytest.mark.parametrize(
    ("source", "faults"),
    [("/dev/sda1", 0), ("tmpfs", 0), ("server:/export", 1), ("u@f-1.cephfs=/", 1), ("//s/x", 1)],
)
def test_room_is_counted_once_for_what_hosts_share(source: str, faults: int) -> None:
    needs = [(_probe(host, source), 300) for host in "ab"]
    assert len(find_full_hosts(needs)) == faults


def test_each_host_needs_room_for_the_clients_that_it_runs(reach: Reach) -> None:
    target = reach("a,b")
    assert target._needed_bytes(SMALL) == {"a": 4 * 4096, "b": 2 * 4096}


def test_caches_of_hosts_are_dropped_and_read_back(reach: Reach, tmp_path: Path) -> None:
    target = reach()
    target.acquire(SMALL, "run", Journal())
    for host in "ab":
        (own(tmp_path, host) / "leadline.0.dat").write_bytes(b"x" * (1 << 20))
    dropped = target.drop_caches()
    assert dropped is not None
    # tmpfs keeps everything; what a disk's filesystem held in memory is gone.
    assert dropped.resident_before_bytes == 2 << 20
    assert dropped.resident_after_bytes in (0, 2 << 20)


def test_a_drop_that_cannot_be_read_back_is_not_claimed(reach: Reach, tmp_path: Path) -> None:
    target = reach()
    target.acquire(SMALL, "run", Journal())
    stub(tmp_path / "old", "dd", "echo a dd without that flag")
    (tmp_path / "old" / "dd").rename(tmp_path / "programs" / "dd")
    assert target.drop_caches() is None
