"""What sets imported targets apart, as files say it and as the command line adds it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leadline import errors
from leadline.errors import LeadlineError
from leadline.label_words import is_label_word
from leadline.visible import visible


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenLabel:
    """A label of the command line; of every target where it names none."""

    key: str
    value: str
    target: str | None = None


def parse_label(text: str) -> GivenLabel:
    """`[TARGET=]KEY=VALUE`; a target's name may hold `=`. Raises LeadlineError (`usage`)."""
    *target, key, value = text.rsplit("=", 2) if text.count("=") > 1 else text.partition("=")[::2]
    if not is_label_word(key) or not is_label_word(value) or target == [""]:
        raise LeadlineError(
            errors.USAGE,
            f"{text!r} is no label",
            hint="write it as KEY=VALUE or TARGET=KEY=VALUE, like 'cores=2'; key and value hold "
            "no comma",
        )
    return GivenLabel(key=key, value=value, target=target[0] if target else None)


@dataclass(kw_only=True)
class TargetLabels:
    """The labels of one archive's targets."""

    by_target: dict[str, dict[str, str]] = field(default_factory=dict)

    def take(self, target: str, told: Mapping[str, str], source: str) -> None:
        """What a file (`source`) says of a target. Raises LeadlineError (`usage`) where another
        has said otherwise."""
        labels = self.by_target.setdefault(target, {})
        for key, value in told.items():
            if labels.setdefault(key, value) != value:
                raise _otherwise(target, key, labels[key], value, f"{source} says")

    def give(self, target: str, label: GivenLabel) -> None:
        labels = self.by_target[target]
        if labels.setdefault(label.key, label.value) != label.value:
            raise _otherwise(target, label.key, labels[label.key], label.value, "--label says")


def label_targets(runs: Sequence[TargetLabels], given: Sequence[GivenLabel]) -> None:
    """Add the command line's labels. Raises LeadlineError (`usage`) for one of a target that no
    file names, for one that has a target's name as its key, and for one that contradicts what was
    said."""
    names = {target for run in runs for target in run.by_target}
    for label in given:
        if label.target is None and label.key in names:
            raise LeadlineError(
                errors.USAGE,
                f"--label says {visible(label.value)!r} of the target {visible(label.key)!r}, "
                "which is no KEY=VALUE",
                hint=f"write it as TARGET=KEY=VALUE, like '{visible(label.key)}=cores=2'; "
                "nothing was imported",
            )
        found = [
            (run, target)
            for run in runs
            for target in run.by_target
            if label.target in (None, target)
        ]
        if not found:
            raise _unknown(label.target or "", [target for run in runs for target in run.by_target])
        for run, target in found:
            run.give(target, label)


def _otherwise(target: str, key: str, before: str, now: str, who: str) -> LeadlineError:
    return LeadlineError(
        errors.USAGE,
        f"target {visible(target)!r} has two values of the label {visible(key)!r}: "
        f"{visible(before)} and {visible(now)}",
        context=[f"{visible(who)} {visible(key)}={visible(now)}"],
        hint="a label is a target's: what differs in it are two targets, with a name each; nothing "
        "was imported",
    )


def _unknown(name: str, known: Sequence[str]) -> LeadlineError:
    near = difflib.get_close_matches(name, known, n=1)
    shown = ", ".join(map(visible, dict.fromkeys(known)))
    return LeadlineError(
        errors.USAGE,
        f"--label names the target {visible(name)!r}, which no file has",
        context=[f"targets: {shown[:500]}"],
        hint=f"did you mean {visible(near[0])!r}?" if near else "nothing was imported",
    )
