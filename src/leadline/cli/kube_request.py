"""The options by which `leadline pools` goes through Rook in a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from leadline import errors
from leadline.cli.kubernetes_options import KUBERNETES_OPTIONS
from leadline.errors import LeadlineError

Command = TypeVar("Command", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--kube", is_flag=True, help="Through Rook's resources in a Kubernetes cluster."),
    *KUBERNETES_OPTIONS,
    click.option(
        "--ceph-cluster",
        metavar="NAMESPACE[/NAME]",
        help="--kube: the CephCluster, where there are several.",
    ),
)
_OF_CREATE = (
    click.option(
        "--failure-domain",
        metavar="LEVEL",
        help="--kube: zone, rack or host; else what fits the cluster.",
    ),
    click.option("--device-class", metavar="NAME", help="--kube: make pools on these OSDs only."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeRequest:
    """Where the pools are; `failure_domain` and `device_class` None: what fits."""

    kubeconfig: Path | None
    context: str | None
    ceph_cluster: str | None
    failure_domain: str | None = None
    device_class: str | None = None


def kube_options(function: Command) -> Command:
    """`--kube` and what goes with it, as arguments of the command for `kube_request`."""
    return _with(function, _OPTIONS)


def kube_create_options(function: Command) -> Command:
    return _with(function, (*_OPTIONS, *_OF_CREATE))


def _with(function: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
    for option in reversed(options):
        function = option(function)
    return function


def kube_request(given: dict[str, Any]) -> KubeRequest | None:
    """Takes its options out of `given`; None without --kube. Raises LeadlineError(`usage`) for
    options that contradict each other."""
    kube = given.pop("kube")
    names = ("kubeconfig", "context", "ceph_cluster", "failure_domain", "device_class")
    ours = {name: given.pop(name) for name in names if name in given}
    if not kube:
        astray = [name for name, value in ours.items() if value is not None]
        if astray:
            raise LeadlineError(
                errors.USAGE, f"--{astray[0].replace('_', '-')} has an effect with --kube only"
            )
        return None
    others = [name for name, value in given.items() if value is not None]
    if others:
        option = "--id" if others[0] == "ceph_id" else f"--{others[0].replace('_', '-')}"
        raise LeadlineError(
            errors.USAGE,
            f"--kube and {option} name two ways to a cluster",
            hint="leave one of them away",
        )
    return KubeRequest(**ours)
