"""The parameters of a plan's settings, by the connections to its clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from leadline.connect.ceph import Connection
from leadline.connect.ssh import SshShell
from leadline.plan.models import Plan
from leadline.plan.setting_commands import setting_pools
from leadline.plan.settings import (
    CephConfig,
    Command,
    HostFile,
    KubernetesField,
    PoolOption,
    Setting,
    ZfsParameter,
)
from leadline.settings.ceph import CephSystem
from leadline.settings.ceph_config import CephConfigParameter
from leadline.settings.command import CommandParameter
from leadline.settings.host_file import HostFileParameter
from leadline.settings.parameter import Host, Parameter
from leadline.settings.pool import PoolParameter
from leadline.settings.zfs_parameter import ZfsModuleParameter

if TYPE_CHECKING:
    from leadline.connect.kubernetes.client import Connection as KubernetesConnection
    from leadline.settings.kubernetes import KubernetesResource


class Parameters:
    """Finds the parameters of settings. `ceph` and `kubernetes` return the connection to a cluster
    of the plan; that to a lab that is gone is None."""

    def __init__(
        self,
        ceph: Callable[[str], Connection | None],
        kubernetes: Callable[[str], KubernetesConnection],
    ) -> None:
        self._ceph = ceph
        self._kubernetes = kubernetes
        self._systems: dict[str, CephSystem | None] = {}
        self._resources: dict[tuple[str, ...], KubernetesResource] = {}
        self._hosts: dict[str, Host] = {}
        self._shells: dict[str, SshShell] = {}

    def find(self, plan: Plan, setting: Setting, cluster: str) -> Sequence[Parameter]:
        """The parameters of a setting on a cluster; none on a lab that is gone. Raises
        LeadlineError where a system cannot be reached."""
        match setting.change:
            case CephConfig() as change:
                system = self._ceph_system(cluster)
                return (CephConfigParameter(change, system),) if system else ()
            case PoolOption() as change:
                system = self._ceph_system(cluster)
                pools = setting_pools(plan, setting, cluster) if system else ()
                return tuple(PoolParameter(pool, change.name, system) for pool in pools if system)
            case ZfsParameter(name=name):
                return (ZfsModuleParameter(name, self._host("")),)
            case HostFile(path=path, hosts=()):
                return (HostFileParameter(path, self._host("")),)
            case HostFile(path=path, hosts=hosts):
                return tuple(
                    HostFileParameter(path, self._host(name), self._shell(name), name)
                    for name in hosts
                )
            case Command() as change:
                return (CommandParameter(change, self._host("")),)
            case KubernetesField() as change:
                return self._of_kubernetes(change, cluster)
        return ()

    def _of_kubernetes(self, change: KubernetesField, cluster: str) -> Sequence[Parameter]:
        # The Kubernetes client takes long to import.
        from leadline.settings.kubernetes import KubernetesParameter, KubernetesResource

        key = (cluster, change.api, change.kind, change.namespace, change.name)
        if key not in self._resources:
            self._resources[key] = KubernetesResource(self._kubernetes(cluster), change)
        return (KubernetesParameter(change, self._resources[key]),)

    def _ceph_system(self, cluster: str) -> CephSystem | None:
        if cluster not in self._systems:
            connection = self._ceph(cluster)
            self._systems[cluster] = CephSystem(connection) if connection else None
        return self._systems[cluster]

    def _host(self, name: str) -> Host:
        return self._hosts.setdefault(name, Host(name))

    def _shell(self, name: str) -> SshShell:
        return self._shells.setdefault(name, SshShell(name))

    def close(self) -> None:
        """End the connections to hosts."""
        for shell in self._shells.values():
            shell.close()
