"""`leadline pools`: the pools of the study on any Ceph cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leadline import errors
from leadline.cli.options import FILE, format_option
from leadline.cli.output import echo_line
from leadline.cli.pools_kube import (
    PoolsCluster,
    create_kube,
    create_options,
    described,
    list_kube,
    pools_options,
    print_answer,
    remove_kube,
    tell_steps,
    warn,
    with_what,
)
from leadline.cli.pools_placement import command as placement
from leadline.cli.progress import steps, stopping
from leadline.connect.ceph import CephAccess
from leadline.errors import Exit, LeadlineError
from leadline.report.answers.systems import OnePoolOutput
from leadline.units import parse_duration

if TYPE_CHECKING:
    from leadline.connect.ceph import Connection
    from leadline.inventory.ceph.model import CephInventory
    from leadline.plan.models import Plan
    from leadline.pools.ceph import Image
    from leadline.pools.ceph_state import OwnedPool, PoolState

names_argument = click.argument("names", nargs=-1, metavar="[NAME...]")
plan_option = click.option(
    "--plan",
    "plan_file",
    type=FILE,
    metavar="PLAN.yaml",
    help="The pools that the plan's targets name; its cluster too, unless options name one.",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would be done.")
quiet_option = click.option("--quiet", is_flag=True, help="No progress.")


@click.group()
def command() -> None:
    """Create the pools of the published multi-zone study on a Ceph cluster, and remove them.

    Names say what a pool is: rep3 (three copies), ec-2-1 (erasure coding), cephfs-rep2, rep3-virt,
    rep3-enc (on encrypted OSDs). All get the same failure domain: the highest level of the cluster
    with three buckets, such as zone or rack. What is created carries Leadline's label. With --kube
    they are made by Rook in a Kubernetes cluster, with a StorageClass for each. `placement` shows
    the PGs of all pools on OSDs, and what a change moves.

    \b
    Example:
        leadline pools create --lab study --dry-run
        leadline pools create rep3 ec-2-1 --ceph-conf /etc/ceph/ceph.conf
        leadline pools list --lab study
        leadline pools remove --all --lab study
        leadline pools placement --lab study --add zone=1
    """


command.add_command(placement, "placement")


@command.command()
@names_argument
@plan_option
@click.option("--filesystem", metavar="NAME", help="The CephFS of cephfs-* pools, of several.")
@click.option(
    "--wait",
    default="3m",
    show_default=True,
    metavar="TIME",
    help="How long new placement groups may take to be active and clean.",
)
@dry_run_option
@create_options
@quiet_option
@format_option("text", "json")
def create(
    names: tuple[str, ...],
    plan_file: Path | None,
    filesystem: str | None,
    wait: str,
    dry_run: bool,
    quiet: bool,
    output: str,
    **cluster: Any,
) -> Exit:
    """Create pools; without names and plan the study's: rep3, rep3-virt, rep3-enc, rep2,
    cephfs-rep3, cephfs-rep2, ec-2-1.

    rep1, the ceiling without copies, needs --no-redundancy and Ceph's mon_allow_pool_size_one.
    What the cluster cannot have is skipped with the reason; for a pool that was named that ends
    with exit status 1. Pools that others made are used as they are. Ctrl-C, or a failure, undoes
    what the command made.

    \b
    Example:
        leadline pools create --lab study
        leadline pools create rep2 ec-2-1 cephfs-rep2 --ceph-conf /etc/ceph/ceph.conf
        leadline pools create --plan study.yaml --dry-run
        leadline pools create rep1 --no-redundancy --pg-num 64 --lab study
        leadline pools create rep3 rep3-virt ec-2-1 --kube
        leadline pools create rep3-luks --kube --kms vault --key-rotation @weekly
    """
    from leadline.connect.ceph import Connection
    from leadline.inventory.ceph.model import unfit
    from leadline.pools.ceph import create_pools, explain_denials
    from leadline.pools.ceph_state import read_state
    from leadline.pools.recipes import STUDY, decide, pool_name

    wait_s = _duration(wait)
    plan = _plan(plan_file)
    asked = [*names, *(_named_by(plan) if plan else ())]
    choice = PoolsCluster(**cluster)
    if choice.in_kubernetes:
        if filesystem is not None:
            raise LeadlineError(errors.USAGE, "--filesystem has no effect with --kube")
        if plan is not None and not asked:
            raise LeadlineError(errors.USAGE, "the plan's targets name no pool of the study")
        return create_kube(
            choice, asked, wait_s=wait_s, dry_run=dry_run, quiet=quiet, output=output
        )
    wanted = [pool_name(name) for name in (asked if names or plan else STUDY)]
    options = choice.pool_options
    access, source = _access(choice, plan)
    with explain_denials(access), Connection(access) as connection:
        inventory = _inventory(connection)
        marks = read_state(connection).marks
        answer = decide(wanted, inventory, marks, filesystem=filesystem, options=options)
        if answer.recipes and not dry_run:
            hindrance = unfit(inventory)
            if hindrance is not None:
                raise hindrance.error()
            with stopping("what it had made is undone"), steps("pools", quiet=quiet) as note:
                create_pools(connection, answer.recipes, note=note, warn=warn, wait_s=wait_s)
        state = read_state(connection)
    made = "would make" if dry_run else "made"
    pools = [
        described(
            decision.name, made if decision.recipe else decision.act.value, decision.reason, state
        )
        for decision in answer.decisions
    ]
    if dry_run and output == "text" and not quiet:
        tell_steps(answer)
    print_answer("create", source, pools, answer.notes, dry_run=dry_run, output=output)
    unmet = [decision.name for decision in answer.decisions if decision.act.value == "skipped"]
    return Exit.NEGATIVE if any(name in asked for name in unmet) else Exit.ANSWERED


@command.command()
@names_argument
@plan_option
@click.option("--all", "every", is_flag=True, help="All pools that Leadline made there.")
@click.option(
    "--destroy-data",
    "destroy",
    multiple=True,
    metavar="POOL",
    help="Remove it although it holds what Leadline did not make. May be given several times.",
)
@dry_run_option
@pools_options
@quiet_option
@format_option("text", "json")
def remove(
    names: tuple[str, ...],
    plan_file: Path | None,
    every: bool,
    destroy: tuple[str, ...],
    dry_run: bool,
    quiet: bool,
    output: str,
    **cluster: Any,
) -> Exit:
    """Remove pools that Leadline made, with their CRUSH rules and erasure-code profiles.

    Pools of others are left alone. A pool that holds images or objects which Leadline did not make
    is refused, and then nothing is removed, unless --destroy-data names it.

    \b
    Example:
        leadline pools remove ec-2-1 --lab study
        leadline pools remove --all --ceph-conf /etc/ceph/ceph.conf --dry-run
        leadline pools remove --all --kube
    """
    from leadline.connect.ceph import Connection
    from leadline.pools.ceph import explain_denials, remove_images, remove_pools
    from leadline.pools.ceph_state import read_state
    from leadline.pools.recipes import PREFIX

    plan = _plan(plan_file)
    asked = list(dict.fromkeys([*names, *(_named_by(plan) if plan else ())]))
    if every == bool(names or plan):
        raise LeadlineError(
            errors.USAGE,
            "name the pools to remove, by name or with --plan, or --all, and not both",
            hint="`leadline pools list` shows those that Leadline made",
        )
    choice = PoolsCluster(**cluster)
    if choice.in_kubernetes:
        if destroy:
            raise LeadlineError(
                errors.USAGE,
                "--destroy-data has no effect with --kube: volumes are never removed",
                hint="remove their claims yourself",
            )
        return remove_kube(choice, asked, every=every, dry_run=dry_run, quiet=quiet, output=output)
    access, source = _access(choice, plan)
    with explain_denials(access), Connection(access) as connection:
        before = read_state(connection)
        ours = {pool.name: pool for pool in before.owned}
        stray = {mark.removeprefix(PREFIX): mark for mark in before.stray}
        going = [ours[name] for name in (ours if every else asked) if name in ours]
        kept = [] if every else [_left(name, before, dry_run) for name in asked if name not in ours]
        traces = list(stray.values()) if every else [stray[name] for name in asked if name in stray]
        images = _require_consent(access, before, going, destroy)
        if not dry_run and (going or traces):
            with stopping("what it had not removed yet stays"), steps("pools", quiet=quiet) as note:
                remove_images(access, images)
                remove_pools(connection, going, traces, note=note, warn=warn)
        after = read_state(connection)
    gone = "would remove" if dry_run else "removed"
    pools = [described(pool.name, gone, with_what(pool), after) for pool in going]
    notes = [
        f"{'would be removed' if dry_run else 'removed'}: image {image.spec}" for image in images
    ]
    notes += [f"{gone}: rule or profile {mark}, which no pool stands on" for mark in traces]
    print_answer("remove", source, [*pools, *kept], notes, dry_run=dry_run, output=output)
    return Exit.ANSWERED


@command.command("list")
@pools_options
@format_option("text", "json")
def list_pools(output: str, **cluster: Any) -> Exit:
    """List the pools that Leadline made, and others whose names say what they are.

    \b
    Example:
        leadline pools list --lab study
        leadline pools list --kube
    """
    from leadline.connect.ceph import Connection
    from leadline.pools.ceph import explain_denials
    from leadline.pools.ceph_state import read_state
    from leadline.pools.recipes import Act, is_pool_name

    choice = PoolsCluster(**cluster)
    if choice.in_kubernetes:
        return list_kube(choice, output=output)
    access, source = choice.ceph_access()
    with explain_denials(access), Connection(access) as connection:
        state = read_state(connection)
    ours = {pool.name: pool for pool in state.owned}
    listed = []
    for name in sorted(state.pools):
        if name in ours:
            reason = (
                "" if ours[name].finished else "unfinished: `leadline pools create` finishes it"
            )
            listed.append(described(name, Act.EXISTS.value, reason, state))
        elif is_pool_name(name):
            listed.append(described(name, Act.FOREIGN.value, "", state))
    print_answer("list", source, listed, (), dry_run=False, output=output)
    return Exit.ANSWERED


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise LeadlineError(errors.USAGE, f"--wait: {error}", hint="for instance 3m") from error


def _plan(path: Path | None) -> Plan | None:
    if path is None:
        return None
    from leadline.plan.loader import Overrides, load_plan

    return load_plan(path, Overrides())


def _named_by(plan: Plan) -> list[str]:
    """Pools that the plan's targets name and whose names say what they are; the others are reported
    of. A cephfs target names a pool where it is a folder of a lab's mount."""
    from leadline.plan.target_url import TargetKind
    from leadline.pools.recipes import is_pool_name

    found: dict[str, None] = {}
    for target in plan.targets:
        url = target.parsed
        if not url.kind.on_ceph or (url.kind is TargetKind.CEPHFS and url.location.startswith("/")):
            continue
        for name in filter(None, (url.pool, url.options.get("data_pool"))):
            if is_pool_name(name):
                found[name] = None
            else:
                echo_line(
                    f"note: the pool {name!r} of the target {target.name!r} is left alone: its "
                    "name does not say what it is",
                    err=True,
                )
    return list(found)


def _access(choice: PoolsCluster, plan: Plan | None) -> tuple[CephAccess, str]:
    """Return the way to the cluster that the options name, else the plan's; and its name."""
    if plan is None or not plan.clusters or choice.given("lab", "ceph_conf", "keyring", "ceph_id"):
        return choice.ceph_access()
    if len(plan.clusters) > 1:
        raise LeadlineError(
            errors.USAGE,
            f"the plan has {len(plan.clusters)} clusters",
            context=[f"clusters: {', '.join(cluster.name for cluster in plan.clusters)}"],
            hint="name the one to change with --lab or --ceph-conf",
        )
    (cluster,) = plan.clusters
    if cluster.lab is not None and not isinstance(cluster.lab, str):
        raise LeadlineError(
            errors.USAGE,
            f"the cluster {cluster.name!r} of the plan is a lab that only a run brings up",
            hint="a lab has the pools that its description names",
        )
    if cluster.ceph_conf is not None:
        keyring = Path(cluster.keyring) if cluster.keyring else None
        known = CephAccess(conf=Path(cluster.ceph_conf), name=cluster.id, keyring=keyring)
        return known, cluster.ceph_conf
    return replace(choice, lab=cluster.lab).ceph_access()


def _inventory(connection: Connection) -> CephInventory:
    from leadline.inventory.ceph.reading import cluster_inventory
    from leadline.probes.ceph import capture

    return cluster_inventory(capture(connection))


def _left(name: str, state: PoolState, dry_run: bool) -> OnePoolOutput:
    """A pool that was asked for and is not ours to remove."""
    from leadline.pools.recipes import PREFIX, Kind, is_pool_name, pool_name

    if name in state.pools:
        return described(name, "left", "it was not made by Leadline", state)
    if is_pool_name(name) and pool_name(name).kind is Kind.VIRTUAL:
        reason = f"it is no pool of its own but {pool_name(name).base}"
        return OnePoolOutput(name=name, outcome="none", reason=reason)
    if PREFIX + name in state.stray:
        gone = "would remove" if dry_run else "removed"
        return OnePoolOutput(name=name, outcome=gone, reason="only its rule or profile was there")
    if not is_pool_name(name):
        pool_name(name)  # raises, with the nearest name
    return OnePoolOutput(name=name, outcome="none", reason="there is no such pool")


def _require_consent(
    access: CephAccess, state: PoolState, going: Sequence[OwnedPool], destroy: Sequence[str]
) -> list[Image]:
    """The images of our own that go with the pools. Raises LeadlineError(`image-not-consented`)
    for pools that hold what is not ours, before anything is removed."""
    from leadline.pools.ceph import held_in
    from leadline.pools.recipes import RBD

    names = [pool.name for pool in going]
    astray = [name for name in destroy if name not in names]
    if astray:
        raise LeadlineError(
            errors.USAGE,
            f"--destroy-data names {astray[0]!r}, which is not among the pools to be removed",
            context=[f"to be removed: {', '.join(names) or 'none'}"],
        )
    if not going:
        return []
    erasure = {pool.name for pool in going if state.is_erasure(pool.name)}
    rbd_pools = [
        name
        for name, pool in state.pools.items()
        if RBD in pool.get("application_metadata", {}) and not state.is_erasure(name)
    ]
    held = held_in(access, names, rbd_pools, erasure=erasure)
    refused = {name: one.foreign for name, one in held.items() if one.foreign}
    refused = {name: contents for name, contents in refused.items() if name not in destroy}
    if refused:
        raise LeadlineError(
            errors.IMAGE_NOT_CONSENTED,
            f"{', '.join(refused)} {'holds' if len(refused) == 1 else 'hold'} what Leadline did "
            "not make; nothing was removed",
            context=[f"{name}: {', '.join(contents)} ..." for name, contents in refused.items()],
            hint="if it may be lost, say so: "
            + " ".join(f"--destroy-data {name}" for name in refused),
        )
    return list({image.spec: image for one in held.values() for image in one.own}.values())
