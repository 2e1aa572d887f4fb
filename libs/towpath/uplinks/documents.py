"""Read uplinks from YAML or JSON. Every error has its place, and all are told at once."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from towpath.composition.texts import load_all
from towpath.composition.violations import all_at_once, violations
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.uplink import UplinkSpec


def read_uplinks(text: str) -> list[UplinkSpec]:
    """Return the uplinks of a text: one, several documents, or a list under `uplinks`.

    Raises `TowpathError` with all errors in `detail.errors`.
    """
    found: list[UplinkSpec] = []
    errors: list[ErrorDetail] = []
    for content in _contents(load_all(text)):
        try:
            found.append(UplinkSpec.model_validate(content))
        except ValidationError as error:
            errors += violations(error, content)
    names = [each.name for each in found]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        message = "two uplinks have this name"
        errors.append(ErrorDetail(code=ErrorCode.NAME_IN_USE, message=message, field="name", value=name))
    if errors:
        raise all_at_once(errors, "the uplinks")
    if not found:
        allowed = "one uplink, several documents, or `uplinks:`"
        raise TowpathError(ErrorCode.INVALID, "no uplink in this file", allowed=allowed)
    return found


def _contents(documents: list[Any]) -> list[Any]:
    contents: list[Any] = []
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("uplinks"), list):
            contents += document["uplinks"]
        elif document is not None:
            contents.append(document)
    return contents
