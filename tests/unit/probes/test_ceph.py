"""The capture: what is asked of whom, what may be refused, and that secrets stay behind."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping

import pytest

from leadline import errors
from leadline.connect.ceph import CommandFailed
from leadline.errors import LeadlineError
from leadline.inventory.ceph import dumps as names
from leadline.inventory.ceph.dumps import Asked
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.probes.ceph import Answer, capture
from tests.unit.inventory.conftest import dumps_of


class Cluster:
    """Answers from saved dumps; `refused` prefixes fail so, `silent` managers do not answer."""

    def __init__(
        self,
        dumps: Mapping[str, bytes],
        refused: frozenset[str] = frozenset(),
        silent: bool = False,
    ) -> None:
        known = (*names.DUMPS, *(names.config_show(item) for item in ("osd.0", "mon.a", "mgr.x")))
        self.answers = {
            (dump.asked, *_key(*dump.request)): dumps[dump.name]
            for dump in known
            if dump.name in dumps
        }
        self.refused, self.silent = refused, silent
        self.asked: list[tuple[Asked, str]] = []

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes:
        return self._answer(Asked.MON, prefix, arguments)

    def mgr(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes:
        if self.silent:
            self.asked.append((Asked.MGR, prefix))
            raise LeadlineError(errors.CEPH_UNREACHABLE, "no answer within 10 s")
        return self._answer(Asked.MGR, prefix, arguments)

    def _answer(self, asked: Asked, prefix: str, arguments: dict[str, object]) -> bytes:
        self.asked.append((asked, prefix))
        assert arguments.pop("format") == "json"
        key = (asked, *_key(prefix, arguments))
        if prefix in self.refused or key not in self.answers:
            raise CommandFailed(errno.EACCES, prefix, "access denied")
        return self.answers[key]


def _key(prefix: str, arguments: Mapping[str, object]) -> tuple[str, str]:
    return prefix, json.dumps(dict(sorted(arguments.items())))


@pytest.fixture
def dumps() -> dict[str, bytes]:
    return dumps_of("ceph-autoscaler-on")


def test_what_is_captured_is_what_was_saved(dumps: dict[str, bytes]) -> None:
    captured = capture(Cluster(dumps))
    assert captured == {
        name: value for name, value in dumps.items() if name != "config_show_mgr.x.json"
    }, "without `mgr dump` the active manager is not known"
    assert cluster_inventory(captured).version == "16.2.15"


def test_one_daemon_of_each_kind_is_asked_for_its_configuration(dumps: dict[str, bytes]) -> None:
    manager = dumps_of("ceph-multi-az")["mgr_dump.json"]
    cluster = Cluster(dumps | {"mgr_dump.json": manager, "config_show_mon.a.json": b"[]"})
    captured = capture(cluster)
    assert {name for name in captured if name.startswith("config_show")} == {
        "config_show_osd.0.json", "config_show_mon.a.json", "config_show_mgr.x.json",
    }  # fmt: skip


def test_a_refused_command_is_reported_and_not_fatal(dumps: dict[str, bytes]) -> None:
    reported: list[Answer] = []
    captured = capture(Cluster(dumps, frozenset({"config dump", "osd df"})), reported.append)
    refused = {item.dump.name for item in reported if item.refused}
    assert {"config_dump.json", "osd_df_tree.json"} <= refused
    missing = {item.dump for item in cluster_inventory(captured).not_captured}
    assert {"config_dump.json", "osd_df_tree.json"} <= missing
    answered = [item for item in reported if item.refused is None]
    assert all(item.size_bytes and item.seconds >= 0 for item in answered)


@pytest.mark.parametrize("dump", [dump for dump in names.DUMPS if dump.required])
def test_a_refused_command_that_is_needed_ends_it(
    dumps: dict[str, bytes], dump: names.Dump
) -> None:
    with pytest.raises(CommandFailed) as caught:
        capture(Cluster(dumps, frozenset({dump.request[0]})))
    assert caught.value.kind is errors.CEPH_FAILED


def test_a_silent_manager_is_waited_for_once(dumps: dict[str, bytes]) -> None:
    cluster = Cluster(dumps, silent=True)
    captured = capture(cluster)
    assert [asked for asked, _ in cluster.asked].count(Asked.MGR) == 1
    found = cluster_inventory(captured)
    assert "osd_df_tree.json" in {item.dump for item in found.not_captured}


def test_silent_monitors_end_it(dumps: dict[str, bytes]) -> None:
    class Silent(Cluster):
        def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes:
            if prefix == "fs dump":
                raise LeadlineError(errors.CEPH_UNREACHABLE, "no answer within 10 s")
            return super().mon(prefix, data, **arguments)

    with pytest.raises(LeadlineError) as caught:
        capture(Silent(dumps))
    assert caught.value.kind is errors.CEPH_UNREACHABLE


def test_secrets_stay_in_the_cluster(dumps: dict[str, bytes]) -> None:
    secret = "hunter2Zq"
    keys = ["dm-crypt/osd/114ab12d-1dde-451d-bb21-8decf699dd35/luks", f"mgr/dashboard/{secret}"]
    settings = [{"section": "mgr", "name": "mgr/x/password", "value": secret, "mask": ""}]
    captured = capture(
        Cluster(
            dumps
            | {
                "config_key_ls.json": json.dumps(keys).encode(),
                "config_dump.json": json.dumps(settings).encode(),
            }
        )
    )
    assert all(secret.encode() not in content for content in captured.values())
    assert json.loads(captured["config_key_ls.json"]) == keys[:1]


def test_credentials_are_never_asked_for_and_nothing_is_changed(dumps: dict[str, bytes]) -> None:
    cluster = Cluster(dumps)
    capture(cluster)
    for _, prefix in cluster.asked:
        assert not prefix.startswith(("auth", "config-key get", "config-key dump"))
        assert not {"set", "rm", "create", "enable"} & set(prefix.split())


def test_placement_groups_are_kept_without_what_nobody_reads(dumps: dict[str, bytes]) -> None:
    group = {"pgid": "1.0", "acting": [1, 0], "acting_primary": 1}
    answer = {"pg_stats": [{**group, "state": "active+clean", "up": [1, 0], "up_primary": 1}]}
    cluster = Cluster(dumps | {names.PGS.name: json.dumps(answer).encode()})
    assert json.loads(capture(cluster)[names.PGS.name]) == {"pg_stats": [group]}


def test_placement_groups_of_a_huge_cluster_are_not_requested(
    dumps: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "MOST_PGS", 10)
    cluster = Cluster(dumps | {names.PGS.name: b"[]"})
    captured = capture(cluster)
    assert "pg dump" not in [prefix for _, prefix in cluster.asked]
    assert names.PGS.name in {item.dump for item in cluster_inventory(captured).not_captured}
