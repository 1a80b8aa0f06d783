"""One coordinator and many runner pods, on a real API server and kubelet.

The pods share one volume, so that starting them needs no volume each. Their fio offers one I/O each
second: two cores cannot do more for so many. What is measured is the coordinator.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kubernetes import classes, crds, csi_driver, up
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.driving import Leadline, ours

# 256 pods on two cores do not answer in time (docs/internals/kubernetes.md).
RUNNERS = int(os.environ.get("LEADLINE_RUNNERS", "64"))
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def large(whole: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    # Paths of sockets must be short.
    folder = tmp_path_factory.mktemp("many")
    with Cluster(up.programs(), folder, most_pods=RUNNERS + 20) as cluster:
        classes.apply(cluster)
        crds.apply(cluster)
        with csi_driver.running(cluster):
            yield cluster


def used(pid: int) -> tuple[float, int]:
    """Seconds of processor time, and the most bytes of memory, of a process so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2]
    return (int(words[11]) + int(words[12])) * _TICK_S, int(status.split()[0]) * 1024


@pytest.mark.deep
def test_one_coordinator_drives_them_with_less_than_one_core(
    large: Cluster, tmp_path: Path
) -> None:
    leadline = Leadline(cluster=large, folder=tmp_path / "run")
    leadline.folder.mkdir()
    target = (
        "many=storageclass:csi?size=64Mi&mode=filesystem&access=rwx&sharing=same-files"
        f"&count={RUNNERS}"
    )
    plan = leadline.plan(
        target,
        cluster={"cpu": "5m", "memory": "48Mi", "ready": "30m"},
        workload={"iodepth": 1, "engine": "psync", "levels": [{"rate": 1}]},
        defaults={"size": "8M", "runtime": "60s", "ramp": "0s"},
        grace="10m",
    )
    going = leadline.start("run", plan)
    marks = [("start", time.monotonic(), *used(going.child.pid))]

    def reached(name: str, there: Callable[[], object]) -> None:
        going.until(name, there, 2400)
        marks.append((name, time.monotonic(), *used(going.child.pid)))

    reached("the pods", lambda: "prefill many: 8 MiB" in going.err)
    reached("the prefill", lambda: "[1/1]" in going.err)
    reached("the trial", lambda: list(leadline.runs.glob("*/trials/*/trial.json")))
    ended = going.ended(900).answered()
    for (_, began, before, _), (name, at, after, memory) in itertools.pairwise(marks):
        wall_s, cpu_s = at - began, after - before
        share = f"{cpu_s / wall_s:.2f} cores, {memory >> 20} MiB"
        print(f"until {name}: {wall_s:.0f} s, {cpu_s:.1f} s of processor time, {share}")  # noqa: T201
        assert cpu_s <= wall_s
    print(f"all: {ended.wall_s:.0f} s")  # noqa: T201
    (trial,) = leadline.trials()
    assert trial["status"] == "completed"
    (folder,) = (leadline.run / "trials").iterdir()
    outputs = sorted(folder.glob("volume-*.fio.json"))
    assert len(outputs) == RUNNERS
    assert all(json.loads(path.read_text())["jobs"][0]["read"]["total_ios"] for path in outputs)
    assert ours(large) == []
