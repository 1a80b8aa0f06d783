"""Events of a drill in a lab: OSDs that are killed, links that are lost, and the way back.

An event is undone from the state file and the event alone, by any process, and as often as one
likes: after kill -9 of the process that began it, `leadline clean` does that.
"""

from __future__ import annotations

from pathlib import Path

from leadline import errors
from leadline.errors import LeadlineError
from leadline.lab import cpu_groups, processes
from leadline.lab.conf import Place, places, sites
from leadline.lab.daemons import daemon_command, failed
from leadline.lab.network import NetworkUnavailable, ZoneNetwork
from leadline.lab.state import LabState, ProcessRecord, paths_of, require_state, write_state
from leadline.plan.drill import DrillEvent
from leadline.plan.lab import LabDescription, Store, Topology
from leadline.text import did_you_mean

_OSD = "osd."


def require_event(name: str, description: LabDescription, event: DrillEvent) -> None:
    """Raise LeadlineError(`lab-invalid`) for an event that a lab of this description lacks."""
    if event.lose_link is not None:
        known = sites(description)
        for place in event.lose_link:
            if place not in known:
                raise _unknown(name, "zone with a network of its own", place, known)
        if event.lose_link[0] == event.lose_link[1]:
            raise _refused(name, "a link joins two zones, and the drill names one twice")
        return
    if description.store is Store.MEMSTORE and event.is_undone:
        raise _refused(name, "an OSD of a memstore loses its data when it is killed")
    if event.stop_zone is not None and event.stop_zone == sites(description)[0]:
        raise _refused(
            name, f"the zone {event.stop_zone!r} has the only monitor and the clients of the lab"
        )
    if not find_places(description, event):
        kind, wanted, known = _choices(description, event)
        raise _unknown(name, kind, wanted, known)


def _choices(description: LabDescription, event: DrillEvent) -> tuple[str, str, tuple[str, ...]]:
    found = places(description)
    if event.stop_osd is not None:
        return "OSD", str(event.stop_osd), tuple(str(place.osd) for place in found)
    if event.add_host is not None:
        hosts = tuple(dict.fromkeys(place.host for place in found))
        return "host", event.add_host.host, hosts
    if event.stop_host is not None:
        return "host", event.stop_host, tuple(dict.fromkeys(place.host for place in found))
    zones = sites(description)[1:] if description.topology is Topology.MULTI_ZONE else ()
    return "zone", str(event.stop_zone), zones


def find_places(description: LabDescription, event: DrillEvent) -> tuple[Place, ...]:
    """Return the places of the OSDs that an event stops or adds; a rack can be stopped as a
    host."""
    racks = description.topology is Topology.SINGLE_ZONE
    zones = description.topology is Topology.MULTI_ZONE
    return tuple(
        place
        for place in places(description)
        if place.osd == event.stop_osd
        or (event.add_host is not None and place.host == event.add_host.host)
        or (event.stop_host is not None and place.host == event.stop_host)
        or (event.stop_host is not None and racks and place.domain == event.stop_host)
        or (event.stop_zone is not None and zones and place.domain == event.stop_zone)
    )


def begin_event(folder: Path, event: DrillEvent) -> None:
    """Begin an event. Raises LeadlineError: `lab-not-found`, `lab-not-ready`, `lab-failed`."""
    state = require_state(folder.name, folder.parent)
    if event.lose_link is not None:
        network = _require_network(state)
        try:
            network.lose_link(*event.lose_link)
        except (NetworkUnavailable, OSError) as error:
            raise failed(f"the link cannot be lost: {error}") from error
        return
    wanted = {f"{_OSD}{place.osd}" for place in find_places(state.description, event)}
    running = processes.find(folder, state.token)
    left = processes.kill(process for process in running if process.name in wanted)
    if left:
        raise failed(f"{left[0].name} does not end")


def undo_event(folder: Path, event: DrillEvent) -> None:
    """Undo an event: start the OSDs that do not run, restore the delay of the link. Raises as
    `begin_event`."""
    state = require_state(folder.name, folder.parent)
    if event.lose_link is not None:
        network = _require_network(state)
        try:
            network.set_rtt(*event.lose_link, state.description.inter_zone_rtt_s)
        except (NetworkUnavailable, OSError) as error:
            raise failed(f"the link cannot be restored: {error}") from error
        return
    running = {process.name: process for process in processes.find(folder, state.token)}
    records = {record.name: record for record in state.processes}
    for place in find_places(state.description, event):
        name = f"{_OSD}{place.osd}"
        known = running.get(name)
        if known is not None:
            pid, ticks = known.pid, known.start_ticks
        else:
            pid, ticks = _start(folder, state, place, name)
        records[name] = ProcessRecord(name=name, pid=pid, start_ticks=ticks)
        group = state.cpu_groups.get(place.host)
        if group is not None:
            cpu_groups.assign(group, [pid])
    write_state(folder, state.model_copy(update={"processes": tuple(records.values())}))


def _start(folder: Path, state: LabState, place: Place, name: str) -> tuple[int, int]:
    paths = paths_of(folder, state.token)
    prefix = state.network.prefix(place.site) if state.network is not None else ()
    try:
        pid = processes.start(
            [*prefix, *daemon_command(name, paths.conf)],
            folder=folder,
            output=paths.output(name),
            environment=processes.environment(folder, state.token),
        )
    except OSError as error:
        raise failed(f"{name} cannot be started: {error.strerror}") from error
    ticks = processes.start_ticks(pid)
    if ticks is None:
        raise failed(f"{name} ended at once", paths.log(name), paths.output(name))
    return pid, ticks


def _require_network(state: LabState) -> ZoneNetwork:
    if state.network is None:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"the lab {state.name!r} has no network, so no link can be lost",
            context=[state.network_note],
        )
    return state.network


def _refused(name: str, fact: str) -> LeadlineError:
    return LeadlineError(
        errors.LAB_INVALID,
        f"the lab {name!r} cannot have this drill: {fact}",
        hint="choose another event",
    )


def _unknown(name: str, kind: str, wanted: str, known: tuple[str, ...]) -> LeadlineError:
    return LeadlineError(
        errors.LAB_INVALID,
        f"the lab {name!r} has no {kind} {wanted!r}",
        context=[f"it has {', '.join(known) or 'none'}"],
        hint=did_you_mean(wanted, known, "name another one in the drill"),
    )
