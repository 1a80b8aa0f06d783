"""Remove secrets from foreign documents before they are stored.

A secret is found by the name of its setting, by Ceph's list of secret options, or by its form. It
is replaced by `[redacted:REASON]`; names, structure and every other byte of a text stay. The
markers are the record: `find_redactions` lists what was removed from a document and why.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from leadline.data import load_table


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
    r"(^|_)((api|access|encryption|secret|account|customer|restful|s3)_keys?|tokens|(http|user|admin|db|auth|smtp|bind|login|root|ldap|chap|proxy)_pass)$"
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

_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"
    r"(?:.*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|[A-Za-z0-9+/=\s\\:,-]*)",
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
    r"(?P<kept>authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:[a-z]+\s+)?)[^\s\"'\[][^\s\"']*"
    r"(?=[\s\"']|$)",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<kept>\bBearer\s+)[A-Za-z0-9+/=._~\-]{8,}")
# Up to the last `@`: passwords may contain `@` and `/`. `host:8080/path@tag` has a port there.
_URL = re.compile(
    r"(?P<kept>[a-zA-Z][a-zA-Z0-9+.\-]{0,30}://)"
    r"(?:[^\s\"'<>/@:%\[]*[:%](?!\d{1,5}/)[^\s\"'<>]*|(?<=http://)[^\s\"'<>/@\[]+"
    r"|(?<=https://)[^\s\"'<>/@\[]+)(?=@)"
)
_IN_URL = re.compile(
    r"(?P<kept>[?&;](?:[\w.\-]{0,40}(?:passw(?:or)?d|secret|token|key|signature)|sig)=)"
    r"(?!\[redacted)[^\s&;\"'\\]+",
    re.IGNORECASE,
)
# With each form, what a text with it holds in small letters: that search is quick, most texts hold
# none.
_FORMS: tuple[tuple[tuple[str, ...], re.Pattern[str], Reason], ...] = (
    (("private key-----",), _PEM, Reason.PRIVATE_KEY),
    (("://",), _URL, Reason.URL_PASSWORD),
    (("=",), _IN_URL, Reason.URL_PASSWORD),
    (("bearer",), _BEARER, Reason.AUTHORIZATION),
    (("authorization",), _AUTHORIZATION, Reason.AUTHORIZATION),
    (("eyj",), _JWT, Reason.JWT),
    (("akia", "asia", "abia", "acca"), _AWS, Reason.AWS_KEY),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "hvs."), _API_TOKEN, Reason.API_TOKEN),
    (("=",), _CEPHX, Reason.CEPHX_KEY),
)
_IN_NAMES = (
    *("pass", "pw", "secret", "token", "key", "cred", "jwt", "auth", "cert", "crt"),
    *("accessdb", "multicluster", "managed"),
)

# A line `name = value` of a configuration file or of YAML, which may go on indented after `|`.
_LINE = re.compile(
    r"^(?P<head>[ \t]*(?:[-#;][ \t]*)?(?:export[ \t]+)?(?P<quote>[\"']?)"
    r"(?P<name>[A-Za-z][\w./ \-]{0,79}?)(?P=quote)[ \t]*[=:][ \t]*)"
    r"(?P<value>[|>][-+\d]{0,2}[ \t]*(?:\n[ \t]+\S.*)+|\S.*)$",
    re.MULTILINE,
)
# `name=value` and `"name": "value"` anywhere; the name is completed to the left.
_INLINE = re.compile(
    r"(?:passw(?:or)?d|passphrase|secret|token|credential|(?:api|access|private|encryption)[-_]?key"
    r"|_pass|_key)[\w.\-]{0,40}(?P<close>\\?[\"']?)[ \t]{0,8}[=:][ \t]{0,8}"
    r"(?P<value>\\\"(?:(?!\\\").)*\\\"|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'"
    r"|(?:[^\s,;&\"'\\]|\\\\|\\(?![\"nrtbfu/\\]))+)",
    re.IGNORECASE,
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
    for held, form, reason in _FORMS:
        if any(word in small for word in held):
            kept = r"\g<kept>" if "kept" in form.groupindex else ""
            text = form.sub(kept + reason.marker, text)
    if any(word in small for word in _IN_NAMES):
        text = _LINE.sub(_redact_line, text)
        text = _INLINE.sub(_redact_inline, text)
        if "--" in small:
            text = _ARGUMENT.sub(_redact_argument, text)
    return text


def _redact_line(match: re.Match[str]) -> str:
    name, value = match["name"].rstrip(), match["value"]
    reason, weak = _reason_of(name)
    if reason is None or (" " in name and reason is not Reason.CEPH_OPTION):
        return match[0]
    clean = _without_value(value, reason, weak=weak, whole=not match["quote"])
    return match["head"] + clean


def _redact_inline(match: re.Match[str]) -> str:
    before = _NAME_BEFORE.search(match.string, max(0, match.start() - 60), match.start())
    at = match.start("value") - match.start()
    written = re.split(r"[\"'\s=:\\]", match[0][:at], maxsplit=1)[0]
    reason, weak = _reason_of((before[0] if before else "") + written)
    if reason is None:
        return match[0]
    quoted = bool(match["close"])
    return match[0][:at] + _without_value(match["value"], reason, weak=weak, json_number=quoted)


def _redact_argument(match: re.Match[str]) -> str:
    reason, _ = _reason_of(match["name"])
    if reason is None or match["value"].lower() in _EMPTY:
        return match[0]
    return match[0][: match.start("value") - match.start()] + reason.marker


def _without_value(
    value: str, reason: Reason, *, weak: bool, whole: bool = False, json_number: bool = False
) -> str:
    """Replace a value in text. `whole`: an unquoted one goes on to the end of the line."""
    quoted = re.match(r"\\\"(?:(?!\\\").)*\\\"|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'", value)
    if quoted:
        mark = '\\"' if value[0] == "\\" else value[0]
        inner = quoted[0][len(mark) : -len(mark)]
        rest = value[quoted.end() :]
    elif whole:
        mark, inner, rest = "", value, ""
    else:
        number = re.match(r"[\w.+-]*", value) if json_number or not whole else None
        inner = number[0] if number is not None and json_number else value
        mark = '"' if json_number and inner else ""
        rest = value[len(inner) :]
    if not _is_value(inner, weak=weak, text=True):
        return value
    return f"{mark}{reason.marker}{mark}{rest}"


def _is_value(value: str, *, weak: bool, text: bool = False) -> bool:
    """Return whether a value of a setting with a secret's name can be a secret."""
    value = value.strip()
    if value.lower() in _EMPTY or _MARKER.search(value) or value[:1] in "{[":
        return False
    if not weak:
        return True
    if _PATH.fullmatch(value):
        return False
    return not text or (len(value) >= _LEAST_WEAK_LENGTH and not re.search(r"\s", value))


# Documents --------------------------------------------------------------------------------------

# In `{"name": "rgw_keystone_admin_password", "value": ...}` the name is a value, too.
_VALUES = frozenset(
    {"value", "values", "default_value", "current_value", "running", "monitor", "location_value"}
)
# Their members are user-defined names: of profiles, and of an archive's files.
_NAMED_BY_USERS = frozenset({"erasure_code_profiles", "files"})
_LABEL_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
# In Kubernetes, keys next to a `key` that names a label: in taints, tolerations and selectors.
_LABEL_KEYS = frozenset(
    {"key", "operator", "values", "value", "effect", "timeAdded", "tolerationSeconds"}
)
# Ceph describes an option with these.
_DESCRIBES = frozenset({"name", "type", "level", "flags", "desc", "long_desc", "see_also", "tags"})


def redact(value: Any) -> Any:
    """Replace secrets in decoded JSON; its structure stays."""
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
        reason, weak = _reason_of(key[:200])
        if key == "key" and names_label:
            reason = None
        if reason is None and key in _VALUES:
            reason, weak = of_value
        if reason is not None:
            clean[redact_text(key)] = _hidden(member, reason, weak=weak)
        elif key in _NAMED_BY_USERS and isinstance(member, dict):
            clean[key] = {redact_text(name): redact(item) for name, item in member.items()}
        else:
            clean[redact_text(key)] = redact(member)
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
    return clean


def _hidden(value: Any, reason: Reason, *, weak: bool) -> Any:
    """Replace a secret. Empty values and booleans are no secrets; a structure is kept, so that the
    description of a module's option called `secret` stays."""
    if isinstance(value, dict):
        return {
            key: redact(item) if key in _DESCRIBES else _hidden(item, reason, weak=weak)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_hidden(element, reason, weak=weak) for element in value]
    if value is None or isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return value if weak else reason.marker
    if value.strip().lower() in _EMPTY or _MARKER.fullmatch(value):
        return value
    return redact_text(value) if weak and _PATH.fullmatch(value) else reason.marker


def redact_dump(content: bytes) -> bytes:
    """Remove secrets from a dump.

    Damaged JSON is redacted as text and kept as evidence. A dump without secrets does not change.
    """
    try:
        decoded = json.loads(content)
    except (ValueError, RecursionError):
        return redact_raw(content)
    clean = redact(decoded)
    if clean == decoded:
        return content
    return json.dumps(clean, ensure_ascii=False).encode("utf-8", "surrogatepass")


# A log of fio holds numbers only; to find that out is a hundred times quicker than the patterns.
_NUMERIC = b"0123456789 ,.-\n\r\t"


def redact_raw(content: bytes) -> bytes:
    """Remove secrets from text such as a tool's output; every other byte stays."""
    if not content.translate(None, _NUMERIC):
        return content
    text = content.decode("utf-8", "surrogateescape")
    clean = redact_text(text)
    return content if clean == text else clean.encode("utf-8", "surrogateescape")


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
