"""Kubernetes' quantities: `500m`, `16Gi`, `4`, `1e3`.

Source: the serialisation that k8s.io/apimachinery/pkg/api/resource describes.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

_QUANTITY = re.compile(r"([+-]?[0-9.]+)(?:([eE][+-]?[0-9]{1,3})|([numkMGTPE]i?|Ki))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# Nothing of a cluster comes near this many bytes; what is larger is no quantity but a mistake.
_LARGEST = Decimal(1 << 80)


def parse_quantity(text: str) -> float | None:
    """The number that a quantity stands for; None for text that is none."""
    matched = _QUANTITY.fullmatch(text.strip())
    if matched is None:
        return None
    digits, exponent, suffix = matched.groups()
    try:
        number = Decimal(digits + (exponent or ""))
    except InvalidOperation:
        return None
    if suffix in _BINARY:
        number *= 1 << _BINARY[suffix]
    elif suffix in _DECIMAL:
        number *= Decimal(10) ** _DECIMAL[suffix]
    elif suffix:
        return None
    return float(number) if abs(number) <= _LARGEST else None
