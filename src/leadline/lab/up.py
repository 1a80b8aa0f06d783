"""Creation of a lab: the steps from the network to a healthy cluster.

Slow steps run in parallel. The state file exists before anything else is started. The order is that
of a manual deployment: monitor, stores of the OSDs, manager, OSDs, pools, MDS, mount. The manager
needs the longest time, so it starts as early as possible.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

from leadline import errors
from leadline.connect.ceph import Connection
from leadline.errors import LeadlineError
from leadline.lab import cpu_groups, daemons, network, pools, processes
from leadline.lab.conf import (
    MDS,
    MGR,
    MON,
    Addresses,
    Paths,
    Place,
    capabilities,
    new_key,
    places,
    render,
    render_keyring,
    sites,
)
from leadline.lab.daemons import Daemons, ask, failed
from leadline.lab.down import mark_memory, take_down
from leadline.lab.network import NetworkUnavailable, RoundTrip, ZoneNetwork
from leadline.lab.state import (
    LabState,
    Phase,
    ProcessRecord,
    Step,
    access_of,
    paths_of,
    write_state,
)
from leadline.plan.lab import LabDescription, Store

PINGS = 50


def measure_round_trips(network: ZoneNetwork) -> tuple[RoundTrip, ...]:
    """Measure all pairs of zones in parallel. Raises LeadlineError(`lab-failed`)."""
    pairs = list(combinations([zone.name for zone in network.zones], 2))
    if not pairs:
        return ()
    try:
        with ThreadPoolExecutor(max_workers=len(pairs)) as pool:
            return tuple(pool.map(lambda pair: network.measure_rtt(pair[0], pair[1], PINGS), pairs))
    except (NetworkUnavailable, ValueError) as error:
        raise LeadlineError(
            errors.LAB_FAILED,
            f"the round trips between the zones cannot be measured: {error}",
            context=[str(network.folder)],
        ) from error


def set_rtt(network: ZoneNetwork, rtt_s: float) -> None:
    """Set the round-trip time between all zones. Raises LeadlineError(`lab-failed`)."""
    try:
        network.set_rtt_between_all(rtt_s)
    except (NetworkUnavailable, ValueError, OSError) as error:
        raise LeadlineError(
            errors.LAB_FAILED,
            f"the delay between the zones cannot be set: {error}",
            context=[str(network.folder)],
        ) from error


def require_delay(round_trips: tuple[RoundTrip, ...], rtt_s: float) -> None:
    """Raise LeadlineError(`lab-failed`) where a round trip is shorter than the delay. (ping rounds
    to three digits.)"""
    for round_trip in round_trips:
        if round_trip.min_s < 0.99 * rtt_s:
            raise LeadlineError(
                errors.LAB_FAILED,
                f"the delay is not in force: {round_trip.source} to {round_trip.destination} took "
                f"{round_trip.min_s * 1e3:.3g} ms, less than the {rtt_s * 1e3:.3g} ms set",
            )


_MON_PORT = 3300
_LOOPBACK = "127.0.0.1"
_BOUND_S = 120.0
_BOUND_PER_OSD_S = 10.0
_ANSWER_S = 30.0
_POLL_S = 0.1
# Creating a store waits for the disk as much as for the CPU.
_STORES_AT_ONCE = 4
# The manager loads every module that it finds; a small cluster needs these.
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
    """Create a lab in the new `folder`. After any failure everything is removed; with `keep`, a
    failed lab stays. Raises LeadlineError: `lab-exists`, `lab-not-ready`, `lab-failed`."""
    daemons.require(description, folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(mode=0o700)
    except FileExistsError as error:
        raise LeadlineError(
            errors.LAB_EXISTS,
            f"the lab {name!r}, or another folder of its name, exists already",
            context=[str(folder)],
            hint=f"`leadline lab status {name}`; `leadline lab down {name}` removes it",
        ) from error
    except OSError as error:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"the folder of the lab cannot be created: {error.strerror}",
            context=[str(folder)],
            hint="name another folder with --labs",
        ) from error
    token = secrets.token_hex(8)
    try:
        return _LabStart(name, token, description, folder, observe).run()
    except LeadlineError as error:
        left: tuple[str, ...] = ()
        hint = f"`leadline lab down {name}` removes its remains"
        if not keep:
            hint = error.hint or "its logs were removed with it; add --keep to keep them"
            left = _remove(folder, token)
        raise LeadlineError(
            error.kind, error.fact, context=[*error.context, *left], hint=hint
        ) from error
    except BaseException:
        _remove(folder, token)
        raise


def _remove(folder: Path, token: str) -> tuple[str, ...]:
    """Remove a partial lab; return the problems, so that they do not hide the first error."""
    try:
        take_down(folder, token)
    except LeadlineError as error:
        return (error.fact, *error.context)
    return ()


class _LabStart:
    """The start of one lab. `prefixes` are those of commands by site."""

    addresses: Addresses
    prefixes: dict[str, tuple[str, ...]]

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

    def run(self) -> LabState:
        """Run every step; return the state as written."""
        write_state(self.folder, self.state)
        try:
            for path in self.paths.folders:
                path.mkdir(mode=0o700)
            if self.description.store is Store.BLUESTORE_IN_MEMORY:
                mark_memory(self.paths.memory, self.folder)
            self._network()
            self._configuration()
        except OSError as error:
            raise failed(f"the lab's files cannot be written: {error}") from error
        stores = self._stores()
        self.observe("monitor")
        self._monitor()
        with Connection(access_of(self.folder, self.state), timeout_s=_ANSWER_S) as cluster:
            self._osd_numbers(cluster)
            self._start(MGR, self.sites[0])
            if self.description.filesystem:
                self._start(MDS, self.sites[0])
            self.observe("stores of the OSDs")
            self._osds(stores)
            self.observe("OSDs")
            self._until_up(cluster)
            # After all OSDs: placement groups on fewer OSDs would wait ten seconds and more for the
            # leases of that time to expire.
            self._commands(cluster, pools.pool_commands(self.description))
            self._step("pools")
            self._mount(cluster)
            self._until_healthy(cluster)
        self._measure()
        self._limit_cpu()
        self._save(phase=Phase.UP, processes=self.daemons.records())
        return self.state

    def _save(self, **changes: object) -> None:
        self.state = self.state.model_copy(update=changes)
        write_state(self.folder, self.state)

    def _step(self, name: str) -> None:
        """Record the end of a step; the next change of the state writes it."""
        step = Step(name=name, done_s=round(time.monotonic() - self.began, 3))
        self.state = self.state.model_copy(update={"steps": (*self.state.steps, step)})

    def _network(self) -> None:
        """Create the zones, or use the loopback device where they are unavailable."""
        self.observe("network of the zones")
        try:
            zones = network.start(self.paths.network, self.sites, self.environment)
        except NetworkUnavailable as unavailable:
            self._save(network_note=unavailable.reason)
            port, addresses = _free_port(), dict.fromkeys(self.sites, _LOOPBACK)
            self.prefixes = dict.fromkeys(self.sites, ())
        else:
            self._save(network=zones)
            port = _MON_PORT
            addresses = {name: zones.zone(name).address for name in self.sites}
            self.prefixes = {name: zones.prefix(name) for name in self.sites}
        self.addresses = Addresses(mon=addresses[self.sites[0]], mon_port=port, sites=addresses)
        self._step("network")

    def _configuration(self) -> None:
        self.fsid = str(uuid.uuid4())
        text = render(
            fsid=self.fsid,
            description=self.description,
            paths=self.paths,
            addresses=self.addresses,
            places=self.places,
        )
        self.paths.conf.write_text(text)
        for module in _MODULES:
            (self.paths.modules / module).symlink_to(daemons.MODULES / module)
        for name in (MON, MGR, MDS, *(f"osd.{place.osd}" for place in self.places)):
            self.paths.data(name).mkdir(mode=0o700)
        self.osd_uuids = {place.osd: str(uuid.uuid4()) for place in self.places}
        for place in self.places:
            # Otherwise the kernel's guess about a virtual disk would set the device class.
            (self.paths.data(f"osd.{place.osd}") / "crush_device_class").write_text("ssd\n")
        if self.description.authentication:
            allowed = capabilities(self.description.osds)
            made = {name: new_key() for name in allowed}
            for name, key in made.items():
                self._secret(name, render_keyring({name: key}, allowed))
            self._secret("all", render_keyring(made, allowed))

    def _secret(self, name: str, text: str) -> None:
        handle = os.open(self.paths.keyring(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as stream:
            stream.write(text)

    def _stores(self) -> dict[str, Sequence[str]]:
        """Create the monitor's store; return the commands that create the stores of the OSDs."""
        conf, monmap = str(self.paths.conf), str(self.paths.monmap)
        name = MON.partition(".")[2]
        host = self.addresses.mon_host
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

    def _start(self, name: str, site: str) -> None:
        command = daemons.daemon_command(name, self.paths.conf)
        self.daemons.start(name, [*self.prefixes[site], *command])

    def _monitor(self) -> None:
        self._start(MON, self.sites[0])

        def is_leader() -> bool:
            answer = ask(self.paths.socket(MON), "mon_status")
            return isinstance(answer, dict) and answer.get("state") == "leader"

        self.daemons.until(is_leader, "the monitor")
        self._step("monitor")

    def _osd_numbers(self, cluster: Connection) -> None:
        """Register the OSDs at the monitor, and their places in the CRUSH tree."""
        # Otherwise it creates a pool. The option is unknown before the manager starts: force.
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

    def _osds(self, stores: dict[str, Sequence[str]]) -> None:
        self.daemons.finish(stores, at_once=_STORES_AT_ONCE)
        self._step("stores")
        for place in self.places:
            self._start(f"osd.{place.osd}", place.site)
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
                state["count"]
                for state in status["pgmap"].get("pgs_by_state", ())
                if state["state_name"] == "active+clean"
            )

        def describe(status: Any) -> str:
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
            describe,
        )
        self._step("healthy")

    def _until(
        self,
        cluster: Connection,
        what: str,
        holds: Callable[[Any], bool],
        describe: Callable[[Any], str],
    ) -> None:
        before = ""
        while True:
            status = cluster.mon_json("status")
            if holds(status):
                return
            now = describe(status)
            if now != before:
                self.observe(now)
                before = now
            self.daemons.pause(f"{what} ({now})")
            time.sleep(_POLL_S)

    def _mount(self, cluster: Connection) -> None:
        """Mount the file system, once its MDS is active."""
        if not self.description.filesystem:
            return
        self._until(
            cluster,
            "the MDS",
            lambda status: any(
                rank["status"].startswith("up:active") for rank in status["fsmap"]["by_rank"]
            ),
            lambda status: "MDS",
        )
        self._step("mds")
        obstacle = daemons.find_mount_obstacle()
        if obstacle is not None:
            self._save(cephfs_note=obstacle)
            return
        self.observe("mount of CephFS")
        self.paths.cephfs.mkdir()
        prefix = self.prefixes[self.sites[0]]
        self.daemons.start(pools.MOUNT_NAME, [*prefix, *pools.mount_command(self.paths)])
        try:
            self.daemons.until(lambda: pools.is_mounted(self.paths.cephfs), "the mount of CephFS")
        except LeadlineError:
            self._without_mount()
            return
        try:
            pools.create_directories(self.paths, self.description)
        except OSError as error:
            raise failed(
                f"the directories of CephFS cannot be created: {error}",
                self.paths.log(pools.MOUNT_NAME),
            ) from error
        self._save(cephfs=self.paths.cephfs)
        self._step("mount")

    def _without_mount(self) -> None:
        """Continue without the mount where only ceph-fuse failed (for example, FUSE is
        forbidden)."""
        pid = self.daemons.running.pop(pools.MOUNT_NAME)
        self.daemons.check()
        if processes.start_ticks(pid) is not None:
            raise failed("CephFS could not be mounted in time", self.paths.log(pools.MOUNT_NAME))
        output = failed("", self.paths.output(pools.MOUNT_NAME)).context
        self._save(cephfs_note=f"ceph-fuse ended: {output[-1].strip() if output else 'no message'}")

    def _measure(self) -> None:
        if self.state.network is None:
            return
        self.observe("round trips between the zones")
        if self.description.inter_zone_rtt_s:
            set_rtt(self.state.network, self.description.inter_zone_rtt_s)
        round_trips = measure_round_trips(self.state.network)
        require_delay(round_trips, self.description.inter_zone_rtt_s)
        self._step("round trips")
        self._save(round_trips=round_trips)

    def _limit_cpu(self) -> None:
        """Limit the CPU of the hosts. Last, since a cluster starts slowly with limits."""
        cores = self.description.cpu_per_host
        if cores is None:
            return
        self.observe("CPU limits of the hosts")
        hosts = dict.fromkeys(place.host for place in self.places)
        self._save(cpu_groups=cpu_groups.folders(hosts, self.state.token))
        cpu_groups.make(self.state.cpu_groups, cores)
        for host in hosts:
            cpu_groups.assign(
                self.state.cpu_groups[host],
                [
                    self.daemons.running[f"osd.{place.osd}"]
                    for place in self.places
                    if place.host == host
                ],
            )
        self._step("processor bounded")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
