"""`leadline pools create|remove|list --kube`: the same pools through Rook's resources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import click

from leadline import errors
from leadline.cli.options import CLUSTER_OPTIONS, KUBERNETES_OPTIONS, ClusterOptions, with_options
from leadline.cli.output import echo_line, echo_rendered, print_json
from leadline.cli.progress import steps, stopping
from leadline.errors import Exit, LeadlineError
from leadline.report.answers.systems import OnePoolOutput, PoolsOutput

if TYPE_CHECKING:
    from leadline.connect.kubernetes.client import Connection
    from leadline.inventory.kubernetes.models import CephCluster
    from leadline.pools.ceph_state import OwnedPool, PoolState
    from leadline.pools.options import PoolOptions
    from leadline.pools.recipes import Answer
    from leadline.pools.rook_resources import Manifest, RookState


# What `leadline pools` says: pools as they are, progress, and what stopped it.


def described(name: str, outcome: str, reason: str, state: PoolState) -> OnePoolOutput:
    pool = state.pools.get(name)
    if pool is None:
        return OnePoolOutput(name=name, outcome=outcome, reason=reason)
    place = state.place_of(name)
    held_by = (fs for fs, names in state.filesystems.items() if name in names)
    return OnePoolOutput(
        name=name,
        outcome=outcome,
        reason=reason,
        type="erasure" if state.is_erasure(name) else "replicated",
        size=pool["size"],
        min_size=pool["min_size"],
        pg_num=pool["pg_num"],
        rule=state.rule_of(name),
        failure_domain=place.failure_domain if place else None,
        device_class=place.device_class if place else None,
        applications=list(pool.get("application_metadata", {})),
        filesystem=next(held_by, None),
        made_by_leadline=name in {owned.name for owned in state.owned},
    )


def with_what(pool: OwnedPool) -> str:
    marks = [f"rule {pool.rule}"] if pool.rule else []
    marks += [f"profile {pool.profile}"] if pool.profile else []
    fs = f"; a data pool of {pool.filesystem}" if pool.filesystem else ""
    return f"with its {' and its '.join(marks)}{fs}" if marks else f"the pool alone{fs}"


def tell_steps(answer: Answer) -> None:
    """The commands that monitors would be given."""
    from leadline.pools.ceph_state import steps

    for recipe in answer.recipes:
        for step in steps(recipe, "TOKEN"):
            echo_line(f"would do: {step}", err=True)


def print_answer(
    action: Literal["create", "remove", "list"],
    source: str,
    pools: list[OnePoolOutput],
    notes: Sequence[str],
    *,
    dry_run: bool,
    output: str,
) -> None:
    if output == "json":
        print_json(
            PoolsOutput(
                action=action, cluster=source, dry_run=dry_run, pools=pools, notes=list(notes)
            )
        )
        return
    for note in notes:
        echo_line(f"note: {note}", err=True)
    if not pools:
        echo_line("there are no such pools", err=True)
        return
    from leadline.report.render.rows import render_rows

    columns = ["pool", "outcome", "PGs", "failure domain", "application", "why"]
    rows = [
        (
            pool.name,
            pool.outcome,
            pool.pg_num,
            pool.failure_domain,
            " ".join(filter(None, [*(pool.applications or ()), pool.filesystem])),
            pool.reason,
        )
        for pool in pools
    ]
    echo_rendered(render_rows(columns, rows, output))


def warn(what: str) -> None:
    echo_line(f"note: {what}", err=True)


# The options that name the cluster: Ceph's own, or Rook's in a Kubernetes cluster.

_KUBE_OPTIONS = (
    click.option("--kube", is_flag=True, help="Through Rook's resources in a Kubernetes cluster."),
    *KUBERNETES_OPTIONS,
    click.option(
        "--ceph-cluster",
        metavar="NAMESPACE[/NAME]",
        help="--kube: the CephCluster, where there are several.",
    ),
)
pools_options = with_options(*CLUSTER_OPTIONS, *_KUBE_OPTIONS)
create_options = with_options(
    *CLUSTER_OPTIONS,
    *_KUBE_OPTIONS,
    click.option(
        "--failure-domain",
        metavar="LEVEL",
        help="--kube: zone, rack or host; else what fits the cluster.",
    ),
    click.option("--device-class", metavar="NAME", help="--kube: make pools on these OSDs only."),
    click.option(
        "--pg-num",
        type=click.IntRange(1, 65536),
        metavar="N",
        help="Placement groups of each pool; the autoscaler leaves it alone.",
    ),
    click.option(
        "--target-ratio",
        type=click.FloatRange(0, 1, min_open=True),
        metavar="SHARE",
        help="Share of the capacity by which the autoscaler sizes each pool, for instance 0.1.",
    ),
    click.option(
        "--ec-profile",
        multiple=True,
        metavar="KEY=VALUE",
        help="Of erasure-coded pools, for instance plugin=isa. May be given several times.",
    ),
    click.option(
        "--no-redundancy",
        is_flag=True,
        help="Consent to rep1, whose data is lost when one OSD fails.",
    ),
    click.option(
        "--kms",
        metavar="ID",
        help="--kube: the key management service of repN-luks; else that of the other classes.",
    ),
    click.option(
        "--key-rotation",
        metavar="SCHEDULE",
        help="--kube: rotate the keys of repN-luks, for instance @weekly.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolsCluster(ClusterOptions):
    """The cluster of the pools; `failure_domain` and `device_class` None: what fits."""

    kube: bool
    ceph_cluster: str | None
    failure_domain: str | None = None
    device_class: str | None = None
    pg_num: int | None = None
    target_ratio: float | None = None
    ec_profile: tuple[str, ...] = ()
    no_redundancy: bool = False
    kms: str | None = None
    key_rotation: str | None = None

    @property
    def pool_options(self) -> PoolOptions:
        """Return what the user sets for the pools. Raises LeadlineError(`usage`)."""
        from leadline.pools.options import PROFILE_KEYS, PoolOptions

        if self.pg_num is not None and self.target_ratio is not None:
            raise LeadlineError(
                errors.USAGE,
                "--pg-num and --target-ratio contradict each other",
                hint="--target-ratio leaves the number of placement groups to the autoscaler",
            )
        profile = dict(pair.partition("=")[::2] for pair in self.ec_profile)
        for key, value in profile.items():
            known = PROFILE_KEYS if not self.kube else ("plugin",)
            if key not in known or not value:
                why = "Rook has no others" if self.kube else "the pool's name has k and m"
                raise LeadlineError(
                    errors.USAGE,
                    f"--ec-profile {key}={value} is not accepted",
                    context=[f"keys: {', '.join(known)} ({why})"],
                    hint="for instance --ec-profile plugin=isa",
                )
        return PoolOptions(
            pg_num=self.pg_num,
            target_ratio=self.target_ratio,
            erasure_profile=profile,
            no_redundancy=self.no_redundancy,
            kms=self.kms,
            key_rotation=self.key_rotation,
        )

    @property
    def in_kubernetes(self) -> bool:
        """Whether Rook makes the pools. Raises LeadlineError(`usage`) if options contradict."""
        names = (
            *("kubeconfig", "context", "ceph_cluster", "failure_domain", "device_class"),
            *("kms", "key_rotation"),
        )
        astray = self.given(*names)
        if astray and not self.kube:
            raise LeadlineError(errors.USAGE, f"{astray[0]} has an effect with --kube only")
        others = self.given("lab", "ceph_conf", "keyring", "ceph_id")
        if others and self.kube:
            raise LeadlineError(
                errors.USAGE,
                f"--kube and {others[0]} name two ways to a cluster",
                hint="leave one of them away",
            )
        return self.kube


def create_kube(
    request: PoolsCluster,
    asked: Sequence[str],
    *,
    wait_s: float,
    dry_run: bool,
    quiet: bool,
    output: str,
) -> Exit:
    from leadline.pools.recipes import STUDY, pool_name
    from leadline.pools.rook import RookPools
    from leadline.pools.rook_recipes import decide
    from leadline.pools.rook_resources import find_prerequisites, is_owned, require_usable
    from leadline.probes.kubernetes import find_toolbox

    wanted = [pool_name(name) for name in (asked or STUDY)]
    options = request.pool_options
    with _opened(request) as (connection, state, cluster):
        require_usable(cluster)
        prerequisites = find_prerequisites(
            state,
            cluster,
            failure_domain=request.failure_domain,
            device_class=request.device_class,
        )
        decisions = decide(wanted, state, prerequisites, options)
        makes = [made for decision in decisions for made in decision.makes]
        # Of a command that was killed, or whose answer was lost.
        usable = [decision.name for decision in decisions if decision.act.value != "skipped"]
        before = [state.pools.get((cluster.namespace, name)) for name in usable]
        awaits = [found for found in before if found is not None and is_owned(found)]
        if dry_run:
            RookPools(connection, note=_silent).try_out(makes)
            if not quiet and output == "text":
                for make in makes:
                    echo_line(f"would make: {json.dumps(make, sort_keys=True)}", err=True)
        elif makes or awaits:
            with stopping("what it had made is undone"), steps("pools", quiet=quiet) as note:
                toolbox = find_toolbox(connection, cluster.namespace)
                creating = RookPools(connection, note=note, wait_s=wait_s, ceph=toolbox)
                creating.create(makes, awaits, warn)
        after = state if dry_run else _state(connection)
    made = "would make" if dry_run else "made"
    pools = [
        _described(
            decision.name,
            made if decision.makes else decision.act.value,
            decision.reason,
            after,
            cluster.namespace,
        ).model_copy(update={"storage_class": decision.storage_class})
        for decision in decisions
    ]
    source = f"{cluster.namespace}/{cluster.name}"
    print_answer("create", source, pools, prerequisites.notes, dry_run=dry_run, output=output)
    unmet = {decision.name for decision in decisions if decision.act.value == "skipped"}
    return Exit.NEGATIVE if unmet & set(asked) else Exit.ANSWERED


def remove_kube(
    request: PoolsCluster,
    asked: Sequence[str],
    *,
    every: bool,
    dry_run: bool,
    quiet: bool,
    output: str,
) -> Exit:
    from leadline.pools.rook import RookPools, classes_on, list_volumes, volumes_of

    with _opened(request) as (connection, state, cluster):
        space = cluster.namespace
        elsewhere = {ceph_cluster.namespace for ceph_cluster in state.inventory.ceph_clusters} - {
            space
        }
        going = _going(state, space, asked, every=every)
        classes = [pool_class.storage_class for pool_class in going if pool_class.storage_class]
        pools = [pool.pool for pool in going if pool.pool]
        _refuse_use(
            going, volumes_of(list_volumes(connection), elsewhere, _names(classes), _names(pools))
        )
        kept = {
            name: sorted(set(classes_on(state.classes, space, name)) - _names(classes))
            for name in _names(pools)
        }
        kept = {name: users for name, users in kept.items() if users}
        pools = [pool for pool in pools if _name(pool) not in kept]
        classes = [
            pool.storage_class for pool in going if pool.storage_class and pool.name not in kept
        ]

        def check(pool: str) -> None:
            # A user may have claimed a volume before the class was gone.
            _refuse_use(going, volumes_of(list_volumes(connection), elsewhere, (), (pool,)))

        if not dry_run and (classes or pools):
            with stopping("what it had not removed yet stays"), steps("pools", quiet=quiet) as note:
                RookPools(connection, note=note).remove(classes, pools, check)
        after = state if dry_run else _state(connection)
    removed = "would remove" if dry_run else "removed"
    answers = []
    for pool in going:
        if pool.name in kept:
            reason = f"the StorageClass {kept[pool.name][0]} makes volumes in it"
            answers.append(_described(pool.name, "left", reason, after, space))
        elif pool.pool or pool.storage_class:
            parts = ["the pool"] if pool.pool else []
            parts += [f"the StorageClass {_name(pool.storage_class)}"] if pool.storage_class else []
            answers.append(_described(pool.name, removed, " and ".join(parts), after, space))
        else:
            answers.append(_described(pool.name, pool.outcome, pool.reason, after, space))
    source = f"{cluster.namespace}/{cluster.name}"
    print_answer("remove", source, answers, (), dry_run=dry_run, output=output)
    return Exit.ANSWERED


def list_kube(request: PoolsCluster, *, output: str) -> Exit:
    from leadline.pools.recipes import Act, is_pool_name
    from leadline.pools.rook_recipes import PREFIX, class_name
    from leadline.pools.rook_resources import is_owned

    with _opened(request) as (_, state, cluster):
        space = cluster.namespace
        ours = {
            name
            for (where, name), stored in state.pools.items()
            if where == space and is_owned(stored)
        }
        named = {name for where, name in state.pools if where == space and is_pool_name(name)}
        named |= {
            name.removeprefix(PREFIX) for name, stored in state.classes.items() if is_owned(stored)
        }
        listed = []
        for name in sorted(ours | named):
            made = class_name(name)
            there = is_owned(state.classes[made]) if made in state.classes else False
            act = Act.EXISTS if name in ours or there else Act.FOREIGN
            row = _described(name, act.value, "", state, space)
            parts = [row.phase or "", f"storageclass:{made}" if there else ""]
            row = row.model_copy(update={"reason": ", ".join(filter(None, parts))})
            listed.append(row.model_copy(update={"storage_class": made if there else None}))
    print_answer("list", f"{space}/{cluster.name}", listed, (), dry_run=False, output=output)
    return Exit.ANSWERED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Going:
    """What of a name is ours to remove; without either, `outcome` and `reason` say why not."""

    name: str
    pool: Manifest | None = None
    storage_class: Manifest | None = None
    outcome: str = "none"
    reason: str = ""


def _going(state: RookState, namespace: str, asked: Sequence[str], *, every: bool) -> list[_Going]:
    """Erasure-coded pools first: the images on them have their metadata in another."""
    from leadline.pools.recipes import is_pool_name, pool_name
    from leadline.pools.rook_recipes import PREFIX, class_name
    from leadline.pools.rook_resources import is_owned

    names = list(dict.fromkeys(asked))
    if every:
        names = [name for (where, name) in state.pools if where == namespace]
        names += [name.removeprefix(PREFIX) for name in state.classes if name.startswith(PREFIX)]
        names = sorted(set(names))
    found = []
    for name in names:
        pool = state.pools.get((namespace, name))
        made = state.classes.get(class_name(name))
        here = made is not None and is_owned(made) and _in(made, namespace)
        ours = pool is not None and is_owned(pool)
        if ours or here:
            found.append(
                _Going(
                    name=name,
                    pool=pool if ours else None,
                    storage_class=made if here else None,
                )
            )
        elif every:
            continue
        elif pool is not None or made is not None:
            found.append(_Going(name=name, outcome="left", reason="it was not made by Leadline"))
        else:
            if not is_pool_name(name):
                pool_name(name)  # raises, with the nearest name
            found.append(_Going(name=name, reason="there is no such pool"))
    return sorted(found, key=lambda pool: not pool.name.startswith("ec-"))


def _in(made: Manifest, namespace: str) -> bool:
    given = made.get("parameters") or {}
    secrets = given.get("csi.storage.k8s.io/provisioner-secret-namespace")
    return namespace in (given.get("clusterID"), secrets)


def _refuse_use(going: Sequence[_Going], volumes: Sequence[str]) -> None:
    if not volumes:
        return
    shown = [f"PersistentVolume {volume}" for volume in volumes[:8]]
    more = [f"and {len(volumes) - 8} more"] if len(volumes) > 8 else []
    raise LeadlineError(
        errors.IMAGE_NOT_CONSENTED,
        f"there are volumes in {', '.join(pool.name for pool in going)}; no pool was removed",
        context=[*shown, *more],
        hint="remove their claims; `leadline clean --all` removes those of Leadline's runs",
    )


@contextmanager
def _opened(request: PoolsCluster) -> Iterator[tuple[Connection, RookState, CephCluster]]:
    from leadline.connect.kubernetes.client import Connection
    from leadline.pools.rook_resources import choose_cluster

    with Connection(request.kubernetes_access()) as connection:
        state = _state(connection)
        yield connection, state, choose_cluster(state.inventory, request.ceph_cluster)


def _state(connection: Connection) -> RookState:
    from leadline.pools.rook_resources import read_rook

    return read_rook(connection)


def _described(
    name: str, outcome: str, reason: str, state: RookState, namespace: str
) -> OnePoolOutput:
    from leadline.pools.rook_recipes import FILESYSTEM
    from leadline.pools.rook_resources import is_owned

    raw = state.pools.get((namespace, name))
    if raw is None:
        return OnePoolOutput(name=name, outcome=outcome, reason=reason)
    if raw["kind"] == FILESYSTEM[1]:
        return _described_filesystem(name, outcome, reason, raw)
    found = next(
        block_pool
        for block_pool in state.inventory.block_pools
        if (block_pool.namespace, block_pool.name) == (namespace, name)
    )
    spec = found.spec
    erasure = spec.data_chunks is not None
    min_size = (raw["spec"].get("parameters") or {}).get("min_size", "")
    return OnePoolOutput(
        name=name,
        outcome=outcome,
        reason=reason,
        type="erasure" if erasure else "replicated",
        size=(spec.data_chunks or 0) + (spec.coding_chunks or 0) if erasure else spec.size,
        min_size=int(min_size) if min_size.isdigit() else None,
        failure_domain=spec.failure_domain,
        device_class=spec.device_class or None,
        made_by_leadline=is_owned(raw),
        phase=found.phase or None,
    )


def _described_filesystem(name: str, outcome: str, reason: str, raw: Manifest) -> OnePoolOutput:
    from leadline.pools.rook_resources import is_owned

    data = raw["spec"]["dataPools"][0]
    size = (data.get("replicated") or {}).get("size")
    return OnePoolOutput(
        name=name,
        outcome=outcome,
        reason=reason,
        type="replicated" if size else "erasure",
        size=size,
        failure_domain=data.get("failureDomain"),
        device_class=data.get("deviceClass"),
        filesystem=name,
        made_by_leadline=is_owned(raw),
        phase=(raw.get("status") or {}).get("phase"),
    )


def _names(objects: Sequence[Manifest]) -> set[str]:
    return {_name(stored) for stored in objects}


def _name(found: Manifest | None) -> str:
    return str(found["metadata"]["name"]) if found else ""


def _silent(what: str) -> None:
    """Progress of what is over at once."""
