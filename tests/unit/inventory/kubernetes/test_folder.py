"""Folders that somebody saved, and what is refused of those of strangers."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from leadline.errors import LeadlineError
from leadline.inventory.kubernetes import folder as folder_reading
from leadline.inventory.kubernetes.folder import Saved, read_folder
from leadline.inventory.kubernetes.kinds import GAPS, VERSION
from leadline.inventory.kubernetes.reading import kubernetes_inventory
from tests.conftest import RECORDED
from tests.unit.inventory.kubernetes.conftest import CLUSTERS, NAMES

CLASS = """apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: {}
provisioner: example.com/driver
parameters:
  size: "1"
"""


def gaps(saved: Saved) -> list[tuple[str, str]]:
    return [(one.what, one.reason) for one in saved.gaps]


def classes(saved: Saved) -> list[str]:
    return [one.name for one in kubernetes_inventory(saved.dumps).storage_classes]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_again_says_the_same(name: str, folder: Path) -> None:
    first = read_folder(CLUSTERS / name)
    for dump, content in first.dumps.items():
        (folder / dump).write_bytes(content)
    again = read_folder(folder)
    assert again == first
    assert kubernetes_inventory(again.dumps) == kubernetes_inventory(first.dumps)


def test_forms_of_one_object(folder: Path) -> None:
    (folder / "one.yaml").write_text(CLASS.format("one"))
    (folder / "many.yml").write_text(f"---\n{CLASS.format('two')}---\n{CLASS.format('three')}")
    flow = json.dumps({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"})[:-1]
    (folder / "flow.yaml").write_text(flow + ', "metadata": {"name": "four"}}\n')
    deeper = folder / "a" / "b"
    deeper.mkdir(parents=True)
    (deeper / "list.json").write_text(
        json.dumps(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClassList",
                "items": [{"metadata": {"name": "five"}, "provisioner": "p"}],
            }
        )
    )
    (folder / "with-bom.yaml").write_text("\ufeff" + CLASS.format("six"))
    (folder / "windows.yaml").write_bytes(
        f"---\n{CLASS.format('seven')}".replace("\n", "\r\n").encode()
    )
    saved = read_folder(folder)
    assert classes(saved) == sorted(["one", "two", "three", "four", "five", "six", "seven"])
    assert gaps(saved) == []


def test_the_later_of_two_copies_counts(folder: Path) -> None:
    text = CLASS.format("one")
    older = text.replace("name: one", 'name: one\n  resourceVersion: "9"')
    newer = older.replace('"9"', '"10"').replace("example.com/driver", "example.com/newer")
    (folder / "a.yaml").write_text(newer)
    (folder / "b.yaml").write_text(older)
    found = kubernetes_inventory(read_folder(folder).dumps)
    assert [one.provisioner for one in found.storage_classes] == ["example.com/newer"]


def test_values_that_yaml_would_take_for_something_else(folder: Path) -> None:
    text = CLASS.format("one").replace('size: "1"', "octal: 010\n  when: 2026-11-21\n  at: 1:30")
    (folder / "one.yaml").write_text(text)
    (item,) = kubernetes_inventory(read_folder(folder).dumps).storage_classes
    assert {one.name: one.value for one in item.parameters} == {
        "at": "1:30",
        "octal": "010",
        "when": "2026-11-21",
    }


def test_the_version_that_kubectl_tells(folder: Path) -> None:
    (folder / "one.yaml").write_text(CLASS.format("one"))
    (folder / "version.yaml").write_text(
        "clientVersion:\n  gitVersion: v1.20.2\nserverVersion:\n  gitVersion: v1.31.0\n"
    )
    saved = read_folder(folder)
    assert json.loads(saved.dumps[VERSION]) == {"gitVersion": "v1.31.0"}


def test_answers_of_ceph_beside_them(folder: Path) -> None:
    """As must-gather of OpenShift Data Foundation names them."""
    inside = folder / "ceph" / "must_gather_commands_json_output"
    inside.mkdir(parents=True)
    for path in (RECORDED.parent / "ceph-multi-az").glob("*.json"):
        (inside / f"ceph_{path.stem}_--format_json-pretty").write_bytes(path.read_bytes())
    (folder / "one.yaml").write_text(CLASS.format("one"))
    found = kubernetes_inventory(read_folder(folder).dumps)
    assert found.ceph is not None
    assert found.ceph.release == "pacific"
    assert len(found.storage_classes) == 1


# --- damaged, hostile, without end --------------------------------------------------------------


def test_damaged_files_are_told_with_their_line_and_the_rest_is_read(folder: Path) -> None:
    (folder / "good.yaml").write_text(CLASS.format("good"))
    broken = CLASS.format("bad").replace("parameters:", "parameters: [")
    (folder / "bad.yaml").write_text(f"{CLASS.format('before')}---\n{broken}")
    (folder / "cut.json").write_text('{\n"kind": "StorageClass",\n"metadata": {')
    (folder / "unrelated.yaml").write_text("this: [is no object")
    saved = read_folder(folder)
    assert classes(saved) == ["before", "good"]
    told = dict(gaps(saved))
    assert set(told) == {"bad.yaml:16", "cut.json:3"}
    assert told["bad.yaml:16"].startswith("not YAML: ")
    assert told["cut.json:3"].startswith("not JSON: ")
    assert json.loads(saved.dumps[GAPS]) == [{"what": a, "reason": b} for a, b in gaps(saved)]


def test_a_small_file_that_would_fill_the_memory(folder: Path) -> None:
    lines = ["kind: StorageClass", "a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join(['*' + a] * 9)}]" for a, b in pairwise("abcdefghi")]
    (folder / "laughs.yaml").write_text("\n".join(lines))
    (folder / "good.yaml").write_text(CLASS.format("good"))
    saved = read_folder(folder)
    assert classes(saved) == ["good"]
    assert gaps(saved) == [("laughs.yaml:3", "aliases are refused")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deep.yaml", "kind: StorageClass\na: " + "[" * 100_000),
        ("deep.yaml", "kind: StorageClass\na: " + "{a: " * 3_000 + "}" * 3_000),
        ("deep.json", '{"kind": "StorageClass", "a": ' + "[" * 90_000 + "]" * 90_000 + "}"),
        ("deep.json", '{"kind": "StorageClass", "a": ' + "[" * 500 + "]" * 500 + "}"),
        ("tag.yaml", 'kind: StorageClass\na: !!python/object/apply:os.system ["true"]'),
        ("digits.json", '{"kind": "StorageClass", "a": ' + "9" * 9000 + "}"),
        ("digits.yaml", "kind: StorageClass\na: " + "9" * 9000),
        ("keys.yaml", "kind: StorageClass\n? [a, b]\n: c\n"),
    ],
)
def test_what_is_beyond_all_sense(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / "good.yaml").write_text(CLASS.format("good"))
    saved = read_folder(folder)
    assert classes(saved) == ["good"]
    assert [what.partition(":")[0] for what, _ in gaps(saved)] == [name]


def test_links_pipes_and_large_files_are_not_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "good.yaml").write_text(CLASS.format("good"))
    outside = tmp_path / "outside.yaml"
    outside.write_text(CLASS.format("outside"))
    (folder / "link.yaml").symlink_to(outside)
    (folder / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.yaml")
    (folder / "large.yaml").write_text(CLASS.format("large") + "# " + "x" * 5000)
    monkeypatch.setattr(folder_reading, "LARGEST_FILE_BYTES", 4096)
    saved = read_folder(folder)
    assert classes(saved) == ["good"]
    assert dict(gaps(saved)) == {
        "link.yaml": "it is a link",
        "pipe.yaml": "it is not a regular file",
        "large.yaml": "it has 5.01 KiB; the maximum is 4 KiB",
    }


def test_there_is_an_end_to_files_and_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        (folder / f"{number}.yaml").write_text(CLASS.format(f"c{number}"))
    monkeypatch.setattr(folder_reading, "MOST_FILES", 4)
    saved = read_folder(folder)
    assert len(classes(saved)) == 4
    assert gaps(saved) == [(".", "more than 4 files: not read further")]
    monkeypatch.undo()
    size = (folder / "0.yaml").stat().st_size
    monkeypatch.setattr(folder_reading, "MOST_BYTES", 3 * size)
    saved = read_folder(folder)
    assert len(classes(saved)) == 3
    assert len(saved.gaps) == 7


def test_many_faults_are_one_fact(folder: Path) -> None:
    (folder / "good.yaml").write_text(CLASS.format("good"))
    for number in range(80):
        (folder / f"{number:02}.json").write_text('{"kind": "Node"')
    saved = read_folder(folder)
    assert len(saved.gaps) == 51
    assert gaps(saved)[-1] == ("30 more", "not readable either")


def test_nothing_that_is_known(folder: Path) -> None:
    (folder / "pods.yaml").write_text("apiVersion: v1\nkind: Pod\n")
    (folder / "words.txt").write_text("kind: StorageClass")
    (folder / "other.yaml").write_text(CLASS.format("x").replace("storage.k8s.io", "example.com"))
    with pytest.raises(LeadlineError) as caught:
        read_folder(folder)
    assert caught.value.kind.code == "dumps-invalid"
    assert "searched 3 files" in str(caught.value)
    with pytest.raises(LeadlineError) as caught:
        read_folder(folder / "none", "--against")
    assert "--against names a folder" in str(caught.value)


def test_a_folder_of_ceph_alone(folder: Path) -> None:
    for path in (RECORDED.parent / "ceph-single-az").glob("*.json"):
        (folder / path.name).write_bytes(path.read_bytes())
    saved = read_folder(folder)
    assert set(saved.dumps) == {path.name for path in folder.iterdir()}
    assert gaps(saved) == []


LIST = "apiVersion: v1\nitems:\n{}kind: List\nmetadata: {{}}\n"


def item(name: str) -> str:
    text = CLASS.format(name).rstrip().replace("\n", "\n  ")
    return f"- {text}\n"


def test_the_items_of_a_list_are_parsed_one_by_one(folder: Path) -> None:
    broken = "- apiVersion: storage.k8s.io/v1\n  kind: StorageClass\n  metadata: [\n"
    (folder / "a.yaml").write_text(LIST.format(item("one") + broken + item("two")))
    saved = read_folder(folder)
    assert sorted(classes(saved)) == ["one", "two"]
    ((what, reason),) = gaps(saved)
    # The text of the list begins on line 1; its second item ends on line 13.
    assert what.startswith("a.yaml:1")
    assert reason.startswith("not YAML")


def test_what_a_list_says_of_its_items_holds(folder: Path) -> None:
    text = item("one").replace("apiVersion: storage.k8s.io/v1\n  kind: StorageClass\n  ", "")
    head = "apiVersion: storage.k8s.io/v1\nkind: StorageClassList\nitems:\n"
    (folder / "a.yaml").write_text(head + text)
    assert classes(read_folder(folder)) == ["one"]


def test_objects_are_kept_up_to_a_bound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_reading, "MOST_KEPT_BYTES", 4096)
    (folder / "a.yaml").write_text(LIST.format("".join(item(f"c{n}") for n in range(9))))
    saved = read_folder(folder)
    assert 0 < len(classes(saved)) < 9
    assert gaps(saved) == [("a.yaml", "more than 4 KiB of objects: not kept")]


def test_a_document_that_is_too_large_to_parse_is_a_gap(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_reading, "MEMORY_BYTES", 100_000)
    (folder / "a.yaml").write_text(CLASS.format("one") + "x:\n" + "- y: z\n" * 100)
    (folder / "b.yaml").write_text(CLASS.format("two"))
    saved = read_folder(folder)
    assert classes(saved) == ["two"]
    assert gaps(saved) == [("a.yaml:1", "too large to be parsed as one document")]


def test_keys_of_yaml_are_text(folder: Path) -> None:
    keys = "true: a\n1: b\nnull: c\n1.5: {false: d}\n"
    (folder / "a.yaml").write_text(CLASS.format("one") + keys)
    assert classes(read_folder(folder)) == ["one"]
