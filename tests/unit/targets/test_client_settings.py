from __future__ import annotations

import pytest

from leadline.errors import TARGET_INVALID, LeadlineError
from leadline.plan.target_url import parse_target_url
from leadline.targets.ceph import client_settings


@pytest.mark.parametrize(
    ("url", "here", "expected"),
    [
        ("rbd:p", "zone=a", {"rbd_cache": "false"}),
        (
            "rbd:p?read_policy=balance",
            "",
            {"rbd_cache": "false", "rbd_read_from_replica_policy": "balance"},
        ),
        (
            "rbd:p?read_policy=localize",
            "region=eu1,zone=az1",
            {
                "rbd_cache": "false",
                "rbd_read_from_replica_policy": "localize",
                "crush_location": "region=eu1,zone=az1",
            },
        ),
        (
            "rbd:p?read_policy=localize&crush_location=zone:az2|rack:r1",
            "zone=az1",
            {
                "rbd_cache": "false",
                "rbd_read_from_replica_policy": "localize",
                "crush_location": "zone=az2,rack=r1",
            },
        ),
    ],
)
def test_the_client_has_no_cache_and_reads_where_it_is_told(
    url: str, here: str, expected: dict[str, str]
) -> None:
    assert dict(client_settings(parse_target_url(url), here)) == expected


def test_nearest_copies_need_to_know_where_the_client_is() -> None:
    with pytest.raises(LeadlineError) as caught:
        client_settings(parse_target_url("rbd:p?read_policy=localize"), "")
    assert caught.value.kind is TARGET_INVALID
    assert "crush_location=zone:NAME" in str(caught.value)
