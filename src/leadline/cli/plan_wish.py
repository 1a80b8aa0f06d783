"""What the options of `leadline plan` wish for; raises `usage` for what makes no sense."""

from __future__ import annotations

import difflib

from leadline import errors
from leadline.errors import LeadlineError
from leadline.plan.volume_request import GIB, MOST_VOLUMES, PRESETS, RunnerKind, VolumeMode
from leadline.planning.models import Wish
from leadline.units import parse_size

# The study that this project began with (issue 6): its sizes in GiB, and volumes at a time.
_STUDY_VOLUMES = tuple(size * GIB for size in (150, 500, 1000))
_STUDY_COUNTS = (1, 5, 10)
STUDY_PROFILE = "odf-vm"


def wish_of(
    *,
    classes: tuple[str, ...],
    runner: str | None,
    vms: str | None,
    volumes: str | None,
    counts: str | None,
    mode: str | None,
    study: bool,
    vm_image: str | None,
) -> Wish:
    """The wish of a command line; what is not given is the study's, or small enough for today."""
    kind = RunnerKind(runner) if runner else (RunnerKind.VM if study else RunnerKind.POD)
    wish = Wish(
        classes=classes,
        runner=kind,
        vms=_vms(vms, kind, study),
        sizes=_sizes(volumes, study),
        counts=_counts(counts, study),
        mode=VolumeMode(mode) if mode else None,
    )
    _require_sense(wish, vm_image)
    return wish


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()] if text else []


def _vms(text: str | None, runner: RunnerKind, study: bool) -> tuple[str, ...]:
    words = _words(text)
    if words and runner is not RunnerKind.VM:
        raise LeadlineError(
            errors.USAGE, "--vm has an effect with --runner vm only", hint="add --runner vm"
        )
    for word in words:
        if word not in PRESETS:
            near = difflib.get_close_matches(word, PRESETS, n=1)
            raise LeadlineError(
                errors.USAGE,
                f"--vm: {word!r} is no size of a VM",
                context=[f"sizes: {', '.join(PRESETS)}"],
                hint=f"did you mean {near[0]!r}?" if near else None,
            )
    return tuple(words) or (tuple(PRESETS) if study else ("small",))


def _sizes(text: str | None, study: bool) -> tuple[int, ...]:
    found = []
    for word in _words(text):
        try:
            found.append(parse_size(word))
        except ValueError as error:
            raise LeadlineError(
                errors.USAGE, f"--volumes: {error}", hint="for instance 150Gi,500Gi"
            ) from error
        if found[-1] <= 0:
            raise LeadlineError(errors.USAGE, "--volumes: a volume has some size")
    return tuple(found) or (_STUDY_VOLUMES if study else ())


def _counts(text: str | None, study: bool) -> tuple[int, ...]:
    words = _words(text)
    for word in words:
        if not word.isascii() or not word.isdigit() or not 1 <= int(word) <= MOST_VOLUMES:
            raise LeadlineError(
                errors.USAGE, f"--count: numbers from 1 to {MOST_VOLUMES}, got {word!r}"
            )
    return tuple(int(word) for word in words) or (_STUDY_COUNTS if study else (1,))


def _require_sense(wish: Wish, vm_image: str | None) -> None:
    if wish.runner is RunnerKind.VM and wish.mode is VolumeMode.FILESYSTEM:
        raise LeadlineError(
            errors.USAGE,
            "a virtual machine takes its data disk as a block device",
            hint="leave --mode away",
        )
    if wish.runner is RunnerKind.VM and not vm_image:
        raise LeadlineError(
            errors.USAGE,
            "virtual machines need an image to boot from: --vm-image",
            hint="for instance --vm-image registry.example/containerdisks/debian:12",
        )
