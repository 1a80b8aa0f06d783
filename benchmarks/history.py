"""How long `leadline history` takes over many archives: cold, warm, and its page.

    uv run python benchmarks/history.py [ARCHIVES]

One run of the quick profile with three repeats is replayed from recorded fio output and copied once
per night, with another time, and figures that scatter by 2 % and step twice. Commands run as whole
processes, in turn; user and system time are those of all their processes. Nothing asserts a time;
docs/internals/performance.md has the figures.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from leadline.archive import layout
from leadline.archive.reader import Run

ARCHIVES, ROUNDS = 1000, 3
RECORDED = Path(__file__).parents[1] / "tests" / "recorded" / "quick"
FIRST = datetime(2024, 1, 1, 2, tzinfo=UTC)


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else ARCHIVES
    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as place:
        folder = Path(place)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        _make(folder, number)
        history = ("history", str(folder / "runs"))
        page = (*history, "-o", str(folder / "page.html"), "--force")
        print(f"{number:,} archives of {_files(folder / 'runs'):,} files")
        for name, words, rounds in (
            ("cold", history, 1),
            ("warm", history, ROUNDS),
            ("warm, JSON", (*history, "--format", "json"), ROUNDS),
            ("warm, page", page, ROUNDS),
        ):
            taken = sorted(_seconds(words) for _ in range(rounds))
            wall, processor = taken[len(taken) // 2]
            print(f"{name}: {wall:.2f} s, of processors {processor:.2f} s; {rounds} times")
        index = next((folder / "cache" / "leadline").iterdir())
        print(f"index: {index.stat().st_size / 2**20:.2f} MiB")


def _make(folder: Path, number: int) -> None:
    (folder / "target").mkdir()
    where = ("--target", f"pool=dir:{folder / 'target'}")
    given = ("--profile", "quick", "--repeats", "3", "--runtime", "2s", "--ramp", "0")
    rest = ("--size", "64M", "--no-prefill", "--quiet", "--replay", str(RECORDED))
    runs = ("--runs", str(folder / "first"))
    _leadline("run", *given, *where, *rest, *runs)
    original = next((folder / "first").glob("perf-*"))
    generator = random.Random(1)
    for night in range(number):
        level = (0.9 if night >= number // 3 else 1.0) * (1.15 if night >= number // 2 else 1.0)
        path = folder / "runs" / f"night-{night:05d}"
        shutil.copytree(original, path)
        manifest = Run(path).manifest.model_copy(
            update={"run": path.name, "created_at": (FIRST + timedelta(days=night)).isoformat()}
        )
        (path / layout.MANIFEST).write_bytes(layout.encode(manifest))
        factor = level * generator.gauss(1, 0.02)
        for derived in path.glob(f"{layout.TRIALS}/*/{layout.DERIVED}"):
            _scale(derived, factor * generator.gauss(1, 0.01))


def _scale(derived: Path, factor: float) -> None:
    document = orjson.loads(derived.read_bytes())
    for operation in document["operations"]:
        metrics = operation["metrics"]
        for name, value in metrics.items():
            if value is not None:
                metrics[name] = value / factor if name.startswith("latency") else value * factor
        operation["histogram_ns"] = [round(one / factor) for one in operation["histogram_ns"]]
    derived.write_bytes(orjson.dumps(document))


def _files(folder: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))


def _seconds(words: tuple[str, ...]) -> tuple[float, float]:
    """Wall time, and the time of processors."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    _leadline(*words)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _leadline(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "leadline", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode < 2, done.stderr


if __name__ == "__main__":
    main()
