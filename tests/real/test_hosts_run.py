"""A run whose load is made on hosts that are reached by ssh, from the plan to the answer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.connect.ssh import CONFIG
from tests.awaiting import wait_for
from tests.real.ssh_hosts import SshHosts, short_folder

pytestmark = [pytest.mark.real, pytest.mark.slow]
PLAN = """\
targets: ["hosts:a,b:{path}"]
repeats: 1
grace: 60s
defaults: {{size: 2M, runtime: {runtime}, ramp: 0}}
workloads:
  - name: mixed
    pattern: randrw
    block_size: 4k
    iodepth: 2
    levels: [{{clients: 1}}, {{clients: 3}}]
"""


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[SshHosts]:
    folder = short_folder()
    made = SshHosts(folder)
    for name in ("a", "b"):
        made.start(name)
    monkeypatch.setenv(CONFIG, str(made.config))
    yield made
    made.close()
    shutil.rmtree(folder)


@pytest.fixture
def folder(tmp_path: Path, hosts: SshHosts) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path


def begun(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "leadline", *arguments],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"NO_COLOR": "1"},
    )


def planned(folder: Path, runtime: str) -> str:
    path = folder / "plan.yaml"
    path.write_text(PLAN.format(path=folder / "data", runtime=runtime))
    return str(path)


def at_work(data: Path) -> list[str]:
    """Processes that work in a folder below, by the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        try:
            folder = str(entry.readlink())
        except OSError:
            continue
        if folder.startswith(f"{data}/"):
            found.append(folder)
    return found


def test_each_client_is_on_its_host_and_nothing_is_left(folder: Path) -> None:
    process = begun(folder, "run", planned(folder, "2s"), "--quiet", "--format", "json")
    out, err = process.communicate(timeout=300)
    assert process.returncode in (0, 1), err
    run = Run(Path(json.loads(out)["path"]))
    by_level = {trial.record.level: trial for trial in run.trials}
    assert {item.record.status for item in by_level.values()} == {TrialStatus.COMPLETED}
    three = by_level["c3-qd2"]
    hosts = [(client.name, client.host) for client in three.clients]
    assert hosts == [("c1", "a"), ("c2", "b"), ("c3", "a")]
    assert len({client.fio_version for client in three.clients}) == 1
    assert all(client.clock_uncertainty_s > 0 for client in three.clients)
    machines = {getattr(resource, "machine", "") for resource in three.resources}
    assert machines == {"a", "b"}
    assert len(list(three.folder.glob("volume-*"))) == 0
    assert list((folder / "data").iterdir()) == []
    verified = begun(folder, "verify", str(run.path))
    assert (verified.communicate(timeout=120)[0].splitlines()[-1], verified.returncode) == ("ok", 0)
    scaled = begun(folder, "scale", str(run.path), "--format", "json")
    told = json.loads(scaled.communicate(timeout=120)[0])
    assert {curve["axis"] for curve in told["curves"]} == {"clients"}


def test_what_a_killed_run_left_on_hosts_is_removed_by_clean(folder: Path) -> None:
    process = begun(folder, "run", planned(folder, "60s"))
    data = folder / "data"

    def laid_out() -> bool:
        """All of the three clients' files; none is made any more while others are removed."""
        assert process.poll() is None, process.communicate()
        sizes = [path.stat().st_size for path in data.glob("leadline-*/leadline.*.dat")]
        return sizes == [2 << 20] * 3

    try:
        wait_for(laid_out, 120)
    finally:
        process.kill()
        process.communicate()
    wait_for(lambda: not at_work(data))
    assert list(data.iterdir()), "it was killed while its data was there"
    cleaned = begun(folder, "clean")
    out, err = cleaned.communicate(timeout=120)
    assert cleaned.returncode == 0, err
    assert list(data.iterdir()) == [], out
