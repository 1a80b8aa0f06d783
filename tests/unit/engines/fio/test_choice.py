"""Which of fio's engines is tried first."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline import errors
from leadline.engines.fio.choice import candidates
from leadline.engines.fio.local import FioEngine
from leadline.errors import LeadlineError
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import EngineChoice, Pattern, Phase, Workload
from tests.local_shell import stub

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


_FIO = """case $1 in
--version) echo fio-3.20 ;;
--enghelp) printf 'Available IO engines:\\n\\t{engines}\\n' ;;
--enghelp=rados) printf 'pool    : Ceph pool\\n{options}\\n' ;;
esac"""


@pytest.mark.parametrize(
    ("engines", "options", "kind", "fact"),
    [
        ("rbd", "", errors.ENGINE_UNKNOWN, "this fio has no engine 'rados'"),
        ("rados", "conf    : path", errors.FIO_TOO_OLD, "has no option 'touch_objects'"),
        ("rados", "touch_objects : create", errors.FIO_TOO_OLD, "has no option 'conf'"),
    ],
)
def test_a_fio_that_cannot_use_objects_is_refused(
    tmp_path: Path, engines: str, options: str, kind: errors.ErrorKind, fact: str
) -> None:
    fio = stub(tmp_path / "bin", "fio", _FIO.format(engines=engines, options=options)) / "fio"
    with pytest.raises(LeadlineError, match=fact) as caught:
        FioEngine(str(fio)).check(_at(1), TargetKind.RADOS)
    assert caught.value.kind is kind
