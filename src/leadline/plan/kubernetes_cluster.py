"""The Kubernetes cluster of a plan: how it is reached, and what its runners are."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from leadline.plan.base import Model
from leadline.units import parse_duration, parse_size

DnsLabel = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
_Image = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[\x21-\x7e]+$")]
_Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0)]


def parse_cpu(value: object) -> object:
    """Processors as Kubernetes writes them: `2`, `0.5`, `500m`. Raises ValueError."""
    if isinstance(value, str) and value.endswith("m"):
        return float(value[:-1]) / 1000
    return value


_Cpu = Annotated[float, BeforeValidator(parse_cpu), Field(gt=0, le=1024)]


class Toleration(Model):
    """A taint that runners put up with, with the fields of a pod's `tolerations`."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


# NAMESPACE/NAME of an object.
_Named = Annotated[str, Field(pattern=r"^[a-z0-9.-]+/[a-z0-9.-]+$")]


class BootImage(Model):
    """What virtual machines boot from: one of an image of container disks, a URL that CDI
    fetches, a volume claim `NAMESPACE/NAME` and a DataSource `NAMESPACE/NAME`, which CDI clones.
    `size` None: that of the DataSource, else 10 GiB."""

    container_disk: _Image | None = None
    url: str | None = None
    claim: _Named | None = None
    data_source: _Named | None = None
    size: _Size | None = None

    @model_validator(mode="after")
    def _one(self) -> BootImage:
        sources = (self.container_disk, self.url, self.claim, self.data_source)
        if sum(source is not None for source in sources) != 1:
            raise ValueError("needs exactly one of container_disk, url, claim and data_source")
        return self

    @property
    def text(self) -> str:
        """The image, URL, claim or DataSource."""
        return self.container_disk or self.url or self.claim or self.data_source or ""

    @property
    def imported(self) -> bool:
        """Whether CDI makes the boot disk."""
        return self.container_disk is None


class VmSettings(Model):
    """Virtual machines of the cluster. `io_threads`: a thread of QEMU's own for the data disk;
    `packages`: what cloud-init installs in a guest that lacks it; `proxy` is for that."""

    boot: BootImage
    io_threads: bool = False
    packages: tuple[str, ...] = ("fio",)
    proxy: str = ""


# Namespaces of Rook, of OpenShift Data Foundation, and of OpenEBS Mayastor.
STORAGE_NAMESPACES = ("rook-ceph", "openshift-storage", "openebs", "mayastor")


class KubernetesCluster(Model):
    """Everything has kubectl's own default but `namespace`: without one, each run makes its own
    and removes it. `image` has no default: runner pods need one, virtual machines do not. `cpu` and
    `memory` are what a runner pod requests and is limited to; `ready_s` is how long volumes and
    runners may take to be there, and to be gone. Pods of the storage are those of
    `storage_namespaces`."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: DnsLabel | None = None
    image: _Image | None = Field(default=None, exclude_if=lambda given: given is None)
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    pull_secrets: tuple[DnsLabel, ...] = ()
    service_account: str | None = None
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    priority_class: str | None = None
    cpu: _Cpu = 2.0
    memory: _Size = 1 << 30
    ready_s: Annotated[float, BeforeValidator(parse_duration), Field(gt=0)] = Field(
        default=300.0, alias="ready"
    )
    vm: VmSettings | None = None
    storage_namespaces: Annotated[
        tuple[DnsLabel, ...],
        Field(max_length=20, exclude_if=lambda given: given == STORAGE_NAMESPACES),
    ] = STORAGE_NAMESPACES

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    def written(self) -> dict[str, Any]:
        """As a plan file would have it: only what differs from the defaults."""
        return self.model_dump(mode="json", exclude_defaults=True, by_alias=True)
