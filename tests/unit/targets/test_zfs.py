"""Pools that a machine for tests cannot be given: suspended, read-only, encrypted, of a newer
release. The programs of ZFS are played; what a real pool does is in tests/real/test_zfs.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from leadline import errors
from leadline.archive.records import Created
from leadline.connect import programs
from leadline.connect.shell import CommandResult
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.targets import zfs_dataset as dataset
from leadline.targets.zfs import ZfsTarget, remove_far_dataset
from tests.unit.targets.journals import TOKEN

MODERN = {
    "health": "ONLINE",
    "readonly": "off",
    "version": "-",
    "feature@lz4_compress": "active",
    "feature@zstd_compress": "enabled",
    "feature@large_blocks": "enabled",
}
SPACE = {
    "type": "filesystem",
    "readonly": "off",
    "copies": "1",
    "sync": "standard",
    "recordsize": "131072",
    "compression": "off",
    "logbias": "latency",
    "primarycache": "all",
    "used": "0",
    "available": str(1 << 30),
}


RUN = programs.run


class Played:
    """`zfs` and `zpool`: one pool `tank` with the dataset `tank/user` and what is put into
    `datasets`; `refusals` are what `zfs destroy` says, one after the other. `made` is called with
    the name of a new volume, whose properties are those asked for but for the `overruled` ones."""

    def __init__(self) -> None:
        self.pool = dict(MODERN)
        self.datasets: dict[str, dict[str, str]] = {"tank": dict(SPACE), "tank/user": dict(SPACE)}
        self.sources: dict[str, str] = {}
        self.refusals: list[str] = []
        self.asked: list[tuple[str, ...]] = []
        self.silent = False
        self.made: Callable[[str], None] = lambda name: None
        self.overruled: Mapping[str, str] = {}

    def __call__(
        self,
        *command: str,
        bound_s: float,
        should_abort: Callable[[], bool] = lambda: False,
        **more: Any,
    ) -> tuple[int | None, str, str]:
        if Path(command[0]).name not in ("zfs", "zpool"):
            return RUN(*command, bound_s=bound_s, should_abort=should_abort, **more)
        self.asked.append(command)
        if self.silent:
            return None, "", ""
        if should_abort():
            return 1, "", "pool I/O is currently suspended\n"
        program, verb, *words = command
        name = words[-1]
        match Path(program).name, verb:
            case "zpool", "list":
                return 0, "tank\n" if self.pool else "no pools available\n", ""
            case "zpool", "status":
                return 1, "", f"cannot open '{name}': not played\n"
            case "zpool", "get":
                rows = [f"tank  {key}  {value}  -" for key, value in self.pool.items()]
                return 0, "\n".join(["NAME PROPERTY VALUE SOURCE", *rows]), ""
            case "zfs", "create":
                set_ = dict(word.split("=", 1) for word in words if "=" in word)
                size = words[words.index("-V") + 1]
                more = {"type": "volume", "volsize": size, "referenced": "0"}
                self.datasets[name] = {**SPACE, **more, **set_, **self.overruled}
                self.made(name)
                return 0, "", ""
            case "zfs", _ if name not in self.datasets:
                return 1, "", f"cannot open '{name}': dataset does not exist\n"
            case "zfs", "set":
                self.datasets[name] |= {words[0].partition("=")[0]: words[0].partition("=")[2]}
                return 0, "", ""
            case "zfs", "list":
                return 0, f"{name}\n", ""
            case "zfs", "get" if "all" in words:
                rows = [f"{key}\t{value}" for key, value in self.datasets[name].items()]
                return 0, "\n".join(rows), ""
            case "zfs", "get":
                value = self.datasets[name].get(words[-2], "-")
                return 0, f"{value}\t{self.sources.get(name, 'local')}\n", ""
            case "zfs", "destroy":
                if self.refusals:
                    return 1, "", f"cannot destroy '{name}': {self.refusals.pop(0)}\n"
                del self.datasets[name]
                return 0, "", ""
        raise AssertionError(command)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Played:
    zfs = Played()
    monkeypatch.setattr(programs, "run", zfs)
    monkeypatch.setattr(programs, "find", lambda program: f"/sbin/{program}")
    monkeypatch.setattr("leadline.targets.zfs.os.geteuid", lambda: 0)
    monkeypatch.setattr(dataset, "MOUNTS", tmp_path)
    monkeypatch.setattr(programs, "_KSTATS", tmp_path / "kstats")
    monkeypatch.setattr(dataset, "_LARGEST_RECORD", tmp_path / "zfs_max_recordsize")
    monkeypatch.setattr("leadline.targets.zfs_dataset.time.sleep", lambda seconds: None)
    return zfs


def footprint(size: int = 1 << 20, **more: bool) -> Footprint:
    files = {"leadline.0.dat": size}
    return Footprint(files=files, span=size, job_file_bytes=0, writes=True, **more)


def inspected(
    url: str, needs: Footprint | None = None, note: Callable[[str], None] = lambda sentence: None
) -> ZfsTarget:
    target = ZfsTarget(Target(name="t", url=url), note)
    target.inspect(needs or footprint(), prefill=True)
    return target


def refused(url: str, needs: Footprint | None = None) -> LeadlineError:
    with pytest.raises(LeadlineError) as caught:
        inspected(url, needs)
    return caught.value


@pytest.mark.parametrize("health", ["SUSPENDED", "FAULTED", "UNAVAIL"])
def test_a_pool_that_cannot_work_is_refused_and_asked_nothing_more(
    played: Played, health: str
) -> None:
    played.pool["health"] = health
    error = refused("zfs:tank")
    assert error.kind is errors.ZPOOL_UNFIT
    assert f"is {health}" in error.fact
    assert "zpool status tank" in (error.hint or "")
    # What asks for a dataset of such a pool may never come back.
    assert {Path(command[0]).name for command in played.asked} == {"zpool"}


def suspend(pool: str, kstats: Path) -> None:
    """As the module tells of it."""
    (kstats / pool).mkdir(parents=True)
    (kstats / pool / "state").write_text("SUSPENDED\n")


def test_a_suspended_pool_is_refused_and_no_program_is_asked(
    played: Played, tmp_path: Path
) -> None:
    suspend("tank", tmp_path / "kstats")
    error = refused("zfs:tank/user")
    assert error.kind is errors.ZPOOL_UNFIT
    assert "SUSPENDED" in error.fact
    assert "zpool clear tank" in (error.hint or "")
    assert played.asked == []


def test_another_pool_may_be_suspended(played: Played, tmp_path: Path) -> None:
    suspend("other", tmp_path / "kstats")
    inspected("zfs:tank")
    played.silent = True
    assert refused("zfs:tank").kind is errors.ZFS_FAILED


def test_what_lies_in_a_suspended_pool_is_told_to_be_left_and_how_it_goes_on(
    played: Played, tmp_path: Path
) -> None:
    made(played)
    suspend("tank", tmp_path / "kstats")
    (problem,) = dataset.remove_dataset(OURS, "run")
    assert NAME in problem
    assert "SUSPENDED" in problem
    assert "zpool clear tank" in problem
    assert NAME in played.datasets


def test_a_pool_that_lacks_a_disk_is_measured_and_told_of_once(played: Played) -> None:
    played.pool["health"] = "DEGRADED"
    told: list[str] = []
    target = inspected("zfs:tank", note=told.append)
    target.inspect(footprint(), prefill=True)
    assert len(told) == 1
    assert "DEGRADED" in told[0]


@pytest.mark.parametrize(
    ("of_pool", "of_dataset", "kind", "said"),
    [
        ({"readonly": "on"}, {}, errors.ZPOOL_UNFIT, "imported read-only"),
        ({}, {"readonly": "on"}, errors.TARGET_READ_ONLY, "is read-only"),
        ({}, {"keystatus": "unavailable"}, errors.TARGET_READ_ONLY, "key is not loaded"),
        ({}, {"type": "volume"}, errors.TARGET_INVALID, "is a ZFS volume"),
    ],
)
def test_what_takes_no_writes_is_refused(
    played: Played,
    of_pool: Mapping[str, str],
    of_dataset: Mapping[str, str],
    kind: errors.ErrorKind,
    said: str,
) -> None:
    inspected("zfs:tank/user")
    played.pool |= of_pool
    played.datasets["tank/user"] |= of_dataset
    error = refused("zfs:tank/user")
    assert error.kind is kind
    assert said in error.fact


def test_programs_that_do_not_come_back_are_an_error_of_their_own(played: Played) -> None:
    played.silent = True
    error = refused("zfs:tank")
    assert error.kind is errors.ZFS_FAILED
    assert "suspended" in (error.hint or "")


@pytest.mark.parametrize(
    ("options", "feature", "said"),
    [
        ("compression=lz4", "lz4_compress", "compression=lz4"),
        ("compression=zstd-9", "zstd_compress", "compression=zstd-9"),
        ("recordsize=256K", "large_blocks", "128 KiB at most"),
    ],
)
def test_what_the_pool_has_no_feature_for_is_refused(
    played: Played, options: str, feature: str, said: str
) -> None:
    inspected(f"zfs:tank?{options}")
    played.pool[f"feature@{feature}"] = "disabled"
    error = refused(f"zfs:tank?{options}")
    assert error.kind is errors.TARGET_UNSUITABLE
    assert said in error.fact


def test_records_are_as_large_as_the_module_allows(played: Played, tmp_path: Path) -> None:
    (tmp_path / "zfs_max_recordsize").write_text("1048576\n")
    inspected("zfs:tank?recordsize=1M")
    error = refused("zfs:tank?recordsize=16M")
    assert "zfs_max_recordsize allows 1 MiB" in error.fact


def test_a_compression_and_a_property_that_are_not_there_are_told_together(
    played: Played,
) -> None:
    for properties in played.datasets.values():
        del properties["sync"]
    played.pool["feature@zstd_compress"] = "disabled"
    error = refused("zfs:tank?compression=zstd&sync=always")
    assert "no property 'sync'" in error.fact
    assert "cannot do compression=zstd" in error.fact


def test_room_is_for_all_copies_and_for_what_is_received(played: Played) -> None:
    # 1 GiB, of which a tenth is left free.
    inspected("zfs:tank", footprint(800 << 20))
    assert refused("zfs:tank", footprint(950 << 20)).kind is errors.TARGET_NO_SPACE
    inspected("zfs:tank", footprint(400 << 20, streams=True))
    assert "receive" in refused("zfs:tank", footprint(500 << 20, streams=True)).fact
    played.datasets["tank"]["copies"] = "2"
    assert refused("zfs:tank", footprint(800 << 20)).kind is errors.TARGET_NO_SPACE


def test_a_quota_of_the_dataset_counts(played: Played) -> None:
    played.datasets["tank/user"]["available"] = str(200 << 20)
    inspected("zfs:tank", footprint(500 << 20))
    assert refused("zfs:tank/user", footprint(500 << 20)).kind is errors.TARGET_NO_SPACE


NAME = "tank/leadline-run-0123456789abcdef"
OURS = Created(target="t", path=f"zfs:{NAME}", token="0123456789abcdef")


def made(played: Played, owner: str = "run 0123456789abcdef", source: str = "local") -> None:
    played.datasets[NAME] = {**SPACE, dataset.OWNER: owner}
    played.sources[NAME] = source


def test_what_is_busy_is_destroyed_when_it_is_free(played: Played) -> None:
    made(played)
    played.refusals = ["dataset is busy"] * 3
    (dataset.mount_folder(OURS.token)).mkdir()
    assert dataset.remove_dataset(OURS, "run") == ()
    assert NAME not in played.datasets
    assert not dataset.mount_folder(OURS.token).exists()
    assert dataset.remove_dataset(OURS, "run") == (), "a second time there is nothing to do"


@pytest.mark.parametrize(
    ("owner", "source"),
    [
        ("someone else", "local"),
        ("-", "-"),
        # The same token, and the mark of another run.
        ("other 0123456789abcdef", "local"),
        ("x run 0123456789abcdef", "local"),
        ("0123456789abcdef", "local"),
        # A dataset of the user's below one that has our mark.
        ("run 0123456789abcdef", "inherited from tank"),
    ],
)
def test_what_does_not_bear_our_mark_itself_is_never_destroyed(
    played: Played, owner: str, source: str
) -> None:
    made(played, owner, source)
    (problem,) = dataset.remove_dataset(OURS, "run")
    whose = "mark of another owner" if source == "local" else "no mark of this run"
    assert f"{whose}; it was kept: `zfs destroy -r {NAME}` if it is yours" in problem
    assert NAME in played.datasets
    assert not any("destroy" in command for command in played.asked)


def test_a_refusal_to_destroy_is_told_and_the_dataset_stays_in_the_journal(played: Played) -> None:
    made(played)
    # What OpenZFS 2.3 says; -R would destroy what is not ours.
    played.refusals = [
        "filesystem has dependent clones\nuse '-R' to destroy the following datasets:\ntank/mine"
    ]
    (problem,) = dataset.remove_dataset(OURS, "run")
    assert "tank/mine" in problem
    assert "-R" not in problem
    assert "zfs promote" in problem


def test_a_pool_that_is_not_imported_may_still_hold_what_we_made(played: Played) -> None:
    made(played)
    played.pool = {}
    (problem,) = dataset.remove_dataset(OURS, "run")
    assert "not imported" in problem


def test_names_of_long_runs_leave_room_for_what_stands_behind_them() -> None:
    name = dataset.name_in("p" * 150, "perf-20261122-000000-" + "x" * 79, "0" * 16)
    assert name.endswith("-" + "0" * 16)
    assert len(name + "/received@leadline") < 255


NO_DAEMON = """\
connect: No such file or directory
Please make sure that the zfs-fuse daemon is running.
internal error: failed to initialize ZFS library
"""
NO_MODULE = """\
The ZFS modules are not loaded.
Try running '/sbin/modprobe zfs' as root to load them.
"""


@pytest.mark.parametrize("said", [NO_DAEMON, NO_MODULE])
def test_programs_without_a_zfs_that_runs_are_told_apart_from_a_missing_pool(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setattr(programs, "find", lambda program: f"/sbin/{program}")
    monkeypatch.setattr(programs, "run", lambda *command, **bounds: (1, "", said))
    error = refused("zfs:tank")
    assert error.kind is errors.ZFS_MISSING
    assert "no ZFS runs" in error.fact


def test_without_programs_the_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find", lambda program: None)
    error = refused("zfs:tank")
    assert error.kind is errors.ZFS_MISSING
    assert "zfs-fuse" in (error.hint or "")


class FarHost:
    """Another host with the pool `tank` as `Played` has it; `user` is the one of ssh."""

    def __init__(self, zfs: Played, user: str = "0") -> None:
        self.name = "host backup"
        self.scripts: list[tuple[str, ...]] = []
        self.closed = False
        self._zfs, self._user = zfs, user

    def run(self, script: str, *arguments: str, bound_s: float, **more: object) -> CommandResult:
        self.scripts.append((script, *arguments))
        if script == "id -u":
            return CommandResult(stdout=self._user.encode(), stderr=b"", status=0)
        if script != programs.WITH_PATH or arguments[1:] == ("version",):
            return CommandResult(stdout=b"", stderr=b"", status=0)
        status, out, err = self._zfs(*arguments, bound_s=bound_s)
        return CommandResult(stdout=out.encode(), stderr=err.encode(), status=status or 0)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def far(played: Played, monkeypatch: pytest.MonkeyPatch) -> FarHost:
    host = FarHost(Played())
    monkeypatch.setattr("leadline.targets.zfs.SshShell", lambda name: host)
    monkeypatch.setattr("leadline.targets.zfs.try_route", lambda receiver: None)
    return host


RECEIVED = "zfs:tank?receive_on=backup:tank/user"


@pytest.mark.parametrize(
    ("change", "url", "code", "words"),
    [
        ({}, "zfs:tank?receive_on=backup:vault", "target-invalid", "no pool 'vault'"),
        ({}, "zfs:tank?receive_on=backup:tank/no", "target-invalid", "no dataset 'tank/no'"),
        ({"health": "FAULTED"}, RECEIVED, "zpool-unfit", "'tank' on the host backup is FAULTED"),
        ({"readonly": "on"}, RECEIVED, "zpool-unfit", "imported read-only"),
        (
            {"feature@large_blocks": "disabled"},
            f"{RECEIVED}&recordsize=1M",
            "target-unsuitable",
            "the pool 'tank' on the host backup does not support",
        ),
    ],
)
def test_a_receiving_pool_is_held_to_the_same_as_one_here(
    far: FarHost, change: dict[str, str], url: str, code: str, words: str
) -> None:
    far._zfs.pool |= change
    error = refused(url, footprint(streams=True))
    assert error.kind.code == code
    assert words in error.fact
    assert "on the host backup" in error.fact


def test_another_host_needs_room_for_one_copy_and_this_one_for_none(far: FarHost) -> None:
    needs = footprint(600 << 20, streams=True)
    assert "with a received copy" in str(refused("zfs:tank", needs))
    inspected(RECEIVED, needs)
    far._zfs.datasets["tank/user"]["available"] = str(500 << 20)
    error = refused(RECEIVED, needs)
    assert error.kind is errors.TARGET_NO_SPACE
    assert "'tank/user' on the host backup" in error.fact
    assert "for what it receives" in error.fact


def test_only_root_receives_on_another_host(far: FarHost, monkeypatch: pytest.MonkeyPatch) -> None:
    far._user = "1000"
    error = refused(RECEIVED, footprint(streams=True))
    assert error.kind is errors.TARGET_READ_ONLY
    assert "receive_on=root@backup:tank/user" in str(error.hint)


def test_what_a_killed_session_left_on_another_host_is_removed_by_its_mark(far: FarHost) -> None:
    name = f"tank/user/leadline-run-{TOKEN}"
    far._zfs.datasets[name] = {**SPACE, "leadline:owner": f"run {TOKEN}"}
    created = Created(target="t", path=f"receive_on:backup:{name}", token=TOKEN)
    assert remove_far_dataset(created, "run") == ()
    assert name not in far._zfs.datasets
    # What still receives is ended first.
    assert far.scripts[0][1:] == (name,)
    assert "kill -KILL" in far.scripts[0][0]
    assert far.closed

    far._zfs.datasets[name] = {**SPACE, "leadline:owner": "run other"}
    (problem,) = remove_far_dataset(created, "run")
    assert "on the host backup carries the mark of another owner" in problem
    assert name in far._zfs.datasets
