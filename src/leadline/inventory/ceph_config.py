"""Reads versions, configuration and what follows from it: messenger modes, autoscaler settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from leadline.inventory import autoscaler
from leadline.inventory.ceph import (
    AutoscalerSettings,
    Crypt,
    DaemonVersion,
    Encryption,
    FileSetting,
    Osd,
    Setting,
    Wire,
    WireMode,
)
from leadline.inventory.ceph_dumps import Node
from leadline.inventory.redaction import redact_text

_VERSION = re.compile(
    r"ceph version (?P<number>\d+(?:\.\d+)*)\S*(?: \([0-9a-f]*\))? *(?P<name>\w*)"
)
# Sources of a running value that neither the database nor Ceph's defaults explain.
_ELSEWHERE = {"file", "env", "cmdline", "override"}


def read_versions(versions: Node | None) -> tuple[DaemonVersion, ...] | None:
    """`versions`, one entry per kind of daemon and release."""
    if versions is None:
        return None
    found = []
    for kind, counts in versions.items():
        if kind == "overall":
            continue
        for told, count in counts.items():
            matched = _VERSION.match(told)
            if not matched:
                raise counts.wrong("a version of Ceph")
            found.append(
                DaemonVersion(
                    kind=kind,
                    version=matched["number"],
                    release=matched["name"],
                    daemons=count.count,
                )
            )
    return tuple(found)


def read_settings(config: Node | None) -> tuple[Setting, ...] | None:
    """`config dump`."""
    if config is None:
        return None
    return tuple(
        Setting(
            section=node["section"].text,
            name=node["name"].text,
            value=redact_text(node["value"].text),
            mask=node.text_or("mask", ""),
        )
        for node in config
    )


def read_shown(shown: Mapping[str, Node]) -> dict[str, dict[str, tuple[str, str]]]:
    """Daemon -> option -> (value, source), from `config show`."""
    return {
        daemon: {
            node["name"].text: (node["value"].text, node.text_or("source", "default"))
            for node in listed
        }
        for daemon, listed in shown.items()
    }


def file_settings(shown: Mapping[str, Mapping[str, tuple[str, str]]]) -> tuple[FileSetting, ...]:
    """What daemons have from files, the environment or commands, by daemon and name."""
    return tuple(
        FileSetting(daemon=daemon, name=name, value=redact_text(value), source=source)
        for daemon, settings in sorted(shown.items())
        for name, (value, source) in sorted(settings.items())
        if source in _ELSEWHERE
    )


def _configured(
    settings: Iterable[Setting] | None, name: str, kinds: tuple[str, ...]
) -> str | None:
    """The database's value for daemons of `kinds`; that of a kind wins over that of all."""
    found: dict[str, str] = {}
    for setting in settings or ():
        if setting.name == name and not setting.mask and setting.section in ("global", *kinds):
            found[setting.section] = setting.value
    return next((found[kind] for kind in (*kinds, "global") if kind in found), None)


# --- encryption ---------------------------------------------------------------------------------


def read_encryption(
    settings: tuple[Setting, ...] | None,
    shown: Mapping[str, Mapping[str, tuple[str, str]]],
    osds: Iterable[Osd],
) -> Encryption:
    """Modes of the messengers (protocol 2), and encryption of the media."""
    crypts = [osd.dm_crypt for osd in osds]
    return Encryption(
        between_daemons=_mode("ms_cluster_mode", ("osd",), settings, shown),
        to_daemons=_mode("ms_service_mode", ("osd",), settings, shown),
        of_clients=_mode("ms_client_mode", ("client",), settings, shown),
        osds_with_dm_crypt=crypts.count(Crypt.YES),
        osds_unknown=crypts.count(Crypt.UNKNOWN),
    )


# src/common/options/global.yaml.in: the default of the three modes since Nautilus.
_DEFAULT_MODE = "crc secure"


def _mode(
    option: str,
    kinds: tuple[str, ...],
    settings: tuple[Setting, ...] | None,
    shown: Mapping[str, Mapping[str, tuple[str, str]]],
) -> WireMode:
    configured = _configured(settings, option, kinds)
    asked = sorted(daemon for daemon in shown if daemon.partition(".")[0] in kinds)
    if not asked:
        return WireMode(option=option, wire=Wire.UNKNOWN, configured=configured, told_by=None)
    # `config show` leaves out what is at its default.
    value, _ = shown[asked[0]].get(option, (_DEFAULT_MODE, "default"))
    return WireMode(option=option, wire=_wire(value), configured=configured, told_by=asked[0])


def _wire(value: str) -> Wire:
    modes = value.replace(",", " ").split()
    if not modes or not set(modes) <= {"crc", "secure"}:
        return Wire.UNKNOWN
    if len(set(modes)) == 1:
        return Wire(modes[0])
    return Wire.SECURE_PREFERRED if modes[0] == "secure" else Wire.CRC_PREFERRED


# --- autoscaler ---------------------------------------------------------------------------------


def read_autoscaler(
    settings: tuple[Setting, ...] | None,
    shown: Mapping[str, Mapping[str, tuple[str, str]]],
    asked: Node | None,
    flags: Iterable[str],
) -> AutoscalerSettings:
    """The autoscaler's settings: the manager's running ones before the database's."""
    target, told_by = _target(settings, shown, asked)
    threshold = _configured(settings, "mgr/pg_autoscaler/threshold", ("mgr",))
    off = _configured(settings, "mgr/pg_autoscaler/noautoscale", ("mgr",))
    return AutoscalerSettings(
        target_pg_per_osd=target,
        target_told_by=told_by,
        threshold=_number(threshold) or autoscaler.DEFAULT_THRESHOLD,
        no_autoscale="noautoscale" in flags or (off or "").lower() in ("true", "1"),
    )


def _target(
    settings: tuple[Setting, ...] | None,
    shown: Mapping[str, Mapping[str, tuple[str, str]]],
    asked: Node | None,
) -> tuple[int, str | None]:
    """(mon_target_pg_per_osd, who told it)."""
    for daemon in sorted(shown):
        running = shown[daemon].get("mon_target_pg_per_osd")
        if daemon.startswith("mgr.") and running and _number(running[0]):
            return int(float(running[0])), f"mgr's own configuration ({running[1]})"
    if asked is not None:
        return asked.count, "the monitors"
    configured = _number(_configured(settings, "mon_target_pg_per_osd", ("mgr",)))
    if configured:
        return int(configured), "the configuration database"
    return autoscaler.DEFAULT_TARGET_PG_PER_OSD, None


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
