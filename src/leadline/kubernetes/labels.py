"""What Leadline makes in a cluster carries these labels, and nothing else is ever removed."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping

MANAGED_BY = "app.kubernetes.io/managed-by"
LEADLINE = "leadline"
RUN = "leadline/run"
# Proof that an object is the one that the run's journal speaks of.
TOKEN = "leadline/token"
TARGET = "leadline/target"


def labels_of(run: str, token: str, target: int | None = None) -> Mapping[str, str]:
    """Labels of what a run makes; `target` is the number of the plan's target that it is for."""
    given = {MANAGED_BY: LEADLINE, RUN: label_value(run), TOKEN: token}
    return given if target is None else {**given, TARGET: str(target)}


def selector(run: str | None = None) -> dict[str, str]:
    """Labels of everything that is Leadline's, or of what one run made."""
    return {MANAGED_BY: LEADLINE} | ({RUN: label_value(run)} if run else {})


def label_value(text: str) -> str:
    """A text as the value of a label: at most 63 characters of its alphabet, the first and last
    of them letters or digits. Long run names keep their beginning, which holds their time."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:63].strip("-_.") or "unnamed"


def dns_label(text: str, most: int = 63) -> str:
    """A text as the name of an object."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:most].strip("-") or LEADLINE


def new_token() -> str:
    return secrets.token_hex(8)
