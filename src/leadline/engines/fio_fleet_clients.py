"""The load generators of a fleet: who they are, their versions and clocks."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from leadline import errors
from leadline.archive.records import ClientRecord, Clients
from leadline.errors import LeadlineError
from leadline.runner.ports import Host, Hosts, Job, Location
from leadline.shell import insist

# The shortest of some round trips leaves least doubt about a clock.
_CLOCK_TRIES = 3
_ASK_S = 30.0
_ASK = "fio --version && getconf _NPROCESSORS_ONLN && date +%s%N"


def names_of(job: Job) -> tuple[str, ...]:
    """c1, c2, ... and behind them n1, ... for neighbours."""
    clients = max(1, job.clients)
    return (
        *(f"c{number}" for number in range(1, clients + 1)),
        *(f"n{number}" for number in range(1, job.neighbours + 1)),
    )


def clients_of(job: Job, here: str) -> Clients:
    """What is known of every client of a job; `here` is the version of fio on this machine.
    Raises LeadlineError where a host does not answer."""
    names = names_of(job)
    location = job.location
    if isinstance(location, Hosts):
        used = {number: location.of(number) for number in range(1, len(names) + 1)}
        known = {one.host: one for one in ask(tuple(used.values()))}
        told = (known[used[number].name] for number in range(1, len(names) + 1))
        clients = tuple(
            one.model_copy(update={"name": name}) for one, name in zip(told, names, strict=True)
        )
    else:
        cores = len(os.sched_getaffinity(0))
        clients = tuple(
            ClientRecord(
                name=name,
                host=os.uname().nodename,
                fio_version=here,
                cores=cores,
                clock_offset_s=0.0,
                clock_uncertainty_s=0.0,
            )
            for name in names
        )
    return Clients(clients=clients)


def ask(hosts: Sequence[Host]) -> tuple[ClientRecord, ...]:
    """Each host once, side by side. Raises LeadlineError: `fio-missing`, and as Shell.run."""
    once = tuple({host.name: host for host in hosts}.values())
    with ThreadPoolExecutor(max_workers=len(once)) as pool:
        return tuple(pool.map(_ask, once))


def _ask(host: Host) -> ClientRecord:
    best: ClientRecord | None = None
    for _ in range(_CLOCK_TRIES):
        before = time.time()
        said = insist(host.shell, _ASK, bound_s=_ASK_S)
        after = time.time()
        lines = said.text.splitlines()
        if said.status or len(lines) != 3:
            raise LeadlineError(
                errors.FIO_MISSING,
                f"fio does not answer on the host {host.name!r}: {said.complaint}",
                hint="install fio there: it is what generates the load",
            )
        found = ClientRecord(
            name="",
            host=host.name,
            fio_version=lines[0],
            cores=int(lines[1]),
            clock_offset_s=round(int(lines[2]) / 1e9 - (before + after) / 2, 6),
            clock_uncertainty_s=round((after - before) / 2, 6),
        )
        if best is None or found.clock_uncertainty_s < best.clock_uncertainty_s:
            best = found
    assert best is not None
    return best


def require_same_version(location: Location, here: str) -> None:
    """Raise LeadlineError(`client-versions-differ`) where a fleet would not be of one fio: their
    protocol and their figures change between versions."""
    if not isinstance(location, Hosts):
        return
    found = ask(location.hosts)
    if {one.fio_version for one in found} != {here}:
        raise LeadlineError(
            errors.CLIENT_VERSIONS_DIFFER,
            "the load generators do not have the same fio",
            context=[
                f"this machine: {here}",
                *(f"{one.host}: {one.fio_version}" for one in found),
            ],
            hint="install the same version of fio everywhere, or leave out the hosts that differ",
        )
