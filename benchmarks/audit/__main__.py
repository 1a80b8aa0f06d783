"""`make audit-bench`: recall and false alarms of every audit rule on the labelled set.

The set: every result of ../shared/corpus and ../shared/reference, and real runs made bad (and good)
on purpose, recorded once (`--fresh` makes them anew with the real fio). Ends with status 1 on any
miss or false alarm that labels/known.csv does not explain.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.audit.judge import CODES, accusations
from benchmarks.audit.labels import CRASHED, FOLDER, REFUSED, read_known
from benchmarks.audit.make_runs import RUNS, make
from benchmarks.audit.recorded import unpack
from benchmarks.audit.score import FALSE_ALARM, MISS, Fault, Row, Verdict, faults, judge, table
from benchmarks.audit.subjects import Subject, corpus, reference, runs, shared_folder, unlabelled
from leadline.audit.registry import RULES


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("--format", choices=("text", "markdown", "json"), default="text")
    parser.add_argument("--fresh", action="store_true", help="make the runs anew, in ten minutes")
    parser.add_argument("--only", metavar="WORD", default="", help="inputs with this in their name")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="leadline-audit-bench-") as folder:
        sets, without = _sets(Path(folder), fresh=given.fresh)
        verdicts = [
            verdict
            for subjects in sets.values()
            for subject in subjects
            if given.only in subject.name
            for verdict in judge(subject, accusations(subject.paths))
        ]
    rows = table(verdicts, [*(rule.code for rule in RULES), REFUSED, CRASHED])
    known = read_known(FOLDER / "known.csv")
    found = faults(verdicts, known)
    if given.format == "json":
        print(json.dumps(_document(rows, found, without), indent=1))
    elif given.format == "markdown":
        print(_markdown(rows))
    else:
        sizes = {name: len(subjects) for name, subjects in sets.items()}
        _print(rows, found, sizes, without, verdicts)
    return 1 if without or any(not fault.known for fault in found) else 0


def _sets(folder: Path, *, fresh: bool) -> tuple[dict[str, tuple[Subject, ...]], tuple[str, ...]]:
    """The inputs by where they are from, and files of the corpus without a label."""
    if fresh:
        for name in RUNS:
            print(f"making {name}", file=sys.stderr)
            make(name, folder / name)
    else:
        unpack(folder)
    sets = {"runs": runs(folder, CODES)}
    shared = shared_folder()
    if shared is None:
        print("../shared is absent: only the runs are judged", file=sys.stderr)
        return sets, ()
    sets |= {"corpus": corpus(shared, CODES), "reference": reference(shared, CODES)}
    return sets, unlabelled(shared, sets["corpus"])


def _print(
    rows: Sequence[Row],
    found: Sequence[Fault],
    sizes: dict[str, int],
    without: Sequence[str],
    verdicts: Sequence[Verdict],
) -> None:
    inputs = ", ".join(f"{number} of {name}" for name, number in sizes.items())
    good = sum(not verdict.label.must for verdict in verdicts)
    print(f"{inputs}: {len(verdicts)} labels, {good} of them good\n")
    print(f"{'rule':26}{'labelled':>9}{'found':>7}{'recall':>8}{'false alarms':>14}{'clean':>7}")
    for row in rows:
        recall = f"{row.recall:.0%}" if row.recall is not None else "-"
        print(
            f"{row.code:26}{row.labelled:9}{row.found:7}{recall:>8}{row.false_alarms:14}{row.clean:7}"
        )
    labelled, hits = sum(row.labelled for row in rows), sum(row.found for row in rows)
    alarms = sum(row.false_alarms for row in rows)
    share = f"{hits / labelled:.0%}" if labelled else "-"
    print(f"{'all':26}{labelled:9}{hits:7}{share:>8}{alarms:14}")
    for kind, heading in ((MISS, "Missed"), (FALSE_ALARM, "False alarms")):
        for known in (False, True):
            _faults(
                f"{heading}{', known' if known else ''}",
                [fault for fault in found if fault.kind == kind and bool(fault.known) is known],
            )
    for name in without:
        print(f"\nno label: {name}")


def _markdown(rows: Sequence[Row]) -> str:
    """The table of docs/internals/audit-bench.md: n is the number of labels without the defect."""
    lines = [
        "| rule | labelled | found | missed | false alarms | of n |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        missed = row.labelled - row.found
        cells = (f"`{row.code}`", row.labelled, row.found, missed, row.false_alarms, row.clean)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def _faults(heading: str, found: Sequence[Fault]) -> None:
    if not found:
        return
    print(f"\n{heading}")
    for fault in found:
        where = f"{fault.file} [{fault.result}]" if fault.result else fault.file
        print(f"  {fault.code}: {where}\n      {fault.reason}")
        if fault.known:
            print(f"      known: {fault.known}")


def _document(rows: Sequence[Row], found: Sequence[Fault], without: Sequence[str]) -> object:
    return {
        "schema": "leadline/audit-bench/1",
        "rules": [asdict(row) | {"recall": row.recall} for row in rows],
        "faults": [asdict(fault) for fault in found],
        "unlabelled": list(without),
    }


if __name__ == "__main__":
    sys.exit(main())
