"""Clients where each has a volume of its own: so many of them as the level says, and no more."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from leadline.engines.fio.remote import RemoteFioEngine
from leadline.plan.loader import Overrides, PlanInvalid, load_plan
from leadline.plan.models import Plan
from leadline.runner.ports import RemoteVolume, RemoteVolumes, Shape
from leadline.runner.trial import make_job


def planned(folder: Path, workload: str) -> Plan:
    path = folder / "plan.yaml"
    path.write_text(
        "targets: [{target: 'storageclass:fast?count=3', name: fast}]\n"
        f"workloads: [{{name: w, pattern: randread, size: 1M, {workload}}}]\n"
    )
    return load_plan(path, Overrides())


def volumes(count: int) -> RemoteVolumes:
    shell = cast(Any, SimpleNamespace(name="pod"))
    each = (RemoteVolume(shell=shell, path=f"/dev/{number}") for number in range(count))
    return RemoteVolumes(shape=Shape.SPAN, volumes=tuple(each), folder="/tmp")


@pytest.mark.parametrize(("level", "used"), [("iodepth: 4", 3), ("clients: 2", 2)])
def test_a_level_uses_as_many_volumes_as_it_has_clients(
    tmp_path: Path, level: str, used: int
) -> None:
    workload = planned(tmp_path, f"levels: [{{{level}}}]").cells[0].workload
    job = make_job(RemoteFioEngine(), workload, volumes(3), seed=1, bound_s=9.0)
    assert isinstance(job.location, RemoteVolumes)
    assert [one.path for one in job.location.volumes] == [f"/dev/{n}" for n in range(used)]


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ("levels: [{clients: 4}]", "4 clients need a volume each, and the target has 3"),
        ("density: {rate: 500, limit: mean<5ms, most: 4}", "4 clients need a volume each"),
        ("levels: [{neighbours: 1}], neighbour: {pattern: read}", "cannot be neighbours yet"),
    ],
)
def test_more_clients_than_volumes_are_a_fault_of_the_plan(
    tmp_path: Path, workload: str, said: str
) -> None:
    with pytest.raises(PlanInvalid) as caught:
        planned(tmp_path, workload)
    assert said in str(caught.value)
