"""Build the inventory of a Ceph cluster from its dumps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from leadline.inventory.ceph import autoscaler
from leadline.inventory.ceph import dumps as names
from leadline.inventory.ceph.dumps import Dumps, Node, load, load_required, parse, shown_daemons
from leadline.inventory.ceph.model import (
    Activity,
    AutoscalerSettings,
    Capacity,
    CephInventory,
    Crypt,
    DaemonVersion,
    Encryption,
    FileSetting,
    Health,
    HealthCheck,
    Managers,
    Monitors,
    NotCaptured,
    PgState,
    Setting,
    Wire,
    WireMode,
)
from leadline.inventory.ceph.topology import (
    compute_spread,
    crush_roots,
    read_autoscale,
    read_filesystems,
    read_osds,
    read_pools,
    read_rules,
    read_tree,
)
from leadline.inventory.redaction import redact_text

_VERSION = re.compile(
    r"ceph version (?P<number>\d+(?:\.\d+)*)\S*(?: \([0-9a-f]*\))? *(?P<name>\w*)"
)
# Sources of a running value other than the database and Ceph's defaults.
_ELSEWHERE = {"file", "env", "cmdline", "override"}


def read_versions(versions: Node | None) -> tuple[DaemonVersion, ...] | None:
    """Read `versions`: an entry for each kind of daemon and release."""
    if versions is None:
        return None
    found = []
    for kind, counts in versions.items():
        if kind == "overall":
            continue
        for text, count in counts.items():
            matched = _VERSION.match(text)
            if not matched:
                raise counts.wrong("a version of Ceph")
            version, release = matched["number"], matched["name"]
            daemons = count.count
            found.append(
                DaemonVersion(kind=kind, version=version, release=release, daemons=daemons)
            )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Configuration:
    """The configuration database (`config dump`; None: not captured), and the running one of some
    daemons (`config show`): value and source by daemon and option."""

    settings: tuple[Setting, ...] | None
    running: Mapping[str, Mapping[str, tuple[str, str]]]

    @classmethod
    def read(cls, dumps: Dumps) -> _Configuration:
        config = load(dumps, names.CONFIG)
        settings = None
        if config is not None:
            settings = tuple(
                Setting(
                    section=node["section"].text,
                    name=node["name"].text,
                    value=redact_text(node["value"].text),
                    mask=node.text_or("mask", ""),
                )
                for node in config
            )
        running = {
            daemon: {
                node["name"].text: (node["value"].text, node.text_or("source", "default"))
                for node in parse(name, dumps[name])
            }
            for daemon, name in shown_daemons(dumps).items()
        }
        return cls(settings=settings, running=running)

    def configured(self, name: str, kind: str) -> str | None:
        """Return the database's value for a kind of daemon, which overrides `global`."""
        found = {
            setting.section: setting.value
            for setting in self.settings or ()
            if setting.name == name and not setting.mask
        }
        return found.get(kind, found.get("global"))

    def file_settings(self) -> tuple[FileSetting, ...] | None:
        """Return settings from files, the environment or commands, by daemon and name."""
        if not self.running:
            return None
        return tuple(
            FileSetting(daemon=daemon, name=name, value=redact_text(value), source=source)
            for daemon, settings in sorted(self.running.items())
            for name, (value, source) in sorted(settings.items())
            if source in _ELSEWHERE
        )

    def mode(self, option: str, kind: str) -> WireMode:
        """Return the mode of the messengers (protocol 2) of a kind of daemon."""
        configured = self.configured(option, kind)
        told_by = min((name for name in self.running if name.partition(".")[0] == kind), default="")
        if not told_by:
            return WireMode(option=option, wire=Wire.UNKNOWN, configured=configured, told_by=None)
        # `config show` omits defaults.
        value, _ = self.running[told_by].get(option, (_DEFAULT_MODE, "default"))
        return WireMode(option=option, wire=_wire(value), configured=configured, told_by=told_by)

    def autoscaler(self, asked: Node | None, flags: Iterable[str]) -> AutoscalerSettings:
        """Return the autoscaler's settings; `asked` is the monitors' mon_target_pg_per_osd."""
        target, told_by = self._target(asked)
        threshold = self.configured("mgr/pg_autoscaler/threshold", "mgr")
        off = self.configured("mgr/pg_autoscaler/noautoscale", "mgr")
        return AutoscalerSettings(
            target_pg_per_osd=target,
            target_told_by=told_by,
            threshold=_number(threshold) or autoscaler.DEFAULT_THRESHOLD,
            no_autoscale="noautoscale" in flags or (off or "").lower() in ("true", "1"),
        )

    def _target(self, asked: Node | None) -> tuple[int, str | None]:
        """Return mon_target_pg_per_osd and its source; the manager's running value is first."""
        for daemon in sorted(self.running):
            value, source = self.running[daemon].get("mon_target_pg_per_osd", ("", ""))
            if daemon.startswith("mgr.") and _number(value):
                return int(float(value)), f"mgr's own configuration ({source})"
        if asked is not None:
            return asked.count, "the monitors"
        configured = _number(self.configured("mon_target_pg_per_osd", "mgr"))
        if configured:
            return int(configured), "the configuration database"
        return autoscaler.DEFAULT_TARGET_PG_PER_OSD, None


# src/common/options/global.yaml.in: the default of the three modes since Nautilus.
_DEFAULT_MODE = "crc secure"


def _wire(value: str) -> Wire:
    modes = value.replace(",", " ").split()
    if not modes or not set(modes) <= {"crc", "secure"}:
        return Wire.UNKNOWN
    if len(set(modes)) == 1:
        return Wire(modes[0])
    return Wire.SECURE_PREFERRED if modes[0] == "secure" else Wire.CRC_PREFERRED


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def cluster_inventory(dumps: Dumps) -> CephInventory:
    """Build the inventory of the cluster that `dumps` (file name -> content) describe.

    Raises:
        LeadlineError: `dumps-invalid` with file and position: a required dump is missing, or a dump
            is damaged.
    """
    status = load_required(dumps, names.STATUS)
    health = load_required(dumps, names.HEALTH)
    osd_dump = load_required(dumps, names.OSD_DUMP)
    tree = read_tree(load_required(dumps, names.OSD_TREE))
    configuration = _Configuration.read(dumps)
    versions = read_versions(load(dumps, names.VERSIONS))
    flags = tuple(sorted(osd_dump["flags"].text.split(",")))
    osds = read_osds(
        osd_dump,
        tree,
        load(dumps, names.OSD_DF),
        load(dumps, names.OSD_METADATA),
        load(dumps, names.CRYPT_KEYS),
    )
    rules = read_rules(load(dumps, names.CRUSH), load(dumps, names.CRUSH_RULES))
    pools = read_pools(osd_dump, rules, load(dumps, names.DF))
    filesystems, standbys = read_filesystems(load(dumps, names.FS), pools)
    version, release = _leading(versions)
    crypts = [osd.dm_crypt for osd in osds]
    return CephInventory(
        fsid=status["fsid"].text,
        created=_day(osd_dump.get("created")),
        osd_down=_osd_down(osd_dump),
        quorum_age_s=status.count_or("quorum_age", None),
        release=release,
        version=version,
        versions=versions,
        health=_health(health["status"]),
        checks=_checks(health["checks"]),
        monitors=_monitors(status, load(dumps, names.QUORUM)),
        managers=_managers(status, load(dumps, names.MGR)),
        filesystems=filesystems,
        mds_standbys=standbys,
        osds=osds,
        pgs_per_osd=compute_spread(osds),
        pools=pools,
        pg_states=_pg_states(status["pgmap"]),
        activity=_activity(status["pgmap"]),
        flags=tuple(flag for flag in flags if flag),
        capacity=_capacity(status["pgmap"], osd_dump),
        crush=crush_roots(tree),
        encryption=Encryption(
            between_daemons=configuration.mode("ms_cluster_mode", "osd"),
            to_daemons=configuration.mode("ms_service_mode", "osd"),
            of_clients=configuration.mode("ms_client_mode", "client"),
            osds_with_dm_crypt=crypts.count(Crypt.YES),
            osds_unknown=crypts.count(Crypt.UNKNOWN),
        ),
        configuration=configuration.settings,
        file_settings=configuration.file_settings(),
        autoscaler=configuration.autoscaler(load(dumps, names.TARGET_PGS), flags),
        autoscale_words=read_autoscale(load(dumps, names.AUTOSCALE)),
        balancer=_balancer(load(dumps, names.BALANCER)),
        not_captured=_not_captured(dumps),
    )


def _day(found: Node | None) -> str | None:
    """Return the day of `2026-11-21T06:51:29.4+0000` (before Octopus: a blank for the T)."""
    try:
        return date.fromisoformat(found.text[:10]).isoformat() if found is not None else None
    except ValueError:  # not a day, such as the zero of an unset time
        return None


def _osd_down(osd_dump: Node) -> str | None:
    """Return the last day on which an OSD was marked down."""
    days = [_day(node.get("down_stamp")) for node in osd_dump.get("osd_xinfo") or ()]
    return max(filter(None, days), default=None)


def _not_captured(dumps: Dumps) -> tuple[NotCaptured, ...]:
    missing = [dump for dump in names.DUMPS if dump.name not in dumps]
    if names.CRUSH_RULES.name in dumps:
        missing = [dump for dump in missing if dump is not names.CRUSH]
    found = [NotCaptured(dump=dump.name, purpose=dump.purpose) for dump in missing]
    if not shown_daemons(dumps):
        some = names.config_show("osd.0")
        found.append(NotCaptured(dump=some.name, purpose=some.purpose))
    return tuple(found)


def _leading(versions: tuple[DaemonVersion, ...] | None) -> tuple[str | None, str | None]:
    """Return version and release of most OSDs, which serve the I/O; otherwise of most daemons."""
    if not versions:
        return None, None
    of_osds = [item for item in versions if item.kind == "osd"] or list(versions)
    leading = max(of_osds, key=lambda item: item.daemons)
    return leading.version, leading.release or None


def _health(node: Node) -> Health:
    return node.choice(Health, "a health status")


def _checks(checks: Node) -> tuple[HealthCheck, ...]:
    found = []
    for code, node in checks.items():
        found.append(
            HealthCheck(
                code=code,
                severity=_health(node["severity"]),
                message=node["summary"]["message"].text,
                detail=tuple(line["message"].text for line in node.get("detail") or ()),
                muted=node.flag_or("muted", False),
            )
        )
    order = (Health.ERR, Health.WARN, Health.OK)
    return tuple(sorted(found, key=lambda check: (order.index(check.severity), check.code)))


def _monitors(status: Node, quorum: Node | None) -> Monitors:
    present = tuple(node.text for node in status["quorum_names"])
    if quorum is None:
        return Monitors(names=present, in_quorum=present, leader=None, v1=None)
    mons = list(quorum["monmap"]["mons"])
    return Monitors(
        names=tuple(mon["name"].text for mon in mons),
        in_quorum=tuple(node.text for node in quorum["quorum_names"]),
        leader=quorum.text_or("quorum_leader_name", "") or None,
        v1=any(
            address["type"].text != "v2"
            for mon in mons
            for address in mon["public_addrs"]["addrvec"]
        ),
    )


def _managers(status: Node, mgr: Node | None) -> Managers:
    if mgr is None:
        available = status["mgrmap"]["available"].flag
        return Managers(available=available, active=None, standbys=None, modules=None)
    return Managers(
        available=mgr["available"].flag,
        active=mgr["active_name"].text or None,
        standbys=tuple(node["name"].text for node in mgr["standbys"]),
        modules=tuple(node.text for node in mgr["modules"]),
    )


def _pg_states(pgmap: Node) -> tuple[PgState, ...]:
    states = [
        PgState(state=node["state_name"].text, count=node["count"].count)
        for node in pgmap["pgs_by_state"]
    ]
    return tuple(sorted(states, key=lambda item: (-item.count, item.state)))


def _activity(pgmap: Node) -> Activity:
    """Read the activity; `status` omits zeros."""
    states = _pg_states(pgmap)

    def count(*words: str) -> int:
        return sum(item.count for item in states if set(words) & set(item.state.split("+")))

    deep = count("deep")
    return Activity(
        recovering_pgs=count("recovering", "recovery_wait", "forced_recovery"),
        backfilling_pgs=count("backfilling", "backfill_wait", "backfill_toofull"),
        scrubbing_pgs=count("scrubbing") - deep,
        deep_scrubbing_pgs=deep,
        degraded_objects=pgmap.count_or("degraded_objects", 0),
        misplaced_objects=pgmap.count_or("misplaced_objects", 0),
        unfound_objects=pgmap.count_or("unfound_objects", 0),
        recovery_bytes_per_s=pgmap.number_or("recovering_bytes_per_sec", 0.0),
        client_read_bytes_per_s=pgmap.number_or("read_bytes_sec", 0.0),
        client_write_bytes_per_s=pgmap.number_or("write_bytes_sec", 0.0),
        client_read_iops=pgmap.number_or("read_op_per_sec", 0.0),
        client_write_iops=pgmap.number_or("write_op_per_sec", 0.0),
    )


def _capacity(pgmap: Node, osd_dump: Node) -> Capacity:
    return Capacity(
        total_bytes=pgmap["bytes_total"].count,
        used_bytes=pgmap["bytes_used"].count,
        available_bytes=pgmap["bytes_avail"].count,
        near_full_ratio=osd_dump["nearfull_ratio"].number,
        backfill_full_ratio=osd_dump["backfillfull_ratio"].number,
        full_ratio=osd_dump["full_ratio"].number,
    )


def _balancer(balancer: Node | None) -> str | None:
    """Return `upmap`, `off`; None: unknown."""
    if balancer is None:
        return None
    return balancer["mode"].text if balancer["active"].flag else "off"
