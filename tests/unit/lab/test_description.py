"""What a lab is to be: defaults, options over them, and all faults at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from leadline.errors import LAB_INVALID, LeadlineError
from leadline.plan.lab import (
    LabDescription,
    LabDocument,
    LabInvalid,
    LabOverrides,
    LabPool,
    Store,
    Topology,
    load_description,
)

NO_OPTIONS = LabOverrides()


def written(folder: Path, text: str) -> Path:
    path = folder / "lab.yaml"
    path.write_text(text)
    return path


def faults(path: Path | None, overrides: LabOverrides = NO_OPTIONS) -> list[str]:
    with pytest.raises(LabInvalid) as caught:
        load_description(path, overrides)
    assert caught.value.kind is LAB_INVALID
    return [str(fault).removeprefix(f"{path}:") for fault in caught.value.faults]


def test_nothing_written_is_three_osds_in_three_zones_a_millisecond_apart() -> None:
    described = load_description(None, NO_OPTIONS)
    assert described == LabDescription()
    assert (described.osds, described.topology, described.inter_zone_rtt_s) == (
        3,
        Topology.MULTI_ZONE,
        1e-3,
    )
    assert described.pools == tuple(LabPool)
    assert described.filesystem


def test_all_keys_are_understood(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
topology: single-zone
hosts_per_domain: 2
osds_per_host: 2
store: memstore
osd_size: 2G
encryption: true
authentication: true
pools: [rep3, ec-2-1]
""",
    )
    assert load_description(path, NO_OPTIONS) == LabDescription(
        topology=Topology.SINGLE_ZONE,
        hosts_per_domain=2,
        osds_per_host=2,
        store=Store.MEMSTORE,
        osd_size_bytes=2 << 30,
        inter_zone_rtt_s=0.0,
        encryption=True,
        authentication=True,
        pools=(LabPool.REP3, LabPool.EC_2_1),
    )
    assert not load_description(path, NO_OPTIONS).filesystem


def test_options_beat_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "osds_per_host: 2\ninter_zone_rtt: 2ms\nstore: memstore\n")
    described = load_description(
        path, LabOverrides(osds=12, inter_zone_rtt="500us", store="bluestore", osd_size="1G")
    )
    assert described.osds == 12
    assert described.hosts_per_domain == 2
    assert described.inter_zone_rtt_s == pytest.approx(5e-4)
    assert described.store is Store.BLUESTORE
    assert described.osd_size_bytes == 1 << 30


def test_every_fault_is_reported_at_once_with_its_line_and_the_nearest_name(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """topology: multizone
osd_sise: 4G
hosts_per_domain: 0
store: memstor
encryption: true
pools: [rep4, ec-2-1, cephfs-rep2]
inter_zone_rtt: 1
osds_per_host: true
""",
    )
    found = faults(path)
    expected = (
        ("1: topology: is 'multizone'", "(did you mean 'multi-zone'?)"),
        ("2: osd_sise: unknown key", "(did you mean 'osd_size'?)"),
        ("3: hosts_per_domain: input should be greater", "got 0"),
        ("4: store: is 'memstor'", "(did you mean 'memstore'?)"),
        ("5: encryption: encryption needs `authentication: true`", "connections"),
        ("6: pools[0]: is 'rep4'", "(did you mean 'rep3'?)"),
        ("6: pools[1]: the pool 'ec-2-1' needs 'rep3' too", ""),
        ("6: pools[2]: the pool 'cephfs-rep2' needs 'cephfs-rep3' too", ""),
        ("7: inter_zone_rtt: a round-trip time needs its unit", "1ms"),
        ("8: osds_per_host: input should be a valid integer", "got True"),
    )
    assert len(found) == len(expected)
    for reported, (beginning, inside) in zip(found, expected, strict=True):
        assert reported.startswith(beginning)
        assert inside in reported


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("topology: single-zone\ninter_zone_rtt: 1ms\n", "no other zone to be far from"),
        ("topology: hosts\ninter_zone_rtt: 1ms\n", "a hosts lab has no other zone"),
        ("topology: hosts\nhosts: 2\n", "greater than or equal to 3, got 2"),
        ("topology: hosts\nhosts: 10\nosds_per_host: 5\n", "hosts: makes 50 OSDs"),
        ("topology: hosts\nosds_per_host: 20\n", "hosts: makes 60 OSDs"),
        ("topology: hosts\nhosts_per_domain: 2\n", "say `hosts`"),
        ("hosts: 5\n", "a multi-zone lab has `hosts_per_domain`"),
        ("topology: single-zone\nhosts: 5\n", "a single-zone lab has `hosts_per_domain`"),
        ("cpu_per_host: 0\n", "greater than or equal to 0.01, got 0"),
        ("cpu_per_host: .inf\n", "finite"),
        ("cpu_per_host: true\n", "written in cores"),
        ("hosts_per_domain: 20\n", "makes 60 OSDs"),
        ("osd_size: 1M\n", "an OSD needs 512 MiB at least"),
        ("inter_zone_rtt: 2s\n", "takes less than 1 s"),
        ("pools: []\n", "pools"),
        ("pools: [rep3, rep3]\n", "is named twice"),
        ("- a\n", "a mapping of keys"),
        ("topology: 3\n", "is 3; known are multi-zone"),
    ],
)
def test_what_cannot_be(tmp_path: Path, text: str, reported: str) -> None:
    (found,) = faults(written(tmp_path, text))
    assert reported in found


@pytest.mark.parametrize("osds", [0, -3, 1, 4, 51])
def test_osds_that_cannot_be_spread(osds: int) -> None:
    (found,) = faults(None, LabOverrides(osds=osds))
    assert found.startswith(f"command line: --osds: {osds} OSDs cannot be spread evenly")


def test_hosts_of_any_number(tmp_path: Path) -> None:
    path = written(tmp_path, "topology: hosts\nhosts: 5\ncpu_per_host: 0.15\n")
    described = load_description(path, NO_OPTIONS)
    assert described == LabDescription(
        topology=Topology.HOSTS, domains=5, inter_zone_rtt_s=0.0, cpu_per_host=0.15
    )
    assert described.osds == 5
    assert load_description(path, LabOverrides(osds=4)).osds == 4
    assert load_description(path, LabOverrides(osds=4, cpu_per_host=0.5)).cpu_per_host == 0.5
    assert load_description(None, LabOverrides(topology="hosts")).osds == 3


def test_osds_of_a_lab_of_hosts_are_spread_over_them(tmp_path: Path) -> None:
    path = written(tmp_path, "topology: hosts\nosds_per_host: 2\n")
    described = load_description(path, LabOverrides(osds=10))
    assert (described.domains, described.hosts_per_domain, described.osds) == (5, 1, 10)
    for osds in (4, 7, 50):
        (found,) = faults(path, LabOverrides(osds=osds))
        assert f"--osds: {osds} OSDs cannot be spread evenly: a lab has 3 or more hosts" in found


def test_an_archive_of_before_there_were_hosts_is_read() -> None:
    old = LabDescription().model_dump(exclude={"domains", "cpu_per_host"})
    assert LabDescription.model_validate(old) == LabDescription()


def test_a_single_zone_may_be_given_no_delay_in_words(tmp_path: Path) -> None:
    path = written(tmp_path, "topology: single-zone\ninter_zone_rtt: 0ms\n")
    assert load_description(path, NO_OPTIONS).inter_zone_rtt_s == 0.0


def test_a_description_inside_a_plan_is_checked_in_the_same_way() -> None:
    with pytest.raises(ValidationError, match="needs 'rep3' too"):
        LabDocument.model_validate({"pools": ["ec-2-1"]})


@pytest.mark.parametrize("text", ["a: &x 1\nb: *x\n", "a: [\n"])
def test_what_is_no_yaml_of_leadline_is_reported_with_its_line(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(LeadlineError) as caught:
        load_description(path, NO_OPTIONS)
    assert caught.value.kind is LAB_INVALID
    assert caught.value.context[0].startswith(f"{path}:")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LeadlineError, match="cannot be read: No such file"):
        load_description(tmp_path / "none.yaml", NO_OPTIONS)
