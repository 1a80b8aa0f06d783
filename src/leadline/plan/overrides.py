"""What the command line says over a plan file, or without one, put in as a plan would have it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leadline import errors
from leadline.errors import LeadlineError
from leadline.label_words import parse_labels
from leadline.plan.target_url import TargetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What the command line sets over a plan or its profiles; None leaves it alone."""

    targets: Sequence[str] = ()
    profiles: Sequence[str] = ()
    job_files: Sequence[Path] = ()
    name: str | None = None
    runtime: str | None = None
    ramp: str | None = None
    size: str | None = None
    repeats: int | None = None
    seed: int | None = None
    prefill: bool | None = None
    drop_caches: bool | None = None
    labels: Sequence[str] = ()
    lab: str | None = None
    ceph_conf: Path | None = None
    keyring: Path | None = None
    ceph_id: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None
    runner_image: str | None = None
    runner_cpu: str | None = None
    runner_memory: str | None = None
    vm_image: str | None = None


def overridden(value: dict[str, Any], overrides: Overrides) -> dict[str, Any]:
    raw = dict(value)
    if overrides.targets:
        raw["targets"] = [_named_target(given) for given in overrides.targets]
    if overrides.profiles:
        raw["profile"] = list(overrides.profiles)
    if overrides.job_files:
        own = [
            {"name": path.stem, "job_file": str(path.absolute())} for path in overrides.job_files
        ]
        written = raw.get("workloads")
        raw["workloads"] = [*(written if isinstance(written, list) else []), *own]
    written_labels = raw.get("labels") or {}
    if overrides.labels and isinstance(written_labels, dict):
        raw["labels"] = {**written_labels, **_labels(overrides)}
    _take_clusters(raw, overrides)
    for key in ("name", "repeats", "seed", "prefill", "drop_caches"):
        given = getattr(overrides, key)
        if given is not None:
            raw[key] = given
    return raw


def _labels(overrides: Overrides) -> dict[str, str]:
    """Raises LeadlineError (`usage`) for one that is not KEY=VALUE."""
    found: dict[str, str] = {}
    for text in overrides.labels:
        try:
            found |= parse_labels(text)
        except ValueError as error:
            raise LeadlineError(
                errors.USAGE, f"--label {text!r} is no label", hint="write it as --label cores=2"
            ) from error
    return found


def default_ceph_conf() -> str:
    """The configuration that Ceph's own programs would take: $CEPH_CONF, else the system's."""
    return os.environ.get("CEPH_CONF") or "/etc/ceph/ceph.conf"


def _named_cluster(overrides: Overrides) -> dict[str, dict[str, str]]:
    """The one cluster that the command line names; it stands for any that the plan has."""
    if overrides.lab is not None:
        return {overrides.lab: {"lab": overrides.lab}}
    if overrides.ceph_conf is None and overrides.keyring is None and overrides.ceph_id is None:
        return {}
    written = {"ceph_conf": str(overrides.ceph_conf or default_ceph_conf())}
    if overrides.keyring is not None:
        written["keyring"] = str(overrides.keyring.absolute())
    if overrides.ceph_id is not None:
        written["id"] = overrides.ceph_id
    written["ceph_conf"] = str(Path(written["ceph_conf"]).absolute())
    return {"ceph": written}


def _take_clusters(raw: dict[str, Any], overrides: Overrides) -> None:
    """What the command line says of clusters, over what the plan says, and where nobody says
    anything, kubectl's and Ceph's own choice for the targets that need it."""
    ceph, kubernetes = _named_cluster(overrides), _named_kubernetes(overrides)
    if ceph:
        raw["clusters"] = ceph
    written = raw.get("clusters", {})
    if not isinstance(written, dict):
        return  # told as a fault
    clusters = dict(written)
    of_kubernetes = [
        name for name, one in clusters.items() if isinstance(one, dict) and "kubernetes" in one
    ]
    if kubernetes:
        for name in of_kubernetes or ["kubernetes"]:
            before = (clusters.get(name) or {}).get("kubernetes") or {}
            if isinstance(before, dict):
                clusters[name] = {"kubernetes": {**before, **kubernetes}}
    elif not of_kubernetes and _mentions(raw.get("targets"), lambda kind: kind.on_kubernetes):
        clusters["kubernetes"] = {"kubernetes": {}}
    if "clusters" not in raw and _mentions(raw.get("targets"), lambda kind: kind.on_ceph):
        clusters["ceph"] = {"ceph_conf": default_ceph_conf()}
    if clusters:
        raw["clusters"] = clusters


def _named_kubernetes(overrides: Overrides) -> dict[str, Any]:
    """What the command line says of the Kubernetes cluster."""
    kubeconfig = overrides.kubeconfig and str(overrides.kubeconfig.expanduser().absolute())
    given: dict[str, Any] = {
        "kubeconfig": kubeconfig,
        "context": overrides.context,
        "namespace": overrides.namespace,
        "image": overrides.runner_image,
        "cpu": overrides.runner_cpu,
        "memory": overrides.runner_memory,
        "vm": overrides.vm_image and {"boot": {"container_disk": overrides.vm_image}},
    }
    return {key: value for key, value in given.items() if value}


def _mentions(targets: object, of: Callable[[TargetKind], bool]) -> bool:
    urls = [
        item.get("target") if isinstance(item, dict) else item
        for item in (targets if isinstance(targets, list) else [])
    ]
    kinds = tuple(f"{kind.value}:" for kind in TargetKind if of(kind))
    return any(isinstance(url, str) and url.startswith(kinds) for url in urls)


def _named_target(given: str) -> str | dict[str, str]:
    """`NAME=URL` of the command line as a plan writes it; a bare URL stays as it is."""
    name, equals, url = given.partition("=")
    if equals and ":" not in name and "/" not in name:
        return {"target": url, "name": name}
    return given
