"""Where clients of a cluster tell their counters."""

from __future__ import annotations

from pathlib import Path

from leadline import files
from leadline.connect.ceph import CephAccess
from leadline.targets.ceph_cluster import OpenCluster

# sockaddr_un has 108 bytes, the last of them 0 (unix(7)).
LONGEST = 107


def test_each_client_has_a_socket_of_its_own_which_goes_with_the_cluster(tmp_path: Path) -> None:
    conf = tmp_path / "ceph.conf"
    conf.write_text("[global]\nmon_host = here\n[client.admin]\nadmin_socket = /theirs\n")
    cluster = OpenCluster("c", CephAccess(conf=conf))
    text = cluster.client({"rbd_cache": "false"}).conf.read_text()
    told = [line for line in text.splitlines() if line.startswith("admin_socket")]
    # What stands last counts.
    assert told[-1] == f"admin_socket = {cluster.sockets}/$pid.$cctid.asok"
    assert "rbd_cache = false" in text
    longest = told[-1].partition(" = ")[2].replace("$pid", "4194304").replace("$cctid", "1" * 20)
    assert len(longest) <= LONGEST
    assert cluster.sockets.stat().st_mode & 0o777 == 0o700
    assert cluster.sockets.name.startswith(files.prefix("asok"))
    cluster.close()
    assert not cluster.sockets.exists()


def test_a_cluster_without_clients_makes_no_folder(tmp_path: Path) -> None:
    before = set(Path(files.SHORT).glob(files.prefix("asok") + "*"))
    cluster = OpenCluster("c", CephAccess(conf=tmp_path / "ceph.conf"))
    cluster.close()
    assert set(Path(files.SHORT).glob(files.prefix("asok") + "*")) == before
