"""`leadline lab`: a real, ephemeral Ceph cluster on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from leadline import errors
from leadline.cli.options import echo_line, echo_rendered, format_option
from leadline.cli.progress import steps, stopping
from leadline.errors import Exit, LeadlineError
from leadline.plan.lab import LabOverrides, Store, Topology
from leadline.report.answers.systems import (
    LabCpuGroupOutput,
    LabOutput,
    LabPoolOutput,
    LabProcessOutput,
    LabRoundTripOutput,
    LabStepOutput,
    LabZoneOutput,
    OneLabOutput,
)
from leadline.text import visible
from leadline.units import format_duration, format_latency, format_size

# A lab as text.


def describe(lab: OneLabOutput) -> str:
    """A lab for people."""
    rows = [("folder", lab.folder)]
    if lab.topology is not None:
        rows.append(("topology", f"{lab.topology}: {_spread(lab.topology, lab.osds, lab.domains)}"))
    if lab.store is not None and lab.osd_size_bytes is not None:
        rows.append(("store", f"{lab.store}, {format_size(lab.osd_size_bytes)} each"))
    if lab.authentication is not None:
        who = "cephx" if lab.authentication else "no"
        how = "encrypted" if lab.encryption else "plain"
        rows.append(("security", f"{who} authentication, {how} connections"))
    rows += _network_rows(lab)
    rows += _processor_rows(lab)
    if lab.pools:
        rows.append(("pools", ", ".join(pool.name for pool in lab.pools)))
    if lab.cephfs or lab.cephfs_note:
        rows.append(("CephFS", lab.cephfs or f"not mounted: {lab.cephfs_note}"))
    if lab.conf:
        rows.append(("conf", lab.conf))
    if lab.steps:
        rows.append(("came up in", format_duration(lab.steps[-1].done_s)))
    if lab.health:
        rows.append(("health", lab.health))
    rows += _process_rows(lab)
    lines = [f"lab {lab.name}: {lab.condition}"]
    lines += [f"  {key:<11}{text}" for key, text in rows]
    return "\n".join(map(visible, lines))


def _network_rows(lab: OneLabOutput) -> list[tuple[str, str]]:
    rows = []
    if lab.zones:
        zones = ", ".join(f"{zone.name} {zone.address}" for zone in lab.zones)
        each = "a namespace each" if len(lab.zones) > 1 else "one namespace"
        rows.append(("network", f"{each}: {zones}; clients in {lab.zones[0].name}"))
    elif lab.network_note:
        rows.append(("network", f"loopback, without zones or delay: {lab.network_note}"))
    asked = lab.inter_zone_rtt_s
    if asked:
        force = "" if lab.zones else ", not in force"
        rows.append(("round trip", f"{format_latency(asked)} asked for{force}"))
    for one in lab.round_trips:
        least, median = format_latency(one.min_s), format_latency(one.median_s)
        pair = f"{one.source} - {one.destination}"
        rows.append(("", f"{pair}: {least} at least, {median} median of {one.received} pings"))
    return rows


def _spread(topology: str, osds: int | None, domains: int | None) -> str:
    where = {
        Topology.MULTI_ZONE.value: "zones",
        Topology.SINGLE_ZONE.value: "racks of one zone",
        Topology.HOSTS.value: "hosts of one zone",
    }[topology]
    return f"{osds} OSDs in {domains} {where}"


def _processor_rows(lab: OneLabOutput) -> list[tuple[str, str]]:
    if lab.cpu_per_host is None:
        return []
    force = "" if lab.cpu_groups else ", not in force"
    rows = [("processor", f"{lab.cpu_per_host:g} cores for the OSDs of each host{force}")]
    for one in lab.cpu_groups:
        share = one.throttled_share
        held = "" if share is None else f", used up in {share:.0%} of its periods"
        rows.append(("", f"{one.host}: {one.folder}{held}"))
    return rows


def _process_rows(lab: OneLabOutput) -> list[tuple[str, str]]:
    if not lab.processes:
        return []
    alive = [one for one in lab.processes if one.alive]
    memory = format_size(sum(one.memory_bytes for one in alive))
    rows = [("processes", f"{len(alive)}, {memory} of memory")]
    rows += [
        ("", f"{one.name} pid {one.pid}, {format_size(one.memory_bytes)}")
        if one.alive
        else ("", f"{one.name} has died")
        for one in lab.processes
    ]
    return rows


_HEALTH_TIMEOUT_S = 5.0

labs_option = click.option(
    "--labs",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the labs; else $LEADLINE_LABS, else ~/.local/state/leadline/labs.",
)


@click.group()
def command() -> None:
    """Bring a real, ephemeral Ceph cluster up on this machine, with zones and delay.

    It has the pools rep3, rep2, ec-2-1, cephfs-rep3 and cephfs-rep2, in three zones with a delay
    between them, or in three racks or any number of hosts of one zone. All of it lies in one folder
    and goes with it.

    \b
    Example:
        leadline lab up study --inter-zone-rtt 1ms
        leadline lab status study
        leadline lab shell study -- ceph osd tree
        leadline lab down study
    """


@command.command()
@click.argument("name")
@click.argument(
    "description", required=False, type=click.Path(path_type=Path), metavar="[FILE.yaml]"
)
@click.option(
    "--topology", metavar="|".join(Topology), help="Three zones (the default), racks, or hosts."
)
@click.option(
    "--osds",
    type=int,
    metavar="N",
    help="OSDs in all: 3 (the default), 6, 9 ...; with hosts 3, 4, 5 ...",
)
@click.option("--store", metavar="|".join(Store), help="Where OSDs keep data.")
@click.option("--osd-size", metavar="SIZE", help="Of each OSD: 4G (the default).")
@click.option(
    "--inter-zone-rtt", metavar="TIME", help="Round trip between zones: 1ms (the default)."
)
@click.option(
    "--cpu-per-host", type=float, metavar="CORES", help="What each OSD host may use: 0.15, say."
)
@labs_option
@click.option("--keep", is_flag=True, help="Leave a lab that failed, to look at its logs.")
@click.option("--quiet", is_flag=True, help="No progress.")
@format_option("text", "json")
def up(
    name: str,
    description: Path | None,
    labs: Path | None,
    keep: bool,
    quiet: bool,
    output: str,
    **given: object,
) -> Exit:
    """Bring a lab up and wait until it is healthy.

    FILE.yaml describes it; options beat what is written there. Ctrl-C takes it down again.

    \b
    Example:
        leadline lab up study
        leadline lab up twelve --osds 12 --store bluestore-in-memory --osd-size 1G
        leadline lab up near --topology single-zone
        leadline lab up five --topology hosts --osds 5 --cpu-per-host 0.15
    """
    from leadline.lab.cluster import bring_up
    from leadline.lab.state import labs_folder
    from leadline.plan.lab import load_description

    overrides = LabOverrides(**given)  # type: ignore[arg-type]
    wanted = load_description(description, overrides)
    folder = labs_folder(labs)
    with (
        stopping(f"what there was of the lab {name!r} is removed"),
        steps(f"lab {name}", quiet=quiet) as observe,
    ):
        lab = bring_up(name, wanted, folder, observe, keep=keep)
    for note in _notes(lab.network_note, lab.cephfs_note):
        echo_line(f"note: {note}", err=True)
    _print(_described(lab.folder), output)
    return Exit.ANSWERED


@command.command()
@click.argument("name")
@labs_option
@format_option("text", "json")
def status(name: str, labs: Path | None, output: str) -> Exit:
    """Say how a lab is: its processes, health, pools, and the delay measured between zones.

    Ends with exit status 1 if it is not up.

    \b
    Example:
        leadline lab status study
    """
    from leadline.lab.cluster import survey
    from leadline.lab.state import lab_folder, labs_folder, not_found

    where = labs_folder(labs)
    folder = lab_folder(name, where)
    if folder not in {one.folder for one in survey(where)}:
        raise not_found(name, where)
    answer = _described(folder, ask=True)
    _print(answer, output)
    return Exit.ANSWERED if answer.condition == "up" else Exit.NEGATIVE


@command.command("list")
@labs_option
@format_option("text", "json")
def list_labs(labs: Path | None, output: str) -> Exit:
    """List the labs, with what a killed `lab up` or `lab down` left.

    \b
    Example:
        leadline lab list
    """
    from leadline.lab.cluster import survey
    from leadline.lab.state import labs_folder

    where = labs_folder(labs)
    found = LabOutput(labs=[_described(one.folder) for one in survey(where)])
    if output == "json":
        echo_rendered(found.to_json())
        return Exit.ANSWERED
    if not found.labs:
        echo_line(f"no labs in {where}", err=True)
    from leadline.report.render.rows import render_rows

    columns = ("lab", "condition", "topology", "OSDs", "store", "memory", "since")
    rows = [
        (
            one.name,
            one.condition,
            one.topology,
            one.osds,
            one.store,
            format_size(sum(process.memory_bytes for process in one.processes)),
            one.created_at,
        )
        for one in found.labs
    ]
    echo_rendered(render_rows(columns, rows, "text"))
    return Exit.ANSWERED


@command.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--all", "every", is_flag=True, help="All labs of the folder.")
@labs_option
def down(names: tuple[str, ...], every: bool, labs: Path | None) -> Exit:
    """Take labs down: processes, mounts, memory and files, whatever there is of them.

    \b
    Example:
        leadline lab down study
        leadline lab down --all
    """
    from leadline.lab.cluster import survey
    from leadline.lab.down import take_down
    from leadline.lab.state import lab_folder, labs_folder, not_found

    if every == bool(names):
        raise LeadlineError(
            errors.USAGE,
            "name the labs to take down, or --all, and not both",
            hint="`leadline lab list`",
        )
    where = labs_folder(labs)
    folders = [one.folder for one in survey(where)] if every else []
    folders += [lab_folder(name, where) for name in names]
    for folder in folders:
        if not take_down(folder) and not every:
            raise not_found(folder.name, where)
        echo_line(f"lab {folder.name}: down", err=True)
    return Exit.ANSWERED


@command.command(context_settings={"allow_interspersed_args": False})
@click.argument("name")
@labs_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def shell(name: str, labs: Path | None, words: tuple[str, ...]) -> None:
    """Run a command, or a shell, where the lab's clients are: ceph, rbd, rados and fio reach it.

    Ends with the command's own exit status.

    \b
    Example:
        leadline lab shell study
        leadline lab shell study -- rbd create rep3/image --size 1G
    """
    from leadline.lab.cluster import open_lab
    from leadline.lab.state import labs_folder

    lab = open_lab(name, labs_folder(labs))
    # click leaves the `--` in place, since what follows may begin with it.
    asked = list(words[1:] if words[:1] == ("--",) else words) or [
        os.environ.get("SHELL") or "/bin/sh"
    ]
    if not words:
        echo_line(f"lab {name}: CEPH_CONF is set; leave with `exit`", err=True)
    environment = {key: value for key, value in os.environ.items() if key != "CEPH_ARGS"}
    environment["CEPH_CONF"] = str(lab.access.conf)
    sys.stdout.flush()
    line = [*lab.access.prefix, *asked]
    try:
        os.execvpe(line[0], line, environment)
    except OSError as error:
        raise LeadlineError(
            errors.USAGE, f"{line[0]!r} cannot be started: {error.strerror}"
        ) from error


def _notes(network: str, cephfs: str) -> list[str]:
    notes = []
    if network:
        notes.append(f"all is on the loopback device, without zones or delay: {network}")
    if cephfs:
        notes.append(f"CephFS is not mounted: {cephfs}")
    return notes


def _print(answer: OneLabOutput, output: str) -> None:
    if output == "json":
        echo_rendered(LabOutput(labs=[answer]).to_json())
    else:
        echo_rendered(describe(answer))


def _described(folder: Path, *, ask: bool = False) -> OneLabOutput:
    """A lab as it is now; `ask` its cluster for its health."""
    from leadline.lab.cluster import Condition, probe_lab
    from leadline.lab.conf import CLIENT, CONF, client_location
    from leadline.lab.cpu_groups import throttled_share
    from leadline.lab.pools import metadata_pool

    seen = probe_lab(folder)
    state = seen.state
    wanted = state.description if state else None
    zones = state.network.zones if state and state.network else ()
    processes = [
        LabProcessOutput(name=one.name, pid=one.pid, alive=True, memory_bytes=one.rss_bytes)
        for one in sorted(seen.running, key=lambda one: (one.start_ticks, one.pid))
    ]
    processes += [
        LabProcessOutput(name=name, pid=None, alive=False, memory_bytes=0) for name in seen.dead
    ]
    known = seen.condition in (Condition.UP, Condition.BROKEN) and state is not None
    authenticated = wanted is not None and wanted.authentication
    return OneLabOutput(
        name=seen.name,
        folder=str(folder),
        condition=seen.condition.value,
        created_at=state.created_at if state else None,
        topology=wanted.topology.value if wanted else None,
        domains=wanted.domains if wanted else None,
        osds=wanted.osds if wanted else None,
        store=wanted.store.value if wanted else None,
        osd_size_bytes=wanted.osd_size_bytes if wanted else None,
        authentication=wanted.authentication if wanted else None,
        encryption=wanted.encryption if wanted else None,
        inter_zone_rtt_s=wanted.inter_zone_rtt_s if wanted else None,
        cpu_per_host=wanted.cpu_per_host if wanted else None,
        cpu_groups=[
            LabCpuGroupOutput(host=host, folder=str(group), throttled_share=throttled_share(group))
            for host, group in (state.cpu_groups.items() if state else ())
        ],
        zones=[
            LabZoneOutput(name=one.name, address=one.address, namespace=str(one.namespace))
            for one in zones
        ],
        network_note=state.network_note if state else "",
        round_trips=[
            LabRoundTripOutput(**one.model_dump(exclude={"raw"}))
            for one in (state.round_trips if state else ())
        ],
        pools=[
            LabPoolOutput(name=pool.value, metadata_pool=metadata_pool(pool))
            for pool in (wanted.pools if wanted else ())
        ],
        cephfs=str(state.cephfs) if state and state.cephfs else None,
        cephfs_note=state.cephfs_note if state else "",
        conf=str(folder / CONF) if known else None,
        keyring=str(folder / "keyrings" / CLIENT) if known and authenticated else None,
        client_location=client_location(wanted) if wanted else None,
        health=_health(folder) if ask and known else None,
        processes=processes,
        steps=[LabStepOutput(**one.model_dump()) for one in (state.steps if state else ())],
    )


def _health(folder: Path) -> str:
    """What the cluster says of itself, or why it says nothing."""
    from leadline.connect.ceph import Connection
    from leadline.lab.state import lab_access

    try:
        access = lab_access(folder.name, folder.parent)
        with Connection(access, timeout_s=_HEALTH_TIMEOUT_S) as cluster:
            health = cluster.mon_json("health", detail="detail")
    except LeadlineError as error:
        return error.fact
    checks = [f"{code}: {check['summary']['message']}" for code, check in health["checks"].items()]
    return "; ".join([health["status"], *checks])
