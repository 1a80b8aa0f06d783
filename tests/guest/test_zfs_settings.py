"""Settings of ZFS on real OpenZFS 2.3: swept, refused, and restored after a kill."""

from __future__ import annotations

from pathlib import Path

from leadline.archive.reader import Run
from leadline.archive.records import SettingStep, TrialStatus
from tests.guest.measuring import answer, begin, measured, run, wait_for_trial
from tests.guest.zfs_guest import ZfsGuest

MIB = 1 << 20
PARAMETERS = "/sys/module/zfs/parameters"
HEAD = """
leadline: 1
name: zfs-settings
targets: [{name: tank, target: "zfs:tank?compression=off"}]
grace: 2m
"""
WRITES = (
    "[{name: pages, pattern: randwrite, block_size: 16k, iodepth: 4, size: 32M, runtime: RUNTIME}]"
)
SWEEP = f"""{HEAD}
settings:
  record: {{dataset: {{recordsize: [16K, 1M]}}}}
  txg: {{zfs_parameter: {{name: zfs_txg_timeout, values: [1, 30]}}}}
  dirty: {{zfs_parameter: {{name: zfs_dirty_data_max, values: [64MiB]}}}}
repeats: 2
workloads: {WRITES.replace("RUNTIME", "4s")}
"""


def test_a_sweep_of_a_property_and_two_parameters_is_answered(
    guest: ZfsGuest, tank: str, tmp_path: Path
) -> None:
    before = state(guest)
    done = measured(guest, SWEEP, tmp_path)
    assert state(guest) == before
    assert len(done.trials) == 2 * (1 + 2 + 2 + 1)
    assert done.unrestored == ()
    read = {
        (one.setting, one.value, one.read)
        for one in done.setting_changes
        if one.step is SettingStep.APPLIED
    }
    assert read == {("txg", "1", "1"), ("txg", "30", "30"), ("dirty", "64MiB", str(64 * MIB))}
    for target, size in (("tank record=16K", "16384"), ("tank record=1M", "1048576")):
        assert done.stacks[target][0].facts["recordsize_bytes"] == size
    said = answer(done, "settings")
    assert {one["state"] for one in said["states"]} == {
        *("record=16K", "record=1M", "txg=1", "txg=30", "dirty=64MiB")
    }
    # Without KVM the audit may refuse a cell; the property has the largest effect of all.
    (pages,) = [one for one in said["states"] if one["state"] == "record=16K"]
    assert pages["rate"] is not None


def test_a_parameter_of_a_killed_run_is_restored_by_clean(guest: ZfsGuest, tank: str) -> None:
    before = state(guest)
    # The seed puts this state before the present one.
    plan = sweep_of("txg: {zfs_parameter: {name: zfs_txg_timeout, values: [7]}}", "120s", seed=4)
    begin(guest, plan)
    wait_for_trial(guest, "t0001")
    assert parameter(guest, "zfs_txg_timeout") == "7"
    guest.sh("kill -9 $(pgrep -f '^python3 -m leadline run')")
    guest.end(60.0)
    assert parameter(guest, "zfs_txg_timeout") == "7"
    second = run(guest, plan)
    assert second.status == 3
    assert "error[settings-in-use]" in second.err
    name = guest.sh("ls -t /var/runs").split()[0]
    ended = guest.leadline("clean", name)
    assert ended.status == 0, ended.err
    assert f"restored txg: {PARAMETERS}/zfs_txg_timeout to" in ended.out
    assert state(guest) == before
    guest.sh(f"rm -r /var/runs/{name}")


def test_a_parameter_that_cannot_be_swept_is_refused_before_the_run(
    guest: ZfsGuest, tank: str
) -> None:
    before = state(guest)
    fixed = guest.sh(f"find {PARAMETERS} -type f -perm 0444 | sort | head -1").strip()
    for name, fact in (
        ("zfs_txg_timeouts", "has no parameter 'zfs_txg_timeouts'"),
        (Path(fixed).name, "only when it is loaded"),
        ("zfs_arc_max", "which has no effect when it is set again"),
    ):
        setting = f"own: {{zfs_parameter: {{name: {name}, values: [1]}}}}"
        ended = run(guest, sweep_of(setting, "1s"))
        assert ended.status == 2, ended.err
        assert "error[setting-invalid]" in ended.err
        assert fact in ended.err
    assert state(guest) == before


def test_a_value_that_the_module_refuses_or_ignores_is_not_measured(
    guest: ZfsGuest, tank: str, tmp_path: Path
) -> None:
    limit = guest.sh("awk '$1 == \"c_max\" {print $3}' /proc/spl/kstat/zfs/arcstats").strip()
    guest.sh(f"echo {limit} > {PARAMETERS}/zfs_arc_max")
    before = state(guest)
    settings = (
        "txg: {zfs_parameter: {name: zfs_txg_timeout, values: [never]}}\n"
        "  arc: {zfs_parameter: {name: zfs_arc_max, values: [1MiB]}}"
    )
    ended = run(guest, sweep_of(settings, "1s"))
    assert ended.status == 4, ended.err
    assert "does not take 'never'" in ended.err
    assert f"the module ignores it, and {limit} stays in effect" in ended.err
    assert statuses(guest, tmp_path) == {
        "tank": TrialStatus.COMPLETED,
        "tank txg=never": TrialStatus.FAILED,
        "tank arc=1MiB": TrialStatus.FAILED,
    }
    assert state(guest) == before


def sweep_of(settings: str, runtime: str, seed: int = 0) -> str:
    workloads = WRITES.replace("RUNTIME", runtime)
    end = f"repeats: 1\nseed: {seed}\nworkloads: {workloads}\n"
    return f"{HEAD}settings:\n  {settings}\n{end}"


def parameter(guest: ZfsGuest, name: str) -> str:
    return guest.sh(f"cat {PARAMETERS}/{name}").strip()


def state(guest: ZfsGuest) -> str:
    """All parameters of the module, and what is set in the user's pool."""
    return guest.sh(
        f"cd {PARAMETERS}; grep -s . * || true; "
        "zfs get -Hp -s local -o name,property,value -r all tank; zfs list -H -o name"
    )


def statuses(guest: ZfsGuest, into: Path) -> dict[str, TrialStatus]:
    """How the trials of the last run ended, by their targets; its archive is removed."""
    path = guest.sh("ls -td /var/runs/*").split()[0]
    done = Run(guest.fetch(path, into / Path(path).name))
    guest.sh(f"rm -r {path}")
    return {trial.record.target: trial.record.status for trial in done.trials}
