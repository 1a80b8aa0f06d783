"""What a user sets for the pools of one command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """What a user sets for the pools of one command; None: the default.

    `pg_num` is fixed: the autoscaler leaves the pool alone. `target_ratio` is the share of the
    capacity by which the autoscaler sizes a pool. `erasure_profile` are keys of erasure-code
    profiles. `no_redundancy` is the consent to pools without copies. `kms` is the CSI driver's name
    of a key management service, `key_rotation` the schedule on which keys of volumes are rotated.
    """

    pg_num: int | None = None
    target_ratio: float | None = None
    erasure_profile: Mapping[str, str] = field(default_factory=dict)
    no_redundancy: bool = False
    kms: str | None = None
    key_rotation: str | None = None

    def profile(self) -> dict[str, str]:
        """Return the erasure-code profile without chunks and placement; default: jerasure."""
        given = dict(self.erasure_profile)
        if "plugin" not in given:
            given = {"plugin": "jerasure", "technique": "reed_sol_van"} | given
        return given


DEFAULT_OPTIONS = PoolOptions()
# Keys of a profile that say how data is coded; chunks and placement come from the pool's name.
PROFILE_KEYS = ("plugin", "technique", "stripe_unit", "w", "packetsize", "l", "c", "d")
NO_CONSENT = "it has no redundancy: one failed OSD loses its data (--no-redundancy is your consent)"
