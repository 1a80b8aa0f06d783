"""Starts a cluster in the foreground, for use by hand.

    python -m tests.kubernetes.up FOLDER [--number N] [--no-device-ownership] [--delete-delay S]
                                         [--api-server-only] [--no-crds] [--occupy]

Prints the kubeconfig's path when everything is up; ends, and removes everything, at Ctrl-C or
SIGTERM. FOLDER must be absent or empty, and is removed at the end.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from pathlib import Path

from tests.kubernetes import classes, crds, objects
from tests.kubernetes.cluster import USERS, Cluster

BUILD = Path(__file__).with_name("build.sh")


def programs() -> Path:
    """Build, or find in the cache, the cluster's programs; CalledProcessError (3: no Go)."""
    built = subprocess.run([str(BUILD)], check=True, stdout=subprocess.PIPE, text=True)
    return Path(built.stdout.strip())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes.up")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--number", type=int)
    parser.add_argument("--no-device-ownership", action="store_true")
    parser.add_argument("--delete-delay", type=float, default=0.0, metavar="S")
    parser.add_argument("--api-server-only", action="store_true")
    parser.add_argument("--no-crds", action="store_true")
    parser.add_argument("--occupy", action="store_true", help="run a pod on a block volume")
    chosen = parser.parse_args()
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cluster = Cluster(
        programs(),
        chosen.folder,
        whole=not chosen.api_server_only,
        number=chosen.number,
        device_ownership=not chosen.no_device_ownership,
        delete_delay_s=chosen.delete_delay,
    )
    with cluster:
        classes.apply(cluster)
        if not chosen.no_crds:
            crds.apply(cluster)
        if chosen.occupy:
            objects.namespace(cluster, "occupied")
            cluster.apply(objects.claim("occupied", "work", "block", "Block", "32Mi"))
            cluster.apply(objects.pod("occupied", "work", "Block"))
            objects.running(cluster, "occupied", "work")
        for user in USERS:
            cluster.kubeconfig(user)
        print(f"KUBECONFIG={cluster.kubeconfig()}", flush=True)  # noqa: T201
        # Masked and then waited for: a signal in between is kept, none is lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        signal.sigwait(ends)
        print("ending", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
