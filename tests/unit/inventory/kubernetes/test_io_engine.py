"""The cores of io-engine, as its arguments list them."""

from __future__ import annotations

import pytest

from leadline.inventory.kubernetes.operators import polled_cores


@pytest.mark.parametrize(
    ("arguments", "cores"),
    [
        (["-l1"], (1,)),
        (["-g$(MY_POD_IP)", "-l1,2", "-p=etcd:2379"], (1, 2)),
        (["-l", "1-3"], (1, 2, 3)),
        (["-l 2,4-5"], (2, 4, 5)),
        (["-l=7"], (7,)),
        (["--core-list", "1,2"], (1, 2)),
        (["-m", "0x6"], (1, 2)),
        (["--reactor-mask=0x1"], (0,)),
        ([], ()),
        (["-l"], ()),
        (["-l$(CORES)"], ()),
        (["-l1-99999999"], ()),
        (["-m", "many"], ()),
    ],
)
def test_cores(arguments: list[str], cores: tuple[int, ...]) -> None:
    assert polled_cores(arguments) == cores
