"""Numbers in the sentences of layers."""

from __future__ import annotations


def percent(share: float) -> str:
    """`4 %`, `0.3 %`, `120 %`."""
    value = share * 100
    return f"{value:.0f} %" if abs(value) >= 9.95 or value == round(value) else f"{value:.1f} %"
