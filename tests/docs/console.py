"""Pages whose ```console blocks are run: their commands, and how output is compared with them.

What a page shows below `$ command` is compared with what the command prints (stdout and stderr as
they come) after both are normalised:

- every number (`12`, `3,679`, `0.338`, `1.8e+02`) becomes `N`, so that figures may differ and
  nothing else may;
- a unit behind a number (us, ms, s, min; B to TiB) becomes `U`: a latency may be microseconds on
  one machine and milliseconds on another;
- runs of spaces become one, and runs of dashes one dash: columns are as wide as their contents.

A line `...` stands for any number of lines, `...` inside a line for anything on that line. Every
other line must be there, in its place, and nothing may be there that the page does not show or
leave out with `...`. Every command must end with status 0, unless `$ echo $?` follows it; that one
is compared exactly.

One thing is up to the machine: `leadline run` may end with 1, which says that the audit refuses a
number, as those of a busy machine may deserve. What pages show of a run without refused numbers may
then be otherwise, and nothing else may.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# Folders that are searched for programs before those of PATH.
PROGRAMS = (Path(sys.executable).parent,)
_END = "\x1e"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?")
# What is shown of a run without refused numbers, and of one with them.
_REFUSED = {'"trusted": true,': '"trusted": false,', "[]": "[...]"}
# The random part of a run's id.
_RANDOM = re.compile(r"(?<=\bperf-\d{8}-\d{6}-)[2-9b-z]{4}[b-z]\b")
_UNIT = re.compile(r"\bN (?:us|ms|s|min|B|KiB|MiB|GiB|TiB)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One command of a page, the output that stands below it, and its line in the page."""

    command: str
    output: str
    line: int


def commands(page: str) -> list[Shown]:
    """Every command of a page's console blocks, in order."""
    found: list[Shown] = []
    for block in _BLOCK.finditer(page):
        first = page.count("\n", 0, block.start(1)) + 1
        command, output, line = "", "", 0
        for number, text in enumerate(block[1].splitlines(), start=first):
            if text.startswith("$ "):
                if command:
                    found.append(Shown(command=command, output=output, line=line))
                command, output, line = text[2:], "", number
            else:
                assert command, f"line {number}: output without a command"
                output += text + "\n"
        found.append(Shown(command=command, output=output, line=line))
    return found


def normalised(text: str) -> str:
    lines = []
    for line in text.splitlines():
        told = _UNIT.sub("N U", _NUMBER.sub("N", _RANDOM.sub("R", line)))
        told = re.sub(r"-{2,}", "-", told)
        lines.append(re.sub(r"\s+", " ", told).strip())
    return "\n".join(lines).strip("\n")


def agrees(shown: str, printed: str) -> bool:
    """Whether what was printed is what the page shows."""
    pattern = ""
    for line in normalised(shown).splitlines():
        if line == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += "[^\n]*".join(re.escape(part) for part in line.split("...")) + "\n"
    text = normalised(printed)
    return re.fullmatch(pattern, text + "\n" if text else "") is not None


def with_refused(shown: str) -> str:
    """The same output where the audit refuses a number of the run."""
    lines = (_REFUSED.get(line.strip(), line) for line in shown.splitlines())
    return "".join(f"{line}\n" for line in lines)


def run(steps: list[Shown], folder: Path) -> list[tuple[str, int]]:
    """What each command printed, and its status; all in one shell, as a reader does it."""
    lines = [
        f"{step.command}\nstatus=$?; printf '{_END}%d{_END}' $status; (exit $status)\n"
        for step in steps
    ]
    environment = {key: value for key, value in os.environ.items() if key != "LEADLINE_RUNS"}
    environment |= {
        "PATH": os.pathsep.join([*map(str, PROGRAMS), os.environ["PATH"]]),
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }
    done = subprocess.run(
        ["bash", "-c", "".join(lines)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
    )
    parts = done.stdout.decode("utf-8", "replace").split(_END)
    return [(text, int(status)) for text, status in zip(parts[::2], parts[1::2], strict=False)]


def hold_against(page: Path, folder: Path, *, least: int) -> None:
    """Run every command of a page in `folder` and assert that it prints what the page shows.

    `least` is how many commands the page must have, so that no test passes for want of any.
    """
    steps = commands(page.read_text("utf-8"))
    assert len(steps) >= least
    printed = run(steps, folder)
    assert len(printed) == len(steps), f"the shell ended early: {printed}"
    refused = False
    asked = {index - 1 for index, step in enumerate(steps) if step.command == "echo $?"}
    for index, (step, (text, status)) in enumerate(zip(steps, printed, strict=True)):
        where = f"{page.name}:{step.line}: $ {step.command}"
        told = f"{where}\n--- the page shows\n{step.output}\n--- printed\n{text}"
        if step.command == "echo $?":
            assert text == step.output, told
            continue
        runs = step.command.startswith("leadline run ")
        assert status == 0 or (runs and status == 1) or index in asked, f"status {status}: {told}"
        refused |= runs and status == 1
        output = with_refused(step.output) if refused else step.output
        assert agrees(step.output, text) or agrees(output, text), told
