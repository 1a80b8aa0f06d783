"""Write tests/recorded/load_curves/*.csv: load curves of labs.

    uv run python scripts/load_curves.py SHARED [RUN...]

SHARED is the project's folder of recorded outputs, RUN an archive with several load levels. One row
is one operation of one trial. `curve` names what the rows of a curve have in common.

The published references have no curve with three levels of one system: where 1 and 128 I/Os in
flight are of one client and 6400 of fifty, the client is another station.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from leadline.analysis.figures import figures
from leadline.analysis.scaling.curves import load_curves
from leadline.archive.reader import Run
from leadline.archive.runs import BEFORE_NAME
from leadline.metrics import Metric

WRITTEN = Path(__file__).resolve().parent.parent / "tests" / "recorded" / "load_curves"
HEAD = ("curve", "op", "block_bytes", "in_flight", "trial")
FIGURES = ("iops", "latency_mean_s", "latency_p99_s")
Row = Mapping[str, object]

_UNITS = {"k": 1 << 10, "m": 1 << 20}


def _bytes(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([kKmM])i?[bB]?|(\d+)()", text).groups()[:2]  # type: ignore[union-attr]
    return int(number) * _UNITS[unit.lower()]


def fio(paths: Iterable[tuple[str, int, Path]]) -> Iterator[Row]:
    """Results of fio, each with the name of its curve and the number of its trial."""
    for curve, trial, path in paths:
        content = path.read_bytes()
        text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode()
        result: Any = json.loads(text[text.index("{") :])
        (job,) = result["jobs"]
        options = {**result.get("global options", {}), **job["job options"]}
        for op in ("read", "write"):
            done = job[op]
            if not done["iops"]:
                continue
            yield {
                "curve": curve,
                "op": op,
                "block_bytes": _bytes(options["bs"]),
                "in_flight": int(options["iodepth"]) * int(options.get("numjobs", 1)),
                "trial": trial,
                "iops": done["iops"],
                "latency_mean_s": done["lat_ns"]["mean"] / 1e9,
                "latency_p99_s": done["clat_ns"]["percentile"]["99.000000"] / 1e9,
            }


def delayed(shared: Path) -> Iterator[Row]:
    """A lab whose zones were moved apart: three copies, 1, 4 and 16 in flight, three trials."""
    found = []
    for path in sorted((shared / "corpus" / "ceph-lab" / "fio" / "delay2").glob("r3-w4q*.json")):
        named = re.fullmatch(r"r3-w4q\d+-(\w+)-(\d)", path.stem)
        if named is not None:
            found.append((f"rep3 randwrite {named[1]}", int(named[2]), path))
    return fio(found)


def archived(path: Path) -> Iterator[Row]:
    """The closed-loop levels of an archive."""
    run = Run(path)
    for curve in load_curves(run, figures(run, ())):
        for point in curve.closed:
            known = {
                name: point.trials(metric)
                for name, metric in zip(
                    FIGURES,
                    (Metric.IOPS, Metric.LATENCY_MEAN, Metric.LATENCY_P99),
                    strict=True,
                )
            }
            for trial in range(len(known["iops"])):
                yield {
                    "curve": f"{curve.target} {curve.workload} {curve.op.value}",
                    "op": curve.op.value,
                    "block_bytes": 4096,
                    "in_flight": point.load.in_flight,
                    "trial": trial + 1,
                    **{name: values[trial] for name, values in known.items() if values},
                }


def write(name: str, rows: Iterable[Row]) -> None:
    WRITTEN.mkdir(parents=True, exist_ok=True)
    with (WRITTEN / f"{name}.csv").open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, [*HEAD, *FIGURES], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {key: f"{one:.6g}" if isinstance(one, float) else one for key, one in row.items()}
            )


def main() -> None:
    shared = Path(sys.argv[1])
    write("lab-delay", delayed(shared))
    for argument in sys.argv[2:]:
        write(re.sub(f"^{BEFORE_NAME}", "", Path(argument).name), archived(Path(argument)))


if __name__ == "__main__":
    main()
