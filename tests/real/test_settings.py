"""Settings of a real Ceph cluster: in effect during their trials, and as before after every end.

`LEADLINE_SETTING_KILLS` is the number of runs that are killed (3, and 100 in `make test-deep`).
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from leadline import errors
from leadline.archive.reader import Run
from leadline.archive.records import SettingChange, SettingStep, TrialStatus
from leadline.archive.runs import list_runs
from leadline.connect.ceph import CommandFailed, Connection
from leadline.errors import LeadlineError
from leadline.lab.state import lab_access
from leadline.plan.loader import Overrides, load_plan
from leadline.settings.ceph import MARK
from leadline.settings.open import Parameters
from leadline.settings.states import States
from tests.awaiting import wait_for
from tests.real.conftest import Ended
from tests.real.ssh_hosts import SshHosts

pytestmark = pytest.mark.real
Process = Callable[..., Ended]
KILLS = int(os.environ.get("LEADLINE_SETTING_KILLS", "3"))
MCLOCK, MEMORY = "osd_mclock_profile", "osd_memory_target"
SETTINGS: dict[str, Any] = {
    "mclock": {
        "ceph_config": {"who": "osd", "name": MCLOCK, "values": ["balanced", "high_client_ops"]}
    },
    "memory": {
        "ceph_config": {"who": "osd.0", "name": MEMORY, "values": ["2G", "3G"]},
    },
}


@pytest.fixture(scope="module")
def ceph(lab: str) -> Iterator[Connection]:
    with Connection(lab_access(lab)) as connection:
        yield connection


def dump(ceph: Connection) -> dict[tuple[str, str], str]:
    return {(one["section"], one["name"]): one["value"] for one in ceph.mon_json("config dump")}


def mark(ceph: Connection) -> str:
    try:
        return ceph.mon("config-key get", key=MARK).decode()
    except CommandFailed:
        return ""


def plan_file(folder: Path, lab: str, settings: dict[str, Any], **keys: Any) -> Path:
    path = folder / "plan.yaml"
    workload = {"name": "rr", "pattern": "randread", "size": "4M", "runtime": "300ms"}
    written = {
        "clusters": {"c": {"lab": lab}},
        "targets": [{"name": "rep3", "target": "rbd:rep3"}],
        "settings": settings,
        "workloads": [workload],
        "repeats": 1,
        **keys,
    }
    path.write_text(yaml.safe_dump(written))
    return path


def only_run(folder: Path) -> Run:
    (run,) = list_runs(folder / "runs")
    return run


@pytest.mark.slow
def test_each_state_is_in_effect_during_its_trials_and_restored(
    lab: str, ceph: Connection, process: Process, tmp_path: Path
) -> None:
    before = dump(ceph)
    settings = {
        **SETTINGS,
        "compression": {"pool": {"name": "compression_mode", "values": ["aggressive"]}},
        "object": {"image": {"object_size": ["1M"]}},
    }
    plan = plan_file(tmp_path, lab, settings, repeats=2)
    ended = process("run", plan)
    assert ended.status in (0, 1), ended.err
    assert dump(ceph) == before
    assert mark(ceph) == ""
    run = only_run(tmp_path)
    assert {trial.record.status for trial in run.trials} == {TrialStatus.COMPLETED}
    assert len(run.trials) == 2 * (1 + 2 + 2 + 1 + 1)
    assert run.unrestored == ()
    steps = [one.step for one in run.setting_changes if one.parameter]
    # A state that ends a block and begins the next one is applied once.
    states = [run.plan.applied(run.plan.cells[trial.cell].target) for trial in run.plan.trials]
    changed = sum(now != before and bool(now) for before, now in itertools.pairwise([{}, *states]))
    assert changed >= 2 * 5 - 1
    assert steps.count(SettingStep.APPLIED) == steps.count(SettingStep.APPLY) == changed
    read = {one.value: one.read for one in run.setting_changes if one.step is SettingStep.APPLIED}
    assert read["high_client_ops"] == "high_client_ops"
    assert read["2G"] == str(2 << 30)
    assert process("verify", run.path).status == 0
    # The data of all states of the running system is one image.
    made = [json.loads(line) for line in (run.path / "created.jsonl").read_text().splitlines()]
    assert len({one["path"] for one in made}) == 2
    shown = process("compare", run.path, "--by", "mclock")
    assert "high_client_ops" in shown.out, shown.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"who": "osd", "name": "osd_no_such_option", "values": [1]}, "setting-invalid"),
        ({"who": "osd", "name": MCLOCK, "values": ["fast"]}, "setting-invalid"),
        ({"who": "osd", "name": MEMORY, "values": ["1K"]}, "setting-invalid"),  # below its minimum
        # It takes effect when an OSD starts.
        ({"who": "osd", "name": "osd_data", "values": ["/x"]}, "setting-invalid"),
    ],
)
def test_what_the_cluster_does_not_take_is_refused_before_the_run(
    lab: str, process: Process, tmp_path: Path, settings: dict[str, Any], code: str
) -> None:
    ended = process("run", plan_file(tmp_path, lab, {"own": {"ceph_config": settings}}))
    assert f"error[{code}]" in ended.err
    assert ended.status == 2
    assert not list_runs(tmp_path / "runs")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ("database", "a narrower section than 'osd' has another value"),
        ("override", "osd.0 runs with 'balanced', which its admin socket sets"),
    ],
)
def test_another_source_that_wins_is_reported(
    lab: str,
    ceph: Connection,
    process: Process,
    tmp_path: Path,
    section: str,
    reason: str,
) -> None:
    if section == "database":
        for number in range(3):
            ceph.mon("config set", who=f"osd.{number}", name=MCLOCK, value="balanced")
    else:
        ceph.osd(0, "config set", var=MCLOCK, val=["balanced"])
    before = dump(ceph)
    config = {**SETTINGS["mclock"]["ceph_config"], "values": ["high_client_ops"]}
    try:
        ended = process("run", plan_file(tmp_path, lab, {"mclock": {"ceph_config": config}}))
        assert reason in ended.err
        assert ended.status == 4
        status = {one.record.target: one.record.status for one in only_run(tmp_path).trials}
        assert status == {
            "rep3": TrialStatus.COMPLETED,
            "rep3 mclock=high_client_ops": TrialStatus.FAILED,
        }
        assert dump(ceph) == before
    finally:
        for number in range(3):
            ceph.mon("config rm", who=f"osd.{number}", name=MCLOCK)
        ceph.osd(0, "config unset", var=MCLOCK)


def long_plan(folder: Path, lab: str) -> Path:
    workload = {"name": "rr", "pattern": "randread", "size": "4M", "runtime": "5s"}
    return plan_file(folder, lab, SETTINGS, workloads=[workload], repeats=5)


def applied(ceph: Connection, before: dict[tuple[str, str], str]) -> Callable[[], bool]:
    return lambda: dump(ceph) != before


@pytest.mark.slow
def test_an_outsiders_change_stays_and_ends_the_run(
    lab: str, ceph: Connection, process: Process, started: Callable[..., Any], tmp_path: Path
) -> None:
    before = dump(ceph)
    settings = {"mclock": SETTINGS["mclock"]}
    workload = {"name": "rr", "pattern": "randread", "size": "4M", "runtime": "2s"}
    child = started("run", plan_file(tmp_path, lab, settings, workloads=[workload], repeats=2))

    def in_effect() -> bool:
        """Whether a value was read back. A foreign one before that is taken for the run's."""
        journals = tmp_path.glob("runs/*/settings.jsonl")
        return any('"applied"' in journal.read_text() for journal in journals)

    wait_for(in_effect, 60.0)
    ceph.mon("config set", who="osd", name=MCLOCK, value="high_recovery_ops")
    try:
        _, said = child.communicate(timeout=120)
        assert child.returncode == 4, said
        assert "error[left-behind]" in said
        assert "high_recovery_ops" in said
        assert dump(ceph)["osd", MCLOCK] == "high_recovery_ops"
        assert mark(ceph) == ""
        assert process("clean").status == 0
        assert dump(ceph)["osd", MCLOCK] == "high_recovery_ops"
    finally:
        ceph.mon("config rm", who="osd", name=MCLOCK)
    assert dump(ceph) == before


@pytest.mark.slow
def test_a_second_run_on_the_same_cluster_is_refused(
    lab: str, ceph: Connection, process: Process, started: Callable[..., Any], tmp_path: Path
) -> None:
    before = dump(ceph)
    child = started("run", long_plan(tmp_path, lab))
    wait_for(applied(ceph, before), 60.0)
    second = tmp_path / "second"
    second.mkdir()
    ended = process("run", plan_file(second, lab, SETTINGS))
    assert "error[settings-in-use]" in ended.err
    assert ended.status == 3
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=120)
    assert child.returncode == 130, said
    assert dump(ceph) == before
    assert mark(ceph) == ""


@pytest.mark.slow
def test_kill_9_at_any_moment_is_undone(
    lab: str, ceph: Connection, process: Process, started: Callable[..., Any], tmp_path: Path
) -> None:
    before = dump(ceph)
    changed = 0
    for number in range(KILLS):
        chance = random.Random(number)
        folder = tmp_path / f"{number}"
        folder.mkdir()
        short = {"name": "rr", "pattern": "randread", "size": "4M", "runtime": "100ms"}
        plan = plan_file(folder, lab, SETTINGS, workloads=[short], repeats=20)
        child = started("run", plan)
        wait_for(applied(ceph, before), 60.0)
        time.sleep(chance.uniform(0, 1.5))
        child.kill()
        child.wait()
        changed += dump(ceph) != before
        if number % 3 == 1:
            # Restores, goes on, and is killed again.
            child = started("run", "--resume", "@latest", "--allow-archived", "level")
            time.sleep(chance.uniform(1, 4))
            child.kill()
            child.wait()
        if number % 2 and mark(ceph):
            refused = process("run", plan)
            assert "error[settings-in-use]" in refused.err
        ended = process("clean")
        assert ended.status == 0, ended.err
        assert dump(ceph) == before
        assert mark(ceph) == ""
    assert changed, "no kill came while a setting was applied"
    assert process("clean").out == "nothing was left behind\n"


def test_a_resumed_run_restores_before_it_goes_on(
    process: Process,
    started: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    target, value = tmp_path / "target", tmp_path / "value"
    target.mkdir()
    value.write_text("5\n")
    workload = {"name": "rr", "pattern": "randread", "size": "4M", "runtime": "1s"}
    plan = tmp_path / "plan.yaml"
    settings = {"level": {"host_file": {"path": str(value), "values": [1, 2]}}}
    keys = {"targets": [f"dir:{target}"], "workloads": [workload], "repeats": 1}
    plan.write_text(yaml.safe_dump({"settings": settings, **keys}))
    child = started("run", plan)
    wait_for(lambda: value.read_text() != "5\n")
    child.kill()
    child.wait()
    assert value.read_text() in ("1\n", "2\n")
    assert len(only_run(tmp_path).unrestored) == 2  # the file, and the mark of its system
    shown = process("clean", "--dry-run")
    assert f"would restore level: {value}" in shown.out
    resumed = process("run", "--resume", "@latest", "--allow-archived", "level")
    assert resumed.status in (0, 1), resumed.err
    assert f"restored level: {value} to '5'" in resumed.err
    assert value.read_text() == "5\n"
    run = only_run(tmp_path)
    assert run.unrestored == ()
    assert {trial.record.status for trial in run.trials} == {TrialStatus.COMPLETED}
    assert process("verify", run.path).status == 0


def test_a_file_of_a_host_by_ssh_and_a_host_that_is_not_reached(
    hosts: SshHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    hosts.start("a")
    there = tmp_path / "value"
    there.write_text("5\n")
    for names, reached in ((["a"], True), (["a", "nowhere.invalid"], False)):
        level = {"host_file": {"path": str(there), "hosts": names, "values": [1]}}
        keys = {"clusters": {}, "targets": [f"dir:{tmp_path}"]}
        plan = load_plan(plan_file(tmp_path, "", {"level": level}, **keys), Overrides())
        parameters = Parameters(no_cluster, no_cluster)
        journal: list[SettingChange] = []
        states = States(parameters.find)
        noting = SimpleNamespace(note_change=journal.append)
        try:
            if not reached:
                with pytest.raises(LeadlineError, match=r"nowhere\.invalid"):
                    states.require(plan)
                continue
            states.require(plan)
            states.enter(plan.targets[1], "run", noting, lambda: None)
            assert there.read_text() == "1\n"
            assert states.leave("run", noting) == ()
            assert there.read_text() == "5\n"
            assert journal[-1].step is SettingStep.RESTORED
        finally:
            states.unlock()
            parameters.close()


def no_cluster(name: str) -> Any:
    raise AssertionError(f"no cluster is needed, and {name!r} is asked")


@pytest.mark.slow
def test_an_osd_that_does_not_come_back_refuses_the_state_within_a_bound(
    lab: str, ceph: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.settings.ceph.SETTLED_WITHIN_S", 3.0)
    before = dump(ceph)
    plan = load_plan(plan_file(tmp_path, lab, {"mclock": SETTINGS["mclock"]}), Overrides())
    journal: list[SettingChange] = []
    noting = SimpleNamespace(note_change=journal.append)
    states = States(Parameters(lambda name: ceph, no_cluster).find)
    states.require(plan)
    try:
        ceph.mon("osd set", key="noup")
        ceph.mon("osd down", ids=["0"])
        with pytest.raises(LeadlineError) as raised:
            states.enter(plan.targets[1], "run", noting, lambda: None)
        assert raised.value.kind is errors.SETTING_NOT_APPLIED
        assert "osd.0 is down" in raised.value.context
        assert dump(ceph) == before
        assert states.leave("run", noting) == ()
        assert mark(ceph) == ""
    finally:
        states.unlock()
        ceph.mon("osd unset", key="noup")
        wait_for(lambda: ceph.mon_json("status")["osdmap"]["num_up_osds"] == 3)
        wait_for(lambda: ceph.mon_json("health")["status"] == "HEALTH_OK", 120.0)


@pytest.mark.slow
def test_options_of_other_daemons_and_of_a_mask(lab: str, ceph: Connection, tmp_path: Path) -> None:
    before = dump(ceph)
    settings = {
        name: {"ceph_config": {"who": who, "name": option, "values": [value]}}
        for name, who, option, value in (
            ("mds", "mds", "mds_log_max_segments", "100"),
            ("mon", "mon", "mon_clock_drift_allowed", "0.1"),
            ("class", "osd/class:ssd", MEMORY, "2G"),
            ("client", "client", "rados_osd_op_timeout", "70"),
        )
    }
    plan = load_plan(plan_file(tmp_path, lab, settings), Overrides())
    journal: list[SettingChange] = []
    noting = SimpleNamespace(note_change=journal.append)
    states = States(Parameters(lambda name: ceph, no_cluster).find)
    try:
        states.require(plan)
        for target in plan.targets[1:]:
            states.enter(target, "run", noting, lambda: None)
        assert states.leave("run", noting) == ()
    finally:
        states.unlock()
    assert [one.step for one in journal if one.parameter].count(SettingStep.APPLIED) == 4
    assert dump(ceph) == before
