"""The commands that apply recommended settings, and the plan of a run that confirms them."""

from __future__ import annotations

import json

from leadline.analysis.settings.facts import RecommendedSet, SettingsStudy
from leadline.plan.setting_commands import setting_commands


def apply_commands(study: SettingsStudy, chosen: RecommendedSet) -> tuple[str, ...]:
    """Return the commands that apply the chosen settings; of several clusters each in its part."""
    plan = study.run.plan
    several = len({target.cluster for target in plan.targets}) > 1
    lines: list[str] = []
    for name, value in chosen.settings.items():
        tried = [one.state.targets for one in chosen.states if name in one.state.settings]
        for cluster in dict.fromkeys(
            plan.target(target).cluster for targets in tried for target in targets
        ):
            lines += [f"# on {cluster}"] if several and cluster else []
            lines += setting_commands(plan, plan.setting(name), value, cluster)
    return tuple(lines)


def confirming_plan(study: SettingsStudy, chosen: RecommendedSet) -> str:
    """Return the lines of a plan that measures the chosen values together, next to the present
    state."""
    lines = ["design: full", "settings:"]
    for name, value in chosen.settings.items():
        setting = study.run.plan.setting(name)
        given = setting.model_dump(mode="json", exclude={"name"})
        given[setting.kind][setting.option or "values"] = [value]
        lines.append(f"  {json.dumps(name)}: {json.dumps(given)}")  # JSON is YAML
    return "\n".join(lines)
