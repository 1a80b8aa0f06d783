"""The inputs of the scorer: which files are audited together, and the labels on them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.audit.labels import FOLDER, Label, read_labels
from benchmarks.audit.recorded import made_run

# Folders of the corpus that hold benchmark results, and what in them holds none: consoles next to
# results, summaries of a later hand, what a cluster said.
_WITH_RESULTS = (
    *("public", "ceph-lab/fio", "ceph-lab/bench", "ceph-lab/drills", "ceph-lab/cephfs"),
    *("public2/stonet", "public2/zns", "public2/fio-plot", "public2/wikimedia"),
)
_WITHOUT = frozenset({".err", ".out", ".stderr", ".tsv"})
_NO_RESULTS = ("public/ceph-dump", "public/zfs", "public/kube-yaml")
_CLUSTER_WORDS = ("SUMMARY.txt", "timeline_", "kill1", "two.txt", "two_down_")
# Above this share of the processor, what others do to a run is no false alarm but the truth.
_CROWDED = 0.2
_CROWDED_MAY = frozenset({"client-saturated", "not-steady", "unstable-repeats"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is audited at once."""

    name: str
    paths: tuple[Path, ...]
    labels: tuple[Label, ...]


def shared_folder() -> Path | None:
    """`shared/` next to the checkout, or None."""
    folder = Path(__file__).resolve().parents[3] / "shared"
    return folder if folder.is_dir() else None


def corpus(shared: Path, codes: Container[str]) -> tuple[Subject, ...]:
    return _subjects(shared / "corpus", read_labels(FOLDER / "corpus.csv", codes))


def reference(shared: Path, codes: Container[str]) -> tuple[Subject, ...]:
    return _subjects(shared / "reference", read_labels(FOLDER / "reference.csv", codes))


def _subjects(root: Path, labels: Iterable[Label]) -> tuple[Subject, ...]:
    by_file: dict[str, list[Label]] = {}
    for label in labels:
        by_file.setdefault(label.file, []).append(label)
    return tuple(
        Subject(name=name, paths=tuple(_paths(root, name)), labels=tuple(found))
        for name, found in by_file.items()
    )


def _paths(root: Path, names: str) -> Iterator[Path]:
    """`folder/a b c` are three files of one folder."""
    first, *others = names.split(" ")
    yield root / first
    for other in others:
        yield (root / first).parent / other


def runs(folder: Path, codes: Container[str]) -> tuple[Subject, ...]:
    """Made runs, each in a folder of its name. Raises ValueError for one without a label."""
    labels = {label.file: label for label in read_labels(FOLDER / "runs.csv", codes)}
    subjects = []
    for path in sorted(folder.iterdir()):
        if path.name not in labels:
            raise ValueError(f"the run {path.name!r} has no label in runs.csv")
        label, made = labels[path.name], made_run(path)
        if made.others_share > _CROWDED:
            label = replace(label, may=label.may | _CROWDED_MAY)
        subjects.append(Subject(name=path.name, paths=made.audited, labels=(label,)))
    return tuple(subjects)


def unlabelled(shared: Path, subjects: Iterable[Subject]) -> tuple[str, ...]:
    """Files of the corpus that look like results and have no label."""
    root = shared / "corpus"
    labelled = {path for subject in subjects for path in subject.paths}
    return tuple(
        str(path.relative_to(root))
        for folder in _WITH_RESULTS
        for path in sorted((root / folder).rglob("*"))
        if path.is_file() and path not in labelled and not _without_result(path, root)
    )


def _without_result(path: Path, root: Path) -> bool:
    name = str(path.relative_to(root))
    if name.startswith(_NO_RESULTS) or path.name.startswith(_CLUSTER_WORDS):
        return True
    # Logs of a cut run say what its JSON says; those with more are labelled with it.
    cut = "drills/" in name and path.suffix == ".log"
    return cut or (path.suffix in _WITHOUT and "elbencho" not in name and "terse" not in name)
