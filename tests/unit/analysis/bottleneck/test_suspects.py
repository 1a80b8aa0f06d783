"""Bottlenecks by their evidence; an unmeasured resource is neither named nor excluded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leadline.analysis.bottleneck.evidence import LevelEvidence
from leadline.analysis.bottleneck.suspects import (
    Bottleneck,
    Reason,
    Strength,
    Suspect,
    leading,
    suspects,
)
from leadline.archive.records import Processor
from leadline.formats.ceph.counters import OsdRates, osd_rates, parse_ceph_counters
from leadline.formats.host_rates import (
    CpuRates,
    DiskRates,
    GroupRates,
    InterfaceRates,
    MachineRates,
    machine_rates,
)
from leadline.formats.watch_records import Role, parse_resource_log

RECORDED = Path(__file__).parents[3] / "recorded" / "bottleneck"
LINK = 1.25e9
NAMED, SUSPECTED, EXCLUDED, NOT_MEASURED = (
    Strength.NAMED,
    Strength.SUSPECTED,
    Strength.EXCLUDED,
    Strength.NOT_MEASURED,
)


def cpu(busy: float, steal: float = 0.0) -> CpuRates:
    return CpuRates(
        busy_share=busy, user_share=busy, system_share=0, iowait_share=0, steal_share=steal
    )


def disk(utilisation: float) -> DiskRates:
    return DiskRates(
        read_iops=100,
        write_iops=0,
        read_bps=409600,
        write_bps=0,
        utilisation=utilisation,
        in_flight=1,
        read_latency_s=0.01,
        write_latency_s=None,
    )


def machine(
    name: str,
    role: Role,
    *,
    busy: float = 0.2,
    steal: float = 0.0,
    link_share: float = 0.1,
    utilisation: float | None = None,
    groups: Mapping[str, GroupRates] | None = None,
    processes: Mapping[str, float] | None = None,
) -> MachineRates:
    return MachineRates(
        machine=name,
        roles=frozenset({role}),
        begin_s=0,
        end_s=10,
        cores=8,
        cpu=cpu(busy, steal),
        disks={} if utilisation is None else {"sda": disk(utilisation)},
        interfaces={
            "eth0": InterfaceRates(received_bps=link_share * LINK, sent_bps=0, link_bps=LINK),
            "lo": InterfaceRates(received_bps=9 * LINK, sent_bps=0, link_bps=None),
        },
        groups=groups or {},
        processes=processes or {},
    )


def osd(number: int = 0, *, host: str | None = "s1", waited: float = 0.1, media: float = 0.1):
    """An OSD at 100 reads of 10 ms a second: shares of the time before a thread took them, and of
    the work at the medium."""
    means = {
        "osd.op_latency": 0.01,
        "osd.op_process_latency": 0.01 * (1 - waited),
        "osd.op_r_process_latency": 0.01 * (1 - waited),
        "bluestore.read_wait_aio_lat": 0.01 * (1 - waited) * media,
    }
    return OsdRates(
        osd=number,
        host=host,
        seconds=10,
        means_s=means,
        rates=dict.fromkeys(means, 100.0),
        counts_per_s={},
    )


def group(throttled: float, used: float | None = None) -> GroupRates:
    return GroupRates(
        throttled_share=throttled,
        held_back_s_per_s=throttled,
        cores_used=used,
        quota_cores=0.15,
    )


# Two clients, one host of OSDs, 32 in flight, and more load that gave no more.
BUSY = LevelEvidence(
    machines=(
        machine("c1", Role.CLIENT),
        machine("c2", Role.CLIENT),
        machine("s1", Role.STORAGE, utilisation=0.5),
    ),
    osds=(osd(),),
    on_ceph=True,
    asked=32,
    in_flight=31.5,
    iops=1000.0,
    bandwidth_bps=4096e3,
    latency_mean_s=0.0315,
    more_iops=1010.0,
    round_trip_s=0.001,
    trips=0.5,
)


def judged(level: LevelEvidence) -> dict[Bottleneck, Suspect]:
    found = suspects(level)
    assert len({one.bottleneck for one in found}) == len(found)
    return {one.bottleneck: one for one in found}


def strengths(level: LevelEvidence) -> dict[Bottleneck, Strength]:
    return {key: one.strength for key, one in judged(level).items()}


def with_machine(level: LevelEvidence, name: str, **changed: Any) -> LevelEvidence:
    """The level with one of its machines otherwise."""
    machines = tuple(
        replace(one, **changed) if one.machine == name else one for one in level.machines
    )
    return replace(level, machines=machines)


def test_nothing_used_up_is_unknown_and_says_what_was_not_measured() -> None:
    found = judged(BUSY)
    unknown = found[Bottleneck.UNKNOWN]
    assert unknown.strength is NAMED
    assert unknown.not_measured == (Bottleneck.TARGET_CORES,)
    assert {key for key, one in found.items() if one.strength is EXCLUDED} == {
        Bottleneck.CLIENT_NETWORK,
        Bottleneck.CLIENT_CPU,
        Bottleneck.STORAGE_NETWORK,
        Bottleneck.OSD_MEDIA,
        Bottleneck.OSD_CPU,
        Bottleneck.QUEUE_DEPTH,
        Bottleneck.ROUND_TRIPS,
        Bottleneck.NOT_SATURATED,
    }


def test_nothing_measured_excludes_nothing() -> None:
    found = strengths(LevelEvidence(on_ceph=True))
    assert found.pop(Bottleneck.UNKNOWN) is NAMED
    assert set(found.values()) == {NOT_MEASURED}
    assert len(found) == 9


@pytest.mark.parametrize(
    ("share", "strength"), [(0.95, NAMED), (0.80, SUSPECTED), (0.50, EXCLUDED)]
)
def test_the_fullest_link_of_any_client_counts(share: float, strength: Strength) -> None:
    full = machine("c2", Role.CLIENT, link_share=share)
    level = with_machine(BUSY, "c2", interfaces=full.interfaces)
    found = judged(level)[Bottleneck.CLIENT_NETWORK]
    assert found.strength is strength
    assert found.evidence["link_share"] == pytest.approx(share)
    assert (found.device, found.machine) == ("eth0", "c2")
    assert strengths(level)[Bottleneck.STORAGE_NETWORK] is EXCLUDED


def test_a_link_of_unknown_speed_is_not_measured() -> None:
    bare = LevelEvidence(bandwidth_bps=0.95 * LINK)
    assert strengths(bare)[Bottleneck.CLIENT_NETWORK] is NOT_MEASURED


def test_the_network_of_storage_is_excluded_only_when_all_hosts_were_read() -> None:
    level = replace(BUSY, osds=(osd(0), osd(1, host="s2")))
    found = strengths(level)
    assert found[Bottleneck.STORAGE_NETWORK] is NOT_MEASURED
    assert found[Bottleneck.OSD_CPU] is NOT_MEASURED
    assert found[Bottleneck.OSD_MEDIA] is NOT_MEASURED
    assert judged(level)[Bottleneck.OSD_CPU].evidence["hosts_unread"] == 1


@pytest.mark.parametrize(("busy", "strength"), [(0.97, NAMED), (0.85, SUSPECTED), (0.7, EXCLUDED)])
def test_cores_of_clients_and_of_storage_are_distinguished(busy: float, strength: Strength) -> None:
    client = strengths(with_machine(BUSY, "c1", cpu=cpu(busy)))
    assert (client[Bottleneck.CLIENT_CPU], client[Bottleneck.OSD_CPU]) == (strength, EXCLUDED)
    storage = strengths(with_machine(BUSY, "s1", cpu=cpu(busy)))
    assert (storage[Bottleneck.CLIENT_CPU], storage[Bottleneck.OSD_CPU]) == (EXCLUDED, strength)


def test_on_one_machine_both_are_named_and_shown_not_to_be_distinguished() -> None:
    both = frozenset({Role.CLIENT, Role.STORAGE})
    here = replace(machine("c1", Role.CLIENT, busy=0.98, processes={"osd.0": 1.5}), roles=both)
    found = judged(replace(BUSY, machines=(here,), engine_cores=2.0, on_lab=True))
    for kind in (Bottleneck.CLIENT_CPU, Bottleneck.OSD_CPU):
        assert found[kind].strength is NAMED
        assert found[kind].reason is Reason.CORES_SHARED_WITH_OTHERS
        # 0.98 of 8 cores were used, and these two account for 3.5 of them.
        assert found[kind].evidence["storage_cores"] == 1.5
        assert found[kind].evidence["engine_cores"] == 2.0
        assert found[kind].evidence["other_cores"] == pytest.approx(4.34)
    assert found[Bottleneck.CLIENT_NETWORK].strength is EXCLUDED


def test_a_lab_is_one_machine_even_without_counters() -> None:
    processor = Processor(cores=2, busy_share=0.97, steal_share=0, engine_cpu_s=3)
    found = judged(LevelEvidence(processor=processor, on_lab=True, on_ceph=True))
    assert found[Bottleneck.CLIENT_CPU].strength is NAMED
    assert found[Bottleneck.OSD_CPU].strength is NAMED
    assert found[Bottleneck.OSD_CPU].reason is Reason.CORES_SHARED
    assert found[Bottleneck.OSD_CPU].evidence["cores"] == 2


@pytest.mark.parametrize(
    ("changed", "strength"),
    [
        ({"job_core_share": 0.97}, NAMED),
        ({"job_core_share": 0.97, "asked": 1, "in_flight": 1.0}, EXCLUDED),
        (
            {
                "processor": Processor(
                    cores=1, busy_share=0.5, steal_share=0, engine_cpu_s=1, throttled_share=0.3
                )
            },
            NAMED,
        ),
    ],
)
def test_a_thread_or_a_limit_that_is_used_up(changed: dict[str, Any], strength: Strength) -> None:
    assert strengths(replace(BUSY, **changed))[Bottleneck.CLIENT_CPU] is strength


def test_stolen_time_is_suspicious() -> None:
    level = with_machine(BUSY, "c1", cpu=cpu(0.5, steal=0.2))
    assert strengths(level)[Bottleneck.CLIENT_CPU] is SUSPECTED


def test_cores_that_another_guest_took_were_the_osds_as_well() -> None:
    stolen = replace(machine("s1", Role.CLIENT, steal=0.2), roles=frozenset(Role))
    found = strengths(replace(BUSY, machines=(stolen,), on_lab=True))
    assert found[Bottleneck.CLIENT_CPU] is found[Bottleneck.OSD_CPU] is SUSPECTED


def test_operations_that_wait_for_a_thread_make_osds_suspicious() -> None:
    waiting = replace(BUSY, osds=(osd(waited=0.7),))
    assert strengths(waiting)[Bottleneck.OSD_CPU] is SUSPECTED
    unread = replace(waiting, machines=())
    found = judged(unread)[Bottleneck.OSD_CPU]
    assert found.strength is SUSPECTED
    assert found.reason is Reason.OPERATIONS_QUEUED
    assert found.evidence["queued_share"] == pytest.approx(0.7)
    # One operation alone waits for no other.
    alone = replace(unread, asked=1, in_flight=1.0)
    assert strengths(alone)[Bottleneck.OSD_CPU] is NOT_MEASURED


@pytest.mark.parametrize(
    ("groups", "strength"),
    [
        ({"osd.0": group(0.7)}, NAMED),
        ({"osd.0": group(0.1, used=0.149)}, NAMED),
        ({"osd.0": group(0.0), "osd.1": group(0.3)}, NAMED),
        ({"osd.0": group(0.1)}, SUSPECTED),
        ({"osd.0": group(0.0, used=0.02)}, EXCLUDED),
        ({"osd.0": replace(group(0.9), quota_cores=None)}, EXCLUDED),
        ({"osd.0": replace(group(0.9), throttled_share=None)}, NOT_MEASURED),
    ],
)
def test_limits_of_the_storage(groups: Mapping[str, GroupRates], strength: Strength) -> None:
    level = with_machine(BUSY, "s1", groups=groups)
    assert strengths(level)[Bottleneck.TARGET_CORES] is strength


def test_the_use_of_a_limit_by_a_process_of_the_same_name() -> None:
    level = with_machine(BUSY, "s1", groups={"osd.0": group(0.1)}, processes={"osd.0": 0.148})
    found = judged(level)[Bottleneck.TARGET_CORES]
    assert found.strength is NAMED
    assert found.evidence["quota_used_share"] == pytest.approx(0.148 / 0.15)


@pytest.mark.parametrize(
    ("utilisation", "media", "rotational", "strength"),
    [
        (0.99, 0.8, None, NAMED),
        (0.99, 0.1, True, NAMED),
        (0.99, 0.1, None, SUSPECTED),  # flash may be busy always and not full
        (0.85, 0.8, None, SUSPECTED),
        (0.50, 0.8, None, EXCLUDED),
    ],
)
def test_media(
    utilisation: float, media: float, rotational: bool | None, strength: Strength
) -> None:
    level = replace(BUSY, osds=(osd(media=media),), rotational=rotational)
    level = with_machine(level, "s1", disks={"sda": disk(utilisation)})
    found = judged(level)[Bottleneck.OSD_MEDIA]
    assert found.strength is strength
    assert found.evidence["utilisation"] == utilisation


def test_osds_that_wait_for_media_no_one_saw() -> None:
    level = replace(BUSY, machines=(), osds=(osd(media=0.8),))
    assert strengths(level)[Bottleneck.OSD_MEDIA] is SUSPECTED
    assert strengths(replace(level, osds=(osd(media=0.2),)))[Bottleneck.OSD_MEDIA] is NOT_MEASURED


def test_a_disk_of_the_load_generator_is_the_medium_and_has_no_network() -> None:
    here = replace(machine("c1", Role.CLIENT), disks={"sda": disk(0.99), "other": disk(1.0)})
    here = replace(here, roles=frozenset(Role))
    level = LevelEvidence(
        machines=(here,),
        devices=frozenset({"sda"}),
        rotational=True,
        asked=4,
        in_flight=4.0,
        bandwidth_bps=LINK,  # of which a tenth crossed the link
    )
    found = judged(level)
    assert found[Bottleneck.OSD_MEDIA].strength is NAMED
    medium = found[Bottleneck.OSD_MEDIA]
    assert (medium.device, medium.machine) == ("sda", "c1")
    assert found[Bottleneck.CLIENT_NETWORK].strength is EXCLUDED
    assert found[Bottleneck.OSD_CPU].strength is EXCLUDED


def test_a_directory_that_lies_behind_a_network() -> None:
    """As a mount of NFS: all of the data crosses the link, which the machine's roles do not say."""
    here = replace(machine("c1", Role.CLIENT, link_share=0.95), roles=frozenset(Role))
    level = LevelEvidence(machines=(here,), asked=4, in_flight=4.0, bandwidth_bps=0.93 * LINK)
    found = judged(with_machine(level, "c1", cpu=cpu(0.97)))
    assert found[Bottleneck.CLIENT_NETWORK].strength is NAMED
    assert found[Bottleneck.CLIENT_CPU].strength is NAMED
    assert found[Bottleneck.CLIENT_CPU].reason is Reason.CORES_BUSY
    for kind in (Bottleneck.STORAGE_NETWORK, Bottleneck.OSD_CPU, Bottleneck.OSD_MEDIA):
        assert found[kind].strength is NOT_MEASURED
    # The same disk with the data staying here.
    stays = judged(with_machine(level, "c1", interfaces={}, cpu=cpu(0.97)))
    assert stays[Bottleneck.CLIENT_NETWORK].strength is EXCLUDED
    assert stays[Bottleneck.CLIENT_CPU].reason is Reason.CORES_SHARED


def test_a_queue_that_was_not_filled() -> None:
    level = replace(BUSY, in_flight=16.0)
    assert strengths(level)[Bottleneck.QUEUE_DEPTH] is NAMED
    rate = replace(level, offered_iops=1000.0, asked=None)
    assert strengths(rate)[Bottleneck.QUEUE_DEPTH] is EXCLUDED


@pytest.mark.parametrize(("trips", "strength"), [(1.6, NAMED), (0.7, SUSPECTED), (0.2, EXCLUDED)])
def test_round_trips_are_a_share_of_the_latency(trips: float, strength: Strength) -> None:
    level = replace(BUSY, latency_mean_s=0.002, trips=trips)
    assert strengths(level)[Bottleneck.ROUND_TRIPS] is strength


def test_one_zone_has_no_round_trips() -> None:
    level = replace(BUSY, trips=0.0, round_trip_s=None)
    assert strengths(level)[Bottleneck.ROUND_TRIPS] is EXCLUDED
    assert strengths(replace(level, trips=None))[Bottleneck.ROUND_TRIPS] is NOT_MEASURED


@pytest.mark.parametrize(
    ("changed", "strength"),
    [
        ({"more_iops": 1200.0}, NAMED),
        ({"more_iops": 1010.0}, EXCLUDED),
        ({"asked": 1, "in_flight": 1.0}, NAMED),
        ({"more_iops": None}, NOT_MEASURED),
        ({"more_iops": None, "asked": 2, "in_flight": 2.0}, SUSPECTED),
        ({"offered_iops": 1020.0}, NAMED),
        ({"offered_iops": 1200.0}, EXCLUDED),
    ],
)
def test_whether_it_was_saturated(changed: dict[str, Any], strength: Strength) -> None:
    level = replace(BUSY, osds=tuple(osd(number) for number in range(3)), **changed)
    assert strengths(level)[Bottleneck.NOT_SATURATED] is strength


def test_what_more_load_got_past_is_not_named() -> None:
    level = replace(with_machine(BUSY, "c1", cpu=cpu(0.97)), more_iops=1500.0)
    found = judged(level)
    assert found[Bottleneck.CLIENT_CPU].strength is SUSPECTED
    assert found[Bottleneck.CLIENT_CPU].overruled_by is found[Bottleneck.NOT_SATURATED]
    assert [one.bottleneck for one in leading(suspects(level))] == [Bottleneck.NOT_SATURATED]


def test_the_surest_come_first_and_lead() -> None:
    level = with_machine(BUSY, "c1", cpu=cpu(0.97))
    found = suspects(level)
    order = [NAMED, SUSPECTED, NOT_MEASURED, EXCLUDED]
    ranks = [order.index(one.strength) for one in found]
    assert ranks == sorted(ranks)
    assert [one.bottleneck for one in leading(found)] == [Bottleneck.CLIENT_CPU]
    assert Bottleneck.UNKNOWN not in {one.bottleneck for one in found}


def test_evidence_is_numbers() -> None:
    for one in suspects(BUSY):
        json.dumps(dict(one.evidence), allow_nan=False)
        assert None not in one.evidence.values()


def recorded(name: str, **known: Any) -> LevelEvidence:
    """What was recorded on a lab, with the figures that fio gave."""
    folder = RECORDED / name
    return LevelEvidence(
        machines=machine_rates(
            parse_resource_log((folder / "resources.jsonl").read_bytes()), 0.5, 8.0
        ),
        osds=osd_rates(parse_ceph_counters((folder / "ceph-counters.jsonl").read_bytes())),
        on_ceph=True,
        on_lab=True,
        round_trip_s=0.00112,
        **known,
    )


def test_a_recorded_lab_under_load_is_short_of_the_cores_it_shares() -> None:
    level = recorded(
        "32-randwrite", asked=32, in_flight=31.97, iops=456, latency_mean_s=0.0701, trips=5 / 3
    )
    named = {one.bottleneck for one in leading(suspects(level))}
    assert named == {Bottleneck.CLIENT_CPU, Bottleneck.OSD_CPU}


def test_a_recorded_limit_is_named() -> None:
    level = recorded(
        "32-randread-quota", asked=32, in_flight=32.0, iops=2254, latency_mean_s=0.0142, trips=2 / 3
    )
    found = judged(level)
    assert found[Bottleneck.TARGET_CORES].strength is NAMED
    assert found[Bottleneck.TARGET_CORES].evidence["groups_held_back"] == 3
    assert found[Bottleneck.OSD_CPU].evidence["queued_share"] > 0.5


def test_a_recorded_depth_of_one_is_not_saturated_and_partly_the_way() -> None:
    level = recorded(
        "1-randread", asked=1, in_flight=0.998, iops=617, latency_mean_s=0.001617, trips=2 / 3
    )
    found = judged(level)
    assert found[Bottleneck.NOT_SATURATED].strength is NAMED
    assert found[Bottleneck.ROUND_TRIPS].strength is SUSPECTED
    assert found[Bottleneck.TARGET_CORES].strength is NOT_MEASURED
