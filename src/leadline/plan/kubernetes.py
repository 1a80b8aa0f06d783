"""A Kubernetes cluster as a plan names it: how it is reached, and how runners are made there."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from leadline.units import parse_duration, parse_size

# The image that Containerfile makes. Clusters without a way out take it from a file
# (docs/guides/kubernetes-air-gapped.md).
RUNNER_IMAGE = "leadline/runner:0.1.0"

_DnsLabel = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
_Image = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[\x21-\x7e]+$")]
_Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0)]


def parse_cpu(value: object) -> object:
    """Processors as Kubernetes writes them: `2`, `0.5`, `500m`. Raises ValueError."""
    if isinstance(value, str) and value.endswith("m"):
        return float(value[:-1]) / 1000
    return value


_Cpu = Annotated[float, BeforeValidator(parse_cpu), Field(gt=0, le=1024)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Toleration(_Model):
    """A taint that runners put up with, with the fields of a pod's `tolerations`."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class BootImage(_Model):
    """What virtual machines boot from: one of an image of container disks, a URL that CDI
    fetches, and a volume claim `NAMESPACE/NAME` that CDI clones."""

    container_disk: _Image | None = None
    url: str | None = None
    claim: Annotated[str, Field(pattern=r"^[a-z0-9.-]+/[a-z0-9.-]+$")] | None = None
    size: _Size = 10 << 30

    @model_validator(mode="after")
    def _one(self) -> BootImage:
        if sum(one is not None for one in (self.container_disk, self.url, self.claim)) != 1:
            raise ValueError("needs exactly one of container_disk, url and claim")
        return self


class VmSettings(_Model):
    """Virtual machines of the cluster. `io_threads`: a thread of QEMU's own for the data disk;
    `packages`: what cloud-init installs in a guest that lacks it; `proxy` is for that."""

    boot: BootImage
    io_threads: bool = False
    packages: tuple[str, ...] = ("fio",)
    proxy: str = ""


class KubernetesCluster(_Model):
    """Everything has kubectl's own default but `namespace`: without one, each run makes its own
    and removes it. `cpu` and `memory` are what a runner pod requests and is limited to; `ready_s`
    is how long volumes and runners may take to be there, and to be gone."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: _DnsLabel | None = None
    image: _Image = RUNNER_IMAGE
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    pull_secrets: tuple[_DnsLabel, ...] = ()
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

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    def written(self) -> dict[str, Any]:
        """As a plan file would have it: only what differs from the defaults."""
        return self.model_dump(mode="json", exclude_defaults=True, by_alias=True)
