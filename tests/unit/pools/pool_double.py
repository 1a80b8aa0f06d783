"""A cluster that answers the commands for pools as a Ceph 16.2.15 does; tests/real/test_pools.py
holds the real one to the same contract."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leadline.connect.ceph import CommandFailed

RECORDED = Path(__file__).parents[2] / "recorded"
_NOTHING: dict[str, Any] = {}
# Names of arguments that mean something else in Python.
_PYTHONIC = {"class": "klass", "type": "level"}


class ClusterDouble:
    """Begins as the recorded cluster with three zones. `deletion` is mon_allow_pool_delete as the
    monitors' file has it; `pg_state` that of placement groups of new pools."""

    def __init__(self, folder: Path = RECORDED / "ceph-multi-az", *, deletion: bool = True) -> None:
        dump = json.loads((folder / "osd_dump.json").read_bytes())
        crush = json.loads((folder / "osd_crush_dump.json").read_bytes())
        fs = json.loads((folder / "fs_dump.json").read_bytes())
        self.pools: dict[str, dict[str, Any]] = {pool["pool_name"]: pool for pool in dump["pools"]}
        self.profiles: dict[str, dict[str, str]] = dump["erasure_code_profiles"]
        self.rules: dict[str, dict[str, Any]] = {rule["rule_name"]: rule for rule in crush["rules"]}
        names = {pool["pool"]: pool["pool_name"] for pool in dump["pools"]}
        self.filesystems: dict[str, list[str]] = {
            filesystem["mdsmap"]["fs_name"]: [
                names[pool] for pool in filesystem["mdsmap"]["data_pools"]
            ]
            for filesystem in fs["filesystems"]
        }
        self.config: dict[tuple[str, str], str] = {}
        self.keys: dict[str, str] = {}
        self.deletion = deletion
        self.pg_state = "active+clean"
        self.autoscaled: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self._next = max(names) + 1

    def snapshot(self) -> str:
        """All that pools change."""
        parts = (self.pools, self.profiles, self.rules, self.filesystems, self.keys)
        return json.dumps([*parts, sorted(self.config.items())], sort_keys=True)

    def mgr(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes:
        if prefix == "osd pool autoscale-status":
            return json.dumps(self.autoscaled).encode()
        assert prefix == "pg ls-by-pool", prefix
        pool = self.pools[str(arguments["poolstr"])]
        return json.dumps({"pg_stats": [{"state": self.pg_state}] * pool["pg_num"]}).encode()

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: Any) -> bytes:
        self.asked.append(prefix)
        arguments.pop("format", None)
        name = "_" + prefix.replace(" ", "_").replace("-", "_")
        answer: Callable[..., object] = getattr(self, name)
        found = answer(**{_PYTHONIC.get(key, key): value for key, value in arguments.items()})
        if isinstance(found, str):
            return found.encode()
        return b"" if found is None else json.dumps(found).encode()

    # --- what is read

    def _osd_dump(self) -> object:
        pools = list(self.pools.values())
        return {"pools": pools, "erasure_code_profiles": self.profiles}

    def _osd_crush_rule_dump(self) -> object:
        return list(self.rules.values())

    def _fs_ls(self) -> object:
        return [{"name": name, "data_pools": pools} for name, pools in self.filesystems.items()]

    def _config_dump(self) -> object:
        return [
            {"section": section, "name": name, "value": value, "mask": ""}
            for (section, name), value in self.config.items()
        ]

    def _config_key_get(self, key: str) -> str:
        if key not in self.keys:
            raise _refused(errno.ENOENT, "config-key get")
        return self.keys[key]

    # --- what is changed

    def _config_key_set(self, key: str, val: str) -> None:
        self.keys[key] = val

    def _config_key_rm(self, key: str) -> None:
        self.keys.pop(key, None)

    def _config_set(self, who: str, name: str, value: str) -> None:
        self.config[who, name] = value

    def _config_rm(self, who: str, name: str) -> None:
        self.config.pop((who, name), None)

    def _osd_erasure_code_profile_set(self, name: str, profile: list[str]) -> None:
        wanted = dict(item.split("=", 1) for item in profile)
        wanted.setdefault("crush-device-class", "")
        if self.profiles.get(name, wanted) != wanted:
            raise _refused(errno.EPERM, "osd erasure-code-profile set", "will not override")
        self.profiles[name] = wanted

    def _osd_erasure_code_profile_rm(self, name: str) -> None:
        if any(pool.get("erasure_code_profile") == name for pool in self.pools.values()):
            raise _refused(errno.EBUSY, "osd erasure-code-profile rm", f"{name} is used")
        self.profiles.pop(name, None)

    def _osd_crush_rule_create_replicated(
        self,
        name: str,
        root: str,
        level: str,
        klass: str = "",
    ) -> None:
        self._add_rule(name, 1, f"{root}~{klass}" if klass else root, "chooseleaf_firstn", level)

    def _osd_crush_rule_create_erasure(self, name: str, profile: str) -> None:
        known = self.profiles[profile]
        klass = known.get("crush-device-class", "")
        root = known["crush-root"] + (f"~{klass}" if klass else "")
        self._add_rule(name, 3, root, "chooseleaf_indep", known["crush-failure-domain"])

    def _add_rule(self, name: str, kind: int, item: str, choose: str, level: str) -> None:
        if name in self.rules:
            return  # "rule already exists", status 0
        number = max((rule["rule_id"] for rule in self.rules.values()), default=-1) + 1
        steps = [
            {"op": "take", "item": -1, "item_name": item},
            {"op": choose, "num": 0, "type": level},
            {"op": "emit"},
        ]
        self.rules[name] = {"rule_id": number, "rule_name": name, "type": kind, "steps": steps}

    def _osd_crush_rule_rm(self, name: str) -> None:
        if name not in self.rules:
            return  # "rule does not exist", status 0
        number = self.rules[name]["rule_id"]
        if any(pool["crush_rule"] == number for pool in self.pools.values()):
            raise _refused(errno.EBUSY, "osd crush rule rm", f"crush rule {name} is in use")
        del self.rules[name]

    def _osd_pool_create(
        self,
        pool: str,
        pool_type: str,
        rule: str,
        pg_num: int = 32,
        pgp_num: int = 32,
        size: int = 0,
        erasure_code_profile: str = "",
        yes_i_really_mean_it: bool = False,
    ) -> None:
        if pool in self.pools:
            return  # "pool already exists", status 0
        if size == 1:
            assert yes_i_really_mean_it
        profile = self.profiles.get(erasure_code_profile, _NOTHING)
        wide = int(profile.get("k", 0)) + int(profile.get("m", 0))
        self.pools[pool] = {
            "pool": self._next,
            "pool_name": pool,
            "type": 3 if pool_type == "erasure" else 1,
            "size": wide or size,
            "min_size": 2,
            "crush_rule": self.rules[rule]["rule_id"],
            "pg_num": pg_num,
            "flags_names": "hashpspool",
            "erasure_code_profile": erasure_code_profile,
            "application_metadata": {},
        }
        self._next += 1

    def _osd_pool_set(self, pool: str, var: str, val: str) -> None:
        if var == "allow_ec_overwrites":
            self.pools[pool]["flags_names"] += ",ec_overwrites"
        elif var == "target_size_ratio":
            self.pools[pool].setdefault("options", {})[var] = float(val)
        elif var == "pg_autoscale_mode":
            self.pools[pool][var] = val
        else:
            self.pools[pool][var] = int(val)

    def _osd_pool_application_enable(self, pool: str, app: str) -> None:
        self.pools[pool]["application_metadata"].setdefault(app, {})

    def _osd_pool_application_set(self, pool: str, app: str, key: str, value: str) -> None:
        labels = self.pools[pool]["application_metadata"]
        if app not in labels:
            raise _refused(errno.ENOENT, "osd pool application set", f"{app} is not enabled")
        labels[app][key] = value

    def _fs_add_data_pool(self, fs_name: str, pool: str) -> None:
        if self.pools[pool]["application_metadata"].keys() - {"cephfs"}:
            raise _refused(errno.EINVAL, "fs add_data_pool", "pool already has an application")
        self.pools[pool]["application_metadata"]["cephfs"] = {"data": fs_name}
        self.filesystems[fs_name].append(pool)

    def _fs_rm_data_pool(self, fs_name: str, pool: str) -> None:
        if self.filesystems[fs_name][0] == pool:
            raise _refused(errno.EINVAL, "fs rm_data_pool", "cannot remove default data pool")
        self.filesystems[fs_name].remove(pool)

    def _osd_pool_delete(self, pool: str, pool2: str, yes_i_really_really_mean_it: bool) -> None:
        if pool not in self.pools:
            return  # "pool does not exist", status 0
        allowed = self.config.get(("mon", "mon_allow_pool_delete"))
        if not (self.deletion if allowed is None else allowed == "true"):
            said = (
                "pool deletion is disabled; you must first set the mon_allow_pool_delete config "
                "option to true before you can destroy a pool"
            )
            raise _refused(errno.EPERM, "osd pool delete", said)
        if any(pool in pools for pools in self.filesystems.values()):
            raise _refused(errno.EBUSY, "osd pool delete", f"pool {pool} is in use by CephFS")
        assert pool == pool2
        assert yes_i_really_really_mean_it
        del self.pools[pool]


def _refused(number: int, command: str, said: str = "") -> CommandFailed:
    return CommandFailed(number, command, said)
