"""The target `rbd:POOL?hosts=a,b`: one image, on which load generators reached by ssh do I/O."""

from __future__ import annotations

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
from leadline.probes.watches.host import Machine
from leadline.runner.ports import CEPH_CONF_THERE, Host, Journal, RbdImage
from leadline.targets.ceph import RbdTarget
from leadline.targets.ceph_cluster import OpenCluster
from leadline.targets.hosts import HostsTarget

# Where a folder with the configuration is made on each host.
FOLDER_THERE = "/tmp"
_CONNECT_S = 60.0
# An image that cannot exist: fio opens it after it has reached the pool.
_NO_IMAGE = "leadline-none"
_REACHED = "rbd_open failed"
# The exit status of timeout(1).
_TIMED_OUT = 124


class RbdFromHostsTarget(RbdTarget):
    """This machine makes, fills and removes the image. The hosts get the configuration of Ceph in a
    private file; keyrings are theirs."""

    def __init__(
        self,
        target: Target,
        cluster: OpenCluster,
        destroy: Sequence[str],
        note: Callable[[str], None],
    ) -> None:
        super().__init__(target, cluster, destroy)
        names = ",".join(target.parsed.hosts)
        url = TargetUrl(kind=TargetKind.HOSTS, location=f"{names}:{FOLDER_THERE}")
        self._hosts = HostsTarget(target.model_copy(update={"url": str(url)}), note)

    @property
    def location(self) -> RbdImage:
        image = super().location
        assert isinstance(image, RbdImage), "no option makes it another"
        return replace(image, hosts=self._hosts.location.hosts)

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
        image = self._url.image or _NO_IMAGE
        words = (self.cluster.access.name, self._pool, image, f"{TRY_S:g}")
        try:
            result = run_repeatable(
                self._hosts.shells[host], script, *words, given=conf, bound_s=TRY_S + _CONNECT_S
            )
        except LeadlineError as error:
            return error
        if result.status == 0 or (_REACHED in result.text and not self._url.image):
            return None
        lines = [line.strip() for line in result.text.splitlines() if line.strip()]
        if any("rbd" in line and "not load" in line for line in lines):
            return LeadlineError(
                errors.ENGINE_UNKNOWN,
                f"fio on the host {host!r} has no engine 'rbd'",
                hint="install a fio that was built with librbd, there",
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
