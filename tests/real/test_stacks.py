"""What lies below a path, on this machine's own kernel: a loop device with ext4 on a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.archive.reader import Run
from leadline.inventory.layer import LayerKind
from leadline.probes.mounts import mount_of
from leadline.probes.stacks import layers_of_device, layers_of_path
from tests.real.conftest import Ended, sh

pytestmark = [pytest.mark.real, pytest.mark.root]


def test_ext4_on_a_loop_device_on_a_file(loop_device: Path, mounted: Path) -> None:
    layers = layers_of_path(mounted)
    name = loop_device.name
    assert (layers[0].kind, layers[0].name) == (LayerKind.FILESYSTEM, "ext4")
    assert layers[0].facts["mount_point"] == str(mounted)
    block = layers[1]
    assert (block.kind, block.devices, block.facts["type"]) == (LayerKind.BLOCK, (name,), "loop")
    assert f" {name} " in Path("/proc/diskstats").read_text()
    # Below the file is what the file lies on, by findmnt's word.
    below = mount_of(Path(block.facts["backing"]))
    assert below is not None
    assert layers[2].name == below.filesystem
    assert layers_of_device(name) == layers[1:]


@pytest.mark.slow
def test_a_run_keeps_what_lies_below_its_target(
    process: Callable[..., Ended], mounted: Path, tmp_path: Path
) -> None:
    ended = process(
        "run", "--target", f"dir:{mounted}", "--profile", "quick", "--runtime", "1s",
        "--ramp", "0", "--size", "8M", "--repeats", "1", "--format", "json",
    )  # fmt: skip
    assert ended.status in (0, 1), ended.err
    run = Run(Path(json.loads(ended.out)["path"]))
    (layers,) = run.stacks.values()
    assert [layer.kind for layer in layers[:2]] == [LayerKind.FILESYSTEM, LayerKind.BLOCK]
    assert layers[0].facts["mount_point"] == str(mounted)


def test_a_partition_is_found_below_its_device(loop_device: Path) -> None:
    sh("addpart", loop_device, 1, 2048, 32768)
    try:
        layers = layers_of_device(f"{loop_device.name}p1")
        assert [layer.facts.get("type") for layer in layers[:2]] == ["partition", "loop"]
        assert layers[1].devices == (loop_device.name,)
    finally:
        sh("delpart", loop_device, 1)
