from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.connect.kubernetes.objects import (
    MANAGED_BY,
    RUN,
    TARGET,
    TOKEN,
    dns_label,
    label_value,
    labels_of,
    new_token,
    selector,
)

# What an API server takes (apimachinery, validation.IsValidLabelValue and IsDNS1123Label).
VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@given(st.text(max_size=100))
def test_any_text_is_made_a_value_that_an_api_server_takes(text: str) -> None:
    value = label_value(text)
    assert VALUE.fullmatch(value)
    assert 0 < len(value) <= 63
    assert label_value(value) == value


@given(st.text(max_size=100), st.integers(1, 63))
def test_any_text_is_made_a_name_that_an_api_server_takes(text: str, most: int) -> None:
    name = dns_label(text, most)
    assert NAME.fullmatch(name)
    assert len(name) <= max(most, len("leadline"))


@given(st.text(max_size=80))
def test_what_a_run_makes_is_found_by_its_selector_and_by_that_of_all(run: str) -> None:
    labels = labels_of(run, new_token(), 3)
    assert selector(run).items() <= labels.items()
    assert selector().items() <= labels.items()
    assert labels[TARGET] == "3"


def test_long_names_keep_their_beginning() -> None:
    run = "perf-20261121-193540-k3f9x-" + "x" * 80
    assert label_value(run).startswith("perf-20261121-193540-k3f9x-x")


def test_tokens_differ_and_are_values() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(VALUE.fullmatch(token) for token in tokens)


@pytest.mark.parametrize("key", [MANAGED_BY, RUN, TOKEN, TARGET])
def test_keys_are_such(key: str) -> None:
    prefix, _, name = key.rpartition("/")
    assert all(NAME.fullmatch(part) for part in prefix.split("."))
    assert VALUE.fullmatch(name)
