"""Plans whose pods share a volume of a StorageClass: data, budget, and what `check` refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.engines.fio.job import Vary, job_text
from leadline.formats.fio.job_file import options_of, text_of
from leadline.plan.footprint import target_footprint
from leadline.plan.groups import target_demand
from leadline.plan.loader import Overrides, PlanInvalid, load_plan
from leadline.plan.models import Plan
from leadline.plan.volume_request import VolumeSharing
from leadline.runner.ports import RemoteVolume, RemoteVolumes, Shape
from tests.local_shell import LocalShell

MIB = 1 << 20
READ = "{name: w, pattern: randread, numjobs: 2, size: 8M}"


def planned(folder: Path, query: str, workload: str = READ, more: str = "") -> Plan:
    file = folder / "plan.yaml"
    file.write_text(
        "clusters: {k: {kubernetes: {image: 'r:1', cpu: 1}}}\n"
        f"targets: ['storageclass:fast?size=1Gi&{query}']\nworkloads: [{workload}]\n{more}"
    )
    return load_plan(file, Overrides())


@pytest.mark.parametrize(
    ("query", "files", "volumes"),
    [
        ("count=3&access=rwx", 2, 3),
        ("count=3&access=rwx&sharing=own-files", 6, 1),
        ("count=3&access=rwx&sharing=same-files", 2, 1),
        ("count=3&access=rox", 2, 2),
    ],
)
def test_data_and_budget(tmp_path: Path, query: str, files: int, volumes: int) -> None:
    plan = planned(tmp_path, query)
    name = plan.targets[0].name
    assert len(target_footprint(plan, name).files) == files
    demand = target_demand(plan, name)
    assert (demand.volumes, demand.cores) == (volumes, 3)
    assert demand.capacity_bytes == volumes << 30


@pytest.mark.parametrize(
    ("query", "workload", "more", "fact"),
    [
        ("access=rox", "{name: w, pattern: randrw}", "", "mounted read-only"),
        ("access=rox&sharing=own-files", READ, "", "have the same files"),
        ("access=rox", READ, "prefill: false", "needs its data"),
        ("sharing=same-files", READ, "", "with access=rwx or access=rox"),
        ("access=rwx&sharing=same-files&runner=vm", READ, "", "volume of its own"),
        ("access=rwx&sharing=own-files&count=all&spread=node", READ, "", "write a number"),
        (
            "access=rwx&sharing=own-files&count=2",
            "{name: w, pattern: write, engine: volume-lifecycle}",
            "",
            "a volume for each pod",
        ),
        (
            "access=rwx&sharing=own-files&count=2",
            "{name: w, pattern: randread, clients: 3}",
            "",
            "3 clients need a pod each",
        ),
    ],
)
def test_what_cannot_be_shared_is_refused(
    tmp_path: Path, query: str, workload: str, more: str, fact: str
) -> None:
    with pytest.raises(PlanInvalid) as caught:
        planned(tmp_path, query, workload, more)
    assert fact in "\n".join(fault.message for fault in caught.value.faults)


def test_pods_with_the_same_files_read_them_at_other_offsets(tmp_path: Path) -> None:
    workload = planned(tmp_path, "access=rox&count=2").cells[0].workload
    text = job_text(workload, Shape.FILES, 7, vary=Vary.OFFSETS)
    first, second = (options_of(text_of(number, text))["global"] for number in (1, 2))
    assert (first.pop("randseed"), second.pop("randseed")) == ("7", "8")
    assert first == second
    assert first["filename_format"] == "leadline.$jobnum.dat"


@pytest.mark.parametrize(
    ("sharing", "shape", "writers", "extents"),
    [
        (None, Shape.FILES, 3, 1),
        (VolumeSharing.SAME_FILES, Shape.FILES, 1, 1),
        (VolumeSharing.OWN_FILES, Shape.FILES, 3, 3),
        # One device is written whole by the first pod.
        (VolumeSharing.OWN_FILES, Shape.SPAN, 1, 3),
    ],
)
def test_who_writes_and_how_much_lies_on_a_volume(
    tmp_path: Path, sharing: VolumeSharing | None, shape: Shape, writers: int, extents: int
) -> None:
    volumes = tuple(
        RemoteVolume(shell=LocalShell(tmp_path / str(number)), path="/v") for number in range(3)
    )
    location = RemoteVolumes(shape=shape, volumes=volumes, folder="s", sharing=sharing)
    assert len(location.for_prefill.volumes) == writers
    assert location.extents(0) == extents
