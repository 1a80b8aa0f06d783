"""Command lines and configuration files of the cluster's programs. Sources of the settings: the
programs' own references and the fact sheet ../shared/facts/k8s-lab.md."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes import images, sweep

NODE, SECOND_NODE = "lab-node", "lab-node-2"
ZONES = {NODE: "zone-a", SECOND_NODE: "zone-b"}
# Where pods look for the API server. No kube-proxy: the address is the node's own.
SERVICES, API_SERVICE = "10.96.0.0/16", "10.96.0.1"
NODE_LABELS = {
    "topology.kubernetes.io/region": "region-1",
    "node.kubernetes.io/instance-type": "lab.large",
}
CNI_PLUGINS = "/usr/lib/cni"
# Requests to the API server: its own priority and fairness bounds them.
API_RATE = ("--kube-api-qps=100", "--kube-api-burst=200")

# kubelet sets these for the whole machine; files over them in the mount namespace take the writes.
_SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
# Folders with paths that containerd, CNI and kubelet have built in.
_SHADOWED = ("/var/lib", "/var/log", "/opt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Addresses of one cluster; `host` is this machine's end, `node` the cluster's; the API server
    listens at `bind`."""

    host: str
    node: str
    bind: str
    pods: str
    api_port: int
    etcd_port: int
    etcd_peer_port: int
    most_pods: int = 110


def etcd(programs: Path, at: Path, network: Network) -> list[str]:
    client = f"http://127.0.0.1:{network.etcd_port}"
    peer = f"http://127.0.0.1:{network.etcd_peer_port}"
    return [
        str(programs / "etcd"),
        f"--data-dir={at / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]


def write_credentials(at: Path, tokens: Mapping[str, str], groups: Mapping[str, str]) -> None:
    """tokens.csv, the service accounts' key and the audit policy."""
    lines = (
        ",".join([token, user, user, *([groups[user]] if user in groups else [])])
        for user, token in tokens.items()
    )
    (at / "tokens.csv").write_text("\n".join(lines) + "\n")
    (at / "tokens.csv").chmod(0o600)
    subprocess.run(
        ["openssl", "genrsa", "-out", str(at / "service-accounts.key"), "2048"],
        check=True,
        capture_output=True,
    )
    rules = [
        {"level": "Metadata", "users": ["runner", "viewer", "nobody"]},
        {"level": "None"},
    ]
    (at / "audit-policy.yaml").write_text(
        json.dumps(
            {
                "apiVersion": "audit.k8s.io/v1",
                "kind": "Policy",
                "omitStages": ["RequestReceived"],
                "rules": rules,
            }
        )
    )


def apiserver(programs: Path, at: Path, network: Network) -> list[str]:
    key = at / "service-accounts.key"
    return [
        str(programs / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{network.etcd_port}",
        f"--secure-port={network.api_port}",
        f"--bind-address={network.bind}",
        f"--advertise-address={network.node}",
        f"--cert-dir={at / 'certs'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        f"--service-cluster-ip-range={SERVICES}",
        f"--token-auth-file={at / 'tokens.csv'}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        "--endpoint-reconciler-type=none",
        "--kubelet-preferred-address-types=InternalIP",
        f"--audit-policy-file={at / 'audit-policy.yaml'}",
        f"--audit-log-path={at / 'audit.log'}",
    ]


def controller_manager(programs: Path, at: Path, kubeconfig: Path) -> list[str]:
    return [
        str(programs / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        "--use-service-account-credentials",
        f"--root-ca-file={at / 'certs' / 'apiserver.crt'}",
        f"--service-account-private-key-file={at / 'service-accounts.key'}",
        "--leader-elect=false",
        "--secure-port=0",
        *API_RATE,
        # namespaces/main.go removes namespaces, with the same code and shorter pauses.
        "--controllers=*,-namespace-controller",
        # A node that says nothing is noticed in seconds, so that tests can stop kubelet.
        "--node-monitor-grace-period=12s",
        "--node-monitor-period=2s",
        "--pvclaimbinder-sync-period=5s",
    ]


def namespaces(programs: Path, kubeconfig: Path) -> list[str]:
    return [str(programs / "namespaces"), str(kubeconfig)]


def scheduler(programs: Path, kubeconfig: Path) -> list[str]:
    return [
        str(programs / "kube-scheduler"),
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
    ]


def prepare_node(at: Path) -> str:
    """Write what the node's mount namespace needs; the shell script to be run in it."""
    lines = ["set -e", "ip link set lo up", f"ip addr add {API_SERVICE}/32 dev lo"]
    lines.append("mount -t tmpfs -o mode=755 leadline-lab /run")
    lines.append("mkdir -p /run/lock /run/netns")
    for name in _SYSCTLS:
        source = Path("/proc/sys") / name
        if source.exists():
            shadow = at / "shadow" / "sys" / name
            shadow.parent.mkdir(parents=True, exist_ok=True)
            shadow.write_text(source.read_text())
            lines.append(f"mount --bind '{shadow}' '{source}'")
    for name in _SHADOWED:
        shadow = at / "shadow" / name.lstrip("/").replace("/", "-")
        for layer in ("upper", "work"):
            (shadow / layer).mkdir(parents=True)
        options = f"lowerdir={name},upperdir={shadow}/upper,workdir={shadow}/work"
        lines.append(f"mount -t overlay overlay -o '{options}' {name}")
    return "\n".join(lines)


def make_cgroups(name: str) -> None:
    """The cluster's cgroup in every hierarchy of this machine."""
    unified = (sweep.CGROUPS / "cgroup.procs").exists()
    for hierarchy in [sweep.CGROUPS] if unified else sweep.CGROUPS.iterdir():
        if hierarchy.is_symlink() or not (hierarchy / "cgroup.procs").exists():
            continue
        own = hierarchy / name
        own.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / file).exists() and (own / file).exists():
                (own / file).write_text((hierarchy / file).read_text())


def containerd(at: Path, network: Network, *, device_ownership: bool) -> list[str]:
    cni = at / "cni"
    cni.mkdir()
    bridge = {
        "type": "bridge",
        "bridge": "lab0",
        "isGateway": True,
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": network.pods}]],
            "dataDir": str(at / "cni-state"),
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    (cni / "10-bridge.conflist").write_text(
        json.dumps(
            {"cniVersion": "1.0.0", "name": "lab", "plugins": [bridge, {"type": "loopback"}]}
        )
    )
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    # restrict_oom_score_adj: a machine without CAP_SYS_RESOURCE refuses negative values, and no
    # pod would start.
    (at / "containerd.toml").write_text(f"""\
version = 2
root = "{at}/containerd"
state = "{at}/containerd-state"
[grpc]
  address = "{at}/containerd.sock"
[{cri}]
  sandbox_image = "{images.PAUSE}"
  restrict_oom_score_adj = true
  device_ownership_from_security_context = {str(device_ownership).lower()}
  [{cri}.containerd]
    snapshotter = "overlayfs"
    [{cri}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [{cri}.containerd.runtimes.runc.options]
        SystemdCgroup = false
  [{cri}.cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{cni}"
""")
    return ["containerd", "--config", str(at / "containerd.toml")]


def kubelet(
    programs: Path, at: Path, network: Network, kubeconfig: Path, cgroup: str, name: str = NODE
) -> list[str]:
    (at / "kubelet.yaml").write_text(
        json.dumps(
            {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "address": network.node,
                "healthzPort": 0,
                "maxPods": network.most_pods,
                "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
                "authorization": {"mode": "AlwaysAllow"},
                "cgroupDriver": "cgroupfs",
                "cgroupRoot": f"/{cgroup}",
                "enforceNodeAllocatable": [],
                "failCgroupV1": False,
                "failSwapOn": False,
                "makeIPTablesUtilChains": False,
                "containerRuntimeEndpoint": f"unix://{at}/containerd.sock",
                "imageGCHighThresholdPercent": 100,
                "imageGCLowThresholdPercent": 99,
                "evictionHard": {
                    "memory.available": "10Mi",
                    "nodefs.available": "0%",
                    "imagefs.available": "0%",
                    "nodefs.inodesFree": "0%",
                },
                "nodeStatusUpdateFrequency": "2s",
                "podLogsDir": str(at / "pod-logs"),
                "resolvConf": "",
                "syncFrequency": "5s",
                "volumePluginDir": str(at / "volume-plugins"),
            }
        )
    )
    given = {**NODE_LABELS, "topology.kubernetes.io/zone": ZONES[name]}
    labels = ",".join(f"{key}={value}" for key, value in given.items())
    return [
        str(programs / "kubelet"),
        f"--config={at / 'kubelet.yaml'}",
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={name}",
        f"--node-ip={network.node}",
        f"--node-labels={labels}",
        f"--root-dir={at / 'kubelet'}",
    ]
