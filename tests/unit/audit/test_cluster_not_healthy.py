"""cluster-not-healthy on recorded clusters, and on what Ceph can say that was not recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.audit.evidence import Place, TrialEvidence
from leadline.audit.registry import audit, page
from leadline.audit.rule import RuleFinding
from leadline.audit.rules.cluster_not_healthy import (
    CHECKS,
    Disturbance,
    Weight,
    check,
    find_disturbances,
)
from leadline.findings import Finding, Severity
from leadline.formats.ceph.status import ClusterSample, parse_cluster_log
from leadline.inventory.layer import Layer, LayerKind
from tests.unit.audit.audit_archives import Stored, build, cell

RECORDED = Path(__file__).parents[2] / "recorded" / "ceph-status"
HEALTHY: dict[str, Any] = json.loads((RECORDED / "multi-az-6osd.json").read_bytes())
CODE = "cluster-not-healthy"


def recorded(name: str) -> list[RuleFinding]:
    log = (RECORDED / name / layout.CLUSTER).read_bytes()
    return list(
        check.check(TrialEvidence(place=Place(), windows={}, cluster=parse_cluster_log(log)))
    )


def status(
    pgs: dict[str, int] | None = None,
    checks: dict[str, str] | None = None,
    *,
    severity: str = "HEALTH_WARN",
    muted: bool = False,
    **osdmap: int,
) -> dict[str, Any]:
    """A status of 144 PGs, those not named active+clean; `checks` maps codes to summaries."""
    document: dict[str, Any] = json.loads(json.dumps(HEALTHY))
    states = dict(pgs or {})
    states["active+clean"] = 144 - sum(states.values())
    document["pgmap"]["pgs_by_state"] = [
        {"state_name": state, "count": count} for state, count in states.items()
    ]
    document["health"]["checks"] = {
        code: {"severity": severity, "summary": {"message": text, "count": 1}, "muted": muted}
        for code, text in (checks or {}).items()
    }
    document["osdmap"] |= osdmap
    return document


def judged(*seen: dict[str, Any] | str, period_s: float = 2.0) -> list[RuleFinding]:
    """Findings of a watch that saw these statuses, or missed them for the reason given."""
    return found(*seen, period_s=period_s)


def found(
    *seen: dict[str, Any] | str,
    daemons: Sequence[dict[str, Any]] = (),
    stack: tuple[Layer, ...] = (),
    before: ClusterSample | None = None,
    period_s: float = 2.0,
) -> list[RuleFinding]:
    """Findings of a watch that also saw these daemons, one mapping per status."""
    lines = [
        {"at": "2026-11-21T06:00:00Z", "elapsed_s": number * period_s}
        | ({"error": one} if isinstance(one, str) else {"status": one})
        | ({"daemons": daemons[number]} if daemons else {})
        for number, one in enumerate(seen)
    ]
    content = b"\n".join(json.dumps(line).encode() for line in lines)
    trial = TrialEvidence(
        place=Place(),
        windows={},
        cluster=parse_cluster_log(content),
        cluster_before=before,
        stack=stack,
    )
    return list(check.check(trial))


def daemons(**silent: str) -> dict[str, Any]:
    """The daemons of the maps; `mds_a="reason"` is one that does not answer."""
    gids = {"mon.a": 0, "mgr.x": 4102, "mds.a": 4118}
    return {
        name: {"gid": gid, "silent": silent.get(name.replace(".", "_"), "")}
        for name, gid in gids.items()
    }


# --- recorded ------------------------------------------------------------------------------------


def test_cluster_not_healthy_fires_on_an_osd_killed_and_started_again() -> None:
    (finding,) = recorded("osd-killed")
    assert finding.severity is Severity.WARNING
    for part in ("OSD_DOWN (6-10 s)", "PGs not active 14 of 64 (8 s)", "OSDs up 5 -> 4 -> 5"):
        assert part in finding.message
    assert finding.evidence["affected_s"] == pytest.approx(17.0, abs=0.1)
    assert finding.evidence["unavailable_s"] == 0
    assert finding.evidence["osds_down_max"] == 1
    assert finding.evidence["degraded_ratio_max"] == pytest.approx(0.204, abs=0.001)
    assert finding.evidence["pgs_affected_max"] == 39


def test_pgs_below_min_size() -> None:
    (finding,) = recorded("two-down")
    assert finding.severity is Severity.ERROR
    assert finding.message.startswith("Data was unavailable or damaged for 5 s")
    assert "PGs down, incomplete or short of copies 21 (8-12 s)" in finding.message
    assert finding.evidence["unavailable_s"] == pytest.approx(5.0, abs=0.1)


def test_a_deep_scrub_shows_its_share() -> None:
    (finding,) = recorded("deep-scrub")
    assert finding.severity is Severity.WARNING
    assert finding.evidence["pgs_deep_scrubbing_max"] == 3
    assert finding.evidence["scrubbing_share_max"] == pytest.approx(3 / 80)
    assert "noscrub" in finding.remedy


def test_a_split_of_pgs() -> None:
    (finding, blind) = recorded("split")
    assert finding.severity is Severity.WARNING
    assert "PGs 64 -> 80 (6 s)" in finding.message
    assert blind.severity is Severity.INFO


@pytest.mark.parametrize("name", ["quiet", "after-pool-created"])
def test_cluster_not_healthy_is_silent_on_a_quiet_cluster_and_on_late_reports(name: str) -> None:
    assert recorded(name) == []


def test_a_monitor_that_does_not_answer_leaves_the_trial_unobserved() -> None:
    (finding,) = recorded("monitor-stopped")
    assert finding.severity is Severity.INFO
    assert finding.evidence["missed_samples"] == 3
    assert finding.evidence["unobserved_s"] == pytest.approx(7.0, abs=0.1)


# --- through an archive --------------------------------------------------------------------------


def archived(folder: Path, content: bytes | None) -> list[Finding]:
    run: Run = build(folder / "run", {"a": (cell(), [Stored()])})
    if content is not None:
        (run.trial_folders[0] / layout.CLUSTER).write_bytes(content)
    return [finding for finding in audit(Run(run.path)) if finding.code == CODE]


def test_it_is_a_finding_of_its_trial(tmp_path: Path) -> None:
    content = (RECORDED / "osd-killed" / layout.CLUSTER).read_bytes()
    (finding,) = archived(tmp_path, content)
    assert (finding.trial, finding.severity) == ("t0001", Severity.WARNING)


def test_silent_where_no_cluster_was_watched(tmp_path: Path) -> None:
    assert archived(tmp_path, None) == []


def test_an_unreadable_record_is_reported(tmp_path: Path) -> None:
    (finding,) = archived(tmp_path, b'{"at": "2026')
    assert finding.severity is Severity.INFO
    assert "line 1" in finding.message


# --- PG states -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state",
    ["down", "incomplete", "undersized+degraded+peered", "active+recovery_unfound+degraded"],
)
def test_blocked_pgs_are_an_error_in_one_sample(state: str) -> None:
    (finding,) = judged(status(), status({state: 1}), status())
    assert finding.severity is Severity.ERROR
    assert finding.evidence["unavailable_s"] == 2.0


@pytest.mark.parametrize("state", ["peering", "remapped+peering", "stale+active+clean", "laggy"])
def test_a_moment_of_peering_is_a_warning_and_more_than_that_an_error(state: str) -> None:
    paused = status({state: 3}, epoch=500)
    (short,) = judged(status(), paused, paused, status())
    assert short.severity is Severity.WARNING
    assert "3 of 144 (2-4 s)" in short.message
    (long,) = judged(status(), *[paused] * 6, status())
    assert long.severity is Severity.ERROR


@pytest.mark.parametrize(
    "state",
    [
        *("active+undersized", "active+undersized+degraded", "active+clean+snaptrim"),
        *("active+recovery_wait", "active+remapped+backfilling", "active+clean+scrubbing"),
        *("active+clean+scrubbing+deep+repair", "active+clean+premerge"),
    ],
)
def test_other_work_is_a_warning(state: str) -> None:
    (finding,) = judged(status(), status({state: 1}), status())
    assert finding.severity is Severity.WARNING
    assert "1 of 144 (2 s)" in finding.message


@pytest.mark.parametrize("state", ["active+clean+remapped", "active+clean+snaptrim_wait", "active"])
def test_silent_on_states_in_which_nothing_works(state: str) -> None:
    assert judged(status(), status({state: 5}), status()) == []


def test_silent_on_a_pool_that_was_just_made() -> None:
    new = {"creating+peering": 20, "activating": 4}
    early = status(new, {"PG_AVAILABILITY": "Reduced data availability: 20 pgs inactive"})
    assert judged(early, early, status()) == []
    assert judged(early, *[early] * 5)[0].severity is Severity.ERROR


def test_an_osd_that_changed_is_no_new_pool() -> None:
    peering = status({"peering": 20}, num_up_osds=5)
    (finding,) = judged(peering, status())
    assert "PGs not active 20 of 144" in finding.message


def test_a_manager_that_started_is_not_observed_rather_than_unavailable() -> None:
    untold = status({"unknown": 143}, {"PG_AVAILABILITY": "143 pgs inactive"}, epoch=500)
    (finding,) = judged(status(), untold, status())
    assert finding.severity is Severity.INFO
    assert finding.evidence["blind_samples"] == 1
    assert judged(status(), *[untold] * 6)[0].severity is Severity.ERROR


# --- changes of the map --------------------------------------------------------------------------


def test_osds_and_quorum_that_change() -> None:
    fewer = status(num_up_osds=5, num_in_osds=5)
    fewer["quorum"] = []
    (finding,) = judged(status(), fewer, fewer)
    for part in ("OSDs up 6 -> 5", "OSDs in 6 -> 5", "monitors in quorum 1 -> 0"):
        assert part in finding.message


def test_an_osd_that_flapped_between_two_samples() -> None:
    since = HEALTHY["osdmap"]["osd_up_since"]
    (finding,) = judged(status(), status(osd_up_since=since + 60, epoch=125))
    assert "went down and came back" in finding.message
    assert finding.evidence["osdmap_epochs"] == 6


def test_silent_on_an_osd_that_was_out_before() -> None:
    out = status(num_osds=8)
    assert judged(out, out) == []


def test_silent_on_a_new_map_alone() -> None:
    assert judged(status(), status(epoch=140)) == []


# --- daemons -------------------------------------------------------------------------------------

REFUSED = "Connection refused"
ON_IMAGE = (Layer(kind=LayerKind.IMAGE, name="rep3/x"), Layer(kind=LayerKind.POOL, name="rep3"))


def test_a_dead_manager_is_named_and_its_pg_states_are_old() -> None:
    seen = [daemons(), daemons(), *[daemons(mgr_x=REFUSED)] * 2]
    lost, blind = found(*[status()] * 4, daemons=seen)
    assert {lost.severity, blind.severity} == {Severity.INFO}
    assert "mgr.x gave no answer Connection refused (4-6 s)" in lost.message
    assert blind.evidence["blind_samples"] == 2
    assert blind.evidence["unobserved_s"] == 3.0


@pytest.mark.parametrize(
    ("stack", "severity"),
    [
        ((), Severity.WARNING),
        (ON_IMAGE, Severity.INFO),
        (ON_IMAGE[1:], Severity.INFO),
        ((Layer(kind=LayerKind.FUSE, name="/mnt"), ON_IMAGE[1]), Severity.WARNING),
    ],
)
def test_a_dead_mds_counts_where_the_trial_may_need_it(
    stack: tuple[Layer, ...], severity: Severity
) -> None:
    seen = [daemons(), daemons(mds_a=REFUSED), daemons(mds_a=REFUSED)]
    (dead,) = found(*[status()] * 3, daemons=seen, stack=stack)
    assert dead.severity is severity
    assert "mds.a gave no answer" in dead.message
    (down,) = found(status(), status(checks={"MDS_ALL_DOWN": "it"}), stack=stack)
    assert down.severity is severity


def test_a_dead_monitor_of_several() -> None:
    (dead,) = found(*[status()] * 2, daemons=[daemons(), daemons(mon_a=REFUSED)])
    assert dead.severity is Severity.WARNING
    assert "mon.a gave no answer" in dead.message


def test_silent_on_one_late_greeting_and_on_a_daemon_that_never_answers() -> None:
    late = "no greeting within 2 s"
    seen = [daemons(), daemons(mds_a=late), daemons()]
    assert found(*[status()] * 3, daemons=seen) == []
    assert found(*[status()] * 3, daemons=[daemons(mds_a=REFUSED)] * 3) == []
    assert found(*[status()] * 3, daemons=[daemons(), *[daemons(mds_a=late)] * 2]) != []


def test_a_daemon_that_restarted_or_left() -> None:
    again = daemons() | {"mgr.x": {"gid": 5000, "silent": ""}}
    gone = {name: daemon for name, daemon in again.items() if name != "mds.a"}
    lost, _ = found(*[status()] * 3, daemons=[daemons(), again, gone])
    assert lost.severity is Severity.INFO
    assert "mgr.x restarted (2 s)" in lost.message
    assert "mds.a left the cluster's maps (4 s)" in lost.message


def test_a_takeover_of_a_rank() -> None:
    replay, taken = status(), status()
    for document, state in ((replay, "up:replay"), (taken, "up:active")):
        document["fsmap"]["by_rank"][0] |= {"name": "b", "status": state, "gid": 5000}
    (finding,) = found(status(), replay, taken)
    assert finding.severity is Severity.WARNING
    assert "mds.a up:active -> mds.b up:replay -> mds.b up:active (2-4 s)" in finding.message


def test_a_rank_without_an_mds() -> None:
    failed = status()
    failed["fsmap"]["by_rank"] = []
    (finding,) = found(status(), failed)
    assert "MDS rank 0 mds.a up:active -> failed (2 s)" in finding.message


def test_an_election_of_the_same_quorum() -> None:
    later = status() | {"election_epoch": HEALTHY["election_epoch"] + 2}
    (finding,) = found(status(), later, later)
    assert finding.severity is Severity.WARNING
    assert "the monitors held an election (2 s)" in finding.message


def test_no_manager_is_reported_before_its_health_check() -> None:
    without = status()
    without["mgrmap"]["available"] = False
    lost, blind = found(status(), without)
    assert "no manager was active (2 s)" in lost.message
    assert blind.evidence["blind_samples"] == 1


def test_a_gateway_that_left() -> None:
    serving = status()
    serving["servicemap"]["services"] = {"rgw": {"daemons": {"summary": "", "a": {"gid": 4400}}}}
    (finding,) = found(serving, status())
    assert finding.severity is Severity.INFO
    assert "rgw.a left the cluster's maps (2 s)" in finding.message


def test_an_osd_that_ended_its_scrub_has_not_left() -> None:
    """The status of a healthy lab (Ceph 16.2.15, 2026-11-23)."""
    task = {
        "start_epoch": 0,
        "start_stamp": "0.000000",
        "gid": 0,
        "addr": "(unrecognized address family 0)/0",
        "metadata": {},
        "task_status": {},
    }
    scrubbing = status()
    scrubbing["servicemap"]["services"] = {"osd": {"daemons": {"summary": "", "0": task}}}
    assert found(scrubbing, status(), scrubbing) == []


def test_what_was_lost_before_this_trial() -> None:
    document = json.dumps({"at": "x", "elapsed_s": 0.0, "status": status(), "daemons": daemons()})
    (before,) = parse_cluster_log(document.encode())
    assert isinstance(before, ClusterSample)
    fewer = status(num_up_osds=5, num_in_osds=5)
    gone = {name: daemon for name, daemon in daemons().items() if name != "mds.a"}
    lost, disturbed = found(fewer, fewer, daemons=[gone, gone], before=before)
    assert "mds.a left the cluster's maps since the run's first trial" in lost.message
    assert disturbed.severity is Severity.WARNING
    assert "OSDs up 6 -> 5 since the run's first trial" in disturbed.message
    # Dead since the first trial, and still in the maps.
    seen = [daemons(mds_a=REFUSED)] * 2
    (dead,) = found(status(), status(), daemons=seen, before=before)
    assert "mds.a gave no answer" in dead.message
    assert found(status(), status(), daemons=[daemons()] * 2, before=before) == []


# --- Ceph's own checks ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        *("POOL_NO_REDUNDANCY", "MON_DISK_LOW", "AUTH_INSECURE_GLOBAL_ID_RECLAIM_ALLOWED"),
        *("POOL_APP_NOT_ENABLED", "TELEMETRY_CHANGED", "RECENT_CRASH", "PG_NOT_DEEP_SCRUBBED"),
        *("CACHE_POOL_NO_HIT_SET", "MON_DOWN", "CEPHADM_STRAY_HOST"),
    ],
)
def test_silent_on_checks_that_touch_no_io(code: str) -> None:
    benign = status(checks={code: "whatever"})
    assert judged(benign, benign, benign) == []


def test_silent_on_a_manager_module_that_failed_though_ceph_calls_it_an_error() -> None:
    failed = status(checks={"MGR_MODULE_ERROR": "Module has failed"}, severity="HEALTH_ERR")
    assert judged(failed, failed) == []


@pytest.mark.parametrize("code", ["SLOW_OPS", "OSD_NEARFULL", "OSD_RACK_DOWN", "MDS_ALL_DOWN"])
def test_checks_that_touch_performance(code: str) -> None:
    severity = "HEALTH_ERR" if code == "MDS_ALL_DOWN" else "HEALTH_WARN"
    (finding,) = judged(status(), status(checks={code: "it"}, severity=severity), status())
    assert finding.severity is Severity.WARNING
    assert f"{code} (2 s)" in finding.message


@pytest.mark.parametrize("code", ["OSD_FULL", "POOL_FULL", "OBJECT_UNFOUND", "PG_DAMAGED"])
def test_checks_for_unavailable_data(code: str) -> None:
    (finding,) = judged(status(), status(checks={code: "it"}))
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("flags", "severity"),
    [("noout,noscrub", None), ("nearfull", None), ("pauserd,pausewr", Severity.ERROR)],
)
def test_flags_count_where_they_stop_io(flags: str, severity: Severity | None) -> None:
    findings = judged(*[status(checks={"OSDMAP_FLAGS": f"{flags} flag(s) set"})] * 2)
    assert [finding.severity for finding in findings] == ([severity] if severity else [])


def test_an_unknown_check_counts_as_ceph_judges_it() -> None:
    unknown = {"SOMETHING_NEW": "it"}
    assert judged(status(checks=unknown)) == []
    (error,) = judged(status(checks=unknown, severity="HEALTH_ERR"))
    assert error.severity is Severity.ERROR
    (noted,) = judged(status({"active+undersized": 1}, unknown))
    assert noted.evidence["unknown_checks"] == 1
    assert "SOMETHING_NEW" not in noted.message


def test_a_muted_check_is_silent_but_for_what_stops_writes() -> None:
    assert judged(status(checks={"SLOW_OPS": "it"}, muted=True)) == []
    (full,) = judged(status(checks={"OSD_FULL": "it"}, muted=True))
    assert full.severity is Severity.ERROR
    (hidden,) = judged(status({"active+undersized": 1}, {"PG_DEGRADED": "it"}, muted=True))
    assert "PG_DEGRADED" not in hidden.message


def test_without_a_manager_the_cluster_is_not_observed() -> None:
    (finding,) = judged(status(), status(checks={"MGR_DOWN": "no active mgr"}), status())
    assert finding.severity is Severity.INFO
    assert finding.evidence["blind_samples"] == 1


def test_a_watch_without_any_answer() -> None:
    (finding,) = judged("no answer", "no answer")
    assert finding.evidence["unobserved_s"] == 2.0


def test_the_page_lists_the_effect_of_every_check() -> None:
    counts = {
        Weight.UNAVAILABLE: "error",
        Weight.PASSING: "error from",
        Weight.DISTURBED: "warning",
        Weight.CEPHFS: "warning, never error",
        Weight.BLIND: "info",
        Weight.BENIGN: "nothing",
    }
    effects: dict[str, str] = {}
    for row in page(CODE).splitlines():
        cells = [part.strip() for part in row.strip("|").split("|")]
        if row.startswith("|") and len(cells) == 3:
            for code in re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", cells[0]):
                effects.setdefault(code, cells[1])
    assert set(CHECKS) - set(effects) == set()
    # OSD_HOST_DOWN stands for a pattern.
    assert set(effects) - set(CHECKS) == {"OSD_HOST_DOWN", "HEALTH_ERR", "HEALTH_WARN"}
    for code, weight in CHECKS.items():
        # Its flags that stop I/O stand in a row of their own, above.
        expected = "error" if code == "OSDMAP_FLAGS" else counts[weight]
        assert effects[code].startswith(expected), code


# --- disturbances over time -----------------------------------------------------------------------


def disturbed(name: str, *kinds: LayerKind) -> list[Disturbance]:
    log = parse_cluster_log((RECORDED / name / layout.CLUSTER).read_bytes())
    return find_disturbances(log, [Layer(kind=kind, name="") for kind in kinds])


def test_disturbances_have_the_seconds_half_way_to_the_next_sample() -> None:
    found = disturbed("osd-killed")
    down = next(one for one in found if one.name == "OSD_DOWN")
    log = parse_cluster_log((RECORDED / "osd-killed" / layout.CLUSTER).read_bytes())
    codes = [
        sample.elapsed_s
        for sample in log
        if isinstance(sample, ClusterSample)
        and any(one.code == "OSD_DOWN" for one in sample.status.checks)
    ]
    assert down.begin_s == pytest.approx(codes[0] - 1.0, abs=0.1)
    assert down.end_s == pytest.approx(codes[-1] + 1.0, abs=0.1)
    assert [one.begin_s for one in found] == sorted(one.begin_s for one in found)
    assert not any(one.unavailable for one in found)


def test_a_scrub_is_a_disturbance_and_quiet_is_none() -> None:
    assert {one.name for one in disturbed("deep-scrub")} == {"PGs being scrubbed"}
    assert disturbed("quiet") == []
    assert find_disturbances((), ()) == []
