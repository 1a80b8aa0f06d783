"""A second node of a cluster: containerd and kubelet in namespaces of their own, on this machine.

Both nodes see the same folders of the machine, so that a folder can be a volume that both share, as
of NFS. The class `shared` has such volumes (local-path-provisioner's `sharedFileSystemPath`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.kubernetes import classes, images, parts
from tests.kubernetes.cluster import SECOND_NODE_USER, Cluster, Refused, connect, free_nest

_NODE_PATH = f"/api/v1/nodes/{parts.SECOND_NODE}"


@contextlib.contextmanager
def joined(cluster: Cluster) -> Iterator[str]:
    """A second node, with the images of the first one, until the end; its name."""
    folder = cluster.folder.parent / f"{cluster.folder.name}-{parts.SECOND_NODE}"
    folder.mkdir()
    keeper, network = free_nest(folder, range(1, 255), whole=True, most_pods=20)
    manifest = classes.storage_class(classes.SHARED, classes.LOCAL_PATH)
    try:
        connect(keeper, network)
        for interface in (keeper.interface, cluster.keeper.interface):
            # The nodes reach each other through this machine; both interfaces go with their nodes.
            Path(f"/proc/sys/net/ipv4/conf/{interface}/forwarding").write_text("1")
        keeper.start("containerd", parts.containerd(folder, network, device_ownership=True))
        address = folder / "containerd.sock"
        cluster.until("the second containerd", address.exists)
        for image in (images.pause(folder), images.runner(folder)):
            load = ["ctr", "--address", str(address), "-n", "k8s.io", "images", "import"]
            keeper.run([*load, str(image)])
            image.unlink()
        kubeconfig = cluster.kubeconfig(SECOND_NODE_USER)
        command = parts.kubelet(
            cluster.programs, folder, network, kubeconfig, keeper.cgroup, parts.SECOND_NODE
        )
        keeper.start("kubelet", command)
        cluster.until("the second node", lambda: cluster.node_ready(parts.SECOND_NODE))
        cluster.apply(manifest)
        yield parts.SECOND_NODE
    finally:
        keeper.close()
        for path in (f"/apis/storage.k8s.io/v1/storageclasses/{classes.SHARED}", _NODE_PATH):
            with contextlib.suppress(Refused):
                cluster.request(path, "DELETE")
