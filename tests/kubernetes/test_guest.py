"""The whole way into a real guest: Debian's own cloud-init reads the seed of the real Secret, and a
serial port of QEMU's carries every request. The operator is a double (kubevirt_double.py)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leadline.connect.kubernetes.machines import DEVICES
from leadline.plan.volume_request import Bus
from tests.kubernetes import qemu_guest, vm_lifecycle
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.driving import Leadline
from tests.kubernetes.kubevirt_double import KubeVirtDouble
from tests.kubernetes.qemu_guest import QemuGuest

# Without KVM a boot takes minutes, and each command of the setup seconds.
_READY = "15m"
_RUN_S = 1500.0


@pytest.mark.deep
def test_the_boot_of_a_real_guest_is_timed(cluster: Cluster, tmp_path: Path) -> None:
    """The same contract as for the double, with a kernel, cloud-init and a serial port that are
    real."""
    missing = qemu_guest.lacks()
    assert not missing, f"install {' '.join(missing)}"
    qemu_guest.image()
    leadline = Leadline(cluster=cluster, folder=tmp_path)
    expected = vm_lifecycle.GUEST | vm_lifecycle.REMOVAL | {"expand"}
    with KubeVirtDouble(cluster, boot=QemuGuest) as kubevirt:
        found = vm_lifecycle.run_and_check(
            leadline, "block", expected, ready=_READY, bound_s=_RUN_S, clients=1
        )
        assert kubevirt.guests == {}
    (report,) = [line for line in vm_lifecycle.lines(leadline) if line["line"] == "first-io"]
    # From QEMU's start to the process there is also its firmware, and before it the kernel alone.
    assert 1 < report["uptime_s"] < found["vm-boot"] + 2


@pytest.mark.deep
def test_a_real_guest_is_booted_commanded_and_collected(cluster: Cluster, tmp_path: Path) -> None:
    missing = qemu_guest.lacks()
    assert not missing, f"install {' '.join(missing)}"
    qemu_guest.image()
    leadline = Leadline(cluster=cluster, folder=tmp_path)
    plan = leadline.plan(
        "one=storageclass:block?runner=vm&size=1Gi",
        cluster={"ready": _READY, "vm": {"boot": {"container_disk": "registry.example/boot:1"}}},
        # On a busy machine the start of fio alone takes longer than the usual ten seconds.
        grace="2m",
    )
    with KubeVirtDouble(cluster, boot=QemuGuest) as kubevirt:
        leadline("run", plan, bound_s=_RUN_S).answered()
        assert kubevirt.guests == {}
    (trial,) = leadline.trials()
    assert trial["status"] == "completed"
    folder = next((leadline.run / "trials").iterdir())
    (output,) = folder.glob("fio*.json")
    text = output.read_text()
    document = json.loads(text[text.index("{") :])
    (job,) = document["jobs"]
    assert job["error"] == 0
    assert job["read"]["total_ios"] > 0
    assert document["global options"]["filename"] == DEVICES[Bus.VIRTIO]
    # The machine that did it had not been up for longer than this test: not the one it runs on.
    ticks = (folder / "before.txt").read_text().partition("\ncpu ")[2].split()[:8]
    assert sum(map(int, ticks)) < _RUN_S * os.sysconf("SC_CLK_TCK") * QemuGuest.processors
