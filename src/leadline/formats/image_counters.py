"""The record of the client of an RBD image during a trial, `image-counters.jsonl`.

The parser is total: it returns what it read or raises FormatError with the line. Counters are those
of librbd's `perf dump` (src/librbd/ImageCtx.cc, perf_start): since the client opened the image,
latencies as a count and a sum of seconds; `objecter.*` are its operations on objects
(src/osdc/Objecter.cc): what became of its requests on the way to the OSDs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leadline.formats.ceph_counters import Spent
from leadline.formats.checked import count, decoded_line, mapping, number, text, wrong

_WHAT = "the record of an image"

COUNTS: Final = (
    *("rd", "rd_bytes", "wr", "wr_bytes", "discard", "discard_bytes", "flush"),
    *("ws", "ws_bytes", "cmp", "cmp_bytes", "readahead", "readahead_bytes"),
)
LATENCIES: Final = ("rd_latency", "wr_latency", "discard_latency", "flush_latency", "ws_latency")
OBJECTER: Final = ("op_r", "op_w", "op_rmw", "op_send", "op_send_bytes", "op_resend")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSample:
    """An image's client at one moment: ISO 8601 in UTC, and seconds since the watch began.
    `client` is `librbd`, `rbd-fuse`, ...; `counts` and `latencies` are named as in `COUNTS`,
    `LATENCIES` and `objecter.` with `OBJECTER`."""

    at: str
    elapsed_s: float
    image: str
    client: str
    counts: Mapping[str, int]
    latencies: Mapping[str, Spent]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedImage:
    """A moment of which nothing is known, and why."""

    at: str
    elapsed_s: float
    reason: str


def parse_image_counters(content: bytes) -> tuple[ImageSample | MissedImage, ...]:
    """The lines of an `image-counters.jsonl`, in order. Raises FormatError with the line."""
    return tuple(
        _sample(decoded_line(line, index, _WHAT), f"line {index}")
        for index, line in enumerate(content.splitlines(), start=1)
    )


def _sample(entry: Mapping[str, Any], where: str) -> ImageSample | MissedImage:
    at = text(entry, "at", where)
    elapsed_s = number(entry.get("elapsed_s"), f"{where}.elapsed_s")
    if "error" in entry:
        return MissedImage(at=at, elapsed_s=elapsed_s, reason=text(entry, "error", where))
    totals: dict[str, int] = {}
    spent: dict[str, Spent] = {}
    for name, one in mapping(entry.get("counters"), f"{where}.counters").items():
        path = f"{where}.counters.{name}"
        if not isinstance(one, list):
            totals[name] = count(one, path)
        elif len(one) == 2:
            spent[name] = Spent(operations=count(one[0], path), seconds=number(one[1], path))
        else:
            raise wrong(path, "a count and a sum of seconds were expected")
    return ImageSample(
        at=at,
        elapsed_s=elapsed_s,
        image=text(entry, "image", where),
        client=text(entry, "client", where),
        counts=totals,
        latencies=spent,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageWork:
    """What an image's client did in `seconds`. `counts` and `latencies` as in `ImageSample`."""

    image: str
    client: str
    seconds: float
    counts: Mapping[str, int]
    latencies: Mapping[str, Spent]


def image_work(samples: Sequence[ImageSample | MissedImage]) -> ImageWork | None:
    """Between the first and the last sample; None where there are not two, or the client was
    started anew between them."""
    told = [one for one in samples if isinstance(one, ImageSample)]
    if len(told) < 2:
        return None
    first, last = told[0], told[-1]
    counts = {name: now - first.counts.get(name, 0) for name, now in last.counts.items()}
    nothing = Spent(operations=0, seconds=0.0)
    latencies = {
        name: Spent(
            operations=now.operations - first.latencies.get(name, nothing).operations,
            seconds=max(0.0, now.seconds - first.latencies.get(name, nothing).seconds),
        )
        for name, now in last.latencies.items()
    }
    if min(counts.values(), default=0) < 0 or any(one.operations < 0 for one in latencies.values()):
        return None
    return ImageWork(
        image=last.image,
        client=last.client,
        seconds=last.elapsed_s - first.elapsed_s,
        counts=counts,
        latencies=latencies,
    )
