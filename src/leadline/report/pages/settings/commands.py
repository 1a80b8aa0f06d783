"""The commands that apply recommended settings, and the plan of a run that confirms them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence

from leadline.analysis.settings.facts import RecommendedSet, SettingsStudy
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
from leadline.plan.target_url import TargetKind

_ZFS_PARAMETERS = "/sys/module/zfs/parameters"


def apply_commands(study: SettingsStudy, chosen: RecommendedSet) -> tuple[str, ...]:
    """Return the commands that apply the chosen settings for good."""
    plan = study.run.plan
    targets: dict[str, list[str]] = {name: [] for name in chosen.settings}
    for effect in chosen.states:
        for name in effect.state.settings:
            targets[name] += effect.state.targets
    return tuple(
        line
        for name, value in chosen.settings.items()
        for line in _commands(plan, plan.setting(name), value, targets[name])
    )


def _commands(plan: Plan, setting: Setting, value: str, targets: Sequence[str]) -> Iterator[str]:
    change = setting.change
    clusters = dict.fromkeys(plan.target(name).cluster for name in targets)
    if len({target.cluster for target in plan.targets}) > 1:
        yield f"# cluster {' and '.join(filter(None, clusters)) or 'of this machine'}"
    if isinstance(change, CephConfig):
        yield shlex.join(("ceph", "config", "set", change.who, change.name, value))
    elif isinstance(change, PoolOption):
        for pool in change.pools or _locations(plan, targets):
            pool = pool.partition("/")[0]
            yield shlex.join(("ceph", "osd", "pool", "set", pool, change.name, value))
    elif isinstance(change, ZfsParameter):
        yield _write(f"{_ZFS_PARAMETERS}/{change.name}", value)
    elif isinstance(change, HostFile):
        write = _write(change.path, value)
        yield from (shlex.join(("ssh", host, write)) for host in change.hosts)
        if not change.hosts:
            yield write
    elif isinstance(change, KubernetesField):
        yield _patch(change, value)
    elif isinstance(change, Command):
        yield shlex.join(change.argv(change.apply, value))
    else:
        yield from _made_with(plan, change, value, targets)


def _write(path: str, value: str) -> str:
    return f"echo {shlex.quote(value)} > {shlex.quote(path)}"


def _locations(plan: Plan, targets: Sequence[str]) -> tuple[str, ...]:
    """The pools of Ceph targets, or the datasets of ZFS targets, each once."""
    urls = (plan.target(name).parsed for name in targets)
    return tuple(dict.fromkeys(url.location for url in urls))


def _patch(change: KubernetesField, value: str) -> str:
    body: object = json_value(value)
    for key in reversed(change.keys):
        body = {key: body}
    group = change.api.partition("/")[0] if "/" in change.api else ""
    kind = f"{change.kind.lower()}.{group}" if group else change.kind.lower()
    namespace = ("--namespace", change.namespace) if change.namespace else ()
    given = ("--type", "merge", "--patch", json.dumps(body))
    return shlex.join(("kubectl", "patch", kind, change.name, *namespace, *given))


def json_value(value: str) -> object:
    """Return the number or truth value that a text is, else the text."""
    try:
        found = json.loads(value)
    except ValueError:
        return value
    return found if isinstance(found, bool | int | float) else value


def _made_with(
    plan: Plan, change: TargetOption, value: str, targets: Sequence[str]
) -> Iterator[str]:
    """Yield how to make a dataset or an image with an option; what exists keeps its layout."""
    for name in targets:
        url = plan.target(name).parsed.with_options({change.option: value})
        if url.kind is TargetKind.ZFS:
            words = ("zfs", "set", f"{change.option}={value}", url.location)
        else:
            layout = (word for pair in url.image_layout.items() for word in pair)
            pool = url.location.partition("/")[0]
            words = ("rbd", "create", "--size", "SIZE", *layout, f"{pool}/IMAGE")
        yield f"{shlex.join(words)}  # new data only"


def confirming_plan(study: SettingsStudy, chosen: RecommendedSet) -> str:
    """Return the lines of a plan that measures the chosen values together, next to the present
    state."""
    lines = ["design: full", "settings:"]
    for name, value in chosen.settings.items():
        setting = study.run.plan.setting(name)
        given = setting.model_dump(mode="json", exclude={"name"})
        kind = given[setting.kind]
        kind[setting.option or "values"] = [value]
        # JSON is YAML; Setting.name is one word.
        lines.append(f"  {name}: {json.dumps(given)}")
    return "\n".join(lines)
