"""What nvme-cli adds to what the kernel tells of NVMe."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.formats.nvme.listing import Namespace, parse_nvme_list
from leadline.formats.output import FormatError
from leadline.inventory.models import NvmeController, NvmeNamespace


def with_list(controllers: Sequence[NvmeController], listed: str) -> tuple[NvmeController, ...]:
    """Controllers with what `nvme list -o json` tells besides: bytes used, and models and sizes
    that the kernel did not tell. A text that is no such list adds nothing."""
    try:
        known = {one.name: one for one in parse_nvme_list(listed)}
    except FormatError:
        return tuple(controllers)
    return tuple(_completed(one, known) for one in controllers)


def _completed(controller: NvmeController, known: dict[str, Namespace]) -> NvmeController:
    models = (known[one.name].model for one in controller.namespaces if one.name in known)
    return controller.model_copy(
        update={
            "model": controller.model or next(filter(None, models), ""),
            "namespaces": tuple(
                _with(one, known[one.name]) if one.name in known else one
                for one in controller.namespaces
            ),
        }
    )


def _with(one: NvmeNamespace, told: Namespace) -> NvmeNamespace:
    return one.model_copy(
        update={
            "size_bytes": one.size_bytes or told.size_bytes,
            "logical_block_bytes": one.logical_block_bytes or told.sector_bytes,
            "used_bytes": told.used_bytes,
        }
    )
