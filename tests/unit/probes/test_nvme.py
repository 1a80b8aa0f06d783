"""NVMe by sysfs, in the layouts of one controller, of fabrics and of native multipath."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.inventory.host import add_nvme_list
from leadline.inventory.layer import LayerKind
from leadline.probes.nvme import namespace_facts, nvme_controllers
from leadline.probes.stacks import Roots, layers_of_device

RECORDED = Path(__file__).parents[2] / "recorded" / "nvme"
NQN = "nqn.2026-11.org.leadline:t"
# As Linux 6.1 reported of a target over loopback.
_CONTROLLER = {
    "address": "traddr=127.0.0.1,trsvcid=4420,src_addr=127.0.0.1",
    "firmware_rev": "6.1.0-50",
    "model": "Linux                                   ",
    "queue_count": "3",
    "sqsize": "127",
    "state": "live",
    "subsysnqn": NQN,
    "transport": "tcp",
}
_NAMESPACE = {
    "dev": "259:0",
    "size": str((512 << 20) // 512),
    "queue/logical_block_size": "512",
    "queue/max_hw_sectors_kb": "1024",
    "queue/max_sectors_kb": "1024",
    "queue/nr_requests": "1023",
    "queue/rotational": "0",
    "queue/scheduler": "[none] mq-deadline",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, value in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{value}\n", "utf-8")
    return folder


def link(place: Path, to: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(to)


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    return tmp_path / "sys"


def controller(sys: Path, name: str = "nvme0", **changes: str) -> Path:
    folder = write(sys / "devices/virtual/nvme-fabrics/ctl" / name, {**_CONTROLLER, **changes})
    link(sys / "class/nvme" / name, folder)
    return folder


def namespace(sys: Path, below: Path, name: str, **changes: str) -> None:
    folder = write(below / name, {**_NAMESPACE, **changes})
    link(sys / "class/block" / name, folder)


def subsystem(sys: Path, *controllers: Path) -> Path:
    folder = write(
        sys / "devices/virtual/nvme-subsystem/nvme-subsys0",
        {"subsysnqn": NQN, "iopolicy": "round-robin"},
    )
    link(sys / "class/nvme-subsystem/nvme-subsys0", folder)
    for item in controllers:
        link(folder / item.name, item)
    return folder


def test_a_namespace_of_one_controller(sys: Path) -> None:
    namespace(sys, controller(sys), "nvme0n1")
    (found,) = nvme_controllers(sys)
    assert (found.name, found.model, found.transport) == ("nvme0", "Linux", "tcp")
    assert found.address.startswith("traddr=127.0.0.1")
    assert (found.queues, found.queue_depth) == (3, 128)
    assert (found.state, found.subsystem_nqn) == ("live", NQN)
    (space,) = found.namespaces
    assert (space.name, space.size_bytes, space.logical_block_bytes) == ("nvme0n1", 512 << 20, 512)
    assert space.max_transfer_bytes == 1 << 20


def test_the_layer_of_a_namespace(sys: Path) -> None:
    namespace(sys, controller(sys), "nvme0n1")
    roots = Roots(proc=sys, sys=sys, dev=sys)
    (layer,) = layers_of_device("nvme0n1", roots)
    assert (layer.kind, layer.devices) == (LayerKind.BLOCK, ("nvme0n1",))
    assert layer.facts["type"] == "nvme"
    assert layer.facts["transport"] == "tcp"
    assert layer.facts["controllers"] == "nvme0"
    # Two of three queues are for I/O, each of 128 commands, whatever the block layer has tags for.
    assert (layer.facts["queues"], layer.facts["queue_depth"]) == ("2", "128")


def test_with_multipath_all_paths_lead_to_one_device(sys: Path) -> None:
    first = controller(sys, "nvme0")
    second = controller(sys, "nvme1", address="traddr=10.0.0.2,trsvcid=4420")
    for item, path in ((first, "nvme0c0n1"), (second, "nvme0c1n1")):
        namespace(sys, item, path)
    namespace(sys, subsystem(sys, first, second), "nvme0n1")
    found = nvme_controllers(sys)
    assert [[space.name for space in item.namespaces] for item in found] == [["nvme0n1"]] * 2
    assert {item.multipath_policy for item in found} == {"round-robin"}
    facts = namespace_facts("nvme0n1", sys)
    assert (facts["paths"], facts["policy"], facts["queues"]) == ("2", "round-robin", "4")
    assert "10.0.0.2" in facts["address"]
    assert "127.0.0.1" in facts["address"]


def test_a_controller_without_a_namespace(sys: Path) -> None:
    subsystem(sys, controller(sys))
    (found,) = nvme_controllers(sys)
    assert found.namespaces == ()


def test_a_machine_without_nvme(sys: Path) -> None:
    assert nvme_controllers(sys) == ()
    assert namespace_facts("nvme0n1", sys) == {}


def test_what_nvme_cli_adds(sys: Path) -> None:
    namespace(sys, controller(sys, model=""), "nvme0n1")
    reported = (RECORDED / "nvme-list-uml.json").read_text("utf-8")
    (found,) = add_nvme_list(nvme_controllers(sys), reported)
    assert found.model == "Linux"
    assert found.namespaces[0].used_bytes == 536870912
    for nothing in ("", "{}", "no JSON", '{"Devices": []}'):
        assert add_nvme_list(nvme_controllers(sys), nothing) == nvme_controllers(sys)


def test_the_largest_transfer_is_that_of_the_paths(sys: Path) -> None:
    """A head says 2^32 - 1 sectors, which is no limit; what one command carries the paths know."""
    first, second = controller(sys, "nvme0"), controller(sys, "nvme1")
    free = {"queue/max_hw_sectors_kb": "2147483647"}
    namespace(sys, first, "nvme0c0n1", **{"queue/max_hw_sectors_kb": "128"})
    namespace(sys, second, "nvme0c1n1", **{"queue/max_hw_sectors_kb": "1024"})
    namespace(sys, subsystem(sys, first, second), "nvme0n1", **free)
    space = nvme_controllers(sys)[0].namespaces[0]
    assert (space.max_transfer_bytes, space.has_no_limit) == (128 << 10, False)
    for path in ("nvme0c0n1", "nvme0c1n1"):
        write(sys / "class/block" / path, free)
    assert nvme_controllers(sys)[0].namespaces[0].has_no_limit
