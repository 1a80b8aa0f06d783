"""Load generators on other machines, over the real ssh: each host is an sshd of the test's own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leadline import errors
from leadline.archive.records import Created
from leadline.connect.shell import CommandResult, Shell, run_repeatable
from leadline.connect.ssh import SshHost, SshShell
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.targets.hosts import HostsTarget
from leadline.targets.open import remove_leftovers
from tests.awaiting import wait_for
from tests.conftest import ROOT
from tests.local_shell import LocalShell
from tests.real.conftest import fio_processes
from tests.real.ssh_hosts import SshHosts
from tests.unit.targets.journals import plan_with

pytestmark = pytest.mark.real
ODD = 'it\'s an "odd" $(name) \\ %h; ü'
FILES = {"leadline.0.dat": 1 << 20, "leadline.c2.0.dat": 1 << 20}
SMALL = Footprint(files=FILES, span=0, job_file_bytes=0, writes=True, clients=2)
JOB = "[j]\nfilename=leadline.0.dat\nsize=1M\nbs=4k\nrw=randread\nruntime={}\ntime_based\n"


@pytest.fixture
def shell(hosts: SshHosts) -> Iterator[SshShell]:
    hosts.start("a")
    made = SshShell("a")
    yield made
    made.close()


@pytest.fixture(params=["here", "by ssh"])
def any_shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    """What other ways to a shell also are held to."""
    if request.param == "here":
        return LocalShell(tmp_path)
    found: SshShell = request.getfixturevalue("shell")
    return found


def test_a_shell_does_what_it_is_reported_and_says_what_came_of_it(any_shell: Shell) -> None:
    given = bytes(range(256)) * 4096
    said = any_shell.run('cat; printf "%s|" "$0" "$@" >&2', ODD, "", given=given, bound_s=30)
    assert (said.stdout, said.status) == (given, 0)
    assert said.stderr.decode() == f"sh|{ODD}||"
    for status in (0, 1, 127, 255):
        assert any_shell.run("echo x; exit $1", str(status), bound_s=30).status == status
    assert any_shell.run("kill -KILL $$", bound_s=30).status in (137, -9)
    assert any_shell.run("cat", bound_s=30).stdout == b""


def test_output_comes_while_the_command_runs(any_shell: Shell, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    heard: list[bytes] = []

    def hear(chunk: bytes) -> None:
        heard.append(chunk)
        go_on.touch()

    script = 'echo one; until [ -e "$1" ]; do sleep 0.05; done; echo two'
    said = any_shell.run(script, str(go_on), bound_s=30, output=hear)
    assert (b"".join(heard), said.stdout, said.status) == (b"one\ntwo\n", b"", 0)


@pytest.mark.slow
def test_no_answer_in_time_is_reported(shell: SshShell) -> None:
    shell.run("true", bound_s=30)
    for script in ("sleep 20", "echo begun; exec >&- 2>&-; sleep 20"):
        with pytest.raises(LeadlineError, match="no answer within") as caught:
            shell.run(script, bound_s=1.5)
        assert caught.value.kind is errors.SHELL_LOST


def test_what_start_up_files_print_is_no_output(hosts: SshHosts) -> None:
    noisy = 'echo welcome; echo hi >&2; exec sh -c "$SSH_ORIGINAL_COMMAND"'
    hosts.start("a", more=f"ForceCommand {noisy}\nMaxSessions 1")
    shell = SshShell("a")
    assert shell.run("echo x", bound_s=30).stdout == b"x\n"
    shell.close()


def test_a_host_that_runs_no_commands_is_reported(hosts: SshHosts) -> None:
    hosts.start("a", more="ForceCommand echo this account is closed >&2; exit 1")
    with pytest.raises(LeadlineError, match="this account is closed") as caught:
        SshShell("a").run("true", bound_s=30)
    assert caught.value.kind is errors.HOST_UNREACHABLE


def _unknown_name(hosts: SshHosts) -> None:
    hosts.enter("a", 22, "HostName a.invalid")


def _refused(hosts: SshHosts) -> None:
    hosts.start("a")
    hosts.stop("a")


def _wrong_key(hosts: SshHosts) -> None:
    hosts.start("a")
    shutil.copy(hosts.folder / "host-a.pub", hosts.folder / "authorized")


def _unknown_host_key(hosts: SshHosts) -> None:
    hosts.start("a", known=False)


def _other_host_key(hosts: SshHosts) -> None:
    hosts.start("a")
    other = (hosts.folder / "key.pub").read_text().split()
    (hosts.folder / "known").write_text(f"a {' '.join(other[:2])}\n")


def _bad_configuration(hosts: SshHosts) -> None:
    hosts.start("a")
    hosts.config.write_text("Hosst a\n")


@pytest.mark.parametrize(
    ("make", "fact"),
    [
        (_unknown_name, "has an unknown name"),
        (_refused, "refuses the connection"),
        (_wrong_key, "does not accept this user"),
        (_unknown_host_key, "has an unknown host key"),
        (_other_host_key, "has another host key than the known one"),
        (_bad_configuration, "cannot be reached with this configuration"),
    ],
)
def test_why_a_host_is_not_reached_is_reported(hosts: SshHosts, make: Any, fact: str) -> None:
    make(hosts)
    with pytest.raises(LeadlineError) as caught:
        SshShell("a").run("true", bound_s=60)
    assert caught.value.kind is errors.HOST_UNREACHABLE
    assert fact in caught.value.fact
    assert "'a'" in caught.value.fact
    assert caught.value.context
    assert caught.value.hint


def test_a_connection_lost_behind_a_command_is_reported_and_made_again(
    hosts: SshHosts, shell: SshShell, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"

    def cut() -> None:
        wait_for(begun.exists)
        hosts.cut("a")

    cutting = threading.Thread(target=cut)
    cutting.start()
    with pytest.raises(LeadlineError, match="connection to the host 'a' was lost") as caught:
        shell.run('touch "$1"; sleep 60', str(begun), bound_s=120)
    cutting.join()
    assert caught.value.kind is errors.SHELL_LOST
    assert run_repeatable(shell, "echo again", bound_s=30).text == "again"


@pytest.mark.slow
def test_a_host_that_comes_back_in_time_is_waited_for(hosts: SshHosts) -> None:
    port = hosts.start("a")
    shell = SshShell("a")
    shell.run("true", bound_s=30)
    hosts.stop("a")
    with pytest.raises(LeadlineError) as caught:
        run_repeatable(shell, "true", bound_s=1.0)
    assert caught.value.kind is errors.SHELL_LOST
    back = threading.Timer(1.0, lambda: hosts.start("a", port=port))
    back.start()
    assert run_repeatable(shell, "echo back", bound_s=60).text == "back"
    back.join()
    shell.close()


def test_nothing_of_a_connection_outlives_leadline(hosts: SshHosts) -> None:
    hosts.start("a")
    code = (
        "import os, signal; from leadline.connect.ssh import SshShell; shell = SshShell('a')\n"
        "shell.run('true', bound_s=30); print(shell._connection._master.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    master = Path(f"/proc/{int(done.stdout)}")

    def gone() -> bool:
        try:
            return "State:\tZ" in (master / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_for(gone)


class Serving:
    """A fio server of host `a` in the folder, as if it were here."""

    def __init__(self, hosts: SshHosts, shell: SshShell) -> None:
        folder = hosts.folder / ODD
        folder.mkdir()
        self.folder = folder
        self.socket = hosts.folder / "here.sock"
        host = SshHost(host="a", path=str(folder), shell=shell)
        command = host.serving(self.socket, (), {"ODD": ODD})
        forwarded = command[command.index("-L") + 1]
        self.there = Path(forwarded.rpartition(":")[2]).parent
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        wait_for(self.socket.exists)
        job = hosts.folder / "job.fio"
        self.job = job

    def client(self, runtime_s: int) -> subprocess.Popen[bytes]:
        self.job.write_text(JOB.format(runtime_s))
        return subprocess.Popen(
            ["fio", "--output-format=json", f"--client=sock:{self.socket}", str(self.job)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    @property
    def gone(self) -> bool:
        left = self.there.exists() or self.socket.exists() or fio_processes(self.there)
        return self.process.poll() is not None and not left


@pytest.fixture
def serving(hosts: SshHosts, shell: SshShell) -> Iterator[Serving]:
    made = Serving(hosts, shell)
    yield made
    if made.process.poll() is None:
        made.process.kill()
    made.process.wait()


def _listening(pids: list[int]) -> list[str]:
    """Inodes of sockets of the processes that take connections over IP."""
    inodes = {
        str(link.readlink()).removeprefix("socket:[").removesuffix("]")
        for pid in pids
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if str(link.readlink()).startswith("socket:")
    }
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return [line[9] for line in lines if line[3] == "0A" and line[9] in inodes]


def test_a_fio_server_of_a_host_answers_here_and_to_no_other_user(serving: Serving) -> None:
    client = serving.client(1)
    said, _ = client.communicate(timeout=60)
    assert client.returncode == 0, said
    assert json.loads(said[said.index(b"{") :])["client_stats"][0]["read"]["total_ios"] > 0
    assert (serving.folder / "leadline.0.dat").stat().st_size == 1 << 20
    servers = fio_processes(serving.there)
    variables = Path(f"/proc/{min(servers)}/environ").read_bytes().split(b"\0")
    assert f"ODD={ODD}".encode() in variables
    assert serving.there.stat().st_mode & 0o777 == 0o700
    assert _listening([min(servers)]) == []
    serving.process.terminate()
    wait_for(lambda: serving.gone)


@pytest.mark.parametrize("how", ["killed here", "connection cut", "server killed there"])
def test_a_fio_server_ends_with_its_connection_and_in_the_middle_of_io(
    hosts: SshHosts, serving: Serving, how: str
) -> None:
    client = serving.client(120)
    wait_for(lambda: len(fio_processes(serving.there)) > 1)
    if how == "killed here":
        serving.process.kill()
    elif how == "connection cut":
        hosts.cut("a")
    else:
        for pid in fio_processes(serving.there):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: serving.gone)
    client.communicate(timeout=60)
    assert client.returncode != 0


@pytest.mark.slow
def test_many_servers_are_begun_at_once_though_sshd_takes_few(
    hosts: SshHosts, tmp_path: Path
) -> None:
    hosts.start("a", more="MaxStartups 5:100:5")
    shell = SshShell("a")
    shell.run("true", bound_s=30)
    host = SshHost(host="a", path=str(tmp_path), shell=shell)
    sockets = [hosts.folder / f"s{number}" for number in range(16)]
    servers = [
        subprocess.Popen(host.serving(socket, (), {}), stdin=subprocess.DEVNULL)
        for socket in sockets
    ]
    wait_for(lambda: all(socket.exists() for socket in sockets), timeout_s=60)
    for server in servers:
        server.terminate()
        server.wait()
    wait_for(lambda: not any(socket.exists() for socket in sockets))
    shell.close()


def test_a_host_that_forwards_no_sockets_is_reported(
    hosts: SshHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may take longer to refuse it.
    monkeypatch.setattr("leadline.connect.ssh._OPEN_S", 60.0)
    hosts.start("a", more="AllowStreamLocalForwarding no")
    target = HostsTarget(Target(name="one", url=f"hosts:a:{tmp_path}"))
    with pytest.raises(LeadlineError, match="cannot be reached through ssh") as caught:
        target.inspect(SMALL, prefill=True)
    assert caught.value.kind is errors.HOST_UNREACHABLE
    assert "open failed" in str(caught.value)
    assert "AllowStreamLocalForwarding" in str(caught.value)


class Journal:
    def __init__(self) -> None:
        self.entries: list[Created] = []

    def note_created(self, entry: Created) -> None:
        self.entries.append(entry)

    def note_removed(self, entry: Created) -> None:
        self.entries.remove(entry)


def _separate(hosts: SshHosts, *names: str) -> Path:
    """Hosts that each show a folder of their own at one path."""
    if os.geteuid() != 0:
        pytest.skip("needs root: hosts with disks of their own do NOT get tested here")
    at = hosts.folder / ODD
    at.mkdir()
    for name in names:
        hosts.start(name, at=at)
    return at


def connected(target: HostsTarget, host: str) -> bool:
    master = target.shells[host]._connection._master
    return master is not None and master.poll() is None


def once(
    shell: Shell, script: str, *arguments: str, given: bytes = b"", bound_s: float
) -> CommandResult:
    """In place of `run_repeatable`."""
    return shell.run(script, *arguments, given=given, bound_s=bound_s)


@pytest.mark.slow
def test_a_target_on_two_hosts_is_used_and_left_as_it_was(hosts: SshHosts) -> None:
    at = _separate(hosts, "a", "b")
    journal = Journal()
    target = HostsTarget(Target(name="both", url=f"hosts:a,b:{at}"))
    target.inspect(SMALL, prefill=True)
    target.acquire(SMALL, "run", journal)
    assert len(journal.entries) == 2
    assert target.sharing == {}
    assert target.present()
    assert target.filesystem()
    for name in ("a", "b"):
        (folder,) = hosts.root(name).iterdir()
        (folder / "leadline.0.dat").write_bytes(b"x" * (1 << 20))
    assert target.allocated_bytes() == 2 << 20
    dropped = target.drop_caches()
    assert dropped is not None
    assert dropped.resident_before_bytes == 2 << 20
    hosts.stop("b")
    # Nothing is forgotten that could not be undone.
    shutil.rmtree(next(hosts.root("a").iterdir()))
    # A connection that is seen to be lost is made again, without effect: once, however long that
    # takes.
    wait_for(lambda: not connected(target, "b"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leadline.connect.ssh._PAUSE_S", 3600.0)
        patch.setattr("leadline.targets.hosts.run_repeatable", once)
        (told,) = target.release()
    assert told.startswith(f"hosts:b:{at}/leadline-run-")
    assert "could not be removed: the host 'b' refuses the connection" in told
    assert [entry.path.partition(":/")[0] for entry in journal.entries] == ["hosts:b"]
    port = int(hosts.config.read_text().split("Host b")[1].split("Port ")[1].split()[0])
    hosts.start("b", port=port, at=at)
    assert target.release() == ()
    assert target.release() == ()
    assert journal.entries == []
    assert not list(hosts.root("b").iterdir())
    assert not list(at.iterdir())


def test_what_a_killed_session_left_on_hosts_is_removed(hosts: SshHosts, tmp_path: Path) -> None:
    at = _separate(hosts, "a", "b")
    code = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[1])\n"
        "from tests.real.test_hosts import *\n"
        "class Told(Journal):\n"
        "    def note_created(self, entry): print(entry.model_dump_json(), flush=True)\n"
        "target = HostsTarget(Target(name='both', url=sys.argv[2]))\n"
        "target.acquire(SMALL, 'run', Told())\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT), f"hosts:a,b:{at}"], capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = tuple(Created.model_validate_json(line) for line in done.stdout.splitlines())
    for name in ("a", "b"):
        (folder,) = hosts.root(name).iterdir()
        (folder / "leadline.c2.0.dat").write_bytes(b"x")
    journal = Journal()
    journal.entries += left
    run: Any = SimpleNamespace(
        path=tmp_path,
        id="run",
        left_behind=left,
        unrestored=(),
        whole_plan=plan_with(Target(name="both", url=f"hosts:a,b:{at}")),
    )
    writer: Any = journal
    other: Any = SimpleNamespace(**{**vars(run), "id": "other"})
    removed, problems = remove_leftovers(other, writer)
    assert removed == []
    assert ["was kept" in told for told in problems] == [True, True]
    for name in ("a", "b"):
        (folder,) = hosts.root(name).iterdir()
        assert (folder / "leadline.c2.0.dat").exists()
    removed, problems = remove_leftovers(run, writer)
    assert removed == [f"removed what a killed session left: {item.path}" for item in left]
    assert problems == []
    assert journal.entries == []
    assert not [path for name in ("a", "b") for path in hosts.root(name).iterdir()]


def test_hosts_that_share_their_path_share_the_folder(hosts: SshHosts) -> None:
    shared = hosts.folder / ODD
    shared.mkdir()
    for name in ("a", "b"):
        hosts.start(name)
    journal = Journal()
    target = HostsTarget(Target(name="both", url=f"hosts:a,b:{shared}"))
    target.acquire(SMALL, "run", journal)
    assert len(target.sharing) == len(journal.entries) == 1
    assert target.release() == ()
    assert list(shared.iterdir()) == []


def test_every_host_that_cannot_be_used_is_reported_at_once(
    hosts: SshHosts, tmp_path: Path
) -> None:
    hosts.start("a")
    hosts.start("b")
    hosts.stop("b")
    hosts.start("c", known=False)
    target = HostsTarget(Target(name="all", url=f"hosts:a,b,c:{tmp_path / 'not there'}"))
    began = time.monotonic()
    with pytest.raises(LeadlineError) as caught:
        target.inspect(SMALL, prefill=True)
    told = str(caught.value)
    assert "the 3 hosts have 3 faults" in told
    for said in (
        "is not visible to this user on the host 'a' [target-invalid]",
        "the host 'b' refuses the connection [host-unreachable]",
        "the host 'c' has an unknown host key [host-unreachable]",
    ):
        assert said in told
    assert time.monotonic() - began < 60, "hosts that are away are not waited for"
    assert target.release() == ()
