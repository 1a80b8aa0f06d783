"""Which Kubernetes cluster a verb talks to: options that every verb with one takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from leadline.kubernetes.access import KubernetesAccess

Command = TypeVar("Command", bound=Callable[..., Any])

KUBERNETES_OPTIONS = (
    click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="How the Kubernetes cluster is reached; else $KUBECONFIG, else ~/.kube/config.",
    ),
    click.option(
        "--context", metavar="NAME", help="The kubeconfig's context; else its current one."
    ),
)


def kubernetes_options(function: Command) -> Command:
    """`--kubeconfig` and `--context`, as the arguments `kubeconfig` and `context` of the command,
    for `kubernetes_access`."""
    for option in reversed(KUBERNETES_OPTIONS):
        function = option(function)
    return function


def kubernetes_access(*, kubeconfig: Path | None, context: str | None) -> KubernetesAccess:
    """The way to the cluster that the options name. Nothing is contacted."""
    return KubernetesAccess(
        kubeconfig=kubeconfig.expanduser() if kubeconfig else None, context=context
    )
