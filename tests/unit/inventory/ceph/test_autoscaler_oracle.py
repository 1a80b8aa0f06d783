"""Our arithmetic against Ceph's own: pg_autoscaler of 16.2 as Debian's ceph-mgr-modules-core has
it, run here with the manager around it replaced."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.inventory.ceph.autoscaler import Mode, PoolDemand, Rule, Settings, advise

MODULE = Path("/usr/share/ceph/mgr/pg_autoscaler/module.py")
GIB = 1 << 30

pytestmark = pytest.mark.skipif(
    not MODULE.is_file(),
    reason="no ceph-mgr-modules-core here: the autoscaler is NOT compared with Ceph's own",
)


class _Anything:
    """Stands for decorators and types that the module names when it is loaded."""

    def __init__(self, *arguments: Any, **named: Any) -> None: ...

    def __call__(self, function: Any) -> Any:
        return function


class _Log:
    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: None


class _Manager:
    """A manager's module with the answers that the autoscaler asks for."""

    def __init__(self, osds: int, capacity: int, stored: dict[int, int]) -> None:
        self.log = _Log()
        self.osds, self.capacity, self.stored = osds, capacity, stored

    def get(self, what: str) -> Any:
        if what == "osd_stats":
            each = self.capacity // self.osds // 1024
            return {"osd_stats": [{"osd": one, "kb": each} for one in range(self.osds)]}
        assert what == "df"
        stats = [{"id": key, "stats": {"stored": value}} for key, value in self.stored.items()]
        return {"pools": stats}


class _Map:
    """OSD map and CRUSH map with one root."""

    def __init__(self, osds: int, pools: dict[int, dict[str, Any]], rates: dict[int, float]):
        self.osds, self.pools, self.rates = osds, pools, rates

    def get_pools(self) -> dict[int, dict[str, Any]]:
        return self.pools

    def get_crush(self) -> _Map:
        return self

    def get_rule_by_id(self, number: int) -> dict[str, str]:
        return {"rule_name": "rule"}

    def get_rule_root(self, name: str) -> int:
        return -1

    def get_osds_under(self, root: int) -> list[int]:
        return list(range(self.osds))

    def pool_raw_used_rate(self, number: int) -> float:
        return self.rates[number]


@pytest.fixture(scope="module")
def oracle() -> Any:
    """Ceph's class, with the manager's machinery taken away from under it."""
    stubs = {
        "mgr_util": {"format_bytes": str},
        "prettytable": {"PrettyTable": _Anything},
        "mgr_module": {
            "HealthChecksT": dict,
            "CLIReadCommand": _Anything,
            "CLIWriteCommand": _Anything,
            "CRUSHMap": object,
            "MgrModule": _Manager,
            "Option": dict,
            "OSDMap": object,
        },
    }
    before = {name: sys.modules.get(name) for name in stubs}
    for name, members in stubs.items():
        stub = types.ModuleType(name)
        vars(stub).update(members)
        sys.modules[name] = stub
    try:
        spec = importlib.util.spec_from_file_location("ceph_pg_autoscaler", MODULE)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        for name, had in before.items():
            sys.modules.pop(name)
            if had is not None:
                sys.modules[name] = had
    return module


POOLS = st.lists(
    st.fixed_dictionaries(
        {
            "size": st.integers(1, 6),
            "rate": st.sampled_from([1.0, 1.5, 2.0, 3.0]),
            "pg_num": st.sampled_from([1, 8, 16, 32, 100, 128, 256, 512, 1024, 4096]),
            "stored": st.integers(0, 200 * GIB),
            "ratio": st.sampled_from([0.0, 0.0, 0.1, 0.49, 0.49, 1.0, 3.0]),
            "bytes": st.sampled_from([0, 0, 0, 50 * GIB, 900 * GIB]),
            "bias": st.sampled_from([1.0, 1.0, 4.0, 0.5]),
            "bulk": st.booleans(),
            "least": st.sampled_from([None, None, 1, 16, 64]),
            "most": st.sampled_from([None, None, None, 8, 128]),
            "mode": st.sampled_from(list(Mode)),
        }
    ),
    min_size=1,
    max_size=7,
)


@settings(max_examples=400)
@given(rows=POOLS, osds=st.integers(1, 60), target=st.sampled_from([50, 100, 200, 400]))
def test_every_number_is_the_one_that_ceph_16_2_computes(
    oracle: Any, rows: list[dict[str, Any]], osds: int, target: int
) -> None:
    capacity = osds * 100 * GIB
    theirs = {one["pool_id"]: one for one in _theirs(oracle, rows, osds, capacity, target)}
    ours = advise(
        [_ours(number, row) for number, row in enumerate(rows, 1)],
        Settings(
            rule=Rule.WHAT_IS_LEFT, osds=osds, capacity_bytes=capacity, target_pg_per_osd=target
        ),
    )
    assert len(ours) == len(theirs) == len(rows)
    for one in ours:
        said = theirs[one.pool.pool_id]
        assert int(one.raw) == said["pg_num_ideal"]
        assert one.final == said["pg_num_final"]
        assert one.acts == said["would_adjust"]
        assert one.effective_target_ratio == pytest.approx(said["effective_target_ratio"])


def _ours(number: int, row: dict[str, Any]) -> PoolDemand:
    return PoolDemand(
        pool_id=number,
        name=f"p{number}",
        size=row["size"],
        raw_rate=row["rate"],
        pg_num=row["pg_num"],
        raw_used_bytes=row["stored"] * row["rate"],
        target_ratio=row["ratio"],
        target_bytes=row["bytes"],
        bias=row["bias"],
        bulk=row["bulk"],
        pg_num_min=row["least"],
        pg_num_max=row["most"],
        mode=row["mode"],
    )


def _theirs(
    oracle: Any, rows: list[dict[str, Any]], osds: int, capacity: int, target: int
) -> list[dict[str, Any]]:
    pools = {}
    for number, row in enumerate(rows, 1):
        options = {"pg_autoscale_bias": row["bias"]}
        for key, field in (
            ("target_size_ratio", "ratio"), ("target_size_bytes", "bytes"),
            ("pg_num_min", "least"), ("pg_num_max", "most"),
        ):  # fmt: skip
            if row[field]:
                options[key] = row[field]
        pools[number] = {
            "pool": number,
            "pool_name": f"p{number}",
            "size": row["size"],
            "crush_rule": 0,
            "pg_num_target": row["pg_num"],
            "pg_autoscale_mode": row["mode"].value,
            "flags_names": "hashpspool,bulk" if row["bulk"] else "hashpspool",
            "options": options,
        }
    stored = {number: row["stored"] for number, row in enumerate(rows, 1)}
    rates = {number: row["rate"] for number, row in enumerate(rows, 1)}
    scaler = oracle.PgAutoscaler.__new__(oracle.PgAutoscaler)
    _Manager.__init__(scaler, osds, capacity, stored)
    scaler.mon_target_pg_per_osd = target
    by_name = {one["pool_name"]: one for one in pools.values()}
    status, _ = scaler._get_pool_status(_Map(osds, pools, rates), by_name)
    return list(status)
