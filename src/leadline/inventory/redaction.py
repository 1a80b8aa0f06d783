"""Remove secrets from foreign documents before they are stored.

A secret is found by the name of its setting, by Ceph's list of secret options, or by its form. It
is replaced by `[redacted:REASON]`; names, structure and every other byte of a text stay. The
markers are the record: `find_redactions` lists what was removed from a document and why.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from typing import Any, NamedTuple

from leadline.data import load_table
from leadline.json_bins import insert, set_aside


class Reason(StrEnum):
    """Why a value was removed. `UNKNOWN`: by an earlier version, which gave no reason."""

    CEPH_OPTION = "ceph-option"
    SECRET_NAME = "secret-name"
    CEPHX_KEY = "cephx-key"
    PRIVATE_KEY = "private-key"
    JWT = "jwt"
    AWS_KEY = "aws-key"
    API_TOKEN = "api-token"
    AUTHORIZATION = "authorization"
    URL_PASSWORD = "url-password"
    UNKNOWN = "unknown"

    @property
    def marker(self) -> str:
        """The text in the place of the secret."""
        return f"[redacted:{self}]"


# How every marker begins.
MARK = b"[redacted"
_MARKER = re.compile(rf"\[redacted(?::({'|'.join(Reason)}))?\]")


# Within a name, also without separators: `adminpassword`, `clientSecret`.
_STRONG = re.compile(r"passw(or)?d|passphrase|secret|credential|apikey|accesskey|jwt|token(_|$)")
_STRONG_LAST = re.compile(
    r"(^|_)((api|access|encryption|secret|account|customer|restful|s3)_keys?|tokens|authorization|(http|user|admin|db|auth|smtp|bind|login|root|ldap|chap|proxy)_pass)$"
)
# `key` must be the last word of a name: `key_value_store` and `keyring` (a path) are no secrets.
# Values of these names may also be paths and numbers.
_WEAK_LAST = re.compile(r"(^|_)(pw|pwd|auth|crt|cert|certificate|(private|client|ssl)?key)$")
_HARMLESS_LAST = re.compile(
    r"(^|_)(ttl|timeout|interval|length|size|count|num|max|min|expiration|enabled|required|type|policy"
    r"|version|engine|template|names?|namespace|ref|path|file|dir|urls?|uri|prefix|period|age"
    r"|(public|pub|pool|crush|sort|partition|label|cache|hash|per|domain|topology|zone"
    r"|node|annotation|selector)_key|(max|min|num)_tokens"
    r"|pull_secrets?)$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_WORD = re.compile(r"[^A-Za-z0-9]+")


@functools.cache
def _ceph_options() -> tuple[frozenset[str], frozenset[str]]:
    table = load_table("ceph_secret_options", dict[str, tuple[str, ...]])
    return (
        frozenset(map(_normalised, table["secret"])),
        frozenset(map(_normalised, table["not_secret"])),
    )


def _normalised(name: str) -> str:
    """Return the words of a name in lower case with underscores between them."""
    return (
        _NOT_WORD.sub("_", _CAMEL.sub("_", name) if not name.isupper() else name).strip("_").lower()
    )


@functools.lru_cache(maxsize=1 << 14)
def _reason_of(name: str) -> tuple[Reason | None, bool]:
    """Return why a setting of this name holds a secret, None if it does not; and whether the name
    is weak: `key` and `cert` also name paths and numbers."""
    words = _normalised(name)
    secret, not_secret = _ceph_options()
    if words in not_secret:
        return None, False
    if words in secret:
        return Reason.CEPH_OPTION, words == "key"
    if _HARMLESS_LAST.search(words):
        return None, False
    if _STRONG.search(words) or _STRONG_LAST.search(words):
        return Reason.SECRET_NAME, False
    return (Reason.SECRET_NAME, True) if _WEAK_LAST.search(words) else (None, False)


def secret_name(name: str) -> bool:
    """Return whether a setting of this name holds a secret."""
    return _reason_of(name[:200])[0] is not None


# Forms of secrets -------------------------------------------------------------------------------
# Repeats are bounded where a pattern can begin often: the time stays linear in the text's length.

_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"
    r"(?:.{0,8192}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|[A-Za-z0-9+/=\s\\:,-]*)",
    re.DOTALL,
)
# A cephx key is a type, a time, a length and 16 (AES) or 32 bytes (AES-256), in base64.
_CEPHX = re.compile(r"(?<![A-Za-z0-9+/])(?:AQ[A-Za-z0-9+/]{36,37}={1,2}|Ag[A-Za-z0-9+/]{57}=)")
_JWT = re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*")
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html: long-term and
# temporary keys, bearer tokens, context-specific credentials.
_AWS = re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])")
_API_TOKEN = re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|hvs\.[\w-]{24,})")
_AUTHORIZATION = re.compile(
    r"(?P<kept>authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:[a-z]+[ \t]+)?+)[^\s\"'\[][^\s\"']*"
    r"(?=[\s\"']|$)",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<kept>\bBearer\s+)[A-Za-z0-9+/=._~\-]{8,}")
# Up to the last `@`: passwords may contain `@` and `/`. `host:8080/path@tag` has a port there.
_URL = re.compile(
    r"(?P<kept>[a-zA-Z][a-zA-Z0-9+.\-]{0,30}://)"
    r"(?:[^\s\"'<>/@:%\[]{0,255}[:%](?!\d{1,5}/)[^\s\"'<>]{0,1024}"
    r"|(?<=http://)[^\s\"'<>/@\[]{1,255}|(?<=https://)[^\s\"'<>/@\[]{1,255})(?=@)"
)
_IN_URL = re.compile(
    r"(?P<kept>[?&;](?:[\w.\-]{0,40}(?:passw(?:or)?d|secret|token|key|signature)|sig)=)"
    r"(?!\[redacted)[^\s&;\"'\\]+",
    re.IGNORECASE,
)
# Not `=` alone: `>=64` is in every output of fio.
_URL_PARAMETERS = ("passwd=", "password=", "secret=", "token=", "key=", "signature=", "sig=")


class _Words(NamedTuple):
    """Words that a text is searched for: as they are written, and in any case."""

    exact: tuple[str, ...]
    any_case: tuple[str, ...]

    def within(self, text: str, small: str) -> bool:
        """Return whether a text holds one of the words; `small` is the text in small letters."""
        # No generators: every string of every document is searched.
        exact = any(map(text.__contains__, self.exact))
        return exact or any(map(small.__contains__, self.any_case))


def _words(*words: str) -> _Words:
    """Return the words, those in small letters for any case."""
    any_case = tuple(word for word in words if word == word.lower())
    return _Words(tuple(word for word in words if word not in any_case), any_case)


# With each form, words of which a text with it holds one: that search is quick, most texts hold
# none.
_FORMS: tuple[tuple[_Words, re.Pattern[str], Reason], ...] = (
    (_words("PRIVATE KEY-----"), _PEM, Reason.PRIVATE_KEY),
    (_words("://"), _URL, Reason.URL_PASSWORD),
    (_words(*_URL_PARAMETERS), _IN_URL, Reason.URL_PASSWORD),
    (_words("Bearer"), _BEARER, Reason.AUTHORIZATION),
    (_words("authorization"), _AUTHORIZATION, Reason.AUTHORIZATION),
    (_words("eyJ"), _JWT, Reason.JWT),
    (_words("AKIA", "ASIA", "ABIA", "ACCA"), _AWS, Reason.AWS_KEY),
    (_words("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "hvs."), _API_TOKEN, Reason.API_TOKEN),
    (_words("AQ", "Ag"), _CEPHX, Reason.CEPHX_KEY),
)
# Every name of a secret holds one of these.
_IN_NAMES = _words(
    *("pass", "pw", "secret", "token", "key", "cred", "jwt", "auth", "cert", "crt"),
    *("accessdb", "multicluster", "managed"),
)
_ALL_WORDS = _Words(
    tuple(word for words, _, _ in _FORMS for word in words.exact),
    (*_IN_NAMES.any_case, *(word for words, _, _ in _FORMS for word in words.any_case)),
)

_QUOTED = r"\\\"(?:(?!\\\").){0,2048}\\\"|\"(?:[^\"\\\n]|\\.){0,2048}\"|'[^'\n]{0,2048}'"
# A line `name = value` of a configuration file or of YAML, which may go on indented after `|`.
_LINE = re.compile(
    r"^(?P<head>[ \t]*(?:[-#;][ \t]*)?(?:export[ \t]+)?(?P<quote>[\"']?)"
    r"(?P<name>[A-Za-z][\w./ \-]{0,79}?)(?P=quote)[ \t]*[=:][ \t]*)"
    r"(?P<value>[|>][-+\d]{0,2}[ \t]*(?:\n[ \t]+\S.*)+|\S.*)$",
    re.MULTILINE,
)
# `name=value` and `"name": "value"` anywhere; the name is completed to the left. A value behind
# ` = ` may have several words.
_INLINE = re.compile(
    r"(?:passw(?:or)?d|passphrase|secret|token|credential|(?:api|access|private|encryption)[-_]?key"
    r"|_pass|_key)[\w.\-]{0,40}(?P<close>\\?[\"']?)[ \t]{0,8}[=:][ \t]{0,8}"
    rf"(?P<value>{_QUOTED}"
    r"|(?<= = )[^\s,;&\"'\\][^\n,;\"'\\]*|(?:[^\s,;&\"'\\]|\\\\|\\(?![\"nrtbfu/\\]))+)",
    re.IGNORECASE,
)
# A setting of damaged JSON, of which nothing but text is left.
_NAMED = re.compile(
    r"\"(?:name|key)\"\s{0,4}:\s{0,4}\"(?P<name>[^\"\n]{1,200})\"(?P<between>[^{}]{0,400}?)"
    r"\"value\"\s{0,4}:\s{0,4}(?P<value>\"(?:[^\"\\\n]|\\.){0,2048}\"?)"
)
_ARGUMENT = re.compile(
    r"(?<![\w-])--(?P<name>[\w-]{2,60})[ \t]+(?P<value>(?!\[redacted)[^\s\"'\\-][^\s\"'\\]*)"
)
_NAME_BEFORE = re.compile(r"[\w.\-/]{0,60}\Z")
_EMPTY = frozenset({"", "true", "false", "null", "none", "~", "yes", "no"})
_PATH = re.compile(r"(config:/)?(/[\w.@$-]+){2,}/?")
_LEAST_WEAK_LENGTH = 16


def redact_text(text: str) -> str:
    """Replace secrets in text: known forms, and values of settings that are named like a secret.

    All else stays; JSON stays JSON with the same numbers.
    """
    small = text.lower()
    if not _ALL_WORDS.within(text, small):
        return text
    given = text
    for words, form, reason in _FORMS:
        if words.within(text, small):
            kept = r"\g<kept>" if "kept" in form.groupindex else ""
            text = form.sub(kept + reason.marker, text)
    if _IN_NAMES.within(text, small):
        text = _NAMED.sub(_redact_named, text)
        text = _LINE.sub(_redact_line, text)
        text = _INLINE.sub(_redact_inline, text)
        if "--" in small:
            text = _ARGUMENT.sub(_redact_argument, text)
    return given if text == given else text


# The same few keys are in every document of a cluster.
_LONGEST_KEPT = 100
_redact_key = functools.lru_cache(maxsize=1 << 12)(redact_text)


def _redact_named(match: re.Match[str]) -> str:
    reason, _ = _reason_of(match["name"])
    value = match["value"]
    if reason is None or value.strip('"') in _EMPTY or _is_redacted(value):
        return match[0]
    return f'{match[0][: match.start("value") - match.start()]}"{reason.marker}"'


def _redact_line(match: re.Match[str]) -> str:
    name, value = match["name"].rstrip(), match["value"]
    reason, weak = _reason_of(name)
    if reason is None or (" " in name and reason is not Reason.CEPH_OPTION):
        return match[0]
    return match["head"] + _without_value(value, reason, weak=weak, in_json=bool(match["quote"]))


def _redact_inline(match: re.Match[str]) -> str:
    before = _NAME_BEFORE.search(match.string, max(0, match.start() - 60), match.start())
    at = match.start("value") - match.start()
    written = re.split(r"[\"'\s=:\\]", match[0][:at], maxsplit=1)[0]
    reason, weak = _reason_of((before[0] if before else "") + written)
    if reason is None:
        return match[0]
    in_json = bool(match["close"])
    return match[0][:at] + _without_value(match["value"], reason, weak=weak, in_json=in_json)


def _redact_argument(match: re.Match[str]) -> str:
    reason, _ = _reason_of(match["name"])
    if reason is None or match["value"].lower() in _EMPTY:
        return match[0]
    return match[0][: match.start("value") - match.start()] + reason.marker


def _without_value(value: str, reason: Reason, *, weak: bool, in_json: bool) -> str:
    """Replace a value in text: a quoted one, a number of (damaged) JSON, or all of it."""
    quoted = re.match(_QUOTED, value)
    if quoted:
        mark = '\\"' if value[0] == "\\" else value[0]
        inner = quoted[0][len(mark) : -len(mark)]
        rest = value[quoted.end() :]
    else:
        mark = '"' if in_json else ""
        inner = re.split(r"[\s,}\]]", value, maxsplit=1)[0] if in_json else value
        rest = value[len(inner) :]
    if not _is_value(inner, weak=weak):
        return value
    return f"{mark}{reason.marker}{mark}{rest}"


def _is_redacted(value: str) -> bool:
    """Return whether nothing is left of a value."""
    return bool(_MARKER.search(value)) and not _MARKER.sub("", value).strip(" \t\"',;&)}]+")


def _is_value(value: str, *, weak: bool) -> bool:
    """Return whether the text of a value can be a secret."""
    value = value.strip()
    if value.lower() in _EMPTY or value[:1] == "{" or value == "[" or _is_redacted(value):
        return False
    if not weak:
        return True
    one_word = len(value) >= _LEAST_WEAK_LENGTH and not re.search(r"\s", value)
    return one_word and not _PATH.fullmatch(value)


# Documents --------------------------------------------------------------------------------------

# In `{"name": "rgw_keystone_admin_password", "value": ...}` the name is a value, too.
_VALUES = frozenset(
    {"value", "values", "default_value", "current_value", "running", "monitor", "location_value"}
)
# Their members are user-defined names: of profiles, of an archive's files, of labels.
_NAMED_BY_USERS = frozenset({"erasure_code_profiles", "files", "labels"})
_LABEL_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
# In Kubernetes, keys next to a `key` that names a label: in taints, tolerations and selectors.
_LABEL_KEYS = frozenset(
    {"key", "operator", "values", "value", "effect", "timeAdded", "tolerationSeconds"}
)
# Ceph describes an option with these.
_DESCRIBES = frozenset({"name", "type", "level", "flags", "desc", "long_desc", "see_also", "tags"})


def redact(value: Any) -> Any:
    """Replace secrets in decoded JSON; its structure stays. Without any it returns `value`."""
    if isinstance(value, _Repeating):
        return _redact_repeating(value)
    if isinstance(value, dict):
        return _redact_object(value)
    if isinstance(value, list):
        return _redact_list(value)
    return redact_text(value) if isinstance(value, str) else value


def _redact_object(value: dict[str, Any]) -> dict[str, Any]:
    names_label = _names_label(value)
    named = value.get("name", value["key"] if names_label else None)
    of_value = _reason_of(named[:200]) if isinstance(named, str) else (None, False)
    clean: dict[str, Any] = {}
    for key, member in value.items():
        if type(member) is int and key.isdecimal():
            clean[key] = member  # a bin of a histogram: there are thousands
            continue
        reason, weak = _reason_of(key[:200])
        if key == "key" and names_label:
            reason = None
        if reason is None and key in _VALUES:
            reason, weak = of_value
        if reason is not None:
            clean[_clean_key(key, clean)] = _hidden(member, reason, weak=weak)
        elif key in _NAMED_BY_USERS and isinstance(member, dict):
            named_by_users: dict[str, Any] = {}
            for name, item in member.items():
                named_by_users[_clean_key(name, named_by_users)] = redact(item)
            clean[key] = _kept(member, named_by_users)
        else:
            clean[_clean_key(key, clean)] = redact(member)
    return _kept(value, clean)


def _redact_repeating(value: _Repeating) -> dict[str, Any]:
    """Redact all members of an object with repeated keys, those that a decoder drops by
    themselves."""
    last = {key: place for place, (key, _) in enumerate(value.pairs)}
    # The order of `dict(value)` is that of the first occurrence of each key.
    clean = dict(zip(value, _redact_object(dict(value)).items(), strict=True))
    pairs = [
        clean[key] if place == last[key] else next(iter(_redact_object({key: member}).items()))
        for place, (key, member) in enumerate(value.pairs)
    ]
    if all(
        key is clean_key and member is clean_member
        for (key, member), (clean_key, clean_member) in zip(value.pairs, pairs, strict=True)
    ):
        return value
    return _Repeating(pairs)


def _kept(value: dict[str, Any], clean: dict[str, Any]) -> dict[str, Any]:
    """Return `value` itself if nothing in it changed, so that documents are not copied."""
    for (key, member), (clean_key, clean_member) in zip(value.items(), clean.items(), strict=True):
        if key is not clean_key or member is not clean_member:
            return clean
    return value


def _clean_key(key: str, members: dict[str, Any]) -> str:
    """Return a key without secrets that differs from those of the members."""
    clean = _redact_key(key) if len(key) <= _LONGEST_KEPT else redact_text(key)
    while clean in members:
        clean += "+"
    return clean


def _names_label(value: dict[str, Any]) -> bool:
    label = value.get("key")
    return (
        isinstance(label, str)
        and len(value) > 1
        and _LABEL_KEYS.issuperset(value)
        and _LABEL_KEY.fullmatch(label) is not None
    )


def _redact_list(values: list[Any]) -> list[Any]:
    """Redact elements. In `["--password", "x"]`, a command line, the second is a value."""
    clean = []
    reason: Reason | None = None
    for value in values:
        clean.append(_hidden(value, reason, weak=False) if reason else redact(value))
        option = isinstance(value, str) and value.startswith("--") and "=" not in value
        reason = _reason_of(value[2:202])[0] if option else None
    same = all(value is other for value, other in zip(values, clean, strict=True))
    return values if same else clean


def _hidden(value: Any, reason: Reason, *, weak: bool) -> Any:
    """Replace a secret. Empty values and booleans are no secrets; a structure is kept, so that the
    description of a module's option called `secret` stays."""
    if isinstance(value, dict):
        hidden: dict[str, Any] = {}
        for key, item in value.items():
            described = key in _DESCRIBES
            hidden[_clean_key(key, hidden)] = (
                redact(item) if described else _hidden(item, reason, weak=weak)
            )
        return _kept(value, hidden)
    if isinstance(value, list):
        clean = [_hidden(element, reason, weak=weak) for element in value]
        same = all(element is other for element, other in zip(value, clean, strict=True))
        return value if same else clean
    if value is None or isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return value if weak else reason.marker
    if value.strip().lower() in _EMPTY or _MARKER.fullmatch(value):
        return value
    return redact_text(value) if weak and _PATH.fullmatch(value) else reason.marker


# Most of the bytes of a result are these; without them, the words are found several times faster.
_FILLER = b'0123456789 ,:"\n\r\t'
_EXACT_BYTES, _SMALL_BYTES = (
    {word.encode().translate(None, _FILLER) for word in words} for words in _ALL_WORDS
)
# A document that begins a line: the whole text, a line of many, or JSON behind messages.
_BEGIN = re.compile(r"^\ufeff?[ \t]*(?=[{\[])", re.MULTILINE)
# Damaged JSON is text; a file of nothing but brackets must not be parsed from each of them.
_MOST_DAMAGED = 64


def may_hold_secret(content: bytes) -> bool:
    """Return False for a document in UTF-8 in which `redact_document` finds nothing; quickly."""
    rest = content.translate(None, _FILLER)
    small = rest.lower()
    if not rest.isascii():  # a few other letters have small ones that are ASCII
        small = rest.decode("utf-8", "replace").lower().encode()
    return any(word in rest for word in _EXACT_BYTES) or any(word in small for word in _SMALL_BYTES)


def redact_document(content: bytes) -> bytes:
    """Remove secrets from a document: JSON, JSON behind or between lines of text, or text.

    Every other byte stays. Damaged JSON is redacted as text and kept as evidence.
    """
    # JSON may be UTF-16 and UTF-32 too; bytes that could be are searched as text all the same.
    wide = json.detect_encoding(content[:8])
    if not wide.startswith("utf-8"):
        with suppress(UnicodeDecodeError):
            text = content.decode(wide)
            clean = _redact_mixed(text)
            content = content if clean == text else clean.encode(wide)
    if not may_hold_secret(content):
        return content
    rest, bins = set_aside(content)
    if bins:
        redacted = redact_document(rest)
        return content if redacted == rest else insert(redacted, bins)
    text = content.decode("utf-8", "surrogateescape")
    clean = _redact_mixed(text)
    return content if clean == text else clean.encode("utf-8", "surrogateescape")


def _redact_mixed(text: str) -> str:
    """Redact JSON documents, and as text what lies between them."""
    parts: list[str] = []
    at = damaged = 0
    for begin in _BEGIN.finditer(text):
        if begin.end() < at or damaged == _MOST_DAMAGED:
            continue
        try:
            decoded, end = _DECODER.raw_decode(text, begin.end())
            edited = _edit(text, begin.end(), end, decoded)
        except (ValueError, RecursionError):
            damaged += 1
            continue
        parts += [redact_text(text[at : begin.end()]), edited]
        at = end
    parts.append(redact_text(text[at:]))
    return "".join(parts)


class _Repeating(dict[str, Any]):
    """An object with repeated keys; `pairs` are all its members, also those a decoder drops."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    return members if len(members) == len(pairs) else _Repeating(pairs)


_DECODER = json.JSONDecoder(object_pairs_hook=_members)
_BLANK = re.compile(r"[ \t\n\r]*")


def _edit(text: str, begin: int, end: int, decoded: Any) -> str:
    """Return a JSON document with its secrets replaced; all else stays byte for byte."""
    clean = redact(decoded)
    if clean is decoded:
        return text[begin:end]
    edits: list[tuple[int, int, str]] = []
    _find_edits(text, begin, decoded, clean, edits)
    parts = []
    for first, last, replacement in edits:
        parts += [text[begin:first], json.dumps(replacement)]
        begin = last
    return "".join([*parts, text[begin:end]])


def _find_edits(
    text: str, at: int, value: Any, clean: Any, edits: list[tuple[int, int, str]]
) -> int:
    """Add the places of a valid document whose text changes, each with the string that replaces
    it; return where the value that begins at or after `at` ends."""
    at = _skip_blanks(text, at)
    if clean is value or not isinstance(value, dict | list):
        end = _DECODER.raw_decode(text, at)[1]
        if clean is not value and clean != value:
            edits.append((at, end, clean))
        return end
    at = _skip_blanks(text, at + 1)
    if isinstance(value, list):
        for element, clean_element in zip(value, clean, strict=True):
            at = _find_edits(text, at, element, clean_element, edits)
            at = _skip_comma(text, at)
        return at + 1
    for (key, member), (clean_key, clean_member) in zip(_pairs(value), _pairs(clean), strict=True):
        at = _find_edits(text, at, key, clean_key, edits)
        at = _skip_blanks(text, at) + 1  # the colon
        at = _find_edits(text, at, member, clean_member, edits)
        at = _skip_comma(text, at)
    return at + 1


def _pairs(value: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    return value.pairs if isinstance(value, _Repeating) else value.items()


def _skip_blanks(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _skip_comma(text: str, at: int) -> int:
    at = _skip_blanks(text, at)
    return _skip_blanks(text, at + 1) if text[at] == "," else at


def find_redactions(content: bytes) -> list[tuple[str, Reason]]:
    """List where a document was redacted, and why: by JSON path, else by line. Never the value."""
    if MARK not in content:
        return []
    try:
        return list(_markers(json.loads(content), "$"))
    except (ValueError, RecursionError):
        lines = content.decode("utf-8", "replace").splitlines()
        return [
            (f"line {number}", _reason(match))
            for number, line in enumerate(lines, start=1)
            for match in _MARKER.finditer(line)
        ]


def _markers(value: Any, where: str) -> Iterator[tuple[str, Reason]]:
    if isinstance(value, dict):
        name = value.get("name")
        called = f"({name})" if isinstance(name, str) and secret_name(name) else ""
        for key, member in value.items():
            yield from ((f"{where} (a key)", _reason(match)) for match in _MARKER.finditer(key))
            yield from _markers(member, f"{where}{called}.{key}")
    elif isinstance(value, list):
        for number, element in enumerate(value):
            yield from _markers(element, f"{where}[{number}]")
    elif isinstance(value, str):
        yield from ((where, _reason(match)) for match in _MARKER.finditer(value))


def _reason(match: re.Match[str]) -> Reason:
    return Reason(match[1]) if match[1] else Reason.UNKNOWN
