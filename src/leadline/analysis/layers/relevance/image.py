"""Settings of the image: librbd's cache, the size of its objects."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.analysis.layers.little import object_size
from leadline.analysis.layers.model import Flow, LayerFlow
from leadline.analysis.layers.relevance.given import SOME
from leadline.analysis.layers.relevance.model import Setting, can, cannot, not_known
from leadline.analysis.layers.trial import TrialLayers
from leadline.archive.records import LayerKind
from leadline.metrics import Op
from leadline.units import format_latency, format_size

# A write that takes as long at the image as in the pool waits for it.
_WAITS = 0.8
# With fewer in flight there is nothing to spread.
_SEVERAL = 2.0


def of_image(found: TrialLayers, op: Op) -> Iterator[Setting]:
    image = next((one for one in found.layers if one.kind is LayerKind.IMAGE), None)
    if image is None:
        return
    yield _librbd_cache(found, image, op)
    yield _object_size(found, image, op)


def _librbd_cache(found: TrialLayers, image: LayerFlow, op: Op) -> Setting:
    name = "rbd_cache"
    if image.facts.get("client") == "krbd":
        return cannot(name, "", "The kernel's client has no cache of its own.")
    pool = next((one for one in found.layers if one.kind is LayerKind.POOL), None)
    upper = image.flows.get(op)
    lower = pool.flows.get(op) if pool else None
    if op is Op.READ:
        return not_known(name, "", "how many reads it answered")
    if not upper or not lower or not upper.latency.value or not lower.latency.value:
        return not_known(name, "", "the latency of writes at the image or at the pool")
    there, below = upper.latency.value, lower.latency.value
    said = (
        f"a write takes {format_latency(there)} at the image and {format_latency(below)} in "
        "the pool"
    )
    numbers = {"image_latency_s": there, "pool_latency_s": below}
    if there < _WAITS * below:
        text = f"It is at work: the image answers before the pool does ({said})."
        return can(name, "", text, **numbers)
    if found.evidence.fsyncs:
        fact = f"{said}, but the workload's fsync empties such a cache each time"
        return not_known(name, "", fact, **numbers)
    text = f"Writes wait for the pool ({said}): a cache that answers before would change that."
    return can(name, "", text, **numbers)


def _object_size(found: TrialLayers, image: LayerFlow, op: Op) -> Setting:
    """An object lies on one set of OSDs, which does what comes for it in order: its size (with
    striping the stripe unit) is where a request is cut, and how far apart two must lie to be
    served by different ones (Ceph's documentation, architecture, data striping)."""
    name, value = "object size of the image", image.facts.get("object_size_bytes", "")
    size, flow = _piece(found, image), _largest_seen(found, op)
    if not size or flow is None or not flow.mean_size_bytes:
        return not_known(name, value, "the sizes of requests to the image")
    mean = flow.mean_size_bytes
    share = flow.sizes.share_from(size) if flow.sizes else None
    numbers = {"mean_size_bytes": mean, "object_bytes": float(size)}
    if share is not None:
        numbers["full_object_share"] = share
    said = f"requests have {format_size(mean)} on average, {_part(mean / size)}"
    if mean > size / 2 or (share or 0.0) > SOME:
        return can(name, value, f"Requests fill objects: {said}.", **numbers)
    many = flow.in_flight.value
    if many is not None and many >= _SEVERAL and not found.evidence.scattered:
        numbers["in_flight"] = many
        fact = (
            f"{said}, but {many:.3g} are in flight: as far as they lie beside each other, one "
            "object, and so one set of OSDs, gets them all"
        )
        return not_known(name, value, fact, **numbers)
    text = f"No request comes near an object of {format_size(size)}: {said}."
    return cannot(name, value, text, **numbers)


def _part(share: float) -> str:
    return f"1/{1 / share:,.0f} of an object" if share < 1 else f"{share:.3g} objects"


def _piece(found: TrialLayers, image: LayerFlow) -> int | None:
    """Bytes of the image that lie together in one object."""
    size, unit = object_size(found.layers), image.size_fact("stripe_unit_bytes")
    striped = (image.size_fact("stripe_count") or 1) > 1
    return min(size, unit) if size and unit and striped else size


def _largest_seen(found: TrialLayers, op: Op) -> Flow | None:
    """The image's requests, else those of the device above it."""
    for kind in (LayerKind.IMAGE, LayerKind.BLOCK):
        for one in reversed(found.layers):
            flow = one.flows.get(op)
            if one.kind is kind and flow is not None and flow.mean_size_bytes:
                return flow
    return None
