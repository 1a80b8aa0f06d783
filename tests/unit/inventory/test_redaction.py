"""Secrets never stay in a dump, and nothing else is lost from it."""

from __future__ import annotations

import base64
import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.inventory.redaction import Reason, redact, redact_dump, redact_text, secret_name
from tests.unit.inventory.conftest import dumps_of

SECRET = "hunter2Zq"
NAMES = (
    "password", "rgw_keystone_admin_password", "mgr/dashboard/PWD_HASH_SECRET", "jwt_token_secret",
    "mgr/restful/keys/admin_key", "rgw_s3_auth_keystone_secret", "access_key", "secret_key",
    "mgr/dashboard/GRAFANA_API_PASSWORD", "mgr/cephadm/registry_credentials", "private-key",
    "mgr/dashboard/key", "dashboard.api_token", "rgw_ldap_passwd",
)  # fmt: skip
HARMLESS = (
    "auth_cluster_required", "keyring", "osd_pool_default_size", "mon_target_pg_per_osd",
    "rgw_keystone_token_cache_size", "auth_service_ticket_ttl", "crush_location", "pg_num",
    "bluestore_rocksdb_options", "application_metadata", "keyspace", "monkey",
)  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.text(max_size=20),
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("name", NAMES)
def test_names_of_secrets(name: str) -> None:
    assert secret_name(name)
    assert SECRET not in json.dumps(redact({"name": name, "value": SECRET, "level": "advanced"}))
    assert SECRET not in json.dumps(redact({name: SECRET}))
    assert SECRET not in json.dumps(redact({name: {"value": SECRET, "deep": [SECRET]}}))


@pytest.mark.parametrize("name", HARMLESS)
def test_names_of_what_is_wanted(name: str) -> None:
    assert not secret_name(name)
    assert redact({"name": name, "value": "42"}) == {"name": name, "value": "42"}


@given(value=JSON, name=st.sampled_from(NAMES))
def test_a_named_secret_is_hidden_wherever_it_stands(value: Any, name: str) -> None:
    for inside in (
        {"a": [value, {name: SECRET}]},
        [{"name": name, "value": SECRET, "other": value}],
        {"deep": {"deeper": [{"x": {name: [SECRET, {"y": SECRET}]}}]}},
        {"text": f'{{"{name.rsplit("/")[-1]}": "{SECRET}"}}'} if "passw" in name else {},
    ):
        assert SECRET not in json.dumps(redact(inside))


@given(
    key=st.binary(min_size=16, max_size=16),
    around=st.text(string.ascii_letters + " :,", max_size=9),
)
def test_a_cephx_key_is_hidden_in_any_text(key: bytes, around: str) -> None:
    # type 1, created (8 bytes), length 16, then the key (src/auth/Crypto.cc, CryptoKey::encode).
    text = base64.b64encode(b"\x01\x00" + b"\x12\x34\x56\x67" * 2 + b"\x10\x00" + key).decode()
    assert text.startswith("AQ")
    assert len(text) == 40
    assert text not in redact_text(f"{around} {text} {around}")
    assert text not in json.dumps(redact({"caps": [{"entity": around, "note": text}]}))


@given(
    user=st.text(string.ascii_letters, max_size=6),
    password=st.text(string.ascii_letters + string.digits + ":/@!%", min_size=1, max_size=12),
)
def test_credentials_in_urls_are_hidden(user: str, password: str) -> None:
    password = f"{SECRET}{password}"
    told = redact_text(f"see https://{user}:{password}@registry.example:5000/x for more")
    assert SECRET not in told
    assert "registry.example:5000/x for more" in told


@pytest.mark.parametrize(
    "text",
    [
        f"password={SECRET}", f"token: {SECRET}", f'{{"admin_secret": "{SECRET}"}}',
        f"https://host/x?access_token={SECRET}&y=1", f"Authorization: Bearer {SECRET}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
    ],
)  # fmt: skip
def test_secrets_in_texts_are_hidden(text: str) -> None:
    assert SECRET not in redact_text(text)


@given(JSON)
def test_it_is_idempotent_and_keeps_the_shape(value: Any) -> None:
    once = redact(value)
    assert redact(once) == once
    assert _shape(once) == _shape(value)


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(one) for key, one in value.items()}
    return [_shape(one) for one in value] if isinstance(value, list) else None


@given(st.binary(max_size=200))
def test_what_is_no_json_is_redacted_as_text_and_never_fails(content: bytes) -> None:
    again = redact_dump(redact_dump(content))
    assert again == redact_dump(content)
    assert SECRET.encode() not in redact_dump(content + f" password={SECRET} ".encode())


@pytest.mark.parametrize("name", ["ceph-multi-az", "ceph-single-az", "ceph-autoscaler-on"])
def test_dumps_without_secrets_stay_byte_for_byte(name: str) -> None:
    for file, content in dumps_of(name).items():
        assert redact_dump(content) == content, file


def test_the_names_of_profiles_hide_nothing() -> None:
    profiles = {"erasure_code_profiles": {"secret": {"k": "2", "m": "1", "token": SECRET}}}
    marker = Reason.SECRET_NAME.marker
    assert redact(profiles) == {
        "erasure_code_profiles": {"secret": {"k": "2", "m": "1", "token": marker}}
    }


def test_that_a_secret_is_not_set_may_be_seen() -> None:
    unset = {"name": "rgw_keystone_admin_password", "value": ""}
    assert redact(unset) == unset
