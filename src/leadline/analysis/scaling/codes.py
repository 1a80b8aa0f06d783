"""Codes of what `leadline scale` finds, which no rule of the audit does."""

from __future__ import annotations

SUPERLINEAR = "superlinear-scaling"
# Each has a page beside those of the rules, docs/rules/CODE.md.
FOUND_BY_SCALE = {SUPERLINEAR: "Throughput grew by more than the hardware that was added."}
