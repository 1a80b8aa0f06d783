"""How two load generators differ, and what local targets stand on."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.inventory.differences.model import Collector, Differing, Topic
from leadline.inventory.differences.words import counted
from leadline.inventory.models import BlockDevice, HostInventory, TargetInventory
from leadline.units import format_size
from leadline.visible import visible

# Firmware and the kernel keep a little for themselves, not always the same.
_MEMORY_SHARE = 0.02


def host_differences(
    base: HostInventory,
    candidate: HostInventory,
    targets: Mapping[str, tuple[str, str]] | None = None,
) -> Differing:
    """The machines that generated the load. `targets` maps each subject to its target's name on
    both sides; by default targets of the same name are compared."""
    found = Collector()
    facts = (
        ("architecture", base.architecture, candidate.architecture),
        ("cpu", base.cpu_model, candidate.cpu_model),
        ("cores", counted(base.cores, "core"), counted(candidate.cores, "core")),
        ("virtualization", base.virtualization, candidate.virtualization),
        ("operating_system", base.operating_system, candidate.operating_system),
        ("kernel", base.kernel, candidate.kernel),
        ("fio", base.fio_version, candidate.fio_version),
    )
    for key, ours, theirs in facts:
        found.compare(
            f"client.{key}",
            Topic.CLIENT,
            visible(ours) or None,
            visible(theirs) or None,
            what=f"{key.replace('_', ' ')} of the load generator",
            same="",
        )
    found.compare(
        "client.memory",
        Topic.CLIENT,
        format_size(base.memory_bytes),
        format_size(candidate.memory_bytes),
        same="",
        alike=lambda: (
            abs(base.memory_bytes - candidate.memory_bytes)
            <= _MEMORY_SHARE * max(base.memory_bytes, candidate.memory_bytes)
        ),
    )
    if not found.differences:
        found.identical.append(_machine(base, candidate))
    pairs = targets
    if pairs is None:
        names = {one.target for one in candidate.targets}
        pairs = {
            one.target: (one.target, one.target) for one in base.targets if one.target in names
        }
    for subject, (ours, theirs) in pairs.items():
        _target(found, subject, base, candidate, ours, theirs)
    return found.result()


def _machine(base: HostInventory, candidate: HostInventory) -> str:
    which = "the same load generator" if base.hostname == candidate.hostname else "load generators"
    cores = counted(base.cores, "core")
    return f"{which}: {visible(base.cpu_model)}, {cores}, {format_size(base.memory_bytes)}"


def _target(
    found: Collector,
    subject: str,
    base: HostInventory,
    candidate: HostInventory,
    base_name: str,
    candidate_name: str,
) -> None:
    ours, theirs = _of(base, base_name), _of(candidate, candidate_name)
    if ours is None or theirs is None:
        return
    shown = visible(subject)
    where = f"targets.{shown}"
    found.compare(
        f"{where}.filesystem",
        Topic.MEDIA,
        visible(ours.mount.filesystem) if ours.mount else None,
        visible(theirs.mount.filesystem) if theirs.mount else None,
        what=f"filesystem of {shown}",
        target=subject,
    )
    if ours.mount and theirs.mount and ours.mount.filesystem == theirs.mount.filesystem:
        options = [set(one.mount.options.split(",")) for one in (ours, theirs) if one.mount]
        found.compare(
            f"{where}.mount_options",
            Topic.MEDIA,
            visible(",".join(sorted(options[0] - options[1]))) or "not set",
            visible(",".join(sorted(options[1] - options[0]))) or "not set",
            same="",
            target=subject,
        )
    found.compare(
        f"{where}.device",
        Topic.MEDIA,
        _device(base, ours),
        _device(candidate, theirs),
        what=f"device under {shown}:",
        target=subject,
    )


def _of(host: HostInventory, target: str) -> TargetInventory | None:
    return next((one for one in host.targets if one.target == target), None)


def _device(host: HostInventory, target: TargetInventory) -> str | None:
    """The disk below a target: what it is, not what it is called. None where there is none or it
    is not known."""
    source = target.device or (target.mount.source if target.mount else "")
    by_name = {one.name: one for one in host.block_devices}
    device = by_name.get(source.rpartition("/")[2])
    seen = set()
    while device and device.parent in by_name and device.name not in seen:
        seen.add(device.name)
        device = by_name[device.parent]
    return _kind(device) if device else None


def _kind(device: BlockDevice) -> str:
    medium = "rotating" if device.rotational else "solid state"
    model = visible(device.model.strip()) or "no model told"
    scheduler = f", scheduler {visible(device.scheduler)}" if device.scheduler else ""
    return f"{model}, {medium}, {format_size(device.size_bytes)}{scheduler}"
