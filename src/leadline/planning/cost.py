"""What a plan costs: time and bytes. Pure.

What the cluster will do is not known before it is measured; what is assumed is said with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline.plan.volume_request import VolumeMode
from leadline.planning.models import DraftTarget, Load

# All volumes of a target together: what one hard disk, or a thin slice of a busy cluster, writes.
PREFILL_BPS = 100 * (1 << 20)
# Claiming and binding volumes, starting runners, and removing all of it. On the tests' cluster of
# one node two targets with four trials each took 53 s besides their I/O; drivers that attach
# volumes over a network take longer.
SET_UP_S = 30.0
# A guest boots, and may have to install fio; not measured, since no machine of ours runs KubeVirt.
VM_SET_UP_S = 180.0
# Starting fio and fetching its results by way of the API server.
BETWEEN_TRIALS_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one target, or of all. `set_up_s` is everything that is neither I/O nor prefill."""

    trials: int
    io_s: float
    prefill_bytes: int
    prefill_s: float
    set_up_s: float
    claimed_bytes: int
    volumes: int

    @property
    def total_s(self) -> float:
        return self.io_s + self.prefill_s + self.set_up_s


def cost_of(target: DraftTarget, load: Load) -> Cost:
    each = load.span_bytes if target.mode is VolumeMode.BLOCK else load.files_bytes
    prefilled = each * target.count if load.prefill else 0
    started = VM_SET_UP_S if target.vm else SET_UP_S
    return Cost(
        trials=load.trials,
        io_s=load.io_s,
        prefill_bytes=prefilled,
        prefill_s=prefilled / PREFILL_BPS,
        set_up_s=started + load.trials * BETWEEN_TRIALS_S,
        claimed_bytes=target.claimed_bytes,
        volumes=target.count,
    )


def total(costs: Sequence[Cost]) -> Cost:
    """Targets are prefilled and measured one after another."""
    return Cost(
        trials=sum(one.trials for one in costs),
        io_s=sum(one.io_s for one in costs),
        prefill_bytes=sum(one.prefill_bytes for one in costs),
        prefill_s=sum(one.prefill_s for one in costs),
        set_up_s=sum(one.set_up_s for one in costs),
        claimed_bytes=sum(one.claimed_bytes for one in costs),
        volumes=sum(one.volumes for one in costs),
    )
