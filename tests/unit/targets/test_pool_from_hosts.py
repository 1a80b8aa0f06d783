"""Hosts that do I/O on an image: what fio there reports, and what the hosts get."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leadline import errors
from leadline.archive.records import Created
from leadline.connect.ceph import CephAccess
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.runner.ports import CEPH_CONF_THERE
from leadline.targets import hosts as hosts_module
from leadline.targets import pool_from_hosts as module
from leadline.targets.ceph import RbdTarget
from leadline.targets.hosts import remove_from_host
from leadline.targets.pool_from_hosts import RadosFromHostsTarget, RbdFromHostsTarget
from leadline.targets.rados_objects import RadosObjectsTarget
from tests.local_shell import SCRATCH, LocalShell, stub

NEEDED = Footprint(files={"leadline.0.dat": 1}, span=1, job_file_bytes=0, writes=True, clients=2)
CONF = "[client]\nkey = secret\n"
# The version is asked for first, as of every host.
FIO = """case $1 in --version) echo fio-3.33; exit 0 ;; esac
echo "$CEPH_CONF" >>{folder}/paths; stat -c %a "$CEPH_CONF" >>{folder}/modes
cat "$CEPH_CONF" >>{folder}/conf; echo "$@" >>{folder}/options
echo "{said}"; exit {status}"""


class Host(LocalShell):
    def close(self) -> None:
        return


class Cluster:
    name = "c"
    temporary = silent = False
    access = CephAccess(conf=Path("ceph.conf"), name="bench")

    def client_configuration(self, settings: dict[str, str]) -> str:
        return CONF + "".join(f"{key} = {value}\n" for key, value in settings.items())

    def restore(self) -> tuple[str, ...]:
        return ()


@pytest.fixture
def shells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets have no cluster; their hosts are shells of this machine."""
    made: dict[str, Host] = {}

    def shell(host: str) -> Host:
        programs = tmp_path / "programs"
        return made.setdefault(host, Host(tmp_path / host, f"host {host}", programs=programs))

    monkeypatch.setattr(hosts_module, "SshShell", shell)
    monkeypatch.setattr(hosts_module, "require_serving", lambda host: None)
    monkeypatch.setattr(module, "FOLDER_THERE", SCRATCH)
    for kind in (RbdTarget, RadosObjectsTarget):
        for name in ("inspect", "acquire"):
            monkeypatch.setattr(kind, name, lambda *_, **__: None)


@pytest.fixture
def target(shells: None) -> RbdFromHostsTarget:
    url = Target(name="t", url="rbd:rep3?hosts=a,b", cluster="c")
    cluster: Any = Cluster()
    return RbdFromHostsTarget(url, cluster, (), lambda sentence: None)


def fio(folder: Path, said: str, status: int) -> None:
    stub(folder / "programs", "fio", FIO.format(folder=folder, said=said, status=status))


def test_a_host_that_reaches_the_pool_is_fit_and_keeps_no_configuration(
    target: RbdFromHostsTarget, tmp_path: Path
) -> None:
    fio(tmp_path, "rbd_open failed.", 1)
    target.inspect(NEEDED, prefill=True)
    options = (tmp_path / "options").read_text().splitlines()
    assert len(options) == 2
    assert all("--clientname=bench --pool=rep3 --rbdname=leadline-none" in line for line in options)
    assert (tmp_path / "modes").read_text().split() == ["600", "600"]
    assert "client_mount_timeout = 10" in (tmp_path / "conf").read_text()
    assert not any(Path(path).exists() for path in (tmp_path / "paths").read_text().split())


@pytest.mark.parametrize(
    ("said", "status", "kind", "fact"),
    [
        ("fio: engine rbd not loadable", 1, errors.ENGINE_UNKNOWN, "has no engine 'rbd'"),
        ("rados_connect failed.", 1, errors.CEPH_UNREACHABLE, "cannot use the pool 'rep3'"),
        ("", 124, errors.CEPH_UNREACHABLE, "no answer within 20 s"),
        (
            "1 -1 auth: unable to find a keyring on /etc/ceph/k: (2) No such file or directory",
            139,
            errors.CEPH_DENIED,
            "the host 'a' has no keyring of client.bench",
        ),
        (
            "1 -1 monclient(hunting): handle_auth_bad_method server allowed_methods [2]",
            139,
            errors.CEPH_DENIED,
            "does not accept the key of client.bench on the host 'a'",
        ),
    ],
)
def test_a_host_that_does_not_reach_the_pool_is_refused(
    target: RbdFromHostsTarget,
    tmp_path: Path,
    said: str,
    status: int,
    kind: errors.ErrorKind,
    fact: str,
) -> None:
    fio(tmp_path, said, status)
    with pytest.raises(LeadlineError) as caught:
        target.inspect(NEEDED, prefill=True)
    assert caught.value.kind is kind
    assert "the 2 hosts have 2 faults" in str(caught.value) or fact in str(caught.value)
    alone = target._try("a", b"")
    assert alone is not None
    assert fact in str(alone)
    assert not list((tmp_path / "a" / "scratch").iterdir())


def test_fios_rados_engine_gets_the_configuration_as_an_option(
    shells: None, tmp_path: Path
) -> None:
    cluster: Any = Cluster()
    url = Target(name="t", url="rados:rep3?hosts=a,b", cluster="c")
    target = RadosFromHostsTarget(url, cluster, lambda sentence: None)
    fio(tmp_path, "", 0)
    target.inspect(NEEDED, prefill=True)
    for options in (tmp_path / "options").read_text().splitlines():
        assert "--ioengine=rados --conf=/" in options
        assert "--clientname=bench --pool=rep3 --touch_objects=0" in options
    fio(tmp_path, "rados_connect failed.", 139)
    found = target._try("a", b"")
    assert found is not None
    assert found.kind is errors.CEPH_UNREACHABLE


def test_the_configuration_is_private_and_is_removed_on_every_way(
    target: RbdFromHostsTarget, tmp_path: Path
) -> None:
    noted: list[Created] = []
    removed: list[Created] = []
    journal = SimpleNamespace(note_created=noted.append, note_removed=removed.append)
    target.acquire(NEEDED, "run", journal)
    confs = [next((tmp_path / host / "scratch").iterdir()) / CEPH_CONF_THERE for host in "ab"]
    for conf in confs:
        assert conf.stat().st_mode & 0o777 == 0o600
        assert conf.read_text() == CONF
    # `clean` removes it after a kill, by the journal alone.
    assert remove_from_host(noted[1], "run") == ()
    assert not confs[1].parent.exists()
    assert target.release() == ()
    assert not confs[0].parent.exists()
    assert removed == noted
