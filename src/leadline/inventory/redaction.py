"""Takes secrets out of what a cluster answered, before anything of it is kept.

What is recognised: settings whose name says that they hold a secret (password, key, secret,
token, credential), wherever they are; cephx keys by their form; credentials in URLs; private keys
in PEM. A setting's name stays, so that it can be seen that it is set.
"""

from __future__ import annotations

import json
import re
from typing import Any

REDACTED = "[redacted]"

# `key` alone would hit `key_value_store`, `keyring` (a path) and `osd_pool_default_...`: it has to
# be the last word of the name. The same words are used for options, module options and fields.
_SECRET_NAME = re.compile(
    r"(passw(or)?d|passphrase|secret|token|credential|api[-_]?key|access[-_]?key|private[-_]?key"
    r"|jwt|(^|[/_.\-])(pw|pwd|auth|key|crt|cert|certificate|ssl_key)$)",
    re.IGNORECASE,
)
# Names with such a word that hold no secret and are wanted.
_HARMLESS_NAME = re.compile(
    r"^(auth_(cluster|service|client)_required|keyring|pool_key|crush_key"
    r"|.*_(ttl|timeout|interval|length|size|count|num|max|min|expiration|enabled))$",
    re.IGNORECASE,
)
# A cephx key is a type, a time, a length and 16 bytes, in base64: `AQ`, 37 more and `=`.
_CEPHX = re.compile(r"AQ[A-Za-z0-9+/]{36,37}={1,2}")
# Up to the last `@`: passwords hold `@` and `/` too, and hiding a path with one is no loss.
_URL = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.\-]*://)[^\s\"'<>]*@")
_IN_URL = re.compile(
    r"(?P<name>[?&;](?:[\w.\-]*(?:passw(?:or)?d|secret|token|key|signature))=)[^\s&;\"']+",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(
    r"(?P<name>(?:passw(?:or)?d|secret|token)[\w.\-]*[\"']?\s*[=:]\s*)"
    r"(?P<value>\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)",
    re.IGNORECASE,
)
_PEM = re.compile(r"-----BEGIN [^-]*PRIVATE KEY-----.*?(-----END [^-]*PRIVATE KEY-----|\Z)", re.S)
_BEARER = re.compile(r"\b(?P<kind>Bearer|Basic)\s+[A-Za-z0-9+/=._\-]{8,}")


def secret_name(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return bool(_SECRET_NAME.search(name)) and not _HARMLESS_NAME.match(name)


def redact_text(text: str) -> str:
    """`text` with secrets of a known form replaced; the rest untouched."""
    text = _PEM.sub(REDACTED, text)
    text = _URL.sub(rf"\g<scheme>{REDACTED}@", text)
    text = _IN_URL.sub(rf"\g<name>{REDACTED}", text)
    text = _ASSIGNED.sub(rf"\g<name>{REDACTED}", text)
    text = _BEARER.sub(rf"\g<kind> {REDACTED}", text)
    return _CEPHX.sub(REDACTED, text)


def redact(value: Any) -> Any:
    """Decoded JSON without secrets, of the same shape."""
    if isinstance(value, dict):
        named = value.get("name")
        hides = isinstance(named, str) and secret_name(named)
        return {
            key: _hidden(one) if _holds_secret(key, hides) else _member(key, one)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [redact(one) for one in value]
    return redact_text(value) if isinstance(value, str) else value


def redact_dump(content: bytes) -> bytes:
    """A dump without secrets. What is no JSON is redacted as text, so that a damaged answer can
    be kept as evidence; a dump without secrets stays as it is, byte for byte."""
    try:
        decoded = json.loads(content)
    except (ValueError, RecursionError):
        text = content.decode("utf-8", "surrogateescape")
        return redact_text(text).encode("utf-8", "surrogateescape")
    clean = redact(decoded)
    if clean == decoded:
        return content
    return json.dumps(clean, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _member(key: str, value: Any) -> Any:
    """The keys below some members are names that people chose, and say nothing of the values."""
    if key == "erasure_code_profiles" and isinstance(value, dict):
        return {name: redact(one) for name, one in value.items()}
    return redact(value)


# In `{"name": "rgw_keystone_admin_password", "value": ...}` the secret is beside its name.
_VALUES = {"value", "values", "default_value", "current_value", "running", "monitor"}


def _holds_secret(key: str, hides: bool) -> bool:
    return secret_name(key) or (hides and key in _VALUES)


def _hidden(value: Any) -> Any:
    """What stands for a secret. Emptiness and a switch are none; a structure keeps its shape, so
    that a module's option called `secret` can still be described."""
    if isinstance(value, dict):
        return {key: one if _describes(key) else _hidden(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_hidden(one) for one in value]
    if value is None or isinstance(value, bool) or value in ("", "true", "false", "True", "False"):
        return value
    return REDACTED


def _describes(key: str) -> bool:
    """Fields with which Ceph describes an option."""
    return key in {"name", "type", "level", "flags", "desc", "long_desc", "see_also", "tags"}
