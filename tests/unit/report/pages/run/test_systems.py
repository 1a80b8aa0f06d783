"""Layers below targets, on the page of a run and in a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from archive_builder import make_run, small_plan

from leadline.analysis.compare import compare
from leadline.analysis.comparison import By, Comparison, within_run
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import Stacks, TargetStack
from leadline.inventory.host import NvmeController, NvmeNamespace
from leadline.inventory.layer import Layer, LayerKind
from leadline.plan.models import Plan
from leadline.report.document import Block, Document, Section
from leadline.report.pages.run.conditions import nvme_blocks
from leadline.report.pages.run.systems import stack_sections
from leadline.report.render import markdown
from tests.unit.report.pages.comparison.builder import judged

RECORDED = Path(__file__).parents[4] / "recorded" / "zfs"
_DATASETS = {"disk": "8K", "memory": "1M"}


def _plan() -> Plan:
    """Two datasets of one pool."""
    plan = small_plan(list(_DATASETS), repeats=3)
    targets = [
        one.model_copy(update={"url": f"zfs:tank?recordsize={_DATASETS[one.name]}"})
        for one in plan.targets
    ]
    return plan.model_copy(update={"targets": tuple(targets)})


def _layers(name: str, recordsize: int, object_size: int) -> tuple[Layer, ...]:
    return (
        Layer(
            kind=LayerKind.ZFS,
            name=f"tank/{name}",
            devices=("vdd", "vde"),
            facts={"implementation": "kernel", "recordsize_bytes": str(recordsize)},
        ),
        Layer(kind=LayerKind.BLOCK, name="rbd0", devices=("rbd0",), facts={"type": "rbd"}),
        Layer(
            kind=LayerKind.IMAGE,
            name="rep3/a",
            facts={"client": "krbd", "object_size_bytes": str(object_size)},
        ),
        Layer(kind=LayerKind.POOL, name="rep3"),
    )


def _dumps(recordsize: int) -> dict[str, bytes]:
    told = (RECORDED / "zfs-get-Hp-all.txt").read_bytes()
    return {
        "zpool-version.txt": b"zfs-kmod-2.3.2-1\n",
        "zpool-get.txt": (RECORDED / "zpool-get-all.txt").read_bytes(),
        "zpool-status.txt": (RECORDED / "zpool-status.txt").read_bytes(),
        "zfs-get.txt": told.replace(b"recordsize\t4194304", b"recordsize\t%d" % recordsize),
        "zfs-parameters.txt": b"zfs_txg_timeout 30\nzfs_vdev_async_write_max_active 10\n",
    }


def _with(
    run: Run, layers: Mapping[str, Sequence[Layer]], dumps: Mapping[str, Mapping[str, bytes]]
) -> Run:
    """The run as if its session had found this below its targets."""
    stacks = Stacks(
        stacks=tuple(TargetStack(target=one, layers=tuple(found)) for one, found in layers.items())
    )
    (run.path / layout.stacks_file("001")).write_bytes(layout.encode(stacks))
    names = [target.name for target in run.plan.targets]
    for target, files in dumps.items():
        folder = run.path / layout.target_folder("001", names.index(target))
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    return Run(run.path)


def _run(tmp_path: Path) -> Run:
    run = make_run(tmp_path, _plan())
    return _with(
        run,
        {"disk": _layers("a", 8192, 4 << 20), "memory": _layers("b", 1 << 20, 1 << 20)},
        {"disk": _dumps(8192), "memory": _dumps(1 << 20)},
    )


def _text(sections: tuple[Section, ...] = (), blocks: tuple[Block, ...] = ()) -> str:
    whole = (
        (*sections, Section(heading="Blocks", id="blocks", blocks=blocks)) if blocks else sections
    )
    return markdown.render(Document(title="", subtitle="", summary=(), sections=whole, marked=()))


def test_layers_pool_datasets_and_parameters_are_shown(tmp_path: Path) -> None:
    page = _text(stack_sections(_run(tmp_path))).replace("\\_", "_")
    rows = [line for line in page.splitlines() if line.startswith("| disk |")]
    assert "| ZFS | tank/a | vdd, vde |" in rows[0]
    assert "object size 4 MiB" in rows[2]
    assert "| Ceph pool | rep3 |" in rows[3]
    assert "2 x mirror of 2" in page
    assert "mirror-1" in page
    assert "| memory | tank/r4M | 1 MiB | off |" in page
    changed = next(line for line in page.splitlines() if "| zfs_txg_timeout |" in line)
    assert "| 30 s | 5 s | changed |" in changed
    usual = next(line for line in page.splitlines() if "zfs_vdev_async_write_max_active" in line)
    assert "| 10 | 10 | default |" in usual
    # What was changed comes first.
    assert page.index(changed) < page.index(usual)


def test_targets_on_the_same_layers_share_their_rows(tmp_path: Path) -> None:
    same = _layers("a", 8192, 4 << 20)
    run = _with(make_run(tmp_path), {"disk": same, "memory": same}, {})
    rows = [line for line in _text(stack_sections(run)).splitlines() if "tank/a" in line]
    assert len(rows) == 1
    assert "disk and memory" in rows[0]


def test_a_run_of_which_nothing_is_known_has_no_section(tmp_path: Path) -> None:
    assert stack_sections(make_run(tmp_path)) == ()


def test_a_damaged_record_is_reported(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    (run.path / layout.stacks_file("001")).write_bytes(b"{")
    (section,) = stack_sections(run)
    assert "cannot be read" in _text((section,))


def test_nvme_controllers_follow_block_devices() -> None:
    controller = NvmeController(
        name="nvme0",
        model="Linux",
        transport="tcp",
        address="traddr=127.0.0.1,trsvcid=4420",
        state="live",
        queues=3,
        queue_depth=128,
        namespaces=(
            NvmeNamespace(name="nvme0n1", size_bytes=512 << 20, max_transfer_bytes=1 << 20),
        ),
    )
    free = NvmeNamespace(name="nvme0n1", max_transfer_bytes=2147483647 << 10)
    assert "no limit" in _text(
        blocks=nvme_blocks((controller.model_copy(update={"namespaces": (free,)}),))
    )
    page = _text(blocks=nvme_blocks((controller,)))
    assert "| nvme0 | Linux | tcp | traddr=127.0.0.1,trsvcid=4420 | live |" in page
    assert "2 queues of 128" in page
    assert "nvme0n1 (512 MiB)" in page
    assert nvme_blocks(()) == ()


# --- comparison ----------------------------------------------------------------------------------


def _compared(run: Run) -> Comparison:
    sides = within_run(run, By.TARGET, "disk", "memory", judged)
    return compare(*sides, by=By.TARGET)


def test_a_comparison_names_record_size_and_object_size(tmp_path: Path) -> None:
    compared = _compared(_run(tmp_path))
    found = {one.path.rpartition(".")[2]: one for one in compared.differences}
    assert (found["recordsize"].baseline, found["recordsize"].candidate) == ("8 KiB", "1 MiB")
    assert (found["object_size"].baseline, found["object_size"].candidate) == ("4 MiB", "1 MiB")
    assert found["recordsize"].explains
    assert found["object_size"].explains
    # The URLs differ in nothing but the record size, which is told already.
    assert "url" not in found
    assert "way" not in found
    explained = {path for one in compared.explanations for path in one.paths}
    assert found["recordsize"].path in explained
    assert any(one.startswith("layers: ZFS on rbd on RBD image") for one in compared.identical)


def test_another_kind_of_target_is_described_by_its_layers(tmp_path: Path) -> None:
    plan = _plan()
    kinds = {"disk": "zfs:tank", "memory": "dir:/srv/ext4"}
    targets = [one.model_copy(update={"url": kinds[one.name]}) for one in plan.targets]
    run = make_run(tmp_path, plan.model_copy(update={"targets": tuple(targets)}))
    ext4 = (
        Layer(kind=LayerKind.FILESYSTEM, name="ext4"),
        Layer(kind=LayerKind.BLOCK, name="rbd0", devices=("rbd0",), facts={"type": "rbd"}),
    )
    compared = _compared(_with(run, {"disk": _layers("a", 8192, 4 << 20), "memory": ext4}, {}))
    found = {one.path.rpartition(".")[2]: one for one in compared.differences}
    assert found["way"].baseline == "ZFS on rbd on RBD image (krbd) on Ceph pool"
    assert found["way"].candidate == "ext4 on rbd"
    assert "kind" not in found
    # What the layers are is told, not every fact that one of them has and the other has not.
    assert "object_size" not in found


def test_without_layers_urls_differ_as_ever(tmp_path: Path) -> None:
    compared = _compared(make_run(tmp_path, _plan()))
    found = {one.path.rpartition(".")[2] for one in compared.differences}
    assert "url" in found
    assert "recordsize" not in found
