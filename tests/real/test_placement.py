"""Placement by Ceph's own tools: on recorded maps, and against a live cluster."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from leadline import errors
from leadline.connect.ceph import Connection
from leadline.connect.programs import find
from leadline.errors import LeadlineError
from leadline.inventory.ceph.pg_placement import PlacementState, PoolPlacements, Unforecast
from leadline.lab.state import lab_access
from leadline.model.placement import count_objects
from leadline.pools import placement
from leadline.pools.placement import PlacementRequest, compute_placements, parse_addition
from leadline.report.answers.schemas import SCHEMAS
from tests.awaiting import wait_for
from tests.real.conftest import Ended
from tests.unit.recorded_placements import RECORDED

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        find("osdmaptool") is None, reason="no osdmaptool: NO placement is computed here"
    ),
]
# Only against a test that hangs: nothing here is quick or slow.
HANGS_S = 600.0
Process = Callable[..., Ended]
Sets = dict[str, tuple[list[int], int]]


def content(name: str) -> bytes:
    return (RECORDED / f"{name}.osdmap").read_bytes()


def compute(name: str, *pools: str, add: str = "", pg_num: int | None = None) -> PoolPlacements:
    addition = parse_addition(add) if add else None
    return compute_placements(
        content(name), PlacementRequest(pools=pools, addition=addition, pg_num=pg_num)
    )


def up_sets(dump: bytes) -> Sets:
    """The up set and its primary by PG, of `pg dump pgs_brief`."""
    return {node["pgid"]: (node["up"], node["up_primary"]) for node in json.loads(dump)["pg_stats"]}


def counts(sets: Sets, pool: int) -> tuple[Counter[int], Counter[int]]:
    own = [found for pg, found in sets.items() if pg.startswith(f"{pool}.")]
    return (
        Counter(osd for up, _ in own for osd in up if osd != 0x7FFFFFFF),
        Counter(primary for _, primary in own),
    )


def require_same(state: PlacementState, sets: Sets, pool: int) -> None:
    held, led = counts(sets, pool)
    assert {load.osd: load.pgs for load in state.osds if load.pgs} == held
    assert {load.osd: load.primaries for load in state.osds if load.primaries} == led


@pytest.mark.parametrize("name", ["plain", "exceptions", "classes"])
def test_pgs_and_primaries_are_those_that_the_cluster_reported(name: str) -> None:
    reported = up_sets((RECORDED / f"{name}-pgs.json").read_bytes())
    placements = compute(name)
    assert len(placements.pools) in (3, 6, 8)
    for pool in placements.pools:
        require_same(pool.now, reported, pool.pool.id)


@pytest.mark.parametrize("name", ["plain", "exceptions", "classes"])
def test_every_pool_is_reproduced_and_a_change_to_the_same_moves_nothing(name: str) -> None:
    """Affinities, weights, exceptions, classes, weight sets, pools without hashpspool."""
    for pool in compute(name).pools:
        (same,) = compute(name, pool.pool.name, pg_num=pool.pool.pg_num).pools
        assert same.unforecast is None
        assert same.movement is not None
        assert same.movement.data == same.movement.primaries == 0
        assert same.after == same.now


def test_a_fourth_zone_gets_its_quarter() -> None:
    placements = compute("plain", "rep3", add="zone=1")
    (pool,) = placements.pools
    assert pool.after is not None
    assert pool.movement is not None
    assert (pool.now.domains, pool.after.domains) == (3, 4)
    assert len(placements.new_osds) == 4
    assert {load.weight for load in pool.after.osds} == {1 / 16}, "no bit of a weight is lost"
    new = {osd.osd for osd in placements.new_osds}
    held = sum(load.data for load in pool.after.osds if load.osd in new)
    assert held == pytest.approx(pool.movement.to_new), "all that new OSDs have was moved"
    assert held == pytest.approx(1 / 4, abs=0.05)
    assert pool.movement.to_new <= pool.movement.data < 0.45


def test_hosts_in_each_zone_move_data_to_new_osds_only() -> None:
    """With as many zones as copies, no copy leaves its zone."""
    for pool in compute("plain", "rep3", "ec-2-1", add="host=3").pools:
        assert pool.movement is not None
        assert pool.movement.data == pool.movement.to_new == pytest.approx(1 / 3, abs=0.06)


def test_new_osds_of_mixed_hosts_get_their_classes() -> None:
    placements = compute("classes", "onhdd", "onssd", add="host=2")
    classes = {osd.osd: osd.device_class for osd in placements.new_osds}
    assert Counter(classes.values()) == {"ssd": 2, "hdd": 2}
    for pool in placements.pools:
        assert pool.after is not None
        assert pool.pool.rule is not None
        new = {load.osd for load in pool.after.osds if load.pgs} & set(classes)
        assert new == {osd for osd, name in classes.items() if name == pool.pool.rule.device_class}


def test_too_few_zones_leave_pgs_incomplete_until_there_are_more() -> None:
    (pool,) = compute("exceptions", "four", add="zone=1").pools
    assert len(pool.now.incomplete) == 8
    assert pool.now.domains == 3
    assert pool.after is not None
    assert pool.after.incomplete == ()


@pytest.mark.parametrize("pg_num", [128, 100, 32, 1])
def test_other_numbers_of_pgs(pg_num: int) -> None:
    (pool,) = compute("plain", "rep3", pg_num=pg_num).pools
    assert pool.after is not None
    assert pool.movement is not None
    assert sum(load.pgs for load in pool.after.osds) == 3 * pg_num
    assert pool.movement.to_new == 0
    assert 0 < pool.movement.data < 1


def test_a_map_that_is_not_reproduced_has_no_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "place", lambda *_: ())
    (pool,) = compute("plain", "rep3", add="host=1").pools
    assert pool.unforecast is Unforecast.NOT_REPRODUCED
    assert pool.after is None
    assert pool.movement is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (b"", "is empty"),
        (b'{"epoch": 1}', "is JSON"),
        (b"\x00\x00\x01\x00" + bytes(50), "is a CRUSH map"),
        (b"hello\n", "is no OSD map"),
    ],
)
def test_another_file_is_refused(given: bytes, said: str) -> None:
    with pytest.raises(LeadlineError, match=said) as refused:
        compute_placements(given, PlacementRequest())
    assert refused.value.kind is errors.DUMPS_INVALID
    assert "ceph osd getmap" in refused.value.hint


def test_a_cut_map_is_refused() -> None:
    whole = content("plain")
    for end in range(1, len(whole), len(whole) // 12):
        with pytest.raises(LeadlineError) as refused:
            compute_placements(whole[:end], PlacementRequest())
        assert refused.value.kind in (errors.DUMPS_INVALID, errors.CEPH_FAILED)


# --- the command


def ask(process: Process, *words: object, **variables: str) -> Ended:
    return process("pools", "placement", *words, **variables)


def test_the_answer_fits_its_schema_and_leaves_no_file(process: Process, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = ("--map", RECORDED / "plain.osdmap", "--add", "zone=1")
    told = ask(process, *words, "--format", "json", TMPDIR=str(scratch))
    assert told.status == 0, told.err
    answer = json.loads(told.out)
    jsonschema.validate(answer, SCHEMAS["pools-placement"].model_json_schema(by_alias=True))
    assert [pool["pool"] for pool in answer["pools"]] == ["rep3", "rep2", "ec-2-1"]
    assert answer["pools"][0]["autoscaler"] is None, "a map has no stored bytes"
    failed = ask(process, "--map", RECORDED / "plain.osdmap", "--pool", "x", TMPDIR=str(scratch))
    assert failed.status == 2
    assert "pools: rep3, rep2, ec-2-1" in failed.err
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_command_leaves_no_file_and_no_program(
    started: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    """osdmaptool is a program that never answers."""
    scratch, bin_folder = tmp_path / "scratch", tmp_path / "bin"
    scratch.mkdir()
    bin_folder.mkdir()
    tool = bin_folder / "osdmaptool"
    tool.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 100000\n")
    tool.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
    child = started("pools", "placement", "--map", RECORDED / "plain.osdmap")
    pid = tmp_path / "pid"
    wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"), HANGS_S)
    program = os.pidfd_open(int(pid.read_text()))
    (folder,) = scratch.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    child.send_signal(number)
    _, err = child.communicate(timeout=HANGS_S)
    assert child.returncode == 130
    assert "error[interrupted]" in err
    assert list(scratch.iterdir()) == []
    # The end itself: the process that adopts the program takes its exit status at any time later.
    assert select.select([program], [], [], HANGS_S)[0]
    os.close(program)


def test_a_command_that_is_stopped_while_it_starts_a_program_leaves_none(
    started: Callable[..., subprocess.Popen[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """osdmaptool itself sends the signal: Leadline has not returned from its start by then."""
    programs, pid = tmp_path / "bin", tmp_path / "pid"
    programs.mkdir()
    tool = programs / "osdmaptool"
    tool.write_text(f"#!/bin/sh\nkill -TERM $PPID\necho $$ >{pid}\nexec sleep 100000\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    child = started("pools", "placement", "--map", RECORDED / "plain.osdmap")
    _, err = child.communicate(timeout=HANGS_S)
    assert child.returncode == 130
    assert "error[interrupted]" in err
    # The program may have ended before it wrote its id.
    number = pid.read_text().strip() if pid.exists() else ""
    try:
        program = os.pidfd_open(int(number)) if number else None
    except ProcessLookupError:
        return
    if program is not None:
        assert select.select([program], [], [], HANGS_S)[0]
        os.close(program)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--add", "zone"], "usage", "no addition"),
        (["--add", "zone=0"], "usage", "no addition"),
        (["--add", "rack=1"], "usage", "no rack with OSDs below lab"),
        (["--pg-num", "64"], "usage", "--pg-num is for one pool"),
        (["--lab", "x"], "usage", "--map and --lab name two clusters"),
    ],
)
def test_requests_that_do_not_fit(process: Process, words: list[str], code: str, said: str) -> None:
    told = ask(process, "--map", RECORDED / "plain.osdmap", *words)
    assert told.status == 2
    assert f"error[{code}]" in told.err
    assert said in told.err


def test_missing_tools_name_their_package(process: Process) -> None:
    told = ask(process, "--map", RECORDED / "plain.osdmap", PATH="/nonexistent")
    assert told.status == 3
    assert "error[ceph-missing]: there is no 'osdmaptool'" in told.err
    assert "ceph-base" in told.err


def test_a_map_that_is_not_there(process: Process, tmp_path: Path) -> None:
    told = ask(process, "--map", tmp_path / "none")
    assert told.status == 2
    assert "No such file" in told.err


# --- a live cluster


def forecast(process: Process, lab: str, *words: str) -> dict[str, Any]:
    told = ask(process, "--lab", lab, "--format", "json", *words)
    assert told.status == 0, told.err
    answer: dict[str, Any] = json.loads(told.out)
    return answer


def loads(state: dict[str, Any]) -> tuple[dict[int, int], dict[int, int]]:
    return (
        {osd["osd"]: osd["pgs"] for osd in state["osds"] if osd["pgs"]},
        {osd["osd"]: osd["primaries"] for osd in state["osds"] if osd["primaries"]},
    )


@pytest.mark.root
@pytest.mark.slow
def test_a_live_cluster_has_the_pgs_that_are_shown(process: Process, lab: str) -> None:
    access = lab_access(lab)
    answer = forecast(process, lab)
    with Connection(access) as connection:
        dump = connection.mgr("pg dump", dumpcontents=["pgs_brief"], format="json")
        status = json.loads(connection.mgr("osd pool autoscale-status", format="json"))
    finals = {pool["pool_name"]: pool["pg_num_final"] for pool in status}
    assert {pool["pool"] for pool in answer["pools"]} >= {"rep3", "rep2", "ec-2-1"}
    for pool in answer["pools"]:
        assert loads(pool["now"]) == counts(up_sets(dump), pool["pool_id"])
        assert pool["autoscaler"]["manager"] == finals[pool["pool"]]
        assert pool["autoscaler"]["rule"] == finals[pool["pool"]]


@pytest.mark.root
@pytest.mark.slow
def test_a_live_cluster_puts_objects_where_their_names_say(lab: str) -> None:
    with Connection(lab_access(lab)) as connection:
        pool = connection.mon_json("osd pool get", pool="rep3", var="pg_num")
        for number in range(10):
            name = f"rbd_data.3.10ab{number}.{number:016x}"
            found = connection.mon_json("osd map", pool="rep3", object=name)
            pg = next(iter(count_objects([name], pool["pg_num"])))
            assert found["pgid"] == f"{found['pool_id']}.{pg:x}"


@pytest.mark.root
@pytest.mark.slow
def test_another_number_of_pgs_ends_as_it_was_forecast(process: Process, lab: str) -> None:
    access = lab_access(lab)
    with Connection(access) as connection:
        connection.mon(
            "osd pool create", pool="split", pg_num=8, pool_type="replicated", rule="rep_zone"
        )
        try:
            (pool,) = forecast(process, lab, "--pool", "split", "--pg-num", "32")["pools"]
            connection.mon("osd pool set", pool="split", var="pg_num", val="32")

            def reported() -> bool:
                dump = connection.mgr("pg dump", dumpcontents=["pgs_brief"], format="json")
                return counts(up_sets(dump), pool["pool_id"]) == loads(pool["after"])

            wait_for(reported, 60)
        finally:
            connection.mon(
                "osd pool delete", pool="split", pool2="split", yes_i_really_really_mean_it=True
            )


@pytest.mark.root
@pytest.mark.slow
def test_a_host_that_joins_gets_what_was_forecast(process: Process, lab: str) -> None:
    """osdmaptool on the map of the cluster after the host has joined, its OSD marked up and in."""
    access = lab_access(lab)
    before = forecast(process, lab, "--add", "host=1")
    (new,) = before["new_osds"]
    osd, (host, zone) = new["osd"], (place["name"] for place in new["location"])
    with Connection(access) as connection:
        original = connection.mon("osd getcrushmap")
        largest = json.loads(connection.mon("osd dump", format="json"))["max_osd"]
    try:
        with tempfile.TemporaryDirectory() as folder:
            after = Path(folder) / "osdmap"
            with Connection(access) as connection:
                connection.mon("osd new", uuid="5f0e6c3a-2d4b-4a3e-9d0f-0e8d4f8a1b2c", id=osd)
                place = [f"zone={zone}", f"host={host}"]
                connection.mon("osd crush add", id=osd, weight=new["weight"], args=place)
                if device_class := new["device_class"]:
                    ids = {"class": device_class, "ids": [f"osd.{osd}"]}
                    connection.mon("osd crush set-device-class", **ids)
                after.write_bytes(connection.mon("osd getmap"))
            tool = shutil.which("osdmaptool") or "osdmaptool"
            marks = ("--mark-up", str(osd), "--mark-in", str(osd), "--clear-temp")
            for pool in before["pools"]:
                words = (*marks, "--test-map-pgs", "--pool", str(pool["pool_id"]))
                done = subprocess.run([tool, str(after), *words], capture_output=True, check=True)
                counted = {
                    int(row[0].removeprefix("osd.")): (int(row[1]), int(row[3]))
                    for row in map(str.split, done.stdout.decode().splitlines())
                    if row and row[0].startswith("osd.")
                }
                held = {number: pgs for number, (pgs, _) in counted.items() if pgs}
                led = {number: primaries for number, (_, primaries) in counted.items() if primaries}
                assert loads(pool["after"]) == (held, led)
                assert held.get(osd), "the new OSD gets PGs"
    finally:
        with Connection(access) as connection:
            connection.mgr("osd purge", id=osd, yes_i_really_mean_it=True)
            connection.mon("osd setcrushmap", original)
            connection.mon("osd setmaxosd", newmax=largest)
