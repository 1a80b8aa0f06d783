"""The NVMe controllers of the machine that made the load, beside its block devices."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.inventory.models import NvmeController
from leadline.report.document import Block, Cell, Column, Table
from leadline.report.wording import NOT_SHOWN, count_text, visible
from leadline.units import format_size


def nvme_blocks(controllers: Sequence[NvmeController]) -> tuple[Block, ...]:
    """A row for each controller; none of a machine without any."""
    if not controllers:
        return ()
    rows = []
    for one in controllers:
        spaces = [f"{space.name} ({format_size(space.size_bytes)})" for space in one.namespaces]
        limits = {space.max_transfer_bytes for space in one.namespaces if not space.has_no_limit}
        free = any(space.has_no_limit for space in one.namespaces)
        most = "no limit" if free else format_size(max(limits)) if max(limits, default=0) else ""
        # The first queue is for administration.
        queues = count_text(max(0, one.queues - 1), "queue") if one.queues else NOT_SHOWN
        depth = f" of {one.queue_depth}" if one.queues and one.queue_depth else ""
        texts = (
            one.name,
            one.model,
            one.transport,
            one.address,
            one.state,
            queues + depth,
            most,
            ", ".join(spaces),
            one.multipath_policy,
            one.subsystem_nqn,
        )
        shown = (visible(text) or NOT_SHOWN for text in texts)
        rows.append(tuple(Cell(text=text, sort=text) for text in shown))
    titles = (
        *("controller", "model", "transport", "address", "state", "I/O queues"),
        *("largest transfer", "namespaces", "multipath policy", "subsystem"),
    )
    table = Table(
        id="nvme",
        caption="NVMe controllers of the host",
        columns=tuple(Column(title=title, rank=max(0, at - 3)) for at, title in enumerate(titles)),
        rows=tuple(rows),
    )
    return (table,)
