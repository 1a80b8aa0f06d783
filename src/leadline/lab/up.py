"""Bringing a lab up: what costs time goes side by side, and nothing is begun before the state file
says that it may be there.

The order is that of a cluster made by hand: monitor, OSDs' stores (which need no monitor), manager,
OSDs, pools, MDS, mount. Waiting for the manager takes longest, so it starts as early as it can.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

from leadline import errors
from leadline.connect.ceph import Connection
from leadline.errors import LeadlineError
from leadline.lab import conf as keys
from leadline.lab import daemons, network, pools, processes
from leadline.lab import pools as cephfs
from leadline.lab import processes as cpu_groups
from leadline.lab.conf import MDS, MGR, MON, Addresses, Paths, Place, places, render, sites
from leadline.lab.daemons import Daemons, ask, failed
from leadline.lab.down import mark_memory, take_down
from leadline.lab.network import NetworkUnavailable, RoundTrip, ZoneNetwork
from leadline.lab.state import (
    LabState,
    Phase,
    ProcessRecord,
    RoundTripRecord,
    Step,
    access_of,
    paths_of,
    write_state,
)
from leadline.plan.lab import LabDescription, Store

# The delay between zones: set, then measured, since only what was measured is known.

PINGS = 50
_INTERVAL_S = 0.005


def measure_round_trips(network: ZoneNetwork, count: int = PINGS) -> tuple[RoundTripRecord, ...]:
    """Between all pairs of zones, at the same time. Raises LeadlineError(`lab-failed`)."""
    pairs = list(combinations([zone.name for zone in network.zones], 2))
    if not pairs:
        return ()
    try:
        with ThreadPoolExecutor(max_workers=len(pairs)) as pool:
            measured = list(pool.map(lambda pair: _ping(network, pair[0], pair[1], count), pairs))
    except (NetworkUnavailable, ValueError) as error:
        raise LeadlineError(
            errors.LAB_FAILED,
            f"the round trips between the zones cannot be measured: {error}",
            context=[str(network.folder)],
        ) from error
    return tuple(_record(item) for item in measured)


def set_rtt(network: ZoneNetwork, rtt_s: float) -> None:
    """Between all zones. Raises LeadlineError(`lab-failed`)."""
    try:
        network.set_rtt_between_all(rtt_s)
    except (NetworkUnavailable, ValueError, OSError) as error:
        raise LeadlineError(
            errors.LAB_FAILED,
            f"the delay between the zones cannot be set: {error}",
            context=[str(network.folder)],
        ) from error


def require_obeyed(round_trips: tuple[RoundTripRecord, ...], rtt_s: float) -> None:
    """A delay is a lower bound of every round trip: raise LeadlineError(`lab-failed`) where the
    quickest beats it. (ping rounds to three digits.)"""
    for round_trip in round_trips:
        if round_trip.min_s < 0.99 * rtt_s:
            raise LeadlineError(
                errors.LAB_FAILED,
                f"the delay is not in force: {round_trip.source} to {round_trip.destination} took "
                f"{round_trip.min_s * 1e3:.3g} ms, less than the {rtt_s * 1e3:.3g} ms set",
            )


def _ping(network: ZoneNetwork, source: str, destination: str, count: int) -> RoundTrip:
    return network.measure_rtt(source, destination, count=count, interval_s=_INTERVAL_S)


def _record(one: RoundTrip) -> RoundTripRecord:
    return RoundTripRecord(
        source=one.source,
        destination=one.destination,
        sent=one.sent,
        received=one.received,
        min_s=one.min_s,
        median_s=one.median_s,
        max_s=one.max_s,
        raw=one.raw,
    )


_MON_PORT = 3300
_LOOPBACK = "127.0.0.1"
_BOUND_S = 120.0
_BOUND_PER_OSD_S = 10.0
_ANSWER_S = 30.0
_POLL_S = 0.1
# Making a store waits for the disk as much as for the processor.
_STORES_AT_ONCE = 4
# The manager loads every module that it finds, used or not; these are what a small cluster needs.
_MODULES = (
    "mgr_module.py",
    "mgr_util.py",
    "balancer",
    "crash",
    "devicehealth",
    "orchestrator",
    "pg_autoscaler",
    "progress",
    "rbd_support",
    "status",
    "telemetry",
    "volumes",
)


def raise_lab(
    name: str,
    description: LabDescription,
    folder: Path,
    observe: Callable[[str], None],
    *,
    keep: bool,
) -> LabState:
    """Bring a lab up in `folder`, which is made. On every way out but success nothing stays, unless
    `keep` asks for what failed to be left as it is.

    Raises LeadlineError: `lab-exists`, `lab-not-ready`, `lab-failed`."""
    daemons.require(description, folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(mode=0o700)
    except FileExistsError as error:
        raise LeadlineError(
            errors.LAB_EXISTS,
            f"there is a lab {name!r} already, or something else at its place",
            context=[str(folder)],
            hint=f"`leadline lab status {name}`; `leadline lab down {name}` removes it",
        ) from error
    except OSError as error:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"the folder of the lab cannot be made: {error.strerror}",
            context=[str(folder)],
            hint="name another place with --labs",
        ) from error
    token = secrets.token_hex(8)
    try:
        return _Raising(name, token, description, folder, observe).all()
    except LeadlineError as error:
        left: tuple[str, ...] = ()
        hint = f"`leadline lab down {name}` removes what there is of it"
        if not keep:
            hint = error.hint or "its logs went with it; add --keep to look at them"
            left = _removed(folder, token)
        raise LeadlineError(
            error.kind, error.fact, context=[*error.context, *left], hint=hint
        ) from error
    except BaseException:
        _removed(folder, token)
        raise


def _removed(folder: Path, token: str) -> tuple[str, ...]:
    """Take the half-built lab down; what that fails with must not hide why it was done."""
    try:
        take_down(folder, token)
    except LeadlineError as error:
        return (error.fact, *error.context)
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Net:
    """Where daemons are: `prefix` of a command by site, and addresses."""

    prefixes: dict[str, tuple[str, ...]]
    addresses: Addresses


class _Raising:
    """One lab on its way up."""

    def __init__(
        self,
        name: str,
        token: str,
        description: LabDescription,
        folder: Path,
        observe: Callable[[str], None],
    ) -> None:
        self.began = time.monotonic()
        self.description = description
        self.folder = folder
        self.paths: Paths = paths_of(folder, token)
        self.observe = observe
        self.places: tuple[Place, ...] = places(description)
        self.sites = sites(description)
        self.environment = processes.environment(folder, token)
        own = processes.start_ticks(os.getpid()) or 0
        self.state = LabState(
            name=name,
            token=token,
            phase=Phase.COMING_UP,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            owner=ProcessRecord(name="leadline", pid=os.getpid(), start_ticks=own),
            description=description,
        )
        self.daemons = Daemons(
            paths=self.paths,
            environment=self.environment,
            deadline=self.began + _BOUND_S + _BOUND_PER_OSD_S * description.osds,
        )

    def all(self) -> LabState:
        """Every step; returns the state as written."""
        write_state(self.folder, self.state)
        try:
            for path in self.paths.folders:
                path.mkdir(mode=0o700)
            if self.description.store is Store.BLUESTORE_IN_MEMORY:
                mark_memory(self.paths.memory, self.folder)
            net = self._network()
            self._configuration(net)
        except OSError as error:
            raise failed(f"the lab's files cannot be written: {error}") from error
        stores = self._stores(net)
        self.observe("monitor")
        self._monitor(net)
        with self._connected() as cluster:
            self._osd_numbers(cluster)
            self._start(MGR, "ceph-mgr", self.sites[0], net)
            if self.description.filesystem:
                self._start(MDS, "ceph-mds", self.sites[0], net)
            self.observe("stores of the OSDs")
            self._osds(stores, net)
            self.observe("OSDs")
            self._until_up(cluster)
            # Not before: placement groups that had been served by fewer OSDs would wait until the
            # leases of that time are over, ten seconds and more.
            self._commands(cluster, pools.pool_commands(self.description))
            self._step("pools")
            self._mount(cluster, net)
            self._until_healthy(cluster)
        self._measure()
        self._bound()
        self._save(phase=Phase.UP, processes=self.daemons.records())
        return self.state

    def _save(self, **changes: object) -> None:
        self.state = self.state.model_copy(update=changes)
        write_state(self.folder, self.state)

    def _step(self, name: str) -> None:
        """A step is done; written with the next change of the state."""
        step = Step(name=name, done_s=round(time.monotonic() - self.began, 3))
        self.state = self.state.model_copy(update={"steps": (*self.state.steps, step)})

    def _network(self) -> _Net:
        """Zones of their own, or the loopback device where they cannot be had."""
        self.observe("network of the zones")
        try:
            zones = network.start(self.paths.network, self.sites, self.environment)
        except NetworkUnavailable as unavailable:
            self._save(network_note=unavailable.reason)
            self._step("network")
            return _Net(
                prefixes=dict.fromkeys(self.sites, ()),
                addresses=Addresses(
                    mon=_LOOPBACK,
                    mon_port=_free_port(),
                    sites=dict.fromkeys(self.sites, _LOOPBACK),
                ),
            )
        self._save(network=zones)
        self._step("network")
        return _Net(
            prefixes={name: zones.prefix(name) for name in self.sites},
            addresses=Addresses(
                mon=zones.zone(self.sites[0]).address,
                mon_port=_MON_PORT,
                sites={name: zones.zone(name).address for name in self.sites},
            ),
        )

    def _configuration(self, net: _Net) -> None:
        self.fsid = str(uuid.uuid4())
        text = render(
            fsid=self.fsid,
            description=self.description,
            paths=self.paths,
            addresses=net.addresses,
            places=self.places,
        )
        self.paths.conf.write_text(text)
        for module in _MODULES:
            (self.paths.modules / module).symlink_to(daemons.MODULES / module)
        for name in (MON, MGR, MDS, *(f"osd.{place.osd}" for place in self.places)):
            self.paths.of(name).mkdir(mode=0o700)
        self.osd_uuids = {place.osd: str(uuid.uuid4()) for place in self.places}
        for place in self.places:
            # Else files on a virtual disk would be told apart by what the kernel guesses of it.
            (self.paths.of(f"osd.{place.osd}") / "crush_device_class").write_text("ssd\n")
        if self.description.authentication:
            allowed = keys.capabilities(self.description.osds)
            made = {name: keys.new_key() for name in allowed}
            for name, key in made.items():
                self._secret(name, keys.render_keyring({name: key}, allowed))
            self._secret("all", keys.render_keyring(made, allowed))

    def _secret(self, name: str, text: str) -> None:
        handle = os.open(self.paths.keyring(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as stream:
            stream.write(text)

    def _stores(self, net: _Net) -> dict[str, Sequence[str]]:
        """The monitor's store is made; returns the commands that make those of OSDs."""
        conf, monmap = str(self.paths.conf), str(self.paths.monmap)
        name = MON.partition(".")[2]
        host = net.addresses.mon_host
        create = ["monmaptool", "--create", "--fsid", self.fsid, "--addv", name, host, monmap]
        self.daemons.finish({"monmaptool": create}, at_once=1)
        make = ["ceph-mon", "-c", conf, "--mkfs", "-i", name, "--monmap", monmap]
        if self.description.authentication:
            make += ["--keyring", str(self.paths.keyring("all"))]
        self.daemons.finish({f"{MON}-mkfs": make}, at_once=1)
        self._step("monitor's store")
        return {
            f"osd.{place.osd}-mkfs": [
                *("ceph-osd", "-c", conf, "-i", str(place.osd), "--mkfs", "--no-mon-config"),
                *("--osd-uuid", self.osd_uuids[place.osd], "--monmap", monmap),
            ]
            for place in self.places
        }

    def _start(self, name: str, program: str, site: str, net: _Net) -> None:
        number = name.partition(".")[2]
        prefix = net.prefixes[site]
        command = [*prefix, program, "-c", str(self.paths.conf), "-i", number, "-f"]
        self.daemons.start(name, command)

    def _monitor(self, net: _Net) -> None:
        self._start(MON, "ceph-mon", self.sites[0], net)

        def leads() -> bool:
            answer = ask(self.paths.socket(MON), "mon_status")
            return isinstance(answer, dict) and answer.get("state") == "leader"

        self.daemons.until(leads, "the monitor")
        self._step("monitor")

    def _connected(self) -> Connection:
        return Connection(access_of(self.folder, self.state), timeout_s=_ANSWER_S)

    def _osd_numbers(self, cluster: Connection) -> None:
        """The monitor learns which OSDs there will be, and where they stand in the tree."""
        # Else it makes a pool of its own. Not known before the manager is, hence by force.
        monitoring = "mgr/devicehealth/enable_monitoring"
        cluster.mon("config set", who="mgr", name=monitoring, value="false", force=True)
        for place in self.places:
            cluster.mon("osd new", uuid=self.osd_uuids[place.osd], id=place.osd)
        weight = self.description.osd_size_bytes / (1 << 40)
        self._commands(cluster, pools.tree_commands(self.places, weight))
        self._step("tree")

    def _commands(self, cluster: Connection, commands: Iterable[pools.Command]) -> None:
        for command in commands:
            self.daemons.check()
            cluster.mon(command.prefix, **command.arguments)

    def _osds(self, stores: dict[str, Sequence[str]], net: _Net) -> None:
        self.daemons.finish(stores, at_once=_STORES_AT_ONCE)
        self._step("stores")
        for place in self.places:
            self._start(f"osd.{place.osd}", "ceph-osd", place.site, net)
        self._step("osds started")

    def _until_up(self, cluster: Connection) -> None:
        self._until(
            cluster,
            "OSDs",
            lambda status: status["osdmap"]["num_up_osds"] >= self.description.osds,
            lambda status: f"{status['osdmap']['num_up_osds']} of {self.description.osds} OSDs up",
        )
        self._step("osds up")

    def _until_healthy(self, cluster: Connection) -> None:
        expected = pools.placement_groups_of_all(self.description)

        def clean(status: Any) -> int:
            return sum(
                item["count"]
                for item in status["pgmap"].get("pgs_by_state", ())
                if item["state_name"] == "active+clean"
            )

        def told(status: Any) -> str:
            health = status["health"]
            checks = ", ".join(health["checks"]) or health["status"]
            return f"{clean(status)} of {expected} placement groups active+clean; {checks}"

        self._until(
            cluster,
            "placement groups",
            lambda status: (
                clean(status) == expected
                and status["pgmap"]["num_pgs"] == expected
                and status["health"]["status"] == "HEALTH_OK"
            ),
            told,
        )
        self._step("healthy")

    def _until(
        self,
        cluster: Connection,
        what: str,
        holds: Callable[[Any], bool],
        told: Callable[[Any], str],
    ) -> None:
        """Wait until the cluster's status is so, and tell how far it is."""
        before = ""
        while True:
            status = cluster.mon_json("status")
            if holds(status):
                return
            now = told(status)
            if now != before:
                self.observe(now)
                before = now
            self.daemons.pause(f"{what} ({now})")
            time.sleep(_POLL_S)

    def _mount(self, cluster: Connection, net: _Net) -> None:
        """The file system, once its MDS is active."""
        if not self.description.filesystem:
            return
        self._until(
            cluster,
            "the MDS",
            lambda status: any(
                item["status"].startswith("up:active") for item in status["fsmap"]["by_rank"]
            ),
            lambda status: "MDS",
        )
        self._step("mds")
        why = daemons.why_no_mount()
        if why is not None:
            self._save(cephfs_note=why)
            return
        self.observe("mount of CephFS")
        self.paths.cephfs.mkdir()
        prefix = net.prefixes[self.sites[0]]
        self.daemons.start(cephfs.NAME, [*prefix, *cephfs.mount_command(self.paths)])
        try:
            self.daemons.until(lambda: cephfs.is_mounted(self.paths.cephfs), "the mount of CephFS")
        except LeadlineError:
            self._without_mount()
            return
        try:
            cephfs.lay_out(self.paths, self.description)
        except OSError as error:
            raise failed(
                f"the directories of CephFS cannot be made: {error}", self.paths.log(cephfs.NAME)
            ) from error
        self._save(cephfs=self.paths.cephfs)
        self._step("mount")

    def _without_mount(self) -> None:
        """Where only ceph-fuse failed (FUSE forbidden, say) the lab is of use without it."""
        pid = self.daemons.running.pop(cephfs.NAME)
        self.daemons.check()
        if processes.start_ticks(pid) is not None:
            raise failed("CephFS could not be mounted in time", self.paths.log(cephfs.NAME))
        said = failed("", self.paths.said(cephfs.NAME)).context
        self._save(cephfs_note=f"ceph-fuse ended: {said[-1].strip() if said else 'no message'}")

    def _measure(self) -> None:
        if self.state.network is None:
            return
        self.observe("round trips between the zones")
        if self.description.inter_zone_rtt_s:
            set_rtt(self.state.network, self.description.inter_zone_rtt_s)
        round_trips = measure_round_trips(self.state.network)
        require_obeyed(round_trips, self.description.inter_zone_rtt_s)
        self._step("round trips")
        self._save(round_trips=round_trips)

    def _bound(self) -> None:
        """Last of all, since a cluster comes up slowly within bounds."""
        cores = self.description.cpu_per_host
        if cores is None:
            return
        self.observe("processor of the hosts")
        hosts = dict.fromkeys(place.host for place in self.places)
        self._save(cpu_groups=cpu_groups.folders(hosts, self.state.token))
        cpu_groups.make(self.state.cpu_groups, cores)
        for host, pids in self._osds_of_hosts().items():
            cpu_groups.put_in(self.state.cpu_groups[host], pids)
        self._step("processor bounded")

    def _osds_of_hosts(self) -> dict[str, list[int]]:
        """The pids of the OSDs of each host."""
        found: dict[str, list[int]] = {}
        for place in self.places:
            found.setdefault(place.host, []).append(self.daemons.running[f"osd.{place.osd}"])
        return found


def _free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
