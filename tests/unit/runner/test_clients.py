"""Clients where each has a volume of its own: so many of them as the level says, and no more."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from leadline import errors
from leadline.engines.fio_remote import RemoteFioEngine
from leadline.errors import LeadlineError
from leadline.plan.loader import load_plan
from leadline.plan.models import Plan
from leadline.plan.overrides import Overrides
from leadline.runner.execute import inspect_targets
from leadline.runner.ports import RemoteVolume, RemoteVolumes, Shape, Target
from leadline.runner.trial import job_of


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
    job = job_of(RemoteFioEngine(), workload, volumes(3), seed=1, bound_s=9.0)
    assert isinstance(job.location, RemoteVolumes)
    assert [one.path for one in job.location.volumes] == [f"/dev/{n}" for n in range(used)]


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ("levels: [{clients: 4}]", "asks for 4 clients; the target has 3 volumes"),
        ("density: {rate: 500, limit: mean<5ms, most: 4}", "asks for 4 clients"),
        ("levels: [{neighbours: 1}], neighbour: {pattern: read}", "has neighbours"),
    ],
)
def test_more_clients_than_volumes_are_refused_before_anything_is_made(
    tmp_path: Path, workload: str, said: str
) -> None:
    plan = planned(tmp_path, workload)
    target = cast(Target, SimpleNamespace(name="fast", volume=lambda: None))
    with pytest.raises(LeadlineError) as caught:
        inspect_targets(plan, [target])
    assert caught.value.kind is errors.TARGET_UNSUITABLE
    assert said in caught.value.fact
