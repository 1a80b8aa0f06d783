from __future__ import annotations

import json

import pytest

from leadline.formats.nvme.subsystems import parse_subsystems
from leadline.formats.output import FormatError
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "nvme"
TEXT = (RECORDED / "nvme-list-subsys-uml.txt").read_text()
MULTIPATH = """\
nvme-subsys2 - NQN=nqn.2017-03.jp.co:KXG60ZNV512G NVMe TOSHIBA 512GB:49MA23
               hostnqn=nqn.2014-08.org.nvmexpress:uuid:e918
               iopolicy=numa
\\
 +- nvme4 tcp traddr=10.0.0.1 trsvcid=4421 src_addr=10.0.0.9 live
 +- nvme2 rdma traddr=10.0.0.2,trsvcid=4420 live non-optimized
nvme-subsys0 - NQN=nqn.local
\\
 +- nvme0 pcie 0000:3d:00.0 deleting (no IO)
 +- nvme1 loop  connecting
"""


def test_a_controller_over_tcp() -> None:
    (one,) = parse_subsystems(TEXT)
    assert (one.name, one.nqn, one.host_nqn) == ("nvme-subsys0", "nqn.test", "")
    (path,) = one.paths
    assert (path.name, path.transport, path.state, path.ana_state) == ("nvme0", "tcp", "live", "")
    assert dict(path.parts) == {
        "traddr": "127.0.0.1",
        "trsvcid": "4420",
        "src_addr": "127.0.0.1",
    }


def test_the_console_of_a_job() -> None:
    console = (RECORDED / "uml-nvme-tcp-run.txt").read_bytes().decode()
    part = console[console.index("nvme-subsys0") : console.index("ubdb")]
    assert parse_subsystems(part) == parse_subsystems(TEXT)


def test_several_paths_and_later_lines() -> None:
    first, second = parse_subsystems(MULTIPATH)
    assert first.nqn.endswith("NVMe TOSHIBA 512GB:49MA23")
    assert (first.host_nqn[-4:], first.io_policy) == ("e918", "numa")
    assert [(one.name, one.transport, one.ana_state) for one in first.paths] == [
        ("nvme4", "tcp", ""),
        ("nvme2", "rdma", "non-optimized"),
    ]
    # Old kernels separate the address by blanks.
    assert first.paths[0].parts["src_addr"] == "10.0.0.9"
    assert [(one.address, one.state) for one in second.paths] == [
        ("0000:3d:00.0", "deleting (no IO)"),
        ("", "connecting"),
    ]
    assert dict(second.paths[0].parts) == {}


PATH = {
    "Name": "nvme0",
    "Transport": "tcp",
    "Address": "traddr=127.0.0.1,trsvcid=4420",
    "State": "live",
}


def test_json_of_hosts() -> None:
    """nvme-cli 2 (nvme-print-json.c, json_print_nvme_subsystem_list)."""
    subsystem = {
        "Name": "nvme-subsys0",
        "NQN": "nqn.test",
        "IOPolicy": "round-robin",
        "Paths": [{**PATH, "ANAState": "optimized"}],
    }
    text = json.dumps([{"HostNQN": "nqn.host", "HostID": "1", "Subsystems": [subsystem]}])
    (one,) = parse_subsystems(text)
    assert (one.host_nqn, one.io_policy) == ("nqn.host", "round-robin")
    assert (one.paths[0].ana_state, one.paths[0].parts["trsvcid"]) == ("optimized", "4420")


def test_json_of_the_first_version() -> None:
    """Paths are an element of their own, behind that of the names."""
    entries = [
        *({"Name": "nvme-subsys0", "NQN": "nqn.a"}, {"Paths": [PATH]}),
        *({"Name": "nvme-subsys1", "NQN": "nqn.b"}, {"Paths": [PATH, PATH]}),
    ]
    first, second = parse_subsystems(json.dumps({"Subsystems": entries}))
    assert (first.nqn, len(first.paths)) == ("nqn.a", 1)
    assert (second.nqn, len(second.paths)) == ("nqn.b", 2)


def test_there_are_none() -> None:
    assert parse_subsystems("[]") == ()
    assert parse_subsystems('{"Subsystems": []}') == ()


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (TEXT.replace(" live", " asleep"), "unreadable-result"),
        (TEXT.replace("+- ", "-- "), "unreadable-result"),
        (TEXT.replace("NQN=", "NQM="), "unreadable-result"),
        (TEXT[:-10], "truncated-result"),
        ('[{"HostNQN": "x"}]', "unreadable-result"),
        ('[{"Subsystems": [{"Paths": []}]}]', "unreadable-result"),
        ('[{"Subsystems": [{"Name": 5, "NQN": "x"}]}]', "unreadable-result"),
        ("[{", "truncated-result"),
        ("", "empty-result"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, condition: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_subsystems(text)
    assert refused.value.condition == condition
