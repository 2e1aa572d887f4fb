"""Amounts as people write them: `1 GB`, `1.4 GHz`, `5 %`. Models keep them as plain numbers."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

BYTES = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
"""Unit → bytes. `GB` is decimal and `GiB` binary, as ISO/IEC 80000-13 has them."""

HERTZ = {"hz": 1e-9, "khz": 1e-6, "mhz": 1e-3, "ghz": 1.0}
"""Unit → gigahertz."""

_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z%]*)\s*")


def bytes_of(value: Any) -> Any:
    """Return a text such as `1 GB` as a number of bytes, and anything else as it is. Raises `ValueError`."""
    return _round(_amount(value, BYTES, "512 MB, 1 GB or 2 GiB")) if isinstance(value, str) else value


def gigahertz_of(value: Any) -> Any:
    """Return a text such as `1.4 GHz` as gigahertz, and anything else as it is. Raises `ValueError`."""
    return _amount(value, HERTZ, "900 MHz or 1.4 GHz") if isinstance(value, str) else value


def share_of(value: Any) -> Any:
    """Return a text such as `5 %` as a share of 1, and anything else as it is. Raises `ValueError`."""
    return _amount(value, {"%": 0.01}, "5 % or 0.05") if isinstance(value, str) else value


def _amount(text: str, units: dict[str, Any], like: str) -> float:
    found = _AMOUNT.fullmatch(text)
    factor = units.get(found[2].lower()) if found and found[2] else 1 if found else None
    if found is None or factor is None:
        raise ValueError(f"{text!r} is not an amount such as {like}")
    amount = float(found[1]) * factor
    if not math.isfinite(amount):
        raise ValueError(f"{text!r} is too large")
    return amount


def _round(amount: float) -> int:
    return round(amount)


Bytes = Annotated[int, BeforeValidator(bytes_of), Field(ge=0)]
"""Bytes. A text may have a unit."""

Gigahertz = Annotated[float, BeforeValidator(gigahertz_of), Field(gt=0)]
"""Clock rate in GHz. A text may have a unit."""

Share = Annotated[float, BeforeValidator(share_of), Field(ge=0, le=1)]
"""Share of a whole, from 0 to 1. A text may be a percentage."""


def bytes_text(amount: int) -> str:
    """Return bytes for people: `1.5 GB`."""
    for unit in ("TB", "GB", "MB", "kB"):
        factor = BYTES[unit.lower()]
        if amount >= factor:
            return f"{amount / factor:.3g} {unit}"
    return f"{amount} B"
