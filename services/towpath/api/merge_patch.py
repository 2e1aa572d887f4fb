"""JSON merge patch: a document that says what of another one changes (RFC 7396)."""

from __future__ import annotations

from typing import Any


def merge(target: Any, patch: Any) -> Any:
    """`target` with `patch` applied: objects member by member, null takes a member away.

    Anything but an object takes the target's place, lists too. Neither argument is changed.
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged
