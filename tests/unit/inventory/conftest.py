from __future__ import annotations

from pathlib import Path

import pytest

RECORDED = Path(__file__).resolve().parents[2] / "recorded"


def dumps_of(name: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (RECORDED / name).glob("*.json")}


@pytest.fixture
def multi_az() -> dict[str, bytes]:
    """Six OSDs in three zones, autoscaler off, fio at work."""
    return dumps_of("ceph-multi-az")


@pytest.fixture
def single_az() -> dict[str, bytes]:
    """Three OSDs in three racks of one zone; a pool without application."""
    return dumps_of("ceph-single-az")


@pytest.fixture
def scaled() -> dict[str, bytes]:
    """Three OSDs in three zones, autoscaler on."""
    return dumps_of("ceph-autoscaler-on")
