"""Whether Ceph's clients in a cluster read the near copy: Rook, ceph-csi's settings and the
arguments of its driver may each say so.

Sources: ceph-csi docs/deploy-rbd.md, Rook Documentation/Storage-Configuration/Ceph-CSI.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline.inventory.kubernetes import kinds
from leadline.inventory.kubernetes.objects import Objects, Part, named
from leadline.inventory.kubernetes.rook_models import CephCluster
from leadline.inventory.kubernetes.volumes import ReadAffinity

_SETTINGS = ("csi-cluster-config-json", "config.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinities:
    """`by_cluster`: by ceph-csi's id of a cluster; `for_all`: what a driver's arguments say."""

    by_cluster: Mapping[str, ReadAffinity]
    for_all: ReadAffinity | None

    def of(self, cluster_id: str) -> ReadAffinity | None:
        """None where nothing that was read says anything."""
        return self.by_cluster.get(cluster_id, self.for_all)


def read_affinities(objects: Objects, clusters: Sequence[CephCluster]) -> Affinities:
    """What each object says; the driver's own settings count more than what Rook is told."""
    found: dict[str, ReadAffinity] = {}
    for cluster in clusters:
        if cluster.read_affinity is not None:
            # Rook names a cluster by its namespace.
            found[cluster.namespace] = ReadAffinity(
                enabled=cluster.read_affinity,
                labels=cluster.read_affinity_labels,
                told_by=f"CephCluster {cluster.namespace}/{cluster.name}",
            )
    found |= _of_connections(objects)
    for settings in objects.read(kinds.CONFIG_MAP, _of_settings):
        found |= settings
    arguments = [one for one in objects.read(kinds.DAEMON_SET, _of_arguments) if one is not None]
    return Affinities(by_cluster=found, for_all=next(iter(arguments), None))


def _of_settings(item: Part) -> dict[str, ReadAffinity]:
    found = {}
    for name in _SETTINGS:
        text = item.at("data", name).text
        if not text:
            continue
        try:
            decoded = Part(f"data.{name}", json.loads(text))
        except (ValueError, RecursionError) as error:
            raise item.at("data", name).wrong("JSON") from error
        for cluster in decoded.elements():
            affinity = _affinity(cluster.at("readAffinity"), f"ConfigMap {named(item)}")
            if affinity is not None:
                found[cluster.at("clusterID").word] = affinity
    return found


def _of_connections(objects: Objects) -> dict[str, ReadAffinity]:
    """By ClientProfile, the name of which is the id that StorageClasses give."""

    def connection(item: Part) -> tuple[str, ReadAffinity | None]:
        part = item.at("spec", "readAffinity")
        name = item.at("metadata", "name").word
        labels = part.at("crushLocationLabels").texts()
        told_by = f"CephConnection {named(item)}"
        return name, (
            ReadAffinity(enabled=True, labels=labels, told_by=told_by) if part.there else None
        )

    def profile(item: Part) -> tuple[str, str]:
        referred = item.at("spec", "cephConnectionRef", "name").word
        return item.at("metadata", "name").word, referred

    connections = dict(objects.read(kinds.CEPH_CONNECTION, connection))
    return {
        name: affinity
        for name, referred in objects.read(kinds.CLIENT_PROFILE, profile)
        if (affinity := connections.get(referred)) is not None
    }


def _affinity(part: Part, told_by: str) -> ReadAffinity | None:
    if not part.there:
        return None
    labels = part.at("crushLocationLabels").texts()
    return ReadAffinity(enabled=part.at("enabled").on, labels=labels, told_by=told_by)


def _of_arguments(item: Part) -> ReadAffinity | None:
    """`--enable-read-affinity=true --crush-location-labels=a,b` of ceph-csi's RBD plugin."""
    for container in item.at("spec", "template", "spec", "containers").elements():
        arguments = dict(
            text.lstrip("-").partition("=")[::2] for text in container.at("args").texts()
        )
        if arguments.get("enable-read-affinity", "").lower() == "true":
            labels = arguments.get("crush-location-labels", "")
            return ReadAffinity(
                enabled=True,
                labels=tuple(label for label in labels.split(",") if label),
                told_by=f"DaemonSet {named(item)}",
            )
    return None
