from __future__ import annotations

import json
from typing import Any

import pytest

from leadline.formats.nvme import parse_nvme_list
from leadline.formats.result import FormatError
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "nvme"
FLAT = (RECORDED / "nvme-list-uml.json").read_text()
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
    assert (one.name, one.model) == ("nvme0n1", "Linux")
    assert (one.used_bytes, one.size_bytes, one.sector_bytes) == (512 << 20, 512 << 20, 512)


def test_the_nested_layout() -> None:
    own = {**CONTROLLER, "Namespaces": [NAMESPACE], "Paths": []}
    (one,) = parse_nvme_list(nested(own, namespaces=[]))
    assert (one.name, one.model, one.size_bytes) == ("nvme0n1", "Linux", 512 << 20)


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
    assert (one.name, one.model) == ("nvme0n1", "Linux")


def test_there_are_none() -> None:
    assert parse_nvme_list('{\n  "Devices":[\n  ]\n}\n') == ()
    with pytest.raises(FormatError, match="is empty") as refused:
        parse_nvme_list("\n")
    assert refused.value.condition == "empty-result"


@pytest.mark.parametrize(
    ("text", "condition", "expected"),
    [
        (FLAT[:-5], "truncated-result", "not JSON"),
        (FLAT.replace(":512\n", ":5x\n"), "unreadable-result", "not JSON"),
        (FLAT.replace(":512\n", ':"512"\n'), "unreadable-result", r"Devices\[0\].SectorSize"),
        (FLAT.replace('"DevicePath"', '"Path"'), "unreadable-result", "DevicePath"),
        (FLAT.replace("Devices", "Disks"), "unreadable-result", "Devices"),
        ("[]", "unreadable-result", "object"),
        ('{"Devices": {}}', "unreadable-result", r"\.Devices: "),
        ('{"Devices": [3]}', "unreadable-result", r"\.Devices\[0\]: "),
        (nested(namespaces=[{"NameSpace": "a"}]), "unreadable-result", "UsedBytes"),
        ("Failed to scan topology: No such file\n", "unreadable-result", "not JSON"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, condition: str, expected: str) -> None:
    with pytest.raises(FormatError, match=expected) as refused:
        parse_nvme_list(text)
    assert refused.value.condition == condition


def test_version_1_with_v_has_no_hosts() -> None:
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
    assert (one.name, one.size_bytes) == ("nvme0n1", 512 << 20)
    assert (other.name, other.model) == ("nvme1n1", "Linux")
    assert parse_nvme_list(json.dumps({"Devices": [{"Subsystem": "a", "Controllers": []}]})) == ()
