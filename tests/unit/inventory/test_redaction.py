"""Secrets never stay in a dump, and nothing else is lost from it."""

from __future__ import annotations

import base64
import json
import re
import string
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leadline.archive import records
from leadline.inventory.redaction import (
    Reason,
    may_hold_secret,
    redact,
    redact_document,
    redact_text,
    secret_name,
)
from leadline.plan import models as plans
from tests.conftest import ROOT
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


# Pieces of secrets, and what is between them in output of fio.
PIECES = (
    *("AQ", "Ag", "A" * 36, "B" * 57, "=", "==", "://", "u:p@h", "?sig=", "&token=", "Bearer "),
    *(
        "eyJabcdefgh.",
        "AKIA",
        "ABCDEFGHIJKLMNOP",
        "ghp_",
        "hvs.",
        "PASSWORD=",
        "Key: ",
        "\u212aEY=",
    ),
    *(
        "--pass ",
        "-----BEGIN PRIVATE KEY-----",
        "authorization: ",
        " ",
        "\n",
        ">=64",
        "bw_agg",
        "1",
    ),
)


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_the_quick_search_misses_no_secret(text: str) -> None:
    if redact_text(text) != text:
        assert may_hold_secret(text.encode())


@given(JSON)
def test_the_quick_search_misses_no_name(value: Any) -> None:
    if redact(value) != value:
        assert may_hold_secret(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


@pytest.mark.parametrize("name", [*NAMES, "multicluster", "managed"])
def test_the_quick_search_finds_every_name(name: str) -> None:
    assert may_hold_secret(f'{{"{name.upper()}": "{SECRET}"}}'.encode())


def test_output_of_fio_holds_nothing_that_looks_like_a_secret() -> None:
    """Else each file of an import is searched word by word: five times the time of parsing it."""
    for path in sorted((ROOT / "tests/recorded/imports/fio-json").glob("*.json")):
        content = path.read_bytes()
        assert b">=64" not in content or not may_hold_secret(content), path.name


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
@example(b"\0\1" + b"\0" * 10)
def test_what_is_no_json_is_redacted_as_text_and_never_fails(content: bytes) -> None:
    again = redact_document(redact_document(content))
    assert again == redact_document(content)
    assert SECRET.encode() not in redact_document(content + f" password={SECRET} ".encode())


@pytest.mark.parametrize("name", ["ceph-multi-az", "ceph-single-az", "ceph-autoscaler-on"])
def test_dumps_without_secrets_stay_byte_for_byte(name: str) -> None:
    for file, content in dumps_of(name).items():
        assert redact_document(content) == content, file


def test_the_names_of_profiles_hide_nothing() -> None:
    profiles = {"erasure_code_profiles": {"secret": {"k": "2", "m": "1", "token": SECRET}}}
    marker = Reason.SECRET_NAME.marker
    assert redact(profiles) == {
        "erasure_code_profiles": {"secret": {"k": "2", "m": "1", "token": marker}}
    }


def test_that_a_secret_is_not_set_may_be_seen() -> None:
    unset = {"name": "rgw_keystone_admin_password", "value": ""}
    assert redact(unset) == unset


# Text of any length costs time in proportion: patterns that begin often must not read on far.
HOSTILE = (
    "a://b:", "password=", 'password=\\"', '"name": "password", ', "eyJ", "token ", "--secret ",
    "-----BEGIN PRIVATE KEY-----", "authorization: ", "?key=", "Bearer ", "secret: |\n  a\n",
    "AQAQAQ=", '"value": "', "\\", "x=", "{", "[\n", '{"a":\n', '"token": "', "password = ",
    "aaaaaaa",
)  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_time_grows_with_the_length_only(piece: str) -> None:
    def taken_s(size: int) -> float:
        content = (piece * (size // len(piece))).encode()
        begin = time.process_time()
        redact_document(content)
        return time.process_time() - begin

    long = taken_s(160_000)
    if long > 0.05:  # less is lost in noise
        short = min(taken_s(40_000) for _ in range(3))
        if long >= 9 * short:  # a disturbance, if it does not take as long again
            long = min(taken_s(160_000) for _ in range(3))
        # Quadratic would be 16; the sizes are beyond every bound of a pattern.
        assert long < 9 * short + 0.05


@given(value=JSON, name=st.sampled_from(NAMES), indent=st.sampled_from([None, 0, 3]))
def test_a_document_is_edited_where_a_secret_is(value: Any, name: str, indent: int | None) -> None:
    """The text changes in no other place, and its JSON is what `redact` makes of it."""
    document = {"first": value, "inner": {name: SECRET, "n": 1.50}, "last": [value]}
    written = json.dumps(document, indent=indent, ensure_ascii=False)
    content = written.encode("utf-8", "surrogatepass")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:  # a lone surrogate is no UTF-8: damaged, and so text
        assert SECRET.encode() not in redact_document(content)
        return
    clean = redact_document(content)
    assert SECRET.encode() not in clean
    assert json.loads(clean) == redact(document)
    assert redact_document(clean) == clean
    if redact(value) == value:
        assert clean == re.sub(rf'"{SECRET}"'.encode(), _marked(clean), content)


def _marked(clean: bytes) -> bytes:
    found = re.search(rb'"\[redacted:[a-z-]+\]"', clean)
    assert found
    return found[0]


@pytest.mark.parametrize(
    "text",
    [
        f'{{"token": "{SECRET}", "token": "second{SECRET}", "n": [1, 2.50, -3e4, true, null]}}',
        f'{{"a": {{"b": [], "c": {{}}, "password": 7{"1" * 400}, "password": "{SECRET}"}}}}',
        f'messages\n{{"password":\n "{SECRET}"}}\nmore\n[{{"name": "token", "value": "{SECRET}"}}]',
        f'{{"n": 1}}\n{{"n": 2, "password": "{SECRET}"}}\n{{"n": 3}}\n',
        f'{{"name": "rgw_opa_token", "level": "x", "value": "{SECRET}"',
        f'[{{"name": "api_key",\n  "value": "{SECRET}"}},\n {{"name": "x"',
        f'{{"env": "password: |\\n  {SECRET}\\n  {SECRET}\\nnext: 1"}}',
        f'["--password", "{SECRET}", "--keyring", "/etc/ceph/k"]',
    ],
)  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_secrets_in_documents(text: str, encoding: str) -> None:
    content = text.encode(encoding)
    clean = redact_document(content).decode(encoding)
    assert SECRET not in clean
    assert (
        re.sub(r"\W|redacted:[a-z-]+", "", clean)
        in re.sub(rf"\W|(second)?{SECRET}|71{{400}}", "", text)
        or "|" in text
    )
    assert redact_document(clean.encode(encoding)).decode(encoding) == clean


@pytest.mark.parametrize(
    "text",
    [
        "https://registry.example:5000/ceph/ceph@sha256:" + "a" * 64,
        "docker://quay.example/ceph@v1", "ssh://root@host/dir", "mailto:a@b",
        "sha256:" + "0123456789abcdef" * 4, "c5ade001-f742-734a-b1b4-9747aa737d19",
        "wwn-0x5000c500a1b2c3d4", "nvme-eui.0025385b91b0a1b2", "/dev/disk/by-id/scsi-SATA_AQ1234",
        "Basic information of the device", "the secret is out", "max_tokens = 16",
        "keyring = /etc/ceph/keyring", "ssl_key = /etc/ceph/tls/rgw.pem", "primary key: 5",
        "token_ttl: 3600", "secretName: rook-csi-rbd-node", "csi/node-stage-secret-name: x",
        "secret_file: /run/secret", "auth_client_required = cephx, none", "key: value",
        "password:", "password = false", "topologyKey: kubernetes.io/hostname", "tokens/s: 12.5",
        "md5 auth: on", "certificate: expired", "public_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5",
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_and_is_none(text: str) -> None:
    assert redact_text(text) == text
    assert redact({"note": text, "list": [text]}) == {"note": text, "list": [text]}


def test_fields_of_the_archives_own_records_are_no_secrets() -> None:
    """`encode` redacts records by name; the journal alone, with its tokens, is not encoded so."""
    models = [one for one in vars(records).values() if isinstance(one, type)]
    models = [one for one in models if issubclass(one, records.Record)]
    models += [one for one in vars(plans).values() if isinstance(one, type)
               if issubclass(one, plans.Model)]  # fmt: skip
    named = {
        (model.__name__, field)
        for model in models
        for field in model.model_fields
        if secret_name(field)
    }
    assert named == {("Created", "token")}
    assert len(models) > 30
