"""The layers below a client of RBD: the image, and the pool with its data."""

from __future__ import annotations

import json
from collections.abc import Mapping

from leadline.archive.records import Layer, LayerKind

LIBRBD, KRBD, RBD_FUSE = "librbd", "krbd", "rbd-fuse"


def image_layers(
    pool: str, image: str, client: str, facts: Mapping[str, str] | None = None
) -> tuple[Layer, Layer]:
    """The image `pool/image` as `client` serves it, and its pool: that of its data where `facts`
    name a `data_pool`."""
    told = dict(facts or {})
    return (
        Layer(kind=LayerKind.IMAGE, name=f"{pool}/{image}", facts={"client": client, **told}),
        Layer(kind=LayerKind.POOL, name=told.get("data_pool") or pool),
    )


def facts_of_info(told: str) -> dict[str, str]:
    """Facts of an image from `rbd info --format json`; none where that is no such answer."""
    try:
        row = json.loads(told)
        asked = {
            "object_size_bytes": int(row.get("object_size") or 1 << int(row["order"])),
            "size_bytes": int(row["size"]),
            "stripe_unit_bytes": row.get("stripe_unit", ""),
            "stripe_count": row.get("stripe_count", ""),
            "data_pool": row.get("data_pool", ""),
            "features": ",".join(map(str, row.get("features", ()))),
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {key: str(value) for key, value in asked.items() if value not in ("", None)}
