"""Targets in a Ceph pool on which load generators reached by ssh do I/O.

`rbd:POOL?hosts=a,b` is one image, `rados:POOL?hosts=a,b` are objects.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import resources

from leadline import errors
from leadline.connect.shell import run_repeatable
from leadline.engines.fio.choice import TRY_S
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.plan.target_url import TargetKind, TargetUrl
from leadline.plan.workload import EngineChoice
from leadline.probes.watches.host import Machine
from leadline.runner.ports import CEPH_CONF_THERE, Host, Journal, RadosObjects, RbdImage
from leadline.targets.ceph import PoolTarget, RbdTarget
from leadline.targets.ceph_cluster import OpenCluster
from leadline.targets.hosts import HostsTarget
from leadline.targets.rados_objects import RadosObjectsTarget

# Where a folder with the configuration is made on each host.
FOLDER_THERE = "/tmp"
_CONNECT_S = 60.0
# An image or object that cannot exist: fio looks for it after it has reached the pool.
_NOTHING = "leadline-none"
_REACHED = "rbd_open failed"
# librados on stderr: without a key, and with one that the cluster does not know.
_NO_KEY, _OTHER_KEY = "unable to find a keyring", "handle_auth_bad_method"
# The exit status of timeout(1).
_TIMED_OUT = 124


class _FromHosts(PoolTarget):
    """This machine makes, fills and removes the data. The hosts get the configuration of Ceph in a
    private file; keyrings are theirs."""

    engine: EngineChoice
    _hosts: HostsTarget
    _settings: tuple[tuple[str, str], ...] = ()

    def _use_hosts(self, target: Target, note: Callable[[str], None]) -> None:
        names = ",".join(target.parsed.hosts)
        url = TargetUrl(kind=TargetKind.HOSTS, location=f"{names}:{FOLDER_THERE}")
        self._hosts = HostsTarget(target.model_copy(update={"url": str(url)}), note)

    @abstractmethod
    def _try_options(self) -> tuple[str, ...]:
        """fio's options that name what it tries to read."""

    @abstractmethod
    def _is_reached(self, status: int, output: str) -> bool:
        """Whether a fio that ended so has reached the pool."""

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        super().inspect(footprint, prefill=prefill, claimed_bytes=claimed_bytes)
        self._hosts.require_none(self._hosts.probe(footprint))
        bounded = dict(self._settings) | {"client_mount_timeout": f"{TRY_S / 2:g}"}
        conf = self.cluster.client_configuration(bounded).encode("utf-8", "surrogateescape")
        found = self._hosts.on_all(lambda host: self._try(host, conf))
        self._hosts.require_none([fault for fault in found.values() if fault is not None])

    def _try(self, host: str, conf: bytes) -> LeadlineError | None:
        """Why fio on a host does not reach the pool."""
        script = (resources.files("leadline.targets") / "host_reach.sh").read_text("utf-8")
        who = (f"--clientname={self.cluster.access.name}", f"--pool={self._pool}")
        words = (f"{TRY_S:g}", self.engine.value, *who, *self._try_options())
        try:
            result = run_repeatable(
                self._hosts.shells[host], script, *words, given=conf, bound_s=TRY_S + _CONNECT_S
            )
        except LeadlineError as error:
            return error
        if self._is_reached(result.status, result.text):
            return None
        lines = [line.strip() for line in result.text.splitlines() if line.strip()]
        if any(self.engine.value in line and "not load" in line for line in lines):
            return LeadlineError(
                errors.ENGINE_UNKNOWN,
                f"fio on the host {host!r} has no engine {self.engine.value!r}",
                hint=f"install a fio that was built with lib{self.engine.value}, there",
            )
        user = f"client.{self.cluster.access.name}"
        for sign, fact in (
            (_NO_KEY, f"the host {host!r} has no keyring of {user}"),
            (_OTHER_KEY, f"the cluster does not accept the key of {user} on the host {host!r}"),
        ):
            found = [line[line.index(sign) :] for line in lines if sign in line]
            if found:
                return LeadlineError(
                    errors.CEPH_DENIED,
                    fact,
                    context=[f"librados: {found[0]}"],
                    hint=f"copy the keyring of {user} to the host, to the same path as here, "
                    "readable by the user of ssh",
                )
        failures = [line for line in lines if "failed" in line or "rror" in line]
        silent = [f"no answer within {TRY_S:g} s"] if result.status == _TIMED_OUT else []
        return LeadlineError(
            errors.CEPH_UNREACHABLE,
            f"the host {host!r} cannot use the pool {self._pool!r}",
            context=[f"fio: {line}" for line in (*failures[:3], *silent)],
            hint="the host needs a route to monitors and OSDs, and the keyring of "
            f"client.{self.cluster.access.name} at the same path as here",
        )

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        there = replace(footprint, files={CEPH_CONF_THERE: 0}, job_file_bytes=0)
        self._hosts.acquire(there, run, journal)
        conf = self.cluster.client_configuration(dict(self._settings))
        for host in self._hosts.location.hosts:
            self._write(host, conf.encode("utf-8", "surrogateescape"))
        super().acquire(footprint, run, journal)

    def _write(self, host: Host, conf: bytes) -> None:
        path = f"{host.path}/{CEPH_CONF_THERE}"
        result = run_repeatable(
            host.shell, 'umask 077 && cat >"$1"', path, given=conf, bound_s=_CONNECT_S
        )
        if result.status:
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"the configuration cannot be written on the host {host.name!r}: "
                f"{result.error_line}",
                context=[f"target {self.name!r}"],
            )

    def _clients(self) -> Sequence[Machine]:
        return self._hosts.machines()

    def present(self) -> bool:
        return super().present() and self._hosts.present()

    def release(self) -> tuple[str, ...]:
        return (*super().release(), *self._hosts.release())


class RbdFromHostsTarget(_FromHosts, RbdTarget):
    """`rbd:POOL?hosts=a,b`: one image."""

    engine = EngineChoice.RBD

    def __init__(
        self,
        target: Target,
        cluster: OpenCluster,
        destroy: Sequence[str],
        note: Callable[[str], None],
    ) -> None:
        RbdTarget.__init__(self, target, cluster, destroy)
        self._use_hosts(target, note)

    @property
    def location(self) -> RbdImage:
        image = super().location
        assert isinstance(image, RbdImage), "no option makes it another"
        return replace(image, hosts=self._hosts.location.hosts)

    def _try_options(self) -> tuple[str, ...]:
        return (f"--rbdname={self._url.image or _NOTHING}",)

    def _is_reached(self, status: int, output: str) -> bool:
        return status == 0 or (_REACHED in output and not self._url.image)


class RadosFromHostsTarget(_FromHosts, RadosObjectsTarget):
    """`rados:POOL?hosts=a,b`: objects of each client."""

    engine = EngineChoice.RADOS

    def __init__(self, target: Target, cluster: OpenCluster, note: Callable[[str], None]) -> None:
        RadosObjectsTarget.__init__(self, target, cluster)
        self._use_hosts(target, note)

    @property
    def location(self) -> RadosObjects:
        return replace(super().location, hosts=self._hosts.location.hosts)

    def _try_options(self) -> tuple[str, ...]:
        return ("--touch_objects=0", f"--filename={_NOTHING}")

    def _is_reached(self, status: int, output: str) -> bool:
        return status == 0
