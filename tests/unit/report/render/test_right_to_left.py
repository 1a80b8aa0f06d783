"""Names written from right to left stand by themselves in a sentence that is read from the left."""

from __future__ import annotations

import html as escapes
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.report.render.html import isolated, sentence

FAST, SITE = "אחסון-מהיר-2", "مركز-جديد-22"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rep3 writes 5 % faster", "rep3 writes 5 % faster"),
        (f"Against {FAST}, {SITE} writes", f"Against <bdi>{FAST}</bdi>, <bdi>{SITE}</bdi> writes"),
        (f"{FAST} · rand-4k · read", f"<bdi>{FAST}</bdi> · rand-4k · read"),
        ("(on מאגר 3 (ישן) and rep3)", "(on <bdi>מאגר 3 (ישן)</bdi> and rep3)"),
        (f"longer ({FAST}) each", f"longer (<bdi>{FAST}</bdi>) each"),
        (f"only on {SITE}: rep3.", f"only on <bdi>{SITE}</bdi>: rep3."),
        ("<b>אב</b>", "<bdi>&lt;b&gt;אב&lt;/b&gt;</bdi>"),
    ],
)
def test_each_name_by_itself(text: str, shown: str) -> None:
    found = str(sentence(text))
    if text.startswith("longer"):  # a name in brackets, with them or without: both read well
        assert found in (shown, f"longer <bdi>({FAST})</bdi> each")
    else:
        assert found == shown


@given(st.text(st.sampled_from("abאבج .,:;()·-<>&\"'12"), max_size=40))
def test_nothing_is_lost_and_nothing_is_markup(text: str) -> None:
    for shown in (str(sentence(text)), str(isolated(text))):
        bare = re.sub(r'</?bdi(?: dir="ltr")?>', "", shown)
        assert "<" not in bare
        assert escapes.unescape(bare) == text
        assert shown.count("<bdi") == shown.count("</bdi>")
        outside = re.sub(r"<bdi>.*?</bdi>", "", shown)
        assert not re.search(r"[אבج]", outside), "a letter that turns its neighbours round"
