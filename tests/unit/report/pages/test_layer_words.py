"""Words of layer facts: every template against its golden text.

UPDATE_GOLDEN=1 writes the golden file.
"""

from __future__ import annotations

import string

from leadline.analysis.layers.facts import Code, Fact
from leadline.report.pages.layer_words import TEMPLATES, words
from tests.conftest import ROOT
from tests.kept_text import check_kept

GOLDEN = ROOT / "tests/golden/layer-words.txt"
NUMBERS = {
    "_bytes": 131072,
    "_bps": 12e6,
    "_s": 0.0123,
    "_share": 0.25,
    "_in_flight": 8.0,
}
QUEUE = {"active_mean": 2.5, "active_most": 10.0, "pending_mean": 0.8, "limit": 10.0}


def sample(code: Code) -> Fact:
    """A fact with a value for each field of its template."""
    names = [name for _, name, _, _ in string.Formatter().parse(TEMPLATES[code]) if name]
    values: dict[str, float | str] = {}
    for name in names:
        numbers = (value for end, value in NUMBERS.items() if name.endswith(end))
        values[name] = next(numbers, 3) if name not in TEXTS else f"<{name}>"
    if "queue" in values:
        del values["queue"]
        values |= QUEUE
        if code is Code.QUEUE_FULL:
            values |= {"waited_s": 0.002, "served_s": 0.001}
    return Fact(code=code, values=values)


TEXTS = frozenset(
    (
        *("source", "devices", "device", "mount_point", "operation", "group", "options", "asked"),
        *("text", "compression", "layer", "filesystem", "level", "partition", "layout", "upper"),
        *("lower", "rules", "minimum", "target", "cell"),
    )
)


def rendered() -> str:
    return "".join(f"{code.value}: {words(sample(code))}\n" for code in Code)


def test_every_code_has_a_template() -> None:
    assert set(TEMPLATES) == set(Code)


def test_templates_read_as_in_the_golden_file() -> None:
    check_kept(GOLDEN, rendered())


def test_no_fact_has_no_words() -> None:
    assert words(None) == ""
