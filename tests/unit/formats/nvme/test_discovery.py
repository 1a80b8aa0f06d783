from __future__ import annotations

import pytest

from leadline.formats.nvme.discovery import parse_discovery
from leadline.formats.output import FormatError
from tests.conftest import ROOT

TEXT = (ROOT / "tests" / "recorded" / "nvme" / "nvme-discover-tcp-uml.txt").read_text()


def test_what_a_port_offers() -> None:
    itself, offered = parse_discovery(TEXT)
    assert not itself.subsystem
    assert offered.subsystem
    assert (offered.transport, offered.nqn) == ("tcp", "nqn.test")
    assert (offered.address, offered.service) == ("127.0.0.1", "4420")
    assert offered.fields["treq"] == "not specified, sq flow control disable supported"
    assert len(offered.fields) == 10


def test_none() -> None:
    assert parse_discovery("\nDiscovery Log Number of Records 0, Generation counter 7\n") == ()


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (TEXT[: TEXT.index("=====Discovery Log Entry 1")], "truncated-result"),
        (TEXT.replace("Records 2", "Records 1"), "truncated-result"),
        (TEXT.replace("Entry 1", "Entry 3"), "unreadable-result"),
        (TEXT.replace("trtype:", "trtype", 1), "unreadable-result"),
        (TEXT.replace("portid:", "trtype:", 1), "unreadable-result"),
        (TEXT.replace("traddr:", "adr:", 1), "truncated-result"),
        (TEXT[:-3], "truncated-result"),
        ("failed to connect\n", "unreadable-result"),
        ("", "empty-result"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, condition: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_discovery(text)
    assert refused.value.condition == condition
