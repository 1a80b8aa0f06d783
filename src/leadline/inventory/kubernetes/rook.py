"""Rook's custom resources, and OpenShift Data Foundation's."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.inventory.kubernetes.objects import Part
from leadline.inventory.kubernetes.rook_models import (
    CephBlockPool,
    CephCluster,
    CephFilesystem,
    DataPool,
    DeviceSet,
    Network,
    PoolSpec,
    Resources,
    StorageCluster,
)


def read_ceph_cluster(item: Part) -> CephCluster:
    metadata, spec, status = item.at("metadata"), item.at("spec"), item.at("status")
    affinity = spec.at("csi", "readAffinity")
    sets = tuple(_rook_set(one) for one in spec.at("storage", "storageClassDeviceSets").elements())
    return CephCluster(
        namespace=metadata.at("namespace").word,
        name=metadata.at("name").word,
        external=spec.at("external", "enable").on,
        image=spec.at("cephVersion", "image").word,
        version=status.at("version", "version").word,
        fsid=status.at("ceph", "fsid").word,
        health=status.at("ceph", "health").word,
        phase=status.at("phase").word,
        monitors=spec.at("mon", "count").integer,
        zones=tuple(
            one.at("name").word for one in spec.at("mon", "stretchCluster", "zones").elements()
        ),
        network=read_network(spec.at("network")),
        device_sets=sets,
        device_classes=tuple(
            one.at("name").word for one in status.at("storage", "deviceClasses").elements()
        ),
        encrypted=_encrypted(spec, sets),
        kms=spec.at("security", "kms", "connectionDetails", "KMS_PROVIDER").word,
        resources=tuple(_resources(spec.at("resources"))),
        read_affinity=affinity.at("enabled").on if affinity.there else None,
        read_affinity_labels=affinity.at("crushLocationLabels").texts(),
        kernel_mount_options=spec.at("csi", "cephfs", "kernelMountOptions").word,
        fuse_mount_options=spec.at("csi", "cephfs", "fuseMountOptions").word,
    )


def _encrypted(spec: Part, sets: tuple[DeviceSet, ...]) -> bool | None:
    """Whether all OSDs are made on dm-crypt, as far as the cluster's resource says."""
    told = [one.encrypted for one in sets if one.encrypted is not None]
    config = spec.at("storage", "config", "encryptedDevice").flag
    told += [config] if config is not None else []
    return all(told) if told else None


def _rook_set(part: Part) -> DeviceSet:
    templates = list(part.at("volumeClaimTemplates").elements())
    claim = next(
        (one for one in templates if one.at("metadata", "name").text == "data"),
        templates[0] if templates else Part(f"{part.path}.volumeClaimTemplates", None),
    )
    notes = claim.at("metadata", "annotations")
    return _device_set(part, claim.at("spec"), notes.at("crushDeviceClass").word)


def _device_set(part: Part, claim: Part, device_class: str) -> DeviceSet:
    return DeviceSet(
        name=part.at("name").word,
        count=part.at("count").integer or 0,
        replica=part.at("replica").integer,
        size_bytes=claim.at("resources", "requests", "storage").size_bytes,
        storage_class=claim.at("storageClassName").word,
        portable=part.at("portable").on,
        encrypted=part.at("encrypted").flag,
        device_class=device_class,
        osd=_of_daemon("osd", part.at("resources")) if part.at("resources").value else None,
    )


def read_network(part: Part) -> Network:
    """The network of a CephCluster, and of a StorageCluster, which hands it on."""
    selectors = {key: one.word for key, one in part.at("selectors").members()}
    connections = part.at("connections")
    provider = part.at("provider").word
    return Network(
        provider=provider or ("host" if part.at("hostNetwork").on else ""),
        selectors=tuple(f"{key} {selectors[key]}" for key in sorted(selectors)),
        encrypted=connections.at("encryption", "enabled").flag,
        compressed=connections.at("compression", "enabled").flag,
        require_msgr2=connections.at("requireMsgr2").flag,
    )


def _resources(part: Part) -> Iterator[Resources]:
    for daemon, given in part.members():
        yield _of_daemon(daemon, given)


def _of_daemon(daemon: str, given: Part) -> Resources:
    return Resources(
        daemon=daemon,
        cpu_request=given.at("requests", "cpu").quantity,
        cpu_limit=given.at("limits", "cpu").quantity,
        memory_request_bytes=given.at("requests", "memory").size_bytes,
        memory_limit_bytes=given.at("limits", "memory").size_bytes,
    )


def read_block_pool(item: Part) -> CephBlockPool:
    metadata = item.at("metadata")
    return CephBlockPool(
        namespace=metadata.at("namespace").word,
        # `spec.name` is for the pools of managers, whose names no object may have.
        name=item.at("spec", "name").word or metadata.at("name").word,
        phase=item.at("status", "phase").word,
        mirrored=item.at("spec", "mirroring", "enabled").on,
        spec=_pool(item.at("spec")),
    )


def _pool(part: Part) -> PoolSpec:
    replicated, erasure = part.at("replicated"), part.at("erasureCoded")
    size, chunks = replicated.at("size").integer, erasure.at("dataChunks").integer
    ratio = replicated.at("targetSizeRatio").quantity
    options = part.at("parameters")
    return PoolSpec(
        # Rook writes the form that a pool has not as zeros.
        size=size or None,
        data_chunks=chunks or None,
        coding_chunks=erasure.at("codingChunks").integer if chunks else None,
        per_domain=replicated.at("replicasPerFailureDomain").integer or None,
        failure_domain=part.at("failureDomain").text or "host",
        sub_failure_domain=replicated.at("subFailureDomain").word,
        device_class=part.at("deviceClass").word,
        crush_root=part.at("crushRoot").word,
        compression=options.at("compression_mode").text or part.at("compressionMode").word,
        target_size_ratio=ratio or options.at("target_size_ratio").quantity,
    )


def read_filesystem(item: Part) -> CephFilesystem:
    metadata, spec = item.at("metadata"), item.at("spec")
    name = metadata.at("name").word
    server = spec.at("metadataServer")
    pools = [
        DataPool(name=_data_pool_name(name, number, part), spec=_pool(part))
        for number, part in enumerate(spec.at("dataPools").elements())
    ]
    given = server.at("resources")
    return CephFilesystem(
        namespace=metadata.at("namespace").word,
        name=name,
        phase=item.at("status", "phase").word,
        active_mds=server.at("activeCount").integer,
        active_standby=server.at("activeStandby").on,
        metadata_pool=_pool(spec.at("metadataPool")),
        data_pools=tuple(pools),
        mds_resources=_of_daemon("mds", given) if given.value else None,
    )


def _data_pool_name(filesystem: str, number: int, part: Part) -> str:
    """Rook puts the filesystem's name before a pool's, and counts those without one."""
    return f"{filesystem}-{part.at('name').text or f'data{number}'}"


def read_storage_cluster(item: Part) -> StorageCluster:
    metadata, spec, status = item.at("metadata"), item.at("spec"), item.at("status")
    key, values = status.at("failureDomainKey").word, status.at("failureDomainValues").texts()
    encryption = spec.at("encryption")
    return StorageCluster(
        namespace=metadata.at("namespace").word,
        name=metadata.at("name").word,
        version=status.at("version").text or spec.at("version").word,
        phase=status.at("phase").word,
        external=spec.at("externalStorage", "enable").on,
        failure_domain=status.at("failureDomain").word,
        failure_domain_key=key,
        failure_domain_values=tuple(sorted(values or _topology(status, key))),
        arbiter=spec.at("arbiter", "enable").on,
        flexible_scaling=spec.at("flexibleScaling").on,
        resource_profile=spec.at("resourceProfile").word,
        resources=tuple(_resources(spec.at("resources"))),
        device_sets=tuple(
            _device_set(one, one.at("dataPVCTemplate", "spec"), one.at("deviceClass").word)
            for one in spec.at("storageDeviceSets").elements()
        ),
        encrypted=encryption.at("enable").on or encryption.at("clusterWide").on,
        kms=encryption.at("kms", "enable").on,
        network=read_network(spec.at("network")),
        host_network=spec.at("hostNetwork").on,
    )


def _topology(status: Part, key: str) -> tuple[str, ...]:
    """The values of the failure domain's label, as older releases tell them."""
    return status.at("nodeTopologies", "labels", key).texts() if key else ()
