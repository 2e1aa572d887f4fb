"""Turn pydantic's findings into errors of Towpath: all at once, each in the document's own words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from towpath.composition.paths import in_brackets
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError


def all_at_once(errors: Sequence[ErrorDetail], what: str = "the description") -> TowpathError:
    """Return one error that carries all of them. A single error is returned as it is."""
    first = errors[0]
    if len(errors) == 1:
        return TowpathError.of(first.model_copy(update={"errors": [first]}))
    alike = {error.code for error in errors}
    code = first.code if len(alike) == 1 else ErrorCode.INVALID
    places = ", ".join(dict.fromkeys(error.field for error in errors if error.field))
    return TowpathError(code, f"{len(errors)} errors in {what}: {places}", errors=errors)


def violations(error: ValidationError, document: Any) -> list[ErrorDetail]:
    """Return one error for each place of `document` that pydantic found wrong."""
    found: dict[str, ErrorDetail] = {}
    for problem in error.errors(include_url=False):
        missing = problem["type"] == "missing"
        place = document_path(problem["loc"], document, missing=missing)
        detail = _detail(problem, place)
        former = found.get(place)
        if former is not None and detail.message not in former.message:
            # Branches of a union: each says why the value does not fit it.
            detail = former.model_copy(update={"message": f"{former.message}; or: {detail.message}"})
        found[place] = detail
    return [*found.values()]


def document_path(location: tuple[int | str, ...], document: Any, *, missing: bool = False) -> str:
    """Return the path in a document of what pydantic calls `location`.

    Pydantic also names the branch of a union, such as the kind of an operator. A document has no such level.
    A missing field is named although the document does not have it.
    """
    parts: list[int | str] = []
    node = document
    for number, part in enumerate(location):
        if _has(node, part):
            parts.append(part)
            node = node[part]
        elif missing and number == len(location) - 1:
            parts.append(part)
    return in_brackets(parts)


def _has(node: Any, part: int | str) -> bool:
    if isinstance(node, dict):
        return part in node
    return isinstance(node, list) and isinstance(part, int) and part < len(node)


def _detail(problem: Mapping[str, Any], place: str) -> ErrorDetail:
    context = problem.get("ctx") or {}
    allowed = context.get("expected") or context.get("expected_tags") or context.get("pattern")
    tag_is_wrong = problem["type"] in ("union_tag_invalid", "union_tag_not_found")
    value = problem.get("input")
    if not isinstance(value, str | int | float | bool | None):
        value = None
    if problem["type"] == "union_tag_invalid":
        place, value = f"{place}.kind", context.get("tag")
    return ErrorDetail(
        code=ErrorCode.UNKNOWN_OPERATOR if tag_is_wrong else ErrorCode.INVALID,
        message=problem["msg"].removeprefix("Value error, "),
        field=place or None,
        value=value,
        allowed=allowed,
    )
