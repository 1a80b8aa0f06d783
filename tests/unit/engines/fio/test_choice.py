"""Which of fio's engines is tried first."""

from __future__ import annotations

import pytest

from leadline.engines.fio.choice import candidates
from leadline.plan.workload import EngineChoice, Pattern, Phase, Workload

_BOTH = frozenset({"io_uring", "libaio", "psync"})


def _at(*depths: int) -> Workload:
    phases = tuple(
        Phase(
            name=f"p{number}",
            pattern=Pattern.READ,
            block_size=4096,
            iodepth=depth,
            numjobs=1,
            size=1 << 20,
        )
        for number, depth in enumerate(depths)
    )
    return Workload(name="w", phases=phases, runtime_s=1.0)


@pytest.mark.parametrize("depths", [(1,), (16,), (1, 64)])
def test_io_uring_does_depths_that_it_keeps(depths: tuple[int, ...]) -> None:
    assert candidates(_at(*depths), _BOTH) == [EngineChoice.IO_URING, EngineChoice.LIBAIO]


@pytest.mark.parametrize("depths", [(10,), (3,), (16, 12)])
def test_libaio_does_those_that_io_uring_would_round_up(depths: tuple[int, ...]) -> None:
    assert candidates(_at(*depths), _BOTH) == [EngineChoice.LIBAIO]
