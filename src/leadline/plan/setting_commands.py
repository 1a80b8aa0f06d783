"""The commands that change a setting by hand, for dry runs and recommendations."""

from __future__ import annotations

import json
import shlex

from leadline.plan.models import Plan
from leadline.plan.settings import (
    CephConfig,
    Command,
    HostFile,
    KubernetesField,
    PoolOption,
    Setting,
    TargetOption,
    ZfsParameter,
)
from leadline.units import parse_size

ZFS_PARAMETERS = "/sys/module/zfs/parameters"


def setting_pools(plan: Plan, setting: Setting, cluster: str) -> tuple[str, ...]:
    """The pools of a cluster that a pool option is set on."""
    if setting.pool is None or setting.pool.pools:
        return setting.pool.pools if setting.pool else ()
    targets = [target for target in plan.own_targets if target.cluster == cluster]
    on_pools = [target.parsed for target in targets if target.kind and target.kind.on_ceph]
    return tuple(dict.fromkeys(url.options.get("data_pool") or url.pool for url in on_pools))


def setting_commands(
    plan: Plan, setting: Setting, value: str | None, cluster: str = "", *, undo: bool = False
) -> tuple[str, ...]:
    """The commands that set a value (None: unset it) on a cluster of the plan. `undo`: as the run
    restores it."""
    match setting.change:
        case CephConfig(who=who, name=name):
            verb = ("rm",) if value is None else ("set",)
            last = () if value is None else (value,)
            return (shlex.join(["ceph", "config", *verb, who, name, *last]),)
        case PoolOption(name=name):
            return tuple(
                shlex.join(["ceph", "osd", "pool", "set", pool, name, value or "unset"])
                for pool in setting_pools(plan, setting, cluster)
            )
        case ZfsParameter(name=name):
            text = module_value(value or "")
            return (f"echo {shlex.quote(text)} > {ZFS_PARAMETERS}/{name}",)
        case HostFile(path=path, hosts=hosts):
            line = f"echo {shlex.quote(value or '')} > {shlex.quote(path)}"
            return tuple(shlex.join(["ssh", host, line]) for host in hosts) or (line,)
        case KubernetesField():
            return (_kubectl(setting.change, value),)
        case Command() as command:
            text = command.restore if undo else command.apply
            return (shlex.join(command.argv(text, value or "")),)
        case TargetOption(option=option) if setting.image is not None:
            return (f"rbd create ... --{option.replace('_', '-')} {value}",)
        case TargetOption(option="ashift"):
            return (f"zpool create -o ashift={value} ...",)
        case TargetOption(option=option) if setting.zpool is not None:
            return (f"zpool add POOL {option} DEVICE  # of {value}",)
        case TargetOption(option=option):
            return (f"zfs set {option}={value} DATASET",)


def module_value(value: str) -> str:
    """A value as the ZFS module reads it: sizes in bytes."""
    try:
        return str(parse_size(value))
    except ValueError:
        return value


def _kubectl(field: KubernetesField, value: str | None) -> str:
    patch: object = field_value(value)
    for key in reversed(field.keys):
        patch = {key: patch}
    space = ["-n", field.namespace] if field.namespace else []
    kind = field.kind.lower()
    words = ["kubectl", *space, "patch", kind, field.name, "--type", "merge"]
    return shlex.join([*words, "-p", json.dumps(patch, separators=(",", ":"))])


def field_value(text: str | None) -> object:
    """A value of a Kubernetes field: a number, a truth value, null, or else a text."""
    try:
        found: object = json.loads(text) if text is not None else None
    except ValueError:
        return text
    return text if isinstance(found, dict | list) else found
