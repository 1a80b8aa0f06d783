from __future__ import annotations

import json
from typing import Any

import pytest

from leadline.formats.nvme import ControllerPath, parse_nvme_list
from leadline.formats.result import FormatError
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "nvme"
FLAT = (RECORDED / "nvme-list-uml.json").read_text()
TABLE = (RECORDED / "nvme-list-uml.txt").read_text()
NAMESPACE = {
    "NameSpace": "nvme0n1",
    "Generic": "ng0n1",
    "NSID": 1,
    "UsedBytes": 536870912,
    "MaximumLBA": 1048576,
    "PhysicalSize": 536870912,
    "SectorSize": 512,
}
CONTROLLER: dict[str, Any] = {
    "Controller": "nvme0",
    "Cntlid": "1",
    "SerialNumber": "bbb",
    "ModelNumber": "Linux",
    "Firmware": "6.1.176",
    "Transport": "tcp",
    "Address": "traddr=127.0.0.1,trsvcid=4420",
    "Slot": "",
}


def nested(*controllers: dict[str, Any], namespaces: list[dict[str, Any]]) -> str:
    """As nvme-cli 2.11 prints it (nvme-print-json.c, json_detail_list)."""
    subsystem = {
        "Subsystem": "nvme-subsys0",
        "SubsystemNQN": "nqn.test",
        "Controllers": list(controllers),
        "Namespaces": namespaces,
    }
    host = {"HostNQN": "nqn.host", "HostID": "e918", "Subsystems": [subsystem]}
    return json.dumps({"Devices": [host]}, indent=2)


def test_the_flat_layout() -> None:
    (one,) = parse_nvme_list(FLAT)
    assert (one.name, one.generic, one.nsid) == ("nvme0n1", "", 1)
    assert (one.serial, one.model, one.firmware) == ("bbb79cd27d29a9783aad", "Linux", "6.1.176")
    assert (one.used_bytes, one.size_bytes, one.sector_bytes) == (512 << 20, 512 << 20, 512)
    assert (one.subsystem, one.nqn, one.controllers) == ("", "", ())


def test_the_table_tells_the_same_in_fewer_digits() -> None:
    (flat,), (one,) = parse_nvme_list(FLAT), parse_nvme_list(TABLE)
    assert (one.name, one.generic, one.nsid) == (flat.name, "ng0n1", flat.nsid)
    assert (one.serial, one.model, one.firmware) == (flat.serial, flat.model, flat.firmware)
    assert one.size_bytes == pytest.approx(flat.size_bytes, rel=1e-5)
    assert one.sector_bytes == 512


def test_the_console_of_a_job() -> None:
    console = (RECORDED / "uml-nvme-tcp-run.txt").read_bytes().decode()
    begin = console.index("Node  ")
    assert parse_nvme_list(console[begin : console.index("nvme-subsys0")]) == parse_nvme_list(TABLE)


def test_a_table_of_several_and_of_old_versions() -> None:
    row = TABLE.splitlines()[2]
    large = row.replace("nvme0n1", "nvme1n1").replace(
        "536.87  MB / 536.87  MB ", "  4.00  TB /   4.00  TB "
    )
    large = large.replace("512   B +  0 B", "  4 KiB +  8 B")
    _, second = parse_nvme_list(f"{TABLE}{large}\n")
    assert (second.name, second.size_bytes, second.sector_bytes) == ("nvme1n1", 4 * 10**12, 4096)
    old = "\n".join(line[:22] + line[44:] for line in TABLE.splitlines())
    assert parse_nvme_list(old + "\n")[0].generic == ""


def test_the_nested_layout() -> None:
    own = {**CONTROLLER, "Namespaces": [NAMESPACE], "Paths": []}
    (one,) = parse_nvme_list(nested(own, namespaces=[]))
    assert (one.name, one.generic, one.subsystem, one.nqn) == (
        *("nvme0n1", "ng0n1", "nvme-subsys0", "nqn.test"),
    )
    assert (one.model, one.serial, one.size_bytes) == ("Linux", "bbb", 512 << 20)
    assert one.controllers == (
        ControllerPath(
            name="nvme0", transport="tcp", address="traddr=127.0.0.1,trsvcid=4420", ana_state=""
        ),
    )


def test_multipath_in_the_nested_layout() -> None:
    paths = [
        {
            **CONTROLLER,
            "Controller": name,
            "Namespaces": [],
            "Paths": [{"Path": f"nvme0c{name[-1]}n1", "ANAState": state}],
        }
        for name, state in (("nvme0", "optimized"), ("nvme1", "non-optimized"))
    ]
    (one,) = parse_nvme_list(nested(*paths, namespaces=[NAMESPACE]))
    assert [(path.name, path.ana_state) for path in one.controllers] == [
        ("nvme0", "optimized"),
        ("nvme1", "non-optimized"),
    ]
    assert one.serial == "bbb"


def test_there_are_none() -> None:
    assert parse_nvme_list('{\n  "Devices":[\n  ]\n}\n') == ()
    assert parse_nvme_list("".join(TABLE.splitlines(keepends=True)[:2])) == ()
    with pytest.raises(FormatError, match="is empty") as refused:
        parse_nvme_list("\n")
    assert refused.value.condition == "empty-result"


@pytest.mark.parametrize(
    ("text", "condition", "says"),
    [
        (FLAT[:-5], "truncated-result", "no JSON"),
        (FLAT.replace(":512\n", ":5x\n"), "unreadable-result", "no JSON"),
        (FLAT.replace(":512\n", ':"512"\n'), "unreadable-result", r"Devices\[0\].SectorSize"),
        (FLAT.replace('"DevicePath"', '"Path"'), "unreadable-result", "DevicePath"),
        (FLAT.replace("Devices", "Disks"), "unreadable-result", "Devices"),
        ("[]", "unreadable-result", "an object"),
        ('{"Devices": {}}', "unreadable-result", "a list"),
        ('{"Devices": [3]}', "unreadable-result", "an object"),
        (nested(namespaces=[{"NameSpace": "a"}]), "unreadable-result", "NSID"),
        (TABLE.replace(" MB /", " XB /"), "unreadable-result", "line 3"),
        (TABLE.replace("Usage ", "Used  "), "unreadable-result", "line 1"),
        (TABLE.replace("---", "===", 1), "unreadable-result", "line 1"),
        (TABLE[:-12], "truncated-result", "line 3"),
        ("Subsystem        Subsystem-NQN\n----- ----\n", "unreadable-result", "line 1 .* of -v"),
        ("Failed to scan topology: No such file or directory\n", "unreadable-result", "line 1"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, condition: str, says: str) -> None:
    with pytest.raises(FormatError, match=says) as refused:
        parse_nvme_list(text)
    assert refused.value.condition == condition


def test_subsystems_without_hosts_as_version_1_tells_them_with_v() -> None:
    """nvme-cli 1.13 to 1.16 (its issue 225; Mayastor's test/python/common/nvme.py reads it so)."""
    own = {**CONTROLLER, "State": "live", "Namespaces": [NAMESPACE]}
    first = {"Subsystem": "nvme-subsys0", "SubsystemNQN": "nqn.test", "Controllers": [own]}
    head = {**NAMESPACE, "NameSpace": "nvme1n1"}
    paths = [{**CONTROLLER, "Controller": name, "Namespaces": []} for name in ("nvme1", "nvme2")]
    second = {
        "Subsystem": "nvme-subsys1",
        "SubsystemNQN": "nqn.other",
        "Controllers": paths,
        "Namespaces": [head],
    }
    one, other = parse_nvme_list(json.dumps({"Devices": [first, second]}))
    assert (one.name, one.nqn, one.size_bytes) == ("nvme0n1", "nqn.test", 512 << 20)
    assert [path.transport for path in one.controllers] == ["tcp"]
    assert (other.name, other.nqn) == ("nvme1n1", "nqn.other")
    assert [path.name for path in other.controllers] == ["nvme1", "nvme2"]
    assert parse_nvme_list(json.dumps({"Devices": [{"Subsystem": "a", "Controllers": []}]})) == ()
