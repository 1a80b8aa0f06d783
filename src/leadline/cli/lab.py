"""`leadline lab`: a real, ephemeral Ceph cluster on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from leadline import errors
from leadline.cli.options import FILE, format_option
from leadline.cli.output import echo_line, echo_rendered, print_json
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

_HEALTH_TIMEOUT_S = 5.0


# A lab as text.


def describe(lab: OneLabOutput) -> str:
    """Return a lab as lines of text."""
    lines = [f"lab {lab.name}: {lab.condition}"]
    lines += [f"  {key:<11}{text}" for key, text in (*_setup_rows(lab), *_state_rows(lab))]
    return "\n".join(map(visible, lines))


_DOMAINS = {
    Topology.MULTI_ZONE.value: "zones",
    Topology.SINGLE_ZONE.value: "racks of one zone",
    Topology.HOSTS.value: "hosts of one zone",
}


def _setup_rows(lab: OneLabOutput) -> Iterator[tuple[str, str]]:
    yield "folder", lab.folder
    if lab.topology is not None:
        where = _DOMAINS[lab.topology]
        yield "topology", f"{lab.topology}: {lab.osds} OSDs in {lab.domains} {where}"
    if lab.store is not None and lab.osd_size_bytes is not None:
        yield "store", f"{lab.store}, {format_size(lab.osd_size_bytes)} each"
    if lab.authentication is not None:
        who = "cephx" if lab.authentication else "no"
        how = "encrypted" if lab.encryption else "plain"
        yield "security", f"{who} authentication, {how} connections"
    if lab.zones:
        zones = ", ".join(f"{zone.name} {zone.address}" for zone in lab.zones)
        each = "a namespace each" if len(lab.zones) > 1 else "one namespace"
        yield "network", f"{each}: {zones}; clients in {lab.zones[0].name}"
    elif lab.network_note:
        yield "network", f"loopback, without zones or delay: {lab.network_note}"
    if lab.inter_zone_rtt_s:
        force = "" if lab.zones else ", not in force"
        yield "round trip", f"{format_latency(lab.inter_zone_rtt_s)} asked for{force}"
    for trip in lab.round_trips:
        least, median = format_latency(trip.min_s), format_latency(trip.median_s)
        pair = f"{trip.source} - {trip.destination}"
        yield "", f"{pair}: {least} at least, {median} median of {trip.received} pings"


def _state_rows(lab: OneLabOutput) -> Iterator[tuple[str, str]]:
    if lab.cpu_per_host is not None:
        force = "" if lab.cpu_groups else ", not in force"
        yield "processor", f"{lab.cpu_per_host:g} cores for the OSDs of each host{force}"
        for group in lab.cpu_groups:
            share = group.throttled_share
            held = "" if share is None else f", used up in {share:.0%} of its periods"
            yield "", f"{group.host}: {group.folder}{held}"
    if lab.pools:
        yield "pools", ", ".join(pool.name for pool in lab.pools)
    if lab.cephfs or lab.cephfs_note:
        yield "CephFS", lab.cephfs or f"not mounted: {lab.cephfs_note}"
    if lab.conf:
        yield "conf", lab.conf
    if lab.steps:
        yield "came up in", format_duration(lab.steps[-1].done_s)
    if lab.health:
        yield "health", lab.health
    if lab.processes:
        alive = [process for process in lab.processes if process.alive]
        memory = format_size(sum(process.memory_bytes for process in alive))
        yield "processes", f"{len(alive)}, {memory} of memory"
    for process in lab.processes:
        state = f"pid {process.pid}, {format_size(process.memory_bytes)}"
        yield "", f"{process.name} {state if process.alive else 'has died'}"


def _labs_folder(_context: click.Context, _option: click.Parameter, given: Path | None) -> Path:
    from leadline.lab.state import labs_folder

    return labs_folder(given)


labs_option = click.option(
    "--labs",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_labs_folder,
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
@click.argument("description", required=False, type=FILE, metavar="[FILE.yaml]")
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
    labs: Path,
    keep: bool,
    quiet: bool,
    output: str,
    **given: Any,
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
    from leadline.plan.lab import load_description

    wanted = load_description(description, LabOverrides(**given))
    with (
        stopping(f"what there was of the lab {name!r} is removed"),
        steps(f"lab {name}", quiet=quiet) as observe,
    ):
        lab = bring_up(name, wanted, labs, observe, keep=keep)
    if lab.network_note:
        where = "all is on the loopback device, without zones or delay"
        echo_line(f"note: {where}: {lab.network_note}", err=True)
    if lab.cephfs_note:
        echo_line(f"note: CephFS is not mounted: {lab.cephfs_note}", err=True)
    _print(_described(lab.folder), output)
    return Exit.ANSWERED


@command.command()
@click.argument("name")
@labs_option
@format_option("text", "json")
def status(name: str, labs: Path, output: str) -> Exit:
    """Say how a lab is: its processes, health, pools, and the delay measured between zones.

    Ends with exit status 1 if it is not up.

    \b
    Example:
        leadline lab status study
    """
    from leadline.lab.cluster import survey
    from leadline.lab.state import lab_folder, not_found

    folder = lab_folder(name, labs)
    if folder not in {lab.folder for lab in survey(labs)}:
        raise not_found(name, labs)
    answer = _described(folder, ask=True)
    _print(answer, output)
    return Exit.ANSWERED if answer.condition == "up" else Exit.NEGATIVE


@command.command("list")
@labs_option
@format_option("text", "json")
def list_labs(labs: Path, output: str) -> Exit:
    """List the labs, with what a killed `lab up` or `lab down` left.

    \b
    Example:
        leadline lab list
    """
    from leadline.lab.cluster import survey

    found = LabOutput(labs=[_described(lab.folder) for lab in survey(labs)])
    if output == "json":
        print_json(found)
        return Exit.ANSWERED
    if not found.labs:
        echo_line(f"no labs in {labs}", err=True)
    from leadline.report.render.rows import render_rows

    columns = ("lab", "condition", "topology", "OSDs", "store", "memory", "since")
    rows = [
        (
            lab.name,
            lab.condition,
            lab.topology,
            lab.osds,
            lab.store,
            format_size(sum(process.memory_bytes for process in lab.processes)),
            lab.created_at,
        )
        for lab in found.labs
    ]
    echo_rendered(render_rows(columns, rows, "text"))
    return Exit.ANSWERED


@command.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--all", "every", is_flag=True, help="All labs of the folder.")
@labs_option
def down(names: tuple[str, ...], every: bool, labs: Path) -> Exit:
    """Take labs down: processes, mounts, memory and files, whatever there is of them.

    \b
    Example:
        leadline lab down study
        leadline lab down --all
    """
    from leadline.lab.cluster import survey
    from leadline.lab.down import take_down
    from leadline.lab.state import lab_folder, not_found

    if every == bool(names):
        raise LeadlineError(
            errors.USAGE,
            "name the labs to take down, or --all, and not both",
            hint="`leadline lab list`",
        )
    folders = [lab.folder for lab in survey(labs)] if every else []
    folders += [lab_folder(name, labs) for name in names]
    for folder in folders:
        if not take_down(folder) and not every:
            raise not_found(folder.name, labs)
        echo_line(f"lab {folder.name}: down", err=True)
    return Exit.ANSWERED


@command.command(context_settings={"allow_interspersed_args": False})
@click.argument("name")
@labs_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def shell(name: str, labs: Path, words: tuple[str, ...]) -> None:
    """Run a command, or a shell, where the lab's clients are: ceph, rbd, rados and fio reach it.

    Ends with the command's own exit status.

    \b
    Example:
        leadline lab shell study
        leadline lab shell study -- rbd create rep3/image --size 1G
    """
    from leadline.lab.cluster import open_lab

    lab = open_lab(name, labs)
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


def _print(answer: OneLabOutput, output: str) -> None:
    if output == "json":
        print_json(LabOutput(labs=[answer]))
    else:
        echo_rendered(describe(answer))


_UNKNOWN = SimpleNamespace(
    **dict.fromkeys(
        ("created_at", "topology", "domains", "osds", "store", "osd_size_bytes", "authentication",
         "encryption", "inter_zone_rtt_s", "cpu_per_host")
    ),
    **dict.fromkeys(("network_note", "cephfs_note"), ""),
)  # fmt: skip


def _described(folder: Path, *, ask: bool = False) -> OneLabOutput:
    """Return a lab as it is now; `ask`: its cluster for its health."""
    from leadline.lab.cluster import Condition, probe_lab
    from leadline.lab.conf import CLIENT, CONF, client_location
    from leadline.lab.cpu_groups import throttled_share
    from leadline.lab.pools import metadata_pool

    lab = probe_lab(folder)
    state = lab.state
    description = state.description if state else None
    processes = [
        LabProcessOutput(
            name=process.name, pid=process.pid, alive=True, memory_bytes=process.rss_bytes
        )
        for process in sorted(lab.running, key=lambda process: (process.start_ticks, process.pid))
    ]
    processes += [
        LabProcessOutput(name=name, pid=None, alive=False, memory_bytes=0) for name in lab.dead
    ]
    known = lab.condition in (Condition.UP, Condition.BROKEN) and state is not None
    authenticated = description is not None and description.authentication
    return OneLabOutput.from_records(
        description,
        state,
        _UNKNOWN,
        name=lab.name,
        folder=str(folder),
        condition=lab.condition.value,
        cpu_groups=[
            LabCpuGroupOutput(host=host, folder=str(group), throttled_share=throttled_share(group))
            for host, group in (state.cpu_groups.items() if state else ())
        ],
        zones=[
            LabZoneOutput(name=zone.name, address=zone.address, namespace=str(zone.namespace))
            for zone in (state.network.zones if state and state.network else ())
        ],
        round_trips=[
            LabRoundTripOutput.from_records(trip) for trip in (state.round_trips if state else ())
        ],
        pools=[
            LabPoolOutput(name=pool.value, metadata_pool=metadata_pool(pool))
            for pool in (description.pools if description else ())
        ],
        cephfs=str(state.cephfs) if state and state.cephfs else None,
        conf=str(folder / CONF) if known else None,
        keyring=str(folder / "keyrings" / CLIENT) if known and authenticated else None,
        client_location=client_location(description) if description else None,
        health=_health(folder) if ask and known else None,
        processes=processes,
        steps=[LabStepOutput.from_records(step) for step in (state.steps if state else ())],
    )


def _health(folder: Path) -> str:
    """Return the cluster's health, or why it is unknown."""
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
