"""Remove secrets from the answers of a cluster before they are stored.

Secrets are: settings with a name such as password, key, secret, token, credential; cephx keys by
their form; credentials in URLs; private keys in PEM. The name of a setting is kept.
"""

from __future__ import annotations

import json
import re
from typing import Any

REDACTED = "[redacted]"

# `key` must be the last word of the name: `key_value_store` and `keyring` (a path) are no secrets.
_SECRET_NAME = re.compile(
    r"(passw(or)?d|passphrase|secret|token|credential|api[-_]?key|access[-_]?key|private[-_]?key"
    r"|jwt|(^|[/_.\-])(pw|pwd|auth|key|crt|cert|certificate|ssl_key)$)",
    re.IGNORECASE,
)
# Names with such a word that hold no secret.
_HARMLESS_NAME = re.compile(
    r"^(auth_(cluster|service|client)_required|keyring|pool_key|crush_key"
    r"|.*_(ttl|timeout|interval|length|size|count|num|max|min|expiration|enabled))$",
    re.IGNORECASE,
)
# A cephx key is a type, a time, a length and 16 bytes, in base64: `AQ`, 37 more and `=`.
_CEPHX = re.compile(r"AQ[A-Za-z0-9+/]{36,37}={1,2}")
# Up to the last `@`: passwords may contain `@` and `/`.
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
    """Return whether a setting of this name holds a secret."""
    return bool(_SECRET_NAME.search(name)) and not _HARMLESS_NAME.match(name)


def redact_text(text: str) -> str:
    """Replace secrets of a known form in text."""
    text = _PEM.sub(REDACTED, text)
    text = _URL.sub(rf"\g<scheme>{REDACTED}@", text)
    text = _IN_URL.sub(rf"\g<name>{REDACTED}", text)
    text = _ASSIGNED.sub(rf"\g<name>{REDACTED}", text)
    text = _BEARER.sub(rf"\g<kind> {REDACTED}", text)
    return _CEPHX.sub(REDACTED, text)


def redact(value: Any) -> Any:
    """Replace secrets in decoded JSON; its structure stays."""
    if isinstance(value, dict):
        named = value.get("name")
        hides = isinstance(named, str) and secret_name(named)
        return {
            key: _hidden(member) if _holds_secret(key, hides) else _member(key, member)
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [redact(element) for element in value]
    return redact_text(value) if isinstance(value, str) else value


def redact_dump(content: bytes) -> bytes:
    """Remove secrets from a dump.

    Damaged JSON is redacted as text and kept as evidence. A dump without secrets does not change.
    """
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
    """Redact a member. Keys below `erasure_code_profiles` are user-defined names."""
    if key == "erasure_code_profiles" and isinstance(value, dict):
        return {name: redact(profile) for name, profile in value.items()}
    return redact(value)


# In `{"name": "rgw_keystone_admin_password", "value": ...}` the name is a value, too.
_VALUES = {"value", "values", "default_value", "current_value", "running", "monitor"}


def _holds_secret(key: str, hides: bool) -> bool:
    return secret_name(key) or (hides and key in _VALUES)


def _hidden(value: Any) -> Any:
    """Replace a secret. Empty values and booleans are no secrets; a structure is kept, so that the
    description of a module's option called `secret` stays."""
    if isinstance(value, dict):
        return {key: item if _describes(key) else _hidden(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_hidden(element) for element in value]
    if value is None or isinstance(value, bool) or value in ("", "true", "false", "True", "False"):
        return value
    return REDACTED


def _describes(key: str) -> bool:
    """Return whether Ceph describes an option with this field."""
    return key in {"name", "type", "level", "flags", "desc", "long_desc", "see_also", "tags"}
