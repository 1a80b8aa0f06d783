"""The drill of a plan: its events, its place in a trial, and faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline.engines.fio.job import job_text
from leadline.formats.fio.job_file import options_of
from leadline.plan.loader import Overrides, PlanInvalid, load_plan
from leadline.plan.models import Plan
from leadline.runner.ports import Shape

WORK = {"name": "w", "pattern": "randrw", "size": "64M", "runtime": "60s"}
LAB = {"clusters": {"zones": {"lab": "zones"}}, "targets": ["rbd:rep3"]}
STOP = {"stop_osd": 1}


def load(folder: Path, drill: dict[str, Any], work: dict[str, Any] = WORK, **keys: Any) -> Plan:
    path = folder / "plan.yaml"
    plan = {"seed": 1, **LAB, "workloads": [work], **keys, "drill": drill}
    path.write_text(yaml.safe_dump(plan, sort_keys=False))
    return load_plan(path, Overrides())


def faults(folder: Path, *given: Any, **keys: Any) -> str:
    with pytest.raises(PlanInvalid) as raised:
        load(folder, *given, **keys)
    return "\n".join(raised.value.context)


def drill(**keys: Any) -> dict[str, Any]:
    return {"after": "20s", "lasts": "30s", "event": STOP, **keys}


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (STOP, "stop osd.1"),
        ({"stop_host": "az2-h1"}, "stop host az2-h1"),
        ({"stop_zone": "az2"}, "stop zone az2"),
        ({"lose_link": ["az1", "az2"]}, "lose the link az1 - az2"),
        ({"command": {"begin": "./x.sh", "end": "./y.sh"}}, "command: ./x.sh"),
    ],
)
def test_each_trial_of_the_plan_has_the_drill(
    tmp_path: Path, event: dict[str, Any], text: str
) -> None:
    plan = load(tmp_path, drill(event=event))
    (cell,) = plan.cells
    found = cell.workload.drill
    assert found is not None
    assert (found.after, found.end_s, str(found.event)) == (20.0, 50.0, text)
    assert Plan.model_validate_json(plan.model_dump_json(by_alias=True)) == plan


def test_a_host_that_is_added_stays(tmp_path: Path) -> None:
    for event in ("az2-h2", {"host": "az2-h2", "within": "10min"}):
        plan = load(tmp_path, {"after": "20s", "event": {"add_host": event}})
        found = plan.cells[0].workload.drill
        assert found is not None
        assert found.event.add_host is not None
        assert (found.end_s, found.event.add_host.within) == (20.0, 600.0)
        assert str(found.event) == "add host az2-h2"
        assert Plan.model_validate_json(plan.model_dump_json(by_alias=True)) == plan


def test_commands_run_in_the_folder_of_the_plan(tmp_path: Path) -> None:
    event = {"command": {"begin": "./x.sh", "end": "./y.sh", "within": "5s"}}
    plan = load(tmp_path, drill(event=event), targets=["dir:/mnt"], clusters={})
    found = plan.cells[0].workload.drill
    assert found is not None
    assert found.event.command is not None
    assert found.event.command.folder == str(tmp_path)


def test_fio_logs_latencies_over_time_in_a_drill_only(tmp_path: Path) -> None:
    workload = load(tmp_path, drill()).cells[0].workload
    options = options_of(job_text(workload, Shape.SPAN, 1))
    assert options["randrw"]["write_hist_log"] == "randrw"
    assert options["global"]["log_hist_msec"] == "250"
    assert options["global"]["log_unix_epoch"] == "1"
    plain = job_text(workload.model_copy(update={"drill": None}), Shape.SPAN, 1)
    assert "hist" not in plain
    assert "epoch" not in plain


@pytest.mark.parametrize(
    ("given", "keys", "sentence"),
    [
        (drill(lasts="40s"), {}, "runs 1 min, and the drill ends after 1 min"),
        (drill(after="4s"), {}, "greater than or equal to 5"),
        (drill(event={}), {}, "needs exactly one of stop_osd, stop_host"),
        (drill(event={**STOP, "stop_zone": "az2"}), {}, "needs exactly one of"),
        (drill(event={"stop_ods": 1}), {}, "stop_osd"),
        (drill(event={"add_host": "az2-h2"}), {}, "an added host stays: leave out lasts"),
        ({"after": "20s", "event": STOP}, {}, "needs lasts, such as `lasts: 20s`"),
        (
            {"after": "20s", "event": {"add_host": "b"}},
            {"targets": ["dir:/mnt"], "clusters": {}},
            "only a Ceph cluster can add host b, and 'dir:/mnt' is not in one",
        ),
        (drill(), {"targets": ["dir:/mnt"], "clusters": {}}, "only a lab can stop osd.1"),
        (drill(), {"stop": True}, "leave out stop"),
        (
            drill(),
            {"targets": ["rados:rep3"], "work": {**WORK, "pattern": "write"}},
            "does not come from fio on this machine",
        ),
    ],
)
def test_faults_name_the_drill(
    tmp_path: Path, given: dict[str, Any], keys: dict[str, Any], sentence: str
) -> None:
    found = faults(tmp_path, given, **keys)
    assert sentence in found
    assert "drill" in found


def test_objects_by_fio_may_have_a_drill(tmp_path: Path) -> None:
    assert load(tmp_path, drill(), targets=["rados:rep3?engine=fio"]).cells


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"clients": 2}, "has clients"),
        ({"levels": [{"rate": 100}]}, "offers a rate"),
        ({"engine": "rbd-bench"}, "has no log of latencies"),
        ({"runtime": "50s"}, "make the runtime longer"),
    ],
)
def test_a_workload_that_cannot_have_the_drill_is_refused(
    tmp_path: Path, more: dict[str, Any], sentence: str
) -> None:
    work = {**WORK, "pattern": "randwrite", **more}
    assert sentence in faults(tmp_path, drill(), work)
