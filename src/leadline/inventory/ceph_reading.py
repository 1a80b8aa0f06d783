"""Builds the model of a Ceph cluster from its dumps. Pure: no cluster is asked."""

from __future__ import annotations

from datetime import date

from leadline.inventory import ceph_dumps as names
from leadline.inventory.ceph import (
    Activity,
    Capacity,
    CephInventory,
    DaemonVersion,
    Health,
    HealthCheck,
    Managers,
    Monitors,
    NotCaptured,
    PgState,
)
from leadline.inventory.ceph_config import (
    file_settings,
    read_autoscaler,
    read_encryption,
    read_settings,
    read_shown,
    read_versions,
)
from leadline.inventory.ceph_crush import crush_roots, read_rules, read_tree
from leadline.inventory.ceph_dumps import Dumps, Node, load, parse, shown_daemons
from leadline.inventory.ceph_osds import read_osds, spread
from leadline.inventory.ceph_pools import read_autoscale, read_filesystems, read_pools


def cluster_inventory(dumps: Dumps) -> CephInventory:
    """The cluster that `dumps` (file name -> content) describe.

    Raises LeadlineError(`dumps-invalid`) with file and position for a required dump that is
    missing, and for any that is damaged or not as Ceph writes it.
    """
    status = _required(dumps, names.STATUS)
    health = _required(dumps, names.HEALTH)
    osd_dump = _required(dumps, names.OSD_DUMP)
    tree = read_tree(_required(dumps, names.OSD_TREE))
    df = load(dumps, names.DF)
    shown = read_shown({daemon: parse(name, dumps[name]) for daemon, name in _shown(dumps)})
    settings = read_settings(load(dumps, names.CONFIG))
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
    pools = read_pools(osd_dump, rules, df)
    filesystems, standbys = read_filesystems(load(dumps, names.FS), pools)
    version, release = _leading(versions)
    return CephInventory(
        fsid=status["fsid"].text,
        created=_created(osd_dump),
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
        pgs_per_osd=spread(osds),
        pools=pools,
        pg_states=_pg_states(status["pgmap"]),
        activity=_activity(status["pgmap"]),
        flags=tuple(flag for flag in flags if flag),
        capacity=_capacity(status["pgmap"], osd_dump),
        crush=crush_roots(tree),
        encryption=read_encryption(settings, shown, osds),
        configuration=settings,
        file_settings=file_settings(shown) if shown else None,
        autoscaler=read_autoscaler(settings, shown, load(dumps, names.TARGET_PGS), flags),
        autoscale_words=read_autoscale(load(dumps, names.AUTOSCALE)),
        balancer=_balancer(load(dumps, names.BALANCER)),
        not_captured=_not_captured(dumps),
    )


def _created(osd_dump: Node) -> str | None:
    """`2026-11-21T06:51:29.4+0000`, before Octopus with a blank for the T: the day is enough."""
    found = osd_dump.get("created")
    try:
        return date.fromisoformat(found.text[:10]).isoformat() if found is not None else None
    except ValueError:  # nothing that is a day, such as the zero of what was never set
        return None


def _required(dumps: Dumps, dump: names.Dump) -> Node:
    found = load(dumps, dump)
    assert found is not None, "a required dump is there or has been complained of"
    return found


def _shown(dumps: Dumps) -> list[tuple[str, str]]:
    return list(shown_daemons(dumps).items())


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
    """(version, release) that the most OSDs have, for they do the I/O; else the most daemons."""
    if not versions:
        return None, None
    of_osds = [one for one in versions if one.kind == "osd"] or list(versions)
    leading = max(of_osds, key=lambda one: one.daemons)
    return leading.version, leading.release or None


def _health(node: Node) -> Health:
    try:
        return Health(node.text)
    except ValueError as error:
        raise node.wrong("a health status") from error


def _checks(checks: Node) -> tuple[HealthCheck, ...]:
    found = []
    for code, node in checks.items():
        detail, muted = node.get("detail"), node.get("muted")
        found.append(
            HealthCheck(
                code=code,
                severity=_health(node["severity"]),
                message=node["summary"]["message"].text,
                detail=tuple(one["message"].text for one in detail or ()),
                muted=muted.flag if muted else False,
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
    return tuple(sorted(states, key=lambda one: (-one.count, one.state)))


def _activity(pgmap: Node) -> Activity:
    """Ceph leaves out of `status` what is zero."""

    def doing(*words: str) -> int:
        return sum(one.count for one in _pg_states(pgmap) if set(words) & set(one.state.split("+")))

    deep = doing("deep")
    return Activity(
        recovering_pgs=doing("recovering", "recovery_wait", "forced_recovery"),
        backfilling_pgs=doing("backfilling", "backfill_wait", "backfill_toofull"),
        scrubbing_pgs=doing("scrubbing") - deep,
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
    """`upmap`, `off`; None where unknown."""
    if balancer is None:
        return None
    return balancer["mode"].text if balancer["active"].flag else "off"
