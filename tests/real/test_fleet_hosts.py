"""Fleets on hosts, which stand on this machine and are reached by a local shell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from leadline.archive import layout
from leadline.archive.raw import read_output
from leadline.archive.records import Clients, TrialStatus
from leadline.engines.fio.fleet import FleetEngine
from leadline.errors import LeadlineError
from leadline.plan.footprint import footprint_of
from leadline.plan.workload import Pattern, Phase, Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import Hosts, Job
from tests.local_shell import LocalShell

pytestmark = pytest.mark.real


@dataclass(frozen=True, slots=True, kw_only=True)
class NearHost:
    name: str
    path: str
    shell: LocalShell

    def serving(
        self, socket: Path, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[str, ...]:
        there = f'cd "{self.path}" && exec fio "$@"'
        return ("sh", "-c", there, "sh", *arguments, f"--server=sock:{socket}")


def host(root: Path, name: str, programs: Path | None = None) -> NearHost:
    path = root / name
    path.mkdir()
    return NearHost(
        name=name, path=str(path), shell=LocalShell(root / f"{name}-shell", programs=programs)
    )


WORK = Workload(
    name="work",
    phases=(
        Phase(
            name="mixed",
            pattern=Pattern.RANDRW,
            block_size=4096,
            iodepth=2,
            numjobs=2,
            size=1 << 20,
        ),
    ),
    runtime_s=1.0,
    clients=3,
)


@pytest.mark.slow
def test_each_client_lays_out_and_uses_files_on_its_own_host(tmp_path: Path) -> None:
    location = Hosts(hosts=(host(tmp_path, "one"), host(tmp_path, "two")))
    engine = FleetEngine()
    work = engine.resolve(WORK, location)
    footprint = footprint_of([work])
    jobs = (engine.prefill_text(footprint, location, True), engine.job_text(work, location, 1))
    for number, text in enumerate(jobs):
        folder = tmp_path / f"trial-{number}"
        folder.mkdir()
        job = Job(text=text, location=location, bound_s=60, clients=3)
        done = engine.execute(job, folder, StopRequest(), lambda progress: None)
        assert done.status is TrialStatus.COMPLETED, done.problem
        assert {path.name for path in (tmp_path / "one").iterdir()} == {
            *("leadline.0.dat", "leadline.1.dat"),
            *("leadline.c3.0.dat", "leadline.c3.1.dat"),
        }
        assert {path.name for path in (tmp_path / "two").iterdir()} == {
            *("leadline.c2.0.dat", "leadline.c2.1.dat"),
        }
    written = sum(
        operation.io_bytes or 0
        for job in read_output("fio", tmp_path / "trial-0").jobs
        for operation in job.operations
    )
    assert written == sum(footprint.files.values())
    clients = Clients.model_validate_json((tmp_path / "trial-1" / layout.CLIENTS).read_bytes())
    assert [(client.name, client.host) for client in clients.clients] == [
        ("c1", "one"),
        ("c2", "two"),
        ("c3", "one"),
    ]
    # The same clock: its offset is within what was said to be unknown of it.
    assert all(
        abs(client.clock_offset_s) <= client.clock_uncertainty_s + 1e-3
        for client in clients.clients
    )


def test_another_fio_on_one_of_the_hosts_is_refused_before_any_io(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "fio").write_text("#!/bin/sh\necho fio-3.1\n")
    (programs / "fio").chmod(0o755)
    location = Hosts(hosts=(host(tmp_path, "one"), host(tmp_path, "two", programs)))
    with pytest.raises(LeadlineError) as refused:
        FleetEngine().resolve(WORK, location)
    assert refused.value.kind.code == "client-versions-differ"
    assert any("two: fio-3.1" in line for line in refused.value.context)
    assert not any((tmp_path / "one").iterdir())
