"""Fuzz one target for a bounded time: `python -m fuzz fio-json --seconds 20`.

What breaks a property is written to --crashes once for each place in the source that it breaks
at, and fuzzing goes on; an input that takes too long or too much memory is written there by
libFuzzer, and ends it. Exit status 3 without atheris.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import random
import sys
import tempfile
import traceback
from pathlib import Path

try:
    import atheris
except ImportError:
    sys.stderr.write(
        "NOTHING WAS FUZZED: atheris is not installed here.\n"
        "hint: uv run --with atheris==3.0.0 python -m fuzz TARGET\n"
    )
    sys.exit(3)


def main() -> None:
    # What is imported in here is watched.
    with atheris.instrument_imports(include=["leadline"]):
        from fuzz.mutations import mutated
        from fuzz.targets import HOSTILE, LARGEST_INPUT, TARGETS
        from leadline.formats.importer import importer

        options = _options(list(TARGETS))
        chosen = TARGETS[options.target]
        for kind in chosen.kinds:
            importer(kind)

    options.crashes.mkdir(parents=True, exist_ok=True)
    found: set[str] = set()

    def test(data: bytes) -> None:
        try:
            chosen.test(data)
        except Exception as error:
            place = _place(error)
            if place not in found:
                found.add(place)
                name = f"{options.target}-{hashlib.sha256(place.encode()).hexdigest()[:10]}"
                (options.crashes / name).write_bytes(data)
                trace = "".join(traceback.format_exception(error))
                (options.crashes / f"{name}.trace").write_text(trace, "utf-8", "replace")
                sys.stderr.write(f"FOUND {name}: {place}: {str(error)[:200]!r}\n")

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.25:
            changed = atheris.Mutate(data, most)
            assert isinstance(changed, bytes)
            return changed
        return mutated(data, rng)[:most]

    corpus = options.corpus or Path(tempfile.mkdtemp(prefix=f"leadline-fuzz-{options.target}-"))
    corpus.mkdir(parents=True, exist_ok=True)
    found_once = (path.read_bytes() for path in (HOSTILE / options.target).glob("*"))
    for seed in itertools.chain(chosen.seeds(), found_once):
        (corpus / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    if not any(corpus.iterdir()):
        sys.stderr.write(f"{options.target} has no seeds: nothing real was mutated\n")
    atheris.Setup(
        [
            sys.argv[0],
            str(corpus),
            f"-max_total_time={options.seconds}",
            f"-max_len={LARGEST_INPUT}",
            f"-timeout={options.timeout}",
            f"-rss_limit_mb={options.memory_mb}",
            f"-artifact_prefix={options.crashes}/{options.target}-",
            f"-seed={options.seed}",
            "-print_final_stats=1",
            "-len_control=0",
            "-verbosity=1",
        ],
        test,
        custom_mutator=mutate,
    )
    atheris.Fuzz()


def _place(error: BaseException) -> str:
    """The kind of an error and the line of our source that it came from; for a broken property,
    which property."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "leadline" in frame.filename] or frames
    last = ours[-1]
    if type(error).__name__ == "Broken":
        words = "".join(character for character in str(error) if not character.isdigit())
        return f"Broken {words[:40]}"
    return f"{type(error).__name__} {Path(last.filename).name}:{last.lineno}"


def _options(names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("target", choices=names)
    parser.add_argument("--list", action="version", version=" ".join(names), help="all targets")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--corpus", type=Path, help="kept; else a new temporary folder")
    parser.add_argument("--crashes", type=Path, default=Path("fuzz/crashes"))
    parser.add_argument("--timeout", type=int, default=15, help="seconds that one input may take")
    parser.add_argument("--memory-mb", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=os.getpid())
    return parser.parse_args()


if __name__ == "__main__":
    main()
