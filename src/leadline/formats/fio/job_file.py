"""Job files as Leadline generates them, read again: by the engines, and from the archive."""

from __future__ import annotations

import re
from collections.abc import Mapping

# The value of a variable grows from client to client, or has one line per client.
_GROWING = re.compile(r"# (LEADLINE_\w+) of client k = (\d+) \+ (\d+) x \(k - 1\)")
_SINGLE = re.compile(r"# (LEADLINE_\w+) of client (\d+) = (\d+)")
_PLACE = re.compile(r"\$\{(LEADLINE_\w+)\}")
FILES = "LEADLINE_FILES"
# What only a generated job file of a fleet holds.
GENERATED = "# LEADLINE_SEED of client k"


def text_of(client: int, text: str) -> str:
    """Make the job file of one client. Sections with a variable that has no value for the client
    are left out."""
    values = {FILES: "" if client <= 1 else f"c{client}."}
    for line in text.splitlines():
        if match := _GROWING.fullmatch(line):
            values[match[1]] = str(int(match[2]) + int(match[3]) * (client - 1))
        elif (match := _SINGLE.fullmatch(line)) and int(match[2]) == client:
            values[match[1]] = match[3]
    sections = re.split(r"(?m)^(?=\[)", text)
    return "".join(
        _PLACE.sub(lambda match: values[match[1]], section)
        for section in sections
        if values.keys() >= set(_PLACE.findall(section))
    )


def options_of(text: str) -> Mapping[str, dict[str, str]]:
    """Parse the options of each section of a generated job file, as text."""
    found: dict[str, dict[str, str]] = {}
    name = ""
    for line in text.splitlines():
        if match := re.fullmatch(r"\[(.+)\]", line):
            name = match[1]
            found.setdefault(name, {})
        elif name and line and not line.startswith(("#", ";")):
            key, separator, value = line.partition("=")
            found[name][key] = value if separator else "1"
    return found
