"""Validate the forecasts, and write the table of their errors into the program and the docs.

    uv run python scripts/forecast_errors.py             the runs of tests/recorded/forecasts
    uv run python scripts/forecast_errors.py RUN...      other runs: folders of archives
    uv run python scripts/forecast_errors.py --check     exit status 1 if a written table differs

Levels, targets and clusters are left out and forecast from the rest (`leadline predict
--validate`). `leadline predict` cites these errors with every forecast.
`tests/docs/test_forecast_errors.py` makes the table once more.
"""

from __future__ import annotations

import re
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path

import yaml

from leadline.analysis.comparison import Side
from leadline.analysis.predict.facts import ForecastError, LeftOut
from leadline.analysis.predict.predict import predict_left_out
from leadline.archive.reader import Run
from leadline.errors import NOTHING_TO_PREDICT, LeadlineError
from leadline.judge import Judge
from leadline.report.pages.predict.words import LEFT_OUT
from leadline.report.words import percent_text, title

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "tests" / "recorded" / "forecasts"
TABLE = ROOT / "src" / "leadline" / "data" / "forecast_errors.yaml"
PAGE = ROOT / "docs" / "concepts" / "forecasts.md"
HEAD = "# Written by scripts/forecast_errors.py; do not edit by hand.\n"
_BEGIN, _END = "<!-- errors: written by scripts/forecast_errors.py -->", "<!-- end of errors -->"
# Shares have so many decimals, so that machines with other rounding write the same table.
_DECIMALS = 3


def validated(run: Run, judge: Judge) -> list[ForecastError]:
    """The errors of everything that can be left out of a run."""
    figures, findings = judge(run)
    targets = {target.name: target.name for target in run.plan.targets}
    side = Side(name=run.id, run=run, targets=targets, figures=figures, findings=findings)
    found: list[ForecastError] = []
    for left_out in LeftOut:
        try:
            found += predict_left_out([side], left_out).errors
        except LeadlineError as error:
            if error.kind is not NOTHING_TO_PREDICT:
                raise
    return found


@contextmanager
def recorded() -> Iterator[list[Run]]:
    """Unpack the recorded runs."""
    with tempfile.TemporaryDirectory() as folder:
        for archive in sorted(RECORDED.glob("*.tar.xz")):
            with tarfile.open(archive) as packed:
                # Debian 12's Python has no filters of tarfile.
                packed.extraction_filter = getattr(tarfile, "data_filter", None)
                packed.extractall(folder)
        yield [Run(path) for path in sorted(Path(folder).iterdir())]


def table(found: Iterable[ForecastError]) -> str:
    """The errors as data/forecast_errors.yaml."""
    rows = [
        {
            name: round(value, _DECIMALS) if isinstance(value, float) else value
            for name, value in asdict(error).items()
        }
        for error in found
    ]
    plain = [{name: str(v) if isinstance(v, str) else v for name, v in row.items()} for row in rows]
    return HEAD + str(yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, width=100))


def page(found: Iterable[ForecastError]) -> str:
    """The page with the table between its marks."""
    names = ("forecast", "metric", "cells", "refused", "mean", "median", "90 % within", "worst")
    lines = [
        "| run | " + " | ".join(names) + " | in the interval | by repeats |",
        "|---|---|---|" + "---:|" * 8,
    ]
    for one in found:
        shares = (one.mean, one.median, one.p90, one.worst, one.coverage, one.by_repeats)
        texts = (
            "–" if share is None else percent_text(round(share, _DECIMALS)) for share in shares
        )
        cells = (one.source, LEFT_OUT[one.left_out], title(one.metric), one.cells, one.refused)
        lines.append(f"| {' | '.join((*map(str, cells), *texts))} |")
    text = "\n".join(lines)
    return re.sub(
        f"(?s)({re.escape(_BEGIN)}\n).*?(\n{re.escape(_END)})",
        lambda marks: f"{marks[1]}\n{text}\n{marks[2]}",
        PAGE.read_text("utf-8"),
    )


def main(arguments: list[str]) -> int:
    check = arguments == ["--check"]
    named = [] if check else arguments
    with (
        recorded()
        if not named
        else nullcontext([Run(Path(one).resolve()) for one in named]) as runs
    ):
        found = [error for run in runs for error in validated(run, Judge())]
    status = 0
    for path, text in ((TABLE, table(found)), (PAGE, page(found))):
        if check:
            same = path.read_text("utf-8") == text
            status = status if same else 1
            print(f"{path.relative_to(ROOT)}: {'as written' if same else 'differs'}")
        else:
            path.write_text(text, "utf-8")
            print(path.relative_to(ROOT))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
